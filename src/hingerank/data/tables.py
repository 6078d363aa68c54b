"""Files of tables: Parquet, Feather and CSV, read and written with pyarrow. The ending of the name says which kind.

Parquet and Feather files have a checksum of every column in their schema. Parquet files also have one of every page,
but these do not cover names, types and the file's directory. A column's checksum is of the values that are read.
"""

import json
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hingerank.arrays import Facts, Frame
from hingerank.data.checks import decimal
from hingerank.data.files import (
    COMPRESSIONS,
    TABLES,
    DataError,
    PathLike,
    draft_of,
    endings,
    no_such_file,
    replace_file,
)
from hingerank.data.frames import need
from hingerank.data.memory import check_room
from hingerank.data.streams import open_quote, pieces_of_lines, refuse_zeros, whole_bytes
from hingerank.kernels.threads import run_shards

_CHECKSUMS = (b"hingerank:crc32", b"hingerank:crc32 again")  # keys in the schema; both have {column: checksum} as JSON
_FORMULA = r"^'*[=+\-@\t\r]"  # the start of a text that a spreadsheet would run as a formula, or that is escaped
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_PIECE = 1 << 24  # bytes of a CSV file that are checked for quotes at a time
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def table_kind(path: PathLike) -> str:
    """The kind of a table's file, by its name: "parquet", "feather", "csv" or "tsv"."""
    holds, packed = endings(path)
    kind = TABLES.get(holds)
    if kind is None or (packed and kind not in ("csv", "tsv")):
        raise DataError(
            f"{path}: the name does not say what kind of table it is; expected {', '.join(TABLES)}; only .csv and .tsv "
            f"may be compressed ({', '.join(COMPRESSIONS)})"
        )
    return kind


def read_table(
    path: PathLike, columns: list[str] | None = None, ids: Collection[str] = (), verify: bool = True
) -> Frame:
    """Read Parquet, Feather, or CSV (plain or compressed) as a pyarrow table.

    If a Parquet file has all of `columns`, only these are read. `ids` are columns of ids, which in a CSV file may
    consist of digits without being numbers: 007 is not 7. `verify` compares the checksums of Parquet and Feather files.
    """
    with _opened(path) as (path, kind):
        if kind == "parquet":
            table = _read_parquet(path, columns, verify)
        elif kind == "feather":
            from pyarrow import feather

            table = feather.read_table(path)
            table.validate(full=True)  # pyarrow would follow offsets that lead outside the file's arrays
        else:
            content = whole_bytes(path, by_name=True)
            table = _checked_csv(path, content, kind)
            return _without_apostrophes(_with_ids(table, content, kind, ids))
        if verify:
            _compare_checksums(table)
        return table


@contextmanager
def _opened(path: PathLike) -> Iterator[tuple[Path, str]]:
    """The path and kind of a table that exists. Errors of pyarrow become a DataError that names the path."""
    path, kind = Path(path), table_kind(path)
    pa = need("pyarrow", f"reading {path.name}")
    if not path.is_file():
        raise DataError(no_such_file(path))
    try:
        yield path, kind
    except DataError as error:
        raise (error if str(path) in error.problem else error.at(path)) from None
    except (pa.ArrowException, OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as {kind}: {error}") from None


def read_batches(
    path: PathLike, columns: list[str] | None, ids: Collection[str] = (), size: int = 1 << 20
) -> Iterator[Frame]:
    """Read a file as several pyarrow tables, of which only one at a time is in memory.

    A Parquet file gives tables of at most `size` rows, in which ids that are text are dictionaries. The checksums of
    its pages are compared. A CSV file gives pieces of some megabytes. If there are several, ids are text. A Feather
    file is read as a whole first. `columns` and `ids` are as in `read_table`.
    """
    with _opened(path) as (path, kind):
        if kind in ("csv", "tsv") and path.stat().st_size > _PIECE:
            yield from _delimited_pieces(path, kind, ids)
        elif kind != "parquet":
            table = read_table(path, columns, ids)
            yield from (table.slice(start, size) for start in range(0, max(1, table.num_rows), size))
        else:
            import pyarrow as pa
            from pyarrow import parquet

            how = {"page_checksum_verification": True, "read_dictionary": list(ids)}
            with parquet.ParquetFile(path, **how, pre_buffer=False) as file:  # a buffer would keep all of it in memory
                for batch in file.iter_batches(size, columns=columns):
                    yield pa.Table.from_batches([batch])


def column_names(path: PathLike) -> list[str] | None:
    """The column names of a Parquet file, without reading its rows; None for other tables."""
    if table_kind(path) != "parquet":
        return None
    with _opened(path) as (path, _):
        from pyarrow import parquet

        return list(parquet.read_schema(path).names)


def write_table(table: Frame, path: PathLike) -> None:
    """Write a pyarrow table. The file appears only when it is complete."""
    kind = table_kind(path)
    if kind in ("csv", "tsv"):
        from pyarrow import csv

        with replace_file(path) as out:
            csv.write_csv(_without_formulas(table), out, csv.WriteOptions(delimiter=_DELIMITERS[kind]))
        return
    about = dict.fromkeys(_CHECKSUMS, json.dumps(_checksums(table)))
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **about})
    with draft_of(path) as draft:
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, draft, write_page_checksum=True)
        else:
            from pyarrow import feather

            feather.write_feather(table, str(draft))


# Parquet and Feather.


def _read_parquet(path: Path, columns: list[str] | None, verify: bool) -> Frame:
    from pyarrow import parquet

    with parquet.ParquetFile(path, page_checksum_verification=verify) as file:
        schema, about = file.schema_arrow, file.metadata
        chosen = columns if set(schema.names) >= set(columns or ()) else None
        count = len(chosen or schema.names)
        what, remedy = f"{about.num_rows} rows of {count} columns", "name fewer columns in features=, or split the file"
        check_room(about.num_rows * count * 8, what, remedy)
        table = file.read(columns=chosen)
    known = _carried(schema) if verify else None
    if known is not None and set(known) != set(schema.names):
        raise DataError("the columns are not those that were written: the file is damaged")
    return table.replace_schema_metadata(schema.metadata)


def has_checksums(path: PathLike) -> bool:
    """Whether a Parquet or Feather file has checksums of its columns."""
    from pyarrow import dataset

    return _carried(dataset.dataset(path, format=table_kind(path)).schema) is not None


def _carried(schema: Frame) -> dict[str, int] | None:
    """The checksums in a file; None if it has none. They are there twice, so that damage to a key is noticed."""
    first, again = ((schema.metadata or {}).get(name) for name in _CHECKSUMS)
    if first != again:
        raise DataError("the checksums themselves do not match: the file is damaged")
    return None if first is None else json.loads(first)


def _compare_checksums(table: Frame) -> None:
    expected = _carried(table.schema)
    if expected is None:
        return
    for name, found in _checksums(table).items():
        if expected.get(name) != found:
            raise DataError(f"column {name!r} does not match its checksum: the file is damaged")


def _checksums(table: Frame) -> dict[str, int]:
    return dict(zip(table.column_names, run_shards(_column_checksum, list(table.columns))))


def _column_checksum(column: Frame) -> int:
    """CRC-32 of a column's type and values. It does not depend on the column's chunks.

    The values of lists are their numbers, those of text are its bytes and the lengths.
    """
    import pyarrow.types as kinds

    crc, chunks = 0, column.chunks
    if kinds.is_fixed_size_list(column.type):
        crc, chunks = column.type.list_size, [chunk.flatten() for chunk in chunks]
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        texts = column.cast("large_binary").combine_chunks()
        ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
        letters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
        parts = [letters, np.diff(ends)]
    else:
        parts = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
    for part in parts:
        crc = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).data, zlib.crc32(part.dtype.str.encode(), crc))
    return crc


# CSV.


def _delimited_pieces(path: Path, kind: str, ids: Collection[str]) -> Iterator[Frame]:
    """Tables from some megabytes of lines each, with the column names of the first line."""
    import pyarrow as pa

    for before, content in pieces_of_lines(path, _PIECE):
        try:
            table = _checked_csv(path, content, kind, before)
            texts = [name for name in dict.fromkeys(ids) if name in table.column_names]
            if texts:
                written = _read_csv(content, kind, texts)
                for name in texts:
                    table = table.set_column(table.column_names.index(name), name, written[name])
        except pa.ArrowException as error:
            raise DataError(f"{path}, after line {before + 1}: cannot be read as {kind}: {error}") from None
        yield _without_apostrophes(table)


def _without_apostrophes(table: Frame) -> Frame:
    """The inverse of `_without_formulas`."""
    import pyarrow.compute as pc

    return _with_texts(table, lambda texts: pc.replace_substring_regex(texts, "^'(" + _FORMULA[1:] + ")", r"\1"))


def _checked_csv(path: Path, content: bytearray, kind: str, before: int = 0) -> Frame:
    """The table from a text, after checks. `before` lines of the file are left out after its first line."""
    import pyarrow as pa

    refuse_zeros(path, content, before)
    _check_quotes(path, content, before)
    table = _read_csv(content, kind)
    _check_header(path, table.column_names, kind)
    for name in table.column_names:
        if pa.types.is_binary(table[name].type):
            raise DataError(f"{path}: column {name[:40]!r} is not UTF-8 text: convert the file (iconv -t UTF-8)")
    if b"0x" in content or b"0X" in content:  # pyarrow would read it as a number
        _refuse_hexadecimal(table, path, content, kind)
    return table


def _read_csv(content: bytearray, kind: str, texts: list[str] | None = None) -> Frame:
    """The table, or only the columns `texts`, as text."""
    import pyarrow as pa
    from pyarrow import csv

    options: Facts = {"parse_options": csv.ParseOptions(delimiter=_DELIMITERS[kind])}
    if texts is not None:
        types = dict.fromkeys(texts, "string")
        options["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=texts)
    try:
        return csv.read_csv(pa.BufferReader(content), **options)
    except pa.ArrowInvalid:  # one thread counts the rows, so that the error says which one is wrong
        return csv.read_csv(pa.BufferReader(content), csv.ReadOptions(use_threads=False), **options)


def _check_quotes(path: Path, content: bytearray, left_out: int = 0) -> None:
    """Raise an error for a quote that does not close on its line. pyarrow would add the next lines to its field."""
    first, inside = content.find(b'"'), 0
    for start in range(first, len(content), _PIECE) if first >= 0 else ():
        letters = np.frombuffer(content, np.uint8, min(_PIECE, len(content) - start), start)
        quotes = np.flatnonzero(letters == ord('"'))
        ends = np.flatnonzero((letters == ord("\n")) | (letters == ord("\r")))
        odd = np.flatnonzero((np.searchsorted(quotes, ends) + inside) % 2)
        inside = (inside + len(quotes)) % 2
        last = start + len(letters) == len(content)
        if len(odd) or (inside and last):
            before = content[: start + ends[odd[0]]] if len(odd) else content
            raise open_quote(path, (before.count(b"\n") or before.count(b"\r")) + 1 + left_out)


def _check_header(path: Path, names: list[str], kind: str) -> None:
    """Raise an error if the first line is data, has another delimiter, or gives two columns the same name."""
    other = next((mark for mark in ";\t," if mark in names[0] and mark != _DELIMITERS[kind]), None)
    if len(names) == 1 and other is not None:
        raise DataError(
            f"{path}: the first line ({names[0][:40]}) separates columns by {other!r}, expected "
            f"{_DELIMITERS[kind]!r} in a .{kind} file; save it with that, and with points in numbers"
        )
    if sum(decimal(name) is not None for name in names) > len(names) // 2:
        start = ",".join(names[:4]) + (",…" if len(names) > 4 else "")
        raise DataError(
            f"{path}: the first line ({start}) has numbers, expected the names of the columns; write a line such as "
            "label,qid,f1,f2,… above it"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: two columns are called {twice[:40]!r}: rename one of them")


def _refuse_hexadecimal(table: Frame, path: Path, content: bytearray, kind: str) -> None:
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    names = [name for name in table.column_names if kinds.is_integer(table[name].type)]
    written = _read_csv(content, kind, names) if names else table
    for name in names:
        odd = pc.match_substring_regex(written[name], "^ *0[xX]").to_numpy(zero_copy_only=False).astype(bool)
        if odd.any():
            row = int(np.argmax(odd))
            raise DataError(
                f"{path}: column {name!r} holds {written[name][row].as_py()!r} at row {row}, expected a decimal number"
            )


def _with_ids(table: Frame, content: bytearray, kind: str, ids: Collection[str]) -> Frame:
    """The table with columns of ids as text, if reading them as numbers would change them (007) or join two ids."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    numeric = [name for name in dict.fromkeys(ids) if name in table.column_names]
    # pyarrow reads 1 and true as booleans, and a column of NA and "" as one without values
    read_otherwise = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_null)
    numeric = [name for name in numeric if any(is_so(table[name].type) for is_so in read_otherwise)]
    written = _read_csv(content, kind, numeric) if numeric else table
    for name in numeric:
        numbers, texts = table[name], pc.utf8_trim_whitespace(written[name])
        if numbers.null_count == 0:
            odd = pc.any(pc.match_substring_regex(texts, r"^[+-]?(0[0-9]|[0-9]{16})")).as_py()  # numbers drop digits
            same = pc.count_distinct(numbers).as_py() == pc.count_distinct(texts).as_py()
            changed = not same or (odd and not pc.all(pc.equal(pc.cast(numbers, "string"), texts)).as_py())
        else:
            changed = kinds.is_null(numbers.type)
        if changed:
            table = table.set_column(table.column_names.index(name), name, texts)
    return table


def _without_formulas(table: Frame) -> Frame:
    """Put an apostrophe before texts and names that a spreadsheet would run as formulas. Reading removes it."""
    import pyarrow.compute as pc

    def kept(texts: Frame) -> Frame:
        runs = pc.and_not(pc.match_substring_regex(texts, _FORMULA), pc.match_substring_regex(texts, _DECIMAL))
        return pc.if_else(runs, pc.binary_join_element_wise("'", texts, ""), texts)

    return _with_texts(table, kept)


def _with_texts(table: Frame, change: Callable[[Frame], Frame]) -> Frame:
    """The table with `change` applied to its columns of text and to the column names."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table.column(place).type):
            table = table.set_column(place, name, change(table.column(place)))
    return table.rename_columns(change(pa.array(table.column_names, "string")).to_pylist())
