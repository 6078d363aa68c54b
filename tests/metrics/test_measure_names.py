"""Names parse into measures, and wrong names say what to write instead."""

from dataclasses import replace

import pytest

import hingerank as hr
from hingerank.metrics import MEASURES, PRESETS, Measure, MeasureKind, evaluate, parse_measure, register
from hingerank.metrics.measure import _KIND_OF


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        ("NDCG@10", "ndcg@10"),
        (" nDCG @ 10 ", "ndcg@10"),
        ("NDCG", "ndcg"),
        ("dcg@5", "dcg@5"),
        ("MAP", "map"),
        ("ap", "map"),
        ("map@10", "map@10"),
        ("mean average precision", "map"),
        ("precision@5", "p@5"),
        ("P@5", "p@5"),
        ("R@10", "recall@10"),
        ("Recall@10", "recall@10"),
        ("rr", "mrr"),
        ("MRR@10", "mrr@10"),
        ("recip_rank", "mrr"),
        ("ERR@20", "err@20"),
        ("meanndcg", "mean_ndcg"),
        ("mean-ndcg", "mean_ndcg"),
        ("MeanNDCG", "mean_ndcg"),
        ("Pairwise Accuracy", "pair_accuracy"),
        ("pair-accuracy", "pair_accuracy"),
        ("Kendall-Tau", "kendall_tau"),
        ("tau", "kendall_tau"),
        ("ndcg@10:LETOR4", "ndcg@10:letor4"),
        ("ndcg@10:letor4.0", "ndcg@10:letor4"),
        ("map:trec_eval", "map:trec"),
        ("map:scikit-learn", "map:sklearn"),
        ("ndcg@10:ties=average", "ndcg@10:ties=average"),
        ("ndcg@10:lightgbm:empty=skip:gain=Linear", "ndcg@10:lightgbm:empty=skip:gain=linear"),
        ("map:relevant=2", "map:relevant=2"),
        ("err@10:max_grade=4", "err@10:max_grade=4"),
    ],
)
def test_forms_people_type(name, canonical):
    measure = parse_measure(name)
    assert str(measure) == canonical
    assert parse_measure(canonical) == measure or "skip" in canonical  # nan differs from itself


def test_a_measure_is_a_value():
    measure = parse_measure("ndcg@10:letor4")
    assert measure == Measure("ndcg", 10, "letor4")
    assert len({measure, Measure("ndcg", 10, "letor4")}) == 1
    assert parse_measure(measure) is measure
    with pytest.raises(AttributeError):
        measure.k = 5
    assert measure.conventions == PRESETS["letor4"]
    assert measure.with_preset("trec") is measure
    assert parse_measure("ndcg@10").with_preset("TREC").preset == "trec"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ndgc@10", "kendall_tau; did you mean 'ndcg'?"),
        ("ndcg10", "did you mean 'ndcg@10'"),
        ("P_5", "did you mean 'p@5'"),
        ("map_cut.100", "did you mean 'map@100'"),
        ("auc", "measures: ndcg, dcg"),
        ("alpha-nDCG@20", "needs judgments of subtopics"),
        ("ERR-IA@20", "use hingerank.diversity.measures"),
        ("", "a measure is a name such as"),
        (10, "a measure is a name such as"),
        ("ndcg@0", "whole number from 1"),
        ("ndcg@-3", "whole number from 1"),
        ("ndcg@ten", "got 'ten'"),
        ("ndcg@2.5", "got '2.5'"),
        ("ndcg@", "got ''"),
        ("ndcg@²", "got '²'"),
        ("p", "needs a cutoff, such as 'p@10'"),
        ("recall", "needs a cutoff"),
        ("mean_ndcg@10", "has no cutoff"),
        ("kendall_tau@5", "has no cutoff"),
        ("ndcg@10:letor5", "ranklib; did you mean 'letor3' or 'letor4'?"),
        ("ndcg@10:", "no preset"),
        ("ndcg@10:trec:sklearn", "two presets"),
        ("ndcg@10:gian=linear", "short; did you mean 'gain'?"),
        ("ndcg@10:gain=square", "gain must be one of exponential, linear, got 'square'"),
        ("p@5:gain=linear", "p takes relevant, ties, empty, precision"),
        ("map:relevant=some", "relevant must be a number"),
        ("map:relevant=nan", "relevant must be a number"),
        ("ndcg:gain=linear:gain=exponential", "sets gain twice: keep one"),
        ("map:empty=2", "empty must be 0, 1 or skip"),
    ],
)
def test_wrong_names_say_what_to_write(name, message):
    with pytest.raises(ValueError) as error:
        parse_measure(name)
    assert message in str(error.value)


def test_no_two_measures_share_a_name():
    for kind in MEASURES.values():
        for name in (kind.name, *kind.aliases):
            assert parse_measure(name + ("@1" if kind.cutoff == "required" else "")).kind == kind.name
    with pytest.raises(ValueError, match="already means 'map'"):
        register(replace(MEASURES["mrr"], name="adjusted_precision", aliases=("AP",)))
    assert "adjusted_precision" not in MEASURES


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_a_registered_measure_works_like_the_others():
    def success(lists, measure):
        return (MEASURES["p"].values(lists, measure) > 0).astype(float)

    try:
        register(
            MeasureKind("success", "1 if a relevant item is among the first k", success, ("hit-rate",), "required")
        )
        assert str(parse_measure("Hit Rate@2:trec")) == "success@2:trec"
        assert evaluate([0, 0, 1], [3, 2, 1], None, ["hit_rate@2", "success@3"]) == {
            "hit_rate@2": 0.0,
            "success@3": 1.0,
        }
    finally:
        MEASURES.pop("success", None)
        for name in ("success", "hitrate"):
            _KIND_OF.pop(name, None)


@pytest.mark.parametrize(
    "measure, words",
    [
        (Measure("ndcg", 0), "the cutoff must be a whole number from 1"),
        (Measure("ndcg", 2.5), "the cutoff must be a whole number from 1"),
        (Measure("p"), "needs a cutoff"),
        (Measure("ndgc", 3), "unknown measure"),
        (Measure("ndcg", 3, "leter4"), "no preset 'leter4'"),
        (Measure("ndcg", 3, None, (("gain", "cubic"),)), "gain must be one of"),
    ],
)
def test_measures_made_by_hand_are_checked_like_names(measure, words):
    """With a cutoff of 0 a kernel wrote before its arrays, which could end the process."""
    with pytest.raises(ValueError, match=words):
        hr.evaluate([1, 0, 2], [0.1, 0.2, 0.3], [0, 0, 0], measure)
    with pytest.raises(ValueError, match=words):
        hr.tune("rank-svm", hr.make_letor(6, seed=0), measure=measure)
