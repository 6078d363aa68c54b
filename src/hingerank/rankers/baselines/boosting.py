"""What the boosting rankers share: rounds, paths over their number, and the account of them."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from hingerank.data.blocks import QueryBlocks
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.inputs import positive_count
from hingerank.rankers.paths import take_over
from hingerank.solvers.solution import Certificate

SAME = 1e-10  # weak rankers that differ by less in quality are equally good


class BoostingRanker(BaseRanker):
    """score(x) = sum over rounds t of alpha_t · h_t(x),  h_t a weak ranker chosen in round t.

    A ranker defines `_rounds`, which yields one trace entry for each round (feature, alpha, value and what else
    describes h_t), and `_assemble`, which makes the model of some of them. A fit is no optimum but a number of rounds:
    its certificate says how many were made and what the training rows then measured.
    """

    _fitted: tuple[str, ...] = ("features_", "alphas_")
    path_parameter = "n_rounds"

    def _rounds(self, X: Any, y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None) -> Iterator[dict]:
        """Endless unless no weak ranker is of use any more."""
        raise NotImplementedError

    def _measured(self) -> str:
        """What the trace's `value` is."""
        raise NotImplementedError

    def _assemble(self, entries: list[dict]) -> None:
        """Take over the weak rankers of these rounds."""
        raise NotImplementedError

    def _fit(self, X, y, blocks, sample_weight):
        began = time.perf_counter()
        entries: list[dict] = []
        for entry in islice(self._rounds(X, y, blocks, sample_weight), positive_count("n_rounds", self.n_rounds)):
            entries.append({"iteration": len(entries) + 1, "seconds": time.perf_counter() - began, **entry})
        self._take(entries)

    def fit_path(
        self, X: Any, y: Any = None, qid: Any = None, n_rounds: Iterable[int] = (), sample_weight: Any = None, *,
        group: Any = None,
    ) -> list[Any]:  # fmt: skip
        """One fitted ranker for every number of rounds, in the order given, all from one run of boosting."""
        wanted = [positive_count("n_rounds", value) for value in n_rounds]
        if not wanted:
            raise ValueError("n_rounds is empty: give numbers of rounds, such as [10, 30, 100]")
        leader = clone(self).set_params(n_rounds=max(wanted)).fit(X, y, qid, sample_weight, group=group)
        path = [take_over(leader, clone(self).set_params(n_rounds=value)) for value in wanted]
        for ranker in path:
            ranker._take(leader.trace_[: ranker.n_rounds])
        return path

    def _take(self, entries: list[dict]) -> None:
        self.trace_ = entries
        self.features_ = np.array([entry["feature"] for entry in entries], np.int64)
        self.alphas_ = np.array([entry["alpha"] for entry in entries], np.float64)
        self.n_iter_ = max(1, len(entries))
        value, seconds = (entries[-1]["value"], entries[-1]["seconds"]) if entries else (0.0, 0.0)
        self.certificate_ = Certificate(self._measured(), float(value), 0.0, "converged", len(entries), seconds)
        self._assemble(entries)


def first_of_the_best(quality: np.ndarray) -> int:
    """The first (flat) place whose value is the largest up to rounding: the order of the rows must not decide."""
    return int(np.argmax(quality.ravel() >= quality.max(initial=-np.inf) - SAME))


def column(X: Any, k: int) -> np.ndarray:
    """Feature k of all rows (of a dense or CSC matrix)."""
    return np.ascontiguousarray(X[:, [k]].toarray()[:, 0] if sparse.issparse(X) else X[:, k])


def by_columns(X: Any) -> Any:
    """X in a form whose columns are quick to get."""
    return X.tocsc() if sparse.issparse(X) else X
