"""Try what `make dist` built: `python tests/try_wheel.py dist`.

The wheel and the source archive must hold every file of the package, data files too. Then the wheel is installed,
without extras, in a fresh environment, and used from outside the checkout.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
COMMANDS = """
python -c "import hingerank as hr; hr.write(hr.make_letor(n_queries=30, seed=0), 'rows.txt')"
hingerank --version
hingerank fit rows.txt --model rank-svm --C 0.01 -o model
hingerank rank model rows.txt -o scores.txt
hingerank evaluate rows.txt scores.txt --measure ndcg@10
hingerank reproduce --list
hingerank demo --queries 20 -o page
""".strip().splitlines()


def check_files(dist: Path) -> Path:
    """Every file of the package is in the archives; returns the wheel."""
    ours = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    packed = {"wheel": set(zipfile.ZipFile(wheel).namelist())}
    with tarfile.open(archive) as names:
        packed["source archive"] = {name.partition("/src/")[2] for name in names.getnames()}
    for kind, names in packed.items():
        if missing := sorted(ours - names):
            sys.exit(f"the {kind} lacks {', '.join(missing)}")
    return wheel


def try_out(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bin_folder = Path(folder) / "env" / "bin"
        venv.create(bin_folder.parent, with_pip=True)
        alone = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        alone["PATH"] = f"{bin_folder}{os.pathsep}{alone['PATH']}"
        for command in [f"python -m pip install --quiet '{wheel.resolve()}'", *COMMANDS]:
            print("$", command, flush=True)
            subprocess.run(command, shell=True, check=True, cwd=folder, env=alone)
        if not (Path(folder) / "page" / "report.html").stat().st_size > 50_000:
            sys.exit("the page of the demo is too small to be whole")


if __name__ == "__main__":
    try_out(check_files(Path(sys.argv[1])))
