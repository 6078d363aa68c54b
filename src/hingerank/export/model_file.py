"""The model file: one safetensors file whose metadata contains a JSON header. Reading it can never run code.

    metadata["hingerank"]  JSON: format, version, ranker (a registered name), params, state (fitted attributes: feature
                           names, scaler, certificate, trace, fingerprint of the training data, ...), metadata (the
                           user's), versions (of the software), created (UTC), arrays (name -> dtype and shape)
    metadata["sha256"]     digest of that JSON text and of all arrays' bytes, in the order of their names
    tensors                the arrays that params and state refer to

The digest detects damage, truncation and careless edits; it is not a signature: a file's scores are as trustworthy as
its sender.
"""

import hashlib
import json
import math
import os
import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import safetensors.numpy
import sklearn
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hingerank import __version__
from hingerank.arrays import Facts, Given, Ranker
from hingerank.data.files import PathLike, draft_of, no_such_file
from hingerank.data.missing import MissingValues
from hingerank.data.scaling import Scaler, scaler_from_state
from hingerank.export.attributes import Attribute, decode_transformer, encode_transformer, listed, take_attributes
from hingerank.losses import Loss
from hingerank.registry import ranker_class, ranker_name
from hingerank.renaming import present_names
from hingerank.solvers.run import Certificate

if TYPE_CHECKING:
    from hingerank.export.exporting import Exported
    from hingerank.export.scorer import Scorer

__all__ = ["FILE_NAME", "FORMAT", "VERSION", "ModelFileError", "load", "read_header", "save"]


_TAG = "!"
T = TypeVar("T")


class ModelFileError(ValueError):
    """A model that cannot be written to a file, or a file that is not a complete, unaltered, known model."""


class SavedModel:
    """``save(path)`` for an estimator whose fitted state is plain: numbers, strings, arrays, lists and dicts of these.

    A class declares the attributes that ``fit`` sets in ``_saved`` (those of its bases are added); they are checked
    against it when saved and when loaded. ``_check_together`` checks how they fit together, ``_derive`` computes what
    follows from them. Constructor parameters that only steer training, ``_training_only``, are stored as None. State of
    another form goes through ``_state`` and ``_restore``. Results that follow from the attributes and are worth keeping
    within a process are a ``cached_property``; neither the file nor a pickle contains them, nor what ``_here_only``
    lists.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {}
    _here_only: tuple[str, ...] = ()

    @property
    def _training_only(self: Any) -> list[str]:
        return [name for name in ("callback", "init", "validation") if name in self._get_param_names()]

    def __getstate__(self) -> Facts:
        left: Any = derived(type(self)) | {*self._here_only}
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in left}

    def save(self, path: PathLike, metadata: Given | None = None) -> str:
        """Write the fitted model to one file and return its path; read it back with ``hingerank.load``.

        Parameters
        ----------
        path : the file, or a folder (existing, or ending in a slash) that receives model.safetensors
        metadata : any JSON value of yours, such as the data's name
        """
        return save(self, path, metadata)

    def export(self, path: PathLike, to: str, **options: Any) -> "Exported":
        """Write the fitted model for another program, such as a search engine; see ``hingerank.export``.

        Parameters
        ----------
        path : a file or a folder
        to : the format, such as "onnx" or "sql"
        options : features, check and the options of the format
        """
        from hingerank.export.exporting import export

        return export(self, path, to, **options)

    def scorer(self) -> "Scorer":
        """The fitted ranker as a frozen function of arrays, for serving: ``scorer(X)`` returns the scores of rows.

        It checks only the shape of the rows, takes a fraction of the time of ``predict`` for a few rows
        (``benchmarks/serving.py``), may be shared by threads and can be pickled. Scores are those of ``predict`` up to
        rounding. A ranker that scales features within queries takes the rows of one query at a time, or ids:
        ``scorer(X, qid)``. A ranker without a scorer raises an ExportError.

        Returns
        -------
        hingerank.export.scorer.Scorer
        """
        from hingerank.export.scorer import make_scorer

        check_is_fitted(self)
        return make_scorer(self)

    def _form(self) -> Any:
        """The score as a plain form (see hingerank.export.forms)."""
        from hingerank.export.forms import ExportError

        raise ExportError(f"{type(self).__name__} has no form that another program could run")

    def _vectors(self, items: object) -> object:
        """Ids of users, their vectors, and those of items; scores are inner products of the two."""
        from hingerank.export.formats import carriers
        from hingerank.export.forms import ExportError

        formats = ", ".join(carriers([part.outline for part in self._form().parts]))
        raise ExportError(f"{type(self).__name__} has no user vectors; formats that can export it: {formats}")

    def _state(self) -> Facts:
        """The fitted attributes by name."""
        return {name: vars(self)[name] for name in saved_attributes(type(self)) if name in vars(self)}

    def _restore(self, state: Given) -> None:
        """Check and set what `_state` returned; a ValueError refuses it."""
        values, sizes = take_attributes(type(self).__name__, saved_attributes(type(self)), state)
        vars(self).update(values)
        self._check_together(sizes)
        self._derive()

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has ended, or a file was read: a fit that was interrupted leaves no model."""
        return {name for name, kind in saved_attributes(type(self)).items() if kind.needed} <= vars(self).keys()

    def _check_together(self, sizes: Mapping[str, int]) -> None:
        """Raise a ValueError if attributes, each valid by itself, do not fit together."""

    def _derive(self) -> None:
        """Compute what follows from loaded attributes and is not in the file."""


def by_class(function: Callable[[type], T]) -> Callable[[type], T]:
    """The function, called once for each class and then cached: `cache` with its types."""
    return cache(function)


@by_class
def saved_attributes(cls: type) -> Mapping[str, Attribute]:
    """The attributes that a class and its bases declare, those of the bases first."""
    found: dict[str, Attribute] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_saved", {})
    return found


@by_class
def derived(cls: type) -> frozenset[str]:
    """Names of the cached properties that a class derives from its fitted attributes."""
    items = [(name, item) for base in cls.__mro__ for name, item in vars(base).items()]
    return frozenset(name for name, item in items if isinstance(item, cached_property))


def encode(value: Any, arrays: dict[str, np.ndarray], place: str) -> Any:
    """`value` as JSON; arrays in it are added to `arrays` under names that begin with `place`."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # also for a subclass, such as a rank that can be called
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_TAG: "float", "value": str(value)}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        items = [encode(item, arrays, f"{place}.{position}") for position, item in enumerate(value)]
        return items if isinstance(value, list) else {_TAG: "tuple", "items": items}
    if isinstance(value, dict) and any(type(key) is int for key in value):
        if not all(type(key) in (int, str) for key in value):
            raise ModelFileError(f"{place} is a dict with keys other than strings and whole numbers")
        items = [[key, encode(item, arrays, f"{place}.{key}")] for key, item in value.items()]
        return {_TAG: "mapping", "items": items}
    if isinstance(value, dict):
        return _encode_dict(value, arrays, place)
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, place)
    if sparse.issparse(value):
        value, names = value.tocsr(), ("data", "indices", "indptr")
        parts = {name: _encode_array(getattr(value, name), arrays, f"{place}.{name}") for name in names}
        return {_TAG: "csr", "shape": list(value.shape), **parts}
    if isinstance(value, Certificate):
        return {_TAG: "certificate", "entries": _encode_dict(value.to_dict(), arrays, place)}
    if isinstance(value, SavedModel):
        return {_TAG: "ranker", **encode_ranker(value, arrays, f"{place}.")}
    if isinstance(value, MissingValues | Scaler):
        kind = "missing" if isinstance(value, MissingValues) else "scaler"
        return {_TAG: kind, "state": encode(value.to_state(), arrays, place)}
    if listed(value):
        return {_TAG: "transformer", **encode_transformer(value, lambda v, at: encode(v, arrays, at), place)}
    if isinstance(value, np.random.Generator | np.random.RandomState):
        why = "a random generator, which a model file cannot hold: use a whole number as seed"
    elif callable(value):
        why = f"{value!r}: a model file contains no code, so a ranker with a function in it cannot be saved"
    else:
        why = f"a {type(value).__name__}, which a model file cannot hold"
    raise ModelFileError(f"{place} is {why}")


def _encode_dict(value: dict, arrays: dict[str, np.ndarray], place: str) -> Facts:
    if _TAG in value or any(not isinstance(key, str) for key in value):
        raise ModelFileError(f"{place} is a dict with keys other than plain strings, which a model file cannot hold")
    return {str(key): encode(item, arrays, f"{place}.{key}") for key, item in value.items()}


def _encode_array(value: np.ndarray, arrays: dict[str, np.ndarray], place: str) -> Facts:
    if value.dtype.kind in "UO" and value.ndim == 1 and all(isinstance(item, str) for item in value):
        return {_TAG: "strings", "items": [str(item) for item in value]}
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
        raise ModelFileError(f"{place} is an array of {value.dtype}, which a model file cannot hold")
    _check_finite(value, place)
    if place in arrays:
        raise ModelFileError(f"two arrays would be stored under the name {place}: rename one of the dict keys")
    arrays[place] = value.astype(value.dtype.newbyteorder("="), order="C")
    return {_TAG: "array", "name": place}


def _check_finite(value: np.ndarray, place: str) -> np.ndarray:
    """Refuse NaN and infinity: no fitted array contains them, and NaN scores would still look like an order."""
    if not np.isfinite(value).all():
        raise ModelFileError(f"{place} contains numbers that are not finite: this model cannot score anything")
    return value


def encode_ranker(ranker: Ranker, arrays: dict[str, np.ndarray], prefix: str = "") -> Facts:
    """Registered name, constructor parameters and fitted state; state None if the ranker is not fitted."""
    try:
        name = ranker_name(type(ranker))
    except ValueError as error:
        raise ModelFileError(f"cannot save: {error}") from None
    params = ranker.get_params(deep=False) | dict.fromkeys(ranker._training_only)
    params = {name: value.name if isinstance(value, Loss) else value for name, value in params.items()}
    declared, state = saved_attributes(type(ranker)), ranker._state()
    try:
        if state:
            _, sizes = take_attributes(name, declared, {k: v for k, v in vars(ranker).items() if k in declared})
            ranker._check_together(sizes)
    except ValueError as error:
        raise ModelFileError(f"cannot save: {prefix}{error}") from None
    return {
        "ranker": name,
        "params": _encode_dict(params, arrays, f"{prefix}params"),
        "state": _encode_dict(state, arrays, f"{prefix}state") or None,
    }


def decode(value: object, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `encode`; every array is removed from `arrays` as it is used."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: decode(item, arrays) for key, item in value.items()}
    kind = value[_TAG]
    if kind == "float":
        return float(value["value"])
    if kind == "tuple":
        return tuple(decode(item, arrays) for item in value["items"])
    if kind == "mapping":
        return {key if type(key) is int else str(key): decode(item, arrays) for key, item in value["items"]}
    if kind == "strings":
        return np.array([*map(str, value["items"]), None], object)[:-1]
    if kind == "array":
        if value["name"] not in arrays:
            raise ModelFileError(f"the array {value['name']!r} is missing")
        return _check_finite(arrays.pop(value["name"]), value["name"])
    if kind == "csr":
        parts = tuple(decode(value[part], arrays) for part in ("data", "indices", "indptr"))
        matrix = sparse.csr_matrix(parts, shape=tuple(value["shape"]))
        matrix.check_format(full_check=True)
        return matrix
    if kind == "certificate":
        return Certificate.from_dict(decode(value["entries"], arrays))
    if kind == "scaler":
        return scaler_from_state(decode(value["state"], arrays))
    if kind == "missing":
        return MissingValues.from_state(decode(value["state"], arrays))
    if kind == "transformer":
        return decode_transformer(value["class"], decode(value["params"], arrays), decode(value["state"], arrays))
    if kind == "ranker":
        return decode_ranker(value, arrays)
    raise ModelFileError(f"unknown kind of value {kind!r}")


def decode_ranker(entry: Facts, arrays: dict[str, np.ndarray]) -> Any:
    """The ranker that `encode_ranker` described: a registered class, built from known parameters only."""
    cls = ranker_class(entry["ranker"])
    params = present_names(cls, decode(entry["params"], arrays))
    unknown = set(params) - set(cls._get_param_names())
    if unknown:
        raise ModelFileError(
            f"{cls.__name__} has no parameter {', '.join(sorted(unknown))}: written by a newer version?"
        )
    ranker = cls(**params)
    if entry["state"] is not None:
        state: Facts = {}
        for name, item in entry["state"].items():
            try:
                state[name] = decode(item, arrays)
            except Exception as error:  # a forged value can raise anything
                raise ModelFileError(f"{name}: {error}") from error
        ranker._restore(state)
    return ranker


FORMAT = "hingerank-model"
VERSION = 1
FILE_NAME = "model.safetensors"
_ENTRIES = {"format", "version", "ranker", "params", "state", "metadata", "versions", "created", "arrays"}


def save(ranker: Ranker, path: PathLike, metadata: Given | None = None) -> str:
    """Write a fitted ranker to `path` (a file, or a folder that receives model.safetensors); return the file's path."""
    check_is_fitted(ranker)
    if not isinstance(metadata, Mapping | None):
        raise ModelFileError(f"metadata must be a dict of plain JSON values, not {type(metadata).__name__}")
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        **encode_ranker(ranker, arrays),
        "metadata": dict(metadata or {}),
        "versions": {
            "hingerank": __version__,
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
    target = Path(path)
    if os.fspath(path).endswith(("/", os.sep)) or target.is_dir():
        target = target / FILE_NAME
    with draft_of(target) as draft:
        draft.write_bytes(content)
    return str(target)


def load(path: PathLike) -> Any:
    """The ranker that `ranker.save(path)` wrote; `path` is the file or its folder.

    A damaged, truncated, altered or unknown file is a ModelFileError (a ValueError) that says what is wrong.
    """
    source = _source(path)
    header, arrays = _read(source)
    try:
        ranker = decode_ranker(header, arrays)
    except Exception as error:  # a forged header can raise anything; the caller sees one kind of error
        raise ModelFileError(f"{source} cannot be loaded: {error}") from error
    if arrays:
        raise ModelFileError(f"{source} contains arrays that the model does not use: {', '.join(sorted(arrays))}")
    return ranker


def is_model(path: PathLike) -> bool:
    """Whether a file, or that of a folder, begins like a model: its length in eight bytes, then JSON."""
    try:
        with open(_source(path), "rb") as stream:
            start = stream.read(9)
    except OSError:
        return False
    return start.endswith(b"{") and 0 in start[:8]


def read_header(path: PathLike) -> Facts:
    """The checked JSON header of a model file: its ranker, training and versions."""
    return _read(_source(path))[0]


def _read(source: Path) -> tuple[Facts, dict[str, np.ndarray]]:
    """Header and arrays of a file, after checking its format, version, digest and list of arrays."""
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
            f"{source} has format {header['format']!r} version {version!r}; this hingerank ({__version__}) "
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


def _described(arrays: dict[str, np.ndarray]) -> Facts:
    return {name: {"dtype": arrays[name].dtype.name, "shape": list(arrays[name].shape)} for name in sorted(arrays)}


def _digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode("utf-8"))
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _source(path: PathLike) -> Path:
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(no_such_file(source))
    source = source / FILE_NAME if source.is_dir() else source
    if not source.is_file():
        raise FileNotFoundError(f"there is no model file {source}")
    return source
