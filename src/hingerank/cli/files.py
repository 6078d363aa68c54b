"""Open a data set in any form, with a progress bar and errors in the command line's words."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hingerank.cli.output import progress
from hingerank.data.files import DataError

_WORDS = {  # what the library suggests -> how the command line spells it
    'missing="zero" or missing="nan"': "--missing zero or --missing nan",
    "missing='zero' or 'nan'": "--missing zero or --missing nan",
    "since index_base=1 was given": "as in the text that the model learnt from",
}


def open_data(
    path: Path,
    missing: str = "error",
    n_features: int | None = None,
    dtype: str = "float64",
    index_base: int | None = None,
) -> Any:
    """The RankingData at `path`. n_features: how many features a model expects; a text file whose rows never reach the
    last ones is read again with them as zeros, and a warning says so. index_base: the number that the text which the
    model learnt from gives its first feature, and so this text too."""
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
    """What the library suggests in an error, spelt as the command line spells it."""
    try:
        yield
    except DataError as error:
        message = str(error)
        for said, here in _WORDS.items():
            message = message.replace(said, here)
        raise DataError(message) from error


def is_text(path: Path) -> bool:
    """Whether `path` is one file of LETOR or SVMlight text."""
    from hingerank.data.letor import FRAME_SUFFIXES

    return path.is_file() and not any(suffix in FRAME_SUFFIXES for suffix in path.suffixes)


def _open(path: Path, missing: str, dtype: str, index_base: int | None, **options: Any) -> tuple[Any, bool]:
    """The data, and whether it is text, whose number of features is only a guess."""
    from hingerank.data.binary import is_binary
    from hingerank.data.letor import FRAME_SUFFIXES, folder_files, read

    if is_binary(path):
        return read(path), False
    options |= {"missing": missing, "dtype": dtype}
    if any(suffix in FRAME_SUFFIXES for suffix in path.suffixes) and not path.is_dir():
        return read(path, **options), False
    options["index_base"] = index_base
    if path.is_dir():
        if not folder_files(path):
            raise DataError(
                f"{path}: a folder with neither binary data (made by hingerank convert) nor S1…S5, Fold1…Fold5 or "
                "train, vali and test files; name a file in it"
            )
        return read(path, **options), True
    if not is_text(path):  # a pipe, which cannot be read twice
        return read(path, **options), False
    with progress(f"reading {path.name}", share=True) as advance:
        return read(path, **options, progress=advance), True


# Which writer a name asks for.


TEXT = (".txt", ".svm", ".svmlight", ".libsvm", ".letor", ".dat", ".data")
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
TABLES = (".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".tsv.gz")


def writes_folder(target: str) -> bool:
    """Whether the name asks for a binary folder."""
    place = Path(target)
    return target.endswith("/") or place.is_dir() or not place.suffix


def choose_writer(target: str, force: bool) -> Callable[[Any, Path], Any]:
    """A function (data, path) for the ending of `target`; a ValueError where it cannot or must not be written."""
    place = Path(target)
    name = place.name.lower()
    if place.exists() and not force:
        raise ValueError(f"{target} exists: pass --force to replace it, or name another place")
    if not place.absolute().parent.is_dir():
        raise ValueError(f"cannot write {target}: there is no folder {place.parent}")
    if writes_folder(target):
        from hingerank.data.binary import save_binary

        return lambda data, path: save_binary(data, path, overwrite=force)
    if name.endswith(TABLES):
        from hingerank.data.frames import write_frame_file

        return write_frame_file
    plain = name.removesuffix(place.suffix) if place.suffix in COMPRESSED else name
    if plain.endswith(TEXT):
        from hingerank.data.letor_writer import write

        return write
    raise ValueError(
        f"cannot tell from its ending what {target} should be: end it in / for a binary folder, in .parquet or .csv "
        f"for a table, or in {', '.join(TEXT)} for text, with {', '.join(COMPRESSED)} after it to compress"
    )
