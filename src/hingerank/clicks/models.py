"""Click models, fitted by EM or, the cascade model, by counting."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hingerank.arrays import Facts
from hingerank.clicks.counting import Groups, count_rows, group_by
from hingerank.clicks.estimation import FAR, fit_product
from hingerank.clicks.log import ClickLog, check_log
from hingerank.data.blocks import as_text
from hingerank.data.checks import generator, one_of, positive, whole
from hingerank.data.files import DataError
from hingerank.data.memory import check_room
from hingerank.kernels.clicks import chain_step


@dataclass(frozen=True)
class LogLists:
    """Distinct lists.

    Parameters
    ----------
    query : int array, an entry a list
    document : int array, lists × places
        −1 where a list has nothing.
    clicks : bool array, lists × places
    weight : float array
        How often the list was shown and clicked in this way.
    """

    query: np.ndarray
    document: np.ndarray
    clicks: np.ndarray
    weight: np.ndarray

    @property
    def shown(self) -> np.ndarray:
        """Where there is a document."""
        return self.document >= 0

    def pairs(self) -> Groups:
        """The shown entries by query and document."""
        shown = self.shown
        return group_by([np.broadcast_to(self.query[:, None], shown.shape)[shown], self.document[shown]])

    def spread(self, values: np.ndarray, nothing: int) -> np.ndarray:
        """A value for each shown entry as lists × places, `nothing` where a list has nothing."""
        out = np.full(self.shown.shape, nothing)
        out[self.shown] = values
        return out

    @property
    def last(self) -> np.ndarray:
        """The number (from 0) of the last clicked place, −1 where nothing was clicked."""
        width = self.clicks.shape[1]
        return np.where(self.clicks.any(axis=1), width - 1 - np.argmax(self.clicks[:, ::-1], axis=1), -1)


def lists_of(log: ClickLog) -> LogLists:
    """The lists of a log with sessions.

    If two documents are at one place, the first counts. One that is shown there twice is clicked if either showing is.
    """
    check_log(log)
    lists, weight = log.by_list()
    if not len(log):
        raise DataError("the log has no showings")
    number, size, width = lists.number, len(lists), log.n_places
    check_room(64 * size * width, f"{size:,} lists of up to {width:,} places", FAR)
    document, clicks = np.full((size, width), -1, np.int64), np.zeros((size, width), bool)
    at = log.place - 1
    document[number[::-1], at[::-1]] = log.document[::-1]
    clicked = (log.clicks > 0) & (log.document == document[number, at])
    clicks[number[clicked], at[clicked]] = True
    query = lists.columns[1]
    alike = group_by([query, *(document + 1).T, *clicks.T.astype(np.int64)])
    return LogLists(query[alike.first], document[alike.first], clicks[alike.first], alike.sums(weight))


FLOOR = 1e-6  # no click is taken to be less likely, or more certain, than this


class ClickModel:
    """A click model: P(click at place k | clicks above it), from the attraction of each document of a query.

    Parameters
    ----------
    prior : float
        Number of showings of a mean document that are added to those of every document, so that rare documents get
        sensible values. Documents and queries that were never shown have the mean attraction.
    max_iter, tol : int, float
        Largest number of EM steps, and the change of the parameters at which EM ends. With ``max_iter=0``, DCM and SDBN
        are the counts of their papers, as if nothing below the last click was examined. The cascade model has no EM.

    Attributes
    ----------
    attraction_ : array
        One entry per document of a query, in the order of `query_` and `document_`, the codes of the log's names.
    parameters_ : dict
        The other parameters: examination by place, satisfaction by document, …
    """

    name: ClassVar[str]
    attraction_: np.ndarray

    def __init__(self, prior: float = 1.0, max_iter: int = 500, tol: float = 1e-5) -> None:
        self.prior, self.max_iter = positive("prior", prior, 0.0), whole("max_iter", max_iter, 0)
        self.tol = positive("tol", tol)
        self._number: dict[tuple[str, str], int] = {}

    def fit(self, log: ClickLog) -> "ClickModel":
        """Learn from the lists of a log with sessions."""
        lists = lists_of(log)
        clicks = float(lists.weight @ lists.clicks.sum(axis=1))
        if not clicks:
            raise DataError("the log has no clicks: there is nothing to learn")
        self._number = {}
        self.query_names_, self.document_names_ = log.query_names, log.document_names
        pairs, shown = lists.pairs(), lists.shown
        self.query_, self.document_ = pairs.columns
        weight = np.broadcast_to(lists.weight[:, None], shown.shape)
        self.showings_ = pairs.sums(weight[shown])
        self.mean_ = min(max(clicks / self.showings_.sum(), 1e-3), 0.999)
        self.n_places_ = shown.shape[1]
        self.parameters_: dict[str, np.ndarray] = {}
        self._fit(lists, lists.spread(pairs.number, len(pairs) + 1))
        return self

    # What a model defines.

    # Documents of queries have the numbers 0, 1, …, all that were never seen the next one, and gaps in a list the last.

    def _fit(self, lists: LogLists, pair: np.ndarray) -> None:
        raise NotImplementedError

    def _chance(self, pair: np.ndarray, clicks: np.ndarray | None = None) -> np.ndarray:
        """P(click at place k), lists × places: given the clicks above it, or whatever they are."""
        raise NotImplementedError

    # What all models have.

    def log_likelihood(self, log: ClickLog) -> float:
        """The mean over lists of the logarithm of P(all clicks of the list)."""
        lists, pair = self._known(log)
        terms = _log_probability(self._chance(pair, lists.clicks), lists.clicks)
        return float((lists.weight * np.where(lists.shown, terms, 0.0).sum(axis=1)).sum() / lists.weight.sum())

    def perplexity(self, log: ClickLog, conditional: bool = False) -> Facts:
        """2 to the mean of −log₂ P(what happened) at each place: 1 at best, and 2 for a coin toss.

        Parameters
        ----------
        log : ClickLog
        conditional : bool
            Whether the clicks above a place are known, as they are in `log_likelihood`.

        Returns
        -------
        dict
            "places", one entry per place (NaN if nothing was shown there), and "mean" over places.
        """
        lists, pair = self._known(log)
        chance = self._chance(pair, lists.clicks if conditional else None)
        terms = np.where(lists.shown, _log_probability(chance, lists.clicks), 0.0) / np.log(2)
        shown = lists.weight @ lists.shown
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(shown > 0, 2.0 ** (-(lists.weight @ terms) / shown), np.nan)
        return {"places": found, "mean": float(np.nanmean(found))}

    def click_rates(self, query: Hashable, documents: Iterable[Hashable]) -> np.ndarray:
        """P(click) at each place if these documents were shown for the query in this order."""
        return self._chance(self._list(query, documents))[0]

    def simulate(self, query: Hashable, documents: Iterable[Hashable], sessions: int, seed: int = 0) -> np.ndarray:
        """Clicks on this list (sessions × places), drawn place by place."""
        rng = generator(seed, "seed")
        pair = np.tile(self._list(query, documents), (whole("sessions", sessions), 1))
        clicks = np.zeros(pair.shape, bool)
        for k in range(pair.shape[1]):
            clicks[:, k] = rng.random(len(pair)) < self._chance(pair, clicks)[:, k]
        return clicks

    def relevance(self) -> np.ndarray:
        """The relevance of each document of a query, from 0 to 1, in the order of `query_` and `document_`."""
        return self.attraction_

    def _list(self, query: Hashable, documents: Iterable[Hashable]) -> np.ndarray:
        """The numbers of one list's documents, 1 × places."""
        shown = list(documents)
        pair = self._pairs([query] * len(shown), shown)
        if len(shown) > self.n_places_:
            raise DataError(f"{len(shown)} documents, but the model has seen lists of at most {self.n_places_}")
        return pair[None, :]

    def _pairs(self, queries: Sequence[Hashable], documents: Sequence[Hashable]) -> np.ndarray:
        """The number of each document of a query, the same one for all that were never seen."""
        if not hasattr(self, "query_"):
            raise DataError("the click model is not fitted: call fit(log) first")
        if not self._number:
            names = zip(as_text(self.query_names_)[self.query_], as_text(self.document_names_)[self.document_])
            self._number = {key: code for code, key in enumerate(names)}
        keys = zip(as_text(np.array(queries, object)), as_text(np.array(documents, object)))
        return np.array([self._number.get(key, len(self.query_)) for key in keys], np.int64)

    def _known(self, log: ClickLog) -> tuple[LogLists, np.ndarray]:
        """The lists of a log, and the number of each of their documents."""
        lists = lists_of(log)
        width = lists.clicks.shape[1]
        if width > self.n_places_:
            raise DataError(f"the log has place {width}, but the model has seen places up to {self.n_places_}")
        pairs = lists.pairs()
        queries, documents = pairs.columns
        known = self._pairs(log.query_names[queries], log.document_names[documents])
        return lists, lists.spread(known[pairs.number], len(self.query_) + 1)


def _log_probability(chance: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    chance = np.clip(chance, FLOOR, 1 - FLOOR)
    return np.where(clicks, np.log(chance), np.log1p(-chance))


class PBM(ClickModel):
    """Position-based model: P(click) = examination_k · attraction_d (Richardson et al. 2007; Craswell et al. 2008)."""

    name = "pbm"

    def _slots_a_place(self) -> int:
        """How many probabilities of examination a place has."""
        return 1

    def _slots(self, clicks: np.ndarray) -> np.ndarray:
        """Which of them each entry of lists with these clicks has."""
        return np.broadcast_to(np.arange(clicks.shape[1]), clicks.shape)

    def _fit(self, lists: LogLists, pair: np.ndarray) -> None:
        shown, slot = lists.shown, self._slots(lists.clicks)
        weight = np.broadcast_to(lists.weight[:, None], shown.shape)[shown]
        columns, n = count_rows([slot[shown], pair[shown], lists.clicks[shown].astype(np.int64)], weight)
        n_slots = self.n_places_ * self._slots_a_place()
        check_room(64 * n_slots, f"{n_slots:,} pairs of a place and the last click", FAR)
        theta, gamma, self.n_iter_ = fit_product(
            columns[0], columns[1], n, n * columns[2], n_slots, len(self.query_), None, self.max_iter, self.tol,
            (self.prior * self.mean_, self.prior),
        )  # fmt: skip
        self.parameters_["examination"] = np.nan_to_num(theta, nan=0.5)
        mean = np.average(np.nan_to_num(gamma), weights=self.showings_)
        self.attraction_ = np.nan_to_num(gamma, nan=mean)  # of documents whose showings weigh nothing
        self._attractions = np.append(self.attraction_, [mean, 0.0])

    def _chance(self, pair: np.ndarray, clicks: np.ndarray | None = None) -> np.ndarray:
        known = np.zeros(pair.shape, bool) if clicks is None else clicks
        return self.parameters_["examination"][self._slots(known)] * self._attractions[pair]


class UBM(PBM):
    """User browsing model: examination depends on place and last click (Dupret & Piwowarski 2008)."""

    name = "ubm"

    def _slots_a_place(self) -> int:
        return self.n_places_ + 1

    def _slots(self, clicks: np.ndarray) -> np.ndarray:
        places = np.arange(1, clicks.shape[1] + 1)
        last = np.maximum.accumulate(np.where(clicks, places, 0), axis=1)
        before = np.hstack([np.zeros((len(clicks), 1), np.int64), last[:, :-1]])
        return (places - 1) * self._slots_a_place() + before

    def _chance(self, pair: np.ndarray, clicks: np.ndarray | None = None) -> np.ndarray:
        """Without clicks over all places of the last one: O(places²) a list."""
        if clicks is not None:
            return super()._chance(pair, clicks)
        theta = self.parameters_["examination"].reshape(self.n_places_, -1)
        chance, last = np.zeros(pair.shape), np.zeros((len(pair), self.n_places_ + 1))
        last[:, 0] = 1.0
        for k in range(pair.shape[1]):
            clicked = last[:, : k + 1] * theta[k, : k + 1] * self._attractions[pair[:, k]][:, None]
            chance[:, k] = clicked.sum(axis=1)
            last[:, : k + 1] -= clicked
            last[:, k + 1] = chance[:, k]
        return chance


class ChainModel(ClickModel):
    """Documents are examined one after the other, and users may stop after a click.

    After a click, users stop with probability `_stops`, by document or by place. Otherwise, and after a skip, they
    examine the next document with probability `_go_on`.
    """

    _stops: np.ndarray  # the last two entries are for what was never seen and for gaps, as in _attractions
    _go_on = 1.0
    _learns_go_on = False
    _by_place = False  # what `_stops` has an entry for: a place, or else a document

    def _keys(self, pair: np.ndarray) -> np.ndarray:
        """Which of `_stops` each entry has."""
        by_place = np.broadcast_to(np.arange(pair.shape[1]), pair.shape)
        return np.ascontiguousarray(by_place) if self._by_place else pair

    def _chance(self, pair: np.ndarray, clicks: np.ndarray | None = None) -> np.ndarray:
        examined, chance, stops = np.ones(len(pair)), np.zeros(pair.shape), self._stops[self._keys(pair)]
        for k in range(pair.shape[1]):
            attraction = self._attractions[pair[:, k]]
            chance[:, k] = examined * attraction
            if clicks is None:
                examined = self._go_on * examined * (1 - attraction * stops[:, k])
            else:
                skipped = examined * (1 - attraction) / np.maximum(1 - chance[:, k], 1e-12)
                examined = self._go_on * np.where(clicks[:, k], 1 - stops[:, k], skipped)
        return chance

    def _fit(self, lists: LogLists, pair: np.ndarray) -> None:
        """EM, which begins at the counts of the papers, as if nothing below the last click was examined."""
        last, places, keys = lists.last, np.arange(pair.shape[1]), self._keys(pair)
        size = len(self.query_) + 2
        n_keys = self.n_places_ + 2 if self._by_place else size
        clicks = lists.weight[:, None] * lists.clicks
        hits, ended = np.bincount(pair.ravel(), clicks.ravel(), size), np.bincount(keys.ravel(), clicks.ravel(), n_keys)
        seen = lists.weight[:, None] * ((places <= last[:, None]) | (last[:, None] < 0))
        final = np.where(places == last[:, None], clicks, 0.0)
        self._attractions = self._rates(hits, np.bincount(pair.ravel(), seen.ravel(), size))
        self._stops = self._rates(np.bincount(keys.ravel(), final.ravel(), n_keys), ended)
        length = pair.shape[1] - lists.shown[:, ::-1].argmax(axis=1)
        inside = np.where(places + 1 < length[:, None], clicks, 0.0)  # after a click at the end nothing can be told
        ended = np.bincount(keys.ravel(), inside.ravel(), n_keys)
        self.n_iter_, moved, self._go_on = 0, np.inf, 0.9 if self._learns_go_on else 1.0
        while self.n_iter_ < self.max_iter and moved > self.tol:
            before = self._attractions, self._stops, self._go_on
            examined, stopped = np.zeros(size), np.zeros(n_keys)
            trials, went = chain_step(pair, keys, last, length, lists.weight, *before, examined, stopped)
            self._attractions, self._stops = self._rates(hits, examined), self._rates(stopped, ended)
            if self._learns_go_on:
                self._go_on = min(1.0, went / max(trials, 1e-12))
            moved = max(
                np.abs(self._attractions - before[0])[:-2].max(), np.abs(self._stops - before[1]).max(),
                abs(self._go_on - before[2]),
            )  # fmt: skip
            self.n_iter_ += 1
        self.attraction_, stops = self._attractions[:-2], self._stops[:-2]
        self.parameters_ |= {"continuation": 1 - stops} if self._by_place else {"satisfaction": stops}
        if self._learns_go_on:
            self.parameters_["continuation"] = np.array(self._go_on)

    def _rates(self, hits: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Rates under the prior of their mean. Then that mean for what was never shown, and 0 for gaps."""
        mean = min(max(hits[:-2].sum() / max(shown[:-2].sum(), 1e-12), 1e-3), 0.999)
        rates = np.where(
            shown + self.prior > 0, (hits + self.prior * mean) / np.maximum(shown + self.prior, 1e-12), mean
        )
        rates[-2:] = mean, 0.0
        return rates


class Cascade(ChainModel):
    """Cascade model: users examine documents down to the first click, and no further (Craswell et al. 2008).

    The most likely attraction is the number of first clicks divided by that of showings down to the first click.
    """

    name = "cascade"

    def _fit(self, lists: LogLists, pair: np.ndarray) -> None:
        size, first = len(self.query_) + 2, np.cumsum(lists.clicks, axis=1) - lists.clicks == 0
        shown = lists.weight[:, None] * first
        self._attractions = self._rates(
            *(np.bincount(pair.ravel(), column.ravel(), size) for column in (shown * lists.clicks, shown))
        )
        self.attraction_, self._stops = self._attractions[:-2], np.ones(size)


class DCM(ChainModel):
    """Dependent click model: after a click at place k, users continue with probability λ_k (Guo et al. 2009); by EM."""

    name = "dcm"
    _by_place = True


class SDBN(ChainModel):
    """Simplified dynamic Bayesian network: a click satisfies with probability σ_d, and then users stop; by EM."""

    name = "sdbn"

    def relevance(self) -> np.ndarray:
        """Attraction times satisfaction."""
        return self.attraction_ * self.parameters_["satisfaction"]


class DBN(SDBN):
    """Dynamic Bayesian network: unsatisfied users continue with probability γ (Chapelle & Zhang 2009); by EM."""

    name = "dbn"
    _learns_go_on = True


CLICK_MODELS: dict[str, type[ClickModel]] = {model.name: model for model in (PBM, Cascade, DCM, SDBN, DBN, UBM)}


def click_model(log: ClickLog, model: str = "pbm", **settings: Any) -> ClickModel:
    """Fit a click model to the lists of a log.

    Parameters
    ----------
    log : ClickLog with sessions
    model : {"pbm", "cascade", "dcm", "sdbn", "dbn", "ubm"}
        Position-based, cascade, dependent click, simplified or full dynamic Bayesian network, user browsing.
    **settings
        `prior`, `max_iter` and `tol` of `ClickModel`.

    Examples
    --------
    >>> shown = {"queries": ["q"] * 4, "documents": list("abba"), "places": [1, 2, 1, 2], "sessions": [0, 0, 1, 1]}
    >>> log = ClickLog(**shown, clicks=[1, 0, 0, 1])
    >>> model = click_model(log, "sdbn")
    >>> model.click_rates("q", ["a", "b"]).round(2)
    array([0.89, 0.04])
    """
    return CLICK_MODELS[one_of("model", model, *CLICK_MODELS)](**settings).fit(log)
