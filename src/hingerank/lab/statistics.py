"""Is one ranker better than another, query by query, by how much, and how many queries would show it?

Every test takes two arrays of per-query values in the same query order, looks at the differences
d = first − second, and returns a `TestResult` with a two-sided p value. Cases without information have fixed results
and never warn: fewer than two queries, or no difference at all, give statistic 0 and p = 1.

The randomisation test is our own. The sums of all 256 sign patterns of eight queries are looked up instead of added,
for all pairs of methods under the same flips. Rounds are added until p is precise, so a p value near the level is not
an accident of the seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import gammaincinv, gammaln, nctdtrinc, ndtri, stdtr

from hingerank.arrays import ArrayLike
from hingerank.data.checks import fraction, generator, whole
from hingerank.metrics.evaluator import LARGEST

Pair = tuple[ArrayLike, ArrayLike]
TIE = 1e-12  # differences this small are ties: measures are ratios of sums, equal rankings may differ in the last bit
FEWEST_ROUNDS, MOST_ROUNDS, MOST_FLIPS = 10_000, 2_000_000, 10**9
MOST_SUMMED = 100_000  # differences whose sums are tabled at a time: 2 kB each
PRECISION = 0.02  # rounds are added until p's standard error is this fraction of p


@dataclass(frozen=True)
class TestResult:
    """statistic and two-sided p value of a paired test over n queries.

    error : standard error of p where it comes from random rounds, else 0
    """

    __test__ = False  # not a test case, whatever its name suggests to pytest

    statistic: float
    p: float
    n: int
    error: float = 0.0


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
    answer = stats.wilcoxon(d)
    return TestResult(float(answer.statistic), float(answer.pvalue), len(d))


def randomisation(first: ArrayLike, second: ArrayLike, rounds: int | None = None, seed: int = 0) -> TestResult:
    """Fisher's randomisation test: p = (b+1)/(B+1), b of B random sign flips having |mean(±d)| ≥ |mean(d)|.

    The statistic is mean(d), the error √(p(1−p)/B).

    Parameters
    ----------
    first, second : values of two rankers, one for each query
    rounds : B; default as many as make the error less than 2 % of p, at least 10,000, at most 2,000,000, and at most
        10⁹ flips in all (fewer rounds for many queries)
    seed : of the flips

    Examples
    --------
    >>> randomisation([0.9] * 8, [0.1] * 8, rounds=999).p < 0.02
    True
    """
    d = differences(first, second)
    p, error = _flip(d[:, None], rounds, seed)
    return TestResult(float(d.mean()) if len(d) else 0.0, float(p[0]), len(d), float(error[0]))


def _flip(D: np.ndarray, rounds: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """p and its error for every column of D, all under the same flips; a column leaves when its p is precise.

    How many rounds a column gets depends on that column only, so a test among others is the test alone.
    """
    rounds = None if rounds is None else whole("rounds", rounds)
    n, columns = D.shape
    p, error = np.ones(columns), np.zeros(columns)
    if n < 2:
        return p, error
    rng = generator(seed, "seed")
    total, scale = D.sum(axis=0), np.abs(D).sum(axis=0)
    reach = np.abs(total) - TIE * scale  # sums of the same numbers may round differently
    most = max(FEWEST_ROUNDS, min(MOST_ROUNDS, MOST_FLIPS // n)) if rounds is None else rounds
    step, done = max(1, min(FEWEST_ROUNDS, 50_000_000 // n)), 0
    as_extreme, left = np.zeros(columns, int), np.arange(columns)
    padded = np.zeros((-(-n // 8) * 8, columns))
    padded[:n] = D
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(float)
    # of every eight rows of D the sums of all their subsets, by column: (groups, columns, 256)
    sums = np.einsum("bi,gic->gcb", bits, padded.reshape(-1, 8, columns), optimize=True)
    while done < most and len(left):
        count = min(step, most - done)
        drawn = np.frombuffer(rng.bytes(count * len(sums)), np.uint8).reshape(count, len(sums))
        flipped = np.zeros((len(left), count))  # sums of the flipped differences
        for table, pattern in zip(sums, np.ascontiguousarray(drawn.T)):
            index = pattern.astype(np.intp)
            for row, column in enumerate(left):
                flipped[row] += table[column].take(index)
        as_extreme[left] += (np.abs(total[left, None] - 2.0 * flipped) >= reach[left, None]).sum(axis=1)
        done += count
        p[left] = (as_extreme[left] + 1) / (done + 1)
        error[left] = np.sqrt(p[left] * (1 - p[left]) / done)
        if rounds is None and done >= FEWEST_ROUNDS:
            left = left[error[left] > PRECISION * p[left]]
    return p, error


def paired_tests(test: str, pairs: Sequence[Pair], rounds: int | None = None, seed: int = 0) -> list[TestResult]:
    """``[TESTS[test](first, second) for first, second in pairs]``, p NaN for a pair without queries.

    Many randomisation tests over as many queries share their random flips, and so take little longer than one.
    """
    found = [TestResult(0.0, float("nan"), 0)] * len(pairs)
    sizes: dict[int, list[int]] = {}
    for i, (first, _) in enumerate(pairs):
        sizes.setdefault(np.size(first), []).append(i)
    sizes.pop(0, None)
    for places in sizes.values():
        if test == "randomisation":
            by_pair = [differences(*pairs[i]) for i in places]
            D = np.column_stack(by_pair)
            parts = np.array_split(D, -(-D.size // MOST_SUMMED), axis=1)  # the same flips for each part
            p, error = np.hstack([_flip(part, rounds, seed) for part in parts]).tolist()
            values = [TestResult(float(d.mean()), q, len(d), e) for d, q, e in zip(by_pair, p, error)]
        else:
            values = [TESTS[test](*pairs[i]) for i in places]
        for i, value in zip(places, values):
            found[i] = value
    return found


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
    fraction("confidence", confidence, inside=True)
    rounds, v = whole("rounds", rounds), np.asarray(values, float)
    if len(v) == 0:
        return float("nan"), float("nan")
    if (v == v[0]).all():
        return float(v[0]), float(v[0])
    how = {"confidence_level": confidence, "n_resamples": rounds, "batch": max(1, 1_000_000 // len(v))}
    rng = generator(seed, "seed")
    found = stats.bootstrap((v,), np.mean, method="percentile", vectorized=True, random_state=rng, **how)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


@dataclass(frozen=True)
class EffectSize:
    """A standardised mean difference with its confidence interval."""

    value: float
    low: float
    high: float


def effect_size(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> EffectSize:
    """Hedges' g of paired values: J·mean(d)/sd(d), J = Γ(m/2)/(√(m/2)·Γ((m−1)/2)) with m = n−1, which removes the bias.

    The interval holds the noncentralities under which t = √n·mean(d)/sd(d) is in the middle `confidence` of noncentral
    t. Fewer than three queries, and differences that are all the same, give NaN; no difference at all gives 0.

    Parameters
    ----------
    first, second : values of two rankers, one for each query
    confidence : fraction of the intervals that hold the true value

    Examples
    --------
    >>> found = effect_size([0.5, 0.7, 0.9, 0.4], [0.4, 0.5, 0.6, 0.4])
    >>> found.low < 0.8 < found.value < found.high
    True
    """
    fraction("confidence", confidence, inside=True)
    d = differences(first, second)
    n = len(d)
    if n > 2 and not d.any():
        return EffectSize(0.0, 0.0, 0.0)
    deviation = float(d.std(ddof=1)) if n > 2 else 0.0
    if deviation <= TIE * abs(float(d.mean()) if n else 0.0):
        return EffectSize(float("nan"), float("nan"), float("nan"))
    m = n - 1
    unbiased = float(np.exp(gammaln(m / 2) - gammaln((m - 1) / 2)) / np.sqrt(m / 2))
    plain, root = float(d.mean()) / deviation, float(np.sqrt(n))
    low, high = (_noncentrality(root * plain, m, q) / root for q in ((1 + confidence) / 2, (1 - confidence) / 2))
    return EffectSize(unbiased * plain, unbiased * low, unbiased * high)


def _noncentrality(t: float, m: int, q: float) -> float:
    """The noncentrality under which t is the q-th quantile of noncentral t with m degrees of freedom.

    T = (z + δ)/c, z normal and c² = χ²/m. Where t or m is large, δ is as far from t as the quantiles of t·c and of z
    together: √((t − t·c_q)² + z_q²), with which q is exact to 1e-3.
    """
    if m < 1000 and abs(t) < 37:
        found = float(nctdtrinc(m, q, t))
        if np.isfinite(found):
            return found
    z, c = ndtri(q), np.sqrt(2 * gammaincinv(m / 2, 1 - q if t > 0 else q) / m)
    return float(t - np.copysign(np.hypot(t - t * c, z), z))


def queries_needed(effect: float, power: float = 0.8, level: float = 0.05) -> float:
    """Queries with which a paired t test at `level` finds a standardised difference `effect` with this power.

    n = ((z₁ + z₂)/effect)² + z₁²/2, rounded up, z₁ and z₂ the normal quantiles of 1 − level/2 and of the power; the
    second term makes up for t's wider tails. Infinite for no effect, NaN for an unknown one.

    >>> queries_needed(0.2)
    199.0
    """
    fraction("power", power, inside=True)
    fraction("level", level, inside=True)
    if not effect:
        return float("inf")
    z = float(ndtri(1 - level / 2))
    return float(np.ceil(((z + float(ndtri(power))) / effect) ** 2 + z * z / 2))


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
    wrong = ~(np.abs(d) <= LARGEST)
    if wrong.any():
        q = int(np.flatnonzero(wrong)[0])
        cure = f"give values in a larger unit, whose differences are at most {LARGEST:g}"
        raise ValueError(f"query {q} differs by {d[q]:g}: " + (cure if np.isfinite(d[q]) else "leave it out"))
    d[np.abs(d) <= TIE] = 0.0
    return d


TESTS: dict[str, Callable[..., TestResult]] = {"randomisation": randomisation, "t": paired_t, "wilcoxon": wilcoxon}
