"""Threshold weak rankers: features stored as small bin numbers, potentials summed bin by bin."""

from hingerank.kernels.compiled import kernel


@kernel
def add_potentials(codes, potential, first, last, sums):
    """sums[k, codes[r, k]] += potential[r] for rows first:last and all features k. O(rows · features)."""
    for r in range(first, last):
        p = potential[r]
        if p != 0.0:
            for k in range(codes.shape[1]):
                sums[k, codes[r, k]] += p


@kernel
def count_below(values, thresholds, k, codes):
    """codes[r, k] = the number of ascending thresholds below values[r]. O(rows · log thresholds)."""
    for r in range(len(values)):
        low, high = 0, len(thresholds)
        while low < high:
            middle = (low + high) // 2
            if thresholds[middle] < values[r]:
                low = middle + 1
            else:
                high = middle
        codes[r, k] = low
