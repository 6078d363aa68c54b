"""Real engines on loopback. `make engines` sets HINGERANK_ENGINES, the folder that keeps what is fetched once.

Without it, or where Java, Maven or a program is missing, these tests are skipped with the reason.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr

HERE = Path(__file__).parent
MODELS = {
    "standard": lambda: hr.RankSVM(C=0.1, scale="standard"),
    "sparse": lambda: hr.FenchelRank(radius=2.0),
    "lightgbm": lambda: hr.LightGBMRanker(n_estimators=40, num_leaves=15, min_child_samples=5),
    "xgboost": lambda: hr.XGBoostRanker(n_estimators=40, max_depth=4),
    "steps": lambda: hr.RankBoost(max_iter=60),
    "curves": lambda: hr.AdditiveRankSVM(n_knots=8, C=0.1, smoothness=0.5),
    "nystroem": lambda: hr.NystroemRankSVM(n_components=40, gamma=0.3, C=0.1, scale="standard"),
    "fourier": lambda: hr.FourierRankSVM(n_components=60, gamma=0.3, C=0.1, scale="minmax"),
    "query-minmax": lambda: hr.RankSVM(C=0.1, scale="query-minmax"),
    "query-standard": lambda: hr.RankSVM(C=0.1, scale="query-standard"),
}


def pytest_collection_modifyitems(items):
    if not os.environ.get("HINGERANK_ENGINES"):
        skip = pytest.mark.skip(reason="real engines are started by `make engines`")
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def rows():
    """50 queries of numbers that single precision holds."""
    made = hr.make_letor(n_queries=50, n_features=12, seed=7)
    return hr.RankingData(np.asarray(made.X, np.float32).astype(np.float64), made.y, made.qid)


@pytest.fixture(scope="session")
def fitted(rows):
    return functools.cache(lambda name: MODELS[name]().fit(rows))


@pytest.fixture(scope="session")
def java():
    """java(engine, program) -> the command that runs a Java program with an engine's classes, fetched once."""

    @functools.cache
    def command(engine, program):
        for tool in ("java", "javac", "mvn"):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")
        folder = Path(os.environ["HINGERANK_ENGINES"]) / engine
        jars = folder / "jars"
        if not (folder / "ready").exists():
            fetch = ["mvn", "-q", "-B", "-f", str(HERE / "poms" / f"{engine}.xml"), "dependency:copy-dependencies"]
            done = subprocess.run([*fetch, f"-DoutputDirectory={jars}"], capture_output=True, text=True, timeout=900)
            if done.returncode:
                pytest.skip(f"Maven cannot fetch {engine}: {done.stdout[-300:]}")
            (folder / "ready").touch()
        source = HERE / "java" / f"{program}.java"
        subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", folder / "classes", source], check=True)
        return ["java", "-Xmx1g", "-cp", f"{folder / 'classes'}{os.pathsep}{jars}/*", program]

    return command


@pytest.fixture(scope="session")
def scored():
    """scored(command, names, X) -> what a program prints for rows: names and numbers in, a score per line out."""

    def run(command, names, X):
        lines = ["\t".join(names), *("\t".join(repr(v).replace("nan", "NaN") for v in row) for row in X.tolist())]
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return np.array(done.stdout.split(), np.float64)

    return run
