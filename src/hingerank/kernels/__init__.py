"""Compiled kernels: plain ``@njit(cache=True, nogil=True)`` functions over arrays, serial over the range given.

Threads live in :mod:`hingerank.kernels.threads`, which runs a kernel over fixed shards; a result never depends on how
many threads ran them.
"""
