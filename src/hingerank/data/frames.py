"""Ranking data from and to data frames of pandas, polars and pyarrow."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import import_module

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from hingerank.arrays import Facts, Frame, Matrix
from hingerank.data.blocks import check_grades, check_ids, check_matrix, check_names
from hingerank.data.checks import decimal
from hingerank.data.files import UBI, DataError

PANDAS_INDEX = r"__index_level_\d+__"  # the column in which pandas stores an index without a name in a Parquet file
QID_NAMES, DOCID_NAMES = ("query_id", "query"), ("docid", "docno", "document")  # other usual names of columns of ids
LISTS = "features"  # the name of a column that holds a list of all features of a row
Names = str | Sequence[str] | None
_UNNAMED = r"(Unnamed: \d+)?"  # the name that a data frame's index has in a CSV file, or when pandas reads it again
_CHOOSE = "if it is not a feature, list the feature columns in features=", "features"


def open_frame(frame: Frame, expected: str) -> Frame:
    """A table of pandas, polars or pyarrow, wrapped by narwhals."""
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise DataError(f"expected {expected}: {error}") from None
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"two columns have the same name: {error}; rename one of them") from None
    if table.implementation.is_pyarrow():
        for place, name in enumerate(table.columns):
            if table[name].dtype == nw.Categorical and table[name].null_count():
                column = frame[name]  # NumPy would get the dictionary's last value instead of a missing one
                frame = frame.set_column(place, name, column.cast(column.type.value_type))
        table = nw.from_native(frame, eager_only=True)
    for column in table.iter_columns():
        if column.dtype in (nw.Int128, nw.UInt128):  # NumPy has no such numbers
            wide = any(end is not None and abs(end) >= 2**63 for end in (column.min(), column.max()))
            table = table.with_columns(column.cast(nw.String if wide else nw.Int64))
    return table


def columns_from_frame(
    frame: Frame,
    label: str | None,
    qid: str | None,
    docid: str | None,
    features: Names,
    missing: str,
    dtype: DTypeLike | None,
) -> tuple[Matrix, np.ndarray, np.ndarray, np.ndarray | None, tuple[str, ...] | None]:
    """(X, y, qid, docid, feature names) of a table. The parameters are those of `RankingData.from_frame`."""
    table = open_frame(frame, "a pandas, polars or pyarrow table (collect a lazy one first)")
    if not all(isinstance(name, str) for name in table.columns):  # pandas allows numbers, narwhals takes them for rows
        table = table.rename(dict(zip(table.columns, check_names(table.columns, len(table.columns)) or ())))
    if len(table) == 0:
        raise DataError("the table has no rows: give at least one")
    if dtype is not None and str(np.dtype(dtype)) not in ("float32", "float64"):
        raise DataError(f'dtype is {dtype!r}, expected "float64" or "float32"')
    docid = docid or next((name for name in DOCID_NAMES if name in table.columns), None)
    qid = query_column(table.columns, qid)
    for name in (label, qid, docid):
        if name is not None:
            _check_column(table, name)
    if label is not None and table[label].dtype == nw.String:
        _refuse_text(table[label], label, "write the grades as numbers, or name another column in label=", "columns")
    X, names = _matrix(table, _feature_columns(table, features, {label or "label", qid, docid}), dtype)
    n_rows = len(table)
    return (
        check_matrix(X, missing, names),
        np.zeros(n_rows) if label is None else check_grades(table[label].to_numpy(), n_rows),
        np.zeros(n_rows, np.int64) if qid is None else check_ids(table[qid].to_numpy(), n_rows, f"column {qid!r}"),
        None if docid is None else check_ids(table[docid].to_numpy(), n_rows, f"column {docid!r}"),
        names,
    )


def query_column(columns: Collection[str], qid: str | None) -> str | None:
    """The column of query ids: `qid`, or if this is the default and not there, another usual name."""
    others = QID_NAMES if qid == "qid" and qid not in columns else ()
    return next((name for name in others if name in columns), qid)


def frame_from_columns(
    X: Matrix, y: np.ndarray, qid: np.ndarray, docid: np.ndarray | None, names: Sequence[str], backend: str, layout: str
) -> Frame:
    """A table of `backend`; see `RankingData.to_frame`."""
    columns: Facts = {"qid": _plain_text(qid)}
    if docid is not None:
        columns["docid"] = _plain_text(docid)
    columns["label"] = y
    X = X.toarray() if sp.issparse(X) else X
    if layout == "list":
        return _with_lists(columns, X, backend)
    if layout != "wide":
        raise DataError(f"layout is {layout!r}, expected 'wide' or 'list'")
    taken = set(columns) & set(names)
    if taken:
        raise DataError(f"a feature is called {taken.pop()!r}, like the column of ids or labels; rename the feature")
    by_column = np.asfortranarray(X)
    return _native(columns | {name: by_column[:, j] for j, name in enumerate(names)}, backend)


def frame_from_rows(columns: dict[str, np.ndarray], backend: str) -> Frame:
    """A table of `backend` with these columns."""
    return _native({name: _plain_text(column) for name, column in columns.items()}, backend)


def _check_column(table: Frame, name: str) -> None:
    if name not in table.columns:
        some = ", ".join(map(repr, table.columns[:12])) + (", ..." if len(table.columns) > 12 else "")
        message = f"there is no column {name!r}; the table has {some}"
        if "action_name" in table.columns:
            raise DataError(message, f"these are events of {UBI}: read them with hr.read_clicks", option="click log")
        if {"user", "item"} <= {*table.columns}:
            raise DataError(message, "this looks like ratings of users: read it with hr.read_ratings", option="ratings")
        if "document" in table.columns:
            raise DataError(message, "this looks like a click log: read it with hr.read_clicks", option="click log")
        raise DataError(message, "name the columns with label=, qid= and features=", option="columns")


def _feature_columns(table: Frame, features: Names, taken: set[str | None]) -> list[str]:
    if features is not None:
        names = [features] if isinstance(features, str) else [str(name) for name in features]
        for name in names:
            _check_column(table, name)
    elif LISTS in table.columns and not table[LISTS].dtype.is_numeric():
        names = [LISTS]
    else:
        names = [name for name in table.columns if name not in taken | _index_columns(table)]
        unnamed = next((name for name in names if re.fullmatch(_UNNAMED, name)), None)
        if unnamed is not None:
            what = f"column {table.columns.index(unnamed)} has no name ({unnamed!r}), as an index that pandas wrote has"
            raise DataError(
                what, "leave it out (to_csv(index=False)), or list the feature columns in features=", "features"
            )
    if not names:
        raise DataError("the table has no feature columns, only the label and the ids; add columns of numbers")
    return names


def _index_columns(table: Frame) -> set[str]:
    """The columns in which pandas stored the index of a data frame."""
    stored = {name for name in table.columns if re.fullmatch(PANDAS_INDEX, name)}
    if table.implementation.is_pyarrow():
        with suppress(TypeError, ValueError, LookupError, AttributeError):  # not by pandas
            about = table.to_native().schema.pandas_metadata["index_columns"]
            stored |= {name for name in about if isinstance(name, str)}
    return stored


def _matrix(table: Frame, names: list[str], dtype: DTypeLike | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """The feature matrix and the columns' names (None if one column holds lists)."""
    if len(names) == 1 and not _is_number(table[names[0]]):
        lists = _matrix_of_lists(table[names[0]], names[0])
        return (lists if dtype is None else lists.astype(dtype, copy=False)), None
    for name in names:
        if not _is_number(table[name]):
            _refuse_text(table[name], name, *_CHOOSE)
            raise DataError(f"column {name!r} holds {table[name].dtype}, expected numbers", *_CHOOSE)
    nothing = np.full(len(table), np.nan, np.float32)
    columns = [nothing if _is_empty(table[name]) else _numbers(table[name]).to_numpy() for name in names]
    kind = np.result_type(*columns)
    X = np.empty((len(table), len(names)), dtype or (kind if kind == np.float32 else np.float64))
    for a in range(0, len(X), 4096):  # by blocks of rows, so that the rows being written stay in cache
        for j, column in enumerate(columns):
            X[a : a + 4096, j] = column[a : a + 4096]
    return X, check_names(names, len(names))


def _refuse_text(column: Frame, name: str, *remedy: str) -> None:
    """Raise a DataError about the first text in a column that is not a number."""
    for row, value in enumerate(column.to_list()):
        if isinstance(value, str) and decimal(value) is None:
            found = f"column {name!r} holds {column.dtype} ({value[:40]!r} at row {row})"
            raise DataError(f"{found}, expected numbers", *remedy)


def _numbers(column: Frame) -> Frame:
    """A column of numbers. pandas gives booleans with missing values as objects, which NumPy cannot compute with."""
    return column.cast(nw.Float64) if column.dtype == nw.Boolean and column.null_count() else column


def _is_number(column: Frame) -> bool:
    return column.dtype.is_numeric() or column.dtype == nw.Boolean or _is_empty(column)


def _is_empty(column: Frame) -> bool:
    """Whether no row has a value. A CSV file does not say what such a column would hold."""
    return column.null_count() == len(column)


def _matrix_of_lists(column: Frame, name: str) -> np.ndarray:
    if column.dtype == nw.String:
        _refuse_text(column, name, *_CHOOSE)
    if column.dtype in (nw.String, nw.Struct):
        raise DataError(f"column {name!r} holds {column.dtype}, expected numbers or lists of numbers")
    native = column.to_native()
    if hasattr(native, "combine_chunks"):  # pyarrow, which has the numbers of all rows in one buffer
        flat = native.combine_chunks()
        flat = flat.combine_chunks() if hasattr(flat, "combine_chunks") else flat
        if native.null_count == 0 and hasattr(flat, "value_lengths") and len(np.unique(flat.value_lengths())) == 1:
            return flat.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    rows = column.to_numpy()
    if rows.ndim == 2:
        return rows
    absent = np.flatnonzero(column.is_null().to_numpy())
    if len(absent):
        raise DataError(f"column {name!r} has no list at row {absent[0]}: give every row a list of numbers")
    try:
        lengths = np.array([len(row) for row in rows])
    except TypeError:
        raise DataError(
            f"column {name!r} holds {column.dtype} with single values, expected numbers or lists of numbers"
        ) from None
    wrong = np.flatnonzero(lengths != lengths[0])
    if len(wrong):
        raise DataError(
            f"column {name!r} holds {lengths[wrong[0]]} numbers at row {wrong[0]} but {lengths[0]} at row 0; make "
            "all lists equally long"
        )
    try:
        return np.stack([np.asarray(row, None if isinstance(row, np.ndarray) else float) for row in rows])
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} holds {column.dtype}, expected lists of numbers: {error}") from None


def _plain_text(ids: np.ndarray) -> np.ndarray:
    """NumPy's text types as objects, which every table library treats as text."""
    ids = np.strings.decode(ids, "utf-8") if ids.dtype.kind == "S" else ids
    return ids.astype(object) if ids.dtype.kind in "UT" else ids


def _with_lists(columns: Facts, X: np.ndarray, backend: str) -> Frame:
    if backend == "pandas":
        return _native(columns | {LISTS: list(X)}, backend)
    if backend == "polars":
        return _native(columns | {LISTS: X}, backend)
    table = _native(columns, backend)
    import pyarrow as pa

    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X).ravel()), X.shape[1])
    return table.append_column(LISTS, lists)


def _native(columns: Facts, backend: str) -> Frame:
    if backend not in ("pandas", "polars", "pyarrow"):
        raise DataError(f"backend is {backend!r}, expected 'pandas', 'polars' or 'pyarrow'")
    try:
        module = import_module(backend)
    except ImportError:
        what = f"to_frame(backend={backend!r}) needs {backend}"
        raise DataError(f"{what}: pip install 'hingerank[frames]'") from None
    return module.table(columns) if backend == "pyarrow" else module.DataFrame(columns)
