"""The README's pictures: the page of the demo (needs Chromium) and the curves of a ranker of splines.

python benchmarks/readme_figures.py [--output docs/figures]
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.preprocessing import SplineTransformer

import hingerank as hr
from hingerank.lab.demo import run_demo

matplotlib.use("svg")


def curves(path: Path) -> None:
    """What a ranker on splines of 12 generated columns learnt of the four that matter most to it."""
    from matplotlib import pyplot

    rng = np.random.default_rng(0)
    X, qid = rng.random((6000, 12)), np.repeat(np.arange(200), 30)
    truth = np.sin(3 * X[:, 0]) + 2 * np.abs(X[:, 1] - 0.4) + np.sqrt(X[:, 2]) - X[:, 3] ** 2
    noisy = truth + rng.normal(0, 0.3, len(X))
    y = np.digitize(noisy, np.quantile(noisy, [0.6, 0.85]))
    found = hr.RankSVM(C=0.01, features=SplineTransformer(6)).fit(X, y, qid).explain(X[:1500])
    strongest = np.argsort(-found.contributions.std(axis=0))[:4]
    figure, axes = pyplot.subplots(1, 4, figsize=(9, 2.3), sharey=True)
    for place, j in zip(axes, strongest):
        order = np.argsort(found.values[:, j])[::15]
        place.plot(found.values[order, j], found.contributions[order, j])
        place.set_title(found.names[j], fontsize=9)
    axes[0].set_ylabel("contribution to the score")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def page(path: Path) -> None:
    """A picture of the demo's page."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        print("there is no Chromium: no picture of the page")
        return
    with tempfile.TemporaryDirectory() as folder:
        found = run_demo(Path(folder) / "demo")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000"]
        shot = ["--window-size=1000,995", f"--screenshot={path.resolve()}", found.page.resolve().as_uri()]
        subprocess.run([program, *options, *shot], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("docs/figures"))
    parser.add_argument("--only", choices=["curves", "page"])
    arguments = parser.parse_args()
    if arguments.only != "page":
        curves(arguments.output / "curves.svg")
    if arguments.only != "curves":
        page(arguments.output / "demo.png")


if __name__ == "__main__":
    main()
