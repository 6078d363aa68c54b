"""The value of a ranking, estimated from clicks on other rankings (IPS, clipped, self-normalised, doubly robust), with
intervals over queries, the effective sample size, and the difference from what was shown. And the value of a policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hingerank.arrays import ArrayLike
from hingerank.clicks.simulation import Predictor, Rankings, are_several, named_rankings, scores_of
from hingerank.data.blocks import real_numbers
from hingerank.data.checks import fraction, generator, one_of, positive, warn, whole
from hingerank.data.files import DataError
from hingerank.metrics.places import PlaceMeasure, parse_place_measure
from hingerank.notebook import html_table, new_figure
from hingerank.rankers.corrections import ClickData, Propensities, bias_of, clip_at, doubly_robust

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell: TypeAlias = str | float | None  # of a table
ESTIMATORS = ("ips", "snips", "clipped", "dr")
HANDFUL = 10.0  # clicks of equal weight, below which an estimate is refused
UNSEEN = 0.1  # of the worth of a ranking, above which there is a warning
FEW_QUERIES = 20  # below which showings are resampled instead of queries
CHUNK = 1 << 22  # numbers of resamples that are made together


class Estimate(float):
    """A number with its interval.

    >>> Estimate(0.5, (0.4, 0.6)).interval
    (0.4, 0.6)
    """

    interval: tuple[float, float]

    def __new__(cls, value: float, interval: tuple[float, float]) -> "Estimate":
        made = super().__new__(cls, value)
        made.interval = interval
        return made

    def __repr__(self) -> str:
        return f"{float(self):.4g} ({self.interval[0]:.4g} to {self.interval[1]:.4g})"


@dataclass(frozen=True)
class ClickValue:
    """The value of a ranking, estimated from clicks.

    Attributes
    ----------
    name : of the ranker
    value : mean over shown lists
    interval : of the value
    effective_size : (Σw)² / Σw² of the clicks' weights: how many equal clicks would give an equally precise value
    difference : value less that of the lists as they were shown; ``difference.interval`` is of the difference
    logged : value of the lists as they were shown, with its interval
    measure, estimator : as asked for
    lists, queries, clicks : counts
    confidence : of the intervals
    resampled : "queries" or "showings"
    """

    name: str
    value: float
    interval: tuple[float, float]
    effective_size: float
    difference: Estimate
    logged: Estimate
    measure: str
    estimator: str
    lists: float
    queries: int
    clicks: float
    confidence: float
    resampled: str

    def __repr__(self) -> str:
        low, high = self.interval
        apart = self.difference
        return (
            f"{self.name}: {self.measure} {self.value:.4g} ({low:.4g} to {high:.4g}), {apart:+.3g} "
            f"({apart.interval[0]:+.3g} to {apart.interval[1]:+.3g}) against the logged lists, {self.estimator}, "
            f"effective size {self.effective_size:,.0f}"
        )


class ClickValues(dict[str, ClickValue]):
    """The values of several rankings by the same clicks and resamples: name -> ClickValue."""

    def table(self) -> tuple[list[str], list[list[Cell]]]:
        """Names of columns, and a row for each ranker. The first row is for the lists as they were shown."""
        some = next(iter(self.values()))
        percent = f"{100 * some.confidence:.3g} % interval"
        names = ["ranker", some.measure, percent, "against logged", percent, "effective size"]
        rows: list[list[Cell]] = [["as shown", float(some.logged), _between(some.logged.interval), None, None, None]]
        rows += [
            [each.name, each.value, _between(each.interval), float(each.difference),
             _between(each.difference.interval), round(each.effective_size)]
            for each in self.values()
        ]  # fmt: skip
        return names, rows

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.values()))

    def _repr_html_(self) -> str:
        some = next(iter(self.values()))
        return html_table(f"{some.measure} by clicks, {some.estimator}", *self.table())

    def plot(self, figure: "Figure | None" = None) -> "Figure":
        """A matplotlib Figure: every ranker's difference from the lists as they were shown, with its interval.

        Parameters
        ----------
        figure : to draw in; a new one if not given
        """
        figure = figure or new_figure(6.0, 0.9 + 0.45 * len(self))
        axis, values = figure.add_subplot(), list(self.values())[::-1]
        middle = np.array([float(each.difference) for each in values])
        ends = np.array([each.difference.interval for each in values]).reshape(-1, 2)
        axis.axvline(0.0, color="#8888", linewidth=1.0)
        axis.errorbar(middle, np.arange(len(values)), xerr=np.abs(ends.T - middle), fmt="o", color="#2a78b5", capsize=3)
        axis.set_yticks(np.arange(len(values)), [each.name for each in values])
        axis.set_ylim(-0.6, len(values) - 0.4)
        axis.set_xlabel(f"{values[0].measure} by clicks ({values[0].estimator}), against the lists as shown")
        return figure


def _between(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4g} to {interval[1]:.4g}"


def evaluate_clicks(
    data: ClickData,
    ranker: Rankings,
    *,
    propensities: Propensities = None,
    estimator: str = "ips",
    measure: str = "dcg@10",
    clip: float | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> ClickValue | ClickValues:
    """The value of a ranking to users, estimated from clicks on the lists that were shown.

    With W the estimated relevance of a row (times its lists), the value is  Σ worth(place in the ranking) · W / lists:

    - "ips": W = Σ (clicks - n β) / propensity, unbiased (Joachims, Swaminathan & Schnabel 2017). n is the number of
      showings. β is the rate of clicks from trust in the place, 0 unless propensities were estimated with judgments
    - "clipped": propensities below τ count as τ, which adds a little bias and reduces the variance
    - "snips": as "ips", divided by ΣW instead of the lists: the mean worth of the place of a relevant row
    - "dr": W by a regression of relevance on features, corrected by clicks (Oosterhuis 2023), also for rows never shown

    All but "dr" treat a document that a list did not show as not clicked. They underrate rankings of documents that few
    lists showed, and a warning says how much of a ranking that is. Rows of equal score share their places.

    Intervals are bootstrap-t intervals over resampled queries. For fewer than 20 queries they are percentiles over
    resampled clicks. All rankers and the shown lists have the same resamples.

    Parameters
    ----------
    data : ClickData
        ``log.join(rows)``, for queries that the rankers did not learn from.
    ranker : fitted ranker, a score per row, or several of these (a mapping name -> ranker, or a list)
    propensities : hingerank.propensities, numbers by place (place 1 first), or None for those of the log
    estimator : {"ips", "snips", "clipped", "dr"}
    measure : {"dcg@10", "p@5", "average-rank", ...}
        With any number of places; "dcg" counts all. A lower "average-rank" is better.
    clip : float, optional
        τ of "clipped" and "dr"; by default min(10 / √lists, 1).
    confidence : float
        Level of the intervals.
    resamples : int
    seed : int

    Returns
    -------
    ClickValue, or ClickValues if there are several rankers
        An effective sample size below 10 clicks is a DataError, since the value would say nothing.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> from hingerank import make_letor, simulate_clicks
    >>> rows = make_letor(60, 10, seed=0)
    >>> rows = replace(rows, docid=np.arange(rows.n_rows))
    >>> log = simulate_clicks(rows, rows.X[:, 0], sessions=4000, seed=1)
    >>> found = evaluate_clicks(log.join(rows), rows.y, propensities=1 / np.arange(1, 11))
    >>> found.difference.interval[0] > 0  # the grades rank better than the first feature
    True
    """
    if not isinstance(data, ClickData):
        raise ValueError(f"expected clicks joined with features (log.join(data)), got {type(data).__name__}")
    check_estimate(estimator, confidence, resamples, clip, ("clipped", "dr"))
    rows = data.data
    places, named = parse_place_measure(measure), named_rankings(ranker, rows.n_rows)
    clicks = WeightedClicks(data, propensities, estimator, clip)
    sums, sizes = [clicks.shown(places)], []
    for name, each in named.items():
        if data.parts is not None and isinstance(each, Predictor):
            each = data.parts.predict(each)
        scores = rows.blocks.gather(scores_of(each, rows, name))
        worth = rows.blocks.scatter(places.of_scores(scores, rows.blocks.offsets))
        sizes.append(clicks.effective_size(worth))
        if sizes[-1] < HANDFUL:
            raise DataError(
                f"{name}: the effective sample size is {sizes[-1]:.1f} clicks of equal weight, and fewer than "
                f"{HANDFUL:.0f} say nothing: collect more lists, or clip more (estimator='clipped')"
            )
        unseen = 0.0 if clicks.robust else clicks.unseen(worth)
        if unseen > UNSEEN:
            warn(
                f"{name}: {100 * unseen:.0f} % of its {measure} is for documents in lists that did not show them, and "
                "counts as not clicked: its value is too low; use estimator='dr', or a measure of fewer places"
            )
        sums.append(clicks.ranked(worth))
    apart = [ClickSums(own.fixed - sums[0].fixed, own.each - sums[0].each) for own in sums[1:]]
    unit, (shown, *found) = clicks.estimates([*sums, *apart], confidence, resamples, seed)
    counts = float(np.sum(data.lists)), rows.n_queries, float(np.sum(data.clicks))
    values = [
        ClickValue(
            name, float(own), own.interval, size, difference, shown, measure, estimator, *counts, confidence, unit
        )
        for name, own, size, difference in zip(named, found, sizes, found[len(named) :])
    ]
    return ClickValues(zip(named, values)) if are_several(ranker, rows.n_rows) else values[0]


def check_estimate(
    estimator: str, confidence: float, resamples: int, clip: float | None, clipping: Sequence[str]
) -> None:
    """Raise a ValueError for an unknown estimator, an idle clip, or an interval that cannot be made."""
    one_of("estimator", estimator, *ESTIMATORS)
    if clip is not None and estimator not in clipping:
        able = " or ".join(f"estimator={name!r}" for name in clipping)
        raise ValueError(f"clip={clip!r} is for {able}, not for estimator={estimator!r}")
    fraction("confidence", confidence, inside=True)
    whole("resamples", resamples, 2)


@dataclass(frozen=True)
class ClickSums:
    """The numerator of a value by query: fixed + Σ over the query's cells of each · clicks."""

    fixed: np.ndarray
    each: np.ndarray


class WeightedClicks:
    """Clicks with the weights that an estimator gives them: a value is a ratio of sums that are linear in clicks.

    Parameters
    ----------
    data, propensities, estimator, clip : as of `evaluate_clicks`
    """

    def __init__(self, data: ClickData, propensities: Propensities, estimator: str, clip: float | None):
        self.data, rows, row = data, data.data, data.row
        alpha, beta = bias_of(data, propensities, f"estimator={estimator!r}")
        least = clip_at(data, clip) if estimator in ("clipped", "dr") else 0.0
        self.query, self.n_queries = rows.blocks.scatter(rows.blocks.numbers), rows.n_queries
        self.lists = np.asarray(data.lists, np.float64)
        self.weight = 1.0 / np.maximum(alpha, least)  # of a click, by cell
        # lists times the relevance of a row: guess + the sum over its cells of each · (clicks - expected)
        self.guess, self.each, self.expected = np.zeros(rows.n_rows), self.weight, beta * data.showings
        self.robust = estimator == "dr"
        if self.robust:
            guess, each, self.expected = doubly_robust(data, alpha, beta, least)
            times = self.lists[self.query]
            self.guess, self.each = times * guess, times[row] * each
        self.below = ClickSums(self.lists, np.zeros(len(row)))
        if estimator == "snips":
            self.below = self._sums(np.ones(rows.n_rows), np.ones(len(row)))

    def _sums(self, by_row: np.ndarray, by_cell: np.ndarray) -> ClickSums:
        """Σ worth · relevance, from the worth of rows and of their cells."""
        each = by_cell * self.each
        expected = np.bincount(self.query[self.data.row], each * self.expected, self.n_queries)
        return ClickSums(np.bincount(self.query, by_row * self.guess, self.n_queries) - expected, each)

    def ranked(self, worth: np.ndarray) -> ClickSums:
        """The sums of a ranking; worth: of every row's place in it."""
        return self._sums(worth, worth[self.data.row])

    def shown(self, places: PlaceMeasure) -> ClickSums:
        """The sums of the lists as they were shown."""
        worth, lists = places.worth(self.data.place), self.lists[self.query]
        if not self.robust:
            return self._sums(np.zeros(len(lists)), worth)
        total = np.bincount(self.data.row, self.data.showings * worth, len(lists))
        return self.ranked(np.divide(total, lists, out=np.zeros(len(lists)), where=lists > 0))

    def unseen(self, worth: np.ndarray) -> float:
        """The fraction of the worth of a ranking's places that is on documents in lists that did not show them."""
        lists, worth = self.lists[self.query], np.abs(worth)
        missing = np.maximum(lists - np.bincount(self.data.row, self.data.showings, len(lists)), 0.0)
        return float(missing @ worth) / max(float(lists @ worth), 1e-12)

    def effective_size(self, worth: np.ndarray) -> float:
        """(Σw)² / Σw² over clicks, w = worth of the row's place in the ranking · weight of the click."""
        w = worth[self.data.row] * self.weight
        total, squares = float(self.data.clicks @ w), float(self.data.clicks @ (w * w))
        return total * total / squares if squares > 0 else 0.0

    def by_query(self, sums: ClickSums) -> np.ndarray:
        """The sum of each query."""
        of_cells = np.bincount(self.query[self.data.row], sums.each * self.data.clicks, self.n_queries)
        return np.asarray(sums.fixed + of_cells)

    def value(self, sums: ClickSums) -> float:
        above, below = (float(self.by_query(s).sum()) for s in (sums, self.below))
        return above / below if below > 0 else np.nan

    def estimates(
        self, sums: list[ClickSums], confidence: float, resamples: int, seed: int
    ) -> tuple[str, list[Estimate]]:
        """What was resampled ("queries" or "showings"), and the value of each sum with its interval."""
        rng, tails = generator(seed, "seed"), [(1 - confidence) / 2, (1 + confidence) / 2]
        used = np.flatnonzero(self.lists > 0)
        if len(used) < FEW_QUERIES:
            unit, drawn = "showings", self._click_draws(sums, rng, int(resamples))
            bounds = np.quantile(drawn, tails, axis=1).T.tolist()
        else:
            above, below = np.stack([self.by_query(s)[used] for s in sums]), self.by_query(self.below)[used]
            unit, bounds = "queries", studentised(above, below, rng, tails, int(resamples))
        return unit, [Estimate(self.value(own), (low, high)) for own, (low, high) in zip(sums, bounds)]

    def _click_draws(self, sums: list[ClickSums], rng: np.random.Generator, resamples: int) -> np.ndarray:
        """Values of all sums with clicks on the same showings drawn again: (sums, resamples)."""
        every, n, c = [*sums, self.below], self.data.showings, self.data.clicks
        each, fixed = np.stack([s.each for s in every]), np.array([[s.fixed.sum()] for s in every])
        single = (c <= n) & (n % 1 == 0) & (c % 1 == 0)
        chance = np.divide(c, n, out=np.zeros_like(c), where=single & (n > 0))
        added, step = [], max(1, CHUNK // max(len(n), 1))
        for k in range(0, resamples, step):
            shape = min(step, resamples - k), len(n)
            drawn = rng.binomial(np.where(single, n, 0).astype(np.int64), chance, shape)
            clicks = np.where(single, drawn, rng.poisson(np.where(single, 0.0, c), shape))
            added.append(fixed + each @ clicks.T)
        above = np.concatenate(added, axis=1)
        return np.divide(above[:-1], above[-1], out=np.zeros(above[:-1].shape), where=above[-1] > 0)


def studentised(
    above: np.ndarray, below: np.ndarray, rng: np.random.Generator, tails: Sequence[float], resamples: int
) -> list[tuple[float, float]]:
    """Bootstrap-t intervals of Σ above / Σ below over resampled queries, for every row of `above`.

    A resample's distance from the value counts in its own standard error,  √Σ (above - value · below)² / Σ below. Sums
    of weights 1/p have long tails, which percentiles of the values themselves would cut off.
    """
    n = len(below)
    squares = np.concatenate([above, above**2, above * below, [below, below**2]])
    step, found = max(1, CHUNK // n), []

    def values_and_errors(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second, mixed = np.split(sums[:-2], 3)
        under = np.where(sums[-2] > 0, sums[-2], np.nan)
        value = first / under
        return value, np.sqrt(np.maximum(second - 2 * value * mixed + value**2 * sums[-1], 0.0)) / under

    value, error = values_and_errors(squares.sum(axis=1, keepdims=True))
    for k in range(0, resamples, step):
        counts = rng.multinomial(n, np.full(n, 1 / n), min(step, resamples - k))
        drawn, spread = values_and_errors(squares @ counts.T)
        found.append(np.divide(drawn - value, spread, out=np.full(drawn.shape, np.nan), where=spread > 0))
    distance = np.concatenate(found, axis=1)
    intervals = []
    for own, middle, unit in zip(distance, value[:, 0], error[:, 0]):
        known = own[np.isfinite(own)]
        low, high = np.quantile(known, tails) if len(known) else (0.0, 0.0)
        intervals.append((float(middle - high * unit), float(middle - low * unit)))
    return intervals


def policy_value(
    rewards: ArrayLike,
    propensities: ArrayLike,
    target: ArrayLike,
    *,
    estimator: str = "ips",
    guess: ArrayLike | None = None,
    guess_of_target: ArrayLike | None = None,
    clip: float | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """Mean reward per round of a policy, from rounds in which another one drew the action; w = target / propensity.

    - "ips":  mean(w r)
    - "snips":  mean(w r) / mean(w)
    - "clipped":  mean(min(w, 1 / clip) r)
    - "dr":  mean(guess_of_target + w (r - guess))

    Parameters
    ----------
    rewards : array, one entry per round
        r, such as clicks.
    propensities : array
        The logged probability of the action of each round, above 0.
    target : array
        The probability of the same action under the policy to be judged.
    estimator : {"ips", "snips", "clipped", "dr"}
    guess, guess_of_target : arrays
        For "dr": a model's expected reward of the logged action, and of the policy's own action.
    clip : float, optional
        For "clipped": 1 / clip is the largest weight; by default min(10 / √rounds, 1).
    confidence, resamples, seed : as in `evaluate_clicks`; rounds are resampled

    Returns
    -------
    Estimate
        A float with ``.interval``. An effective sample size (Σw)² / Σw² below 10 rounds is a DataError.

    Examples
    --------
    >>> import numpy as np
    >>> rewards, p = np.tile([1.0, 0.0], 50), np.full(100, 0.5)
    >>> round(float(policy_value(rewards, p, np.tile([0.8, 0.2], 50))), 6)
    0.8
    """
    r, p, e = _rounds(rewards, "rewards"), _rounds(propensities, "propensities"), _rounds(target, "target")
    if not len(r) == len(p) == len(e) > 0:
        raise DataError(f"{len(r)} rewards, {len(p)} propensities and {len(e)} target: give one of each a round")
    if not (p > 0).all() or not (e >= 0).all():
        raise DataError("propensities must be above 0, and target must be 0 or more")
    check_estimate(estimator, confidence, resamples, clip, ("clipped",))
    w = e / p
    if estimator == "clipped":
        w = np.minimum(w, max(np.sqrt(len(r)) / 10, 1.0) if clip is None else 1.0 / positive("clip", clip))
    size = float(w.sum()) ** 2 / float(w @ w) if w.any() else 0.0
    if size < HANDFUL:
        raise DataError(
            f"the logged rounds are worth {size:.1f} rounds of this policy (effective sample size), and fewer than "
            f"{HANDFUL:.0f} say nothing: log more rounds, or judge a policy that is closer to the logged one"
        )
    above, below = w * r, w if estimator == "snips" else np.ones(len(r))
    if estimator == "dr":
        if guess is None or guess_of_target is None:
            raise ValueError("estimator='dr' needs guess (of the logged actions) and guess_of_target (of the policy)")
        model, own = _rounds(guess, "guess"), _rounds(guess_of_target, "guess_of_target")
        if len(model) != len(r) or len(own) != len(r):
            raise DataError(f"guess and guess_of_target need an entry for each of the {len(r)} rounds")
        above = own + w * (r - model)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    interval = studentised(above[None], below, generator(seed, "seed"), tails, resamples)[0]
    return Estimate(float(above.mean() / below.mean()), interval)


def _rounds(values: ArrayLike, name: str) -> np.ndarray:
    found = np.asarray(real_numbers(values, name))
    if found.ndim != 1 or not np.isfinite(found).all():
        raise DataError(f"{name} must be finite numbers, one for each round")
    return found
