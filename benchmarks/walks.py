"""How much of this package one call goes through: calls, functions, files, and frames on top of each other.

    python benchmarks/walks.py [NAME ...] [--functions]

Counts the whole of a warm call (the second one, on one thread, of generated data) with `sys.setprofile`: frames of this
package's named functions alone, without other libraries and compiled kernels, for which numba reports frames too.
Comprehensions, generator expressions and lambdas count as part of the function that they stand in, so that every Python
prints the same: from 3.12 on most comprehensions have no frame. --functions prints what was called, and how often.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

os.environ["HINGERANK_NUM_THREADS"] = "1"

import hingerank as hr
from hingerank.kernels.compiled import CompiledKernel

PACKAGE = str(Path(hr.__file__).resolve().parent) + os.sep


@dataclass
class Walk:
    """What one call went through: how often each (file, function, line) was called, and the greatest depth."""

    calls: Counter = field(default_factory=Counter)
    depth: int = 0

    @property
    def functions(self) -> int:
        return len(self.calls)

    @property
    def files(self) -> int:
        return len({file for file, _, _ in self.calls})

    def __str__(self) -> str:
        return f"{self.calls.total():6d} calls {self.functions:4d} functions {self.files:3d} files {self.depth:3d} deep"


def walk(act: Callable[[], object]) -> Walk:
    """The frames of this package's functions in a call that was made once before."""
    act()
    found, own, depth = Walk(), dict[str, str | None](), 0
    ours = [module for name, module in list(sys.modules.items()) if name.startswith("hingerank")]
    kernels = [each for module in ours for each in vars(module).values() if isinstance(each, CompiledKernel)]
    compiled = {(code.co_filename, code.co_name) for code in (kernel.py_func.__code__ for kernel in kernels)}

    def watch(frame, event, _):
        nonlocal depth
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_filename not in own:
            path = str(Path(code.co_filename).resolve())
            own[code.co_filename] = path.removeprefix(PACKAGE) if path.startswith(PACKAGE) else None
        if (file := own[code.co_filename]) is None or code.co_name.startswith("<"):
            return
        if (code.co_filename, code.co_name) in compiled:
            return
        depth += 1 if event == "call" else -1
        if event == "call":
            found.calls[file, code.co_qualname, code.co_firstlineno] += 1
            found.depth = max(found.depth, depth)

    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


def walks(folder: Path, names: list[str]) -> dict[str, Walk]:
    """Those of these names; of all where there are none."""
    from hingerank.cli import main as command

    data, ratings = hr.make_letor(30, seed=0), hr.make_personal(20, 60, kind="ratings", per_user=20, seed=0)
    scores, rated = data.X[:, 0], (ratings.item_features, ratings.users, ratings.items, ratings.ratings)
    hr.write(data, folder / "data.txt")
    text, model, run = str(folder / "data.txt"), f"{folder}/model/", f"{folder}/run"
    runs = iter(range(9))  # a folder each: a comparison continues one that is there
    usual = ["--methods", "rank-svm", "--folds", "3"]
    calls = {
        "RankSVM.fit": lambda: hr.RankSVM().fit(data),
        "evaluate": lambda: hr.evaluate(data.y, scores, data.qid, ["ndcg@10", "map"]),
        "PersonalRankSVM.fit": lambda: hr.PersonalRankSVM(random_state=0).fit(*rated),
        "tune": lambda: hr.tune("rank-svm", data),
        "hingerank fit": lambda: command(["fit", text, "-o", model, "--force", "--json"]),
        "hingerank compare": lambda: command(["compare", text, *usual, "-o", f"{run}{next(runs)}/"]),
    }
    return {name: walk(calls[name]) for name in names or calls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to count, default everything")
    parser.add_argument("--functions", action="store_true")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        found = walks(Path(folder), arguments.names)
    for name, each in found.items():
        print(f"{name:20s} {each}")
        if arguments.functions:
            print("".join(f"    {n:6d} {file}: {function}\n" for (file, function, _), n in sorted(each.calls.items())))


if __name__ == "__main__":
    main()
