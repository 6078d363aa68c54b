"""Missing values: every ranker, every way, after save and load, in its scorer, and in every export or refused there."""

import functools
import pickle
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import sparse

import hingerank as hr
from hingerank.data.missing import WAYS, MissingValues
from hingerank.export.formats import FORMATS, carriers
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class

CLASSES = {name: cls for name in RANKERS if issubclass(cls := ranker_class(name), BaseRanker)}
GRADED = {name: cls for name, cls in CLASSES.items() if find_spec(getattr(cls, "requires", "sklearn"))}
OWN_WAY = {"lightgbm", "xgboost", "gbrank", "mcrank", "blend"}  # trees have a branch for gaps, members their own ways
FILLING = sorted(set(GRADED) - OWN_WAY)
ENGINES = ("solr", "elasticsearch", "opensearch")
SCALES = (None, "standard", "log", "quantile", "query-minmax", "query-standard")


def rows(seed=0, n=90):
    """Rows whose gaps say something, in three of five columns."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5)) + np.array([0.0, 2.0, 0.0, 0.0, 1.0])
    y = np.clip(np.round(3 * X[:, 0] - 2 * X[:, 3] + rng.normal(size=n) / 3), 0, 3)
    X[(rng.random(n) < 0.3) & (y < 2), 0] = np.nan
    X[rng.random(n) < 0.2, 1] = np.nan
    X[rng.random(n) < 0.1, 2] = np.nan
    return X, y, rng.integers(0, 9, n)


def made(name, **settings):
    return GRADED[name](**({"n_estimators": 5} if "n_estimators" in GRADED[name]().get_params() else {}) | settings)


def fit(ranker, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ranker.fit(*data)


def by_hand(X, training, how):
    """The same rows without gaps, by plain NumPy."""
    known = [np.sort(column[~np.isnan(column)]) for column in training.T]
    fill = [0.0 if how == "zero" else column[(len(column) - 1) // 2] for column in known]
    full = np.where(np.isnan(X), fill, X)
    gaps = np.isnan(training).any(axis=0) & (how == "indicator")
    return np.hstack((full, np.isnan(X[:, gaps])))


def test_every_ranker_has_a_way_for_missing_values():
    for name, cls in GRADED.items():
        assert ("missing" in cls().get_params()) == (name not in OWN_WAY), name


@pytest.mark.parametrize("name", FILLING)
def test_missing_values_are_errors_unless_a_way_is_given(name):
    X, y, qid = rows()
    with pytest.raises(
        hr.DataError, match=r"NaN \(a missing value\).*do if missing is 'zero', 'median' or 'indicator'"
    ):
        made(name).fit(X, y, qid)
    with pytest.raises(ValueError, match="missing must be one of"):
        made(name, missing="nan").fit(X, y, qid)


@pytest.mark.parametrize("name", FILLING)
@pytest.mark.parametrize("how", WAYS[1:])
def test_a_fit_is_that_of_filled_rows(name, how, tmp_path):
    X, y, qid = data = rows()
    new, _, ids = rows(1, 40)
    new[0] = np.nan  # also where training rows had no gap
    ranker = fit(made(name, missing=how, scale="standard"), data)
    plain = fit(made(name, scale="standard"), (by_hand(X, X, how), y, qid))
    expected = plain.predict(by_hand(new, X, how))
    assert ranker.n_features_in_ == 5 and np.ptp(expected) > 0
    np.testing.assert_allclose(ranker.predict(new), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    back = hr.load(ranker.save(tmp_path / "model"))
    assert np.array_equal(back.predict(new), ranker.predict(new)) and back.missing == how
    assert np.array_equal(pickle.loads(pickle.dumps(ranker)).predict(new), ranker.predict(new))
    if name == "kernel-rank-svm" or name in ("ranknet", "listnet"):  # a few for all
        assert ranker.score(X, y, qid) == plain.score(by_hand(X, X, how), y, qid)
    scores = ranker.scorer()(new)
    np.testing.assert_allclose(scores, ranker.predict(new), rtol=1e-9, atol=1e-9 * np.abs(scores).max())
    shown = ranker.explain(new, ids)
    assert shown.contributions.shape == new.shape and len(shown.names) == 5
    if shown.exact:
        np.testing.assert_allclose(shown.rest, 0, atol=1e-8 * max(1, np.abs(scores).max()))


@pytest.mark.parametrize("how", WAYS[1:])
@pytest.mark.parametrize("name", ["rank-svm", "additive-rank-svm", "rankboost"])
def test_sparse_rows_have_the_same_gaps(name, how):
    X, y, qid = rows()
    X[:, 3] = np.where(X[:, 3] < 0.6, 0.0, X[:, 3])
    dense, stored = (fit(made(name, missing=how), (rows_, y, qid)) for rows_ in (X, sparse.csr_matrix(X)))
    np.testing.assert_allclose(stored.predict(sparse.csr_matrix(X)), dense.predict(X), rtol=1e-6, atol=1e-6)
    assert np.array_equal(stored.missing_.values, dense.missing_.values)


def test_weights_count_rows_in_medians():
    X = np.array([[1.0], [np.nan], [5.0], [9.0]])
    weight = np.array([1, 2, 3, 1])
    for how in WAYS[1:]:
        once, twice = MissingValues.learn(how, X, weight), MissingValues.learn(how, np.repeat(X, weight, axis=0))
        assert np.array_equal(once.values, twice.values) and np.array_equal(once.marked, twice.marked)
    assert MissingValues.learn("median", np.full((3, 1), np.nan)).values.tolist() == [0.0]


def test_curves_have_a_step_for_missing_values():
    X, y, qid = rows()
    ranker = hr.AdditiveRankSVM(missing="indicator", C=1.0).fit(X, y, qid)
    names = [curve.name for curve in ranker.curves_]
    assert names == ["f1", "f2", "f3", "f4", "f5", "f1 missing", "f2 missing", "f3 missing"]
    step = ranker.curves_[5]
    assert step.knots.tolist() == [0.0, 1.0] and step.heights[1] < step.heights[0]  # gaps of f1 are of low grades
    linear = hr.RankSVM(missing="indicator").fit(X, y, qid)
    assert "f1 missing" in dict(linear.feature_table()) and "a missing" in dict(linear.feature_table(list("abcde")))
    ranks = hr.RankSVM(missing="indicator", context="rank").fit(X, y, qid)
    assert "a missing, rank in its query" in dict(ranks.feature_table(list("abcde")))
    better = linear.score(X, y, qid), hr.RankSVM(missing="median").fit(X, y, qid).score(X, y, qid)
    assert better[0] > better[1]


def test_pairs_and_paths_take_missing_values():
    X, y, qid = rows()
    pairs = hr.RankSVM(missing="indicator", scale="standard").fit_pairs(X, [0, 1], [2, 3])
    assert np.isfinite(pairs.predict(X)).all() and len(pairs.coef_) == 8
    path = hr.RankSVM(missing="median").fit_path(X, y, qid, [0.1, 1.0])
    assert np.allclose(path[1].predict(X), path[1].scorer()(X))
    data = hr.RankingData.from_arrays(X, y, qid, missing="nan")
    found = hr.tune("rank-svm", data, folds=2, params={"missing": ["median", "indicator"], "C": 0.1})
    assert found.missing in ("median", "indicator") and found.tuning_.trials[0].problem is None


FORMS = {
    "linear": lambda **more: hr.RankSVM(C=0.1, **more),
    "curves": lambda **more: hr.AdditiveRankSVM(n_knots=5, C=0.1, **more),
    "surfaces": lambda **more: hr.AdditiveRankSVM(n_knots=5, C=0.1, interactions=[(0, 1)], **more),
    "rbf": lambda **more: hr.NystroemRankSVM(n_components=7, **more),
    "waves": lambda **more: hr.FourierRankSVM(n_components=7, **more),
    "polynomial": lambda **more: hr.NystroemRankSVM(n_components=7, kernel="polynomial", **more),
    "trees": lambda **more: hr.RankBoost(max_iter=20, **more),
}


@functools.cache
def single():
    """The rows as numbers that single precision holds."""
    X, y, qid = rows()
    return hr.RankingData.from_arrays(X.astype(np.float32).astype(np.float64), y, qid, missing="nan")


@functools.cache
def form(kind, how, scale):
    """The same ranker for every format: an export only reads it."""
    return fit(FORMS[kind](missing=how, scale=scale), (single(),))


@pytest.mark.parametrize("how", WAYS[1:])
@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("to", FORMATS)
def test_exports_carry_missing_values_or_say_who_can(to, kind, how, tmp_path):
    data = single()
    carried = 0
    for scale in SCALES if kind in ("linear", "trees") else ("standard", "query-minmax"):
        if (to in ("c", "javascript")) and scale not in (None, "standard", "quantile"):
            continue  # each starts a program
        ranker = form(kind, how, scale)
        try:
            done = ranker.export(
                tmp_path / f"{scale}/", to=to, check=data, **{"shift": "auto"} if to in ENGINES else {}
            )
        except hr.ExportError as error:
            assert "cannot carry" in str(error) or (how != "zero" and to in ENGINES and "as 0" in str(error)), error
            continue
        assert done.check["rows"] == data.n_rows  # all of which the export scores as the ranker does, or it is an error
        carried += 1
    if not (to in ENGINES and (kind not in ("linear", "trees") or (how != "zero" and kind == "linear"))):
        assert carried or (to == "pmml" and kind not in ("linear", "curves", "trees"))


@pytest.mark.parametrize("define", [False, True])
@pytest.mark.parametrize("to", ENGINES)
def test_engines_take_trees_that_split_by_a_mark_of_missing_values(to, define, tmp_path):
    """The mark is a column of the model but no feature of the engine: its feature is named instead."""
    X = np.where(np.arange(60)[:, None] % 3 == 0, np.nan, np.random.default_rng(0).random((60, 1)))
    y = np.isnan(X[:, 0]).astype(float)
    data = hr.RankingData.from_arrays(X, y, np.arange(60) // 10, missing="nan", feature_names=["price"])
    ranker = fit(hr.RankBoost(max_iter=3, missing="indicator"), (data,))
    assert ranker._form().used().max() >= 1  # the mark
    done = ranker.export(tmp_path / "out/", to=to, check=data, define=define, shift="auto")
    text = done.files[0].read_text()
    assert done.check["rows"] == 60 and "price" in text and "Infinity" not in text


BLENDS = {
    "one sum of curves": lambda: [FORMS["linear"](missing="median"), FORMS["curves"](missing="median")],
    "ways that differ": lambda: [FORMS["linear"](missing="zero"), FORMS["curves"](missing="indicator", scale="log")],
    "queries": lambda: [FORMS["linear"](missing="indicator", scale=s) for s in ("query-minmax", "query-standard")],
    "trees": lambda: [FORMS["trees"](missing="indicator"), FORMS["linear"](missing="indicator", scale="quantile")],
    "kernel": lambda: [FORMS["rbf"](missing="indicator"), FORMS["linear"](missing="median")],
}


@pytest.mark.parametrize("case", BLENDS)
def test_members_of_a_blend_fill_by_themselves(case, tmp_path):
    X, y, qid = rows()
    data = hr.RankingData.from_arrays(X.astype(np.float32), y, qid, missing="nan")
    blend = fit(hr.Blend(BLENDS[case](), folds=2), (data,))
    scores = blend.predict(data)
    np.testing.assert_allclose(hr.load(blend.save(tmp_path / "model")).predict(data), scores)
    np.testing.assert_allclose(blend.scorer()(data.X, data.qid), scores, rtol=1e-6, atol=1e-6)
    assert blend.explain(data.X, data.qid).contributions.shape == X.shape
    carried = carriers([part.outline for part in blend._form().parts])
    assert carried and set(carried) == set(carriers(blend._form_parts()))
    for to in carried:
        assert blend.export(tmp_path / f"{to}/", to=to, check=data).check["rows"] == len(y)


def test_gaps_are_filled_before_values_are_compared_within_queries():
    X, y, qid = rows()
    for how in WAYS[1:]:
        full = by_hand(X, X, how)
        ranker, plain = (hr.RankSVM(context="rank", missing=m).fit(Z, y, qid) for m, Z in ((how, X), ("error", full)))
        np.testing.assert_allclose(ranker.predict(X, qid), plain.predict(full, qid), rtol=1e-9)
        assert len(ranker.feature_table()) == len(plain.feature_table()) == 2 * full.shape[1]
        assert ranker.explain(X, qid).contributions.shape == X.shape
        assert {name for name, _ in ranker.feature_table()} >= {"f1", "f1, rank in its query"}


def test_a_wrong_fill_in_an_export_is_refused(tmp_path, monkeypatch):
    X, y, qid = rows()
    data = hr.RankingData.from_arrays(X, y, qid, missing="nan")
    ranker = hr.RankSVM(C=0.1, missing="median").fit(data)
    form = ranker._form()
    wrong = MissingValues(form.filled.values + 1, form.filled.marked)
    monkeypatch.setattr(type(ranker), "_form", lambda self: type(form)(form.names, form.body, form.scaling, wrong))
    with pytest.raises(hr.ExportError, match="the export is wrong"):
        ranker.export(tmp_path / "model.py", to="python", check=data)


def test_forged_fills_are_refused():
    for values, marked in (([np.inf], [0]), ([[1.0]], []), ([1.0], [1]), ([1.0, 2.0], [1, 1]), ([1.0], [-1])):
        with pytest.raises(hr.DataError):
            MissingValues.from_state({"values": np.array(values), "marked": np.array(marked, np.int64)})


def test_the_command_line_learns_missing_values(tmp_path, capsys):
    from hingerank.cli import main

    X, y, qid = rows()
    hr.write(hr.RankingData.from_arrays(X, y, qid, missing="nan"), tmp_path / "rows.txt")
    given = [str(tmp_path / "rows.txt"), "--missing", "nan", "-o", str(tmp_path / "model")]
    assert main(["fit", *given]) == 1
    said = capsys.readouterr().err
    assert "--set missing=median (or zero or indicator)" in said and "--missing median" not in said
    assert main(["fit", *given, "--set", "missing=indicator"]) == 0
    assert main(["export", str(tmp_path / "model"), "--to", "sql", "-o", str(tmp_path / "model.sql")]) == 0
    assert main(["export", str(tmp_path / "model"), "--to", "solr", "-o", str(tmp_path / "solr/")]) == 1
    assert "formats that can: python, c, javascript, sql, onnx, vespa, pmml" in capsys.readouterr().err
