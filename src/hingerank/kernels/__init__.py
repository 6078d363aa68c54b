"""Compiled kernels: plain functions over arrays, serial over the range given; :mod:`.compiled` says how they compile.

Threads live in :mod:`hingerank.kernels.threads`, which runs a kernel over fixed shards; a result never depends on how
many threads ran them.
"""
