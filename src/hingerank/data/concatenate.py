"""Put data sets one after the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.errors import DataError
from hingerank.data.ranking_data import RankingData


def concatenate(parts: Sequence[RankingData], *, join_queries: bool = False) -> RankingData:
    """All rows, one part after the other; dense and CSR parts together make CSR.

    A query id in two parts is refused, since ids often start anew in every file; `join_queries=True` says that the
    same id means the same query. Parts must agree in features, in feature names where
    they have them, and in having document ids or not.

    Example
    -------
    >>> from hingerank.data.generate import make_letor
    >>> train, test = make_letor(10, 5).split(0.3)
    >>> concatenate([train, test]).n_queries
    10
    """
    parts = list(parts)
    if not parts:
        raise DataError("there is nothing to concatenate: the list is empty")
    _check_agreement(parts)
    if not join_queries:
        _check_queries(parts)
    docid = None if parts[0].docid is None else _join([part.docid for part in parts], "docid")
    names = next((part.feature_names for part in parts if part.feature_names is not None), None)
    y = np.concatenate([part.y for part in parts])
    qid = _join([part.qid for part in parts], "qid")
    return RankingData(_stack([part.X for part in parts]), y, qid, docid, names)


def _check_agreement(parts: list[RankingData]) -> None:
    first = parts[0]
    for i, part in enumerate(parts[1:], 1):
        if part.n_features != first.n_features:
            raise DataError(
                f"part 0 has {first.n_features} features but part {i} has {part.n_features}; "
                "read the files with the same n_features"
            )
        if part.feature_names is not None and first.feature_names is not None and part.names != first.names:
            raise DataError(f"part 0 and part {i} have different feature names")
        if (part.docid is None) != (first.docid is None):
            raise DataError(f"part 0 and part {i}: one has document ids and the other has none")


def _check_queries(parts: list[RankingData]) -> None:
    seen: dict[Any, int] = {}
    for i, part in enumerate(parts):
        for query in part.blocks.ids.tolist():
            if query in seen:
                raise DataError(
                    f"query {query!r} is in part {seen[query]} and in part {i}: if both are one, pass join_queries=True"
                )
            seen[query] = i


def _join(arrays: list[Any], name: str) -> np.ndarray:
    """One array of ids; NumPy would silently turn numbers beside text into text."""
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) == 1 or kinds <= set("iu"):
        return np.concatenate(arrays)
    if not kinds <= set("UOT"):
        raise DataError(f"{name} is of different types ({', '.join(str(a.dtype) for a in arrays)}); convert them first")
    return np.concatenate([array.astype(object) for array in arrays])


def _stack(matrices: list[Any]) -> Any:
    if not any(sp.issparse(X) for X in matrices):
        return np.concatenate(matrices)
    return sp.vstack([sp.csr_matrix(X) for X in matrices], format="csr")
