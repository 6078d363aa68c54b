"""How long until the first fit: importing, with a cold and with a warm cache of compiled kernels.

    python benchmarks/startup.py [--repeats 3] [--json]

Every figure is wall time in a new Python process. "beyond the libraries" subtracts the time to import numpy, numba and
scikit-learn alone, measured in the same run. Everything is byte-compiled first, as an installer would.
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


def seconds(code: str, environment: dict[str, str]) -> float:
    """Wall time of a new process that runs `code`."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - started


def measure(repeats: int) -> dict[str, float]:
    """Seconds by name; the median over `repeats`, except for the cold fit, which happens once."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compileall.compile_dir(str(SOURCE), quiet=1)
    with tempfile.TemporaryDirectory() as cache:
        environment["NUMBA_CACHE_DIR"] = cache
        for code in (LIBRARIES, IMPORT):  # byte-compiles the libraries and fills the system's file cache
            seconds(code, environment)
        cold = seconds(FIT, environment)
        rounds = [
            {
                name: seconds(code, environment)
                for name, code in (("python", NOTHING), ("libraries", LIBRARIES), ("import", IMPORT), ("warm", FIT))
            }
            for _ in range(repeats)
        ]
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    return {
        "python itself": middle["python"],
        "import hingerank, beyond python": middle["import"] - middle["python"],
        "import numpy, numba, scikit-learn, beyond python": middle["libraries"] - middle["python"],
        "first fit, cold cache": cold,
        "first fit, warm cache": middle["warm"],
        "first fit, warm cache, beyond the libraries": middle["warm"] - middle["libraries"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.repeats)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name:52s} {value:7.3f} s")
    beyond = found["first fit, warm cache, beyond the libraries"]
    print(f"goal: below 1 s beyond the libraries: {'met' if beyond < 1 else 'NOT met'}")


if __name__ == "__main__":
    main()
