"""Measures against what LETOR's own Perl scripts print, per query and averaged, to every digit printed."""

import lzma
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr

ROOT = Path(__file__).resolve().parents[2].parent / "shared"
DATA = Path(os.environ.get("HINGERANK_DATA", ROOT / "data"))
GOLDEN = DATA.parent / "golden"
FOLDER = {"MQ2008": "MQ2008", "OHSUMED": "OHSUMED/QueryLevelNorm"}
TEST_SUBSET = {"fold1": "S5", "fold2": "S1"}
SCRIPTS = {"OHSUMED": ("letor3", "letor4", "mslr"), "MQ2008": ("letor4", "mslr")}
CASES = [
    (name, fold, scores, script)
    for name in SCRIPTS
    for fold in TEST_SUBSET
    for scores in ("linear", "random", "ties", "constant")
    for script in SCRIPTS[name]
]
TOP = range(1, 11)

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"golden files are not in {GOLDEN}")


@cache
def grades_and_queries(name, fold):
    path = DATA / FOLDER[name] / f"{TEST_SUBSET[fold]}.txt.xz"
    with lzma.open(path, "rt") as lines:
        rows = [line.split(maxsplit=2)[:2] for line in lines]
    return np.array([float(grade) for grade, _ in rows]), np.array([int(qid[4:]) for _, qid in rows])


def lines_of(*parts):
    with lzma.open(GOLDEN / (".".join(parts) + ".txt.xz"), "rt") as text:
        return [line.rstrip("\n") for line in text if line.strip()]


def values_of(name, fold, scores, script):
    y, qid = grades_and_queries(name, fold)
    s = np.array([float(line) for line in lines_of(name, fold, scores, "scores")])
    names = [f"{kind}@{k}" for kind in ("p", "ndcg") for k in TOP] + ["map", "mean_ndcg"]
    order = np.argsort(list(dict.fromkeys(qid)))  # the scripts print queries by number
    each = hr.evaluate(y, s, qid, names, per_query=True, preset=script)
    return (
        {key: value[order] for key, value in each.items()},
        hr.evaluate(y, s, qid, names, preset=script),
        np.unique(qid),
    )


def table(each, mean, qids, columns):
    rows = [[str(q), *(f"{each[c][i]:.4f}" for c in columns)] for i, q in enumerate(qids)]
    return [*rows, ["Average", *(f"{mean[c]:.4f}" for c in columns)]]


@pytest.mark.parametrize("case", [c for c in CASES if c[3] != "letor3"], ids=".".join)
def test_letor4_and_mslr_print_the_same_tables(case):
    each, mean, qids = values_of(*case)
    printed = [line.split("\t") for line in lines_of(*case)]
    half = len(printed) // 2
    for part, columns in ((printed[:half], "p"), (printed[half:], "ndcg")):
        names = [f"{columns}@{k}" for k in TOP] + ["map" if columns == "p" else "mean_ndcg"]
        assert part[1:] == table(each, mean, qids, names)


@pytest.mark.parametrize("case", [c for c in CASES if c[3] == "letor3"], ids=".".join)
def test_letor3_prints_the_same_15_digits(case):
    each, mean, qids = values_of(*case)
    printed = {head: rest.split() for head, rest in (line.split(":") for line in lines_of(*case))}
    assert len(printed) == 3 * (len(qids) + 1)
    for i in range(len(qids)):
        same_digits(printed[f"precision of query{i}"], [each[f"p@{k}"][i] for k in TOP])
        same_digits(printed[f"NDCG of query{i}"], [each[f"ndcg@{k}"][i] for k in TOP])
        same_digits(printed[f"Map of query{i}"], [each["map"][i]])
    same_digits(printed["precision"], [mean[f"p@{k}"] for k in TOP])
    same_digits(printed["NDCG"], [mean[f"ndcg@{k}"] for k in TOP])
    same_digits(printed["MAP"], [mean["map"]])


def same_digits(printed, values):
    assert printed == [f"{value:.15g}" for value in values]


def test_every_golden_file_is_compared():
    outputs = {path.name for path in GOLDEN.glob("*.txt.xz")} - {path.name for path in GOLDEN.glob("*.scores.txt.xz")}
    assert outputs == {".".join(case) + ".txt.xz" for case in CASES}
