"""Run serial, GIL-free kernels over shards of the work on a shared pool of threads.

Shards are cut by the size of the data, never by the number of threads, and partial results are combined in shard
order: the answer is the same bit for bit on one core or on many.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

NAME = "hingerank"
_pool: tuple[int, int, ThreadPoolExecutor] | None = None


def thread_count() -> int:
    """Threads to use: $HINGERANK_NUM_THREADS if set, else the cores this process may run on."""
    asked = os.environ.get("HINGERANK_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_shards(function: Callable[..., Any], shards: Sequence[Any], threads: int | None = None) -> list[Any]:
    """[function(shard) for shard in shards], on the pool when there is more than one shard and one thread.

    threads: default `thread_count()`.
    """
    threads = thread_count() if threads is None else threads
    inside = threading.current_thread().name.startswith(NAME)  # a shard that shards again waits for nobody
    if threads == 1 or len(shards) <= 1 or inside:
        return list(map(function, shards))
    return list(_executor(threads).map(function, shards))


def cut_shards(offsets: np.ndarray, work_per_shard: int, most: int = 64) -> list[tuple[int, int]]:
    """Ranges (first, last) of blocks holding about `work_per_shard` rows each, at most `most` of them."""
    n_blocks, total = len(offsets) - 1, int(offsets[-1])
    count = max(1, min(most, total // max(1, work_per_shard), n_blocks))
    borders = np.searchsorted(offsets, np.linspace(0, total, count + 1)[1:-1])
    edges = np.unique(np.concatenate(([0], borders, [n_blocks])))
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def _executor(threads: int) -> ThreadPoolExecutor:
    """One pool per process (a forked child must not reuse its parent's threads)."""
    global _pool
    if _pool is None or _pool[0] != os.getpid() or _pool[1] != threads:
        _pool = (os.getpid(), threads, ThreadPoolExecutor(threads, thread_name_prefix=NAME))
    return _pool[2]
