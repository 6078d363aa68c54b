"""Values that a model file can hold, as JSON plus named arrays, and back: nothing here can run code.

JSON has no tuples, infinities or arrays; these become dicts with the key "!" that says what they are.
"""

import math
from typing import Any

import numpy as np
from scipy import sparse

from hingerank.rankers import ranker_class, ranker_name
from hingerank.rankers.base import SavedModel
from hingerank.solvers.solution import Certificate

_TAG = "!"


class ModelFileError(ValueError):
    """A model that cannot be written to a file, or a file that is not a whole, unaltered, known model."""


def encode(value: Any, arrays: dict[str, np.ndarray], place: str) -> Any:
    """`value` as JSON; arrays found in it are put into `arrays` under names that begin with `place`."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # also of a subclass, such as a rank that can be called
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_TAG: "float", "value": str(value)}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return _encode_items(value, arrays, place)
    if isinstance(value, tuple):
        return {_TAG: "tuple", "items": _encode_items(value, arrays, place)}
    if isinstance(value, dict):
        return _encode_dict(value, arrays, place)
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, place)
    if sparse.issparse(value):
        return _encode_csr(value, arrays, place)
    return _encode_object(value, arrays, place)


def _encode_items(values: Any, arrays: dict[str, np.ndarray], place: str) -> list:
    return [encode(value, arrays, f"{place}.{position}") for position, value in enumerate(values)]


def _encode_dict(value: dict, arrays: dict[str, np.ndarray], place: str) -> dict[str, Any]:
    if _TAG in value or any(not isinstance(key, str) for key in value):
        raise ModelFileError(f"{place} is a dict with keys other than plain strings, which a model file cannot hold")
    return {str(key): encode(item, arrays, f"{place}.{key}") for key, item in value.items()}


def _encode_array(value: np.ndarray, arrays: dict[str, np.ndarray], place: str) -> dict[str, Any]:
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
    """No fitted array holds anything else, and scores made of NaN would look like an order."""
    if not np.isfinite(value).all():
        raise ModelFileError(f"{place} holds numbers that are not finite: this model cannot score anything")
    return value


def _encode_csr(value: Any, arrays: dict[str, np.ndarray], place: str) -> dict[str, Any]:
    value = value.tocsr()
    parts = {
        part: _encode_array(getattr(value, part), arrays, f"{place}.{part}") for part in ("data", "indices", "indptr")
    }
    return {_TAG: "csr", "shape": list(value.shape), **parts}


def _encode_object(value: Any, arrays: dict[str, np.ndarray], place: str) -> dict[str, Any]:
    if isinstance(value, Certificate):
        return {_TAG: "certificate", "entries": _encode_dict(value.to_dict(), arrays, place)}
    if isinstance(value, SavedModel):
        return {_TAG: "ranker", **encode_ranker(value, arrays, f"{place}.")}
    if hasattr(value, "to_state") and not isinstance(value, type):
        return {_TAG: "scaler", "state": encode(value.to_state(), arrays, place)}
    if isinstance(value, np.random.Generator | np.random.RandomState):
        raise ModelFileError(
            f"{place} is a random generator, which a model file cannot hold: use a whole number as seed"
        )
    if callable(value):
        raise ModelFileError(
            f"{place} is {value!r}: a model file holds no code, so a ranker with a function in it cannot be saved"
        )
    raise ModelFileError(f"{place} is a {type(value).__name__}, which a model file cannot hold")


def encode_ranker(ranker: Any, arrays: dict[str, np.ndarray], prefix: str = "") -> dict[str, Any]:
    """Registered name, constructor parameters and fitted state; state None when the ranker is not fitted."""
    try:
        name = ranker_name(type(ranker))
    except ValueError as error:
        raise ModelFileError(f"cannot save: {error}") from None
    params = ranker.get_params(deep=False) | dict.fromkeys(ranker._training_only)
    return {
        "ranker": name,
        "params": _encode_dict(params, arrays, f"{prefix}params"),
        "state": _encode_dict(ranker._state(), arrays, f"{prefix}state") or None,
    }


def decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `encode`; every array is taken out of `arrays` as it is used."""
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
    if kind == "strings":
        return np.array([*map(str, value["items"]), None], object)[:-1]
    if kind == "array":
        if value["name"] not in arrays:
            raise ModelFileError(f"the array {value['name']!r} is missing")
        return _check_finite(arrays.pop(value["name"]), value["name"])
    if kind == "csr":
        return _decode_csr(value, arrays)
    if kind == "certificate":
        return Certificate.from_dict(decode(value["entries"], arrays))
    if kind == "scaler":
        from hingerank.data.scaling import scaler_from_state

        return scaler_from_state(decode(value["state"], arrays))
    if kind == "ranker":
        return decode_ranker(value, arrays)
    raise ModelFileError(f"unknown kind of value {kind!r}")


def _decode_csr(value: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    parts = tuple(decode(value[part], arrays) for part in ("data", "indices", "indptr"))
    matrix = sparse.csr_matrix(parts, shape=tuple(value["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def decode_ranker(entry: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The ranker that `encode_ranker` described: a registered class, built from known parameters only."""
    cls = ranker_class(entry["ranker"])
    params = decode(entry["params"], arrays)
    unknown = set(params) - set(cls._get_param_names())
    if unknown:
        raise ModelFileError(
            f"{cls.__name__} has no parameter {', '.join(sorted(unknown))}: written by a newer version?"
        )
    ranker = cls(**params)
    if entry["state"] is not None:
        ranker._restore(decode(entry["state"], arrays))
    return ranker
