"""Paired tests agree with SciPy's; cases without information have their documented answers and do not warn."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.stats

from hingerank.lab import statistics as sg


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def draw(n, seed=0, shift=0.03):
    rng = np.random.default_rng(seed)
    a = rng.random(n)
    return a + shift + 0.1 * rng.standard_normal(n), a


@pytest.mark.parametrize("n", [2, 5, 30, 700])
@pytest.mark.parametrize("seed", [0, 1])
def test_paired_t_is_scipys(n, seed):
    a, b = draw(n, seed)
    expected = scipy.stats.ttest_rel(a, b)
    got = sg.paired_t(a, b)
    assert got.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert got.p == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("n", [3, 12, 50, 51, 400])
def test_wilcoxon_is_scipys(n):
    a, b = draw(n)
    expected = scipy.stats.wilcoxon(a, b)
    got = sg.wilcoxon(a, b)
    assert (got.statistic, got.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)


def test_wilcoxon_with_ties_and_zeros_is_scipys():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 5, 80) / 4, rng.integers(0, 4, 80) / 4
    expected = scipy.stats.wilcoxon(a, b, zero_method="wilcox")
    got = sg.wilcoxon(a, b)
    assert (got.statistic, got.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)


def test_wilcoxon_sees_ties_through_rounding():
    """0.3 - 0.2 and 0.2 - 0.1 differ in the last bit only: they share a rank, as in exact arithmetic."""
    a, b = np.array([0.3, 0.2, 0.9, 0.1]), np.array([0.2, 0.1, 0.3, 0.4])
    expected = scipy.stats.wilcoxon([1, 1, 6, -3])
    assert sg.wilcoxon(a, b).p == pytest.approx(expected.pvalue, rel=1e-12)


def test_randomisation_estimates_the_exact_test():
    a, b = draw(10, seed=4)
    exact = scipy.stats.permutation_test(
        (a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    got = sg.randomisation(a, b, rounds=40_000, seed=1).p
    assert got == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 40_000))


def test_randomisation_is_the_count_it_says():
    """(b+1)/(B+1) with b counted by hand over the very sign flips that the seed gives."""
    a, b = draw(7, seed=5)
    d, rng = a - b, np.random.default_rng(9)
    signs = np.array([[-1.0 if byte >> (7 - i) & 1 else 1.0 for i in range(7)] for byte in rng.bytes(99)])
    count = sum(abs((s * d).mean()) >= abs(d.mean()) - 1e-15 for s in signs)
    assert sg.randomisation(a, b, rounds=99, seed=9).p == (count + 1) / 100


def test_randomisation_does_not_depend_on_how_rounds_are_cut(monkeypatch):
    a, b = draw(300, seed=6, shift=0.005)
    once = sg.randomisation(a, b, rounds=5000, seed=2)
    assert once == sg.randomisation(a, b, rounds=5000, seed=2)
    assert once.p != sg.randomisation(a, b, rounds=5000, seed=3).p


def test_randomisation_counts_equal_sums_as_equal():
    """All differences equal 0.1: only the two patterns with all signs equal reach the observed sum."""
    a, b = np.full(4, 0.3), np.full(4, 0.2)
    assert sg.randomisation(a, b, rounds=20_000).p == pytest.approx(2 / 16, abs=0.01)


def test_bootstrap_is_scipys_percentile_interval():
    v = draw(60)[0]
    expected = scipy.stats.bootstrap((v,), np.mean, method="percentile", n_resamples=20_000, random_state=0)
    low, high = sg.bootstrap_interval(v, rounds=20_000, seed=1)
    interval = expected.confidence_interval
    width = interval.high - interval.low
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=0.03 * width)
    assert sg.bootstrap_interval(v, seed=1) == sg.bootstrap_interval(v, seed=1)


def test_bootstrap_wider_for_more_confidence():
    v = draw(40)[0]
    (a, b), (c, d) = sg.bootstrap_interval(v, 0.5), sg.bootstrap_interval(v, 0.99)
    assert c < a < b < d


def brute_holm(p):
    """The definition by closed testing: the largest Bonferroni p value over all families that hold the hypothesis."""
    m = range(len(p))
    families = [f for k in range(1, len(p) + 1) for f in itertools.combinations(m, k)]
    return [min(1.0, max(len(f) * min(p[j] for j in f) for f in families if i in f)) for i in m]


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_closed_bonferroni_test(seed):
    p = (np.random.default_rng(seed).random(5) ** 3).tolist()
    assert sg.holm(p) == pytest.approx(brute_holm(p))


def test_holm_keeps_unknown_values():
    got = sg.holm([0.02, float("nan"), 0.03])
    assert np.isnan(got[1])
    assert [got[0], got[2]] == pytest.approx([0.04, 0.04])
    assert sg.holm([]) == []


def test_win_tie_loss():
    assert sg.win_tie_loss([1, 2, 3, 0.1 + 0.2], [0, 2, 4, 0.3]) == sg.WinTieLoss(1, 2, 1)


@pytest.mark.parametrize("test", sg.TESTS.values(), ids=sg.TESTS)
@pytest.mark.parametrize("values", [([], []), ([0.3], [0.3]), ([0.1, 0.5, 0.2], [0.1, 0.5, 0.2])])
def test_no_information_gives_p_one(test, values):
    got = test(*values)
    assert (got.statistic, got.p, got.n) == (0.0, 1.0, got.n)


@pytest.mark.parametrize("test", sg.TESTS.values(), ids=sg.TESTS)
def test_one_query_gives_p_one(test):
    assert test([0.9], [0.1]).p == 1.0


def test_constant_difference_is_certain_for_t():
    assert sg.paired_t([1, 2, 3], [0, 1, 2]) == sg.TestResult(np.inf, 0.0, 3)
    assert sg.paired_t([0, 1, 2], [1, 2, 3]).statistic == -np.inf


def test_bootstrap_without_spread():
    assert np.isnan(sg.bootstrap_interval([])).all()
    assert sg.bootstrap_interval([0.4]) == (0.4, 0.4)
    assert sg.bootstrap_interval([0.4, 0.4]) == (0.4, 0.4)


@pytest.mark.parametrize("test", sg.TESTS.values(), ids=sg.TESTS)
def test_signs(test):
    a, b = draw(40, shift=0.2)
    assert test(a, b).p == test(b, a).p


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: sg.paired_t([1, 2], [1]), "shapes"),
        (lambda: sg.wilcoxon([1, np.nan], [1, 2]), "query 1 differs by nan: leave it out"),
        (lambda: sg.effect_size([1e155, 1e154, 0], [0, 0, 0]), r"query 0 differs by 1e\+155: give values in a larger"),
        (lambda: sg.randomisation([1, 2], [2, 3], rounds=0), "rounds must be a positive"),
        (lambda: sg.bootstrap_interval([1, 2], confidence=95), "between 0 and 1"),
        (lambda: sg.paired_tests("randomisation", [([1, 2], [2, 3])], rounds=0), "number, not 0"),
        (
            lambda: sg.effect_size([1, 5, 2], [2, 1, 7], confidence=95),
            "confidence must .* not 95",
        ),
        (lambda: sg.queries_needed(0.2, power=80), "power must .* not 80"),
        (lambda: sg.queries_needed(0.2, level=5), "level must .* not 5"),
    ],
)
def test_wrong_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("test", sg.TESTS, ids=sg.TESTS)
def test_many_tests_at_once_are_the_tests_alone(test):
    pairs = [draw(30, 0), draw(30, 1, 0.0), draw(12, 2, 0.01), ([], []), ([0.5], [0.2])]
    options = {"rounds": 500, "seed": 3}
    got = sg.paired_tests(test, pairs, **options)
    alone = [sg.TESTS[test](a, b, **(options if test == "randomisation" else {})) for a, b in pairs]
    assert np.isnan(got[3].p)
    assert [got[i] for i in (0, 1, 2, 4)] == [alone[i] for i in (0, 1, 2, 4)]


@pytest.mark.parametrize("seed", range(4))
def test_rounds_are_added_until_p_is_precise(seed):
    """Whatever the seed of the flips, p is within a tenth of what two million rounds say."""
    a, b = draw(60, 1, shift=0.026)
    long = sg.randomisation(a, b, rounds=2_000_000, seed=99)
    got = sg.randomisation(a, b, seed=seed)
    assert 0.01 < long.p < 0.1 and got.p == pytest.approx(long.p, rel=0.1)
    assert 0 < got.error <= sg.PRECISION * got.p and abs(got.p - long.p) < 4 * (got.error + long.error)
    assert got == sg.randomisation(a, b, seed=seed)


def test_precision_is_a_pairs_own_and_rounds_are_bounded(monkeypatch):
    """Tests that need few and many rounds together answer as alone, also where their sums are tabled in parts."""
    monkeypatch.setattr(sg, "MOST_ROUNDS", 40_000)
    pairs = [draw(30, 0, 0.0), draw(30, 1, 0.5), draw(30, 2, 0.03)]
    alone = [sg.randomisation(a, b, seed=3) for a, b in pairs]
    assert sg.paired_tests("randomisation", pairs, seed=3) == alone
    monkeypatch.setattr(sg, "MOST_SUMMED", 40)
    assert sg.paired_tests("randomisation", pairs, seed=3) == alone
    assert alone[1].p == 1 / 40_001 and alone[1].error == pytest.approx(alone[1].p, rel=1e-3)


def test_the_interval_of_the_effect_holds_it_as_often_as_it_says():
    rng = np.random.default_rng(7)
    held = {0.0: 0, 0.4: 0}
    for effect in held:
        for _ in range(600):
            d = effect + rng.standard_normal(20)
            found = sg.effect_size(d, np.zeros(20))
            held[effect] += found.low <= effect <= found.high
    assert [count / 600 for count in held.values()] == pytest.approx([0.95, 0.95], abs=0.03)


def test_the_effect_is_unbiased_and_known_cases_are_right():
    rng = np.random.default_rng(8)
    mean = np.mean([sg.effect_size(0.5 + rng.standard_normal(6), np.zeros(6)).value for _ in range(4000)])
    assert mean == pytest.approx(0.5, abs=0.03)  # mean(d)/sd(d) alone gives 0.6
    d = np.array([0.1, 0.3, -0.1, 0.2, 0.4])
    found = sg.effect_size(d, np.zeros(5))
    ends = [scipy.stats.nct.cdf(np.sqrt(5) * d.mean() / d.std(ddof=1), 4, nc * np.sqrt(5) / 0.797885) for nc in
            (found.low, found.high)]  # fmt: skip
    assert ends == pytest.approx([0.975, 0.025], abs=1e-4)
    assert sg.effect_size(d, d) == sg.EffectSize(0.0, 0.0, 0.0)
    assert np.isnan(sg.effect_size([1, 2, 3], [0, 1, 2]).value) and np.isnan(sg.effect_size([1, 2], [0, 0]).value)
    large = sg.effect_size(rng.standard_normal(3000) + 5, np.zeros(3000))
    assert large.low < large.value < large.high and large.high - large.low < 0.3


@pytest.mark.parametrize("n, t", [(3, 40.0), (3, -160.0), (4, 1000.0), (10, 40.0), (400, -60.0), (2000, 1.0)])
def test_the_interval_of_a_large_effect_or_of_many_queries_is_exact(n, t):
    """Few queries whose differences are nearly the same: SciPy's inverse ends at t = 37."""
    d = np.linspace(-1, 1, n)
    d += t * d.std(ddof=1) / np.sqrt(n)
    found, m = sg.effect_size(d, np.zeros(n)), n - 1
    unbiased = np.exp(scipy.special.gammaln(m / 2) - scipy.special.gammaln((m - 1) / 2)) / np.sqrt(m / 2)
    low, high = sorted(abs(end) * np.sqrt(n) / unbiased for end in (found.low, found.high))
    low = -low if found.low * found.high < 0 else low
    ends = [scipy.stats.nct.cdf(abs(t), m, nc) for nc in (low, high)]  # SciPy's own is NaN for some t < 0
    assert ends == pytest.approx([0.975, 0.025], abs=1e-3)


@pytest.mark.parametrize("effect", [0.2, 0.5, 1.0])
def test_the_queries_needed_give_the_power(effect):
    n = int(sg.queries_needed(effect))
    d = effect + np.random.default_rng(9).standard_normal((4000, n))
    found = scipy.stats.ttest_1samp(d, 0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.025)
    assert sg.queries_needed(-effect) == n and sg.queries_needed(0.0) == np.inf and np.isnan(sg.queries_needed(np.nan))
