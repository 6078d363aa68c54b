"""Data frames (pandas, polars, pyarrow) and their files (Parquet, CSV, Feather) by column names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from hingerank.data.blocks import check_grades, check_ids, check_matrix
from hingerank.data.files import DataError, need, read_table, table_kind, write_table
from hingerank.data.ranking_data import RankingData

DOCID_NAMES = ("docid", "docno")
LISTS = "features"  # the name of a column that holds all features of a row


def from_frame(
    frame: Any,
    label: str = "label",
    qid: str | None = "qid",
    docid: str | None = None,
    features: str | Sequence[str] | None = None,
    *,
    missing: str = "error",
    dtype: Any = None,
) -> RankingData:
    """Columns of a pandas, polars or pyarrow table as RankingData; rows keep their order.

    label, qid, docid: names of columns. qid=None makes one query of all rows; docid=None takes a column called "docid"
        or "docno" if there is one.
    features: names of numeric columns, or of one column that holds a list of numbers per row; None takes a list column
        called "features" if there is one, else all columns that are not label, qid or docid.
    missing: "error" refuses null and NaN in features, "zero" replaces them, "nan" keeps them.
    dtype: float32 or float64; None keeps float32 where every feature column fits it.

    Example
    -------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"qid": ["a", "a", "b"], "label": [1, 0, 2], "bm25": [0.5, 0.1, 0.3]})
    >>> from_frame(table).feature_names
    ('bm25',)
    """
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise DataError(f"expected a pandas, polars or pyarrow table (collect a lazy one first): {error}") from None
    if len(table) == 0:
        raise DataError("the table has no rows")
    docid = docid or next((name for name in DOCID_NAMES if name in table.columns), None)
    for name in (label, qid, docid):
        if name is not None:
            _check_column(table, name)
    wanted = _feature_columns(table, features, {label, qid, docid})
    X, names = _matrix(table, wanted, dtype)
    n_rows = len(table)
    return RankingData(
        check_matrix(X, missing),
        check_grades(table[label].to_numpy(), n_rows),
        np.zeros(n_rows, np.int64) if qid is None else check_ids(table[qid].to_numpy(), n_rows, f"column {qid!r}"),
        None if docid is None else check_ids(table[docid].to_numpy(), n_rows, f"column {docid!r}"),
        names,
    )


def to_frame(data: RankingData, backend: str = "pandas", layout: str = "wide") -> Any:
    """The columns qid, docid (if any), label, and the features: "wide" one column each, "list" in one column.

    backend: "pandas", "polars" or "pyarrow". CSR features are written out with their zeros.
    """
    if backend not in ("pandas", "polars", "pyarrow"):
        raise DataError(f"backend is {backend!r}, expected 'pandas', 'polars' or 'pyarrow'")
    columns: dict[str, Any] = {"qid": _plain_text(data.qid)}
    if data.docid is not None:
        columns["docid"] = _plain_text(data.docid)
    columns["label"] = data.y
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    if layout == "list":
        return _with_lists(columns, X, backend)
    if layout != "wide":
        raise DataError(f"layout is {layout!r}, expected 'wide' or 'list'")
    taken = set(columns) & set(data.names)
    if taken:
        raise DataError(f"a feature is called {taken.pop()!r}, as the column of ids or labels is; rename it")
    by_column = np.asfortranarray(X)
    columns |= {name: by_column[:, j] for j, name in enumerate(data.names)}
    return _native(columns, backend)


def read_frame_file(
    path: Any,
    label: str = "label",
    qid: str | None = "qid",
    docid: str | None = None,
    features: str | Sequence[str] | None = None,
    *,
    missing: str = "error",
    dtype: Any = None,
) -> RankingData:
    """A Parquet, CSV or Feather file by its column names; the arguments are those of :func:`from_frame`."""
    columns = None
    if features is not None and docid is not None:  # no others are needed
        columns = [name for name in (label, qid, docid) if name] + _as_list(features)
    table = read_table(Path(path), columns, [name for name in (qid, docid, *DOCID_NAMES) if name])
    try:
        return from_frame(table, label, qid, docid, features, missing=missing, dtype=dtype)
    except (DataError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None


def write_frame_file(data: RankingData, path: Any, layout: str = "wide") -> None:
    """Write Parquet, CSV or Feather (by the name's ending), to a temporary name first; CSV has the wide layout only."""
    kind = table_kind(Path(path))
    if kind in ("csv", "tsv") and layout != "wide":
        raise DataError(f"{path}: a {kind} file cannot hold a column of lists; use layout='wide' or Parquet")
    write_table(to_frame(data, "pyarrow", layout), Path(path))


def _check_column(table: Any, name: str) -> None:
    if name not in table.columns:
        some = ", ".join(map(repr, table.columns[:12])) + (", ..." if len(table.columns) > 12 else "")
        raise DataError(f"there is no column {name!r}; the table has {some}")


def _as_list(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _feature_columns(table: Any, features: str | Sequence[str] | None, taken: set[str | None]) -> list[str]:
    if features is not None:
        names = _as_list(features)
        for name in names:
            _check_column(table, name)
    elif LISTS in table.columns and not table[LISTS].dtype.is_numeric():
        names = [LISTS]
    else:
        names = [name for name in table.columns if name not in taken]
    if not names:
        raise DataError("no feature columns are left beside the label and the ids")
    return names


def _matrix(table: Any, names: list[str], dtype: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """The feature matrix and the columns' names (None when one column holds lists)."""
    if len(names) == 1 and not _is_number(table[names[0]]):
        lists = _matrix_of_lists(table[names[0]], names[0])
        return (lists if dtype is None else lists.astype(dtype, copy=False)), None
    for name in names:
        if not _is_number(table[name]):
            raise DataError(
                f"column {name!r} holds {table[name].dtype}, expected numbers; list the feature columns in features="
            )
    columns = [table[name].to_numpy() for name in names]
    kind = np.result_type(*columns)
    X = np.empty((len(table), len(names)), dtype or (kind if kind == np.float32 else np.float64))
    for a in range(0, len(X), 4096):  # by blocks of rows, so that writing across columns stays in cache
        for j, column in enumerate(columns):
            X[a : a + 4096, j] = column[a : a + 4096]
    return X, tuple(map(str, names))


def _is_number(column: Any) -> bool:
    return column.dtype.is_numeric() or column.dtype == nw.Boolean


def _matrix_of_lists(column: Any, name: str) -> np.ndarray:
    if column.dtype == nw.String:
        raise DataError(f"column {name!r} holds String, expected numbers or lists of numbers")
    native = column.to_native()
    if hasattr(native, "combine_chunks"):  # pyarrow: the numbers of all rows already lie in one buffer
        flat = native.combine_chunks()
        flat = flat.combine_chunks() if hasattr(flat, "combine_chunks") else flat
        if native.null_count == 0:
            lengths = np.asarray(flat.value_lengths())
            if len(set(lengths.tolist())) == 1:
                return flat.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    rows = column.to_numpy()
    if rows.ndim == 2:
        return rows
    try:
        lengths = np.array([len(row) for row in rows])
        wrong = np.flatnonzero(lengths != lengths[0])
        if len(wrong):
            raise DataError(
                f"column {name!r} holds {lengths[wrong[0]]} numbers at row {wrong[0]} but {lengths[0]} at row 0"
            )
        return np.stack([np.asarray(row, None if isinstance(row, np.ndarray) else float) for row in rows])
    except TypeError:
        raise DataError(
            f"column {name!r} holds {column.dtype} with single values, expected numbers or lists of numbers"
        ) from None


def _plain_text(ids: np.ndarray) -> np.ndarray:
    """NumPy's text types as objects, which every table library takes for text."""
    return ids.astype(object) if ids.dtype.kind in "UT" else ids


def _with_lists(columns: dict[str, Any], X: np.ndarray, backend: str) -> Any:
    if backend == "pandas":
        return _native(columns | {LISTS: list(X)}, backend)
    if backend == "polars":
        return _native(columns | {LISTS: X}, backend)
    pa = need("pyarrow", "to_frame(backend='pyarrow')")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X).ravel()), X.shape[1])
    return _native(columns, backend).append_column(LISTS, lists)


def _native(columns: dict[str, Any], backend: str) -> Any:
    module = need(backend, f"to_frame(backend={backend!r})")
    return module.table(columns) if backend == "pyarrow" else module.DataFrame(columns)
