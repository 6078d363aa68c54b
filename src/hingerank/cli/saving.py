"""Which writer a name asks for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
        from hingerank.data.writer import write

        return write
    raise ValueError(
        f"cannot tell from its ending what {target} should be: end it in / for a binary folder, in .parquet or .csv "
        f"for a table, or in {', '.join(TEXT)} for text, with {', '.join(COMPRESSED)} after it to compress"
    )
