"""Writing ranking data as LETOR/SVMlight text, from which `read` restores the same values bit for bit."""

import re
from itertools import pairwise
from tempfile import gettempdir

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.blocks import check_grades
from hingerank.data.files import DataError, PathLike, replace_file, scratch_folder
from hingerank.data.ranking_data import RankingData
from hingerank.data.sparse import plain_csr
from hingerank.kernels.decimals import LONGEST_NUMBER, format_rows
from hingerank.kernels.threads import run_shards, thread_count

BLOCK_BYTES = 1 << 22
ENTRY_BYTES = LONGEST_NUMBER + 12  # the number, a blank, an index and a colon
_LIKE_LETOR = re.compile(r"[^ \t]+[ \t]+inc[ \t]*=")  # the reader drops everything after X in 'docid = X inc ='
_ASSIGNED = re.compile(r"docid[ \t]*=")


def write_text(data: RankingData, path: PathLike, *, index_base: int = 1) -> None:
    """Write lines ``label qid:id index:value … #docid = X``. `read_text(path)` restores the same values bit for bit.

    Dense rows are written with all values, CSR rows with the stored ones. NaN is written as NULL; read it with
    missing="nan". Read float32 values with dtype="float32". If the last column of a CSR matrix is empty, one explicit 0
    keeps it. The file appears only when it is complete.

    Parameters
    ----------
    data : RankingData
    path : path
        If it ends in .gz, .xz, .bz2 or .zst, the file is compressed.
    index_base : {0, 1}
        The index of the first feature.

    Examples
    --------
    >>> from pathlib import Path
    >>> data = RankingData.from_arrays([[0.1, -2.5e-7], [3, 0]], y=[1, 0], qid=["a", "a"])
    >>> write_text(data, "small.txt")
    >>> print(Path("small.txt").read_text(), end="")
    1 qid:a 1:0.1 2:-0.00000025
    0 qid:a 1:3 2:0
    """
    if index_base not in (0, 1):
        raise ValueError(f"index_base is {index_base!r}, expected 0 or 1")
    rows = _Rows(data, index_base)
    blocks = rows.blocks()
    together = 4 * thread_count()
    with replace_file(path) as out:
        for i in range(0, len(blocks), together):
            for text in run_shards(rows.text, blocks[i : i + together]):
                out.write(text)


class _Rows:
    """The arrays of a data set, as the kernel needs them."""

    def __init__(self, data: RankingData, base: int) -> None:
        X, self.y = data.X, check_grades(data.y, data.n_rows)
        if data.n_features == 0:
            raise DataError("there are no features, which a text file cannot hold: write a binary folder")
        self.qid, self.docid, self.base = data.qid, data.docid, base
        self.narrow = X.dtype == np.float32
        self.n_rows, n_features = X.shape
        if isinstance(X, np.ndarray):
            self.values, self.width = np.ascontiguousarray(X).ravel(), n_features
            self.columns, self.offsets = np.empty(0, np.int32), np.empty(0, np.int64)
        else:
            X = _canonical(X, base)
            self.values, self.width = X.data, 0
            self.columns, self.offsets = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64)
        if self.values.dtype not in (np.float32, np.float64):
            self.values = self.values.astype(np.float64)
        if np.isinf(self.values).any():
            raise DataError("X has an infinite value, which a text file cannot hold; replace it by a finite number")

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows, each with some megabytes of text."""
        sizes = np.full(self.n_rows, self.width, np.int64) if self.width else np.diff(self.offsets)
        room = np.cumsum(sizes * ENTRY_BYTES + 4 * LONGEST_NUMBER)
        borders = np.flatnonzero(np.diff(room // BLOCK_BYTES, prepend=0))
        edges = np.unique(np.concatenate(([0], borders, [self.n_rows])))
        return [(int(a), int(b)) for a, b in pairwise(edges)]

    def text(self, block: tuple[int, int]) -> bytes:
        first, end = block
        qids, docids = self._qid_bytes(first, end), self._docid_bytes(first, end)
        entries = (end - first) * self.width if self.width else int(self.offsets[end] - self.offsets[first])
        room = entries * ENTRY_BYTES + (end - first) * (LONGEST_NUMBER + qids.shape[1] + docids.shape[1] + 1)
        out = np.empty(room, np.uint8)
        pieces, row = [], first
        while row < end:
            tail = slice(row - first, None)
            numbers = (self.y, self.values, self.columns, self.offsets, self.width, self.base, self.narrow)
            count, stopped = format_rows(row, end, *numbers, qids[tail], docids[tail], out)
            pieces.append(out[:count].tobytes())
            if stopped < end:
                pieces.append(self._line(stopped, qids[stopped - first], docids[stopped - first]))
                stopped += 1
            row = stopped
        return b"".join(pieces)

    def _line(self, row: int, qid: np.ndarray, docid: np.ndarray) -> bytes:
        """One line, written by plain Python. The kernel leaves numbers to it that it might not write exactly."""
        start, stop = (row * self.width, (row + 1) * self.width) if self.width else self.offsets[row : row + 2].tolist()
        columns = range(self.width) if self.width else self.columns[start:stop].tolist()
        values = ["NULL" if v != v else repr(v) for v in self.values[start:stop].tolist()]
        entries = "".join(f" {c + self.base}:{v}" for c, v in zip(columns, values))
        ids = [letters.tobytes().rstrip(b"\0") for letters in (qid, docid)]
        return repr(float(self.y[row])).encode() + ids[0] + entries.encode() + ids[1] + b"\n"

    def _qid_bytes(self, first: int, end: int) -> np.ndarray:
        words = _words(self.qid[first:end])
        bad = [w for w in np.unique(words).tolist() if not w or re.search(r"[\x00-\x20#]", w)]
        if bad:
            raise DataError(f"query id {bad[0]!r} cannot be written: expected text without blanks and '#'; change it")
        return _matrix(np.strings.add(" qid:", words))

    def _docid_bytes(self, first: int, end: int) -> np.ndarray:
        if self.docid is None:
            return np.zeros((end - first, 1), np.uint8)
        words = _words(self.docid[first:end])
        lost = (np.strings.strip(words, " \t\r") != words) | (np.strings.find(words, "\n") >= 0)
        tagged = np.strings.add(" #docid = ", words)
        for i in np.flatnonzero((np.strings.find(words, "inc") >= 0) | lost):
            word = str(words[i])
            if _LIKE_LETOR.match(word):
                tagged[i] = " # " + word
            if lost[i] or (_LIKE_LETOR.match(word) and _ASSIGNED.match(word)):
                raise DataError(f"document id {word!r} cannot be written: it would be read as another id; change it")
        return _matrix(np.where(words == "", "", tagged))


def _words(ids: np.ndarray) -> np.ndarray:
    """Ids as an array of str. Each float that is a whole number is written without '.0', whatever the others are."""
    if ids.dtype.kind == "f":
        return np.array([str(int(i)) if i.is_integer() and abs(i) < 2**63 else str(i) for i in ids], str)
    if ids.dtype.kind in "OST":
        ids = np.array([i.decode() if isinstance(i, bytes) else str(i) for i in ids.tolist()], str)
    return ids.astype(str)


def _matrix(words: np.ndarray) -> np.ndarray:
    """words[i] as UTF-8 bytes in row i, padded with zeros."""
    encoded = np.ascontiguousarray(np.strings.encode(words, "utf-8"))
    matrix = encoded.view(np.uint8).reshape(len(words), -1)
    if (np.count_nonzero(matrix, axis=1) != np.strings.str_len(encoded)).any():
        raise DataError("an id with a zero character (\\0) cannot be written; remove the character from the id")
    return matrix


def _canonical(X: Matrix, base: int) -> Matrix:
    """CSR without repeated columns. The last column, and column 0 if indices start at 0, has at least one entry."""
    X = plain_csr(X)
    needed = np.array([X.shape[1] - 1] if base == 1 else [0, X.shape[1] - 1])
    lacking = np.unique(needed[~np.isin(needed, X.indices)])
    if len(lacking):
        entries = X.tocoo()
        rows = np.concatenate((entries.row, np.zeros(len(lacking), entries.row.dtype)))
        columns = np.concatenate((entries.col, lacking.astype(entries.col.dtype)))
        X = sp.csr_matrix((np.concatenate((entries.data, np.zeros(len(lacking), X.dtype))), (rows, columns)), X.shape)
    return X


def warm_writer() -> None:
    """Compile every kernel that `write_text` uses."""
    with scratch_folder(gettempdir()) as folder:
        for dtype in ("float64", "float32"):
            X = np.array([[0.1, 1 / 3], [1e-30, 2]], dtype)
            write_text(RankingData(X, np.zeros(2), np.zeros(2, np.int64)), folder / "rows.txt")
