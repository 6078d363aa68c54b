"""Folders of cross-validation folds: LETOR's S1…S5 and Fold1…Fold5/{train,vali,test}.

Of five parts, fold k trains on S_k, S_{k+1}, S_{k+2}, validates on S_{k+3} and tests on S_{k+4}; S_6 is S_1.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.ranking_data import Fold
from hingerank.data.reader import read_parts

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
