"""Reading ranking data: `read` for any kind of file this package knows, `read_text` for LETOR/SVMlight text."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.line_windows import windows
from hingerank.data.number_files import find_counts, read_counts, read_scores
from hingerank.data.ranking_data import RankingData
from hingerank.data.text_files import SUFFIXES, TextSource
from hingerank.data.text_table import Options, Replan, TextTable, first_plan
from hingerank.kernels.parse import QID_PRESENT, spread_rows
from hingerank.kernels.tokens import spell, whole_numbers

__all__ = ["read", "read_parts", "read_scores", "read_text", "warm_reader"]

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
    index_base : the first feature's index, 0 or 1; None: 0 if an index 0 occurs, else 1.
    n_features : number of columns of X; None: as many as the largest index needs.
    docids : keep the comments. ``# docid = X`` (and LETOR 4's ``inc = … prob = …`` after it) gives X as the document
        id, any other comment is one as a whole, a row without comment gets "".
    query : file(s) with the number of rows of each query, for data without ``qid:``; ``<path>.query`` and
        ``<path>.group`` are found by themselves.
    qid_in_comment : True: the comment is the query id (Yandex); None: so if no line has ``qid:``, no counts file is
        there, and the comments are whole numbers that mostly repeat from line to line.
    max_features : refuse larger indices, so that a typing mistake cannot fill the memory.
    progress : called with the share of the input read so far, from 0 to 1.

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
    if not paths:
        raise DataError("no file to read: the list of paths is empty")
    sources = [TextSource(each) for each in paths]
    table, X = _parse(sources, Options(**options), progress)
    return _ranking_data(table, X, sources, query), [table.source_rows[i] for i in range(len(sources))]


def _parse(sources: list[TextSource], options: Options, progress: Callable | None) -> tuple[TextTable, Any]:
    plan = first_plan(options)
    while True:
        table = TextTable(options, plan)
        try:
            for window in windows(sources):
                table.add(window)
                if progress is not None:
                    progress(window.share)
            _check_content(table, sources)
            return table, table.features()
        except Replan as better:
            plan = better.plan


def _check_content(table: TextTable, sources: list[TextSource]) -> None:
    empty = [source.path for i, source in enumerate(sources) if not table.source_rows.get(i)]
    if empty:
        raise DataError(f"{empty[0]}: no rows, expected lines 'label qid:id index:value …'")
    if table.largest < 0 and table.options.n_features is None:
        raise DataError(f"{sources[0].path}: no line has a feature, expected 'label qid:id index:value …'")


def _ranking_data(table: TextTable, X: Any, sources: list[TextSource], query: Any) -> RankingData:
    spans = table.spans.finish(table.rows, 2)
    letters = table.letters.finish(table.n_letters + 1)  # one more, since kernels look ahead
    letters[-1] = 10
    qid = table.qid.finish(table.rows)
    y = table.y.finish(table.rows)
    comments_taken = False
    if table.qid_style == QID_PRESENT:
        if query is not None:
            raise DataError(f"{sources[0].path}: the lines have 'qid:', so query= cannot be used as well")
        if table.options.qid_in_comment:
            raise DataError(f"{sources[0].path}: the lines have 'qid:', so qid_in_comment=True cannot be used as well")
        if table.plan.qid_is_text:
            qid = _strings(letters, spans, 0)
    else:
        counted = _qid_from_counts(table, sources, query)
        if counted is not None:
            qid = counted
        elif table.options.qid_in_comment is not False:
            comment_qid = _qid_from_comments(table, letters, spans, sources)
            comments_taken = comment_qid is not None
            qid = comment_qid if comment_qid is not None else qid
    docid = None
    if table.options.docids and not comments_taken and spans[:, 1].any():
        docid = _strings(letters, spans, 1)
    return RankingData(X, y, qid, docid)


def _qid_from_counts(table: TextTable, sources: list[TextSource], query: Any) -> np.ndarray | None:
    """Query numbers 0, 1, … from counts files, one for each source; None if there are none."""
    if query is not None:
        files = [os.fspath(query)] if isinstance(query, str | os.PathLike) else [os.fspath(each) for each in query]
        if len(files) != len(sources):
            raise DataError(f"query= names {len(files)} counts files for {len(sources)} data files")
    else:
        found = [find_counts(source.path) for source in sources]
        files = [name for name in found if name is not None]
        if len(files) < len(sources):
            return None
    counts = [read_counts(name) for name in files]
    for i, (name, count) in enumerate(zip(files, counts)):
        if count.sum() != table.source_rows[i]:
            raise DataError(
                f"{name}: the counts add up to {count.sum()} rows, but {sources[i].path} has {table.source_rows[i]}"
            )
    together = np.concatenate(counts)
    return np.repeat(np.arange(len(together)), together)


def _qid_from_comments(
    table: TextTable, letters: np.ndarray, spans: np.ndarray, sources: list[TextSource]
) -> np.ndarray | None:
    numbers = np.empty(table.rows, np.int64)
    whole = whole_numbers(letters, spans, numbers)
    if table.options.qid_in_comment is None:
        runs = 1 + np.count_nonzero(numbers[1:] != numbers[:-1])
        return numbers if whole and table.rows > 1 and 2 * runs <= table.rows else None
    if not spans[:, 1].all():
        raise DataError(
            f"{sources[0].path}: qid_in_comment=True, but data row {_first_empty(spans) + 1} has no comment"
        )
    return numbers if whole else _strings(letters, spans, 1)


def _first_empty(spans: np.ndarray) -> int:
    return int(np.flatnonzero(spans[:, 1] == 0)[0])


def _strings(letters: np.ndarray, spans: np.ndarray, which: int) -> np.ndarray:
    """The ids in `letters` as a numpy array of str: fixed width, unless a few very long ones would waste memory."""
    longest = max(1, int(spans[:, which].max()))
    if len(spans) * longest <= 4 * len(letters) + 16 * len(spans) + 4096:
        points = np.zeros((len(spans), longest), np.uint32)
        spell(letters, spans, which, points)
        return points.view(f"U{longest}")[:, 0]
    ends = np.cumsum(spans.ravel()).reshape(-1, 2)[:, which].tolist()
    whole, lengths = letters.tobytes(), spans[:, which].tolist()
    return np.array([whole[e - n : e].decode() for e, n in zip(ends, lengths)], np.dtypes.StringDType())


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
