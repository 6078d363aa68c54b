"""The binary form: a folder of plain .npy arrays and a JSON header, opened as memory maps without a copy.

    header.json                               format, version, layout, feature names; type, shape and checksum of every
                                              array; a checksum of all that
    X.npy                                     dense features, or
    X_data.npy X_indices.npy X_indptr.npy     CSR features
    y.npy                                     grades (float64)
    qid.npy                                   query ids that are numbers, or
    qid_codes.npy qid_text.npy qid_ends.npy   text: the rows' codes, the distinct ids in UTF-8, where each of them ends
    docid.npy, or docid_text.npy docid_ends.npy    document ids, if any

Anything that reads .npy reads these files; nothing is pickled.
"""

import json
import os
import secrets
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.array_file import open_array
from hingerank.data.binary_writer import BinaryWriter, text_from_bytes
from hingerank.data.errors import DataError
from hingerank.data.ranking_data import RankingData

FORMAT, VERSION, HEADER = "hingerank-data", 1, "header.json"

# array -> its dimensions and the types it may have
_ALLOWED = {
    "X": (2, ("<f4", "<f8")),
    "X_data": (1, ("<f4", "<f8")),
    "X_indices": (1, ("<i4",)),
    "X_indptr": (1, ("<i8",)),
    "y": (1, ("<f8",)),
    "qid": (1, "biufSMm"),
    "docid": (1, "biufSMm"),
    "qid_codes": (1, ("<i8",)),
    "qid_ends": (1, ("<i8",)),
    "qid_text": (1, ("|u1",)),
    "docid_ends": (1, ("<i8",)),
    "docid_text": (1, ("|u1",)),
}


def save_binary(data: RankingData | Iterable[RankingData], folder: Any, *, overwrite: bool = False) -> Path:
    """Write data to a folder that appears whole or not at all, and return its path.

    data: RankingData, or an iterable of parts that are written one after the other (for data larger than memory).
    overwrite: replace a folder that `save_binary` wrote before; any other folder with content is never touched.

    Example
    -------
    >>> import tempfile
    >>> from hingerank.data.generate import make_letor
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = save_binary(make_letor(20), f"{place}/data")
    ...     load_binary(path).n_queries
    20
    """
    target = Path(folder)
    _check_target(target, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _neighbour(target)
    temporary.mkdir()
    try:
        _write(temporary, [data] if isinstance(data, RankingData) else data)
        _move(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return target


def load_binary(folder: Any, *, verify: bool = False) -> RankingData:
    """Open what `save_binary` wrote: arrays are mapped, not read, except text ids. verify=True reads all checksums."""
    folder = Path(folder)
    header = _read_header(folder)
    try:
        for name, entry in header["arrays"].items():
            _check_entry(name, entry)
        arrays = {name: open_array(folder / f"{name}.npy", entry, verify) for name, entry in header["arrays"].items()}
        return _assemble(header, arrays)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataError):
            message = str(error)
        else:
            message = f"the header and the arrays do not fit together ({error!r})"
        raise DataError(message if str(folder) in message else f"{folder}: {message}") from None


def is_binary(folder: Any) -> bool:
    """Does this folder hold the binary form (of any version)?"""
    try:
        return json.loads((Path(folder) / HEADER).read_bytes())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(folder: Path, parts: Iterable[RankingData]) -> None:
    with BinaryWriter(folder) as writer:
        for part in parts:
            writer.add(part)
        header = {"format": FORMAT, "version": VERSION, **writer.finish()}
    header["checksum"] = _checksum(header)
    (folder / HEADER).write_text(json.dumps(header, indent=1) + "\n")


def _checksum(header: dict[str, Any]) -> int:
    rest = {key: value for key, value in header.items() if key != "checksum"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    if not folder.is_dir() or not path.is_file():
        raise DataError(f"{folder}: no binary data here (a folder with a {HEADER}); `hingerank convert` makes it")
    try:
        header = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: no readable JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise DataError(f"{path}: not a header of {FORMAT}")
    if header.get("version") != VERSION:
        raise DataError(
            f"{path}: version {header.get('version')!r} of the format, but this program reads version {VERSION}; "
            "update it, or convert the data again"
        )
    if header.get("checksum") != _checksum(header):
        raise DataError(f"{path}: the checksum differs; the header was changed or damaged")
    return header


def _check_entry(name: str, entry: dict[str, Any]) -> None:
    dimensions, types = _ALLOWED.get(name, (0, ()))
    dtype = entry["dtype"]
    if dtype not in types and not (isinstance(types, str) and np.dtype(dtype).kind in types):
        raise DataError(f"the header names an array {name!r} of type {dtype!r}, which has no place in this format")
    if len(entry["shape"]) != dimensions:
        raise DataError(f"the array {name!r} has shape {entry['shape']}, expected {dimensions} dimensions")


def _assemble(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> RankingData:
    d, y = header["features"], arrays["y"]
    X = arrays["X"] if header["layout"] == "dense" else _csr(arrays, d)
    qid = arrays["qid"] if "qid" in arrays else _text_qid(arrays)
    docid = arrays.get("docid")
    if "docid_text" in arrays:
        docid = text_from_bytes(arrays["docid_text"], arrays["docid_ends"])
    names = header["feature_names"]
    lengths = [X.shape[0], len(y), len(qid)] + ([] if docid is None else [len(docid)])
    if len(set(lengths)) > 1 or X.shape[1] != d or (names is not None and len(names) != d):
        raise DataError(f"the arrays do not fit together: X has shape {X.shape}, y, qid and docid {lengths[1:]} rows")
    if not np.isfinite(y).all():
        raise DataError("y holds values that are not finite; the data are damaged")
    return RankingData(X, y, qid, docid, None if names is None else tuple(names))


def _csr(arrays: dict[str, np.ndarray], n_features: int) -> sp.csr_matrix:
    data, indices, indptr = (arrays[f"X_{part}"] for part in ("data", "indices", "indptr"))
    damaged = indptr[0] != 0 or indptr[-1] != len(data) or len(indices) != len(data) or (np.diff(indptr) < 0).any()
    if damaged or (len(indices) and not 0 <= indices.min() <= indices.max() < n_features):
        raise DataError("the places of the sparse features are damaged")  # kernels do not check bounds again
    return sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_features))


def _text_qid(arrays: dict[str, np.ndarray]) -> np.ndarray:
    ids = text_from_bytes(arrays["qid_text"], arrays["qid_ends"])
    codes = arrays["qid_codes"]
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(ids):
        raise DataError("the codes of the query ids are damaged")
    return ids[codes]


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir():
        raise DataError(f"{target}: a file is in the way; the binary form is a folder")
    if not is_binary(target):
        raise DataError(f"{target}: the folder holds something else; choose another name")
    if not overwrite:
        raise DataError(f"{target}: the folder holds data already; pass overwrite=True to replace them")


def _move(temporary: Path, target: Path) -> None:
    """Rename into place; data that were there go aside first and come back if the renaming fails."""
    if not target.exists() or not any(target.iterdir()):
        os.replace(temporary, target)
        return
    aside = _neighbour(target)
    os.replace(target, aside)
    try:
        os.replace(temporary, target)
    except BaseException:
        os.replace(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _neighbour(target: Path) -> Path:
    """A name beside the target that nobody uses."""
    return target.parent / f".{target.name}.{secrets.token_hex(6)}"
