"""How long a newcomer waits: importing, the first fit and score, `hingerank warmup` and the demo, cold and warm.

    python benchmarks/startup.py [--repeats 3] [--quick] [--json]

Every figure is that of a new Python process, as wall time and as processor time, which a busy machine disturbs less;
the score's, and that of the fit "beyond the libraries", are of the part of a process that comes after the fit, and
after importing numpy, numba and scikit-learn. "Cold" begins with an empty cache of compiled kernels. "With its end" is
the median, over pairs of whole processes by turns, of what one that fits takes longer than one that imports those
libraries alone: it also counts what Python tidies up at its end, and the libraries' garbage that falls due with the
next objects. Everything is byte-compiled first, as an installer would. --quick leaves out the warm-up and the demo.
"""

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"

LIBRARIES = "import numpy, numba, sklearn.base"
# Arrays come from numpy here, so that only the import and the fit itself are timed.
FIT = """
import numpy as np
import hingerank
rng = np.random.default_rng(0)
X = rng.random((400, 20)).astype(np.float32)
y, qid = np.floor(3 * rng.random(400)), np.repeat(np.arange(20), 20)
ranker = hingerank.RankSVM(C=0.01).fit(X, y, qid)
"""
TIMED = """
import time
wall, used = time.perf_counter(), time.process_time()
{}
print(time.perf_counter() - wall, time.process_time() - used)
"""
SCORE = FIT + TIMED.format("ranker.score(X, y, qid)")
REST = LIBRARIES + TIMED.format(FIT)
COMMAND = "from hingerank.cli import main; main({arguments!r})"

GOALS = {
    "first fit, cold": 6.0,
    "first score after it, cold": 1.5,
    "first fit, warm, beyond the libraries": 0.3,
    "hingerank warmup, cold": 60.0,
}
Seconds = tuple[float, float]


def seconds(code: str, environment: dict[str, str], folder: str) -> Seconds:
    """Wall and processor time of a new process that runs `code`, or of the part of it that `code` times itself."""
    before, started = os.times(), time.perf_counter()
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, check=True, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True).stdout
    wall, after = time.perf_counter() - started, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return tuple(map(float, printed.split())) if code in (SCORE, REST) else (wall, used)


def minus(a: Seconds, b: Seconds) -> Seconds:
    return a[0] - b[0], a[1] - b[1]


def measure(repeats: int, quick: bool) -> dict[str, Seconds]:
    """(wall, processor) seconds by name: the best of `repeats`, of two for the warm-up, of one for the demo."""
    compileall.compile_dir(str(SOURCE), quiet=1)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(SOURCE)
    with tempfile.TemporaryDirectory() as folder:
        caches = iter(range(10**6))

        def cold(code: str) -> Seconds:
            environment["NUMBA_CACHE_DIR"] = str(Path(folder) / f"cache {next(caches)}")
            return seconds(code, environment, folder)

        def best(action, code: str, repeats: int = repeats) -> Seconds:
            rounds = [action(code) for _ in range(repeats)]
            return min(wall for wall, _ in rounds), min(used for _, used in rounds)

        def warm(code: str) -> Seconds:
            return seconds(code, environment, folder)

        warm(LIBRARIES)  # byte-compiles the libraries and fills the system's file cache
        python, package = best(warm, "pass"), best(warm, "import hingerank")
        fit, score = best(cold, FIT), best(cold, SCORE)
        pairs = [(warm(LIBRARIES), warm(FIT)) for _ in range(5 * repeats)]  # by turns: their difference is small
        rest = [warm(REST) for _ in range(5 * repeats)]
        libraries, again = (tuple(map(min, zip(*side))) for side in zip(*pairs))
        beyond = tuple(map(statistics.median, zip(*rest)))
        whole = tuple(map(statistics.median, zip(*(minus(fit, alone) for alone, fit in pairs))))
        found = {
            "python itself": python,
            "import hingerank, beyond python": minus(package, python),
            "import numpy, numba, scikit-learn, beyond python": minus(libraries, python),
            "first fit, cold": fit,
            "first score after it, cold": score,
            "first fit, warm": again,
            "first fit, warm, beyond the libraries": beyond,
            "first fit, warm, beyond the libraries, with its end": whole,
        }
        if not quick:
            found["hingerank warmup, cold"] = best(cold, COMMAND.format(arguments=["warmup"]), 2)
            found["hingerank demo, cold"] = cold(COMMAND.format(arguments=["demo"]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.repeats, arguments.quick)
    if arguments.json:
        print(json.dumps({name: dict(zip(("wall", "processor"), both)) for name, both in found.items()}, indent=2))
        return
    print(f"{'seconds':52s} {'wall':>9s} {'processor':>11s} {'goal':>7s}")
    for name, (wall, used) in found.items():
        goal = GOALS.get(name)
        verdict = "" if goal is None else f" {goal:7.1f}  {'met' if wall <= goal else 'NOT met'}"
        print(f"{name:52s} {wall:9.3f} {used:11.3f}{verdict}")


if __name__ == "__main__":
    main()
