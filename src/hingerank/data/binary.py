"""The binary form: a folder of plain .npy arrays and a JSON header, opened as memory maps without a copy.

    header.json                               format, version, layout, feature names, index of the first feature in the
                                              text; type, shape and checksum of every array; the header's own checksum
    X.npy                                     dense features, or
    X_data.npy X_indices.npy X_indptr.npy     CSR features
    y.npy                                     grades (float64)
    qid.npy                                   query ids that are numbers, or
    qid_codes.npy qid_text.npy qid_ends.npy   query ids that are text: a code per row, the distinct ids in UTF-8, and
                                              the position where each of them ends
    docid.npy, or docid_text.npy docid_ends.npy    document ids, if any

Any program that reads .npy files can read these; nothing is pickled. Opening a folder compares the checksums.
"""

import json
import os
import zlib
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Facts, Matrix
from hingerank.data.blocks import check_grades, number_values
from hingerank.data.files import BINARY_FORMAT, BINARY_HEADER, DataError, PathLike, draft_of, is_binary
from hingerank.data.ranking_data import RankingData

VERSION = 1
_NPY_BYTES = 128  # size of the header of an .npy file

_FLOATS, _WHOLE, _BYTES, _IDS = ("<f4", "<f8"), ("<i8",), ("|u1",), "biufSMm"
_ALLOWED = {  # array -> the types that it may have (a tuple), or NumPy's letters for the kinds of types
    "X": _FLOATS, "X_data": _FLOATS, "X_indices": ("<i4",), "X_indptr": _WHOLE, "y": ("<f8",),
    "qid": _IDS, "qid_codes": _WHOLE, "qid_ends": _WHOLE, "qid_text": _BYTES,
    "docid": _IDS, "docid_ends": _WHOLE, "docid_text": _BYTES,
}  # fmt: skip


def save_binary(data: RankingData | Iterable[RankingData], folder: PathLike, *, overwrite: bool = False) -> Path:
    """Write data to a folder and return its path. The folder appears only when it is complete.

    Parameters
    ----------
    data : RankingData or iterable of RankingData
        An iterable is written part by part, so the data may be larger than memory.
    folder : path
    overwrite : bool
        True replaces a folder that `save_binary` wrote before. Any other folder with content is never changed.

    Examples
    --------
    >>> import tempfile
    >>> from hingerank.data.generate import make_letor
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = save_binary(make_letor(20), f"{place}/data")
    ...     load_binary(path).n_queries
    20
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise DataError(f"{target}: this is a file, but binary data need a folder; choose another name")
    if target.is_dir() and any(target.iterdir()):
        if not is_binary(target):
            raise DataError(f"{target}: the folder holds something other than binary data; choose another name")
        if not overwrite:
            raise DataError(f"{target}: the folder holds data already; pass overwrite=True to replace them")
    with draft_of(target) as draft:
        draft.mkdir()
        with _Writer(draft) as writer:
            for part in [data] if isinstance(data, RankingData) else data:
                writer.add(part)
            header = {"format": BINARY_FORMAT, "version": VERSION, **writer.finish()}
        header["checksum"] = _checksum(header)
        (draft / BINARY_HEADER).write_text(json.dumps(header, indent=1) + "\n", "utf-8")
    return target


def load_binary(folder: PathLike, *, verify: bool = True) -> RankingData:
    """Open a folder that `save_binary` wrote. Arrays are memory-mapped, not copied, except ids that are text.

    verify=True compares all checksums, which reads every byte once. verify=False reads an array only when it is needed.
    The header is checked in both cases.
    """
    folder = Path(folder)
    header = _read_header(folder)
    try:
        arrays = {name: _open_array(folder, name, entry, verify) for name, entry in header["arrays"].items()}
        return _assemble(header, arrays)
    except DataError as error:
        raise error.at(folder) from None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{folder}: the header and the arrays do not fit together ({error!r}); the folder is damaged: convert the "
            "data again"
        ) from None


def _checksum(header: Facts) -> int:
    rest = {key: value for key, value in header.items() if key != "checksum"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


# Writing.


def _npy_header(entry: Facts) -> bytes:
    """The header of an .npy file, version 1.0, for an array's entry in header.json. All have the same length."""
    descr, shape = np.dtype(entry["dtype"]).str, tuple(entry["shape"])
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    length = _NPY_BYTES - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def write_npy(path: PathLike, array: np.ndarray) -> None:
    """Write an .npy file. NumPy's `save` does not say that the disk is full, or which file does not fit."""
    content = np.ascontiguousarray(array)
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(content))
        file.write(content.data)


class _Writer(ExitStack):
    """Appends X, y, qid and docid of parts to .npy files. Later parts must have the layout and types of the first one.

    NumPy's `open_memmap` would need the number of rows at the start, but it is known only at the end.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.files: dict[str, BinaryIO] = {}
        self.arrays: dict[str, Facts] = {}  # entries of the header
        self.facts: Facts = {}  # properties of the first part, which all others must share
        self.n_features = 0
        self.codes: dict[str, int] = {}  # distinct text query ids

    def add(self, part: RankingData) -> None:
        csr = sp.issparse(part.X)
        X = part.X if part.X.dtype in (np.float32, np.float64) else part.X.astype(np.float64)  # all that it may hold
        self._agree("layout", "csr" if csr else "dense")
        self._agree("feature_names", None if part.feature_names is None else list(part.feature_names))
        self._agree("has docid", part.docid is not None)
        if part.index_base is not None:
            self._agree("index_base", part.index_base)
        self.n_features = max(self.n_features, part.n_features)
        if csr:
            before = self._rows("X_data")
            self._append("X_data", X.data)
            self._append("X_indices", X.indices.astype(np.int32, copy=False))
            new = slice(1 if "X_indptr" in self.files else 0, None)
            self._append("X_indptr", X.indptr[new].astype(np.int64) + before)
        else:
            self._append("X", X)
        self._append("y", check_grades(part.y, part.n_rows))
        self._add_ids("qid", part.qid)
        if part.docid is not None:
            self._add_ids("docid", part.docid)

    def finish(self) -> Facts:
        """Complete every file and return the header's entries."""
        if not self.files:
            raise DataError("there is nothing to save: the sequence of parts is empty")
        if self.facts["type of qid"] == "text":
            self._append_text("qid", list(self.codes))
        for name, file in self.files.items():
            file.seek(0)
            file.write(_npy_header(self.arrays[name]))
        known: Facts = {key: self.facts[key] for key in ("layout", "feature_names", "index_base") if key in self.facts}
        return known | {"features": self.n_features, "arrays": self.arrays}

    def _agree(self, what: str, value: object) -> None:
        if self.facts.setdefault(what, value) != value:
            raise DataError(
                f"parts differ in {what}: the first part has {self.facts[what]!r}, a later one has {value!r}; make "
                "them the same"
            )

    def _rows(self, name: str) -> int:
        return self.arrays[name]["shape"][0] if name in self.arrays else 0

    def _append(self, name: str, piece: np.ndarray) -> None:
        dtype, columns = piece.dtype.newbyteorder("<"), piece.shape[1:]
        self._agree(f"{name} (type and columns)", (dtype.str, columns))
        if name not in self.files:
            self.files[name] = self.enter_context((self.folder / f"{name}.npy").open("wb"))
            self.files[name].write(bytes(_NPY_BYTES))
            self.arrays[name] = {"dtype": dtype.str, "shape": [0, *columns], "crc32": 0}
        content, entry = np.ascontiguousarray(piece, dtype).reshape(-1).view(np.uint8).data, self.arrays[name]
        self.files[name].write(content)
        entry["crc32"] = zlib.crc32(content, entry["crc32"])
        entry["shape"][0] += len(piece)

    def _add_ids(self, name: str, ids: np.ndarray) -> None:
        if ids.dtype.kind not in _IDS + "U":
            ids = ids.astype(object)
            if not all(isinstance(i, str) for i in ids):
                given, ids = ids.tolist(), np.array(ids.tolist())
                if ids.dtype.kind not in "biuf" or ids.ndim != 1 or ids.tolist() != given:
                    kinds = ", ".join(sorted({type(i).__name__ for i in given}))
                    raise DataError(f"{name} mixes {kinds}: make all ids text, or all numbers, to save them")
        text = ids.dtype.kind in "UO"
        self._agree(f"type of {name}", "text" if text else str(ids.dtype))
        if not text:
            self._append(name, ids)
        elif name == "qid":
            self._append("qid_codes", number_values(ids.tolist(), self.codes).astype(np.int64))
        else:
            self._append_text(name, ids.tolist())

    def _append_text(self, name: str, texts: list[str]) -> None:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.cumsum([len(e) for e in encoded], dtype=np.int64) + self._rows(f"{name}_text")
        self._append(f"{name}_ends", ends)
        self._append(f"{name}_text", np.frombuffer(b"".join(encoded), np.uint8))


# Opening.


def _read_header(folder: Path) -> Facts:
    path = folder / BINARY_HEADER
    if not is_binary(folder):
        raise DataError(
            f"{folder}: no binary data here, expected a folder with a {BINARY_HEADER} of the format {BINARY_FORMAT}; "
            "make one with `hingerank convert`"
        )
    header = json.loads(path.read_bytes())
    if header.get("version") != VERSION:
        raise DataError(
            f"{path}: the format has version {header.get('version')!r}, but this program reads version {VERSION}; "
            "update hingerank, or convert the data again"
        )
    if header.get("checksum") != _checksum(header):
        raise DataError(f"{path}: the checksum differs; the header was changed or damaged, convert the data again")
    return header


def _open_array(folder: Path, name: str, entry: Facts, verify: bool) -> np.ndarray:
    """The memory-mapped array. Its type, shape and size must be those in the header.

    The map is private: writes stay in memory and never reach the file. Compiled kernels can then use it as an ordinary
    array. If the system refuses a private map of this size, the map is read-only.
    """
    types, shape, path = _ALLOWED.get(name, ()), tuple(entry["shape"]), folder / f"{name}.npy"
    known = entry["dtype"] in types or (isinstance(types, str) and np.dtype(entry["dtype"]).kind in types)
    what = f"an array {name!r} of type {entry['dtype']!r} and shape {shape}"
    if not known or len(shape) != (2 if name == "X" else 1):
        raise DataError(f"the header lists {what}, which this format does not allow")
    dtype = np.dtype(entry["dtype"])
    size = _NPY_BYTES + dtype.itemsize * int(np.prod(shape, dtype=object))
    if not path.is_file():
        raise DataError(f"{path.name}: the file is missing; copy the whole folder, or convert the data again")
    with open(path, "rb") as file:
        start, found = file.read(_NPY_BYTES), os.path.getsize(path)
    if start != _npy_header(entry) or found != size:
        wrong = f"the file ({found} bytes) is not {what} in {size} bytes, as the header says"
        raise DataError(f"{path.name}: {wrong}; it was truncated or changed: convert the data again")
    if 0 in shape:
        return np.empty(shape, dtype)
    try:
        mapped = np.lib.format.open_memmap(path, mode="c")
    except OSError:
        mapped = np.lib.format.open_memmap(path, mode="r")
    array = np.asarray(mapped)  # a plain array over the map, which needs no kernels of its own
    if verify and zlib.crc32(array.reshape(-1).view(np.uint8).data) != entry["crc32"]:
        raise DataError(f"{path.name}: the checksum differs; the file was changed or damaged")
    return array


def _assemble(header: Facts, arrays: dict[str, np.ndarray]) -> RankingData:
    d, y = header["features"], arrays["y"]
    if header["layout"] == "dense":
        X: Matrix = arrays["X"]
    else:
        data, indices, indptr = (arrays[f"X_{part}"] for part in ("data", "indices", "indptr"))
        X = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, d))
        X.check_format()  # kernels do not check bounds again
        if indptr[-1] != len(data):
            raise DataError("the sparse features are damaged: their rows end before the stored values do")
    qid, docid, names = arrays.get("qid"), arrays.get("docid"), header["feature_names"]
    if qid is None:
        ids, codes = _texts(arrays["qid_text"], arrays["qid_ends"]), arrays["qid_codes"]
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(ids):
            raise DataError("the codes of the query ids are damaged")
        qid = ids[codes]
    if "docid_text" in arrays:
        docid = _texts(arrays["docid_text"], arrays["docid_ends"])
    lengths = [X.shape[0], len(y), len(qid)] + ([] if docid is None else [len(docid)])
    if len(set(lengths)) > 1 or X.shape[1] != d or (names is not None and len(names) != d):
        raise DataError(
            f"the arrays do not fit together: X has shape {X.shape}, but y, qid and docid have {lengths[1:]} rows; "
            "the folder is damaged"
        )
    if not np.isfinite(y).all():
        raise DataError("y has values that are not finite; the data are damaged")
    return RankingData(X, y, qid, docid, None if names is None else tuple(names), header.get("index_base"))


def _texts(text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Text i is text[ends[i−1]:ends[i]]. The array holds objects, so that one long id costs little memory."""
    borders = np.concatenate(([0], ends))
    if (np.diff(borders) < 0).any() or borders[-1] != len(text):
        raise DataError("the positions where the text ids end are damaged")
    content, edges = text.tobytes(), borders.tolist()
    texts = np.empty(len(ends), object)
    texts[:] = [content[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(edges)]
    return texts
