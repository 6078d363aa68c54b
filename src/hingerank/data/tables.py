"""Files of tables: Parquet, Feather and CSV, read and written with pyarrow. The ending of the name says which kind.

pyarrow is optional, so other modules import this one where they need it.

Parquet and Feather files have a checksum of every column in their schema. Parquet files also have one of every page,
but these do not cover names, types and the file's directory. A column's checksum is of the values that are read.
"""

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hingerank.arrays import Facts, Frame
from hingerank.data.checks import DECIMAL, decimal
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
from hingerank.data.memory import check_room
from hingerank.data.streams import open_quote, pieces_of_lines, refuse_zeros, whole_bytes
from hingerank.kernels.threads import run_shards

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, feather, parquet
except ImportError:
    raise DataError("files of tables need pyarrow: pip install 'hingerank[frames]'") from None

_CHECKSUMS = (b"hingerank:crc32", b"hingerank:crc32 again")  # keys in the schema; both have {column: checksum} as JSON
_FORMULA = r"^'*[=+\-@\t\r]"  # the start of a text that a spreadsheet would run as a formula, or that is escaped
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_PIECE = 1 << 24  # bytes of a CSV file that `read_batches` reads at a time


def table_kind(path: PathLike) -> str:
    """The kind of a table's file, by its name: "parquet", "feather", "csv" or "tsv"."""
    holds, packed = endings(path)
    kind = TABLES.get(holds)
    if kind is None or (packed and kind not in _DELIMITERS):
        raise DataError(
            f"{path}: the name does not say what kind of table it is; expected {', '.join(TABLES)}; only .csv and .tsv "
            f"may be compressed ({', '.join(COMPRESSIONS)})"
        )
    return kind


def read_table(
    path: PathLike, columns: list[str] | None = None, ids: Collection[str] = (), verify: bool = True
) -> Frame:
    """Read Parquet, Feather, or CSV (plain or compressed) as a pyarrow table.

    If a Parquet file has all of `columns`, only these are read. `ids` are columns of ids, which in a CSV file may look
    like numbers without being some: 007 is not 7, 1.10 not 1.1. `verify` compares the checksums of Parquet and Feather
    files.
    """
    with _opened(path) as (path, kind):
        if kind in _DELIMITERS:
            return _read_csv(path, whole_bytes(path, by_name=True), kind, ids)
        if kind == "parquet":
            table = _read_parquet(path, columns, verify)
        else:
            table = feather.read_table(path)
            table.validate(full=True)  # pyarrow would follow offsets that lead outside the file's arrays
        if verify and (expected := _carried(table.schema)) is not None:
            for name, found in _checksums(table).items():
                if expected.get(name) != found:
                    raise DataError(f"column {name!r} does not match its checksum: the file is damaged")
        return table


@contextmanager
def _opened(path: PathLike) -> Iterator[tuple[Path, str]]:
    """The path and kind of a table that exists. Errors of pyarrow become a DataError that names the path."""
    path, kind = Path(path), table_kind(path)
    if not path.is_file():
        raise DataError(no_such_file(path))
    try:
        yield path, kind
    except DataError as error:
        raise (error if str(path) in error.problem else error.at(path)) from None
    except (pa.ArrowException, OSError, EOFError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as {kind}: {error}") from None


def read_batches(
    path: PathLike, choose: Callable[[list[str]], list[str]], ids: Collection[str] = (), size: int = 1 << 20
) -> Iterator[Frame]:
    """Read a file as several pyarrow tables, of which only one at a time is in memory.

    A Parquet file gives tables of at most `size` rows, with the columns that `choose` takes of those that are there.
    Ids that are text are dictionaries, and the checksums of the pages are compared. A CSV file gives pieces of some
    megabytes. If there are several, ids are text. A Feather file is read as a whole first. `ids` is as in `read_table`.
    """
    with _opened(path) as (path, kind):
        if kind in _DELIMITERS and path.stat().st_size > _PIECE:
            for before, content in pieces_of_lines(path, _PIECE):
                try:
                    yield _read_csv(path, content, kind, ids, before)
                except pa.ArrowException as error:
                    where = f"{path}, after line {before + 1}"
                    raise DataError(f"{where}: cannot be read as {kind}: {error}") from None
        elif kind != "parquet":
            table = read_table(path, None, ids)
            yield from (table.slice(start, size) for start in range(0, max(1, table.num_rows), size))
        else:
            known = parquet.read_schema(path).names
            how = {"page_checksum_verification": True, "read_dictionary": list({*ids} & {*known})}
            with parquet.ParquetFile(path, **how, pre_buffer=False) as file:  # a buffer would keep all of it in memory
                for batch in file.iter_batches(size, columns=choose(known)):
                    yield pa.Table.from_batches([batch])


def write_table(table: Frame, path: PathLike) -> None:
    """Write a pyarrow table. The file appears only when it is complete."""
    kind = table_kind(path)
    if kind in _DELIMITERS:
        with replace_file(path) as out:
            csv.write_csv(_with_texts(table, _escaped), out, csv.WriteOptions(delimiter=_DELIMITERS[kind]))
        return
    fields = [f.with_type(pa.timestamp("ms")) if f.type == pa.timestamp("s") else f for f in table.schema]
    table = table.cast(pa.schema(fields, table.schema.metadata))  # Parquet has no seconds
    about = dict.fromkeys(_CHECKSUMS, json.dumps(_checksums(table)))
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **about})
    with draft_of(path) as draft:
        if kind == "parquet":
            parquet.write_table(table, draft, write_page_checksum=True)
        else:
            feather.write_feather(table, str(draft))


# Parquet and Feather.


def _read_parquet(path: Path, columns: list[str] | None, verify: bool) -> Frame:
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
    schema = parquet.read_schema(path) if table_kind(path) == "parquet" else pa.ipc.open_file(path).schema
    return _carried(schema) is not None


def _carried(schema: Frame) -> dict[str, int] | None:
    """The checksums in a file; None if it has none. They are there twice, so that damage to a key is noticed."""
    first, again = ((schema.metadata or {}).get(name) for name in _CHECKSUMS)
    if first != again:
        raise DataError("the checksums themselves do not match: the file is damaged")
    return None if first is None else json.loads(first)


def _checksums(table: Frame) -> dict[str, int]:
    return dict(zip(table.column_names, run_shards(_column_checksum, list(table.columns))))


def _column_checksum(column: Frame) -> int:
    """CRC-32 of a column's type and values. It does not depend on the column's chunks.

    The values of lists are their numbers, those of text are its bytes and the lengths.
    """
    crc, chunks = 0, column.chunks
    if pa.types.is_fixed_size_list(column.type):
        crc, chunks = column.type.list_size, [chunk.flatten() for chunk in chunks]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
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


def _read_csv(
    path: Path, content: bytes | bytearray, kind: str, ids: Collection[str], before: int | None = None
) -> Frame:
    """The table from a text, after checks.

    before: the text is a piece of the file, in which that many lines are left out after the first; all ids are text.
    """
    refuse_zeros(path, content, before or 0)
    _check_quotes(path, content, before or 0)
    first = re.match(rb"[\r\n]*[^\r\n]*", content)[0]  # type: ignore[index]
    _check_header(path, _parsed(first + b"\n", kind).column_names, kind)  # other mistakes follow from those in it
    table = _parsed(content, kind)
    types = {name: table[name].type for name in table.column_names}
    for name in types:
        if pa.types.is_binary(types[name]):
            raise DataError(f"{path}: column {name[:40]!r} is not UTF-8 text: convert the file (iconv -t UTF-8)")
    named = [name for name in types if name in ids and (before is not None or not pa.types.is_string(types[name]))]
    hexadecimal = b"0x" in content or b"0X" in content  # pyarrow would read such numbers
    whole = [name for name in types if hexadecimal and name not in ids and pa.types.is_integer(types[name])]
    written = _parsed(content, kind, [*whole, *named]) if whole or named else table
    for name in whole:
        row = pc.index(pc.match_substring_regex(written[name], "^ *0[xX]"), True).as_py()
        if row >= 0:
            found = f"column {name!r} holds {written[name][row].as_py()!r} at row {row}"
            raise DataError(f"{path}: {found}, expected a decimal number")
    for name in named:
        texts = written[name] if before is not None else _ids(table[name], written[name])
        table = table.set_column(table.column_names.index(name), name, texts)
    return _with_texts(table, lambda texts: pc.replace_substring_regex(texts, "^'(" + _FORMULA[1:] + ")", r"\1"))


def _parsed(content: bytes | bytearray, kind: str, texts: list[str] | None = None) -> Frame:
    """The table, or only the columns `texts`, as text."""
    options: Facts = {"parse_options": csv.ParseOptions(delimiter=_DELIMITERS[kind])}
    if texts is not None:
        types = dict.fromkeys(texts, "string")
        options["convert_options"] = csv.ConvertOptions(column_types=types, include_columns=texts)
    try:
        return csv.read_csv(pa.BufferReader(content), **options)
    except pa.ArrowInvalid:  # one thread counts the rows, so that the error says which one is wrong
        return csv.read_csv(pa.BufferReader(content), csv.ReadOptions(use_threads=False), **options)


def _ids(read: Frame, written: Frame) -> Frame:
    """A column of ids as it was read, or its text if some id is not written as it was read (007, 1.10, 9:30, NA)."""
    texts = pc.utf8_trim_whitespace(written)
    if pa.types.is_time(read.type) or pa.types.is_null(read.type):  # no times in NumPy and in binary folders
        return texts
    plain = pc.fill_null(pc.cast(read, "string"), "")
    pointed = pc.replace_substring_regex(plain, r"^(-?[0-9]+)$", r"\1.0")  # most programs write the float 2 as 2.0
    return read if any(pc.all(pc.equal(form, texts)).as_py() for form in (plain, pointed)) else texts


def _check_quotes(path: Path, content: bytes | bytearray, left_out: int = 0) -> None:
    """Raise an error for a quote that does not close on its line. pyarrow would add the next lines to its field."""
    if b'"' not in content:
        return
    letters = np.frombuffer(content, np.uint8)
    quotes = np.flatnonzero(letters == ord('"'))
    ends = np.append(np.flatnonzero((letters == ord("\n")) | (letters == ord("\r"))), len(letters))
    odd = np.flatnonzero(np.searchsorted(quotes, ends) % 2)
    if len(odd):
        before = bytes(content[: ends[odd[0]]])
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


def _escaped(texts: Frame) -> Frame:
    """Texts with an apostrophe before those that a spreadsheet would run as formulas. Reading removes it."""
    number = pc.match_substring_regex(texts, f"^{DECIMAL.pattern}$")
    runs = pc.and_not(pc.match_substring_regex(texts, _FORMULA), number)
    return pc.if_else(runs, pc.binary_join_element_wise("'", texts, ""), texts)


def _with_texts(table: Frame, change: Callable[[Frame], Frame]) -> Frame:
    """The table with `change` applied to its columns of text and to the column names."""
    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table.column(place).type):
            table = table.set_column(place, name, change(table.column(place)))
    return table.rename_columns(change(pa.array(table.column_names, "string")).to_pylist())
