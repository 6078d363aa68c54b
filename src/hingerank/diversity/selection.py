"""Rerankers that pick one document after the other: their base class, and MMR, xQuAD and PM-2, which learn nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import ArrayLike
from hingerank.data.checks import fraction, list_of, one_of, positive, whole
from hingerank.data.files import DataError
from hingerank.diversity.kernels import LEAST, MEAN, MOST, next_pick, pm2_order, xquad_order
from hingerank.diversity.measures import order_values, parse_diversity_measure
from hingerank.diversity.queries import DiverseQuery, check_queries
from hingerank.diversity.relations import Relations, cosine_relation, unit_scores
from hingerank.diversity.trec import RankedList, Run
from hingerank.export.model_file import SavedModel
from hingerank.rankers.base import Absent

AGGREGATES = {"min": (LEAST,), "mean": (MEAN,), "max": (MOST,), "all": (LEAST, MEAN, MOST), "none": ()}

LIMITS = ("candidates", "top")  # parameters that may be None, for all
COUNTS = (*LIMITS, "max_iter", "negatives", "orders", "positives")  # parameters of learned rerankers


class DiverseRanker(SavedModel, BaseEstimator):
    """``fit(queries)``, ``rerank(query, top)``.

    A reranker defines `_order(query, top)` and lists the parts of a query that it `_needs`.
    """

    _needs: tuple[str, ...] = ()
    fit_clicks: Any = Absent(
        "it reorders the results of another ranker. Let that one learn from clicks, such as RankSVM"
    )
    candidates: int | None = None  # how many, the most relevant ones, are reranked; the others follow by relevance

    def fit(self, queries: Iterable[DiverseQuery], y: object = None) -> Self:
        """Check the queries and return the reranker, as there is nothing to learn; learned methods override this."""
        self._checked(queries)
        return self

    def rerank(self, query: DiverseQuery, top: int = 20) -> np.ndarray:
        """Return row numbers of the chosen candidates, best first; ``query.docids[order]`` are their names.

        Parameters
        ----------
        query : DiverseQuery
        top : int, default 20
            Number of candidates to choose (all, if there are fewer).
        """
        check_is_fitted(self)
        top = whole("top", top)
        if not isinstance(query, DiverseQuery):
            raise DataError(f"expected a DiverseQuery, got {type(query).__name__}")
        query.need(*self._needs, to=type(self).__name__)
        if query.n == 0:  # all its documents are in `rest`
            return np.zeros(0, np.int64)
        if self.candidates is None:
            return self._order(query, int(min(top, query.n)))
        rows = self._by_relevance(query)
        taking_part = query.subset(rows[: self.candidates])
        chosen = self._order(taking_part, int(min(top, taking_part.n)))
        return np.concatenate((rows[chosen], rows[taking_part.n :]))[:top]

    def rerank_run(self, queries: Iterable[DiverseQuery], top: int = 20) -> Run:
        """{query id: the `top` chosen documents}, for ``write_run``; a query's `rest` comes last."""
        run: Run = {}
        for query in queries:
            if query.qid in run:
                raise DataError(f"two queries have the id {query.qid!r}: a run needs a different id for each")
            docids = [*(str(docid) for docid in query.docids[self.rerank(query, top)]), *query.rest][:top]
            run[query.qid] = RankedList(docids, np.arange(len(docids), 0, -1, dtype=np.float64))
        return run

    def score(self, queries: Iterable[DiverseQuery], measure: str = "alpha-ndcg@20") -> float:
        """Return the mean of a diversity measure (see ``order_values``). Pass queries that `fit` has not seen."""
        wanted = parse_diversity_measure(measure)
        given = list_of("queries", queries, "DiverseQuery")
        values = [order_values(query, self.rerank(query, wanted.cutoff or query.n), [wanted])[0] for query in given]
        if not values:
            raise DataError("there are no queries to score: pass at least one")
        return float(np.mean(values))

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        raise NotImplementedError

    def _by_relevance(self, query: DiverseQuery) -> np.ndarray:
        query.need("relevance", to=type(self).__name__)
        return np.argsort(-query.relevance, kind="stable")

    def _checked(self, queries: Iterable[DiverseQuery], *also: str) -> list[DiverseQuery]:
        """Return the queries as a list, checked to be of one shape and to have the parts that are needed."""
        given = list_of("queries", queries, "DiverseQuery")
        if not given:
            raise DataError("there are no queries to learn from: pass at least one")
        check_queries(given)
        for query in given:
            query.need(*self._needs, *also, to=type(self).__name__)
        return given

    def _to_learn_from(self, queries: Iterable[DiverseQuery], *also: str) -> list[DiverseQuery]:
        """Return the candidates used for training, of queries with at least two of them and one relevant."""
        given = self._checked(queries, "judgments", *also)
        if self.candidates is not None:
            given = [query.subset(self._by_relevance(query)[: self.candidates]) for query in given]
        kept = [query for query in given if query.n > 1 and (query.judgments > 0).any()]
        if not kept:
            raise DataError(
                f"none of the {len(given)} queries has a relevant candidate and another one: check the judgments"
            )
        return kept

    def _check_positive(self, *names: str) -> None:
        """Raise a ValueError unless these parameters are positive numbers, or limits that are None."""
        for name in names:
            value = getattr(self, name)
            if value is not None or name not in LIMITS:
                positive(name, value)
            if name in COUNTS and not isinstance(value, int | np.integer | None):
                raise ValueError(f"{name} must be a whole number, not {value!r}")


def aggregate_kinds(name: str) -> np.ndarray:
    """Return the codes of the aggregates with this name."""
    return np.array(AGGREGATES[one_of("aggregate", name, *AGGREGATES)], np.int64)


def select(
    s: np.ndarray, w: np.ndarray, row: Callable[[int], np.ndarray] | None, kinds: np.ndarray, top: int,
    learned: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:  # fmt: skip
    """Greedily choose `top` items i with the largest s_i + w · h_S(i), h_S aggregating the distances from i to S.

    row(i): the distances from item i, (relations, n); None if w is empty. learned(S): what else adds to the scores.
    O(top · n · relations), computing `top` - 1 rows; both are 0 for the empty set, so the first item is the one with
    the best s.
    """
    n = len(s)
    H, taken, workspace = np.zeros((len(w), n)), np.zeros(n, np.bool_), np.empty(n)
    order, distances, scores = np.empty(min(top, n), np.int64), np.empty((0, n)), s
    for t in range(len(order)):
        if t and row is not None:
            distances = row(int(order[t - 1]))
        if t and learned is not None:
            scores = s + learned(order[:t])
        order[t] = next_pick(scores, H, w, taken, workspace, distances, t, kinds)
        taken[order[t]] = True
    return order


@dataclass(eq=False, repr=False)
class MMR(DiverseRanker):
    """``next = argmax_d  λ·rel(d) - (1-λ)·max_{d'∈S} sim(d, d'),   sim = 1 - distance``.

    Maximal marginal relevance (Carbonell & Goldstein 1998). Queries need ``relevance`` and ``relations``. The first
    pick is the most relevant candidate; ties keep their order.

    Parameters
    ----------
    lam : float, default 0.5
        λ in [0, 1]; 1 keeps the order by relevance, 0 uses only the distances.
    relation : str or int, optional
        The relation that gives the distance, by name or number; None takes the mean of all relations.

    Examples
    --------
    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), relations=np.array([[0, 0.1, 1], [0.1, 0, 1], [1, 1, 0]]),
    ...                      relevance=[1.0, 0.9, 0.5])
    >>> MMR(lam=0.5).rerank(query).tolist(), MMR(lam=1.0).rerank(query).tolist()
    ([0, 2, 1], [0, 1, 2])
    """

    _needs = ("relevance", "relations")

    lam: float = 0.5
    relation: str | int | None = None

    def rerank(  # type: ignore[override]
        self, query: Any, embeddings: Any = None, top: int = 20, *, relation: ArrayLike | None = None
    ) -> np.ndarray:
        """Return row numbers of the chosen candidates, best first, from a query or directly from arrays.

        Parameters
        ----------
        query : a DiverseQuery, or the candidates' scores; after a query, `top` may be the second argument
        embeddings : with scores, a vector for each candidate; distances are 1 - cosine
        top : int, default 20
            Number of candidates to choose (all, if there are fewer).
        relation : with scores, an (n, n) matrix of distances instead of embeddings

        Examples
        --------
        >>> MMR().rerank([1.0, 0.9, 0.5], np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), top=2).tolist()
        [0, 2]
        """
        if isinstance(query, DiverseQuery):
            return super().rerank(query, top if embeddings is None else embeddings)
        if (embeddings is None) == (relation is None):
            raise DataError(
                f"expected a DiverseQuery, got {type(query).__name__}; with scores give either embeddings (a row per "
                "candidate) or relation= (n x n distances)"
            )
        scores = unit_scores(query)
        parts = [cosine_relation(embeddings)] if relation is None else np.asarray(relation, np.float64)
        found = Relations(parts)
        if found.n != len(scores):
            raise DataError(f"{len(scores)} scores but distances for {found.n} candidates: give one of each")
        return super().rerank(DiverseQuery(np.zeros((len(scores), 0)), relations=found, relevance=scores), top)

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        lam, relations, part = fraction("lam", self.lam), query.relations, slice(None)
        if self.relation is not None:
            names = list(relations.names)
            column = names.index(self.relation) if self.relation in names else self.relation
            if not isinstance(column, int | np.integer) or not 0 <= column < len(names):
                raise ValueError(f"there is no relation {self.relation!r}; the query has {', '.join(names)}")
            part = slice(column, column + 1)

        def distance(i: int) -> np.ndarray:
            rows = relations.row(i)[part]
            return rows if len(rows) == 1 else rows.mean(axis=0, keepdims=True)

        # max similarity = 1 - least distance, and the constant 1-λ changes no comparison
        return select(lam * query.relevance, np.array([1 - lam]), distance, np.array([LEAST]), top)


@dataclass(eq=False, repr=False)
class XQuAD(DiverseRanker):
    """``next = argmax_d  (1-λ)·P(d|q) + λ Σ_a P(a|q)·P(d|a)·Π_{d'∈S} (1 - P(d'|a))``.

    Explicit query aspect diversification (Santos, Macdonald & Ounis 2010). Queries need ``relevance`` and ``aspects``.

    Parameters
    ----------
    lam : float, default 0.5
        λ in [0, 1]; 0 keeps the order by relevance.

    Examples
    --------
    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), relevance=[0.9, 0.8, 0.1], aspects=[[1, 0], [1, 0], [0, 1]])
    >>> XQuAD(lam=0.8).rerank(query).tolist()
    [0, 2, 1]
    """

    _needs = ("relevance", "aspects")

    lam: float = 0.5

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        lam = fraction("lam", self.lam)
        return xquad_order(query.relevance, query.aspects, query.aspect_weights, lam, top)


@dataclass(eq=False, repr=False)
class PM2(DiverseRanker):
    """``next = argmax_d  λ·q_b·P(d|b) + (1-λ) Σ_{a≠b} q_a·P(d|a),   q_a = w_a / (2s_a + 1),  b = argmax_a q_a``.

    Diversity by proportionality (Dang & Croft 2012): aspects get seats as parties do in elections by the Sainte-Laguë
    method. Each pick adds P(d|a) / Σ_a P(d|a) to s_a. Queries need ``aspects`` (w_a is ``aspect_weights``);
    ``relevance``, if given, breaks ties.

    Parameters
    ----------
    lam : float, default 0.5
        λ in [0, 1], the weight of the aspect whose turn it is against the others.

    Examples
    --------
    >>> from hingerank.diversity.queries import DiverseQuery
    >>> query = DiverseQuery(np.zeros((3, 0)), aspects=[[0.9, 0], [0.8, 0], [0, 0.7]], aspect_weights=[0.6, 0.4])
    >>> PM2(lam=0.5).rerank(query).tolist()
    [0, 2, 1]
    """

    _needs = ("aspects",)

    lam: float = 0.5

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        relevance = np.zeros(query.n) if query.relevance is None else query.relevance
        return pm2_order(relevance, query.aspects, query.aspect_weights, fraction("lam", self.lam), top)
