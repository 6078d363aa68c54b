"""Propensities: how often a place is examined, relative to the first one, with intervals; NaN where nothing tells."""

import os
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hingerank.arrays import Facts
from hingerank.clicks.counting import group_by
from hingerank.clicks.estimation import MAX_ITER, TOL, fit_all_pairs, fit_product, fit_regression
from hingerank.clicks.log import ClickLog, as_text
from hingerank.clicks.place_bias import Propensities, read_propensities, relative
from hingerank.clicks.places import PlaceGraph, joined_places, shared_cells
from hingerank.data.blocks import real_numbers
from hingerank.data.checks import whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.registry import did_you_mean

Judged: TypeAlias = RankingData | Mapping[tuple[Hashable, Hashable], float]  # rows with grades, or grades by ids
Known: TypeAlias = ArrayLike | os.PathLike[str] | Propensities | None  # or what `save` wrote, or the log's own
METHODS = ("em", "all-pairs", "regression-em", "given")
LEAST_CLICKS = 10  # on documents shown at several places, below which a place is called out
Estimate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # showings, clicks of cells -> α, β
SlotEstimate = Callable[[np.ndarray, np.ndarray], np.ndarray]  # showings, clicks of cells -> θ of slots


def propensities(
    log: ClickLog, method: str = "all-pairs", *, values: Known = None, data: RankingData | None = None,
    by_context: bool = False, judgments: Judged | None = None, max_iter: int = MAX_ITER, tol: float = TOL,
) -> Propensities:  # fmt: skip
    """How often each place is examined, relative to the first: P(click) = propensity · relevance.

    Only places that share documents can be compared. A place that nothing joins with the first has the value NaN, and
    `reasons` says why. If no document was shown at the first place and at another one, it is an error.

    Parameters
    ----------
    log : ClickLog
    method : {"all-pairs", "em", "regression-em", "given"}
        "all-pairs" compares clicks on documents that were seen at two places, weighed alike (Agarwal et al. 2019).
        "em" finds the most likely propensities and attractions of documents. Its propensities are too large where
        documents have few showings each: an attraction is then fitted to every single click. "regression-em" takes
        the attraction from the features of `data`, so that documents seen at one place only count too (Wang et al.
        2018). "given" takes `values`.
    values : array, path or Propensities, optional
        For "given": an entry a place from the first on, or what `save` wrote. None takes the propensities of the log,
        their mean at each place.
    data : RankingData, optional
        Features, for "regression-em".
    by_context : bool
        Values for each context of the log, relative to the first place of the same context.
    judgments : RankingData with document ids, or mapping (query, document) -> grade, optional
        Estimates trust bias, P(click) = alpha · relevance + beta by place, with relevance the grade over the largest
        one: least squares on what is judged. `method` plays no part then.
    max_iter, tol : int, float
        Steps of EM, by which every method but "given" finds its optimum, and the change of the propensities at which
        it ends. Two steps of three make a leap possible, so that hundreds of them do what would take EM alone
        thousands; `about` says whether it has ended.

    Examples
    --------
    >>> clicks = [1, 0, 1, 1, 1, 0, 0, 0]
    >>> log = ClickLog(queries=["q"] * 8, documents=list("abbaabba"), places=[1, 2] * 4, clicks=clicks)
    >>> propensities(log).values.round(2)
    array([1.  , 0.33])
    """
    if method not in METHODS:
        raise DataError(f"method is {method!r}, expected one of {', '.join(METHODS)}{did_you_mean(method, METHODS)}")
    if method != "given" and values is not None:
        raise DataError("values= are propensities that are known: they go with method='given'")
    if method == "given" and judgments is None:
        return _given(log, values)
    if by_context and log.context is None:
        raise DataError("the log has no contexts: read it with context=, or give ClickLog contexts=")
    if not log.n_showings:
        raise DataError("the log has no showings")
    counted = _Counted(log, by_context)
    if not counted.c.any():
        raise DataError("the log has no clicks, so nothing tells how places differ: give values=, or a log with clicks")
    if judgments is not None:
        return counted.trusting(judgments)
    return counted.estimated(method, data, whole("max_iter", max_iter), tol)


def _given(log: ClickLog, values: Known) -> Propensities:
    if isinstance(values, Propensities):
        return values
    if isinstance(values, str | os.PathLike):
        return read_propensities(Path(values))
    if values is None:
        if log.propensities is None:
            raise DataError("method='given' needs values=, or a log with propensities")
        weight = np.ones(len(log)) if log.weights is None else log.weights
        shown = np.bincount(log.place - 1, weight, log.n_places)
        total = np.bincount(log.place - 1, weight * log.propensities, log.n_places)
        alpha = np.where(shown > 0, total / np.where(shown > 0, shown, 1.0), np.nan)
        if not len(alpha) or np.isnan(alpha[0]):
            raise DataError("nothing was shown at place 1, and propensities are relative to it: give values=")
    else:
        alpha = real_numbers(values, "values")
        if alpha.ndim != 1 or not len(alpha) or not ((alpha > 0) & np.isfinite(alpha)).all():
            raise DataError("values must be numbers above 0, an entry a place from the first on")
    places = np.arange(1, len(alpha) + 1)
    reasons = {str(place): "nothing was shown there" for place in places[np.isnan(alpha)]}
    return Propensities("given", places, alpha / alpha[0], np.zeros(len(alpha)), reasons=reasons)


class _Counted:
    """Cells of a log by slot (place, or place and context) and document of a query; clicks count once."""

    def __init__(self, log: ClickLog, by_context: bool) -> None:
        self.log, self.by_context = log, by_context
        self.n_places = log.n_places
        self.n_contexts = len(log.context_names) if by_context and log.context_names is not None else 1
        context = log.context if by_context and log.context is not None else 0
        slot = context * self.n_places + log.place - 1
        columns, self.group = group_by([log.query, log.document, slot])
        self.query, self.document, self.slot = columns
        pairs, self.pair = group_by([self.query, self.document])
        self.pair_query, self.pair_document = pairs
        self.clicked = (log.clicks > 0).astype(np.float64)
        self.n_slots = self.n_contexts * self.n_places
        self.n, self.c = self.counts(log.weights)
        self.shared = shared_cells(self.query, self.document)
        self.shown = np.bincount(self.slot, self.n, self.n_slots) > 0
        self.sessions = None if log.session is None else np.unique(log.session)

    def counts(self, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Showings and clicks of each cell, with these weights of entries."""
        clicks = self.clicked if weights is None else self.clicked * weights
        size = len(self.query)
        return np.bincount(self.group, weights, size).astype(np.float64), np.bincount(self.group, clicks, size)

    def graph(self, n: np.ndarray, c: np.ndarray) -> PlaceGraph:
        return joined_places(np.arange(self.n_slots), self.slot, n, c, self.shared)

    def estimated(self, method: str, data: RankingData | None, max_iter: int, tol: float) -> Propensities:
        """By EM or all pairs, NaN where a slot is not joined with the first place of its context."""
        about: Facts = {}
        graph = self.graph(self.n, self.c)
        if method == "all-pairs":
            estimate = self._all_pairs(max_iter, tol, about)
        elif method == "em":
            sizes = {"n_slots": self.n_slots, "n_pairs": len(self.pair_query)}
            fit = partial(fit_product, self.slot, self.pair, **sizes, max_iter=max_iter, tol=tol)
            theta, gamma, turns = fit(self.n, self.c)
            about |= {"iterations": turns, "converged": turns < max_iter}
            start = np.nan_to_num(theta, nan=0.5), np.nan_to_num(gamma, nan=0.5)

            def estimate(n: np.ndarray, c: np.ndarray) -> np.ndarray:
                return theta if n is self.n else fit(n, c, start=start)[0]
        elif data is None:
            raise DataError("regression-em takes the attraction of a document from its features: give data=")
        else:
            estimate = self._regression(data, max_iter, tol, about)
        known, reasons = self._identified(graph, method)
        if method != "regression-em":
            about |= self._few_clicks(known)
        thinnest = graph.thinnest()
        if thinnest is not None and not self.by_context:
            about["thinnest edge"] = {"places": [slot + 1 for slot in thinnest[:2]], "showings": thinnest[2]}

        def both(n: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            alpha = self._shaped(np.where(known, estimate(n, c), np.nan))
            return relative(alpha), np.zeros(alpha.shape)

        return self._answer(method, both, reasons, about)

    def _all_pairs(self, max_iter: int, tol: float, about: Facts) -> SlotEstimate:
        start: list[tuple[np.ndarray, np.ndarray]] = []

        def estimate(n: np.ndarray, c: np.ndarray) -> np.ndarray:
            if self.n_places == 1:  # which is only compared with itself
                return np.ones(self.n_slots)
            p, r, turns = fit_all_pairs(self.graph(n, c), *(start or [None]), max_iter=max_iter, tol=tol)
            if not start:  # of the log itself: near those of logs that are drawn from it
                about.update({"iterations": turns, "converged": turns < max_iter})
                start.append((np.nan_to_num(p, nan=0.5), np.nan_to_num(r, nan=0.5)))
            return p

        return estimate

    def _regression(self, data: RankingData, max_iter: int, tol: float, about: Facts) -> SlotEstimate:
        if data.docid is None:
            raise DataError("data has no document ids to find the log's documents by: read it with docid=")
        ids = zip(as_text(data.qid), as_text(np.asarray(data.docid)))
        row_of = {key: row for row, key in enumerate(ids)}
        queries, documents = as_text(self.log.query_names), as_text(self.log.document_names)
        shown = zip(queries[self.pair_query], documents[self.pair_document])
        row = np.array([row_of.get(key, -1) for key in shown])
        kept = row[self.pair] >= 0
        if not kept.any():
            raise DataError("no document of the log has a row in data: are query and document ids the same in both?")
        about["showings without features"] = float(self.n[~kept].sum())
        X = data.X.toarray() if not isinstance(data.X, np.ndarray) else data.X
        if not np.isfinite(X).all():
            raise DataError("data has missing values, which regression-em cannot use: fill them, or use method='em'")

        def estimate(n: np.ndarray, c: np.ndarray) -> np.ndarray:
            rows, slot = row[self.pair][kept], self.slot[kept]
            theta, _, about["iterations"] = fit_regression(slot, rows, n[kept], c[kept], self.n_slots, X, max_iter, tol)
            return theta

        return estimate

    def _identified(self, graph: PlaceGraph, method: str) -> tuple[np.ndarray, dict[str, str]]:
        """Which slots can be compared with the first place of their context, and why others cannot."""
        part = np.where(self.shown, 0 if method == "regression-em" else graph.part, -1)  # features join any places
        first = np.repeat(part.reshape(-1, self.n_places)[:, 0], self.n_places)
        known = (part >= 0) & (part == first)
        reasons = {}
        for slot in np.flatnonzero(~known):
            why = "nothing was shown there" if part[slot] < 0 else "no document joins it with place 1, directly or not"
            reasons[self._name(slot)] = "nothing was shown at place 1" if first[slot] < 0 else why
        if known.sum() <= max(1, int((first.reshape(-1, self.n_places)[:, 0] >= 0).sum())) and self.n_places > 1:
            raise DataError(
                "no place can be compared with the first: no document was seen there and elsewhere. Swap two results "
                "now and then when they are shown, use method='regression-em' with data=, or give values="
            )
        return known, reasons

    def _few_clicks(self, known: np.ndarray) -> Facts:
        """Slots with too few clicks on documents that other slots showed too: only these tell how slots differ."""
        several = np.unique(np.concatenate(self.shared))
        clicks = np.bincount(self.slot[several], self.c[several], self.n_slots)
        few = {self._name(slot): float(clicks[slot]) for slot in np.flatnonzero(known & (clicks < LEAST_CLICKS))}
        return {"few clicks": few} if few else {}

    def _name(self, slot: int | np.integer) -> str:
        context, place = divmod(int(slot), self.n_places)
        names = self.log.context_names
        return f"{place + 1}" if not self.by_context or names is None else f"{place + 1} ({names[context]})"

    def _shaped(self, slots: np.ndarray) -> np.ndarray:
        return slots.reshape(self.n_contexts, self.n_places) if self.by_context else slots

    def trusting(self, judgments: Judged) -> Propensities:
        """α and β by place: least squares of clicks on relevance, weighed by showings."""
        relevance = _relevance(judgments, self.log)
        r = np.array([relevance.get(key, np.nan) for key in zip(self.query.tolist(), self.document.tolist())])
        judged = ~np.isnan(r)
        if not judged.any():
            raise DataError("no showing is of a judged document: are query and document ids the same in both?")
        r, slot = r[judged], self.slot[judged]
        reasons: dict[str, str] = {}

        def fit(n: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            n, c = n[judged], c[judged]
            sums = [np.bincount(slot, column, self.n_slots) for column in (n, n * r, n * r * r, c, c * r)]
            s, sr, srr, sc, scr = sums
            spread = s * srr - sr * sr
            good = spread > 1e-9 * np.maximum(1.0, s * s)
            with np.errstate(divide="ignore", invalid="ignore"):
                alpha = np.where(good, (s * scr - sr * sc) / spread, np.nan)
                beta = np.where(good, (sc - alpha * sr) / s, np.nan)
            return self._shaped(alpha), self._shaped(beta)

        for slot_number in np.flatnonzero(np.isnan(fit(self.n, self.c)[0].ravel())):
            reasons[self._name(slot_number)] = "judged documents shown there do not differ in relevance"
        about = {"judged showings": float(self.n[judged].sum()), "showings": float(self.n.sum())}
        found = self._answer("trust", fit, reasons, about)
        if not np.atleast_2d(found.alpha)[:, 0].min() > 0:
            raise DataError("clicks at place 1 do not rise with relevance: the judgments do not explain the clicks")
        return found

    def _answer(self, method: str, estimate: Estimate, reasons: dict[str, str], about: Facts) -> Propensities:
        alpha, beta = estimate(self.n, self.c)

        def resample(rounds: int, seed: int) -> np.ndarray:
            rng = np.random.default_rng(seed)
            return relative(np.array([estimate(*self._drawn(rng))[0] for _ in range(rounds)]))

        names = self.log.context_names if self.by_context else None
        return Propensities(method, np.arange(1, self.n_places + 1), alpha, beta, names, reasons, about, resample)

    def _drawn(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Counts of a log of lists drawn with replacement; of showings, where lists are not known."""
        log = self.log
        if log.session is None or log.session_names is None or self.sessions is None:
            misses, hits = rng.poisson(self.n - self.c), rng.poisson(self.c)
            return (misses + hits).astype(np.float64), hits.astype(np.float64)
        size = len(self.sessions)
        drawn = np.zeros(len(log.session_names))  # `take` keeps names of lists that are gone
        drawn[self.sessions] = np.bincount(rng.integers(0, size, size), minlength=size)
        weights = drawn[log.session]
        return self.counts(weights if log.weights is None else weights * log.weights)


def _relevance(judgments: Judged, log: ClickLog) -> dict[tuple[int, int], float]:
    """(query, document) codes -> grade over the largest grade."""
    if isinstance(judgments, RankingData):
        if judgments.docid is None:
            raise DataError("judgments have no document ids: read them with docid=")
        keys = zip(as_text(judgments.qid).tolist(), as_text(judgments.docid).tolist())
        grades = dict(zip(keys, judgments.y.tolist()))
    else:
        grades = {(str(q), str(d)): float(grade) for (q, d), grade in dict(judgments).items()}
    largest = max(grades.values(), default=0.0)
    if largest <= 0 or min(grades.values()) < 0:
        raise DataError("judgments must be grades from 0 up, one of them above 0")
    query = {name: code for code, name in enumerate(as_text(log.query_names).tolist())}
    document = {name: code for code, name in enumerate(as_text(log.document_names).tolist())}
    return {
        (query[q], document[d]): grade / largest for (q, d), grade in grades.items() if q in query and d in document
    }
