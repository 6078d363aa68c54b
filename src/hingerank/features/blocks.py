"""Work on rows in blocks small enough to stay in cache, on all cores, with the same answer on any number of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from hingerank.kernels.threads import cut_shards, run_shards

BLOCK_BYTES = 1 << 21
SMALL_BYTES = 1 << 25


def storage_type(rows: int, columns: int, given: Any) -> type:
    """float64 for double-precision input while that takes at most 32 MiB, where it costs nothing; float32 above."""
    return np.float64 if given == np.float64 and 8 * rows * columns <= SMALL_BYTES else np.float32


def over_rows(rows: int, width: int, work: Callable[[int, int], Any], itemsize: int = 4) -> None:
    """work(a, b) for ranges that cover the rows; a range times `width` numbers fits a cache."""
    height = max(1, BLOCK_BYTES // (itemsize * max(1, width)))

    def shard(borders: tuple[int, int]) -> None:
        first, last = borders
        for a in range(first, last, height):
            work(a, min(a + height, last))

    with serial_blas():
        run_shards(shard, cut_shards(np.arange(rows + 1), height))


@contextmanager
def serial_blas() -> Iterator[None]:
    """Matrix products on one thread each, because the shards already use all cores; restored afterwards."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
