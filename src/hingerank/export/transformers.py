"""Feature maps and scikit-learn's plain transformers in a model file: a listed class, parameters, fitted arrays.

Nothing else can be named, and reading one only sets plain values on an object of that class: no code is run. The object
is tested on one row before it is used.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator

from hingerank.arrays import Facts
from hingerank.export.attributes import Array, Attribute, Number, take_attributes
from hingerank.features.fourier import FourierMap
from hingerank.features.maps import FeatureMap, TransformerMap
from hingerank.features.nystroem import NystroemMap

TRANSFORMERS = {
    "StandardScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "MaxAbsScaler": "sklearn.preprocessing",
    "RobustScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "Binarizer": "sklearn.preprocessing",
    "QuantileTransformer": "sklearn.preprocessing",
    "PowerTransformer": "sklearn.preprocessing",
    "SplineTransformer": "sklearn.preprocessing",
    "PolynomialFeatures": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "TruncatedSVD": "sklearn.decomposition",
    "RBFSampler": "sklearn.kernel_approximation",
    "PolynomialCountSketch": "sklearn.kernel_approximation",
    "VarianceThreshold": "sklearn.feature_selection",
    "Pipeline": "sklearn.pipeline",
    "FeatureUnion": "sklearn.pipeline",
}
MAPS: dict[Any, dict[str, Attribute]] = {  # the stored attributes of a fitted map
    NystroemMap: {
        "landmarks_": Array("landmarks, features", csr=True, least=1),
        "mixing_": Array("landmarks, outputs", least=1),
        "gamma_": Number(above=0),
    },
    FourierMap: {
        "frequencies_": Array("features, waves", least=1),
        "phases_": Array("waves", least=1),
        "gamma_": Number(above=0),
    },
}
_NOT_STATE = {"_metadata_requests", "_sklearn_output_config", "_doc_link_module"}
Encode = Callable[[Any, str], Any]


def listed(value: object) -> bool:
    """Whether a value is a transformer of the list, or part of one."""
    if isinstance(value, TransformerMap | BSpline) or type(value) in MAPS:
        return True
    home = TRANSFORMERS.get(type(value).__name__, "no module")
    return isinstance(value, BaseEstimator) and type(value).__module__.startswith(home)


def encode_transformer(value: Any, encode: Encode, place: str) -> Facts:
    """The arguments of `decode_transformer` as JSON; `encode` encodes the values within."""
    if isinstance(value, BSpline):
        parts = {"t": value.t, "c": value.c, "k": int(value.k), "extrapolate": value.extrapolate}
        return {"class": "BSpline", "params": encode(parts, place), "state": {}}
    if isinstance(value, TransformerMap):
        state = {} if not vars(value).keys() > {"transformer"} else {"transformer_": value.transformer_}
        return {"class": "TransformerMap", "params": encode({"transformer": value.transformer}, place), "state": encode(
            {**state, "n_features": getattr(value, "n_features_in_", None)}, f"{place}.fitted")}  # fmt: skip
    params = value.get_params(deep=False)
    kept = MAPS.get(type(value), vars(value).keys() - _NOT_STATE)
    state = {name: item for name, item in vars(value).items() if name not in params and name in kept}
    return {
        "class": type(value).__name__,
        "params": encode(params, f"{place}.params"),
        "state": encode(state, f"{place}.fitted"),
    }


def decode_transformer(name: str, params: Facts, state: Facts) -> Any:
    """The transformer from decoded parameters and state; a ValueError refuses anything that is not listed."""
    if name == "BSpline":
        return BSpline.construct_fast(params["t"], params["c"], params["k"], params["extrapolate"])
    if name == "TransformerMap":
        return _decode_map(params["transformer"], state)
    kinds = {kind.__name__: kind for kind in MAPS}
    if name not in kinds and name not in TRANSFORMERS:
        raise ValueError(f"there is no transformer {name!r} that a model file can hold")
    kind = kinds[name] if name in kinds else getattr(import_module(TRANSFORMERS[name]), name)
    unknown = set(params) - set(kind._get_param_names())
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(sorted(unknown))}: another version of scikit-learn?")
    made = kind(**params)
    if name in kinds:
        return _fitted_map(made, state)
    for key, item in state.items():
        if not re.fullmatch(r"_?[a-zA-Z]\w*", key) or hasattr(kind, key):
            raise ValueError(f"{key!r} is not a fitted attribute of {name}")
        setattr(made, key, item)
    return made


def _decode_map(transformer: object, state: Facts) -> TransformerMap:
    found = TransformerMap(transformer)
    if "transformer_" not in state:
        return found
    width = state["n_features"]
    if type(width) is not int or not 0 < width < 1 << 25:
        raise ValueError(f"a feature map has {width!r} features, expected a positive whole number")
    return found.place(state["transformer_"], np.zeros((1, width)))


def _fitted_map(made: Any, state: Facts) -> FeatureMap:
    """A map of kernels with its stored attributes, if it was fitted."""
    if not state:
        return made
    values, _ = take_attributes(type(made).__name__, MAPS[type(made)], state)
    made.gamma_ = values["gamma_"]
    if isinstance(made, NystroemMap):
        made.mixing_ = values["mixing_"]
        return made.place(values["landmarks_"])
    return made.place(values["frequencies_"], values["phases_"])
