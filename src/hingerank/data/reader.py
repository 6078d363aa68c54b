"""Reading ranking data: `read` for any kind of file this package knows, `read_text` for LETOR/SVMlight text."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.line_windows import windows
from hingerank.data.number_files import read_scores
from hingerank.data.ranking_data import RankingData
from hingerank.data.text_files import SUFFIXES, TextSource
from hingerank.data.text_ids import Comments, assemble, choose_rule
from hingerank.data.text_table import Options, Plan, Replan, TextTable, dense_enough, first_plan
from hingerank.kernels.parse import spread_rows

__all__ = ["read", "read_parts", "read_pieces", "read_scores", "read_text", "warm_reader"]

PathLike = str | os.PathLike
FRAME_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".feather", ".arrow")


def read(path: PathLike | Sequence[PathLike], **options: Any) -> RankingData:
    """Read ranking data: a file, several files one after the other, or a folder.

    Text files hold one row per line, ``label [qid:id] index:value … [# comment]`` (LETOR, SVMlight), plain or
    compressed (.gz, .xz, .bz2, .zst): see `read_text` for the options. CSV and Parquet files are tables with named
    columns, and a folder made by ``hingerank convert`` is memory-mapped. A folder with S1…S5 or Fold1…Fold5 gives all
    its rows, each once; `read_folds` gives its folds.

    >>> from pathlib import Path
    >>> _ = Path("two.txt").write_text("2 qid:7 1:0.5 3:1 # a\\n0 qid:7 2:0.25 # b\\n")
    >>> data = read("two.txt")
    >>> data.X.tolist(), data.y.tolist(), data.qid.tolist(), data.docid.tolist()
    ([[0.5, 0.0, 1.0], [0.0, 0.25, 0.0]], [2.0, 0.0], [7, 7], ['a', 'b'])
    """
    if isinstance(path, str | os.PathLike):
        if os.path.isdir(path):
            return _read_folder(Path(path), options)
        if _plain_suffix(path) in FRAME_SUFFIXES:
            from hingerank.data.frames import read_frame_file

            return read_frame_file(path, **options)
    return read_text(path, **options)


def read_text(
    path: PathLike | Sequence[PathLike],
    *,
    dtype: Any = "float64",
    sparse: bool | None = None,
    missing: str = "error",
    index_base: int | None = None,
    n_features: int | None = None,
    docids: bool = True,
    query: PathLike | Sequence[PathLike] | None = None,
    qid_in_comment: bool | None = None,
    max_features: int = 1 << 25,
    progress: Callable[[float], None] | None = None,
) -> RankingData:
    """Rows ``label [qid:id] index:value … [# comment]`` of one file, or of several as if they were one, in file order.

    Each number is the double nearest to its text, as ``float(text)``; with float32 that double rounded once more.

    Parameters
    ----------
    path : a file, or several.
    dtype : "float64" or "float32", of X. Labels are always float64.
    sparse : True for CSR, False for a dense array; None: dense if at least a quarter of all values is written out
        (or the table is tiny).
    missing : what a value ``NULL``, ``NaN`` or ``NA`` means: "error", "zero" or "nan". An absent index always means 0.
    index_base : the first feature's index, 0 or 1; None: 0 if an index 0 occurs, else 1. Rows for a ranker that learnt
        from another file need that file's (``index_base=train.index_base``): feature 0 may not occur in them.
    n_features : number of columns of X; None: as many as the largest index needs.
    docids : keep the comments. ``# docid = X`` (and LETOR 4's ``inc = … prob = …`` after it) gives X as the document
        id, any other comment is one as a whole, a row without comment gets "".
    query : file(s) with the number of rows of each query, for data without ``qid:``; ``<path>.query`` and
        ``<path>.group`` are found by themselves.
    qid_in_comment : True: the comment is the query id (Yandex); None: so if no line has ``qid:``, no counts file is
        there, and the comments are whole numbers that mostly repeat from line to line.
    max_features : refuse larger indices, so that a typing mistake cannot fill the memory.
    progress : called with the share of the input read so far, from 0 to 1 (it starts again where a line proves that the
        first ones were misleading, say by a query id that is no number).

    Returns
    -------
    RankingData; `qid` holds integers if every id is written as one, else strings. Without any query ids all rows form
    one query, 0.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    data, _ = read_parts(
        paths,
        query,
        progress,
        dtype=dtype,
        sparse=sparse,
        missing=missing,
        index_base=index_base,
        n_features=n_features,
        docids=docids,
        qid_in_comment=qid_in_comment,
        max_features=max_features,
    )
    return data


def read_parts(
    paths: Sequence[PathLike],
    query: PathLike | Sequence[PathLike] | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> tuple[RankingData, list[int]]:
    """`read_text` of several files, and the number of rows of each."""
    sources = [TextSource(each) for each in paths]
    table, X = _parse(sources, Options(**options), progress)
    rows = rows_of_sources(table.source_rows, table.largest, table.options, sources)
    comments = Comments()
    comments.add(table)
    rule = choose_rule(table.options, comments, table.qid_style, sources, rows, query)
    return assemble(table, X, rule), rows


def read_pieces(
    path: PathLike | Sequence[PathLike],
    *,
    piece_bytes: int = 1 << 28,
    query: PathLike | Sequence[PathLike] | None = None,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Iterator[RankingData]:
    """`read_text` piece by piece, for text larger than memory: about `piece_bytes` of text each, in file order.

    The text is read twice: first to learn what all pieces must agree in (features, types of ids, dense or sparse). A
    query may go on in the next piece. ``save_binary(read_pieces(path), folder)`` makes a folder to be memory-mapped.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    sources = [TextSource(each) for each in paths]
    asked = Options(**options)
    half = (lambda share: progress(share / 2)) if progress is not None else None
    table, comments, rows = _survey(sources, asked, half)
    rule = choose_rule(asked, comments, table.qid_style, sources, rows, query)
    table.whole = False
    first, size = 0, 0
    try:
        for window in windows(sources):
            table.add(window)
            size += window.length
            if progress is not None:
                progress(0.5 + window.share / 2)
            if size >= piece_bytes and table.rows:
                yield assemble(table, table.features(), rule, first)
                first, size, table = first + table.rows, 0, table.successor()
        if table.rows:
            yield assemble(table, table.features(), rule, first)
    except (Replan, DataError) as error:  # the first reading found nothing wrong
        raise DataError(f"{sources[0].path}: the text changed while it was being read") from error


def _parse(sources: list[TextSource], options: Options, progress: Callable | None) -> tuple[TextTable, Any]:
    plan = first_plan(options)
    while True:
        table = TextTable(options, plan)
        try:
            for window in windows(sources):
                table.add(window)
                if progress is not None:
                    progress(window.share)
            rows_of_sources(table.source_rows, table.largest, options, sources)
            return table, table.features()
        except Replan as better:
            plan = better.plan


def _survey(
    sources: list[TextSource], options: Options, progress: Callable | None
) -> tuple[TextTable, Comments, list[int]]:
    """Parse everything and keep nothing: (an empty table that fits all rows, their comments, rows of each source)."""
    plan = Plan(dense=False, base=first_plan(options).base)
    while True:
        table, comments = TextTable(options, plan), Comments()
        largest, entries, source_rows = -1, 0, dict.fromkeys(range(len(sources)), 0)
        try:
            for window in windows(sources):
                table.add(window)
                comments.add(table)
                largest, entries = max(largest, table.largest), entries + table.entries
                source_rows[window.source] += table.rows
                table = table.successor()
                if progress is not None:
                    progress(window.share)
        except Replan as better:
            plan = better.plan
            continue
        rows = rows_of_sources(source_rows, largest, options, sources)
        width = largest + 1 if options.n_features is None else options.n_features
        dense = dense_enough(entries, sum(rows), width) if options.sparse is None else not options.sparse
        fixed = replace(options, n_features=width, index_base=plan.base)
        settled = replace(plan, dense=dense, settled=True)
        return TextTable(fixed, settled, table.qid_style), comments, rows


def rows_of_sources(
    source_rows: dict[int, int], largest: int, options: Options, sources: list[TextSource]
) -> list[int]:
    """Rows of each source; none may be empty, and some line must have a feature."""
    if not sources:
        raise DataError("no file to read: the list of paths is empty")
    rows = [source_rows.get(i, 0) for i in range(len(sources))]
    if 0 in rows:
        raise DataError(f"{sources[rows.index(0)].path}: no rows, expected lines 'label qid:id index:value …'")
    if largest < 0 and options.n_features is None:
        raise DataError(f"{sources[0].path}: no line has a feature, expected 'label qid:id index:value …'")
    return rows


def _plain_suffix(path: PathLike) -> str:
    name = os.fspath(path).lower()
    return Path(name).suffix if not name.endswith(SUFFIXES) else Path(name[: name.rindex(".")]).suffix


def _read_folder(folder: Path, options: dict[str, Any]) -> RankingData:
    from hingerank.data.folds import folder_files

    files = folder_files(folder)
    if files:
        return read_text(files, **options)
    from hingerank.data.binary import load_binary

    return load_binary(folder, **options)


def warm_reader() -> None:
    """Compile every kernel that `read` uses, on a few lines."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.txt"
        path.write_text("1 qid:a 2:0.5 1:1e30 # café\n0 qid:b 3:2 # x\n", encoding="utf-8")
        for dtype in ("float64", "float32"):
            read_text(path, dtype=dtype)
        path.write_text("1 1:0.5 # 1\n0 1:2 # 1\n")
        read_text(path)
    for kind in (np.float64, np.float32):
        spread_rows(np.zeros(4, kind), 1, 2, 4)
