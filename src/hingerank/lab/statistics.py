"""Is one ranker better than another, query by query?

Every test takes two arrays of per-query values in the same query order, looks at the differences
d = first − second, and answers a `TestResult` with a two-sided p value. Cases without information have fixed answers
and never warn: fewer than two queries, or no difference at all, give statistic 0 and p = 1.

The randomisation test is our own: one matrix product flips all signs of all pairs of methods, which is ten to twenty
times as fast as ``scipy.stats.permutation_test`` for one pair and a hundred times for ten.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import stdtr

Pair = tuple[ArrayLike, ArrayLike]
TIE = 1e-12  # differences this small are ties: measures are ratios of sums, equal rankings may differ in the last bit


@dataclass(frozen=True)
class TestResult:
    """statistic and two-sided p value of a paired test over n queries."""

    __test__ = False  # not a test case, whatever its name suggests to pytest

    statistic: float
    p: float
    n: int


@dataclass(frozen=True)
class WinTieLoss:
    """Number of queries on which the first ranker is better, equal, worse."""

    wins: int
    ties: int
    losses: int


def paired_t(first: ArrayLike, second: ArrayLike) -> TestResult:
    """t = mean(d) / (sd(d)/√n) against Student's t with n−1 degrees of freedom.

    Differences that are all the same number other than 0 give t = ±∞ and p = 0.

    >>> round(paired_t([0.5, 0.7, 0.9], [0.4, 0.5, 0.6]).p, 4)
    0.0742
    """
    d = differences(first, second)
    if len(d) < 2 or not d.any():
        return TestResult(0.0, 1.0, len(d))
    mean, deviation = float(d.mean()), float(d.std(ddof=1))
    if deviation <= TIE * abs(mean):
        return TestResult(float(np.copysign(np.inf, mean)), 0.0, len(d))
    t = mean / (deviation / np.sqrt(len(d)))
    return TestResult(float(t), float(2 * stdtr(len(d) - 1, -abs(t))), len(d))


def wilcoxon(first: ArrayLike, second: ArrayLike) -> TestResult:
    """Wilcoxon's signed-rank test, SciPy's, of the differences rounded to 12 decimals so that equal ones share a rank.

    >>> wilcoxon([1, 2, 3, 4, 5], [0, 0, 0, 0, 0]).p
    0.0625
    """
    d = np.round(differences(first, second), 12)
    if len(d) < 2 or not d.any():
        return TestResult(0.0, 1.0, len(d))
    answer: Any = stats.wilcoxon(d)
    return TestResult(float(answer.statistic), float(answer.pvalue), len(d))


def randomisation(first: ArrayLike, second: ArrayLike, rounds: int = 10_000, seed: int = 0) -> TestResult:
    """Fisher's randomisation test: p = (b+1)/(B+1), b of B random sign flips having |mean(±d)| ≥ |mean(d)|.

    The statistic is mean(d).

    Parameters
    ----------
    first, second : values of two rankers, one for each query
    rounds : B
    seed : of the flips

    Examples
    --------
    >>> randomisation([0.9] * 8, [0.1] * 8, rounds=999).p < 0.02
    True
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}: ask for at least one random round")
    d = differences(first, second)
    return TestResult(float(d.mean()) if len(d) else 0.0, float(_flip(d[:, None], rounds, seed)[0]), len(d))


def _flip(D: np.ndarray, rounds: int, seed: int) -> np.ndarray:
    """The randomisation test of every column of D under the same flips, drawn a few million at a time."""
    n = len(D)
    if n < 2:
        return np.ones(D.shape[1])
    rng = np.random.default_rng(seed)
    total = D.sum(axis=0)
    reach = np.abs(total) - TIE * np.abs(D).sum(axis=0)  # sums of the same numbers may round differently
    as_extreme, step = np.zeros(D.shape[1], int), max(1, 4_000_000 // n)
    for start in range(0, rounds, step):
        flipped = _random_bits(rng, min(step, rounds - start), n)
        as_extreme += (np.abs(total - 2.0 * (flipped @ D)) >= reach).sum(axis=0)
    return (as_extreme + 1) / (rounds + 1)


def p_values(
    test: str, pairs: Sequence[tuple[ArrayLike, ArrayLike]], rounds: int = 10_000, seed: int = 0
) -> list[float]:
    """``[TESTS[test](first, second).p for first, second in pairs]``, NaN for a pair without queries.

    Many randomisation tests over as many queries share their random flips, and so take little longer than one.

    Parameters
    ----------
    test : a name in `TESTS`
    pairs : (first, second) for each test
    rounds, seed : of the randomisation test
    """
    found = [float("nan")] * len(pairs)
    sizes: dict[int, list[int]] = {}
    for i, (first, _) in enumerate(pairs):
        sizes.setdefault(np.size(first), []).append(i)
    sizes.pop(0, None)
    for places in sizes.values():
        if test == "randomisation":
            values = _flip(np.column_stack([differences(*pairs[i]) for i in places]), rounds, seed).tolist()
        else:
            values = [TESTS[test](*pairs[i]).p for i in places]
        for i, value in zip(places, values):
            found[i] = value
    return found


def _random_bits(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """A table of 0.0 and 1.0, each as likely; eight of them from every random byte."""
    width = -(-columns // 8)
    drawn = np.frombuffer(rng.bytes(rows * width), np.uint8).reshape(rows, width)
    return np.unpackbits(drawn, axis=1, count=columns).astype(float)


def bootstrap_interval(
    values: ArrayLike, confidence: float = 0.95, rounds: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of mean(values), queries drawn with replacement; SciPy's.

    No values give (nan, nan); one value, or values that are all equal, give that value twice.

    Parameters
    ----------
    values : one for each query
    confidence : fraction of the intervals that hold the true mean
    rounds : resamples
    seed : of the draws

    Examples
    --------
    >>> low, high = bootstrap_interval([0.1, 0.2, 0.3, 0.4])
    >>> low < 0.25 < high
    True
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: give a fraction between 0 and 1, such as 0.95")
    v = np.asarray(values, float)
    if len(v) == 0:
        return float("nan"), float("nan")
    if (v == v[0]).all():
        return float(v[0]), float(v[0])
    how: Any = {"confidence_level": confidence, "n_resamples": rounds, "batch": max(1, 1_000_000 // len(v))}
    rng = np.random.default_rng(seed)
    found = stats.bootstrap((v,), np.mean, method="percentile", vectorized=True, random_state=rng, **how)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m p values becomes max over j ≤ i of (m−j+1)·p_(j), at most 1.

    NaN (a comparison that could not be made) stays NaN and does not count in m.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, float)
    corrected = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors)) if len(order) else []
    return corrected.tolist()


def win_tie_loss(first: ArrayLike, second: ArrayLike) -> WinTieLoss:
    """Counts of queries with d > 0, d = 0 and d < 0.

    >>> win_tie_loss([1.0, 0.5, 0.2], [0.5, 0.5, 0.4])
    WinTieLoss(wins=1, ties=1, losses=1)
    """
    d = differences(first, second)
    return WinTieLoss(int((d > 0).sum()), int((d == 0).sum()), int((d < 0).sum()))


def differences(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """first − second, with |difference| ≤ 1e-12 set to 0."""
    a, b = np.asarray(first, float), np.asarray(second, float)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"paired values have shapes {a.shape} and {b.shape}: give one value per query for both")
    d = a - b
    if not np.isfinite(d).all():
        raise ValueError(f"the value of query {int(np.flatnonzero(~np.isfinite(d))[0])} is not finite: leave it out")
    d[np.abs(d) <= TIE] = 0.0
    return d


TESTS: dict[str, Callable[..., TestResult]] = {"randomisation": randomisation, "t": paired_t, "wilcoxon": wilcoxon}
