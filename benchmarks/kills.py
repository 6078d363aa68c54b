"""Kill commands with SIGKILL at every moment: nothing is lost or taken for whole, and the next run leaves no litter.

    python benchmarks/kills.py --moments 40 --random 200

A command is run in a fork of this process, which kills itself just before the n-th time that it opens, renames or
removes something in its folder; or it is killed from outside after a random time.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hingerank as hr
from hingerank.cli.app import run
from hingerank.data import fetching
from hingerank.data.files import SCRATCH
from hingerank.lab.results import load_results

CHANGES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "os.truncate")
KERNEL = """
from hingerank.kernels.compiled import kernel

@kernel
def double(x, out):
    for i in range(len(x)):
        out[i] = 2 * x[i]
"""


@dataclass
class Command:
    """`work` is done inside the folder; `state` tells what is there: "nothing", "old", "new", or it raises."""

    name: str
    work: Callable[[], int]
    state: Callable[[], str]
    prepare: Callable[[], object] = lambda: None


def rows(seed: int) -> Any:
    return hr.make_letor(6, 5, 3, seed=seed)


def commands() -> list[Command]:
    """Every command that writes, as it is used inside a folder with rows.txt and model.safetensors."""
    return [
        Command("convert to a folder", lambda: run(["convert", "rows.txt", "out/", "--force"]), lambda: _rows("out"),
                lambda: hr.write(rows(1), "out/")),
        Command("convert to text", lambda: run(["convert", "rows.txt", "out.txt.gz", "--force"]),
                lambda: _rows("out.txt.gz"), lambda: hr.write(rows(1), "out.txt.gz")),
        Command("convert to a table", lambda: run(["convert", "rows.txt", "out.csv", "--force"]),
                lambda: _rows("out.csv"), lambda: hr.write(rows(1), "out.csv")),
        Command("fit", lambda: run(["fit", "rows.txt", "--model", "rank-svm", "-o", "out.safetensors", "--force"]),
                _model, lambda: shutil.copy("model.safetensors", "out.safetensors")),
        Command("compare", _compare, _results),
        Command("report", lambda: run(["report", "run"]), _page, _compare),
        Command("fetch", _fetch, _fetched),
        Command("warmup of a kernel", _kernel, _compiled, lambda: Path("some_kernel.py").write_text(KERNEL)),
    ]  # fmt: skip


def _rows(path: str) -> str:
    if not os.path.exists(path):
        return "nothing"
    data = hr.read(path)
    for seed, name in ((0, "new"), (1, "old")):
        if np.allclose(data.X, rows(seed).X, rtol=1e-6) and np.array_equal(data.y, rows(seed).y):
            return name
    raise AssertionError(f"{path} holds something else")


def _model() -> str:
    same = np.array_equal(hr.load("out.safetensors").coef_, hr.load("model.safetensors").coef_)
    return "old" if same else "new"


def _compare() -> int:
    words = ["compare", "rows.txt", "--methods", "rank-svm", "--folds", "3", "--workers", "1"]
    return run([*words, "-o", "run"])


def _results() -> str:
    if not os.path.exists("run/run.json"):
        return "nothing"
    results = load_results("run")
    assert not results.failures()
    for record in results.tests("rank-svm"):
        assert results.arrays("rank-svm", record["fold"])["scores"].size
    whole = len(results.tests("rank-svm")) == 3 and os.path.exists("run/leaderboard.csv")
    return "new" if whole else "old"


def _page() -> str:
    page = Path("run/report.html")
    if not page.exists():
        return "nothing"
    assert page.read_text("utf-8").rstrip().endswith("</html>")
    return "new"


def _fetch() -> int:
    with zipfile.ZipFile("toy.zip", "w") as file:
        for number in range(3):
            file.writestr(zipfile.ZipInfo(f"toy/part{number}.txt"), f"{number}\n" * 100)  # the same bytes at any time
    entry = fetching.PublicSet("toy", "a toy", "free", "http://toy", "toy.zip")
    fetching.PUBLIC_SETS["toy"] = entry
    fetching.fetch("toy", "cache", source="toy.zip")
    return 0


def _fetched() -> str:
    if not os.path.exists("cache/toy"):
        return "nothing"
    assert sorted(os.listdir("cache/toy")) == [f"part{number}.txt" for number in range(3)]
    assert all(Path(f"cache/toy/part{n}.txt").read_text() == f"{n}\n" * 100 for n in range(3))
    return "new"


def _kernel() -> int:
    sys.path.insert(0, os.getcwd())
    import some_kernel  # type: ignore[import-not-found]

    out = np.zeros(3)
    some_kernel.double(np.arange(3.0), out)
    return 0 if out.tolist() == [0, 2, 4] else 1


def _compiled() -> str:
    return "new" if list(Path("__pycache__").glob("*.nbc")) else "nothing"


# ---- killing ------------------------------------------------------------------------------------------------------


def in_fork(work: Callable[[], int], folder: Path, moment: int = 0, seconds: float = 0.0) -> tuple[int, int]:
    """(exit status, changes seen) of `work` in a fork; killed before change number `moment`, or after `seconds`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _silence()
            os.chdir(folder)
            count = _count(folder, moment)
            status = work()
            os.write(writer, len(count).to_bytes(4, "little"))
            os._exit(status)
        finally:
            os._exit(70)
    os.close(writer)
    if seconds:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(reader, "rb") as file:
        return status, int.from_bytes(file.read(4), "little")


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115


def _count(folder: Path, moment: int) -> list[str]:
    """The changes in the folder so far, a list that grows; the process dies before change number `moment`."""
    seen: list[str] = []

    def hook(event: str, arguments: tuple) -> None:
        if event in CHANGES and isinstance(arguments[0], str | os.PathLike):
            place = os.path.abspath(os.fspath(arguments[0]))
            if isinstance(place, str) and place.startswith(str(folder)):
                seen.append(event)
                if len(seen) == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return seen


def litter(folder: Path) -> list[str]:
    """What should not be there after a run that came to its end."""
    return [str(path) for path in folder.rglob("*") if path.name.startswith(SCRATCH) or ".tmp" in path.name]


@contextlib.contextmanager
def fresh(command: Command):
    """A folder in which the command can be run."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(os.path.realpath(place))
        before = os.getcwd()
        os.chdir(folder)
        try:
            hr.write(rows(0), "rows.txt")
            hr.RankSVM(C=0.5).fit(rows(1)).save("model.safetensors")
            status, _ = in_fork(lambda: (command.prepare(), 0)[1], folder)
            assert status == 0, f"{command.name} cannot be prepared"
            yield folder
        finally:
            os.chdir(before)


def check(command: Command, moment: int = 0, seconds: float = 0.0) -> str:
    """Kill the command once, look at what is there, run it again; the state that the kill left."""
    with fresh(command) as folder:
        before = command.state()
        in_fork(command.work, folder, moment, seconds)
        state = command.state()
        assert before in ("nothing", "old") or state == before, f"{state} after a kill, {before} before"
        status, _ = in_fork(command.work, folder)
        assert status == 0, f"status {status} after a kill that left {state}"
        assert command.state() == "new", f"{command.state()} in the end"
        assert not litter(folder), f"left {litter(folder)}"
    return state


def moments(command: Command) -> int:
    """How many changes the command makes."""
    with fresh(command) as folder:
        status, count = in_fork(command.work, folder)
        assert status == 0 and count, f"{command.name}: status {status}, {count} changes"
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=40, help="changes to die before, of each command")
    parser.add_argument("--random", type=int, default=50, help="kills after a random time, of each command")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for command in commands():
        chance, started = random.Random(options.seed), time.perf_counter()
        count = moments(command)
        chosen = sorted(chance.sample(range(1, count + 1), min(count, options.moments)))
        states = [check(command, moment) for moment in chosen]
        states += [check(command, seconds=chance.uniform(0.001, 0.6)) for _ in range(options.random)]
        seen = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
        took = time.perf_counter() - started
        print(f"{command.name:22} {count:4} changes, {len(states):4} kills in {took:4.0f} s: {seen}", flush=True)
    print("nothing lost, nothing half-written, no litter after the next run")


if __name__ == "__main__":
    main()
