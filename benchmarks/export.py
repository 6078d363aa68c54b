"""Rows scored per second by each exported form, in the program that runs it, beside the ranker itself.

    python benchmarks/export.py [--rows 5000] [--features 46] [--repeat 3]

A rate is of the rows alone: the time for all rows less that for a tenth of them, so that compiling, starting node or
opening a session does not count. It includes handing the rows over: ctypes calls C row by row, node reads JSON, the
databases fill a table first. Where an engine's arithmetic is done here in its place there is no speed to tell. Each
form's largest difference from the ranker, relative to the largest score, is beside.
"""

import argparse
import tempfile

import numpy as np

import hingerank as hr
from hingerank.export.exporting import compare
from hingerank.export.formats import FORMATS
from measuring import best_of

MODELS = {
    "linear, standard": lambda: hr.RankSVM(C=0.01, scale="standard"),
    "linear, query-minmax": lambda: hr.RankSVM(C=0.01, scale="query-minmax"),
    "Nyström, 100 landmarks": lambda: hr.NystroemRankSVM(n_components=100, C=0.01, scale="standard"),
    "LightGBM, 100 trees": lambda: hr.LightGBMRanker(n_estimators=100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"rows": 5_000, "features": 46, "repeat": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    X = random.random((asked.rows, asked.features)).astype(np.float32).astype(np.float64)
    y = np.clip(np.round(4 * X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * random.normal(size=asked.rows)), 0, 4)
    qid = np.arange(asked.rows) // 100
    print(f"{'model':<24}{'form':<34}{'rows/s':>12}{'difference':>14}{'reordered':>11}")
    for name, make in MODELS.items():
        ranker = make().fit(X, y, qid)
        ranker.predict(X, qid)
        seconds, expected = best_of(lambda ranker=ranker: ranker.predict(X, qid), asked.repeat)
        print(f"{name:<24}{'hingerank itself':<34}{asked.rows / seconds:>12,.0f}")
        with tempfile.TemporaryDirectory() as folder:
            for to, consumer, options in forms():
                try:
                    files = ranker.export(f"{folder}/{to}/", to, **options).files
                except hr.ExportError:
                    continue
                report(ranker, consumer, files, X, qid, expected, asked.repeat, label(to, consumer, options), name)


def forms():
    """Every format with every program at hand that runs it; ONNX in both precisions."""
    for to, form in FORMATS.items():
        for consumer in form.consumers:
            if consumer.present():
                for options in [{}, {"precision": "float"}] if to == "onnx" else [{}]:
                    yield to, consumer, options


def label(to, consumer, options):
    return " ".join([to, *options.values(), f"({consumer.name})"])[:33]


def report(ranker, consumer, files, X, qid, expected, repeat, form, name):
    few = slice(0, len(X) // 10)
    plain = ranker._form()
    long, scores = best_of(lambda: consumer.run(files, plain, X, qid), repeat)
    short, _ = best_of(lambda: consumer.run(files, plain, X[few], qid[few]), repeat)
    rate = 0.9 * len(X) / max(long - short, 1e-9)
    found = compare(expected, scores, qid)
    difference, reordered = found["relative_to_largest_score"], found["reordered_queries"]
    speed = "-" if consumer.name.startswith("the arithmetic") else f"{rate:,.0f}"
    print(f"{name:<24}{form:<34}{speed:>12}{difference:>14.1e}{reordered:>11}")


if __name__ == "__main__":
    main()
