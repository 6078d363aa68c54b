"""`PartedData`: data in parts, for rankers, `tune` and users; and problems over them.

Loss, gradient and Hessian are sums over queries, and therefore sums over parts. For a solver it is an ordinary problem.
Every evaluation asks all parts once and adds their results in part order. The bits of a fit therefore depend neither on
where the parts are nor on the number of workers.
"""

import hashlib
import pickle
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
from scipy.sparse import csr_matrix

from hingerank.arrays import Facts, Matrix, Ranker
from hingerank.data.blocks import evenly
from hingerank.data.describe import Figures, merge_figures
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.scaling import SAMPLED_ROWS
from hingerank.distributed.parts import (
    Answers,
    Lease,
    OnParts,
    Part,
    PartFacts,
    Question,
    RowWeights,
    Runner,
    facts_of,
    joined_weights,
    stacked,
)
from hingerank.distributed.questions import (
    PartProblem,
    SampledRows,
    ids_of,
    look_at,
    measures_of,
    queries_of,
    rows_of,
    scores_of,
    see_part,
    top_grade,
)
from hingerank.kernels.threads import add_up
from hingerank.losses import Loss, WindowLoss
from hingerank.metrics.measure import Measure, parse_measure
from hingerank.preferences import QueryPreferences
from hingerank.problem.least_squares import Sums
from hingerank.problem.problem import Design, Pass, Point
from hingerank.rankers.shapes import ShapeSample
from hingerank.rankers.sources import PARTS, ROWS_FOR_A_MAP, RowsInParts, SeenRows, Source

SAMPLE_BYTES = 1 << 28  # largest sample of queries that is fetched and solved in the solver's process


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
        if {f.index_base for f in self.facts} >= {0, 1}:
            raise DataError(
                "some parts count features from 0 and some from 1, so column 0 is not the same feature: pass "
                "index_base="
            )
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
        self.weights = RowWeights()

    def weighted(self, values: np.ndarray) -> "PartedData":
        """The same rows with weights, one per row, part after part, without parts whose weights are all 0."""
        own = np.split(values, np.cumsum([facts.n_rows for facts in self.facts])[:-1])
        kept = [k for k, weight in enumerate(own) if weight.any()]
        other = PartedData([self.parts[k] for k in kept], self.runner, [self.facts[k] for k in kept], self.leases)
        starts = np.concatenate(([0], np.cumsum([facts.n_rows for facts in other.facts]))).tolist()
        weights = np.concatenate([own[k] for k in kept])
        other.weights = RowWeights(weights, {part.key: first for part, first in zip(other.parts, starts)})
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

    def source(self, ranker: Ranker, prefer: Callable[..., QueryPreferences] | None = None) -> "PartsSource":
        return PartsSource(self, ranker, prefer)

    def predict(self, ranker: Ranker) -> np.ndarray:
        return np.concatenate(self.ask(scores_of, lightened(ranker)))

    def on_scale(self, measure: str | Measure) -> Measure:
        wanted = parse_measure(measure)
        return wanted if wanted.on_scale(0.0) == wanted else wanted.on_scale(max(self.ask(top_grade)))

    def evaluate(self, rankers: list[Ranker], measures: Sequence[str | Measure]) -> list[dict[str, np.ndarray]]:
        wanted = [self.on_scale(measure) for measure in measures]
        found = self.ask(measures_of, [lightened(ranker) for ranker in rankers], wanted)
        return [
            {str(m): np.concatenate([part[k][str(scaled)] for part in found]) for m, scaled in zip(measures, wanted)}
            for k in range(len(rankers))
        ]

    def joined(self, other: "PartedData") -> "PartedData":
        parts, facts = [*self.parts, *other.parts], [*self.facts, *other.facts]
        return PartedData(parts, self.runner, facts, [*self.leases, *other.leases])

    def fold(self, k: int, folds: int, chosen: bool) -> "PartedData":
        """The queries whose number in their part is k modulo `folds` (chosen=True), or all others."""
        counts = [len(range(k, len(facts.ids), folds)) for facts in self.facts]
        counts = counts if chosen else [len(facts.ids) - count for facts, count in zip(self.facts, counts)]
        some = [replace(part, fold=(k, folds, chosen)) for part, count in zip(self.parts, counts) if count]
        return PartedData(some, self.runner, leases=[Lease(self.runner, some), *self.leases])


def lightened(ranker: Ranker) -> Ranker:
    """A copy of a fitted ranker without the attributes that only fitting needs."""
    light = copy(ranker)
    vars(light).update(dict.fromkeys(ranker._training_only))
    vars(light).pop("trace_", None)
    return light


def unfitted(ranker: Ranker) -> Ranker:
    """A new ranker with the same parameters, except those that only the solver's process needs."""
    return type(ranker)(**ranker.get_params(deep=False) | dict.fromkeys(ranker._training_only))


class PartsSource(Source):
    """The rows of data in parts, scaled by a ranker's scaler. The parts make their own preferences."""

    kind = PARTS

    def __init__(self, data: PartedData, ranker: Ranker, prefer: Callable[..., QueryPreferences] | None = None):
        self.data, self.scaler, self.prefer = data, ranker.scaler_, prefer or unfitted(ranker)._preferences
        self.n_features, self.sparse = data.n_features, data.sparse

    def pose(self, make):
        posed = PosedParts(self.data, PartProblem(make, self.scaler, self.prefer, self.data.weights))
        return posed, posed

    def sample(self):
        if self.scaler is not None and self.scaler.per_query:
            raise ValueError(
                f"scale={self.scaler.name!r} works within queries, but a feature map is fitted on rows of many "
                "parts: scale by columns (standard, deviation, ...)"
            )
        rows, weight = self.data.weighted_sample(ROWS_FOR_A_MAP)
        return rows if self.scaler is None else self.scaler.transform(rows), weight

    def see(self):
        """The same sample that a fit on one machine would use: every n-th row, and the rows of every n-th query."""
        data = self.data
        kept = [facts.n_rows for facts in data.facts]
        if data.weights.values is not None:
            borders = np.concatenate(([0], np.cumsum(kept)))
            kept = [int((data.weights.values[a:b] > 0).sum()) for a, b in pairwise(borders)]
        n = sum(kept)
        rows, queries = (np.concatenate(([0], np.cumsum(k))) for k in (kept, [len(facts.ids) for facts in data.facts]))
        starts = {part.key: (int(row), int(query)) for part, row, query in zip(data.parts, rows, queries)}
        wanted = np.arange(n) if n <= SAMPLED_ROWS else np.asarray(evenly(n, SAMPLED_ROWS))
        stride = -(-n // SAMPLED_ROWS)
        found: list[SampledRows] = data.ask(see_part, self.scaler, data.weights, starts, wanted, stride)
        spread = merge_figures([part.figures for part in found]).spread
        weight, query_weight, query = (
            np.concatenate(column) for column in zip(*((part.weight, part.query_weight, part.query) for part in found))
        )
        sampled = ShapeSample(np.empty(0, int), stacked([part.queries for part in found]), query_weight, query)
        return SeenRows(stacked([part.X for part in found]), weight, np.where(spread > 0, spread, 1.0), sampled)

    def sums(self, design, preferences):
        return Sums.added(preferences.call("sums"))


class PosedParts(Design):
    """The design and the preferences of data in parts. Each part has its own of both, and `call` asks all of them."""

    pairs_differ, item_weight, query_weight = False, None, None

    def __init__(self, data: PartedData, make: PartProblem):
        self.data, self.make, self.call = data, make, OnParts(data.runner, data.parts, make).call
        self.n_items, self.n_queries = data.n_rows, data.n_queries
        found = self.call("sizes")
        self.n_pairs, self.weights = sum(pairs for pairs, _, _ in found), [weight for _, weight, _ in found]
        self.shape = (self.n_items, found[0][2])
        self.numbers = self.n_items * found[0][2]

    @property
    def total_weight(self) -> float:
        return self.weight_of(1)

    def weight_of(self, stride: int) -> float:
        """The sum of the weights of the pairs of every stride-th query of every part."""
        return sum(float(weight[::stride].sum()) for weight in self.weights)

    def scores(self, w: np.ndarray) -> np.ndarray:
        raise ValueError("scores of data in parts are not collected in one place: use sweep")

    def back(self, z: np.ndarray) -> np.ndarray:
        raise ValueError("rows of data in parts are not collected in one place: use sweep")

    def sweep(self, loss: Loss, preferences: object) -> Pass:
        """The sum over parts."""
        return PartsPass(self, loss)


class PartsPass(Pass):
    """The sum of the parts' passes. `latest` are the weights evaluated last, from which a fit can be resumed."""

    def __init__(self, posed: PosedParts, loss: Loss, stride: int = 1):
        self.posed, self.loss = posed, loss
        self.about = hashlib.blake2b(pickle.dumps(loss), digest_size=16).hexdigest(), loss, stride
        self.explicit = isinstance(loss, WindowLoss)
        self.graded = posed
        if not self.explicit:  # a part could leave out queries only by a copy of the others
            self.most_sampled = SAMPLE_BYTES // self._bytes_a_row
        self.latest: np.ndarray | None = None

    @property
    def _bytes_a_row(self) -> int:
        return self.posed.data.n_features * self.posed.data.dtype.itemsize

    def at(self, w: np.ndarray) -> Point:
        found = self.posed.call("at", self.about, w)
        moments = [part[2] for part in found]
        self.latest = w
        return Point(
            w,
            float(sum(part[0] for part in found)),
            add_up([part[1].copy() for part in found]),
            lambda v: add_up([part.copy() for part in self.posed.call("curvature", self.about, w, v)]),
            None if any(m is None for m in moments) else add_up([m.copy() for m in moments]),
        )

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        return add_up([part.copy() for part in self.posed.call("hessian", self.about, w, stride)])

    def every(self, stride: int) -> Pass:
        """The loss of every stride-th query of every part. A small sample is fetched, a large one is not."""
        if self.posed.n_items * self._bytes_a_row > stride * SAMPLE_BYTES:
            return PartsPass(self.posed, self.loss, stride)
        make, data = self.posed.make, self.posed.data
        found = data.ask(queries_of, stride, data.weights)
        rows = RankingData.concatenate([part for part, _ in found], join_queries=True)
        design, preferences = make.pose(rows, joined_weights([weight for _, weight in found]))
        return design.sweep(self.loss, preferences)
