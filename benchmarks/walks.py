"""How far it is from a call to the kernel that does the work: the frames and files in between.

    python benchmarks/walks.py [--frames]

Walks: `RankSVM.fit`, `hingerank fit`, `hingerank compare`, each on generated data, up to the first value and gradient
of the loss. Only frames of this package count, on one thread; --frames prints them.
"""

import argparse
import os
import sys
import tempfile
import traceback
from pathlib import Path

os.environ["HINGERANK_NUM_THREADS"] = "1"


class Seen(Exception):
    """The kernel was reached."""


def walk(act) -> list[tuple[str, str]]:
    """(file, function) of every frame of the package between `act` and the kernel."""
    from hingerank.problem import problem

    found: list[tuple[str, str]] = []
    kernel = problem.fused_loss_pass

    def reached(*arguments):
        if not found:
            frames = [f for f in traceback.extract_stack()[:-1] if "/hingerank/" in f.filename.replace(os.sep, "/")]
            found.extend((f.filename.replace(os.sep, "/").rpartition("/hingerank/")[2], f.name) for f in frames)
        return kernel(*arguments)

    problem.fused_loss_pass = reached
    try:
        act()
    finally:
        problem.fused_loss_pass = kernel
    return [*found, ("kernels/sweeps.py", "fused_loss_pass")]


def walks(folder: Path) -> dict[str, list[tuple[str, str]]]:
    import hingerank as hr
    from hingerank.cli import main as command

    data = hr.make_letor(30, seed=0)
    hr.write(data, folder / "data.txt")
    text, model, run = str(folder / "data.txt"), f"{folder}/model/", f"{folder}/run/"
    calls = {
        "RankSVM.fit": lambda: hr.RankSVM().fit(data),
        "hingerank fit": lambda: command(["fit", text, "-o", model, "--json"]),
        "hingerank compare": lambda: command(["compare", text, "--methods", "rank-svm", "--folds", "3", "-o", run]),
    }
    return {name: walk(call) for name, call in calls.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frames", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        shown, sys.stdout = sys.stdout, nowhere
        try:
            found = walks(Path(folder))
        finally:
            sys.stdout = shown
    for name, frames in found.items():
        print(f"{name:20s} {len(frames) - 1:3d} hops {len({file for file, _ in frames}):3d} files")
        if arguments.frames:
            print("".join(f"    {file}: {function}\n" for file, function in frames))


if __name__ == "__main__":
    main()
