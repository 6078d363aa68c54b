"""Views of the rows of a matrix that may be larger than memory: some of them, in another order, or scaled.

Data larger than memory are memory-mapped. If a fit needs them in another order, or a fold of them, or scaled columns,
it uses a view. A view computes one block of whole queries at a time and does not keep it.
"""

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from hingerank.arrays import ArrayLike, Matrix
from hingerank.data.blocks import check_finite
from hingerank.data.describe import Figures, block_figures, merge_figures
from hingerank.data.files import DataError
from hingerank.data.memory import machine_memory
from hingerank.data.scaling import Scaler
from hingerank.kernels.threads import cut_shards, run_shards, thread_count

BLOCK_BYTES = 1 << 21  # size of a block of rows, which stays in cache while it is used
BYTES_A_ROW, FIXED_BYTES = 64, 200_000_000  # memory that most fits on mapped rows use in addition to the file
SAMPLE_BYTES, OF_SAMPLES = 1 << 27, 30_000_000  # most that a sample of queries is copied to; what FIXED_BYTES include
MOST_COPIED = 1 << 26  # mapped rows of at most this size are copied, which is faster and within that memory


class RowsView:
    """``scaler(X[rows])``, computed one block at a time.

    Parameters
    ----------
    X : array or CSR matrix, usually memory-mapped
    rows : numbers of the rows of the view, in this order; None for all
    scaler : a fitted Scaler, or None
    offsets : borders of the queries in the view, for scalers that work within queries
    """

    ndim = 2

    def __init__(
        self, X: Matrix, rows: np.ndarray | None = None, scaler: Scaler | None = None, offsets: np.ndarray | None = None
    ):
        self.X, self.rows, self.scaler = X, rows, scaler
        self.offsets = offsets if scaler is not None and scaler.per_query else None
        self.shape = (X.shape[0] if rows is None else len(rows), X.shape[1])
        self.dtype = X.dtype
        self.height = max(1, BLOCK_BYTES // max(1, matrix_bytes(X) // max(1, X.shape[0])))  # number of rows of a block
        self.sparse: bool = X.sparse if isinstance(X, StackedRows) else sp.issparse(X)

    @property
    def whole(self) -> Matrix:
        """The matrix X itself, if the view has all of its rows in their order; else None."""
        return None if self.rows is not None or isinstance(self.X, StackedRows) else self.X

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: slice | np.ndarray) -> Matrix:
        """The scaled rows of a slice or of a list of row numbers. This is meant for samples."""
        wanted = np.arange(len(self))[key]
        with scattered(self.X):
            if self.offsets is None:
                return self._scaled(self.raw(wanted), None)
            queries, at = np.unique(np.searchsorted(self.offsets, wanted, side="right") - 1, return_inverse=True)
            out: list[Matrix] = [None] * len(wanted)
            for place, q in enumerate(queries.tolist()):
                first, last = int(self.offsets[q]), int(self.offsets[q + 1])
                block = self.block(first, last)
                for k in np.flatnonzero(at == place).tolist():
                    out[k] = block[wanted[k] - first : wanted[k] - first + 1]
        if not out:
            return self.raw(wanted)
        return sp.vstack(out, format="csr") if self.sparse else np.concatenate(out)

    def block(self, a: int, b: int) -> Matrix:
        """Rows a:b, scaled. If the scaler works within queries, these must be whole queries."""
        query = None
        if self.offsets is not None:
            first, last = np.searchsorted(self.offsets, [a, b])
            query = np.repeat(np.arange(last - first), np.diff(self.offsets[first : last + 1]))
        return self._scaled(self.raw(slice(a, b)), query)

    def raw(self, wanted: slice | np.ndarray) -> Matrix:
        """Some rows of the view, not scaled."""
        return self.X[wanted if self.rows is None else self.rows[wanted]]

    def _scaled(self, rows: Matrix, query: np.ndarray | None) -> Matrix:
        return rows if self.scaler is None else self.scaler.scale_rows(rows, query)

    def shards(self) -> list[list[tuple[int, int]]]:
        """At most 64 lists of blocks that cover all rows. Blocks are whole queries if the scaler needs that."""
        return cut_blocks(len(self), self.height, self.offsets)

    @property
    def nbytes(self) -> int:
        """The number of bytes that a copy of the rows would have."""
        return matrix_bytes(self.X) * len(self) // max(1, self.X.shape[0])

    def take(self, rows: np.ndarray) -> "RowsView":
        """A view of some rows of this view."""
        if self.scaler is not None:
            raise ValueError("take rows before scaling them: this view has a scaler")
        return RowsView(self.X, rows if self.rows is None else self.rows[rows])

    def scaled(self, scaler: Scaler, offsets: np.ndarray | None) -> "RowsView":
        """A view of the same rows, scaled."""
        return RowsView(self.X, self.rows, scaler, offsets)

    def matrix(self, why: str) -> Matrix:
        """The rows as an ordinary matrix. It is not a copy if the view is the matrix itself. why: as in `copied`."""
        return self.copied(why) if self.whole is None or self.scaler is not None else self.whole

    def copied(self, why: str) -> Matrix:
        """A copy of all rows. If it does not fit in memory, the error names `why`, which is what needs it."""
        size, there = self.nbytes, machine_memory()
        if there is not None and size > 0.8 * there:
            raise DataError(
                f"{why} needs all rows in memory at once, {size / 1e9:.1f} GB, and this machine has "
                f"{there / 1e9:.1f} GB; use RankSVM or another ranker that learns from mapped files (docs/scale.md)"
            )
        blocks = [self.block(a, b) for shard in self.shards() for a, b in shard]
        return sp.vstack(blocks, format="csr") if self.sparse else np.concatenate(blocks)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        rows = self.copied("an ordinary array")
        return np.asarray(rows.toarray() if self.sparse else rows, dtype)


class StackedRows:
    """Several matrices or views, one after the other, as the matrix of a RowsView. They are never copied as a whole."""

    ndim = 2

    def __init__(self, members: Sequence[Matrix]):
        self.members = list(members)
        self.starts = np.concatenate(([0], np.cumsum([member.shape[0] for member in self.members])))
        self.shape = (int(self.starts[-1]), self.members[0].shape[1])
        self.dtype = np.result_type(*(member.dtype for member in self.members))
        self.sparse: bool = any(m.sparse if isinstance(m, RowsView) else sp.issparse(m) for m in self.members)

    @property
    def nbytes(self) -> int:
        return sum(m.nbytes if isinstance(m, RowsView) else matrix_bytes(m) for m in self.members)

    def __getitem__(self, key: slice | ArrayLike) -> Matrix:
        if isinstance(key, slice):
            a, b, _ = key.indices(self.shape[0])
            borders = zip(self.members, pairwise(self.starts.tolist()))
            inside = [(m, max(a - i, 0), min(b, j) - i) for m, (i, j) in borders if a < j and b > i]
            return self._stacked([m.block(i, j) if isinstance(m, RowsView) else m[i:j] for m, i, j in inside])
        key = np.asarray(key)
        of, order = np.searchsorted(self.starts, key, side="right") - 1, np.argsort(key, kind="stable")
        numbers = [key[order][of[order] == k] - self.starts[k] for k in range(len(self.members))]
        found = [member[some] for member, some in zip(self.members, numbers) if len(some)]
        return self._stacked(found)[np.argsort(order, kind="stable")]

    def _stacked(self, pieces: list[Matrix]) -> Matrix:
        pieces = pieces or [self.members[0][:0]]
        if self.sparse:
            return sp.vstack([sp.csr_matrix(piece) for piece in pieces], format="csr", dtype=self.dtype)
        one = pieces[0].astype(self.dtype, copy=False)
        return one if len(pieces) == 1 else np.concatenate(pieces, dtype=self.dtype)


def cut_blocks(n_rows: int, height: int, offsets: np.ndarray | None = None) -> list[list[tuple[int, int]]]:
    """Ranges of about `height` rows that cover n_rows, in at most 64 lists. Their borders are `offsets`, if given."""
    count = max(1, -(-n_rows // height))
    edges = np.linspace(0, n_rows, count + 1).astype(np.int64)
    if offsets is not None:
        edges = np.unique(np.asarray(offsets)[np.searchsorted(offsets, edges)])
    blocks = [(int(a), int(b)) for a, b in pairwise(edges)]
    return [blocks[a:b] for a, b in cut_shards(np.arange(len(blocks) + 1), 1)] if blocks else []


def is_mapped(X: Matrix) -> bool:
    """Whether X is a view, or a memory-mapped matrix larger than MOST_COPIED. It is then not copied as a whole.

    >>> is_mapped(np.zeros((2, 2)))
    False
    """
    if isinstance(X, RowsView):
        return True
    array = X
    if sp.issparse(X):
        array = X.data if X.format == "csr" else None  # other formats are converted to CSR, in memory
    return isinstance(array, np.ndarray) and _map_below(array) is not None and matrix_bytes(X) > MOST_COPIED


def _map_below(array: object) -> mmap.mmap | None:
    while isinstance(array, np.ndarray | memoryview):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array if isinstance(array, mmap.mmap) else None


def matrix_bytes(X: Matrix) -> int:
    """The number of bytes in which a matrix is stored."""
    X = X.X if isinstance(X, RowsView) else X
    if sp.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


def read_ahead(X: Matrix, much: bool = True) -> None:
    """Tell the operating system that a mapped X is read sequentially, or (much=False) at random positions."""
    X = X.X if isinstance(X, RowsView) else X
    if not hasattr(mmap, "MADV_SEQUENTIAL"):  # not on this platform
        return
    if isinstance(X, StackedRows):
        for member in X.members:
            read_ahead(member, much)
        return
    for array in [X.data, X.indices] if sp.issparse(X) else [X]:
        below = _map_below(array)
        if below is not None and len(below) > BLOCK_BYTES:
            below.madvise(mmap.MADV_SEQUENTIAL if much else mmap.MADV_RANDOM)


@contextmanager
def scattered(X: Matrix) -> Iterator[None]:
    """Use this around random access to rows. The system would otherwise read megabytes around each of them."""
    read_ahead(X, much=False)
    try:
        yield
    finally:
        read_ahead(X)


def expected_bytes(n_rows: int, n_features: int, longest: int, bytes_a_row: int = BYTES_A_ROW) -> int:
    """The most memory that a fit on mapped rows uses in addition to them, estimated before it starts.

    64 bytes per row are for grades, their order and the windows of pairwise losses, or for the curvature of list
    losses. 200 MB are for the program, blocks of rows, and 30 MB of a sample of the queries. With more than 136 columns
    a sample may have up to 134 MB. If the longest query is larger than a block, every thread has a copy of it.
    """
    sample = max(0, min(SAMPLE_BYTES, 2 * n_rows * n_features, 1600 * n_features**2) - OF_SAMPLES)
    over = max(0, 8 * longest * n_features - 2 * BLOCK_BYTES) * 2 * thread_count()
    return bytes_a_row * n_rows + FIXED_BYTES + sample + over


def check_memory(X: Matrix, longest: int, bytes_a_row: int = BYTES_A_ROW) -> int:
    """`expected_bytes` for a mapped X. It is a DataError if this machine has less memory."""
    needed, there = expected_bytes(X.shape[0], X.shape[1], longest, bytes_a_row), machine_memory()
    if there is not None and needed > there:
        raise DataError(
            f"a fit on {X.shape[0]:,} rows with up to {longest:,} rows per query needs about {needed / 1e9:.2f} GB in "
            f"addition to the file, and this machine has {there / 1e9:.2f} GB: use fewer rows, or spread them over "
            "several machines (hingerank.distributed)"
        )
    return needed


# Statistics of the columns of a view. The same pass finds values that are not finite.


def look_through(view: RowsView, weight: np.ndarray | None, names: Sequence[str] | None = None) -> Figures:
    """The columns' statistics. A value that is not finite is a DataError that names its feature and block of rows."""
    blocks = [block for shard in view.shards() for block in shard]

    def look(block: tuple[int, int]) -> Figures:
        a, b = block
        return block_figures(view.block(a, b), None if weight is None else weight[a:b])

    found = run_shards(look, blocks)
    for (a, b), part in zip(blocks, found):
        if part.missing or not (np.isfinite(part.low).all() and np.isfinite(part.high).all()):
            try:
                check_finite(view.block(a, b), False, names)
            except DataError as error:
                raise DataError(f"in the block of rows {a}:{b} {error}") from None
    nothing = np.zeros(view.shape[1])  # every row may have weight 0
    return merge_figures(found or [Figures(nothing + np.inf, nothing - np.inf, nothing, nothing, nothing, 0, 0)])
