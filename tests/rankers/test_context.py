"""context="rank" and "standard": columns of ranks or z-scores within queries, beside the columns themselves."""

import numpy as np
import pytest
from scipy import sparse, stats

import hingerank as hr
from hingerank.features.maps import beside_context


@pytest.fixture(scope="module")
def data():
    made = hr.make_letor(15, (1, 12), n_features=4, seed=2, dtype="float64")
    rows = np.random.default_rng(0).permutation(made.n_rows)
    return hr.RankingData(np.round(6 * made.X)[rows], made.y[rows], made.qid[rows])


def test_ranks_are_those_of_scipy(data):
    found = beside_context(data.X, data.qid, "rank")[:, 4:]
    for q in np.unique(data.qid):
        mine = data.qid == q
        n = mine.sum()
        ranks = np.apply_along_axis(stats.rankdata, 0, data.X[mine]) - 1
        expected = np.sqrt(12) * (ranks / (n - 1) - 0.5) if n > 1 else 0.0
        np.testing.assert_allclose(found[mine], expected + np.zeros_like(ranks), atol=1e-12)


@pytest.mark.parametrize("context", ["rank", "standard"])
@pytest.mark.parametrize("kind", [hr.RankSVM, hr.AdditiveRankSVM])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_a_context_is_further_columns(kind, context, scale, data, tmp_path):
    ranker = kind(C=0.1, context=context, scale=scale, tol=1e-6).fit(data)
    scaled = data.X if scale is None else ranker.scaler_.transform(data.X, data.qid)
    wide = kind(C=0.1, tol=1e-6).fit(beside_context(scaled, data.qid, context), data.y, data.qid)
    expected = wide.predict(beside_context(scaled, data.qid, context))
    np.testing.assert_allclose(ranker.predict(data), expected, atol=1e-8)
    found = ranker.explain(data)
    assert found.contributions.shape == data.X.shape and np.abs(found.rest).max() < 1e-9
    back = hr.load(ranker.save(tmp_path))
    assert np.array_equal(back.predict(data), ranker.predict(data))
    with pytest.raises(ValueError, match="predict needs qid"):
        ranker.predict(data.X)
    with pytest.raises(hr.ExportError, match="no format carries context"):
        ranker.export(tmp_path / "m.sql", "sql")


def test_names_say_which_column_is_which(data):
    named = hr.RankingData(data.X, data.y, data.qid, feature_names=list("abcd"))
    ranker = hr.AdditiveRankSVM(context="rank", monotone={"b": 1, "b, rank in its query": 1}).fit(named)
    assert [curve.name for curve in ranker.curves_][3:5] == ["d", "a, rank in its query"]
    assert len(hr.RankSVM(context="rank").fit(named).feature_table()) == 8


def test_blends_and_mapped_rows_take_a_context(data, tmp_path):
    members = [hr.RankSVM(C=0.1, context="rank"), hr.AdditiveRankSVM(n_knots=4)]
    blend = hr.Blend(members, folds=3).fit(data)
    assert blend.explain(data).exact
    hr.write(data, tmp_path / "rows/")
    mapped = hr.read(tmp_path / "rows")
    np.testing.assert_allclose(members[0].fit(mapped).predict(mapped), members[0].fit(data).predict(data), atol=1e-3)


def test_mistakes_are_named(data):
    with pytest.raises(ValueError, match="context must be None, 'rank' or 'standard', not 'ranks'"):
        hr.RankSVM(context="ranks").fit(data)
    with pytest.raises(ValueError, match="would fill a sparse matrix"):
        hr.RankSVM(context="rank").fit(sparse.csr_matrix(data.X), data.y, data.qid)
    with pytest.raises(ValueError, match="works within queries"):
        hr.RankSVM(context="rank").fit_pairs(data.X, [0], [1])
    with pytest.raises(ValueError, match="data in parts"):
        hr.RankSVM(context="rank")._check_parts()
