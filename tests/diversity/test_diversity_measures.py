"""Diversity measures against pyndeval on random runs, ndeval's recorded output on TREC data, and hand arithmetic."""

import csv
import lzma
import math
import os
from pathlib import Path

import numpy as np
import pytest

from hingerank.data.files import DataError
from hingerank.diversity.measures import (
    KINDS,
    evaluate_diversity,
    ideal_order,
    parse_diversity_measure,
)
from hingerank.diversity.trec import group_qrels
from hingerank.metrics.measure import OF_SUBTOPICS

CUTOFFS = (1, 2, 5, 10, 20)
NAMES = [f"{base}@{k}" for base in KINDS if base not in ("nrbp", "nnrbp", "map-ia") for k in CUTOFFS]
NAMES += ["nrbp", "nnrbp", "map-ia"]
TREC_DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).parents[3] / "shared" / "data")) / "trec-web-diversity"


def random_judgments(rng):
    """Negative, zero and graded judgments; some documents unjudged, some subtopics never relevant."""
    n, m = int(rng.integers(1, 60)), int(rng.integers(1, 8))
    grades = rng.choice([-2, 0, 1, 2, 3], (n, m), p=[0.15, 0.45, 0.2, 0.1, 0.1])
    if m > 1:
        grades[:, 0] = np.minimum(grades[:, 0], 0)
    judged = rng.random((n, m)) < 0.7
    return [("t", str(j), f"d{i}", int(grades[i, j])) for i in range(n) for j in range(m) if judged[i, j]]


@pytest.mark.parametrize("alpha, beta", [(0.5, 0.5), (0.3, 0.8)])
def test_equal_to_pyndeval_on_random_runs(alpha, beta):
    pyndeval = pytest.importorskip("pyndeval")
    spelled = {name.lower(): name for name in pyndeval.SUPPORTED_MEASURES}
    theirs = [spelled[name.partition("@")[0]] + name[len(name.partition("@")[0]) :] for name in NAMES]
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(150):
        qrels = random_judgments(rng)
        if not any(row[3] > 0 for row in qrels):
            continue
        docids = rng.permutation([f"d{i}" for i in range(80)])[: rng.integers(1, 75)]
        run = [("t", str(docid), float(rng.integers(0, 12))) for docid in docids]  # many equal scores
        expected = pyndeval.ndeval(qrels, run, theirs, alpha=alpha, beta=beta)["t"]
        ours = evaluate_diversity(qrels, run, NAMES, alpha=alpha, beta=beta)
        for name, spelling in zip(NAMES, theirs):
            assert ours[name] == pytest.approx(expected[spelling], abs=1e-12), name
        compared += 1
    assert compared > 120


@pytest.mark.skipif(not TREC_DATA.is_dir(), reason=f"no TREC diversity data in {TREC_DATA}")
@pytest.mark.parametrize("year, topics", [(2009, 50), (2010, 48), (2011, 50), (2012, 50)])
def test_equal_to_ndeval_on_every_trec_topic(year, topics):
    with lzma.open(TREC_DATA / "ndeval_expected.indri_baseline.csv.xz", "rt") as file:
        expected = {row["topic"]: row for row in csv.DictReader(file) if row["year"] == str(year)}
    names = [name for name in next(iter(expected.values())) if name not in ("year", "topic")]
    values = evaluate_diversity(
        TREC_DATA / f"qrels.diversity.{year}.xz", TREC_DATA / f"indri_baseline_run.{year}.txt.xz", names, per_query=True
    )
    assert len(expected) == topics
    for name in names:
        ours = values[name.lower()]
        assert ours.keys() == expected.keys()
        for topic, value in ours.items():
            assert value == pytest.approx(float(expected[topic][name]), abs=6e-7), (topic, name)


def test_hand_arithmetic():
    J = [[1, 0], [1, 0], [1, 1]]
    at = lambda name, order: parse_diversity_measure(name)(J, order)  # noqa: E731
    log3 = 1 / math.log2(3)
    assert ideal_order(J).tolist() == [2, 0, 1]
    assert at("alpha-dcg@2", [0, 2]) == pytest.approx((1 + 1.5 * log3) / (2 + log3))
    assert at("alpha-ndcg@2", [0, 2]) == pytest.approx((1 + 1.5 * log3) / (2 + 0.5 * log3))
    assert at("err-ia@2", [0, 2]) == pytest.approx((1 + 1.5 / 2) / (2 + 0.5))
    assert at("nrbp", [0, 2]) == pytest.approx((1 + 1.5 * 0.5) * 0.75 / 2)
    assert at("strec@1", [0, 2]) == 0.5
    assert at("p-ia@4", [0, 2]) == 3 / 8
    assert at("map-ia", [0, 2]) == pytest.approx(((1 + 1) / 3 + 1 / 2 / 1) / 2)


def test_unjudged_documents_fill_their_ranks():
    J = np.array([[1, 0], [0, 1]])
    measure = parse_diversity_measure("err-ia@5")
    assert measure(J, [-1, 0]) == pytest.approx(measure(J, [0]) / 2)
    assert measure(J, []) == 0


def test_greedy_ideal_takes_the_first_of_equals_and_stops_without_gain():
    J = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 0], [-2, 0, 0]])
    assert ideal_order(J).tolist() == [2, 1, 3]
    assert ideal_order(J, depth=1).tolist() == [2]
    assert ideal_order(np.zeros((4, 2))).tolist() == []


def test_topics_without_relevant_documents_count_as_zero():
    qrels = [("1", "1", "a", 1), ("2", "1", "a", 0)]
    run = {"1": ["a"], "2": ["a"], "3": ["a"]}
    with np.errstate(all="raise"):
        assert evaluate_diversity(qrels, run, ["alpha-ndcg@5", "nnrbp"]) == {"alpha-ndcg@5": 0.5, "nnrbp": 0.5}


def test_topics_missing_from_the_run_count_only_when_asked():
    qrels = [("1", "1", "a", 1), ("2", "1", "a", 1)]
    assert evaluate_diversity(qrels, {"1": ["a"]}, "strec@1") == {"strec@1": 1.0}
    assert evaluate_diversity(qrels, {"1": ["a"]}, "strec@1", complete=True) == {"strec@1": 0.5}
    per_topic = evaluate_diversity(qrels, {"1": ["a"]}, "strec@1", per_query=True, complete=True)
    assert per_topic == {"strec@1": {"1": 1.0, "2": 0.0}}


def test_run_forms_agree():
    qrels = group_qrels([("1", "1", "a", 1), ("1", "2", "b", 1)])
    forms = ({"1": ["b", "x", "a"]}, {"1": {"a": 1, "b": 3, "x": 2}}, [("1", "a", 1), ("1", "x", 2), ("1", "b", 3)])
    values = [evaluate_diversity(qrels, run, ["nrbp"])["nrbp"] for run in forms]
    assert values[0] == values[1] == values[2] > 0


def test_mistakes_are_explained():
    with pytest.raises(DataError, match=r"no topic of the run has judgments.*the run has 9"):
        evaluate_diversity([("1", "1", "a", 1)], {"9": ["a"]}, "nrbp")
    with pytest.raises(DataError, match="document a twice in topic 1"):
        evaluate_diversity([("1", "1", "a", 1)], {"1": ["a", "b", "a"]}, "nrbp")
    with pytest.raises(DataError, match="twice for subtopic 1"):
        evaluate_diversity([("1", "1", "a", 1), ("1", "1", "a", 0)], {"1": ["a"]}, "nrbp")
    for qrels, run, problem in [
        ({"1": {"a": 1}}, {"1": ["a"]}, "judgments of topic 1 are dict, .* hingerank.evaluate_run"),
        ([("1", "a", 1)], {"1": ["a"]}, r"a row is \('1', 'a', 1\), expected \(topic, subtopic, document, judgment\)"),
        ([("1", "1", "a", "x")], {"1": ["a"]}, "judgment of document a in topic 1 is 'x', expected a number"),
        ([("1", "1", "a", 1)], [("1", "a")], r"the run: a row is .*, expected \(topic, document, score\)"),
    ]:
        with pytest.raises(DataError, match=problem):
            evaluate_diversity(qrels, run)
    with pytest.raises(ValueError, match="measures is empty"):
        evaluate_diversity([("1", "1", "a", 1)], {"1": ["a"]}, [])
    for name, problem in [
        ("ndcg@5", "'ndcg@5' is no diversity measure; known: .*err-ia@10, .*nrbp"),
        ("alpha-ndgc@5", "did you mean 'alpha-ndcg'"),
        ("alpha-ndcg", "needs a cutoff, such as 'alpha-ndcg@10'"),
        ("nrbp@5", "has no cutoff; write 'nrbp'"),
        ("err-ia@x", "whole number"),
        ("err-ia@0", "whole number from 1"),
    ]:
        with pytest.raises(ValueError, match=problem):
            parse_diversity_measure(name)
    with pytest.raises(ValueError, match="alpha must be a number from 0 to 1, not 2"):
        parse_diversity_measure("nrbp", alpha=2)


def test_spellings_do_not_matter():
    qrels, run = [("1", "1", "a", 1), ("1", "2", "b", 1)], {"1": ["a", "x", "b"], "2": ["a"]}
    for base, kind in KINDS.items():
        cut = "@3" if kind.cutoff == "required" else ""
        words = {
            base,
            base.upper(),
            base.replace("-", "_"),
            base.title().replace("-", ""),
            f" {base.replace('-', ' ')} ",
        }
        names = [word + cut for word in words]
        assert {parse_diversity_measure(name) for name in names} == {parse_diversity_measure(base + cut)}
        assert evaluate_diversity(qrels, run, names) == evaluate_diversity(qrels, run, base + cut)


def test_the_other_measures_know_these_by_name():
    assert tuple(KINDS) == OF_SUBTOPICS
