"""A number for each row that depends on its values alone: not on its place, its storage or its precision."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _mix(x):
    """Steele, Lea & Flood's finaliser of splitmix64: every bit of x moves about half of the bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _entry(column, bits):
    return _mix(bits ^ _mix(np.uint64(column) + np.uint64(0x9E3779B97F4A7C15)))


@njit(cache=True, nogil=True)
def dense_keys(X, keys):
    """keys[r] = a hash of row r; zeros do not count. O(size of X)."""
    value = np.empty(1)
    bits = value.view(np.uint64)
    for r in range(X.shape[0]):
        key = np.uint64(0)
        for c in range(X.shape[1]):
            if X[r, c] != 0.0:
                value[0] = X[r, c]
                key += _entry(c, bits[0])
        keys[r] = key


@njit(cache=True, nogil=True)
def csr_keys(values, columns, starts, keys):
    """keys[r] = a hash of row r, the same as that of the dense row. O(entries)."""
    value = np.empty(1)
    bits = value.view(np.uint64)
    for r in range(len(keys)):
        key = np.uint64(0)
        for k in range(starts[r], starts[r + 1]):
            if values[k] != 0.0:
                value[0] = values[k]
                key += _entry(columns[k], bits[0])
        keys[r] = key
