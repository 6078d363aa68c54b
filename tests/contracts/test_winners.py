"""Every loss of pairs over weighted winners, against the pairs listed in plain Python; and ListNet's weighted form."""

from itertools import pairwise

import numpy as np
import pytest

from hingerank.losses import LIST_LOSSES, LOSSES, TopOne, hinge, smoothed_hinge
from hingerank.preferences import ExplicitPairs, WeightedWinners

CASES = {name: make() for name, make in LOSSES.items()}
CASES |= {"hinge(-2)": hinge(-2.0), "smoothed_hinge(0.01)": smoothed_hinge(0.01)}
EVERY = pytest.mark.parametrize("loss", CASES.values(), ids=CASES.keys())


def listed(u, offsets, factor=lambda q: 1.0):
    """Every winner against all others of its query."""
    found = [
        (i, j, factor(q) * u[i])
        for q, (a, b) in enumerate(pairwise(offsets))
        for i in range(a, b)
        for j in range(a, b)
        if i != j and u[i] > 0
    ]
    return tuple(np.array(x) for x in zip(*found)) if found else (np.empty(0, int), np.empty(0, int), np.empty(0))


def check(loss, s, prefs, pairs, rng):
    """Value, gradient and Hessian by a matrix of pairs."""
    i, j, weight = pairs
    picks = np.zeros((len(i), len(s)))
    picks[np.arange(len(i)), i], picks[np.arange(len(i)), j] = 1.0, -1.0
    value, slope, curve = loss.pointwise(picks @ s)
    hessian, v = picks.T @ ((weight * curve)[:, None] * picks), rng.normal(size=len(s))
    assert prefs.n_pairs == len(i)
    np.testing.assert_allclose(prefs.total_weight, weight.sum(), rtol=1e-12, atol=1e-12)
    at = loss.at(s, prefs)
    np.testing.assert_allclose(at.value, weight @ value, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(at.gradient, picks.T @ (weight * slope), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(at.diagonal, np.diag(hessian), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(at.curvature(v), hessian @ v, rtol=1e-9, atol=1e-9)


def random_winners(rng, sizes, clicked, ties):
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    u = np.where(rng.random(offsets[-1]) < clicked, rng.exponential(3.0, offsets[-1]), 0.0)
    s = rng.normal(size=offsets[-1]) * 1.5
    return u, offsets, np.round(s) if ties else s


@EVERY
@pytest.mark.parametrize("clicked", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("ties", [False, True])
def test_equals_listed_pairs(loss, clicked, ties):
    rng = np.random.default_rng([int(10 * clicked), ties])
    for _ in range(5):
        u, offsets, s = random_winners(rng, [0, 1, *rng.integers(0, 30, 3), 1, 2], clicked, ties)
        query = rng.uniform(0, 2, len(offsets) - 1)
        pairs = listed(u, offsets, lambda q, c=query: c[q])
        check(loss, s, WeightedWinners(u, offsets, query_weight=query), pairs, rng)


@EVERY
def test_queries_that_count_the_same(loss):
    rng = np.random.default_rng(2)
    u, offsets, s = random_winners(rng, [9, 1, 4, 15], 0.6, ties=False)
    totals = [u[a:b].sum() * (b - a - 1) for a, b in pairwise(offsets)]
    pairs = listed(u, offsets, lambda q: 1 / totals[q])
    check(loss, s, WeightedWinners(u, offsets, pair_weight="query"), pairs, rng)


@EVERY
def test_parts_of_the_queries(loss):
    """Every second query, and queries one to three, have the pairs that they have among all."""
    rng = np.random.default_rng(3)
    u, offsets, s = random_winners(rng, [7, 1, 12, 0, 9], 0.5, ties=False)
    whole = WeightedWinners(u, offsets)
    part, rows = whole.every(2)
    check(loss, s[rows], part, listed(u[rows], part.offsets), rng)
    a, b = offsets[1], offsets[4]
    check(loss, s[a:b], whole.between(1, 4), listed(u[a:b], offsets[1:5] - a), rng)
    np.testing.assert_allclose(whole.weight_of(2), part.total_weight)


def test_pairs_are_listed_once_and_never_with_oneself():
    u, offsets = np.array([2.0, 0.0, 0.5, 1.0]), np.array([0, 3, 4])
    pairs = WeightedWinners(u, offsets).pairs()
    assert [tuple(map(float, p)) for p in zip(*pairs)] == [(0, 1, 2), (0, 2, 2), (2, 0, 0.5), (2, 1, 0.5)]
    assert WeightedWinners(u, offsets).pairs_per_query.tolist() == [4, 0]


def test_scores_far_apart_keep_their_digits():
    """The pair of a row with itself is taken out of sums that are not much larger than it."""
    rng = np.random.default_rng(4)
    u, offsets, s = random_winners(rng, [40], 1.0, ties=False)
    prefs, loss = WeightedWinners(u, offsets), CASES["squared_hinge"]
    for scale in (1e-6, 1e6):
        pairs = prefs.pairs()
        at, plain = (loss.at(scale * s, p) for p in (prefs, ExplicitPairs(pairs[0], pairs[1], 40, pairs[2])))
        np.testing.assert_allclose(at.value, plain.value, rtol=1e-12)
        np.testing.assert_allclose(at.gradient, plain.gradient, rtol=0, atol=1e-12 * np.abs(plain.gradient).max())


def test_listnet_is_the_weighted_softmax():
    """sum over clicked rows of u · -log softmax, by autodiff's poor relation: the formula and differences of it."""
    rng = np.random.default_rng(5)
    u, offsets, s = random_winners(rng, [0, 6, 1, 9], 0.5, ties=False)
    u[offsets[1] : offsets[2]] = 0.0  # a query without clicks costs nothing
    query, v, h = rng.uniform(0.5, 2, 4), rng.normal(size=len(u)), 1e-6
    prefs = WeightedWinners(u, offsets, query_weight=query)

    def value(s):
        blocks = zip(query, offsets, offsets[1:])
        return sum(c * u[a:b] @ (np.logaddexp.reduce(s[a:b]) - s[a:b]) for c, a, b in blocks if a < b)

    at = TopOne().at(s, prefs)
    np.testing.assert_allclose(at.value, value(s), rtol=1e-12)
    np.testing.assert_allclose((value(s + h * v) - value(s - h * v)) / (2 * h), at.gradient @ v, rtol=1e-6)
    ahead, behind = (TopOne().at(s + sign * h * v, prefs).gradient for sign in (1, -1))
    np.testing.assert_allclose((ahead - behind) / (2 * h), at.curvature(v), atol=1e-6)
    products = [at.curvature(row)[i] for i, row in enumerate(np.eye(len(u)))]
    np.testing.assert_allclose(at.diagonal, products, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in LIST_LOSSES if name != "listnet"])
def test_other_losses_of_lists_say_that_they_have_no_such_form(name):
    with pytest.raises(ValueError, match="cannot learn from winners with weights"):
        LIST_LOSSES[name]().at(np.zeros(3), WeightedWinners([1.0, 0.0, 2.0], [0, 3]))
    with pytest.raises(ValueError, match="single comparisons"):
        LIST_LOSSES[name]().at(np.zeros(3), ExplicitPairs([0], [1], 3))


def test_bad_weights():
    for bad in ([-1.0, 0.0], [np.nan, 0.0], [[1.0, 0.0]]):
        with pytest.raises(ValueError, match="weight"):
            WeightedWinners(bad, [0, 2])
    with pytest.raises(ValueError, match="pair_weight must be"):
        WeightedWinners([1.0], [0, 1], pair_weight="rows")
