"""Run serial, GIL-free kernels over shards of the work on a shared pool of threads.

Shards are cut by the size of the data, never by the number of threads, and partial results are combined in shard
order: the answer is the same bit for bit on one core or on many.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

NAME = "hingerank"
VARIABLE = "HINGERANK_NUM_THREADS"
SMALL = 1 << 20  # below this many numbers one thread is faster than several that wait for each other
_pool: tuple[int, int, ThreadPoolExecutor] | None = None


def thread_count() -> int:
    """Number of threads to use: $HINGERANK_NUM_THREADS if set, else the smallest of all other limits.

    These are the cores available to this process, a container's quota of them, $OMP_NUM_THREADS, and
    ``threadpoolctl.threadpool_limits``.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked:
        if not (asked.isascii() and asked.isdecimal() and int(asked) > 0):
            raise ValueError(f"{VARIABLE} is {asked!r}: set it to a whole number of threads such as 1, or unset it")
        return int(asked)
    limits = [*_openmp_limits(), _cores()]
    if hasattr(os, "sched_getaffinity"):
        limits.append(len(os.sched_getaffinity(0)))
    return max(1, min(limits))


def asked_threads(n_jobs: int | None) -> int:
    """Number of threads for a parameter ``n_jobs``: that many, None or -1 for `thread_count()`, -2 for one less."""
    if n_jobs is None:
        return thread_count()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number of threads, -1 for all, or None, not {n_jobs!r}")
    asked = int(n_jobs)
    return asked if asked > 0 else max(1, thread_count() + 1 + asked)


def threads_for(work: int, n_jobs: int | None = None) -> int:
    """Number of threads for a library that processes ``work`` numbers: as requested, else one if that is little."""
    return 1 if n_jobs is None and work < SMALL else asked_threads(n_jobs)


def _openmp_limits() -> Iterator[int]:
    """$OMP_NUM_THREADS, and the limits of OpenMP libraries in this process."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isascii() and first.isdecimal():
        yield int(first)
    found = [library.get_num_threads() for library in _openmp_libraries()]
    if found:  # a limit set for all of them rather than one library's own
        yield max(found)


@functools.cache
def _openmp_libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp").lib_controllers


# `with serial_blas() if length > LONG else AS_BEFORE`: a BLAS sums longer vectors on several threads, and the order of
# its sums depends on their number
LONG, AS_BEFORE = 10_000, nullcontext()


def serial_blas() -> AbstractContextManager[object]:
    """Run each matrix product inside on one thread: where shards use all cores, and so that it gives the same bits."""
    return _blas_libraries().limit(limits=1)


@functools.cache  # finding them takes milliseconds
def _blas_libraries() -> Any:
    import scipy.linalg  # noqa: F401 - brings a BLAS of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@functools.cache
def _cores() -> int:
    """The machine's cores or a container's quota of them, whichever is smaller."""
    import joblib

    return joblib.cpu_count()


def import_sleeping(name: str) -> Any:
    """Import a library whose OpenMP threads should sleep while they wait, unless $OMP_WAIT_POLICY is set.

    By default they spin, and on a busy machine a spinning thread takes the core from the one it waits for. OpenMP reads
    the variable when it is loaded.
    """
    if name in sys.modules or "OMP_WAIT_POLICY" in os.environ:
        return import_module(name)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        return import_module(name)
    finally:
        del os.environ["OMP_WAIT_POLICY"]


def run_shards(function: Callable[..., Any], shards: Sequence[Any], threads: int | None = None) -> list[Any]:
    """[function(shard) for shard in shards], on the thread pool if there are several shards and several threads.

    threads: default `thread_count()`.
    """
    inside = threading.current_thread().name.startswith(NAME)  # nested shards run here: waiting could deadlock the pool
    threads = 1 if len(shards) <= 1 or inside else thread_count() if threads is None else threads
    if threads == 1:
        return list(map(function, shards))
    return list(_executor(threads).map(function, shards))


def add_up(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of the parts, always in shard order, in the memory of the first."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def cut_shards(offsets: np.ndarray, work_per_shard: int, most: int = 64) -> list[tuple[int, int]]:
    """Ranges (first, last) of blocks holding about `work_per_shard` rows each, at most `most` of them."""
    n_blocks, total = len(offsets) - 1, int(offsets[-1])
    count = max(1, min(most, total // max(1, work_per_shard), n_blocks))
    borders = np.searchsorted(offsets, np.linspace(0, total, count + 1)[1:-1])
    edges = np.unique(np.concatenate(([0], borders, [n_blocks])))
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def _executor(threads: int) -> ThreadPoolExecutor:
    """The one pool of this process (a forked child must not reuse its parent's threads)."""
    global _pool
    if _pool is None or _pool[0] != os.getpid() or _pool[1] != threads:
        _pool = (os.getpid(), threads, ThreadPoolExecutor(threads, thread_name_prefix=NAME))
    return _pool[2]
