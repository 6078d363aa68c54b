"""Grouping of rows: numbering ids and ordering rows by number."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def order_by_code(codes, offsets):
    """Rows sorted stably by code, where code c fills offsets[c]:offsets[c+1]; counting sort, O(n)."""
    order = np.empty(len(codes), np.int64)
    free = offsets.copy()
    for i in range(len(codes)):
        order[free[codes[i]]] = i
        free[codes[i]] += 1
    return order


@njit(cache=True, nogil=True)
def number_by_appearance(ids, low, code):
    """Codes 0, 1, ... of numbers from low on by first appearance, and the first places; O(n + len(code)).

    code: an array of -1, one for each number from low to the highest; codes have its type.
    """
    codes = np.empty(len(ids), code.dtype)
    first = np.empty(min(len(code), len(ids)), np.int64)
    count = 0
    for i in range(len(ids)):
        v = ids[i] - low
        if code[v] < 0:
            code[v] = count
            first[count] = i
            count += 1
        codes[i] = code[v]
    return codes, first[:count]
