"""Shards: the same answer whatever runs them, and no deadlock when a shard shards again."""

import numpy as np

from hingerank.kernels.threads import cut_shards, run_shards, thread_count


def test_shards_cover_every_block_once_and_ignore_threads(monkeypatch):
    offsets = np.concatenate(([0], np.cumsum(np.random.default_rng(0).integers(0, 50, 300))))
    cut = {}
    for threads in ("1", "7"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        assert thread_count() == int(threads)
        cut[threads] = cut_shards(offsets, 500)
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
