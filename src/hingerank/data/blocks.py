"""Query blocks: the one place that turns query ids or group counts into contiguous blocks of rows.

Users give ids in any order and of any type. Everything inside works on blocks: query q owns positions
``offsets[q]:offsets[q+1]`` of the *block order*, queries in order of first appearance, rows of a query in
their original order. When the rows already lie so, ``order`` is None and nothing is copied.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hingerank.data.errors import DataError


@dataclass(frozen=True)
class QueryBlocks:
    """ids: distinct query ids; offsets: Q+1 block borders; order: rows in block order, or None if already so."""

    ids: np.ndarray
    offsets: np.ndarray
    order: np.ndarray | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def gather(self, rows: Any) -> Any:
        """`rows` (an array or CSR matrix, one row per original row) in block order."""
        return rows if self.order is None else rows[self.order]

    def scatter(self, rows: np.ndarray) -> np.ndarray:
        """The inverse of `gather`: block order back to the original order."""
        if self.order is None:
            return rows
        back = np.empty_like(rows)
        back[self.order] = rows
        return back


def blocks_from_qid(qid: Any, n_rows: int) -> QueryBlocks:
    """Group rows by query id; `qid=None` makes one query of all rows."""
    if qid is None:
        return QueryBlocks(np.zeros(1, np.int64), np.array([0, n_rows], np.int64), None)
    ids = np.asarray(qid)
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.ndim != 1 or len(ids) != n_rows:
        raise DataError(f"qid has shape {ids.shape}, expected one id for each of the {n_rows} rows")
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise DataError(f"qid is NaN at row {int(np.flatnonzero(np.isnan(ids))[0])}: give every row a query id")
    if ids.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        codes = np.fromiter((numbers.setdefault(i, len(numbers)) for i in ids), np.int64, n_rows)
        return _blocks_from_codes(codes, _as_array(list(numbers)))
    starts = np.flatnonzero(np.concatenate(([n_rows > 0], ids[1:] != ids[:-1])))
    heads = ids[starts]
    if len(np.unique(heads)) == len(heads):  # every query's rows lie together already
        return QueryBlocks(heads, np.append(starts, n_rows).astype(np.int64), None)
    distinct, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    rank = np.empty(len(distinct), np.int64)
    rank[appearance] = np.arange(len(distinct))
    return _blocks_from_codes(rank[codes.ravel()], distinct[appearance])


def blocks_from_group(group: Any, n_rows: int) -> QueryBlocks:
    """Blocks from counts of rows per query, in row order (LightGBM's and XGBoost's `group`)."""
    counts = np.asarray(group)
    if counts.ndim != 1 or counts.dtype.kind not in "iuf" or (counts != np.floor(counts)).any() or (counts < 0).any():
        raise DataError("group must be a list of non-negative whole numbers: the rows of each query, in row order")
    counts = counts[counts > 0].astype(np.int64)
    if counts.sum() != n_rows:
        raise DataError(f"group counts add up to {counts.sum()} rows but there are {n_rows}; to pass ids use qid=")
    return QueryBlocks(np.arange(len(counts)), np.concatenate(([0], np.cumsum(counts))).astype(np.int64), None)


def _blocks_from_codes(codes: np.ndarray, ids: np.ndarray) -> QueryBlocks:
    """Codes 0..Q-1 are numbered in order of first appearance."""
    offsets = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=len(ids))))).astype(np.int64)
    contiguous = bool((codes[1:] >= codes[:-1]).all())
    return QueryBlocks(ids, offsets, None if contiguous else np.argsort(codes, kind="stable"))


def _as_array(ids: list) -> np.ndarray:
    out = np.empty(len(ids), object)
    out[:] = ids
    return out
