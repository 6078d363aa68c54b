"""Folds: what a ranker may learn from, what chooses its setting, and what it is measured on.

LETOR's rule, for k parts S_1 ... S_k: fold i trains on S_i ... S_{i+k-3}, validates on S_{i+k-2} and tests on
S_{i+k-1}, indices wrapping around; with five parts, fold 1 is S1 S2 S3 | S4 | S5. Queries are never cut.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hingerank.data.blocks import blocks_from_qid
from hingerank.data.errors import DataError
from hingerank.data.ranking_data import RankingData, rotate

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a data set, taken only when they are needed."""

    data: RankingData
    index: np.ndarray

    def take(self) -> RankingData:
        return self.data.take(self.index)


@dataclass(frozen=True, eq=False)
class Fold:
    """name, and the three parts, each RankingData or Rows of one. shared_queries: the parts are meant to share queries,
    as those of ratings share users."""

    name: str
    train: RankingData | Rows
    validation: RankingData | Rows
    test: RankingData | Rows
    shared_queries: bool = False

    def part(self, name: str) -> RankingData:
        """ "train", "validation" or "test"."""
        chosen = getattr(self, name)
        return _plain_arrays(chosen.take() if isinstance(chosen, Rows) else chosen)


def _plain_arrays(data: RankingData) -> RankingData:
    """The same data with arrays mapped from a file as plain ones, which is what they are to every kernel."""
    if isinstance(data.X, np.ndarray):
        X = np.asarray(data.X)
    else:
        parts = (np.asarray(data.X.data), np.asarray(data.X.indices), np.asarray(data.X.indptr))
        X = type(data.X)(parts, shape=data.X.shape, copy=False)
    docid = None if data.docid is None else np.asarray(data.docid)
    return replace(data, X=X, y=np.asarray(data.y), qid=np.asarray(data.qid), docid=docid)


def query_folds(data: RankingData, k: int = 5, seed: int = 0) -> list[Fold]:
    """Shuffle the queries, cut them into k parts of nearly equal size and rotate the parts by LETOR's rule."""
    return _folds(data, data.fold_rows(k, seed))


def part_folds(parts: Sequence[RankingData]) -> list[Fold]:
    """LETOR's rule over parts that already exist, such as OHSUMED's S1 ... S5."""
    if len(parts) < 3:
        raise ValueError(f"{len(parts)} parts: give at least 3, one each to train, to validate and to test")
    data = RankingData.concatenate(parts)
    ends = np.cumsum([part.n_rows for part in parts])
    return _folds(data, rotate([np.arange(end - part.n_rows, end) for part, end in zip(parts, ends)]))


def _folds(data: RankingData, turns: Sequence[Sequence[np.ndarray]]) -> list[Fold]:
    parts = [[Rows(data, rows) for rows in turn] for turn in turns]
    return [Fold(f"fold {i}", train, check, test) for i, (train, check, test) in enumerate(parts, 1)]


def check_folds(folds: Iterable[Any]) -> list[Fold]:
    """The folds as a list, if each is usable: rows and queries in every part, none of them shared between parts."""
    folds = [_named(fold, number) for number, fold in enumerate(folds, 1)]
    if not folds:
        raise ValueError("there are no folds: give at least one")
    names = [fold.name for fold in folds]
    if len(set(names)) < len(names):
        raise ValueError(f"folds must have different names, got {names}")
    for fold in folds:
        seen: dict[Any, str] = {}
        for name in PARTS:
            ids = _queries(getattr(fold, name))
            if not ids:
                raise DataError(f"{fold.name}: the {name} part is empty")
            shared = next((q for q in ids if q in seen), None)
            if shared is not None and not fold.shared_queries:
                raise DataError(f"{fold.name}: query {shared!r} is in both the {seen[shared]} and the {name} part")
            seen.update(dict.fromkeys(ids, name))
    return folds


def _named(fold: Any, number: int) -> Fold:
    """A triple (train, validation, test) without a name, such as `read_folds` gives, is called by its number."""
    return fold if isinstance(fold, Fold) else Fold(f"fold {number}", *fold)


def _queries(part: RankingData | Rows) -> list[Any]:
    if isinstance(part, Rows):
        return blocks_from_qid(part.data.qid[part.index], len(part.index)).ids.tolist()
    return part.blocks.ids.tolist()


def fingerprint(folds: Sequence[Fold]) -> str:
    """One short text for the folds' rows, grades, queries and features: it changes when any of them does."""
    sums: dict[int, bytes] = {}

    def digest(data: RankingData) -> bytes:
        if id(data) not in sums:
            arrays = [data.X] if isinstance(data.X, np.ndarray) else [data.X.data, data.X.indices, data.X.indptr]
            whole = hashlib.blake2b(digest_size=16)
            if data.qid.dtype.kind in "iuf":
                arrays.append(data.qid)
            else:
                whole.update("\n".join(map(str, data.qid.tolist())).encode())
            for array in [*arrays, data.y]:
                whole.update(f"{array.dtype}{array.shape}".encode())
                whole.update(np.ascontiguousarray(array).data)
            sums[id(data)] = whole.digest()
        return sums[id(data)]

    whole = hashlib.blake2b(digest_size=16)
    for fold in folds:
        whole.update(fold.name.encode())
        for name in PARTS:
            part = getattr(fold, name)
            rows = isinstance(part, Rows)
            whole.update(digest(part.data if rows else part))
            whole.update(np.asarray(part.index, np.int64).tobytes() if rows else b"all")
    return whole.hexdigest()
