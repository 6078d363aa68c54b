"""Files of tables as pyarrow reads and writes them: Parquet, Feather, CSV; the name says which."""

import lzma
import os
import secrets
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from hingerank.data.errors import DataError

KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".csv": "csv",
    ".tsv": "tsv",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".xz")  # after .csv and .tsv


def need(library: str, purpose: str) -> Any:
    """The imported library, or a DataError that says how to install it."""
    try:
        return import_module(library)
    except ImportError:
        raise DataError(f"{purpose} needs {library}: pip install 'hingerank[frames]'") from None


def table_kind(path: Path) -> str:
    """ "parquet", "feather", "csv" or "tsv"."""
    name = path.name.lower()
    plain = name.removesuffix(Path(name).suffix) if name.endswith(COMPRESSED) else name
    kind = KINDS.get(Path(plain).suffix)
    if kind is None or (plain != name and kind not in ("csv", "tsv")):
        raise DataError(
            f"{path}: the name does not say what kind of table it is; expected {', '.join(KINDS)}, the last two "
            f"perhaps with {', '.join(COMPRESSED)}"
        )
    return kind


def read_table(path: Path, columns: list[str] | None = None, ids: Collection[str] = ()) -> Any:
    """A pyarrow table; of a Parquet file only `columns`, if all of them are there.

    ids: columns of ids, which a CSV file may write with digits and yet not as numbers: 007 is not 7.
    """
    kind = table_kind(path)
    pa = need("pyarrow", f"reading {path.name}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        if kind == "parquet":
            return _read_parquet(path, columns)
        return _read_feather(path) if kind == "feather" else _with_ids(_read_csv(path, kind), path, kind, ids)
    except (pa.ArrowException, OSError, EOFError, ValueError, KeyError, lzma.LZMAError) as error:
        raise DataError(f"{path}: cannot be read as {kind}: {error}") from None


def write_table(table: Any, path: Path) -> None:
    """Write a pyarrow table to a temporary name in the same folder, then rename it."""
    temporary = path.parent / f".{secrets.token_hex(6)}.{path.name}"  # the ending stays: it chooses the compression
    try:
        _write(table, str(temporary), table_kind(path))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read_parquet(path: Path, columns: list[str] | None) -> Any:
    import pyarrow.parquet as pq

    if columns is not None:
        known = set(pq.read_schema(path).names)
        columns = columns if known >= set(columns) else None  # from_frame names the one that is not there
    return pq.read_table(path, columns=columns)


def _read_feather(path: Path) -> Any:
    import pyarrow.feather as feather

    return feather.read_table(path)


def _read_csv(path: Path, kind: str, texts: list[str] | None = None) -> Any:
    """The table, or some of its columns as text."""
    import pyarrow.csv as csv

    options: dict[str, Any] = {"parse_options": csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",")}
    if texts is not None:
        types = dict.fromkeys(texts, "string")
        options["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=texts)
    if path.suffix.lower() != ".xz":  # pyarrow unpacks the others by itself
        return csv.read_csv(path, **options)
    with lzma.open(path) as stream:
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
        odd = pc.match_substring_regex(texts, r"^[+-]?(0[0-9]|[0-9]{16})")  # digits that a number may drop
        same = pc.count_distinct(numbers).as_py() == pc.count_distinct(texts).as_py()
        if numbers.null_count == 0 and (not same or (pc.any(odd).as_py() and not _as_written(numbers, texts))):
            table = table.set_column(table.column_names.index(name), name, texts)
    return table


def _as_written(numbers: Any, texts: Any) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.equal(pc.cast(numbers, "string"), texts)).as_py())


def _write(table: Any, path: str, kind: str) -> None:
    import pyarrow as pa

    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    elif kind == "feather":
        import pyarrow.feather as feather

        feather.write_feather(table, path)
    else:
        import pyarrow.csv as csv

        with lzma.open(path, "wb") if path.lower().endswith(".xz") else pa.output_stream(path) as stream:
            csv.write_csv(table, stream, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
