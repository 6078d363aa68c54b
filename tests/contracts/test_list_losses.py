"""Every registered loss of whole lists, against its definition in plain Python and the calculus it promises."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from hingerank.losses import LIST_LOSSES, make_loss
from hingerank.preferences import ExplicitPairs, GradedPreferences


def top_one(s, y):
    P_y, P_s = np.exp(y) / np.exp(y).sum(), np.exp(s) / np.exp(s).sum()
    return -(P_y * np.log(P_s)).sum()


def plackett_luce(s, y):
    return sum(np.log(1 + sum(np.exp(s[j] - s[i]) for j in range(len(s)) if y[j] < y[i])) for i in range(len(s)))


def grade_differences(s, y):
    return sum(
        ((y[i] - y[j]) - (s[i] - s[j])) ** 2 for i in range(len(s)) for j in range(len(s)) if y[i] > y[j]
    )  # fmt: skip


def grade_margins(s, y):
    return sum(
        max(0.0, (y[i] - y[j]) - (s[i] - s[j])) ** 2 for i in range(len(s)) for j in range(len(s)) if y[i] > y[j]
    )  # fmt: skip


def all_differences(s, y):
    return sum(((y[i] - y[j]) - (s[i] - s[j])) ** 2 for i in range(len(s)) for j in range(i))


def cosine(s, y):
    s, y = s - s.mean(), y - y.mean()
    return 0.5 * (1 - s @ y / np.sqrt(1 + s @ s) / np.linalg.norm(y)) if y.any() else 0.0


PLAIN = {
    "listnet": top_one,
    "listmle": plackett_luce,
    "grade_differences": grade_differences,
    "grade_margins": grade_margins,
    "all_differences": all_differences,
    "cosine": cosine,
}
EVERY = pytest.mark.parametrize("name", sorted(LIST_LOSSES))


def problem(rng, n_grades=3, sizes=(9, 1, 14, 0, 6), ties=False):
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    y = rng.integers(0, n_grades, offsets[-1]) * 1.0
    s = 1.5 * rng.normal(size=offsets[-1])
    return np.round(s) if ties else s, y, offsets


def plain(name, s, y, offsets, query=None):
    lists = [PLAIN[name](s[a:b], y[a:b]) for a, b in pairwise(offsets) if b > a]
    return float(np.sum(lists if query is None else np.array(lists) * query[np.diff(offsets) > 0]))


@EVERY
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_grades", [1, 2, 3, 30])
def test_value_is_the_definition(name, n_grades, ties):
    rng = np.random.default_rng([n_grades, ties])
    s, y, offsets = problem(rng, n_grades, ties=ties)
    query = rng.uniform(0, 2, len(offsets) - 1)
    at = make_loss(name).at(s, GradedPreferences(y, offsets, query_weight=query))
    np.testing.assert_allclose(at.value, plain(name, s, y, offsets, query), rtol=1e-12, atol=1e-12)


@EVERY
@pytest.mark.parametrize("n_grades", [2, 3, 30])
def test_gradient_curvature_and_diagonal_are_derivatives(name, n_grades):
    rng = np.random.default_rng([3, n_grades])
    s, y, offsets = problem(rng, n_grades)
    loss = make_loss(name)
    preferences = GradedPreferences(
        y, offsets, item_weight=rng.uniform(0.2, 3, len(y)), query_weight=rng.uniform(0.2, 2, len(offsets) - 1)
    )
    here, h, eye = loss.at(s, preferences), 1e-5, np.eye(len(s))
    ends = [(loss.at(s + h * e, preferences), loss.at(s - h * e, preferences)) for e in eye]
    slope = np.array([(up.value - down.value) / (2 * h) for up, down in ends])
    hessian = np.array([(up.gradient - down.gradient) / (2 * h) for up, down in ends])
    np.testing.assert_allclose(here.gradient, slope, rtol=1e-5, atol=1e-6 * np.abs(slope).max())
    for v in rng.normal(size=(3, len(s))):
        np.testing.assert_allclose(here.curvature(v), hessian @ v, rtol=1e-4, atol=1e-6 * np.abs(hessian).max())
    np.testing.assert_allclose(here.diagonal, np.diag(hessian), rtol=1e-4, atol=1e-6 * np.abs(hessian).max())


@EVERY
def test_convex_and_blind_to_shifts_and_to_the_order_of_rows(name):
    rng = np.random.default_rng(4)
    s, y, offsets = problem(rng, sizes=(20, 12))
    loss, preferences, other = make_loss(name), GradedPreferences(y, offsets), rng.normal(size=32)
    ends = loss.at(s, preferences), loss.at(other, preferences)
    for t in (0.2, 0.5, 0.9):
        between = loss.at((1 - t) * s + t * other, preferences).value
        assert not loss.convex or between <= (1 - t) * ends[0].value + t * ends[1].value + 1e-9
    moved = loss.at(s + np.repeat([17.0, -4.0], [20, 12]), preferences)
    np.testing.assert_allclose(moved.value, ends[0].value, rtol=1e-12)
    np.testing.assert_allclose(moved.gradient, ends[0].gradient, atol=1e-11 * np.abs(s).max() + 1e-10)
    np.testing.assert_allclose(ends[0].gradient.sum(), 0.0, atol=1e-9)
    np.testing.assert_allclose(ends[0].curvature(np.ones(32)), 0.0, atol=1e-9)
    order = np.concatenate([rng.permutation(20), 20 + rng.permutation(12)])
    shuffled = loss.at(s[order], GradedPreferences(y[order], offsets))
    np.testing.assert_allclose(shuffled.value, ends[0].value, rtol=1e-12)
    np.testing.assert_allclose(shuffled.gradient, ends[0].gradient[order], atol=1e-10)


@EVERY
def test_a_row_of_weight_two_is_the_row_twice(name):
    rng = np.random.default_rng(5)
    s, y, offsets = problem(rng, sizes=(15,))
    weight, v = rng.integers(0, 3, 15), rng.normal(size=15)
    weight[y == 0] *= rng.integers(0, 2)  # once all rows of the lowest grade are absent
    loss = make_loss(name)
    heavy = loss.at(s, GradedPreferences(y, offsets, item_weight=weight))
    twice = loss.at(np.repeat(s, weight), GradedPreferences(np.repeat(y, weight), np.array([0, weight.sum()])))
    row = np.repeat(np.arange(15), weight)
    np.testing.assert_allclose(heavy.value, twice.value, rtol=1e-12)
    np.testing.assert_allclose(heavy.gradient, np.bincount(row, twice.gradient, 15), atol=1e-10)
    np.testing.assert_allclose(heavy.curvature(v), np.bincount(row, twice.curvature(v[row]), 15), atol=1e-10)


@EVERY
@pytest.mark.parametrize("sizes", [[0], [1], [0, 1, 0], []])
def test_single_rows_cost_nothing(name, sizes):
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(int)
    s = np.arange(offsets[-1]) + 3.0
    at = make_loss(name).at(s, GradedPreferences(np.ones(offsets[-1]), offsets))
    assert at.value == 0.0 and not at.gradient.any() and not at.curvature(s).any() and not at.diagonal.any()


@EVERY
def test_one_grade_is_content_with_equal_scores(name):
    at = make_loss(name).at(np.full(7, 2.5), GradedPreferences(np.full(7, 3.0), np.array([0, 3, 7])))
    np.testing.assert_allclose(at.gradient, 0.0, atol=1e-15)


@EVERY
@pytest.mark.parametrize("size", [1e-8, 300.0, 1e8])
def test_extreme_scores_stay_finite(name, size):
    rng = np.random.default_rng(9)
    y = rng.integers(0, 4, 40) * 1.0
    loss = make_loss(name)
    at = loss.at(size * rng.normal(size=40), GradedPreferences(y, np.array([0, 40])))
    assert np.isfinite(at.value) and np.isfinite(at.gradient).all() and np.isfinite(at.curvature(y)).all()
    assert at.value > 0 and (not loss.convex or (at.diagonal >= -1e-12).all())


@EVERY
def test_the_answer_does_not_depend_on_threads(name, monkeypatch):
    rng = np.random.default_rng(11)
    offsets = np.arange(0, 40001, 40)
    y, s = rng.integers(0, 3, 40000) * 1.0, rng.normal(size=40000)
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        at = make_loss(name).at(s, GradedPreferences(y, offsets))
        results.append((at.value, at.gradient.tobytes(), at.curvature(s).tobytes()))
    assert results[0] == results[1] == results[2]


@EVERY
def test_what_lists_cannot_use_is_refused(name):
    y, offsets = np.array([0.0, 1.0]), np.array([0, 2])
    with pytest.raises(ValueError, match="single comparisons"):
        make_loss(name).at(y, ExplicitPairs([1], [0], 2))
    weighted = GradedPreferences(y, offsets, pair_weight="query")
    if make_loss(name).takes_pair_weights:
        assert make_loss(name).at(y, weighted).value == 0.0
    else:
        with pytest.raises(ValueError, match="takes no weights of pairs"):
            make_loss(name).at(y, weighted)


def test_without_ties_listmle_is_the_likelihood_of_the_graded_order():
    rng = np.random.default_rng(12)
    s, y = rng.normal(size=8), rng.permutation(8) * 1.0
    best_first = s[np.argsort(-y)]
    likelihood = np.prod([np.exp(best_first[k]) / np.exp(best_first[k:]).sum() for k in range(8)])
    at = make_loss("listmle").at(s, GradedPreferences(y, np.array([0, 8])))
    np.testing.assert_allclose(at.value, -np.log(likelihood), rtol=1e-12)


def test_with_ties_listmle_bounds_the_likelihood_of_the_ordered_groups():
    """Over all orders that agree with the grades the likelihoods add up to at least exp(-loss)."""
    rng = np.random.default_rng(13)
    s, y = rng.normal(size=6), np.array([2.0, 1, 1, 0, 2, 0])
    total = 0.0
    for order in permutations(range(6)):
        if all(y[a] >= y[b] for a, b in pairwise(order)):
            e = np.exp(s[list(order)])
            total += np.prod([e[k] / e[k:].sum() for k in range(6)])
    at = make_loss("listmle").at(s, GradedPreferences(y, np.array([0, 6])))
    assert -np.log(total) <= at.value <= -np.log(total) + 1.0


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no loss 'list'.*listmle, listnet"):
        make_loss("list")
