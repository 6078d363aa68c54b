"""Open a data set in any form, with a progress bar and errors in the command line's words."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hingerank.cli.output import progress
from hingerank.data.files import TABLES, DataError, endings, kind_to_read

if TYPE_CHECKING:
    from hingerank.data.ranking_data import RankingData

_REMEDIES = {  # the library's parameter -> what the command line says instead of naming it
    "missing": "or --missing zero or --missing nan",
    "index_base": "as in the text that the model learnt from",
}


def open_data(
    path: Path,
    missing: str = "error",
    n_features: int | None = None,
    dtype: str = "float64",
    index_base: int | None = None,
) -> "RankingData":
    """The data at `path`.

    Parameters
    ----------
    path : Path
    missing, dtype
        As `hingerank.read` takes them.
    n_features : int, optional
        How many features a model expects; a text file whose rows never reach the last ones is read again with them as
        zeros, and a warning says so.
    index_base : {0, 1}, optional
        The number that the text which the model learnt from gives its first feature, and so this text too.
    """
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    with in_command_words():
        data, may_widen = _open(path, missing, dtype, index_base)
        if index_base == 0 and n_features is not None and data.n_features > n_features and may_widen:
            data, _ = _open(path, missing, dtype, None)  # it has a number too many to count from 0: converted, perhaps
        if may_widen and n_features is not None and data.n_features < n_features:
            warnings.warn(
                f"{path} reaches feature {data.n_features} of the model's {n_features}: the others count as 0",
                stacklevel=2,
            )
            data, _ = _open(path, missing, dtype, index_base, n_features=n_features)
        return data


@contextmanager
def in_command_words() -> Iterator[None]:
    """Errors of the library that name a parameter of it, with the command line's words for it."""
    try:
        yield
    except DataError as error:
        if error.option not in _REMEDIES:
            raise
        raise DataError(error.problem, _REMEDIES[error.option]) from error


def _open(path: Path, missing: str, dtype: str, index_base: int | None, **options: Any) -> tuple["RankingData", bool]:
    """The data, and whether it is text, whose number of features is only a guess."""
    from hingerank.data.read_write import read

    kind = kind_to_read(path)
    if kind == "binary":
        return read(path), False
    options |= {"missing": missing, "dtype": dtype}
    if kind == "table":
        return read(path, **options), False
    options["index_base"] = index_base
    if kind != "text":
        return read(path, **options), True
    if not path.is_file():  # a pipe, which cannot be read twice
        return read(path, **options), False
    with progress(f"reading {path.name}", share=True) as advance:
        return read(path, **options, progress=advance), True


def verify_path(path: Path, missing: str) -> str:
    """Read all of a data set, model file or run folder; what was compared, or an error that names what is damaged."""
    from hingerank.export.model_file import FILE_NAME, load
    from hingerank.lab.leaderboard import load_results

    if path.suffix == Path(FILE_NAME).suffix or (path / FILE_NAME).is_file():
        load(path)
        return "a whole model, its digest is right"
    if (path / "run.json").is_file():
        results = load_results(path)
        tests = [(method, record["fold"]) for method in results.methods for record in results.tests(method)]
        for method, fold in tests:
            results.arrays(method, fold)
        return f"a whole run, the checksums of {len(results.records)} results and of their arrays are right"
    data = open_data(path, missing)
    if kind_to_read(path) == "binary":
        return f"{data.n_rows:,} rows, all checksums are right"
    carried = path.is_file() and _carries_checksum(path)
    return f"{data.n_rows:,} rows read without an error" + (
        ", all checksums are right" if carried else "; this kind of file carries no checksum"
    )


def _carries_checksum(path: Path) -> bool:
    """Whether damage to the file would be noticed: compressed text, and tables that say so in their schema."""
    from hingerank.data.streams import TextSource
    from hingerank.data.tables import has_checksums

    if kind_to_read(path) == "table" and TABLES[endings(path)[0]] in ("parquet", "feather"):
        return has_checksums(path)
    with TextSource(path).open() as stream:
        return stream.kind != "plain"
