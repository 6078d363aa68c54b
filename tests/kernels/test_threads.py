"""Shards: the same answer whatever runs them, and no deadlock when a shard shards again."""

import contextlib
import os

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hingerank.kernels import threads
from hingerank.kernels.threads import asked_threads, cut_shards, run_shards, serial_blas, thread_count, threads_for


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.delenv("HINGERANK_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_cores", lambda: 8)
    monkeypatch.setattr(threads, "_openmp_libraries", list)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


class Library:
    def __init__(self, number):
        self.get_num_threads = lambda: number


def test_every_limit_is_heeded_and_our_own_variable_wins(eight_cores, monkeypatch):
    assert thread_count() == 8
    for name, value in [
        ("_cores", lambda: 2),
        ("_openmp_libraries", lambda: [Library(2), Library(1)]),  # one of them has a limit of its own
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(threads, name, value)
            assert thread_count() == 2
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
        assert thread_count() == 2
    for text, count in [("3", 3), ("3,2", 3), ("", 8), ("²", 8), ("all", 8), ("100", 8), ("0", 1)]:
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert thread_count() == count
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "16")
    assert thread_count() == 16


def test_limits_of_threadpoolctl_are_heeded(monkeypatch):
    import sklearn.utils._openmp_helpers  # noqa: F401  loads an OpenMP, which has the limit

    monkeypatch.delenv("HINGERANK_NUM_THREADS", raising=False)
    threads._openmp_libraries.cache_clear()
    with threadpool_limits(1):
        assert thread_count() == 1
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "5")
    with threadpool_limits(1):
        assert thread_count() == 5


@pytest.mark.parametrize("text", ["²", "٣", "0", "-1", "1.5", "two", " "])
def test_a_number_of_threads_that_is_none_is_named(text, monkeypatch):
    monkeypatch.setenv("HINGERANK_NUM_THREADS", text)
    with pytest.raises(ValueError, match=r"HINGERANK_NUM_THREADS is .* whole number"):
        thread_count()


def test_small_work_takes_one_thread_unless_more_are_asked_for(eight_cores):
    few, many = threads.SMALL - 1, threads.SMALL
    assert [threads_for(few), threads_for(many)] == [1, 8]
    assert [threads_for(few, n) for n in (3, -1, -2, -20)] == [3, 8, 7, 1]
    assert [asked_threads(n) for n in (None, np.int64(2), -1)] == [8, 2, 8]
    for wrong in (0, True, 1.5, "2"):
        with pytest.raises(ValueError, match="n_jobs must be"):
            threads_for(few, wrong)


def test_shards_cover_every_block_once_and_ignore_threads(monkeypatch):
    offsets = np.concatenate(([0], np.cumsum(np.random.default_rng(0).integers(0, 50, 300))))
    cut = {}
    for count in ("1", "7"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", count)
        assert thread_count() == int(count)
        cut[count] = cut_shards(offsets, 500)
    assert cut["1"] == cut["7"]
    assert [a for a, _ in cut["1"]] == [0] + [b for _, b in cut["1"][:-1]] and cut["1"][-1][1] == 300


def test_a_shard_may_shard_again(monkeypatch):
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "2")
    answer = run_shards(lambda a: sum(run_shards(lambda b: a * b, range(5))), range(8))
    assert answer == [10 * a for a in range(8)]


def test_empty_and_tiny_work():
    assert cut_shards(np.array([0]), 100) in ([], [(0, 0)])
    assert run_shards(lambda s: s, []) == []
    assert cut_shards(np.array([0, 3]), 100) == [(0, 1)]


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_threads_of_blas_are_given_back():
    with threadpool_limits(2, "blas"):  # whatever the environment says
        before = blas_threads()
        with serial_blas():
            with contextlib.suppress(KeyError), serial_blas():
                raise KeyError
            assert blas_threads() == [1] * len(before)
        assert blas_threads() == before and 2 in before
