"""Propensities: how often a place is examined, relative to the first one, with intervals."""

import json
import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from hingerank.arrays import ArrayLike, Facts, Given
from hingerank.clicks.counting import group_by
from hingerank.clicks.estimation import (
    MAX_ITER,
    TOL,
    PlaceGraph,
    SharedCells,
    Start,
    fit_all_pairs,
    fit_product,
    fit_regression,
)
from hingerank.clicks.log import ClickLog, Documents, check_log, coded, documents_of, find_documents
from hingerank.data.blocks import as_text, real_numbers
from hingerank.data.checks import fraction, generator, one_of, positive, warn, whole
from hingerank.data.files import DataError, no_such_file, plain, write_whole
from hingerank.data.ranking_data import RankingData
from hingerank.notebook import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Propensities:
    """How often each place is examined, relative to the first.

    Parameters
    ----------
    method : str
    places : int array
        1, 2, … up to the last place.
    alpha, beta : arrays, one entry per place, or contexts × places
        P(click) = alpha · relevance + beta. Without trust bias, alpha is `values` and beta is 0.
    context_names : array, optional
    reasons : mapping
        Why a value is NaN: place (of a context) -> reason.
    about : mapping
        The number of iterations, whether they converged, the weakest link between places, …

    Attributes
    ----------
    values : array
        alpha, divided by that of the first place; NaN if the log cannot tell.
    """

    method: str
    places: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    context_names: np.ndarray | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    about: Given = field(default_factory=dict)
    _resample: Callable[[int, int], np.ndarray] | None = None
    _drawn: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    @property
    def values(self) -> np.ndarray:
        return relative(self.alpha)

    def __repr__(self) -> str:
        some = ", ".join(f"{value:.3f}" for value in np.atleast_2d(self.values)[0][:5])
        more = ", …" if len(self.places) > 5 else ""
        few = f"; too few clicks to tell at {len(self.few_clicks)} of them" if self.few_clicks else ""
        return f"Propensities({self.method}: {some}{more} at places 1 to {len(self.places)}{few})"

    @property
    def few_clicks(self) -> Mapping[str, float]:
        """Places (of a context) with fewer than 10 clicks on documents that were shown at other places too.

        Their values are little more than noise, and their intervals may be far too narrow.
        """
        return dict(self.about.get("few clicks", {}))

    def interval(self, level: float = 0.95, rounds: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) bounds of `values`: bootstrap over lists, or over showings if the log has no sessions.

        A warning says if the method is biased on this log: if the mean over the drawn logs differs from the value by
        more than their standard deviation. With few showings of each document, EM's values and bounds are too large.
        Another warning says if some of the drawn logs cannot compare a place with the first.

        Parameters
        ----------
        level : float
            Confidence of the intervals.
        rounds : int
            Number of logs to draw.
        seed : int
        """
        fraction("level", level, inside=True)
        drawn = self.resampled(rounds, seed)
        unknown = np.isnan(self.values) | np.isnan(drawn).all(axis=0)
        drawn = np.where(unknown, 1.0, drawn)
        lost = np.ravel(np.isnan(drawn).mean(axis=0))
        if lost.any():
            warn(
                f"{100 * lost.max():.2g} % of the logs drawn for intervals cannot tell the propensity of position "
                f"{np.argmax(lost) % len(self.places) + 1}: its interval is of the others, and too narrow"
            )
        drift, spread = np.ravel(np.nanmean(drawn, axis=0) - self.values), np.ravel(np.nanstd(drawn, axis=0))
        most = int(np.argmax(np.where(np.abs(drift) > spread, np.abs(drift), 0.0)))  # False for NaN
        if abs(drift[most]) > spread[most]:
            value, place = np.ravel(self.values)[most], most % len(self.places) + 1
            remedy = "count more lists" if self.method == "all-pairs" else "use method='all-pairs'"
            warn(
                f"propensities by {self.method!r} are biased on this log, and so are their intervals: at position "
                f"{place} they are {value:.3f}, and {value + drift[most]:.3f} on average in logs drawn from this one. "
                f"Documents have too few showings: {remedy}"
            )
        low, high = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)

    def resampled(self, rounds: int = 200, seed: int = 0) -> np.ndarray:
        """`values` of logs whose lists are drawn from this one; the first axis has length `rounds`.

        The same seed draws the same lists for every method, so the differences of these values give the interval of a
        difference between two methods.
        """
        if self._resample is None:
            raise DataError(f"propensities that were {self.method} have no interval: nothing was estimated")
        key = whole("rounds", rounds, 2), seed
        if key not in self._drawn:
            self._drawn[key] = self._resample(*key)
        return self._drawn[key]

    def plot(self, axis: "Axes | None" = None, level: float = 0.95, rounds: int = 200) -> "Figure":
        """A matplotlib Figure of the values with their intervals, drawn on `axis` if it is given.

        Parameters
        ----------
        axis : matplotlib Axes, optional
        level, rounds : float, int
            Confidence of the intervals and number of logs drawn, as in `interval`.
        """
        axis = axis or new_figure(5.0, 3.2).add_subplot()
        low, high = (self.values, self.values) if self._resample is None else self.interval(level, rounds)
        names = [None] if self.context_names is None else [str(name) for name in self.context_names]
        for name, value, below, above in zip(names, *map(np.atleast_2d, (self.values, low, high))):
            bars = np.nan_to_num(np.maximum(0.0, [value - below, above - value]))
            axis.errorbar(self.places, value, bars, marker="o", markersize=4, capsize=2, label=name)
        axis.set(xlabel="place", ylabel="propensity, relative to place 1", ylim=(0, None))
        if self.context_names is not None:
            axis.legend()
        return cast("Figure", axis.figure)

    def to_dict(self, level: float = 0.95, rounds: int = 200) -> Facts:
        """Plain values for JSON, with intervals if there are any."""
        found: Facts = {"method": self.method, "places": self.places, "values": self.values}
        if self._resample is not None:
            low, high = self.interval(level, rounds)
            found |= {"low": low, "high": high, "level": level}
        found |= {"alpha": self.alpha, "beta": self.beta, "reasons": dict(self.reasons), "about": dict(self.about)}
        if self.context_names is not None:
            found["contexts"] = self.context_names
        return plain(found)

    def save(self, path: str | os.PathLike[str], level: float = 0.95, rounds: int = 200) -> None:
        """Write them as JSON; ``propensities(log, "given", values=path)`` reads it."""
        write_whole(path, (json.dumps(self.to_dict(level, rounds), indent=1) + "\n").encode())


def place_name(place: int, context: object = None) -> str:
    """What a place (of a context) is called in `reasons` and `few_clicks`."""
    return f"{place}" if context is None else f"{place} ({context})"


def relative(alpha: np.ndarray) -> np.ndarray:
    first = alpha[..., :1]
    return np.asarray(alpha / np.where(first > 0, first, np.nan))


Judged: TypeAlias = RankingData | Mapping[tuple[Hashable, Hashable], float]  # rows with grades, or grades by ids
Known: TypeAlias = ArrayLike | os.PathLike[str] | Propensities | None  # or what `save` wrote, or the log's own
METHODS = ("em", "all-pairs", "regression-em", "given")
LEAST_CLICKS = 10  # on documents shown at several places, below which a place is called out
Estimate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # showings, clicks of cells -> α, β


def propensities(
    log: ClickLog, method: str = "all-pairs", *, values: Known = None, data: RankingData | None = None,
    by_context: bool = False, judgments: Judged | None = None, max_iter: int = MAX_ITER, tol: float = TOL,
) -> Propensities:  # fmt: skip
    """How often each place is examined, relative to the first: P(click) = propensity · relevance.

    Only places that share documents can be compared. A place that shares none with the first, directly or through
    others, has the value NaN, and `reasons` says why. If no document was shown both at the first place and at another
    one, it is an error.

    Parameters
    ----------
    log : ClickLog
    method : {"all-pairs", "em", "regression-em", "given"}
        "all-pairs" compares the clicks at two places on the documents that were shown at both (Agarwal et al. 2019).
        "em" finds the most likely propensities and attractions of documents. Its propensities are too large if each
        document has few showings, because an attraction is then fitted to every single click. "regression-em" predicts
        the attraction from the features of `data`, so documents that were shown at one place only count too (Wang et
        al. 2018). "given" takes `values`.
    values : array, path or Propensities, optional
        For "given": one number per place, the first place first, or a file that `save` wrote. None takes the mean of
        the log's propensities at each place.
    data : RankingData, optional
        Features, for "regression-em".
    by_context : bool
        Estimate values for each context of the log, relative to the first place of the same context.
    judgments : RankingData with document ids, or mapping (query, document) -> grade, optional
        Grades of shown documents, from which trust bias is estimated by least squares: P(click) = alpha · relevance +
        beta at each place, where relevance is the grade divided by the largest grade. `method` is not used.
    max_iter, tol : int, float
        Largest number of EM steps, and the change of the propensities at which EM ends. All methods but "given" use
        EM. Every third step extrapolates the two before it, so some hundred steps do what plain EM needs thousands
        for. `about` says whether it converged.

    Examples
    --------
    >>> clicks = [1, 0, 1, 1, 1, 0, 0, 0]
    >>> log = ClickLog(queries=["q"] * 8, documents=list("abbaabba"), places=[1, 2] * 4, clicks=clicks)
    >>> propensities(log).values.round(2)
    array([1.  , 0.33])
    """
    one_of("method", method, *METHODS)
    check_log(log)
    if method != "given" and values is not None:
        raise DataError("values= are known propensities: pass method='given' too, or leave them out")
    if method == "given" and judgments is None:
        if by_context:
            raise ValueError("by_context=True is for estimated propensities, not for method='given'")
        return _given(log, values)
    if by_context and log.context is None:
        raise DataError("the log has no contexts", "read it with context=, or give ClickLog contexts=", "context")
    if not log.n_showings:
        raise DataError("the log has no showings")
    counted = _Counted(log, by_context)
    if not counted.c.any():
        raise DataError("the log has no clicks to estimate propensities from: use method='given', or a log with clicks")
    if judgments is not None:
        return counted.trusting(judgments)
    return counted.estimated(method, data, whole("max_iter", max_iter), positive("tol", tol, 0.0))


def _given(log: ClickLog, values: Known) -> Propensities:
    if isinstance(values, Propensities):
        return values
    if isinstance(values, str | os.PathLike):
        return _read(Path(values))
    if values is None:
        if log.propensities is None:
            raise DataError("method='given' needs values=, or a log with propensities")
        weight = np.ones(len(log)) if log.weights is None else log.weights
        shown = np.bincount(log.place - 1, weight, log.n_places)
        total = np.bincount(log.place - 1, weight * log.propensities, log.n_places)
        alpha = total / np.where(shown > 0, shown, np.nan)
        if not len(alpha) or np.isnan(alpha[0]):
            raise DataError("nothing was shown at place 1, to which propensities are relative: pass values=")
    else:
        alpha = real_numbers(values, "values")
        if alpha.ndim != 1 or not len(alpha) or not ((alpha > 0) & np.isfinite(alpha)).all():
            raise DataError("values must be numbers above 0, one for each place, the first place first")
    places, zeros = np.arange(1, len(alpha) + 1), np.zeros(len(alpha))
    reasons = {str(place): "nothing was shown there" for place in places[np.isnan(alpha)]}
    return Propensities("given", places, alpha / alpha[0], zeros, reasons=reasons)


def _read(path: Path) -> Propensities:
    if not path.exists():
        raise DataError(no_such_file(path))
    try:
        stored = json.loads(path.read_text("utf-8"))
        alpha, beta = (np.array(stored[name], np.float64) for name in ("alpha", "beta"))
        places = np.array(stored["places"], np.int64)
        contexts = None if stored.get("contexts") is None else np.array(stored["contexts"], object)
        alike = alpha.shape == beta.shape and alpha.shape[-1:] == places.shape
        if not alike or (places != np.arange(len(places)) + 1).any():
            raise ValueError("places, alpha and beta differ in length")
        if not (np.nan_to_num(alpha, nan=1.0) >= 0).all() or not len(places):
            raise ValueError("alpha holds negative numbers, or none")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(f"{path} holds no propensities that can be read: {error}") from None
    return Propensities("given", places, alpha, beta, contexts, dict(stored.get("reasons", {})))


class _Counted:
    """Cells of a log by slot (place, or place and context) and document of a query; clicks count once."""

    def __init__(self, log: ClickLog, by_context: bool) -> None:
        self.log, self.n_places = log, log.n_places
        self.context_names = log.context_names if by_context else None
        contexts = 0 if self.context_names is None or log.context is None else log.context
        self.cells = group_by([log.query, log.document, contexts * self.n_places + log.place - 1])
        self.query, self.document, self.slot = self.cells.columns
        self.pairs = log.named(self.query, self.document)
        self.n_slots = self.n_places * (1 if self.context_names is None else len(self.context_names))
        self.clicked = (log.clicks > 0).astype(np.float64)
        self.n, self.c = self._counts(log.weights)
        self.sessions = None if log.session is None else np.unique(log.session)

    def _counts(self, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Showings and clicks of each cell, with these weights of entries."""
        clicks = self.clicked if weights is None else self.clicked * weights
        return self.cells.sums(weights), self.cells.sums(clicks)

    def estimated(self, method: str, data: RankingData | None, max_iter: int, tol: float) -> Propensities:
        """The estimate by a method; NaN for slots that cannot be compared with the first place of their context."""
        shared = SharedCells(self.query, self.document, self.slot, self.n_slots)
        graph = shared.graph(self.n, self.c)
        about: Facts = {}
        X, row, pair = np.zeros((0, 0)), self.slot, group_by([self.query, self.document]).number
        if method == "regression-em":
            X, row = self._features(data)
            about["showings without features"] = float(self.n[row < 0].sum())
        kept, n_pairs = row >= 0, int(pair.max()) + 1

        def fit(n: np.ndarray, c: np.ndarray, start: Start) -> tuple[np.ndarray, np.ndarray, int]:
            if method == "all-pairs":
                return fit_all_pairs(shared.graph(n, c), start, max_iter, tol)
            if method == "em":
                return fit_product(self.slot, pair, n, c, self.n_slots, n_pairs, start, max_iter, tol)
            some = self.slot[kept], row[kept], n[kept], c[kept]
            return fit_regression(*some, self.n_slots, X, start, max_iter, tol)

        known, reasons = self._identified(graph, method, np.bincount(self.slot, self.n * kept, self.n_slots) > 0)
        theta, gamma, turns = fit(self.n, self.c, None)
        start = np.nan_to_num(theta, nan=0.5), np.nan_to_num(gamma, nan=0.5)  # near those of logs drawn from this one
        about |= {"iterations": turns, "converged": turns < max_iter}
        if method != "regression-em" and (few := self._few_clicks(shared, known)):
            about["few clicks"] = few
        if self.context_names is None and (thinnest := graph.thinnest()) is not None:
            about["thinnest edge"] = {"places": [slot + 1 for slot in thinnest[:2]], "showings": thinnest[2]}
        alone = known & (np.bincount(np.concatenate(shared.ends), minlength=self.n_slots) == 0)

        def estimate(n: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found = np.where(known, theta if n is self.n else fit(n, c, start)[0], np.nan)
            if method == "all-pairs":
                found[alone] = 1.0  # first places that nothing is compared with
            return relative(self._shaped(found)), self._shaped(np.zeros(self.n_slots))

        return self._answer(method, estimate, reasons, about)

    def _few_clicks(self, shared: SharedCells, known: np.ndarray) -> dict[str, float]:
        """Known slots with few clicks on documents that other slots showed too: only these tell how slots differ."""
        several = np.unique(np.concatenate(shared.cells))
        clicks = np.bincount(self.slot[several], self.c[several], self.n_slots)
        return {self._name(slot): float(clicks[slot]) for slot in np.flatnonzero(known & (clicks < LEAST_CLICKS))}

    def _features(self, data: RankingData | None) -> tuple[np.ndarray, np.ndarray]:
        """Features, and the row of each cell's document; −1 if it has none."""
        if data is None:
            problem = "regression-em takes the attraction of a document from its features"
            raise DataError(problem, "give data=", "features of documents")
        row = find_documents(self.pairs, documents_of(data, "data"), "no document of the log has a row in data")
        X = data.X.toarray() if not isinstance(data.X, np.ndarray) else data.X
        if not np.isfinite(X).all():
            raise DataError("data has missing values, which regression-em cannot use: fill them, or use another method")
        return X, row

    def _identified(self, graph: PlaceGraph, method: str, shown: np.ndarray) -> tuple[np.ndarray, dict[str, str]]:
        """Which slots can be compared with the first place of their context, and why others cannot."""
        joined, known = np.zeros(self.n_slots, bool), np.zeros(self.n_slots, bool)
        for first in range(0, self.n_slots, self.n_places):
            own = slice(first, first + self.n_places)
            joined[own] = (graph.part == graph.part[first])[own]
            known[own] = (graph.compared_with(first) if method == "all-pairs" else joined)[own]
            known[own] &= shown[own] & shown[first]
        if method == "regression-em":  # features join any places
            known = shown & np.repeat(shown[:: self.n_places], self.n_places)
        reasons, nothing = {}, "nothing with features" if method == "regression-em" else "nothing"
        for slot in np.flatnonzero(~known):
            why = "no clicks compare it" if joined[slot] else "no document joins it"
            why = f"{why} with place 1, directly or not" if shown[slot] else f"{nothing} was shown there"
            reasons[self._name(slot)] = why if shown[slot - slot % self.n_places] else f"{nothing} was shown at place 1"
        if known.sum() <= max(1, shown[:: self.n_places].sum()) and self.n_places > 1:
            silent = "documents that were seen there and elsewhere were not clicked at both places"
            why = silent if (shown & joined & ~known).any() else "no document was seen there and elsewhere"
            raise DataError(
                f"no place can be compared with the first: {why}. Swap two results now and then when they are shown, "
                "use method='regression-em' with the documents' features, or propensities that are known"
            )
        return known, reasons

    def _name(self, slot: int | np.integer) -> str:
        context, place = divmod(int(slot), self.n_places)
        return place_name(place + 1, None if self.context_names is None else self.context_names[context])

    def _shaped(self, slots: np.ndarray) -> np.ndarray:
        return slots if self.context_names is None else slots.reshape(-1, self.n_places)

    def trusting(self, judgments: Judged) -> Propensities:
        """α and β by place: least squares of clicks on relevance, weighted by showings."""
        if isinstance(judgments, Mapping):
            if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in judgments):
                raise DataError("judgments must map pairs (query, document) to grades")
            grades = real_numbers(list(judgments.values()), "judgments")
            ids = [as_text(np.array(column, object)) for column in zip(*judgments)] or [grades, grades]
            judged = Documents(*(coded(column, len(grades), "judgments") for column in ids))
        else:
            judged, grades = documents_of(judgments, "the judgments"), judgments.y
        if not grades.any() or not (grades >= 0).all():
            raise DataError("judgments must be grades from 0 up, one of them above 0")
        row = find_documents(self.pairs, judged, "no showing is of a judged document")
        known = row >= 0
        r, slot = grades[row[known]] / grades.max(), self.slot[known]

        def fit(n: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            n, c = n[known], c[known]
            columns = (n, n * r, n * r * r, c, c * r)
            s, sr, srr, sc, scr = (np.bincount(slot, column, self.n_slots) for column in columns)
            spread = s * srr - sr * sr
            alpha = (s * scr - sr * sc) / np.where(spread > 1e-9 * np.maximum(1.0, s * s), spread, np.nan)
            return self._shaped(alpha), self._shaped((sc - alpha * sr) / np.where(s > 0, s, np.nan))

        alpha, alike = np.ravel(fit(self.n, self.c)[0]), "judged documents shown {} do not differ in relevance"
        first = alpha[:: self.n_places]
        if np.isnan(first).all():
            raise DataError(alike.format("at place 1") + ": judge more of what stood there")
        if (first <= 0).any():
            raise DataError("clicks at place 1 do not rise with relevance: the judgments do not explain the clicks")
        unknown = np.isnan(alpha / np.repeat(first, self.n_places))
        where = np.where(np.isnan(alpha), "there", "at place 1")
        reasons = {self._name(k): alike.format(where[k]) for k in np.flatnonzero(unknown)}
        about = {"judged showings": float(self.n[known].sum()), "showings": float(self.n.sum())}
        return self._answer("trust", fit, reasons, about)

    def _answer(self, method: str, estimate: Estimate, reasons: dict[str, str], about: Facts) -> Propensities:
        def resample(rounds: int, seed: int) -> np.ndarray:
            rng = generator(seed, "seed")
            return relative(np.array([estimate(*self._drawn(rng))[0] for _ in range(rounds)]))

        places = np.arange(1, self.n_places + 1)
        return Propensities(method, places, *estimate(self.n, self.c), self.context_names, reasons, about, resample)

    def _drawn(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Counts of a log of lists drawn with replacement, or of drawn showings if the log has no sessions."""
        log = self.log
        if log.session is None or log.session_names is None or self.sessions is None:
            misses, hits = rng.poisson(self.n - self.c), rng.poisson(self.c)
            return (misses + hits).astype(np.float64), hits.astype(np.float64)
        size = len(self.sessions)
        drawn = np.zeros(len(log.session_names))  # `take` keeps names of lists that are gone
        drawn[self.sessions] = np.bincount(rng.integers(0, size, size), minlength=size)
        weights = drawn[log.session]
        return self._counts(weights if log.weights is None else weights * log.weights)
