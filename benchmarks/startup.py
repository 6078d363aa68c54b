"""How long until the first fit: importing, with a cold and with a warm cache of compiled kernels.

    python benchmarks/startup.py [--repeats 3] [--json]

Every figure is that of a new Python process, as wall time and as processor time (which a busy machine disturbs less).
"beyond the libraries" subtracts the time to import numpy, numba and scikit-learn alone, measured in the same run.
Everything is byte-compiled first, as an installer would.
"""

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"

NOTHING = "pass"
LIBRARIES = "import numpy, numba, sklearn.base"
IMPORT = "import hingerank"
# Arrays come from numpy here, so that only the import and the fit itself are timed.
FIT = """
import numpy as np
import hingerank
rng = np.random.default_rng(0)
X = rng.random((400, 20)).astype(np.float32)
y = np.floor(3 * rng.random(400))
hingerank.RankSVM(C=0.01).fit(X, y, np.repeat(np.arange(20), 20))
"""


def seconds(code: str, environment: dict[str, str]) -> tuple[float, float]:
    """Wall and processor time of a new process that runs `code`."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    wall, after = time.perf_counter() - started, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used


def measure(repeats: int) -> dict[str, tuple[float, float]]:
    """(wall, processor) seconds by name: the best of `repeats`, except for the cold fit, which happens once."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compileall.compile_dir(str(SOURCE), quiet=1)
    codes = {"python": NOTHING, "libraries": LIBRARIES, "import": IMPORT, "warm": FIT}
    with tempfile.TemporaryDirectory() as cache:
        environment["NUMBA_CACHE_DIR"] = cache
        for code in (LIBRARIES, IMPORT):  # byte-compiles the libraries and fills the system's file cache
            seconds(code, environment)
        cold = seconds(FIT, environment)
        rounds = [{name: seconds(code, environment) for name, code in codes.items()} for _ in range(repeats)]
    best = {name: tuple(min(one[name][clock] for one in rounds) for clock in (0, 1)) for name in codes}

    def beyond(name: str, base: str) -> tuple[float, float]:
        return best[name][0] - best[base][0], best[name][1] - best[base][1]

    return {
        "python itself": best["python"],
        "import hingerank, beyond python": beyond("import", "python"),
        "import numpy, numba, scikit-learn, beyond python": beyond("libraries", "python"),
        "first fit, cold cache": cold,
        "first fit, warm cache": best["warm"],
        "first fit, warm cache, beyond the libraries": beyond("warm", "libraries"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.repeats)
    if arguments.json:
        print(json.dumps({name: dict(zip(("wall", "processor"), both)) for name, both in found.items()}, indent=2))
        return
    print(f"{'seconds':50s} {'wall':>9s} {'processor':>11s}")
    for name, (wall, used) in found.items():
        print(f"{name:50s} {wall:9.3f} {used:11.3f}")
    wall, _ = found["first fit, warm cache, beyond the libraries"]
    print(f"goal: a warm first fit within 1 s of wall time beyond the libraries: {'met' if wall < 1 else 'NOT met'}")


if __name__ == "__main__":
    main()
