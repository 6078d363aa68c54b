"""A fit ends relative to what there is to gain: features of a small scale, or a small C, leave no weights at 0."""

import warnings

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.checks import WeakFitWarning
from hingerank.registry import RANKERS, ranker_class

SMALL = 2.0**-13  # a power of two: numbers scaled by it keep their digits

# How C makes up for features times a: w / a has the same scores and a norm of 1 / a² (1 / a where it is not squared).
SCALED = {
    "rank-svm": [{"loss": loss} for loss in ("squared_hinge", "logistic", "squared", "modified_huber", "exponential")]
    + [{"loss": "hinge", "solver": solver} for solver in ("smoothing", "cutting-plane", "dual")],
    "ranknet": [{}],
    "frank": [{}],
    "listnet": [{}],
    "listmle": [{}],
    "rankrls": [{}],
    "crr": [{}],
    "svm-map": [{}],
    "rankcosine": [{}],
    "lambdarank": [{}],
    "kernel-rank-svm": [{"kernel": "linear"}, {"kernel": "linear", "loss": "hinge"}],
    "feature-selection": [{"n_features": 2}],
    "fenchel-rank": [{"variant": variant} for variant in ("corrective", "classic", "away", "pairwise")],
    "sparse-rank-svm": [{}, {"ridge": 0.5}],
    "tg-rank": [{}],
}
POWERS = {"fenchel-rank": ("radius", 1), "sparse-rank-svm": ("C", 1), "tg-rank": ("C", 1)}


def graded(seed=0, queries=12):
    """Rows one of whose features is their grade and a little noise, and by which the others rank nothing."""
    rng = np.random.default_rng(seed)
    y, qid = rng.integers(0, 4, 10 * queries).astype(float), np.repeat(np.arange(queries), 10)
    return np.column_stack([rng.normal(size=(len(y), 3)), y + 0.1 * rng.random(len(y))]), y, qid


def silently(ranker, *rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ranker.fit(*rows)


@pytest.mark.parametrize("name, settings", [(name, s) for name, several in SCALED.items() for s in several])
@pytest.mark.parametrize("value", [1e-6, 1.0])
def test_the_same_problem_in_other_units_has_the_same_fit(name, settings, value):
    """Certificate, iterations and scores do not depend on the features' scale if C makes up for it."""
    (X, y, qid), (parameter, power) = graded(), POWERS.get(name, ("C", 2))
    found = silently(ranker_class(name)(**settings, **{parameter: value}), X, y, qid)
    more = {"ridge": settings["ridge"] * SMALL} if "ridge" in settings else {}  # the squared norm has 1 / a² again
    scaled = settings | more | {parameter: value / SMALL**power}
    other = silently(ranker_class(name)(**scaled), SMALL * X, y, qid)
    assert other.certificate_.status == found.certificate_.status
    assert other.n_iter_ == found.n_iter_
    assert other.certificate_.value == pytest.approx(found.certificate_.value, rel=1e-3, abs=1e-12)
    np.testing.assert_allclose(other.predict(SMALL * X), found.predict(X), rtol=1e-6, atol=1e-9)


LINEAR = [name for name, place in RANKERS.items() if place.startswith("hingerank.rankers.")]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("scale", [1e-3, 1e-4, 1e-6])
def test_no_fit_of_small_features_is_certified_at_weights_of_zero(name, scale):
    """Where 0 is the very optimum, as under an l1 norm, the fit says so."""
    X, y, qid = graded()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ranker = ranker_class(name)().fit(scale * X, y, qid)
    said = sum(issubclass(w.category, WeakFitWarning) for w in warned)
    assert said <= 1
    scores = ranker.predict(scale * X)
    if np.ptp(scores) == 0 and ranker.certificate_.converged:
        assert name in ("sparse-rank-svm", "tg-rank", "rs-rank") and (said or name == "rs-rank")
    elif ranker.certificate_.converged:
        assert hr.evaluate(y, scores, qid, "ndcg@10")["ndcg@10"] > 0.85


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize("C", [1e-3, 1e-7, 1e-12])
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_as_C_vanishes_the_direction_is_that_of_the_first_gradient(loss, C, scale):
    """At whatever precision differences of values are lost."""
    X, y, qid = graded()
    i, j = np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))
    first = (X[i] - X[j]).sum(axis=0)
    ranker = silently(hr.RankSVM(C=C * 1e-3, loss=loss), scale * X, y, qid)
    assert ranker.certificate_.converged
    if C * scale < 1e-6:
        w = ranker.coef_ / np.linalg.norm(ranker.coef_)
        assert w @ first / np.linalg.norm(first) > 1 - 1e-3


@pytest.mark.parametrize("solver", ["smoothing", "cutting-plane", "dual"])
def test_hinge_solvers_agree_where_next_to_nothing_is_gained(solver):
    X, y, qid = graded()
    best = silently(hr.RankSVM(C=1e-11, loss="hinge", tol=1e-9), X, y, qid)
    found = silently(hr.RankSVM(C=1e-11, loss="hinge", solver=solver), X, y, qid)
    assert found.certificate_.converged
    np.testing.assert_allclose(found.coef_, best.coef_, rtol=1e-2, atol=1e-3 * np.abs(best.coef_).max())


def test_a_start_other_than_zero_is_measured_from_zero():
    X, y, qid = graded()
    for loss in ("squared_hinge", "hinge"):
        cold = silently(hr.RankSVM(C=1e-9, loss=loss), X, y, qid)
        warm = silently(hr.RankSVM(C=1e-9, loss=loss, init=np.full(4, 1e-8)), X, y, qid)
        assert warm.certificate_.converged and cold.certificate_.converged
        np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=0.1, atol=0.03 * np.abs(cold.coef_).max())
    path = silently(hr.RankSVM(), X, y, qid).fit_path(X, y, qid, [1e-12, 1e-9, 1e-6])
    for C, ranker in zip([1e-12, 1e-9, 1e-6], path):
        alone = silently(hr.RankSVM(C=C), X, y, qid)
        np.testing.assert_allclose(ranker.coef_, alone.coef_, rtol=0.1, atol=0.03 * np.abs(alone.coef_).max())


class TestWarning:
    def warned(self, ranker, X, y, qid):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            ranker.fit(X, y, qid)
        return [str(w.message) for w in found if issubclass(w.category, WeakFitWarning)]

    @pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
    def test_names_C_and_the_scale_once(self, loss):
        X, y, qid = graded()
        assert self.warned(hr.RankSVM(C=0.01, loss=loss), X, y, qid) == []
        (said,) = self.warned(hr.RankSVM(C=0.01, loss=loss), 1e-4 * X, y, qid)
        assert said.startswith("C=0.01 is small for features of this scale") and 'scale="standard"' in said

    def test_names_what_a_ranker_has_instead_of_C(self):
        X, y, qid = graded()
        (said,) = self.warned(hr.FenchelRank(radius=1e-4), X, y, qid)
        assert said.startswith("radius=0.0001 is small")
        (said,) = self.warned(hr.SparseRankSVM(C=1e-4), X, y, qid)
        assert "only 0 % better" in said
        (said,) = self.warned(hr.FeatureSelectionRanker(n_features=2, C=1e-6), X, y, qid)
        assert said.startswith("C=1e-06 is small") and "n_features" not in said

    def test_is_silent_where_there_is_nothing_to_learn(self):
        """Noise gives little to gain at any C: a larger one would not help."""
        rng = np.random.default_rng(0)
        X, y, qid = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000), np.repeat(np.arange(100), 30)
        ranker = hr.RankSVM(C=1.0)
        assert self.warned(ranker, X, y, qid) == []
        assert ranker.certificate_.converged
        assert self.warned(hr.RankSVM(), np.ones((6, 2)), [0, 1, 2, 0, 1, 2], np.zeros(6)) == []

    def test_is_silent_in_searches(self):
        X, y, qid = graded()
        data = hr.RankingData(X, y, qid)
        with warnings.catch_warnings():
            warnings.simplefilter("error", WeakFitWarning)
            hr.RankSVM().fit_path(1e-4 * X, y, qid, [1e-6, 1.0])
            hr.tune("rank-svm", data, params={"C": [1e-9, 1.0]}, folds=2)


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.WeakFitWarning")
@pytest.mark.parametrize("multiple", [1.05, 1.1, 1.3])
def test_factors_just_above_the_first_C_gain_something(multiple):
    """Relative to its value alone the objective is as good as stationary above that of weights of 0."""
    data = hr.make_personal(60, 80, 10, 3, per_user=30, seed=0, noise=0.3)
    X, users = data.item_features, np.unique(data.users, return_inverse=True)[1]
    G = np.zeros((60, 10))
    np.add.at(G, users, -2 * (X[data.winners] - X[data.losers]))
    C = multiple / np.linalg.norm(G, 2)
    parts = X, data.users, data.winners, data.losers
    found = hr.PersonalRankSVM(rank=4, C=C, prior="zero").fit_pairs(*parts)
    best = hr.PersonalRankSVM(rank=4, C=C, prior="zero", tol=1e-7, max_iter=3000).fit_pairs(*parts)
    origin = C * len(data.users)
    assert found.certificate_.converged
    assert origin - found.objective_ > 0.8 * (origin - best.objective_) > 0
