"""Reading ranking data: `read` for any kind of file this package knows, `read_text` for LETOR/SVMlight text."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.files import SUFFIXES, DataError, TextSource
from hingerank.data.letor_lines import read_scores, windows
from hingerank.data.letor_table import (
    Comments,
    Options,
    Plan,
    Replan,
    TextTable,
    assemble,
    choose_rule,
    dense_enough,
    first_plan,
)
from hingerank.data.ranking_data import Fold, RankingData
from hingerank.kernels.text import spread_rows

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
    from hingerank.data.letor import folder_files

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


# Folders of cross-validation folds: LETOR's S1…S5 and Fold1…Fold5/{train,vali,test}.
#
# Of five parts, fold k trains on S_k, S_{k+1}, S_{k+2}, validates on S_{k+3} and tests on S_{k+4}; S_6 is S_1.


_ENDING = r"(\.txt|\.dat|\.svm|\.libsvm)?(\.gz|\.xz|\.bz2|\.zst)?"
_PART = re.compile(rf"S(\d+){_ENDING}", re.IGNORECASE)
_ROLE = re.compile(rf"(?:Fold(\d+)[._-])?(train|vali|valid|validation|test){_ENDING}", re.IGNORECASE)
_FOLD = re.compile(r"Fold(\d+)", re.IGNORECASE)


def read_folds(folder: str | os.PathLike, folds: Iterable[int] | None = None, **options: Any) -> list[Fold]:
    """Fold(train, validation, test) for each fold in a folder, or for the ones in `folds`, counted from 1.

    The folder holds parts S1…S5 (or any number of at least three), or Fold1…Fold5 with train, vali and test files, or
    the test files of the folds alone, which are the parts; where train and vali files are the same parts again, as in
    LETOR's own sets, each part is read once. `options` are those of `read_text`. All parts are read as one, so they
    agree in features, and a fold's X shares their memory where its rows lie together.

    >>> from pathlib import Path
    >>> Path("five").mkdir()
    >>> for k in range(1, 6):
    ...     _ = Path(f"five/S{k}.txt").write_text(f"1 qid:{k} 1:0.5\\n0 qid:{k} 1:0.25\\n")
    >>> [(f.train.blocks.ids.tolist(), f.validation.blocks.ids.tolist(), f.test.blocks.ids.tolist())
    ...  for f in read_folds("five", folds=[1, 4])]
    [([1, 2, 3], [4], [5]), ([4, 5, 1], [2], [3])]
    """
    folder = Path(folder)
    parts, roles = _parts(folder), _roles(folder)
    if not parts and 0 not in roles and all("test" in files for files in roles.values()):
        tests = _parts_from_tests(roles)
        parts = tests if _rotate_tests(roles, tests) else {}
    numbers = sorted(parts or roles)
    if not numbers or numbers == [0]:
        raise DataError(f"{folder}: no folds here, expected files S1…S5 or Fold1…Fold5 with train, vali and test")
    wanted = numbers if folds is None else list(folds)
    unknown = [k for k in wanted if k not in numbers]
    if unknown:
        raise DataError(f"{folder}: there is no fold {unknown[0]}, only {', '.join(map(str, numbers))}")
    if parts:
        return _rotate(folder, parts, wanted, options)
    return [_read_fold(folder, roles[k], k, options) for k in wanted]


def folder_files(folder: str | os.PathLike) -> list[Path]:
    """Files that together hold every row of the folder once: the parts, or the folds' test files; [] if neither."""
    folder = Path(folder)
    parts, roles = _parts(folder), _roles(folder)
    if parts:
        return [parts[k] for k in sorted(parts)]
    if set(roles) == {0}:  # a single fold
        return [roles[0][role] for role in Fold._fields if role in roles[0]]
    return [roles[k]["test"] for k in sorted(roles) if "test" in roles[k]]


def _rotate(folder: Path, parts: dict[int, Path], wanted: list[int], options: dict[str, Any]) -> list[Fold]:
    """LETOR's rule over parts 1…n."""
    n = len(parts)
    if n < 3 or sorted(parts) != list(range(1, n + 1)):
        found = ", ".join(parts[k].name for k in sorted(parts))
        raise DataError(f"{folder}: the parts are {found}; expected at least three, numbered from 1 without a gap")
    data, sizes = read_parts([parts[k] for k in range(1, n + 1)], **options)
    rows = np.split(np.arange(data.n_rows), np.cumsum(sizes)[:-1])
    folds = []
    for k in wanted:
        *train, validation, test = rows[k - 1 :] + rows[: k - 1]
        folds.append(Fold(data.take(np.concatenate(train)), data.take(validation), data.take(test)))
    return folds


def _read_fold(folder: Path, files: dict[str, Path], k: int, options: dict[str, Any]) -> Fold:
    lacking = [role for role in Fold._fields if role not in files]
    if lacking:
        raise DataError(f"{folder}: fold {k} has no {lacking[0]} file")
    data, sizes = read_parts([files[role] for role in Fold._fields], **options)
    return Fold(*(data.take(rows) for rows in np.split(np.arange(data.n_rows), np.cumsum(sizes)[:-1])))


def _parts(folder: Path) -> dict[int, Path]:
    """part number -> S file."""
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        match = _PART.fullmatch(path.name)
        if match and path.is_file():
            _add(found, int(match[1]), path)
    return found


def _roles(folder: Path) -> dict[int, dict[str, Path]]:
    """fold number -> role -> file; number 0 for train, vali and test files in the folder itself."""
    found: dict[int, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        if (inner := _FOLD.fullmatch(path.name)) and path.is_dir():
            for file in sorted(path.iterdir()):
                if (match := _ROLE.fullmatch(file.name)) and not match[1]:
                    _add(found.setdefault(int(inner[1]), {}), _role(match[2]), file)
        elif (match := _ROLE.fullmatch(path.name)) and path.is_file():
            _add(found.setdefault(int(match[1] or 0), {}), _role(match[2]), path)
    return found


def _add(found: dict, key: Any, path: Path) -> None:
    if key in found:
        raise DataError(f"{path.parent}: both {found[key].name} and {path.name} are there; keep one of them")
    found[key] = path


def _role(word: str) -> str:
    return "validation" if word.lower().startswith("val") else word.lower()


def _parts_from_tests(roles: dict[int, dict[str, Path]]) -> dict[int, Path]:
    """Fold k of n tests on part k − 1, fold 1 on part n."""
    return {k - 1 or len(roles): files["test"] for k, files in roles.items()}


def _rotate_tests(roles: dict[int, dict[str, Path]], parts: dict[int, Path]) -> bool:
    """Whether the folds' other files, byte by byte, are these parts by LETOR's rule, so that reading each part once is
    enough; also if there are no other files."""
    n = len(parts)
    if all(set(files) == {"test"} for files in roles.values()):
        return True
    if (
        n < 3
        or sorted(parts) != list(range(1, n + 1))
        or any(set(files) != set(Fold._fields) for files in roles.values())
    ):
        return False
    for k, files in roles.items():
        *train, validation, _ = [parts[(k - 1 + i) % n + 1] for i in range(n)]
        if not (_same_bytes(files["train"], train) and _same_bytes(files["validation"], [validation])):
            return False
    return True


def _same_bytes(whole: Path, pieces: list[Path]) -> bool:
    """Whether the pieces one after the other are the whole file."""
    if whole.stat().st_size != sum(piece.stat().st_size for piece in pieces):
        return False
    with open(whole, "rb") as file:
        for piece in pieces:
            with open(piece, "rb") as part:
                while block := part.read(1 << 20):
                    if file.read(len(block)) != block:
                        return False
    return True
