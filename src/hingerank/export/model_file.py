"""The model file: one safetensors file whose metadata holds a JSON header. Reading it can never run code.

    metadata["hingerank"]  JSON: format, version, ranker (a registered name), params, state (fitted attributes: feature
                           names, scaler, certificate, trace, fingerprint of the training data, ...), metadata (the
                           user's), versions (of the software), created (UTC), arrays (name -> dtype and shape)
    metadata["sha256"]     digest of that JSON text and of all arrays' bytes, in the order of their names
    tensors                the arrays that params and state refer to

The digest finds damage, truncation and careless edits; it is no signature: trusting a file's answers is still trusting
its sender.
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import sklearn
from sklearn.utils.validation import check_is_fitted

import hingerank
from hingerank.data.whole_files import draft_of
from hingerank.export.plain_values import ModelFileError, decode_ranker, encode_ranker

FORMAT = "hingerank-model"
VERSION = 1
FILE_NAME = "model.safetensors"
_ENTRIES = {"format", "version", "ranker", "params", "state", "metadata", "versions", "created", "arrays"}

__all__ = ["FILE_NAME", "FORMAT", "VERSION", "ModelFileError", "load", "read_header", "save"]


def save(ranker: Any, path: Any, metadata: Mapping[str, Any] | None = None) -> str:
    """Write a fitted ranker to `path` (a file, or a folder that receives model.safetensors); return the file's path."""
    check_is_fitted(ranker)
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        **encode_ranker(ranker, arrays),
        "metadata": dict(metadata or {}),
        "versions": {
            "hingerank": hingerank.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "arrays": _described(arrays),
    }
    try:
        text = json.dumps(header, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"metadata must be plain JSON values: {error}") from error
    content = safetensors.numpy.save(arrays, {"hingerank": text, "sha256": _digest(text, arrays)})
    target = _target(path)
    with draft_of(target) as draft:
        draft.write_bytes(content)
    return str(target)


def load(path: Any) -> Any:
    """The ranker that `ranker.save(path)` wrote; `path` is the file or its folder.

    A damaged, truncated, altered or unknown file is a ModelFileError (a ValueError) that says what is wrong.
    """
    source = _source(path)
    header, arrays = _read(source)
    try:
        ranker = decode_ranker(header, arrays)
    except Exception as error:  # whatever a forged header provokes, the caller sees one kind of error
        raise ModelFileError(f"{source} cannot be loaded: {error}") from error
    if arrays:
        raise ModelFileError(f"{source} holds arrays that the model does not use: {', '.join(sorted(arrays))}")
    return ranker


def read_header(path: Any) -> dict[str, Any]:
    """The checked JSON header of a model file: what it is, how it was trained, with which versions."""
    return _read(_source(path))[0]


def _read(source: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file whose format, version, digest and list of arrays are right."""
    content = source.read_bytes()
    try:
        length = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + length])["__metadata__"]
        text, digest = entries["hingerank"], entries["sha256"]
        header = json.loads(text)
        known = header["format"] == FORMAT
        version = header["version"]
    except Exception as error:
        raise ModelFileError(f"{source} is not a hingerank model file, or its beginning is damaged: {error}") from error
    if not known or version != VERSION or isinstance(version, bool):
        raise ModelFileError(
            f"{source} has format {header['format']!r} version {version!r}; this hingerank ({hingerank.__version__}) "
            f"reads {FORMAT!r} version {VERSION}"
        )
    try:
        arrays = safetensors.numpy.load(content)
        intact = digest == _digest(text, arrays) and set(header) == _ENTRIES and header["arrays"] == _described(arrays)
        intact &= isinstance(header["metadata"], dict)
    except Exception as error:
        raise ModelFileError(f"{source} is damaged or truncated: {error}") from error
    if not intact:
        raise ModelFileError(f"{source} is damaged or was altered: its contents do not match its digest")
    return header, arrays


def _described(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: {"dtype": arrays[name].dtype.name, "shape": list(arrays[name].shape)} for name in sorted(arrays)}


def _digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode("utf-8"))
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _target(path: Any) -> Path:
    """The file to write; a folder that is asked for is made."""
    text = os.fspath(path)
    if text.endswith(("/", os.sep)) or os.path.isdir(text):
        os.makedirs(text, exist_ok=True)
        return Path(text) / FILE_NAME
    return Path(text)


def _source(path: Any) -> Path:
    source = Path(path)
    source = source / FILE_NAME if source.is_dir() else source
    if not source.is_file():
        raise FileNotFoundError(f"there is no model file {source}")
    return source
