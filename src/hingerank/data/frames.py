"""Data frames (pandas, polars, pyarrow) by column names, and tables in files (Parquet, Feather, CSV) by pyarrow."""

import lzma
import re
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from hingerank.data.blocks import check_grades, check_ids, check_matrix
from hingerank.data.files import COMPRESSIONS, TABLES, DataError, PathLike, draft_of, endings

DOCID_NAMES = ("docid", "docno")
LISTS = "features"  # the name of a column that holds all features of a row
Names = str | Sequence[str] | None


def columns_from_frame(
    frame: Any, label: str, qid: str | None, docid: str | None, features: Names, missing: str, dtype: Any
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None, tuple[str, ...] | None]:
    """(X, y, qid, docid, feature names) of a table; the parameters are those of `RankingData.from_frame`."""
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
    X, names = _matrix(table, _feature_columns(table, features, {label, qid, docid}), dtype)
    n_rows = len(table)
    return (
        check_matrix(X, missing),
        check_grades(table[label].to_numpy(), n_rows),
        np.zeros(n_rows, np.int64) if qid is None else check_ids(table[qid].to_numpy(), n_rows, f"column {qid!r}"),
        None if docid is None else check_ids(table[docid].to_numpy(), n_rows, f"column {docid!r}"),
        names,
    )


def frame_from_columns(
    X: Any, y: np.ndarray, qid: np.ndarray, docid: np.ndarray | None, names: Sequence[str], backend: str, layout: str
) -> Any:
    """A table of `backend`; see `RankingData.to_frame`."""
    if backend not in ("pandas", "polars", "pyarrow"):
        raise DataError(f"backend is {backend!r}, expected 'pandas', 'polars' or 'pyarrow'")
    columns: dict[str, Any] = {"qid": _plain_text(qid)}
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
        raise DataError(f"a feature is called {taken.pop()!r}, as the column of ids or labels is; rename it")
    by_column = np.asfortranarray(X)
    return _native(columns | {name: by_column[:, j] for j, name in enumerate(names)}, backend)


def _check_column(table: Any, name: str) -> None:
    if name not in table.columns:
        some = ", ".join(map(repr, table.columns[:12])) + (", ..." if len(table.columns) > 12 else "")
        message = f"there is no column {name!r}; the table has {some}"
        raise DataError(message, "or name the columns: label=, qid=, features=", option="columns")


def _feature_columns(table: Any, features: Names, taken: set[str | None]) -> list[str]:
    if features is not None:
        names = [features] if isinstance(features, str) else list(features)
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
        if native.null_count == 0 and len(np.unique(flat.value_lengths())) == 1:
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
    pa = _need("pyarrow", "to_frame(backend='pyarrow')")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X).ravel()), X.shape[1])
    return _native(columns, backend).append_column(LISTS, lists)


def _native(columns: dict[str, Any], backend: str) -> Any:
    module = _need(backend, f"to_frame(backend={backend!r})")
    return module.table(columns) if backend == "pyarrow" else module.DataFrame(columns)


def _need(library: str, purpose: str) -> Any:
    """The imported library, or a DataError that says how to install it."""
    try:
        return import_module(library)
    except ImportError:
        raise DataError(f"{purpose} needs {library}: pip install 'hingerank[frames]'") from None


# Tables in files. The name says which kind.


def table_kind(path: PathLike) -> str:
    """ "parquet", "feather", "csv" or "tsv"."""
    holds, packed = endings(path)
    kind = TABLES.get(holds)
    if kind is None or (packed and kind not in ("csv", "tsv")):
        raise DataError(
            f"{path}: the name does not say what kind of table it is; expected {', '.join(TABLES)}, the last two "
            f"perhaps with {', '.join(COMPRESSIONS)}"
        )
    return kind


def read_table(path: PathLike, columns: list[str] | None = None, ids: Collection[str] = ()) -> Any:
    """A pyarrow table.

    Parameters
    ----------
    path : path
        Parquet, Feather, or CSV, plain or compressed.
    columns : list of str, optional
        All that is needed; of a Parquet file only these are read, if all of them are there.
    ids : collection of str
        Columns of ids, which a CSV file may write with digits and yet not as numbers: 007 is not 7.
    """
    path, kind = Path(path), table_kind(path)
    pa = _need("pyarrow", f"reading {path.name}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        if kind == "parquet":
            from pyarrow import parquet

            known = set(parquet.read_schema(path).names)
            return parquet.read_table(path, columns=columns if known >= set(columns or ()) else None)
        if kind == "feather":
            from pyarrow import feather

            return feather.read_table(path)
        table = _read_csv(path, kind)
        _check_header(path, table.column_names)
        return _with_ids(table, path, kind, ids)
    except DataError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError, KeyError, lzma.LZMAError) as error:
        raise DataError(f"{path}: cannot be read as {kind}: {error}") from None


def _check_header(path: Path, names: list[str]) -> None:
    """Refuse a first line that is data, or that names two columns alike."""
    numbers = [name for name in names if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", name, re.IGNORECASE)]
    if len(numbers) > len(names) // 2:
        start = ",".join(names[:4]) + (",…" if len(names) > 4 else "")
        raise DataError(
            f"{path}: the first line ({start}) holds numbers where names were expected; write a line such as "
            "label,qid,f1,f2,… above it"
        )
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise DataError(f"{path}: two columns are called {twice!r}: names must differ")


def write_table(table: Any, path: PathLike) -> None:
    """Write a pyarrow table, the whole file or none of it."""
    kind = table_kind(path)
    with draft_of(path) as draft:
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, draft)
        elif kind == "feather":
            from pyarrow import feather

            feather.write_feather(table, str(draft))
        else:
            from pyarrow import csv

            with _csv_stream(draft, "wb") as stream:
                csv.write_csv(table, stream, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))


def _csv_stream(path: Path, mode: str) -> Any:
    """A file that is packed as its name says."""
    import pyarrow as pa

    packed = endings(path)[1]
    if packed == ".xz":  # the one that pyarrow lacks
        return lzma.open(path, mode)
    codec = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}.get(packed)
    return (pa.input_stream if mode == "rb" else pa.output_stream)(str(path), compression=codec)


def _read_csv(path: Path, kind: str, texts: list[str] | None = None) -> Any:
    """The table, or some of its columns as text."""
    from pyarrow import csv

    options: dict[str, Any] = {"parse_options": csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",")}
    if texts is not None:
        types = dict.fromkeys(texts, "string")
        options["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=texts)
    with _csv_stream(path, "rb") as stream:
        return csv.read_csv(stream, **options)


def _with_ids(table: Any, path: Path, kind: str, ids: Collection[str]) -> Any:
    """The table with those columns of ids as text that are not the numbers which pyarrow takes them for."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    numeric = [n for n in dict.fromkeys(ids) if n in table.column_names and table.column_names.count(n) == 1]
    numeric = [n for n in numeric if kinds.is_integer(table[n].type) or kinds.is_floating(table[n].type)]
    written = _read_csv(path, kind, numeric) if numeric else table
    for name in numeric:
        numbers, texts = table[name], pc.utf8_trim_whitespace(written[name])
        odd = pc.any(pc.match_substring_regex(texts, r"^[+-]?(0[0-9]|[0-9]{16})")).as_py()  # a number may drop digits
        same = pc.count_distinct(numbers).as_py() == pc.count_distinct(texts).as_py()
        as_written = not odd or pc.all(pc.equal(pc.cast(numbers, "string"), texts)).as_py()
        if numbers.null_count == 0 and not (same and as_written):
            table = table.set_column(table.column_names.index(name), name, texts)
    return table
