"""Every registered loss, over graded and explicit preferences, against brute force and the calculus it promises."""

import numpy as np
import pytest

from hingerank.losses import LOSSES, hinge, smoothed_hinge, squared_hinge
from hingerank.preferences import ExplicitPairs, GradedPreferences

CASES = {name: make() for name, make in LOSSES.items()}
CASES |= {
    "squared_hinge(1/8)": squared_hinge(0.125),
    "hinge(-2)": hinge(-2.0),
    "smoothed_hinge(0.01)": smoothed_hinge(0.01),
}
EVERY = pytest.mark.parametrize("loss", CASES.values(), ids=CASES.keys())
SMOOTH = pytest.mark.parametrize(
    "loss", [v for k, v in CASES.items() if k.split("(")[0] != "hinge"], ids=[k for k in CASES if k[:5] != "hinge"]
)


def brute_force(loss, s, pairs):
    """Value, gradient, Hessian by adding up every pair."""
    n, (i, j, weight) = len(s), pairs
    gradient, hessian = np.zeros(n), np.zeros((n, n))
    v, d1, d2 = loss.pointwise(s[i] - s[j])
    np.add.at(gradient, i, weight * d1)
    np.add.at(gradient, j, -weight * d1)
    for row, column, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
        np.add.at(hessian, (row, column), sign * weight * d2)
    return (weight * v).sum(), gradient, hessian


def plain_pairs(y, offsets, weight):
    """Pairs by the definition, in plain Python."""
    found = [
        (i, j, weight(q, i, j))
        for q in range(len(offsets) - 1)
        for i in range(offsets[q], offsets[q + 1])
        for j in range(offsets[q], offsets[q + 1])
        if y[i] > y[j]
    ]
    return tuple(np.array(x) for x in zip(*found)) if found else (np.empty(0, int), np.empty(0, int), np.empty(0))


def random_problem(rng, n_grades, sizes, ties):
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    y = rng.integers(0, n_grades, offsets[-1]).astype(float) * 1.5 - 2
    s = rng.normal(size=offsets[-1]) * 1.5
    if ties:
        s = np.round(s)
    return y, offsets, s


@EVERY
@pytest.mark.parametrize("n_grades", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("ties", [False, True])
def test_equals_brute_force(loss, n_grades, ties):
    rng = np.random.default_rng([n_grades, ties])
    for _ in range(6):
        y, offsets, s = random_problem(rng, n_grades, rng.integers(0, 30, 4), ties)
        item, up = rng.uniform(0, 2, len(y)), rng.uniform(0.5, 3, len(y))
        query = rng.uniform(0, 2, 4)
        prefs = GradedPreferences(y, offsets, item_weight=item, winner_weight=up, query_weight=query)
        pairs = plain_pairs(y, offsets, lambda q, i, j, a=item, b=up, c=query: c[q] * a[i] * a[j] * b[i])
        check(loss, s, prefs, pairs, rng)
        check(loss, s, ExplicitPairs(*pairs[:2], len(y), pairs[2]), pairs, rng)


def check(loss, s, prefs, pairs, rng):
    value, gradient, hessian = brute_force(loss, s, pairs)
    assert prefs.n_pairs == len(pairs[0])
    np.testing.assert_allclose(prefs.total_weight, pairs[2].sum(), rtol=1e-12, atol=1e-12)
    at = loss.at(s, prefs)
    np.testing.assert_allclose(at.value, value, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(at.gradient, gradient, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(at.diagonal, np.diag(hessian), rtol=1e-10, atol=1e-10)
    v = rng.normal(size=len(s))
    np.testing.assert_allclose(at.curvature(v), hessian @ v, rtol=1e-9, atol=1e-9)


@EVERY
def test_weight_for_each_pair_of_grades(loss):
    rng = np.random.default_rng(3)
    y, offsets, s = random_problem(rng, 4, [12, 1, 20, 7], ties=False)
    grades, table = np.unique(y), rng.uniform(0, 3, (4, 4))
    at = {g: k for k, g in enumerate(grades)}
    prefs = GradedPreferences(y, offsets, grade_weight=table)
    check(loss, s, prefs, plain_pairs(y, offsets, lambda q, i, j: table[at[y[i]], at[y[j]]]), rng)


@EVERY
def test_query_normalisation_divides_by_the_pairs_of_the_query(loss):
    rng = np.random.default_rng(4)
    y, offsets, s = random_problem(rng, 3, [9, 4, 15], ties=False)
    counts = np.bincount(np.searchsorted(offsets, plain_pairs(y, offsets, lambda *a: 1.0)[0], "right") - 1, minlength=3)
    prefs = GradedPreferences(y, offsets, pair_weight="query")
    check(loss, s, prefs, plain_pairs(y, offsets, lambda q, i, j: 1 / counts[q]), rng)


@SMOOTH
def test_gradient_and_curvature_are_derivatives(loss):
    rng = np.random.default_rng(5)
    y, offsets, s = random_problem(rng, 4, [25, 10], ties=False)
    prefs = GradedPreferences(y, offsets)
    v, h = rng.normal(size=len(s)), 1e-6
    up, down, here = loss.at(s + h * v, prefs), loss.at(s - h * v, prefs), loss.at(s, prefs)
    np.testing.assert_allclose((up.value - down.value) / (2 * h), here.gradient @ v, rtol=1e-5)
    slope = (up.gradient - down.gradient) / (2 * h)
    np.testing.assert_allclose(slope, here.curvature(v), rtol=1e-4, atol=1e-4 * np.abs(slope).max())


@EVERY
def test_convex_along_lines_and_shift_invariant(loss):
    """Fidelity says that it is not convex, and it is not."""
    rng = np.random.default_rng(6)
    y, offsets, s = random_problem(rng, 5, [30, 8], ties=False)
    prefs = GradedPreferences(y, offsets)
    other = rng.normal(size=len(s))
    ends = loss.at(s, prefs).value, loss.at(other, prefs).value
    for t in (0.2, 0.5, 0.9) if loss.convex else ():
        assert loss.at((1 - t) * s + t * other, prefs).value <= (1 - t) * ends[0] + t * ends[1] + 1e-9
    assert loss.convex == (loss.pointwise(np.linspace(-9, 9, 99))[2] >= 0).all()
    shift = np.repeat([17.0, -4.0], np.diff(offsets))
    np.testing.assert_allclose(loss.at(s + shift, prefs).gradient, loss.at(s, prefs).gradient, atol=1e-9)
    np.testing.assert_allclose(loss.at(s, prefs).gradient.sum(), 0.0, atol=1e-9)


@EVERY
def test_rows_permuted_and_queries_doubled(loss):
    rng = np.random.default_rng(7)
    y, offsets, s = random_problem(rng, 3, [20], ties=True)
    at, order = loss.at(s, GradedPreferences(y, offsets)), rng.permutation(20)
    moved = loss.at(s[order], GradedPreferences(y[order], offsets))
    np.testing.assert_allclose(moved.gradient, at.gradient[order], atol=1e-10)
    np.testing.assert_allclose(moved.value, at.value, rtol=1e-12)
    twice = loss.at(np.tile(s, 2), GradedPreferences(np.tile(y, 2), np.array([0, 20, 40])))
    heavy = loss.at(s, GradedPreferences(y, offsets, query_weight=[2.0]))
    np.testing.assert_allclose(twice.value, heavy.value, rtol=1e-12)
    np.testing.assert_allclose(2 * twice.gradient[:20], heavy.gradient, atol=1e-10)


@EVERY
def test_item_weight_two_is_the_row_twice(loss):
    rng = np.random.default_rng(8)
    y, offsets, s = random_problem(rng, 3, [15], ties=False)
    weight = rng.integers(0, 3, 15)
    heavy = loss.at(s, GradedPreferences(y, offsets, item_weight=weight))
    twice = loss.at(np.repeat(s, weight), GradedPreferences(np.repeat(y, weight), np.array([0, weight.sum()])))
    np.testing.assert_allclose(heavy.value, twice.value, rtol=1e-11)


@EVERY
@pytest.mark.parametrize("sizes", [[0], [1], [0, 1, 0], [5]])
def test_queries_without_pairs_cost_nothing(loss, sizes):
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    s = np.arange(offsets[-1], dtype=float)
    prefs = GradedPreferences(np.zeros(offsets[-1]), offsets)
    at = loss.at(s, prefs)
    assert (at.value, prefs.n_pairs, len(prefs.pairs().winner)) == (0.0, 0, 0)
    assert not at.gradient.any() and not at.diagonal.any() and not at.curvature(s).any()


@EVERY
@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_extreme_scores(loss, size):
    """Scores of 1e±8: clusters far apart, small differences inside; sums must not cancel."""
    if loss.name == "exponential" and size > 1:
        pytest.skip("exp(1e8) is infinite")
    rng = np.random.default_rng(9)
    y = rng.integers(0, 4, 40).astype(float)
    s = size * np.round(y + rng.normal(size=40)) + np.round(rng.normal(size=40), 2) * min(size, 1)
    prefs = GradedPreferences(y, np.array([0, 40]))
    value, gradient, _ = brute_force(loss, s, prefs.pairs())
    at = loss.at(s, prefs)
    rtol = 1e-10
    if len(getattr(loss, "terms", [0])) == 2:  # the difference of two squares loses |t| / width digits
        rtol = 1e-14 * max(size, 1e4) / (loss.terms[0, 0] - loss.terms[1, 0])
    np.testing.assert_allclose(at.value, value, rtol=rtol)
    np.testing.assert_allclose(at.gradient, gradient, rtol=rtol, atol=rtol * np.abs(gradient).max())


@EVERY
def test_a_thousand_grades(loss):
    rng = np.random.default_rng(10)
    y, s = rng.normal(size=1200), rng.normal(size=1200)
    prefs = GradedPreferences(y, np.array([0, 1200]))
    assert prefs.n_pairs == 1200 * 1199 // 2
    t = s[:, None] - s[None, :]
    value, slope, _ = loss.pointwise(np.where(y[:, None] > y[None, :], t, 0.0))
    mask = y[:, None] > y[None, :]
    at = loss.at(s, prefs)
    np.testing.assert_allclose(at.value, value[mask].sum(), rtol=1e-10)
    np.testing.assert_allclose(at.gradient, (slope * mask).sum(1) - (slope * mask).sum(0), rtol=1e-8, atol=1e-6)


def test_bad_weights_are_named():
    y, offsets = np.array([0.0, 1.0]), np.array([0, 2])
    for bad, words in [
        ({"item_weight": [1.0]}, "item_weight has shape"),
        ({"query_weight": [-1.0]}, r"query_weight\[0\] is -1: weights must be finite and not negative"),
        ({"item_weight": [1.0, np.inf]}, r"item_weight\[1\] is inf"),
        ({"grade_weight": [[1.0, 1.0], [np.nan, 1.0]]}, r"grade_weight\[1, 0\] is nan"),
        ({"grade_weight": np.ones((3, 3))}, r"expected \(2, 2\)"),
        ({"pair_weight": "rows"}, "pair_weight must be"),
    ]:
        with pytest.raises(ValueError, match=words):
            GradedPreferences(y, offsets, **bad)
    with pytest.raises(ValueError, match="with itself"):
        ExplicitPairs([0, 1], [1, 1], 2)
    with pytest.raises(ValueError, match=r"losers\[0\] is 7"):
        ExplicitPairs([0], [7], 2)


@EVERY
def test_the_answer_does_not_depend_on_threads(loss, monkeypatch):
    rng = np.random.default_rng(11)
    offsets = np.arange(0, 40001, 40)
    y, s = rng.integers(0, 3, 40000).astype(float), rng.normal(size=40000)
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        at = loss.at(s, GradedPreferences(y, offsets))
        results.append((at.value, at.gradient.tobytes(), at.curvature(s).tobytes()))
    assert results[0] == results[1] == results[2]
