"""A class that overrides `fit` or `predict` alone is searched with its own, never with its parent's quicker ways."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.lab.comparison import compare
from hingerank.lab.folds import query_folds
from hingerank.lab.leaderboard import refit
from hingerank.lab.methods import Method
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.own import follows
from hingerank.registry import RANKERS, ranker_class
from hingerank.search.folds import FITS, SCALED, SCORES, paths_of
from hingerank.search.kernel_search import search_kernel

DATA = hr.make_letor(12, rows_per_query=6, n_features=4, seed=0)
CS = [0.01, 1.0]


def turned(parent, by="fit"):
    """A class that learns the opposite of its parent, or whose `predict` answers the opposite."""

    class Turned(parent):
        if by == "fit":

            def fit(self, X, y=None, qid=None, **more):
                rows = (X.X, X.y, X.qid) if isinstance(X, hr.RankingData) else (X, y, qid)
                return super().fit(rows[0], -np.asarray(rows[1]), rows[2], **more)

        elif by == "_source":

            def _source(self, X, y, qid, *more):
                rows = (X.X, X.y, X.qid) if isinstance(X, hr.RankingData) else (X, y, qid)
                return super()._source(rows[0], -np.asarray(rows[1]), rows[2], *more)

        else:

            def predict(self, X, qid=None):
                return -super().predict(X, qid)

    return Turned


def by_hand(kind, scale="standard", **settings):
    """The mean NDCG@10 of every C over the folds that `tune` and `compare` make of the validation data."""
    train, held = DATA.split(test_size=0.5, seed=0)
    values = []
    for C in CS:
        ranker = kind(C=C, scale=scale, tol=1e-2, **settings).fit(train)
        values.append(hr.evaluate(held.y, ranker.predict(held.X, held.qid), held.qid, "ndcg@10")["ndcg@10"])
    return values


@pytest.mark.parametrize("by", ["fit", "_source", "predict"])
def test_tune_tries_what_the_class_itself_does(by):
    kind = turned(hr.RankSVM, by)
    train, held = DATA.split(test_size=0.5, seed=0)
    found = hr.tune(kind(), train, validation=held, params={"C": CS, "scale": "standard"}, widen=False)
    np.testing.assert_allclose([t.mean for t in found.tuning_.trials], by_hand(kind), atol=1e-12)
    assert max(by_hand(kind)) < min(by_hand(hr.RankSVM)) - 0.1


def test_rows_are_not_scaled_before_a_fit_that_would_see_them_as_they_are():
    class Squares(hr.RankSVM):
        def fit(self, X, y=None, qid=None, **more):
            rows = (X.X, X.y, X.qid) if isinstance(X, hr.RankingData) else (X, y, qid)
            assert abs(rows[0].mean()) > 1e-3, "the rows came scaled"
            return super().fit(rows[0] ** 2, *rows[1:], **more)

        def predict(self, X, qid=None):
            return super().predict(X**2, qid)

    train, held = DATA.split(test_size=0.5, seed=0)
    found = hr.tune(Squares(), train, validation=held, params={"C": CS, "scale": "standard"}, widen=False)
    np.testing.assert_allclose([t.mean for t in found.tuning_.trials], by_hand(Squares), atol=1e-12)


def test_tune_gives_query_ids_to_a_predict_that_takes_them():
    from sklearn.linear_model import Ridge

    class Plain(Ridge):
        def fit(self, X, y, qid=None):
            return super().fit(X, y)

    found = hr.tune(Plain(), DATA, folds=2, params={"alpha": [0.1, 1.0]}, widen=False)
    assert all(trial.problem is None for trial in found.tuning_.trials) and found.predict(DATA.X).shape == DATA.y.shape


@pytest.mark.parametrize("by", ["fit", "_source", "predict"])
def test_compare_tries_what_the_class_itself_does(by):
    method = Method("turned", turned(hr.RankSVM, by), {"C": CS}, {"scale": "standard", "tol": 1e-2})
    plain = Method("plain", hr.RankSVM, {"C": CS}, {"scale": "standard", "tol": 1e-2})
    results = compare([method, plain], query_folds(DATA, 3), measures=["ndcg@10"], workers=1)
    ours, theirs = ([r["value"] for r in results.validations(name)] for name in ("turned", "plain"))
    assert np.mean(ours) < np.mean(theirs) - 0.1


@pytest.mark.parametrize("by", ["fit", "_source", "predict"])
def test_a_kernel_search_tries_what_the_class_itself_does(by):
    kind = turned(hr.NystroemRankSVM, by)
    train, held = DATA.split(test_size=0.5, seed=0)
    ranker = kind(10, gamma=0.5, scale="standard", tol=1e-2, random_state=0)
    found = search_kernel(ranker, train, held, Cs=CS, gammas=[0.5])
    expected = by_hand(kind, n_components=10, gamma=0.5, random_state=0)
    np.testing.assert_allclose([row["value"] for row in found.table], expected, atol=1e-12)


def doubled(parent):
    """A class whose `fit` takes arrays alone."""

    class Doubled(parent):
        def fit(self, X, y, qid=None):
            return super().fit(2 * np.asarray(X), y, qid)

    return Doubled


def test_a_fit_that_takes_arrays_alone_gets_them():
    """Also where the best ranker is fitted to everything, and in blends."""
    kind, train = doubled(hr.RankSVM), DATA
    alone = kind(C=0.1).fit(train.X, train.y, train.qid)
    found = hr.tune(kind(), train, folds=2, params={"C": 0.1, "scale": None, "loss": ["hinge", "squared_hinge"]})
    assert isinstance(found, kind) and found.n_features_in_ == 4
    mixed = hr.Blend([kind(C=0.1), "rankrls"]).fit(train)
    np.testing.assert_allclose(mixed.members_[0].coef_, alone.coef_, atol=1e-12)
    tuned = hr.tune([kind(), "rankrls"], train, folds=2, params={"C": [0.1, 1.0], "scale": None}, blend=True)
    assert isinstance(tuned.members_[0], kind)
    kernels = doubled(hr.FourierRankSVM)(10, gamma=0.5)
    assert search_kernel(kernels, train, train, Cs=[0.1], gammas=[0.5]).best.n_features_in_ == 4
    methods = [Method("doubled", kind, fixed={"C": 0.1})]
    results = compare(methods, query_folds(train, 3), measures=[], workers=1)
    np.testing.assert_allclose(refit(results, methods, train)[1].coef_, alone.coef_, atol=1e-12)


@pytest.mark.parametrize("name", RANKERS)
def test_registered_rankers_keep_their_quicker_ways_and_a_users_fit_ends_them(name):
    kind = ranker_class(name)
    if not issubclass(kind, BaseRanker):
        assert paths_of(kind) == ()
        return
    assert paths_of(kind)[:1] == ((kind.path_parameter,) if "fit_path" in dir(kind) else ())
    assert follows(kind, BaseRanker, *SCALED)
    for method in FITS:
        assert paths_of(type("Mine", (kind,), {method: lambda self: self})) == ()
    for method in SCORES:
        assert not follows(type("Mine", (kind,), {method: lambda self: self}), BaseRanker, *SCORES)


def test_a_path_of_the_class_that_defines_fit_is_taken():
    class Both(hr.RankSVM):
        path_parameter = "tol"

        def fit(self, X, y=None, qid=None, **more):
            return super().fit(X, y, qid, **more)

        def fit_path(self, X, y, qid, values):
            return [Both(tol=value).fit(X, y, qid) for value in values]

    class Further(Both):
        pass

    assert paths_of(Both) == paths_of(Further()) == ("tol",)
    assert paths_of(turned(Both)) == ()
    assert paths_of(lambda C: hr.RankSVM(C)) == ()
