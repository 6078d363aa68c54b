"""What every diversifying reranker shares: checks, runs, scores and the model file."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hingerank.data.errors import DataError
from hingerank.diversity.measures import parse_diversity_measure
from hingerank.diversity.queries import DiverseQuery, check_queries
from hingerank.diversity.trec import RankedList, Run
from hingerank.rankers.base import SavedModel


class DiverseRanker(SavedModel, BaseEstimator):
    """`fit(queries)`, `rerank(query, top)`; a reranker defines `_order(query, top)` and lists the parts it `_needs`."""

    _needs: tuple[str, ...] = ()

    def fit(self, queries: Iterable[DiverseQuery], y: Any = None) -> Any:
        """Nothing to learn here: checks the queries and returns the reranker; learned methods override this."""
        self._checked(queries)
        return self

    def rerank(self, query: DiverseQuery, top: int = 20) -> np.ndarray:
        """Row numbers of the `top` chosen candidates (all, if there are fewer), best first.

        `query.docids[order]` are their names.
        """
        check_is_fitted(self)
        if top < 1:
            raise ValueError(f"top is {top}, expected at least 1")
        if not isinstance(query, DiverseQuery):
            raise DataError(f"expected a DiverseQuery, got {type(query).__name__}")
        query.need(*self._needs, to=type(self).__name__)
        return self._order(query, int(min(top, query.n)))

    def rerank_run(self, queries: Iterable[DiverseQuery], top: int = 20) -> Run:
        """{query id: the `top` chosen documents}, as `write_run` takes it."""
        run: Run = {}
        for query in queries:
            if query.qid in run:
                raise DataError(f"two queries have the id {query.qid!r}: give each its own to write a run")
            docids = [str(docid) for docid in query.docids[self.rerank(query, top)]]
            run[query.qid] = RankedList(docids, np.arange(len(docids), 0, -1, dtype=np.float64))
        return run

    def score(self, queries: Iterable[DiverseQuery], measure: str = "alpha-ndcg@20") -> float:
        """Mean of a diversity measure, the ideal taken among each query's candidates."""
        wanted = parse_diversity_measure(measure)
        values = []
        for query in queries:
            query.need("judgments", to="score")
            values.append(wanted(query.judgments, self.rerank(query, wanted.cutoff or query.n)))
        if not values:
            raise DataError("no queries to score")
        return float(np.mean(values))

    def _order(self, query: DiverseQuery, top: int) -> np.ndarray:
        raise NotImplementedError

    def _checked(self, queries: Any, *also: str) -> list[DiverseQuery]:
        """The queries as a list, all of one shape, with the parts that are needed."""
        listed = list(queries)
        if not listed:
            raise DataError("no queries to learn from")
        check_queries(listed)
        for query in listed:
            query.need(*self._needs, *also, to=type(self).__name__)
        return listed

    def _check_positive(self, *names: str) -> None:
        """A ValueError unless these parameters are numbers above 0; None is allowed where it is the default."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}, expected a number above 0")

    def __sklearn_is_fitted__(self) -> bool:
        return all(hasattr(self, name) for name in self._fitted)


def check_share(name: str, value: float) -> float:
    """A ValueError unless 0 ≤ value ≤ 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}, expected a number in [0, 1]")
    return float(value)
