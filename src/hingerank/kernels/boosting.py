"""Threshold weak rankers: rows held as small numbers of bins, potentials added up bin by bin."""

from numba import njit


@njit(cache=True, nogil=True)
def add_potentials(codes, potential, first, last, sums):
    """sums[k, codes[r, k]] += potential[r] for rows first:last and all features k. O(rows · features)."""
    for r in range(first, last):
        p = potential[r]
        if p != 0.0:
            for k in range(codes.shape[1]):
                sums[k, codes[r, k]] += p
