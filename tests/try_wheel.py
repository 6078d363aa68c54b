"""Try what `make dist` built: `python tests/try_wheel.py dist`.

The wheel must hold the files of the package, data files too, and nothing else; the source archive holds them as well.
Then the wheel is installed, without extras, in a fresh environment, and used from outside the checkout. The seconds of
installing and of the demo, which compiles its kernels, are printed beside the goal of a minute; they depend on whether
pip has the libraries in its cache.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
LARGEST = 1_500_000  # bytes of the wheel
GOAL = 60.0  # seconds from `pip install` to the page of the demo
COMMANDS = """
python -c "import hingerank as hr; hr.write(hr.make_letor(n_queries=30, seed=0), 'rows.txt')"
hingerank --version
python -m hingerank doctor
hingerank fit rows.txt --model rank-svm --C 0.01 -o model
hingerank rank model rows.txt -o scores.txt
hingerank evaluate rows.txt scores.txt --measure ndcg@10
hingerank reproduce --list
""".strip().splitlines()


def check_files(dist: Path) -> Path:
    """The archives hold the package's files, the wheel only those; returns the wheel."""
    ours = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    packed = {"wheel": set(zipfile.ZipFile(wheel).namelist())}
    with tarfile.open(archive) as names:
        packed["source archive"] = {name.partition("/src/")[2] for name in names.getnames()}
    for kind, names in packed.items():
        if missing := sorted(ours - names):
            sys.exit(f"the {kind} lacks {', '.join(missing)}")
    if more := sorted(name for name in packed["wheel"] - ours if ".dist-info/" not in name):
        sys.exit(f"the wheel also holds {', '.join(more)}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(Path(name).suffix for name in ours).most_common())
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {len(packed['wheel'])} files ({kinds}, and metadata)")
    if wheel.stat().st_size > LARGEST:
        sys.exit(f"the wheel is larger than {LARGEST / 1e6} MB")
    return wheel


def try_out(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder) / "env" / ("Scripts" if os.name == "nt" else "bin")
        venv.create(programs.parent, with_pip=True)
        alone = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        alone["PATH"] = f"{programs}{os.pathsep}{alone['PATH']}"

        def run(command: str) -> tuple[float, float]:
            """Wall and processor seconds of a command."""
            print("$", command, flush=True)
            before, started = os.times(), time.perf_counter()
            subprocess.run(command, shell=True, check=True, cwd=folder, env=alone)
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            return time.perf_counter() - started, used

        install = run(f'python -m pip install --quiet "{wheel.resolve()}"')
        demo = run("hingerank demo -o page")
        for command in COMMANDS:
            run(command)
        page = (Path(folder) / "page" / "report.html").read_text("utf-8")
        if not ("bm25_title" in page and page.rstrip().endswith("</html>")):
            sys.exit("the page of the demo is not whole")
        verdict = "met" if install[0] + demo[0] <= GOAL else "NOT met"
        print(f"pip install: {install[0]:.1f} s (processor {install[1]:.1f} s)")
        print(f"hingerank demo, kernels compiled: {demo[0]:.1f} s (processor {demo[1]:.1f} s)")
        print(f"from nothing to the page: {install[0] + demo[0]:.1f} s, the goal of {GOAL:.0f} s is {verdict}")


if __name__ == "__main__":
    try_out(check_files(Path(sys.argv[1])))
