"""The README's picture: the page of the demo (needs Chromium).

python benchmarks/readme_figures.py [--output docs/figures]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hingerank.lab.demo import run_demo

OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,995"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/figures"))
    picture = (parser.parse_args().output / "demo.png").resolve()
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        sys.exit("there is no Chromium: no picture of the page")
    with tempfile.TemporaryDirectory() as folder:
        page = run_demo(Path(folder) / "demo").page.resolve().as_uri()
        subprocess.run([program, *OPTIONS, f"--screenshot={picture}", page], check=True, capture_output=True)


if __name__ == "__main__":
    main()
