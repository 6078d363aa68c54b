"""Problems over data in parts: loss, gradient and Hessian are sums over queries, so over parts of whole queries too.

Solvers see an ordinary problem. Every evaluation asks all parts once and adds up their answers in part order: the bits
of a fit do not depend on where the parts are, nor on how many workers hold them.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import numpy as np

from hingerank.data.parts import Held, PartedData, queries_of
from hingerank.data.ranking_data import RankingData
from hingerank.losses import Loss
from hingerank.preferences import GradedPreferences
from hingerank.problem.problem import Design, LossPoint, Pass, add_up

SAMPLE_BYTES = 1 << 28  # of a sample of queries that is fetched, and solved where the solver is
STRIDES = (1, 4, 16, 32, 64, 128, 256, 512, 2048)  # of samples that problems ask for

_numbers = count()


class MakePass(Protocol):
    """How the rows of a part are swept; it is pickled and sent to where the part is."""

    def __call__(self, data: RankingData) -> tuple[Pass, GradedPreferences]: ...


class PartsDesign(Design):
    """The rows of data in parts, seen through what `make` makes of every part; `width`: weights of the problem."""

    def __init__(self, data: PartedData, make: MakePass, width: int):
        self.data, self.make, self.shape = data, make, (data.n_rows, width)
        self.numbers = data.n_rows * width

    def scores(self, w: np.ndarray) -> np.ndarray:
        raise ValueError("scores of all rows are not kept in one place where the rows are not: sweep them")

    def back(self, z: np.ndarray) -> np.ndarray:
        raise ValueError("the rows of parts are swept where they are")

    def sweep(self, loss: Loss, preferences: Any) -> Pass:
        """The sum over parts; loss and preferences are those that `make` gives every part."""
        return PartsPass(self.data, self.make, self.shape[1], preferences)


class PartsQueries:
    """What problems ask of preferences, as sums over parts."""

    pairs_differ, item_weight, query_weight = False, None, None

    def __init__(self, data: PartedData, make: MakePass, token: str):
        self.data, self.make, self.token = data, make, token
        self.n_items, self.n_queries = data.n_rows, data.n_queries
        found = data.ask(_pairs, token, make)
        self.n_pairs, self.swept = sum(part[0] for part in found), all(part[1] for part in found)
        self._weights = {k: float(sum(part[2][k] for part in found)) for k in STRIDES}

    @property
    def total_weight(self) -> float:
        return self.weight_of(1)

    def weight_of(self, stride: int) -> float:
        """Sum of the weights of the pairs of every stride-th query of every part."""
        if stride not in self._weights:
            self._weights[stride] = float(sum(self.data.ask(_weight, self.token, self.make, stride)))
        return self._weights[stride]


class PartsPass(Pass):
    """The sum of the parts' passes. `latest`: the weights last evaluated, from which a fit can be taken up again."""

    def __init__(self, data: PartedData, make: MakePass, width: int, queries: Any, stride: int = 1):
        self.data, self.make, self.width, self.stride, self.queries = data, make, width, stride, queries
        self.graded: Any = queries if queries.swept or self._bytes(4) <= SAMPLE_BYTES else None
        self.latest: np.ndarray | None = None

    def _bytes(self, stride: int) -> int:
        """Of a sample of the rows."""
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
        """The loss of every stride-th query of every part: fetched where that is little, else asked like the whole."""
        if self._bytes(stride) > SAMPLE_BYTES:
            return PartsPass(self.data, self.make, self.width, self.queries, stride)
        parts = self.data.ask(queries_of, stride)
        return self.make(RankingData.concatenate(parts, join_queries=True))[0]

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> list[Any]:
        token = self.queries.token
        found = self.data.ask(question, token, None, self.stride, *arguments)
        if any(isinstance(part, Unknown) for part in found):  # on first contact, and where a worker began anew
            found = self.data.ask(question, token, self.make, self.stride, *arguments)
        return found


class Unknown:
    """The answer of a part that does not know the problem yet, or has lost it."""


def new_token() -> str:
    """A name for a problem that no other has."""
    return f"{uuid4().hex}-{next(_numbers)}"


class _Kept:
    """A part's pass, its preferences, and its point last evaluated."""

    def __init__(self, passed: Pass, preferences: GradedPreferences):
        self.passed, self.preferences, self.strided = passed, preferences, {1: passed}
        self.point: tuple[int, np.ndarray, LossPoint] | None = None

    def at(self, w: np.ndarray, stride: int) -> LossPoint:
        if self.point is None or self.point[0] != stride or not np.array_equal(self.point[1], w):
            if stride not in self.strided:
                self.strided[stride] = self.passed.every(stride)
            self.point = stride, w, self.strided[stride].at(w)
        return self.point[2]


def _kept(part: Held, token: str, make: MakePass | None) -> _Kept | None:
    """What the part has made of the problem; None if it does not know it and was not told how."""
    if make is None:
        return part.made.get(token)
    kept: _Kept = part.keep(token, lambda: _Kept(*make(part.data)))
    return kept


def _pairs(part: Held, token: str, make: MakePass) -> tuple[int, bool, dict[int, float]]:
    kept: _Kept = part.keep(token, lambda: _Kept(*make(part.data)))
    weight = kept.preferences.weight_per_query
    sums = {stride: float(weight[::stride].sum()) for stride in STRIDES}
    return kept.preferences.n_pairs, kept.passed.graded is not None, sums


def _weight(part: Held, token: str, make: MakePass, stride: int) -> float:
    kept: _Kept = part.keep(token, lambda: _Kept(*make(part.data)))
    return kept.preferences.weight_of(stride)


def _at(part: Held, token: str, make: MakePass | None, stride: int, w: np.ndarray) -> Any:
    kept = _kept(part, token, make)
    if kept is None:
        return Unknown()
    here = kept.at(w, stride)
    return here.value, here.gradient, here.moments


def _curvature(part: Held, token: str, make: MakePass | None, stride: int, w: np.ndarray, v: np.ndarray) -> Any:
    kept = _kept(part, token, make)
    return Unknown() if kept is None else kept.at(w, stride).curvature(v)


def _hessian(part: Held, token: str, make: MakePass | None, stride: int, w: np.ndarray, often: int) -> Any:
    kept = _kept(part, token, make)
    if kept is None:
        return Unknown()
    if kept.point is not None and np.array_equal(kept.point[1], w):
        w = kept.point[1]  # the same array: the pass knows its last point by it
    return kept.passed.hessian(w, often)
