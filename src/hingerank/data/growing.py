"""Arrays that grow by rows in place, for input whose size is only known at its end."""

import numpy as np

from hingerank.kernels.parse import spread_rows


class GrowingArray:
    """Rows of `width` values; room beyond the rows in use costs address space, not memory.

    `array` is replaced or moved by `reserve`, `widen` and `finish`: keep no view of it across them.
    """

    def __init__(self, dtype: np.dtype | type, width: int = 1) -> None:
        self.array = np.empty(0, dtype)
        self.width = width

    @property
    def room(self) -> int:
        return len(self.array) // self.width if self.width else np.iinfo(np.int64).max

    def reserve(self, rows: int, expected: int) -> None:
        """Make room for `rows`, and for `expected` rows if it has to grow at all."""
        if rows <= self.room:
            return
        size = max(rows, expected) * self.width
        if len(self.array) == 0:
            self.array = np.empty(size, self.array.dtype)
        else:
            self.array.resize(size, refcheck=False)

    def close_gaps(self, starts: list[int], counts: list[int]) -> None:
        """Move the runs of counts[i] rows at starts[i] down so that they follow each other."""
        at = starts[0]
        for start, count in zip(starts, counts):
            if at != start and count and self.width:
                w = self.width
                self.array[at * w : (at + count) * w] = self.array[start * w : (start + count) * w]
            at += count

    def widen(self, rows: int, width: int) -> None:
        """Give each of the first `rows` rows more columns, filled with 0."""
        old, self.width = self.width, width
        if rows == 0:
            self.array = np.empty(0, self.array.dtype)
            return
        self.array.resize(2 * rows * width, refcheck=False)
        if old:
            spread_rows(self.array, rows, old, width)

    def finish(self, *shape: int) -> np.ndarray:
        """The array cut to exactly `shape`; the last call."""
        array, self.array = self.array, np.empty(0, self.array.dtype)
        array.resize(shape, refcheck=False)
        return array
