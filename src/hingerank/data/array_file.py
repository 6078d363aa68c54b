"""One array in a plain .npy file: written piece by piece, opened as a memory map that is checked first."""

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.errors import DataError

_HEADER_BYTES = 128


class ArrayFile:
    """Append pieces with the same columns and type; `finish` fills in the shape and says what to remember of it."""

    def __init__(self, path: Path, dtype: Any, columns: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.columns = columns
        self.rows = 0
        self.crc = 0
        self._file = open(path, "wb")  # noqa: SIM115  closed by `close`
        self._file.write(bytes(_HEADER_BYTES))

    def append(self, piece: Any) -> None:
        piece = np.ascontiguousarray(piece, self.dtype)
        content = piece.reshape(-1).view(np.uint8)
        self._file.write(content.data)
        self.crc = zlib.crc32(content.data, self.crc)
        self.rows += len(piece)

    def finish(self) -> dict[str, Any]:
        shape = (self.rows, *self.columns)
        self._file.seek(0)
        self._file.write(_npy_header(self.dtype, shape))
        self.close()
        return {"dtype": self.dtype.str, "shape": list(shape), "crc32": self.crc}

    def close(self) -> None:
        self._file.close()


def _npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Version 1.0 of NumPy's format, padded to a fixed length so that the shape can be filled in last."""
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": shape}).encode()
    length = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def open_array(path: Path, entry: dict[str, Any], verify: bool) -> np.ndarray:
    """The array, mapped and not read; its type, shape and size must be those of `entry`.

    The map is private (writes stay in memory and never reach the file), because compiled kernels take it for an
    ordinary array; where the system refuses a private map of this size, the map is read-only.
    """
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    size = _HEADER_BYTES + dtype.itemsize * int(np.prod(shape, dtype=object))
    if dtype.hasobject:
        raise DataError(f"{path}: an array of {dtype} is not allowed")
    if not path.is_file():
        raise DataError(f"{path}: the file is missing")
    if os.path.getsize(path) != size:
        raise DataError(f"{path}: the file has {os.path.getsize(path)} bytes, expected {size}; it was cut or changed")
    with open(path, "rb") as file:
        if file.read(_HEADER_BYTES) != _npy_header(dtype, shape):
            raise DataError(f"{path}: the array is not the {dtype} of shape {shape} that the header names")
    array = _map(path, dtype, shape)
    if verify and zlib.crc32(array.reshape(-1).view(np.uint8).data) != entry["crc32"]:
        raise DataError(f"{path}: the checksum differs; the file was changed or damaged")
    return array


def _map(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if 0 in shape:
        return np.empty(shape, dtype)
    try:
        mapped = np.load(path, mmap_mode="c", allow_pickle=False)
    except OSError:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    return np.asarray(mapped)  # a plain array over the map: the same compiled kernels serve it
