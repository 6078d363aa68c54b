"""Compiled kernels: plain serial functions over arrays and a range of queries or rows.

:mod:`.compiled` says how they compile. :mod:`.threads` runs a kernel over fixed shards, so that a result never depends
on the number of threads.
"""
