"""Reading and writing ranking data. The path says which kind: text, a table, a binary folder, or a folder of folds."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.binary import load_binary, save_binary
from hingerank.data.files import ROLES, DataError, PathLike, find_folds, fold_files, kind_to_read, kind_to_write
from hingerank.data.letor import read_parts, read_text
from hingerank.data.letor_writer import write_text
from hingerank.data.ranking_data import FoldParts, RankingData, turns
from hingerank.data.rows_view import RowsView


def read(path: PathLike | Sequence[PathLike], **options: Any) -> RankingData:
    """Read ranking data from a file, from several text files one after the other, or from a folder.

    Parameters
    ----------
    path : path or sequence of paths
        Text files hold one row per line, ``label [qid:id] index:value … [# comment]`` (LETOR, SVMlight), plain or
        compressed (.gz, .xz, .bz2, .zst). Files that end in .csv, .tsv, .parquet or .feather are tables with named
        columns. A folder made by `write` or ``hingerank convert`` is memory-mapped. From a folder with S1…S5 or
        Fold1…Fold5 every row is read once; `read_folds` reads its folds.
    **options
        For text, the parameters of ``hingerank.data.letor.read_text``. For a table, those of `RankingData.from_frame`.
        For tables and binary folders ``verify=False`` does not compare checksums.

    Returns
    -------
    RankingData

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("two.txt").write_text("2 qid:7 1:0.5 3:1 # a\\n0 qid:7 2:0.25 # b\\n")
    >>> data = read("two.txt")
    >>> data.X.tolist(), data.y.tolist(), data.qid.tolist(), data.docid.tolist()
    ([[0.5, 0.0, 1.0], [0.0, 0.25, 0.0]], [2.0, 0.0], [7, 7], ['a', 'b'])
    """
    if not isinstance(path, str | os.PathLike):
        paths = list(path)
        other = next((each for each in paths if kind_to_read(each) != "text"), None)
        if other is not None:
            raise DataError(
                f"{os.fspath(other)}: several paths must be text files; read tables and folders one by one, and join "
                "them with RankingData.concatenate"
            )
        return read_text(paths, **options)
    kind = kind_to_read(path)
    if kind == "text":
        return read_text(path, **options)
    if kind == "table":
        return read_table_file(path, **options)
    if kind == "binary":
        return load_binary(path, **options)
    if kind == "folds":
        return read_text(fold_files(path), **options)
    if any(find_folds(path)):
        raise DataError(f"{os.fspath(path)}: the folds have no test files, which together hold every row; name a file")
    raise DataError(
        f"{os.fspath(path)}: this folder has neither binary data (made by hingerank convert) nor S1…S5, Fold1…Fold5 or "
        "train, vali and test files; name a file in it"
    )


def write(data: RankingData, path: PathLike, **options: Any) -> None:
    """Write ranking data, which `read(path)` reads again. The file or folder appears only when it is complete.

    Parameters
    ----------
    data : RankingData
    path : path
        The path decides what is written. A path that ends in a slash, has no ending, or is a folder: a binary folder.
        It replaces an older binary folder, but never any other folder. A path that ends in .parquet, .feather, .csv or
        .tsv: a table. A path that ends in .txt, .svm, .letor or .dat: text. A further .gz, .xz, .bz2 or .zst compresses
        text, .csv and .tsv.
    **options
        For text, ``index_base=0`` counts features from 0. For a table, ``layout="list"`` puts all features of a row
        into one column. For a binary folder, ``overwrite=False`` raises an error if there is one already.

    Examples
    --------
    >>> data = RankingData.from_arrays([[0.1, -2.5e-7], [3, 0]], y=[1, 0], qid=["a", "a"])
    >>> write(data, "folder/")
    >>> read("folder") == data
    True
    """
    kind = kind_to_write(path)
    if not isinstance(data, RankingData):
        raise DataError(f"data must be RankingData, such as RankingData.from_arrays makes, not {type(data).__name__}")
    if isinstance(data.X, RowsView):  # rows of a mapped file
        data = replace(data, X=data.X.matrix(f"writing {os.fspath(path)}"))
    if kind == "binary":
        save_binary(data, path, **({"overwrite": True} | options))
    elif kind == "table":
        write_table_file(data, path, **options)
    else:
        write_text(data, path, **options)


def read_table_file(
    path: PathLike, *, verify: bool = True, expected: Collection[str] = (), graded: bool = True, **options: Any
) -> RankingData:
    """Read a Parquet, Feather or CSV file. The options are the parameters of `RankingData.from_frame`.

    verify=False does not compare checksums. `expected` names the features of a model: they are the features here if the
    table has them all and no others are named. graded=False needs no column of grades.
    """
    from hingerank.data.frames import DOCID_NAMES, QID_NAMES
    from hingerank.data.tables import read_table, table_kind

    label, qid = options.get("label", "label"), options.get("qid", "qid")
    docid, features = options.get("docid"), options.get("features")
    needed = None
    if docid is not None and features is not None:  # else the columns depend on what the table has
        listed = [features] if isinstance(features, str) else features
        needed = [name for name in (label, qid, docid, *listed) if name]
    table = read_table(path, needed, [name for name in (qid, docid, *QID_NAMES, *DOCID_NAMES) if name], verify=verify)
    if expected and features is None and {*expected} <= {*table.column_names}:
        options["features"] = list(expected)
    if not graded and "label" not in {*options, *table.column_names}:
        options["label"] = None
    try:
        data = RankingData.from_frame(table, **options)
        absent = np.flatnonzero(data.qid == "")
        if len(absent) and table_kind(path) in ("csv", "tsv"):  # which write a missing value as nothing
            raise DataError(f"the query id is empty at row {absent[0]}: give every row an id")
        return data
    except DataError as error:
        raise error.at(path) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {error}") from None


def write_table_file(data: RankingData, path: PathLike, layout: str = "wide") -> None:
    """Write a Parquet, Feather or CSV file, by the ending of its name. CSV has only the wide layout."""
    from hingerank.data.tables import table_kind, write_table

    kind = table_kind(path)
    if kind in ("csv", "tsv") and layout != "wide":
        raise DataError(f"{path}: a {kind} file cannot hold a column of lists; use layout='wide' or Parquet")
    write_table(data.to_frame("pyarrow", layout), path)


# Folders of cross-validation folds: LETOR's S1…S5 and Fold1…Fold5/{train,vali,test}.


def read_folds(folder: PathLike, folds: Iterable[int] | None = None, **options: object) -> list[FoldParts]:
    """Read the folds in a folder: (train, validation, test) of each.

    All parts are read together, so they have the same features. If the rows of a fold are consecutive, its X is a view
    of all rows.

    Parameters
    ----------
    folder : path
        It holds the parts S1…S5 (or another number, at least three), or Fold1…Fold5 with train, vali and test files, or
        only the test files of the folds, which are then the parts. If train and vali files repeat the same parts, as in
        LETOR's own data, each part is read once. With five parts, fold k trains on S_k, S_{k+1}, S_{k+2}, validates on
        S_{k+3} and tests on S_{k+4}, where S_6 is S_1.
    folds : iterable of int, optional
        The numbers of the folds to read, counted from 1; None for all.
    **options
        Parameters of ``hingerank.data.letor.read_text``.

    Examples
    --------
    >>> from pathlib import Path
    >>> Path("five").mkdir()
    >>> for k in range(1, 6):
    ...     _ = Path(f"five/S{k}.txt").write_text(f"1 qid:{k} 1:0.5\\n0 qid:{k} 1:0.25\\n")
    >>> [(f.train.blocks.ids.tolist(), f.validation.blocks.ids.tolist(), f.test.blocks.ids.tolist())
    ...  for f in read_folds("five", folds=[1, 4])]
    [([1, 2, 3], [4], [5]), ([4, 5, 1], [2], [3])]
    """
    folder = Path(folder)
    parts, roles = find_folds(folder)
    if not parts and 0 not in roles and all("test" in files for files in roles.values()):
        tests = {k - 1 or len(roles): files["test"] for k, files in roles.items()}  # fold 1 of n tests on part n
        parts = tests if _are_turns(roles, tests) else {}
    numbers = sorted(parts or roles)
    if not parts and set(roles) <= {0}:
        raise DataError(f"{folder}: no folds here, expected files S1…S5 or Fold1…Fold5 with train, vali and test files")
    wanted = numbers if folds is None else list(folds)
    unknown = [k for k in wanted if k not in numbers]
    if unknown:
        raise DataError(f"{folder}: there is no fold {unknown[0]}, only {', '.join(map(str, numbers))}")
    if not parts:
        return [_read_fold(folder, roles[k], k, options) for k in wanted]
    if len(parts) < 3 or not _numbered(parts):
        found = ", ".join(parts[k].name for k in numbers)
        raise DataError(f"{folder}: the parts are {found}; expected at least three, numbered from 1 without a gap")
    data, rows = _read_rows([parts[k] for k in numbers], options)
    turned = turns(rows)
    chosen = [turned[k - 1] for k in wanted]
    return [
        FoldParts(data.take(np.concatenate(train)), data.take(check), data.take(test)) for train, check, test in chosen
    ]


def _read_fold(folder: Path, files: dict[str, Path], k: int, options: Facts) -> FoldParts:
    lacking = [role for role in ROLES if role not in files]
    if lacking:
        raise DataError(f"{folder}: fold {k} has no {lacking[0]} file, expected {', '.join(ROLES)}")
    data, rows = _read_rows([files[role] for role in ROLES], options)
    return FoldParts(*map(data.take, rows))


def _read_rows(paths: list[Path], options: Facts) -> tuple[RankingData, list[np.ndarray]]:
    """Read files as one. Returns the data and the row numbers of each file."""
    data, sizes = read_parts(paths, **options)
    return data, np.split(np.arange(data.n_rows), np.cumsum(sizes)[:-1])


def _numbered(parts: dict[int, Path]) -> bool:
    return sorted(parts) == list(range(1, len(parts) + 1))


def _are_turns(roles: dict[int, dict[str, Path]], parts: dict[int, Path]) -> bool:
    """Whether the folds' train and vali files consist of these parts by LETOR's rule, byte by byte.

    It is then enough to read each part once. Also True if there are no such files.
    """
    if all(set(files) == {"test"} for files in roles.values()):
        return True
    if len(parts) < 3 or not _numbered(parts) or any(set(files) != set(ROLES) for files in roles.values()):
        return False
    turned = turns([parts[k] for k in sorted(parts)])
    return all(
        _same_bytes(roles[k]["train"], train) and _same_bytes(roles[k]["validation"], [check])
        for k, (train, check, _) in enumerate(turned, start=1)
    )


def _same_bytes(whole: Path, pieces: list[Path]) -> bool:
    """Whether the pieces, one after the other, have the same bytes as the whole file."""
    if whole.stat().st_size != sum(piece.stat().st_size for piece in pieces):
        return False
    with open(whole, "rb") as file:
        for piece in pieces:
            with open(piece, "rb") as part:
                while block := part.read(1 << 20):
                    if file.read(len(block)) != block:
                        return False
    return True
