"""`PartedData`: data in parts, for rankers, `tune` and users."""

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
from scipy.sparse import csr_matrix

from hingerank.arrays import Facts, Matrix, Ranker
from hingerank.data.blocks import fingerprint
from hingerank.data.describe import BlockFigures, merge_figures
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, figures_of
from hingerank.data.scaling import Figures
from hingerank.distributed.parts import (
    Answers,
    Lease,
    LoadedPart,
    Part,
    PartFacts,
    Question,
    RowWeights,
    Runner,
    facts_of,
    joined_weights,
    stacked,
)
from hingerank.distributed.problem import PartsSource
from hingerank.preferences import QueryPreferences
from hingerank.rankers.sources import RowsInParts


class PartedData(RowsInParts):
    """Ranking data in parts of whole queries. Rankers learn from it as from `RankingData`.

    Parameters
    ----------
    parts : sequence of Part; all sums are in their order
    runner : calls functions of the parts
    facts : facts about the parts, if they are known
    leases : keep parts loaded that these data share with others, or that they are folds of
    """

    def __init__(
        self,
        parts: Sequence[Part],
        runner: Runner,
        facts: Sequence[PartFacts] | None = None,
        leases: Sequence[Lease] = (),
    ):
        self.parts, self.runner = list(parts), runner
        if not self.parts:
            raise DataError("there are no parts to learn from: name at least one file or folder")
        self.leases = list(leases) or [Lease(runner, self.parts)]
        self.facts: list[PartFacts] = self.ask(facts_of) if facts is None else list(facts)
        self.parts = [replace(part, content=known.content) for part, known in zip(self.parts, self.facts)]
        wide, names = {f.n_features for f in self.facts}, {f.names for f in self.facts}
        if len(wide) > 1:
            raise DataError(
                f"the parts differ in their number of features: {', '.join(map(str, sorted(wide)))}; pass n_features= "
                "if the last features are absent from some text files"
            )
        if len(names) > 1 or len({f.sparse for f in self.facts}) > 1:
            raise DataError(
                "the parts differ in their feature names, or some are sparse and some dense: make them the same in all"
            )
        self.n_features, self.feature_names = wide.pop(), names.pop()
        self.n_rows = sum(f.n_rows for f in self.facts)
        self.n_queries = sum(len(f.ids) for f in self.facts)
        self.sparse, self.dtype = self.facts[0].sparse, np.dtype(self.facts[0].dtype)
        self.weights: RowWeights | None = None

    def weighted(self, values: np.ndarray) -> "PartedData":
        """The same rows with weights, one per row, part after part."""
        other = PartedData(self.parts, self.runner, self.facts, self.leases)
        starts = np.concatenate(([0], np.cumsum([facts.n_rows for facts in self.facts]))).tolist()
        other.weights = RowWeights(values, {part.key: first for part, first in zip(self.parts, starts)})
        return other

    def graded(self, values: np.ndarray) -> "PartedData":
        """The same rows with other grades, one per row, part after part."""
        borders = np.cumsum([facts.n_rows for facts in self.facts])[:-1]
        given = zip(self.parts, np.split(values, borders))
        parts = [replace(part, owner=uuid4().hex, grades=(part, own)) for part, own in given]
        return PartedData(parts, self.runner, self.facts, [Lease(self.runner, parts), *self.leases])

    def without_features(self) -> RankingData:
        """The query and document ids of all rows, part after part. Features and grades are 0."""
        found = self.ask(ids_of)
        if any(docid is None for _, docid in found):
            raise DataError("the rows of a part have no document ids, which are needed to find the log's documents")
        qid, docid = (np.concatenate(column) for column in zip(*found))
        X = csr_matrix((self.n_rows, self.n_features))
        return RankingData(X, np.zeros(self.n_rows), qid, docid, self.feature_names)

    def ask(self, question: Question, *arguments: object) -> Answers:
        """Call question(loaded part, *arguments) for every part. The results are in part order."""
        return self.runner.run(question, self.parts, arguments)

    def close(self) -> None:
        """Release the memory of the parts. They are read again when they are next used."""
        self.runner.forget(self.parts)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.parts)} parts, {self.n_queries} queries, {self.n_rows} rows, "
            f"{self.n_features} features, {self.dtype})"
        )

    @cached_property
    def _looked(self) -> tuple[Any, Facts]:
        """Statistics of the columns and the fingerprint, in one pass that also finds values that are not finite."""
        found = self.ask(look_at, self.weights)
        digest = hashlib.sha256(b"".join(digest for _, digest in found))
        sizes = {"rows": self.n_rows, "features": self.n_features}
        fingerprint = sizes | {"sha256_of_sample": digest.hexdigest(), "queries": self.n_queries}
        return merge_figures([figures for figures, _ in found]), fingerprint

    def figures(self) -> Figures:
        """The columns' statistics, as in `column_figures`. A value that is not finite is a DataError."""
        return self._looked[0]

    def fingerprint(self) -> Facts:
        """The sizes of the data and a hash of evenly spaced rows of every part, to be stored in a model."""
        return dict(self._looked[1])

    def sample(self, most: int) -> Matrix:
        """About `most` evenly spaced rows."""
        return self.weighted_sample(most)[0]

    def weighted_sample(self, most: int) -> tuple[Matrix, np.ndarray | None]:
        """About `most` evenly spaced rows, without those of weight 0, and their weights."""
        found = self.ask(rows_of, max(1, -(-self.n_rows // most)), self.weights)
        return stacked([X for X, _ in found]), joined_weights([weight for _, weight in found])

    def source(self, ranker: Ranker, prefer: Callable[..., QueryPreferences] | None = None) -> PartsSource:
        return PartsSource(self, ranker, prefer)

    def predict(self, ranker: Ranker) -> np.ndarray:
        return np.concatenate(self.ask(scores_of, lightened(ranker)))

    def evaluate(self, rankers: list[Ranker], measures: list[str]) -> list[dict[str, np.ndarray]]:
        found = self.ask(measures_of, [lightened(ranker) for ranker in rankers], measures)
        return [{m: np.concatenate([part[k][m] for part in found]) for m in measures} for k in range(len(rankers))]

    def joined(self, other: "PartedData") -> "PartedData":
        parts, facts = [*self.parts, *other.parts], [*self.facts, *other.facts]
        return PartedData(parts, self.runner, facts, [*self.leases, *other.leases])

    def fold(self, k: int, folds: int, chosen: bool) -> "PartedData":
        """The queries whose number in their part is k modulo `folds` (chosen=True), or all others."""
        counts = [len(range(k, len(facts.ids), folds)) for facts in self.facts]
        counts = counts if chosen else [len(facts.ids) - count for facts, count in zip(self.facts, counts)]
        some = [replace(part, fold=(k, folds, chosen)) for part, count in zip(self.parts, counts) if count]
        return PartedData(some, self.runner, leases=[Lease(self.runner, some), *self.leases])


# Questions: functions of a loaded part.


def ids_of(part: LoadedPart) -> tuple[np.ndarray, np.ndarray | None]:
    """The query id and the document id of each row."""
    return part.data.qid, part.data.docid


def look_at(part: LoadedPart, weights: RowWeights | None = None) -> tuple[BlockFigures, bytes]:
    """Statistics of a part's columns, without rows of weight 0, and a hash of evenly spaced rows.

    A value that is not finite is a DataError that names the part.
    """
    view = part.data.X if isinstance(part.data.X, RowsView) else RowsView(part.data.X)
    weight = None if weights is None else weights.of(part)
    if weight is not None:
        kept = np.flatnonzero(weight)
        view, weight = view.take(kept), weight[kept]
    try:
        return figures_of(view, weight, part.data.feature_names), digest_of(part)
    except DataError as error:
        raise DataError(f"{part.part.path}: {error}") from None


def digest_of(part: LoadedPart) -> bytes:
    """A hash of evenly spaced rows of a part."""
    data = part.data
    if data.blocks.order is None:
        return bytes.fromhex(fingerprint(data.X, data.y, data.blocks)["sha256_of_sample"])
    rows = data.blocks.order[: min(256, data.n_rows)]
    return hashlib.sha256(np.ascontiguousarray(data.y[rows]).tobytes()).digest()


def rows_of(part: LoadedPart, stride: int, weights: RowWeights | None = None) -> tuple[Matrix, np.ndarray | None]:
    """Every stride-th row of a part, except those of weight 0, and their weights."""
    rows = np.arange(0, part.data.n_rows, stride)
    if weights is None:
        return part.data.X[rows], None
    weight = weights.of(part)
    rows = rows[weight[rows] > 0]
    return part.data.X[rows], weight[rows]


def scores_of(part: LoadedPart, ranker: Ranker) -> np.ndarray:
    """A fitted ranker's scores of a part's rows."""
    return np.asarray(ranker.predict(part.data), np.float64)


def measures_of(part: LoadedPart, rankers: list[Ranker], measures: list[str]) -> list[dict[str, np.ndarray]]:
    """The measures of every query in a part, for each of the rankers."""
    from hingerank.metrics import evaluate  # a fit needs no measures

    data = part.data
    return [evaluate(data, ranker.predict(data), measures=measures, per_query=True) for ranker in rankers]


def lightened(ranker: Ranker) -> Ranker:
    """A copy of a fitted ranker without the attributes that only fitting needs."""
    light = copy(ranker)
    vars(light).update(dict.fromkeys(ranker._training_only))
    vars(light).pop("trace_", None)
    return light
