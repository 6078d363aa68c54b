"""Inner products of long vectors, always summed the same way: a BLAS may split them over threads."""

from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def dot(a, b):
    """sum of a_i b_i in float64. O(n)."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
