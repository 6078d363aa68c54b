"""Problems over data in parts. Loss, gradient and Hessian are sums over queries, and therefore sums over parts.

For a solver it is an ordinary problem. Every evaluation asks all parts once and adds their results in part order. The
bits of a fit therefore depend neither on where the parts are nor on the number of workers.
"""

import hashlib
import pickle
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import numpy as np

from hingerank.data.ranking_data import RankingData
from hingerank.distributed.parts import (
    Answers,
    AskedParts,
    LoadedPart,
    Question,
    RowWeights,
    joined_weights,
    queries_of,
)
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import QueryPreferences
from hingerank.problem.least_squares import Sums
from hingerank.problem.problem import Design, LossPoint, Pass, add_up

SAMPLE_BYTES = 1 << 28  # largest sample of queries that is fetched and solved in the solver's process
STRIDES = (1, 4, 16, 32, 64, 128, 256, 512, 2048)  # strides of the samples that solvers use

_numbers = count()


class MakeProblem(Protocol):
    """Makes a problem from the rows of a part. It is pickled and sent to the part.

    `weights` are those of the rows of all parts, or None.
    """

    @property
    def weights(self) -> RowWeights | None: ...

    def __call__(self, data: RankingData, weight: np.ndarray | None) -> tuple[Design, QueryPreferences]: ...


class PartsDesign(Design):
    """The rows of data in parts. `make` makes a design from each part."""

    def __init__(self, data: AskedParts, make: MakeProblem, width: int):
        self.data, self.make, self.shape = data, make, (data.n_rows, width)
        self.numbers = data.n_rows * width

    def scores(self, w: np.ndarray) -> np.ndarray:
        raise ValueError("scores of data in parts are not collected in one place: use sweep")

    def back(self, z: np.ndarray) -> np.ndarray:
        raise ValueError("rows of data in parts are not collected in one place: use sweep")

    def sweep(self, loss: Loss, preferences: Any) -> Pass:
        """The sum over parts. Each part makes its preferences with `make`."""
        return PartsPass(self.data, self.make, self.shape[1], preferences, loss)


class PartsQueries:
    """What problems need from preferences, as sums over parts. `width` is the number of the problem's weights."""

    pairs_differ, item_weight, query_weight = False, None, None

    def __init__(self, data: AskedParts, make: MakeProblem, token: str):
        self.data, self.make, self.token = data, make, token
        self.n_items, self.n_queries = data.n_rows, data.n_queries
        found = data.ask(_pairs, token, make)
        self.width, self.n_pairs = found[0][2], sum(pairs for pairs, _, _ in found)
        self._weights = {k: float(sum(weight[k] for _, weight, _ in found)) for k in STRIDES}

    @property
    def total_weight(self) -> float:
        return self.weight_of(1)

    def weight_of(self, stride: int) -> float:
        """The sum of the weights of the pairs of every stride-th query of every part."""
        if stride not in self._weights:
            self._weights[stride] = float(sum(self.data.ask(_weight, self.token, self.make, stride)))
        return self._weights[stride]


class PartsPass(Pass):
    """The sum of the parts' passes. `latest` are the weights evaluated last, from which a fit can be resumed."""

    def __init__(
        self, data: AskedParts, make: MakeProblem, width: int, queries: "PartsQueries", loss: Loss, stride: int = 1
    ):
        self.data, self.make, self.width, self.stride, self.queries = data, make, width, stride, queries
        self.loss, self.key = loss, hashlib.blake2b(pickle.dumps(loss), digest_size=16).hexdigest()
        swept = isinstance(loss, WindowLoss)  # evaluated query by query, so that a part can leave some out
        self.graded: Any = queries if swept or self._bytes(4) <= SAMPLE_BYTES else None
        self.latest: np.ndarray | None = None

    def _bytes(self, stride: int) -> int:
        """The number of bytes of a sample of the rows."""
        return self.data.n_rows * self.data.n_features * self.data.dtype.itemsize // stride

    def at(self, w: np.ndarray) -> LossPoint:
        found = self._ask(_at, w)
        moments = [part[2] for part in found]
        self.latest = w
        return LossPoint(
            float(sum(part[0] for part in found)),
            add_up([part[1].copy() for part in found]),
            lambda v: add_up([part.copy() for part in self._ask(_curvature, w, v)]),
            None if any(m is None for m in moments) else add_up([m.copy() for m in moments]),
        )

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        return add_up([part.copy() for part in self._ask(_hessian, w, stride)])

    def every(self, stride: int) -> Pass:
        """The loss of every stride-th query of every part. A small sample is fetched, a large one is not."""
        if self._bytes(stride) > SAMPLE_BYTES:
            return PartsPass(self.data, self.make, self.width, self.queries, self.loss, stride)
        found = self.data.ask(queries_of, stride, self.make.weights)
        rows = RankingData.concatenate([part for part, _ in found], join_queries=True)
        design, preferences = self.make(rows, joined_weights([weight for _, weight in found]))
        return design.sweep(self.loss, preferences)

    def _ask(self, question: Question, *arguments: object) -> Answers:
        token, about = self.queries.token, (self.key, self.loss, self.stride)
        found = self.data.ask(question, token, None, about, *arguments)
        if any(isinstance(part, Unknown) for part in found):  # a worker has restarted
            found = self.data.ask(question, token, self.make, about, *arguments)
        return found


class Unknown:
    """The result of a part that has not received the problem yet, or has lost it."""


def new_token() -> str:
    """A unique name for a problem."""
    return f"{uuid4().hex}-{next(_numbers)}"


About = tuple[str, Loss, int]  # the key of a loss, the loss, and the stride of the queries


class _Kept:
    """A part's design and preferences, the pass of the loss used last, and the point evaluated last."""

    def __init__(self, design: Design, preferences: QueryPreferences):
        self.design, self.preferences = design, preferences
        self.key, self.passes = "", dict[int, Pass]()
        self.point: tuple[int, np.ndarray, LossPoint] | None = None

    def passed(self, about: About) -> Pass:
        key, loss, stride = about
        if key != self.key:
            before = self.passes.get(1)
            whole = None if before is None else before.with_loss(loss)
            whole = self.design.sweep(loss, self.preferences) if whole is None else whole
            self.key, self.passes, self.point = key, {1: whole}, None
        if stride not in self.passes:
            self.passes[stride] = self.passes[1].every(stride)
        return self.passes[stride]

    def at(self, w: np.ndarray, about: About) -> LossPoint:
        passed, stride = self.passed(about), about[2]
        if self.point is None or self.point[0] != stride or not np.array_equal(self.point[1], w):
            self.point = stride, w, passed.at(w)
        return self.point[2]


def _kept(part: LoadedPart, token: str, make: MakeProblem | None) -> _Kept | None:
    """The part's design and preferences; None if the part does not have the problem and `make` is None."""
    if make is None:
        return part.made.get(token)
    return _made(part, token, make)


def _made(part: LoadedPart, token: str, make: MakeProblem) -> _Kept:
    """The part's design and preferences, which are made now if necessary."""
    weights = make.weights
    kept: _Kept = part.keep(token, lambda: _Kept(*make(part.data, None if weights is None else weights.of(part))))
    return kept


def _pairs(part: LoadedPart, token: str, make: MakeProblem) -> tuple[int, dict[int, float], int]:
    kept = _made(part, token, make)
    weight = kept.preferences.weight_per_query
    weights = {stride: float(weight[::stride].sum()) for stride in STRIDES}
    return kept.preferences.n_pairs, weights, kept.design.shape[1]


def sums_of(part: LoadedPart, token: str, make: MakeProblem) -> Sums:
    """The sums over the part's rows that regression needs."""
    kept = _made(part, token, make)
    return Sums.of(kept.design, kept.preferences)


def _weight(part: LoadedPart, token: str, make: MakeProblem, stride: int) -> float:
    kept = _made(part, token, make)
    return kept.preferences.weight_of(stride)


def _at(part: LoadedPart, token: str, make: MakeProblem | None, about: About, w: np.ndarray) -> object:
    kept = _kept(part, token, make)
    if kept is None:
        return Unknown()
    here = kept.at(w, about)
    return here.value, here.gradient, here.moments


def _curvature(
    part: LoadedPart, token: str, make: MakeProblem | None, about: About, w: np.ndarray, v: np.ndarray
) -> np.ndarray | Unknown:
    kept = _kept(part, token, make)
    return Unknown() if kept is None else kept.at(w, about).curvature(v)


def _hessian(
    part: LoadedPart, token: str, make: MakeProblem | None, about: About, w: np.ndarray, often: int
) -> np.ndarray | Unknown:
    kept = _kept(part, token, make)
    if kept is None:
        return Unknown()
    passed = kept.passed(about)
    if kept.point is not None and np.array_equal(kept.point[1], w):
        w = kept.point[1]  # this array object, by which the pass recognises its last point
    return passed.hessian(w, often)
