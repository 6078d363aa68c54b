"""The face of evaluate: names, grouping, weights, undefined values, and errors that name the row."""

import gc
import inspect

import numpy as np
import pytest

import hingerank as hr
from hingerank.metrics import MEASURES, warm_metrics
from hingerank.metrics.kinds import RankedLists

Y = np.array([2, 0, 1, 0, 0, 1, 0])
S = np.array([0.3, 0.9, 0.5, 0.2, 0.1, 0.8, 0.4])
Q = np.array([7, 7, 7, 3, 3, 5, 5])


def test_the_result_has_the_names_as_written():
    assert list(hr.evaluate(Y, S, Q)) == ["ndcg@10", "map"]
    assert list(hr.evaluate(Y, S, Q, "NDCG@10")) == ["NDCG@10"]
    both = hr.evaluate(Y, S, Q, ["Precision@2", "p@2", "p@2:letor3"])
    assert list(both) == ["Precision@2", "p@2", "p@2:letor3"]
    assert both["Precision@2"] == both["p@2"]
    assert all(type(value) is float for value in both.values())


def test_queries_come_in_order_of_first_appearance_whatever_the_row_order():
    each = hr.evaluate(Y, S, Q, "ndcg@10", per_query=True)["ndcg@10"]
    assert each.shape == (3,) and each[1] == 0.0 and each[2] == 1.0
    assert hr.evaluate(Y, S, Q, "ndcg@10")["ndcg@10"] == pytest.approx(each.mean(), rel=1e-15)
    mixed = np.array([5, 0, 3, 6, 1, 4, 2])
    again = hr.evaluate(Y[mixed], S[mixed], Q[mixed], "ndcg@10", per_query=True)["ndcg@10"]
    np.testing.assert_array_equal(again, each[[2, 0, 1]])  # queries 5, 7, 3
    words = np.array(["seven", "three", "five"], object)[[0, 0, 0, 1, 1, 2, 2]]
    np.testing.assert_array_equal(hr.evaluate(Y, S, words, "ndcg@10", per_query=True)["ndcg@10"], each)
    np.testing.assert_array_equal(
        hr.evaluate(Y, S, group=[3, 2, 2], measures="ndcg@10", per_query=True)["ndcg@10"], each
    )


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_no_qid_is_one_query():
    assert hr.evaluate([0, 1], [1, 2], measures="map", per_query=True)["map"].tolist() == [1.0]


def test_the_order_of_tied_rows_decides_nothing_by_default():
    for y in ([1, 0, 0], [0, 1, 0], [0, 0, 1]):
        assert hr.evaluate(y, [5, 5, 5], 0, "mrr") == {"mrr": pytest.approx((1 + 1 / 2 + 1 / 3) / 3)}
    assert hr.evaluate([1, 0, 0], [5, 5, 5], 0, "mrr:ties=stable") == {"mrr:ties=stable": 1.0}
    assert hr.evaluate([0, 0, 1], [5, 5, 5], 0, "mrr:letor4") == {"mrr:letor4": pytest.approx(1 / 3)}


@pytest.mark.parametrize("name", [name + ("@3" if kind.cutoff != "none" else "") for name, kind in MEASURES.items()])
def test_a_constant_score_gains_nothing_from_rows_sorted_by_grade(name):
    """Under the default preset; and a tie beyond the cutoff changes no bit."""
    y, qid = np.array([3, 2, 2, 1, 1, 0, 0, 0] * 2), np.repeat([0, 1], 8)
    values = [hr.evaluate(grades, np.zeros(16), qid, name)[name] for grades in (y, y[::-1], np.roll(y, 3))]
    np.testing.assert_allclose(values, values[0], rtol=1e-14)
    falling = -np.tile(np.arange(40.0), 2)
    level, wide = np.maximum(falling, -10), np.tile(np.arange(40) % 3, 2)
    if name.endswith("@3"):
        each = [hr.evaluate(wide, s, np.repeat([0, 1], 40), name)[name] for s in (falling, level)]
        assert each[0] == each[1]


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_trec_breaks_ties_by_descending_docid_in_single_precision():
    y, s, ids = [1, 0, 0], [1.0 + 1e-12, 1.0, 0.0], ["a", "b", "c"]
    assert hr.evaluate(y, s, None, "mrr:trec", docid=ids) == {"mrr:trec": 0.5}
    assert hr.evaluate(y, s, None, "mrr:trec") == {"mrr:trec": 1.0}
    assert hr.evaluate(y, s, None, "mrr", docid=ids) == {"mrr": 1.0}
    assert hr.evaluate(y, [1, 1, 0], None, "mrr:trec", docid=[9, 10, 11]) == {"mrr:trec": 1.0}  # "9" > "10" as text


def test_a_call_leaves_nothing_for_the_collector():
    """A circle of references would keep the arrays of a call, and every next call would fill fresh memory."""
    gc.collect()
    gc.disable()
    try:
        hr.evaluate(Y, S, Q, ["ndcg@10", "mean_ndcg", "map", "kendall_tau"])
        assert not [held for held in gc.get_objects() if type(held) is RankedLists]
    finally:
        gc.enable()


def test_weights_are_per_query_or_constant_in_a_query():
    each = hr.evaluate(Y, S, Q, "map", per_query=True)["map"]
    expected = np.average(each, weights=[1, 2, 5])
    assert hr.evaluate(Y, S, Q, "map", sample_weight=[1, 2, 5])["map"] == pytest.approx(expected)
    assert hr.evaluate(Y, S, Q, "map", sample_weight=[1, 1, 1, 2, 2, 5, 5])["map"] == pytest.approx(expected)
    assert hr.evaluate(Y, S, Q, "map:lightgbm", sample_weight=[0.1, 0.1, 0.1])["map:lightgbm"] <= 1
    assert hr.evaluate(Y, S, Q, "map", sample_weight=[0, 0, 1])["map"] == each[2]
    for weight, message in (
        ([1, 1, 2, 1, 1, 1, 1], "varies from 1 to 2 inside query 7: a"),
        ([1, 2], "expected 3 .one per query. or 7"),
        ([1, -1, 1], "no negative weight"),
        ([0, 0, 0], "at least one positive"),
        ([1, np.nan, 1], "sample_weight is nan at row 1"),
    ):
        with pytest.raises(hr.DataError, match=message):
            hr.evaluate(Y, S, Q, "map", sample_weight=weight)


def test_undefined_values_are_nan_and_left_out_of_the_mean():
    each = hr.evaluate(Y, S, Q, ["pair_accuracy", "ndcg@3:empty=skip"], per_query=True)
    assert np.isnan(each["pair_accuracy"]).tolist() == [False, True, False]
    assert np.isnan(each["ndcg@3:empty=skip"]).tolist() == [False, True, False]
    mean = hr.evaluate(Y, S, Q, ["pair_accuracy", "pair_accuracy:empty=0"])
    assert mean["pair_accuracy"] == pytest.approx(np.nanmean(each["pair_accuracy"]))
    assert mean["pair_accuracy:empty=0"] == pytest.approx(np.nansum(each["pair_accuracy"]) / 3)
    assert np.isnan(hr.evaluate([1, 1], [1, 2], None, "pair_accuracy")["pair_accuracy"])
    assert hr.evaluate(Y, S, Q, "ndcg@3:empty=1", per_query=True)["ndcg@3:empty=1"][1] == 1.0
    short = hr.evaluate(Y, S, Q, "ndcg@3:letor4:empty=skip", per_query=True)["ndcg@3:letor4:empty=skip"]
    assert np.isnan(short[1]) and short[2] == 0.0 and short[0] > 0


def test_the_default_preset_of_a_call_gives_way_to_a_name():
    both = hr.evaluate(Y, S, Q, ["ndcg@10", "ndcg@10:default"], preset="lightgbm")
    assert both["ndcg@10"] > both["ndcg@10:default"]
    assert both["ndcg@10:default"] == hr.evaluate(Y, S, Q, "ndcg@10")["ndcg@10"]
    with pytest.raises(ValueError, match=r"no preset 'lightbgm'; presets: .*; did you mean 'lightgbm'"):
        hr.evaluate(Y, S, Q, "ndcg@10:trec", preset="lightbgm")


def test_measures_asked_together_are_the_measures_asked_alone():
    """They share orders and ideals, of different depth and tie rule."""
    random = np.random.default_rng(0)
    y, s = random.integers(0, 5, 300), random.integers(0, 30, 300).astype(float)
    qid, docid = np.arange(300) % 3, random.permutation(300)
    names = [
        "ndcg@2:trec",
        "ndcg@20",
        "map@3",
        "ndcg@5:catboost",
        "err@4:trec",
        "p@7",
        "dcg@9:sklearn",
        "recall@9:trec",
    ]
    together = hr.evaluate(y, s, qid, names, docid=docid)
    for name in names:
        assert hr.evaluate(y, s, qid, name, docid=docid)[name] == together[name]


def test_inputs_are_left_alone():
    y, s = Y.astype(float), S.copy()
    hr.evaluate(y, s, Q, ["ndcg@10", "map:trec", "err@10:sklearn", "kendall_tau"])
    assert (y == Y).all() and (s == S).all()


def test_columns_frames_and_other_numbers_are_accepted():
    pandas = pytest.importorskip("pandas")
    expected = hr.evaluate(Y, S, Q)
    frame = pandas.DataFrame({"y": Y, "s": S, "q": Q}, index=range(50, 57))
    assert hr.evaluate(frame.y, frame.s, frame.q) == expected
    assert hr.evaluate(Y[:, None].astype(np.int8), S[:, None], Q.astype(str)) == expected
    assert hr.evaluate(Y.tolist(), S.tolist(), Q.tolist()) == expected


def call(y=Y, s=S, qid=Q, measures="ndcg@10", **more):
    return lambda: hr.evaluate(y, s, qid, measures, **more)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (call(s=S[:5]), "y has 7 rows but scores has 5"),
        (call(s=[*S[:4], np.nan, 1, 2]), "scores is nan at row 4"),
        (call(s=[*S[:2], -np.inf, 1, 2, 3, 4]), "scores is -inf at row 2"),
        (call(y=[0, np.inf, 0, 0, 0, 0, 0]), "y is inf at row 1"),
        (call(y=list("abcdefg")), "y must hold numbers"),
        (call(y=[], s=[], qid=[]), "y is empty"),
        (call(s=np.ones((7, 2))), r"scores has shape \(7, 2\)"),
        (call(qid=Q[:3]), "qid has shape"),
        (call(group=[3, 4]), "not both"),
        (call(qid=None, group=[3, 3]), "add up to 6 rows but there are 7"),
        (call(measures="mrr:trec", docid=["a", "b"]), "docid has shape"),
        (call(measures=[]), "measures is empty"),
        (call(measures="list_ndcg@10"), "'list_ndcg@10' is of lists over all items: use hingerank.evaluate_top"),
        (call(measures=3), "a measure is a name such as 'ndcg@10'.* not 3"),
        (call(y=Y - 1, measures="ndcg@10:sklearn"), "grade -1 at row 1: this preset takes no negative grades"),
        (call(y=Y - 1, measures="ndcg@10:lightgbm"), "no negative grades"),
        (call(y=Y + 0.5, measures="dcg@10:lightgbm"), "grade 2.5 at row 0: LightGBM takes whole grades"),
        (call(y=Y * 20, measures="ndcg@10:lightgbm"), "grade 40 at row 0"),
        (call(y=Y * 2000), "grade 4000 at row 0: its gain .* ':gain=linear'"),
        (call(y=Y * 1e150, measures="ndcg@10:gain=linear"), r"grade 2e\+150 at row 0: its gain is too large"),
        (call(y=Y * 8e307, measures="mean_ndcg:sklearn"), "rescale the grades"),
        (call(y=Y * 300, measures="dcg@10"), "grade 600 at row 0: its gain .* ':gain=linear'"),
        (call(sample_weight=[1e308] * 3), r"none above 1e\+150"),
        (call(y=Y * 2000, measures="err@10"), "the scale of grades ends at 1000"),
        (call(y=Y * 4, measures="err@10:trec"), "grade 8 at row 0: the scale of grades ends at 4"),
    ],
)
def test_mistakes_get_one_clear_line(wrong, message):
    with pytest.raises(ValueError, match=message) as error:
        wrong()
    assert "\n" not in str(error.value)


def test_what_is_defined_is_not_refused():
    """Only measures that use a gain care about grades; linear gains can be thousands; negative grades gain nothing."""
    hr.evaluate(Y - 1, S, Q, ["map:lightgbm", "p@3:sklearn", "pair_accuracy:xgboost"])
    assert hr.evaluate(Y * 2000, S, Q, "ndcg@10:gain=linear") != hr.evaluate(Y, S, Q, "ndcg@10")
    lower = np.where(Y == 0, -3.0, Y)
    assert hr.evaluate(lower, S, Q, "ndcg@10") == hr.evaluate(Y, S, Q, "ndcg@10")


def test_warming_compiles_every_kernel():
    from hingerank.kernels import measures as gains
    from hingerank.kernels import order as ranked

    warm_metrics()
    kernels = [f for module in (gains, ranked) for f in vars(module).values() if hasattr(f, "py_func")]
    called = [f for f in kernels if {"offsets", "first", "last"} <= set(inspect.signature(f.py_func).parameters)]
    assert len(called) > 12
    assert [f.__name__ for f in called if not f.compiled.signatures] == []


def test_ranking_data_bring_their_queries_and_document_ids():
    data = hr.make_letor(n_queries=8, seed=1)
    scores = data.X[:, 0]
    expected = hr.evaluate(data.y, scores, data.qid, ["ndcg@5", "map:trec"], docid=data.docid)
    assert hr.evaluate(data, scores, measures=["ndcg@5", "map:trec"]) == expected
    with pytest.raises(ValueError, match="pass measures="):
        hr.evaluate(data, scores, "ndcg@5")


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_cutoffs_and_scales_beyond_every_number():
    values = hr.evaluate(
        [1, 0], [2, 1], measures=["p@99999999999999999999:precision=list", "ndcg@99999999999999999999"]
    )
    assert list(values.values()) == [0.5, 1.0]
    with pytest.raises(hr.DataError, match="max_grade is at most 1000"):
        hr.evaluate([1, 0], [2, 1], measures="err:max_grade=2000")


def test_a_function_is_a_measure_under_its_name():
    """It gets the rows of one query in their order, and nan leaves a query out of the mean."""

    def top_grade(y, scores):
        return y[scores.argmax()] if len(y) > 1 else float("nan")

    def dollars(y, scores):
        return 1e155 * y[scores.argmax()] if len(y) == 1 else 0.0

    y, scores, qid = [1, 5, 0, 2, 3], [0.1, 9.0, 0.9, 0.5, 0.4], ["b", "alone", "b", "a", "a"]
    values = hr.evaluate(y, scores, qid, [top_grade, "p@1"], per_query=True)
    assert list(values) == ["top_grade", "p@1"]
    assert values["top_grade"].tolist()[::2] == [0.0, 2.0] and np.isnan(values["top_grade"][1])
    assert hr.evaluate(y, scores, qid, top_grade) == {"top_grade": 1.0}
    for wrong, problem in [
        (lambda y, s: 1.0, "has no name: define it with def"),
        (print, "the measure print returned None for query 'b': it takes"),
        (
            dollars,
            r"the measure dollars returned 5e\+155 for query 'alone': return a number between -1e\+150 and 1e\+150",
        ),
        (3, "a measure is a name such as"),
    ]:
        with pytest.raises(ValueError, match=problem):
            hr.evaluate(y, scores, qid, [wrong])
