"""Reading LETOR/SVMlight text: rows ``label [qid:id] index:value … [# comment]``, and the small files beside them."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from tempfile import gettempdir
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from hingerank.data.blocks import number
from hingerank.data.checks import OneQueryWarning, decimal, warn, warn_one_query
from hingerank.data.files import COMPRESSIONS, TEXTS, DataError, PathLike, scratch_folder
from hingerank.data.letor_table import Misfit, Options, ReadingPlan, TextTable, windows
from hingerank.data.ranking_data import RankingData
from hingerank.data.streams import TextSource, whole_text
from hingerank.kernels.text import QID_PRESENT, spell, whole_numbers

Paths = PathLike | Sequence[PathLike]
Progress = Callable[[float], None]


def _say_nothing(share: float) -> None:
    """Report no progress."""


def read_text(
    path: Paths,
    *,
    dtype: DTypeLike = "float64",
    sparse: bool | None = None,
    missing: str = "error",
    index_base: int | None = None,
    n_features: int | None = None,
    docids: bool = True,
    query: Paths | None = None,
    qid_in_comment: bool | None = None,
    max_features: int = 1 << 25,
    one_query: bool = False,
    progress: Progress | None = None,
) -> RankingData:
    """Read rows ``label [qid:id] index:value … [# comment]`` from one file, or from several files as if they were one.

    The rows are in file order. Each number is the double nearest to its text, like ``float(text)``. With float32 that
    double is rounded once more.

    Parameters
    ----------
    path : path or sequence of paths
        Plain or compressed text.
    dtype : {"float64", "float32"}
        The type of X. Labels are always float64.
    sparse : bool, optional
        True makes X a CSR matrix, False a dense array. None makes it dense if the file has at least a quarter of all
        values, or the table is tiny.
    missing : {"error", "zero", "nan"}
        What a value ``NULL``, ``NaN`` or ``NA`` becomes. An absent index always means 0.
    index_base : {0, 1}, optional
        The index of the first feature. None: 0 if an index 0 occurs, else 1. If a ranker was trained on another file,
        pass that file's (``index_base=train.index_base``), because feature 0 may be absent from these rows.
    n_features : int, optional
        Number of columns of X. None: as many as the largest index needs.
    docids : bool
        Keep the comments as document ids. ``# docid = X`` (and LETOR 4's ``inc = … prob = …`` after it) gives the id X.
        Any other comment is an id as a whole, and a row without a comment gets "".
    query : path or sequence of paths, optional
        File(s) with the number of rows of each query, for data without ``qid:``. For ``data.txt`` the files
        ``data.txt.query``, ``data.query``, ``data.txt.group`` and ``data.group`` in its folder are found automatically.
    qid_in_comment : bool, optional
        True: the comment is the query id, as in Yandex's files. None means True if no line has ``qid:``, there is no
        file of counts, and the comments are whole numbers that mostly repeat from line to line.
    max_features : int
        A larger index is an error, so that a typing mistake cannot fill the memory.
    one_query : bool
        True: if there are no query ids, all rows form one query, without a warning.
    progress : callable, optional
        Called with the fraction of the input read so far, from 0 to 1. It starts again at 0 if a later line does not
        fit the format of the first ones, for example if it has a feature that they lack.

    Returns
    -------
    RankingData
        `qid` holds integers if every id in the file is an integer, else strings. If there are no query ids, all rows
        form one query with the id 0, and there is a warning.
    """
    options = {
        "dtype": dtype, "sparse": sparse, "missing": missing, "index_base": index_base, "n_features": n_features,
        "docids": docids, "qid_in_comment": qid_in_comment, "max_features": max_features,
    }  # fmt: skip
    return read_parts(_listed(path), query=query, one_query=one_query, progress=progress, **options)[0]


def read_parts(
    paths: Sequence[PathLike],
    *,
    query: Paths | None = None,
    one_query: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[RankingData, list[int]]:
    """`read_text` for several files. Returns the data and the number of rows of each file."""
    sources = _sources(paths)
    table = _parse(sources, Options(**options), progress or _say_nothing)
    rows = _row_counts(table, sources)
    rule = _choose_rule(table, sources, rows, query)
    data = _assemble(table, rule)
    if rule.qid is None and not one_query:
        warn_one_query(data.y, f"{sources[0].path}: {_GIVE_IDS}")
    elif rule.qid is not None and len(rows) > 1:
        _warn_shared(data.qid, rows, sources)
    return data, rows


def _warn_shared(qid: np.ndarray, rows: list[int], sources: list[TextSource]) -> None:
    """Warn of a query with rows in several files, unless they follow each other across the border of two files."""
    starts = np.flatnonzero(np.concatenate(([True], qid[1:] != qid[:-1])))
    file = np.searchsorted(np.cumsum(rows), starts, side="right")
    codes, first = number(qid[starts])
    apart = np.flatnonzero(file[first][codes] != file)
    if len(apart):
        at = apart[0]
        places = f"{sources[file[first][codes[at]]].path} and in {sources[file[at]].path}"
        many = len(np.unique(codes[apart]))
        warn(
            f"query {qid[starts[at]]} is in {places}, and its rows count as one query ({many:,} such queries); if ids "
            "start again in every file, number the queries of all files differently"
        )


def read_pieces(
    path: Paths,
    *,
    piece_bytes: int = 1 << 28,
    query: Paths | None = None,
    one_query: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Iterator[RankingData]:
    """Read text larger than memory in pieces of about `piece_bytes` of text, in file order.

    The text is read twice. The first pass finds what all pieces must have in common: the features, the types of ids,
    and dense or sparse. A query may continue in the next piece. ``save_binary(read_pieces(path), folder)`` makes a
    folder that can be memory-mapped.

    Parameters
    ----------
    path : path or sequence of paths
    piece_bytes : int
    query, one_query, progress, **options
        As in `read_text`.
    """
    sources, asked, report = _sources(_listed(path)), Options(**options), progress or _say_nothing
    seen = _seen(sources, asked, lambda done: report(done / 2))
    rows = _row_counts(seen, sources)
    rule = _choose_rule(seen, sources, rows, query)
    if rule.qid is None and not one_query:
        what = f"there are no query ids, and all {sum(rows):,} rows count as one query"
        warn(f"{sources[0].path}: {what}; {_GIVE_IDS}", OneQueryWarning)
    plan, (most, name) = seen.fitting(), seen.limit
    if plan.base == 0 and seen.largest >= most:  # one more than if they counted from 1
        raise DataError(f"{sources[0].path}: the features are 0 to {seen.largest}, expected at most {most} ({name})")
    table = TextTable(replace(asked, n_features=plan.width, index_base=plan.base), plan)
    first, size, table.whole = 0, 0, False
    for window in windows(sources):
        table.add(window)
        size += window.length
        report(0.5 + window.fraction / 2)
        if size >= piece_bytes and table.rows:
            yield _assemble(table, rule, first)
            first, size = first + table.rows, 0
            table.forget()
    if table.rows:
        yield _assemble(table, rule, first)


def _sources(paths: Sequence[PathLike]) -> list[TextSource]:
    if not paths:
        raise DataError("there is no file to read: the list of paths is empty")
    return [TextSource(path) for path in paths]


def _listed(path: Paths) -> list[PathLike]:
    return [path] if isinstance(path, str | os.PathLike) else list(path)


def _parse(sources: list[TextSource], options: Options, report: Progress) -> TextTable:
    """The table of all rows.

    The plan is made from the first lines. If later ones do not fit it, it is made from all of them.
    """
    for most in (1, None):
        with suppress(Misfit):
            plan = _seen(sources, options, report, most=most).fitting()
            table = _seen(sources, options, report, plan)
            if table.fitting().dense == plan.dense:
                return table
            del table  # two of them may not fit in memory
    raise Misfit.of(sources[0].path)


def _seen(
    sources: list[TextSource],
    options: Options,
    report: Progress,
    plan: ReadingPlan | None = None,
    most: int | None = None,
) -> TextTable:
    """The table of all rows, or of the first `most` windows. Without a plan it says what the rows have in common."""
    table = TextTable(options, plan)
    with closing(windows(sources, most)) as found:  # also if a line is wrong
        for window in found:
            table.add(window)
            if plan is None:
                table.forget()
            report(window.fraction)
    return table


def _row_counts(table: TextTable, sources: list[TextSource]) -> list[int]:
    """The number of rows of each source. A source without rows, or no feature in any, is an error."""
    rows = [table.source_rows.get(i, 0) for i in range(len(sources))]
    if 0 in rows:
        raise DataError(f"{sources[rows.index(0)].path}: no rows, expected lines 'label qid:id index:value …'")
    if table.largest < 0 and table.options.n_features is None:
        raise DataError(f"{sources[0].path}: no line has a feature, expected 'label qid:id index:value …'")
    return rows


_GIVE_IDS = (
    "write qid:ID into every line, or the number of rows of each query into a file beside it (with the same name and "
    ".query), or pass one_query=True if it is one query"
)


def warm_reader() -> None:
    """Compile every kernel that `read_text` uses, by reading a few lines."""
    with scratch_folder(gettempdir()) as folder:
        path = folder / "rows.txt"
        path.write_text("1 qid:a 2:0.5 1:1e30 # c\n0 qid:b 3:2 # x\n", encoding="utf-8")
        for dtype in ("float64", "float32"):
            read_text(path, dtype=dtype)
        path.write_text("1 1:0.5 # 1\n0 1:2 # 1\n", "utf-8")
        read_text(path, one_query=True)


# Query and document ids: where in the text they are, and as arrays.


class IdRule(NamedTuple):
    """How a finished table gives the ids of its rows, the first of which has a number among all rows."""

    qid: Callable[[TextTable, int], np.ndarray] | None  # None: all rows are one query
    docids: bool  # whether the comments are document ids


def _choose_rule(table: TextTable, sources: list[TextSource], rows: list[int], query: Paths | None) -> IdRule:
    """Take query ids from the lines if they have any, else from files of counts, else from comments."""
    path, comments, in_comment = sources[0].path, table.comments, table.options.qid_in_comment
    docids = table.options.docids and comments.any
    if table.qid_style == QID_PRESENT:
        for asked, name in ((query is not None, "query="), (in_comment, "qid_in_comment=True")):
            if asked:
                raise DataError(f"{path}: the lines have 'qid:', so {name} cannot be used as well; leave it out")
        return IdRule(lambda part, _: _ids(part, 0, table.qid_is_text, path), docids)
    counted = _qid_from_counts(sources, rows, query)
    if counted is not None:
        return IdRule(lambda part, first: counted[first : first + part.rows], docids)
    if in_comment and comments.first_empty >= 0:
        raise DataError(f"{path}: qid_in_comment=True, but data row {comments.first_empty + 1} has no comment")
    if in_comment or (in_comment is None and comments.look_like_query_ids):
        return IdRule(lambda part, _: _ids(part, 1, not comments.whole, path), False)
    return IdRule(None, docids)


def _assemble(table: TextTable, rule: IdRule, first_row: int = 0) -> RankingData:
    """The rows of a finished table. The first of them is row number `first_row` of all rows."""
    qid = np.zeros(table.rows, np.int64) if rule.qid is None else rule.qid(table, first_row)
    docid = _strings(*table.texts, 1) if rule.docids else None
    return RankingData(table.features(), table.y.finish(table.rows), qid, docid, index_base=table.plan.base)


def _ids(table: TextTable, which: int, as_text: bool, path: str) -> np.ndarray:
    """The query ids of a table, from its lines (which=0) or comments (which=1), as text or as numbers."""
    if as_text:
        return _strings(*table.texts, which)
    numbers = np.empty(table.rows, np.int64)
    if not whole_numbers(*table.texts, which, numbers):
        raise Misfit.of(path)  # `read_pieces` found numbers before
    return numbers


def _strings(letters: np.ndarray, spans: np.ndarray, which: int) -> np.ndarray:
    """The ids in `letters` as a NumPy array of str. Its width is fixed, unless a few long ids would waste memory."""
    longest = max(1, int(spans[:, which].max()))
    fixed = len(spans) * longest <= 4 * len(letters) + 16 * len(spans) + 4096
    if fixed and letters.max(initial=0) < 128:
        points = np.zeros((len(spans), longest), np.uint32)
        spell(letters, spans, which, points)
        return points.view(f"U{longest}")[:, 0]
    ends = np.cumsum(spans.ravel(), dtype=np.int64).reshape(-1, 2)[:, which].tolist()
    content, lengths = letters.tobytes(), spans[:, which].tolist()
    texts = [content[end - length : end].decode() for end, length in zip(ends, lengths)]
    return np.array(texts, f"U{longest}" if fixed else np.dtypes.StringDType())


# Small files with one number per line: scores, and numbers of rows per query.


def read_scores(path: PathLike) -> np.ndarray:
    """Read a file with one score per line. It may be compressed. Blank lines are allowed only at the end.

    >>> from pathlib import Path
    >>> _ = Path("scores.txt").write_text("0.5\\n-2e-3\\n")
    >>> read_scores("scores.txt").tolist()
    [0.5, -0.002]
    """
    return np.array(_numbers(path, "a finite number, one score per line"), np.float64)


def read_counts(path: PathLike) -> np.ndarray:
    """Read the number of rows of each query, in row order: LightGBM's ``.query`` and XGBoost's ``.group`` files."""
    counts = np.array(_numbers(path, "a number of rows, one query per line"), np.float64)
    bad = np.flatnonzero((counts < 0) | (counts != np.floor(counts)) | (counts > 2**53))
    if len(bad):
        raise DataError(f"{os.fspath(path)}: found {counts[bad[0]]:g} as a number of rows, expected whole numbers >= 0")
    return counts.astype(np.int64)


def _numbers(path: PathLike, expected: str) -> list[float]:
    numbers = []
    content = whole_text(path).rstrip()
    for line, text in enumerate(content.split("\n") if content else [], start=1):
        word = text.strip(" \t\r")
        value = decimal(word)
        if value is None:
            found = repr(word[:40]) if word else "nothing"
            raise DataError(f"{os.fspath(path)}, line {line}: found {found}, expected {expected}")
        numbers.append(value)
    return numbers


def _qid_from_counts(sources: Sequence[TextSource], rows: Sequence[int], query: Paths | None) -> np.ndarray | None:
    """The query number 0, 1, … of each row, from one file of counts for each source; None without such files."""
    if query is not None:
        files = [os.fspath(each) for each in _listed(query)]
        if len(files) != len(sources):
            raise DataError(f"query= names {len(files)} files for {len(sources)} data files, expected one for each")
    else:
        files = [name for source in sources if (name := _find_counts(source.path))]
        if len(files) < len(sources):
            return None
    counts = [read_counts(name) for name in files]
    for name, count, source, n_rows in zip(files, counts, sources, rows):
        if count.sum() != n_rows:
            raise DataError(f"{name}: the counts add up to {count.sum()} rows, but {source.path} has {n_rows}")
    together = np.concatenate(counts)
    return np.repeat(np.arange(len(together)), together)


def _find_counts(path: str) -> str | None:
    """The file of counts in the folder of the data file `path`: .query or .group follows its name, with or without its
    endings such as .gz and .txt."""
    names = [path]
    for known in (COMPRESSIONS, (*TEXTS, ".csv", ".tsv")):
        stem, last = os.path.splitext(names[-1])
        names += [stem] if last.lower() in known else []
    found = [name + suffix for suffix in (".query", ".group") for name in names if os.path.isfile(name + suffix)]
    return found[0] if found else None
