"""`rank` as both a constructor parameter (the rank of a factorisation) and the method that orders rows.

Low-rank rankers take ``rank=5`` and, like every ranker, answer ``ranker.rank(X)``. The stored number is therefore an
int that can also be called: calling it calls the ranker's `_order`. It compares, prints and pickles as a plain int.
"""

from numbers import Integral
from typing import Any

import numpy as np

from hingerank.arrays import Ranker


class CallableRank(int):
    """An int that, read from a ranker, can be called to order rows."""

    owner: Ranker = None

    def __call__(self, *args: object, **keywords: object) -> np.ndarray:
        return self.owner._order(*args, **keywords)

    def __reduce__(self) -> tuple:
        return (CallableRank, (int(self),))

    def __deepcopy__(self, memo: dict) -> "CallableRank":
        return CallableRank(self)


class RankParameter:
    """The descriptor: stores what the constructor was given, binds it to its ranker when it is read; of a class it is
    the default."""

    def __init__(self, default: int) -> None:
        self.default = default

    def __get__(self, ranker: Ranker, owner: type | None = None) -> Any:
        if ranker is None:
            return self.default
        value = ranker.__dict__["rank"]
        if isinstance(value, CallableRank):
            value.owner = ranker
        return value

    def __set__(self, ranker: Ranker, value: object) -> None:
        fresh = isinstance(value, CallableRank) and value.owner in (None, ranker)  # of another ranker it ranks by that
        if isinstance(value, Integral) and not isinstance(value, bool) and not fresh:
            value = CallableRank(value)
        ranker.__dict__["rank"] = value
