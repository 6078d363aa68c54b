"""Open a data set in any form, with a progress bar and errors in the command line's words."""

from pathlib import Path
from typing import Any

from hingerank.cli.output import progress
from hingerank.data.errors import DataError


def open_data(path: Path, missing: str = "error", n_features: int | None = None, dtype: str = "float64") -> Any:
    """The RankingData at `path`; `n_features`: how many features a model expects, since the last ones may be absent
    from every row of a text file."""
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    try:
        return _open(path, missing, n_features, dtype)
    except DataError as error:
        words = str(error).replace('missing="zero" or missing="nan"', "--missing zero or --missing nan")
        raise DataError(words) from error


def _open(path: Path, missing: str, n_features: int | None, dtype: str) -> Any:
    from hingerank.data.folds import folder_files
    from hingerank.data.reader import FRAME_SUFFIXES, read

    options: dict[str, Any] = {"missing": missing, "dtype": dtype}
    if path.is_dir():  # the binary form has its values already, so it takes no options
        return read(path, **options) if folder_files(path) else read(path)
    if any(suffix in FRAME_SUFFIXES for suffix in path.suffixes):
        return read(path, **options)
    if n_features is not None:
        options["n_features"] = n_features
    with progress(f"reading {path.name}", share=True) as advance:
        return read(path, **options, progress=advance)
