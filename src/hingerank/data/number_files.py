"""Small files of one number per line beside the data: scores, and counts of rows per query."""

import math
import os
import re
from pathlib import Path

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.line_windows import windows
from hingerank.data.text_files import SUFFIXES, TextSource

_DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_scores(path: str | os.PathLike) -> np.ndarray:
    """scores[i] = the number on line i; compressed files are fine, blank lines only at the end.

    >>> from pathlib import Path
    >>> _ = Path("scores.txt").write_text("0.5\\n-2e-3\\n")
    >>> read_scores("scores.txt").tolist()
    [0.5, -0.002]
    """
    return np.array(_numbers(path, "a finite number, one score per line"), np.float64)


def read_counts(path: str | os.PathLike) -> np.ndarray:
    """counts[q] = rows of query q, in row order: LightGBM's ``.query`` and XGBoost's ``.group`` files."""
    counts = np.array(_numbers(path, "a number of rows, one query per line"), np.float64)
    bad = np.flatnonzero((counts < 0) | (counts != np.floor(counts)) | (counts > 2**53))
    if len(bad):
        raise DataError(f"{os.fspath(path)}: {counts[bad[0]]:g} is no number of rows; expected whole numbers from 0 up")
    return counts.astype(np.int64)


def find_counts(path: str) -> str | None:
    """The counts file beside the data file `path`: its name plus .query or .group, with or without .gz and the like."""
    names = [path, path.removesuffix(Path(path).suffix)] if path.endswith(SUFFIXES) else [path]
    found = [name + suffix for name in names for suffix in (".query", ".group") if os.path.isfile(name + suffix)]
    return found[0] if found else None


def _numbers(path: str | os.PathLike, expected: str) -> list[float]:
    numbers: list[float] = []
    number = blank = 0
    for window in windows([TextSource(path)]):
        for line in bytes(window.buffer[: window.length - 1]).split(b"\n"):
            word, number = line.strip(b" \t\r"), number + 1
            if not word:
                blank = blank or number
                continue
            value = float(word) if not blank and _DECIMAL.fullmatch(word) else math.nan
            if not math.isfinite(value):
                found, number = (
                    (repr(word[:40].decode("utf-8", "replace")), number) if not blank else ("nothing", blank)
                )
                raise DataError(f"{os.fspath(path)}, line {number}: found {found}, expected {expected}")
            numbers.append(value)
    return numbers
