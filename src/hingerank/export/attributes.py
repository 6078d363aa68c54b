"""What a model file may hold: attributes that a ranker's class declares, and transformers of a list.

A class lists its fitted attributes in ``_saved``, name -> `Array`, `Number`, ...: each has a kind, a shape and a range.
Sizes are words, such as "features" or "features+1". A word means the same number in all attributes of a model; the
first attribute that uses it sets the number.

Feature maps and scikit-learn's plain transformers are stored as a listed class, parameters and fitted arrays. Nothing
else can be named, and reading one only sets plain values on an object of that class: no code is run. The object is
tested on one row before it is used.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator

from hingerank.arrays import Facts, Given
from hingerank.data.missing import MissingValues
from hingerank.features.fourier import FourierMap
from hingerank.features.maps import FeatureMap, TransformerMap
from hingerank.features.nystroem import NystroemMap

Sizes = dict[str, int]
LARGEST = 1 << 53  # sizes and counts are below this
_WORDS = {"f": "finite numbers", "i": "whole numbers", "b": "truth values"}
TRANSFORMERS = {  # class -> its module
    name: f"sklearn.{home}"
    for home, names in {
        "preprocessing": "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer Binarizer "
        "QuantileTransformer PowerTransformer SplineTransformer PolynomialFeatures",
        "decomposition": "PCA TruncatedSVD",
        "kernel_approximation": "RBFSampler PolynomialCountSketch",
        "feature_selection": "VarianceThreshold",
        "pipeline": "Pipeline FeatureUnion",
    }.items()
    for name in names.split()
}


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One attribute. needed: whether every fitted model has it. none: whether it may be None."""

    needed: bool = True
    none: bool = False

    def take(self, value: object, sizes: Sizes) -> Any:
        """The value in the form that the model uses; a ValueError says what is wrong with it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Array(Attribute):
    """An array of finite numbers, float32 or float64, or of another kind.

    Parameters
    ----------
    shape : its sizes, such as "users, rank" or "pairs, 2"
    kind : "f"; "i" for whole numbers, which become int64; "b" for truth values
    low : the smallest value allowed
    high : the size that all values are below
    rising : whether each number must be larger than the one before
    csr : whether it may be a CSR matrix
    least : the smallest number of rows
    """

    shape: str
    kind: str = "f"
    low: float | None = None
    high: str | None = None
    rising: bool = False
    csr: bool = False
    least: int = 0

    def take(self, value: Any, sizes: Sizes) -> Any:
        is_csr = sparse.issparse(value)
        if not isinstance(value, np.ndarray) and not (is_csr and self.csr):
            raise ValueError(f"must be an array of {_WORDS[self.kind]}, not {short(value)}")
        kinds = {"f": ("float32", "float64"), "b": ("bool",)}.get(self.kind)
        if value.dtype.kind not in "iu" if kinds is None else value.dtype.name not in kinds:
            raise ValueError(f"must contain {_WORDS[self.kind]}, not {value.dtype}")
        check_shape(self.shape, value.shape, sizes)
        numbers = value.data if is_csr else value
        if value.shape[0] < self.least:
            raise ValueError(f"has {value.shape[0]} rows, expected at least {self.least}")
        if not np.isfinite(numbers).all():
            raise ValueError("contains numbers that are not finite")
        if self.low is not None and numbers.min(initial=self.low) < self.low:
            raise ValueError(f"contains {numbers.min()}, which is below {self.low}")
        end = LARGEST if self.high is None else sizes[self.high]
        if self.kind == "i" and numbers.size and numbers.max() >= end:
            raise ValueError(f"contains {numbers.max()}, which is not below {end}")
        if self.rising and not (numbers[1:] > numbers[:-1]).all():
            raise ValueError("contains numbers that do not increase")
        return value.astype(np.int64, copy=False) if self.kind == "i" else value


@dataclass(frozen=True)
class Number(Attribute):
    """A number. low: its smallest value. above: a value it must exceed. whole: an integer. finite: if it must be."""

    low: float = -math.inf
    above: float = -math.inf
    whole: bool = False
    finite: bool = True

    def take(self, value: Any, sizes: Sizes) -> Any:
        kinds = (int, np.integer) if self.whole else (int, float, np.integer, np.floating)
        word = "whole number" if self.whole else "finite number" if self.finite else "number"
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        if fits and isinstance(value, int | np.integer):
            fits = abs(int(value)) < LARGEST
        if not fits or (self.finite and not (math.isfinite(value) and value > self.above)) or value < self.low:
            bound = f" from {self.low:g} on" if self.low > -math.inf else ""
            bound += f" above {self.above:g}" if self.above > -math.inf else ""
            raise ValueError(f"must be a {word}{bound}, not {short(value)}")
        return int(value) if self.whole else float(value)


@dataclass(frozen=True)
class Size(Attribute):
    """A positive whole number that defines the size of the attribute's name.

    also: another word with the same size, unless a later attribute sets it.
    """

    word: str
    also: str = ""

    def take(self, value: object, sizes: Sizes) -> Any:
        sizes[self.word] = Number(low=1, whole=True).take(value, sizes)
        if self.also:
            sizes[self.also] = sizes[self.word]
        return sizes[self.word]


@dataclass(frozen=True)
class Filling(Attribute):
    """What missing values of the features become; rows then have more columns, if it marks missing values."""

    def take(self, value: object, sizes: Sizes) -> Any:
        if not isinstance(value, MissingValues) or len(value.values) != sizes["features"]:
            raise ValueError(f"must say what missing values of the {sizes['features']} features become")
        sizes["columns"] = value.width
        return value


@dataclass(frozen=True)
class Mapped(Attribute):
    """A fitted feature map; rows then have the columns that it produces."""

    def take(self, value: object, sizes: Sizes) -> Any:
        if not isinstance(value, FeatureMap) or vars(value).get("n_features_in_") != sizes["features"]:
            raise ValueError(f"must be a feature map fitted on {sizes['features']} features, not {short(value)}")
        sizes["columns"] = value.n_outputs
        return value


@dataclass(frozen=True)
class Ids(Attribute):
    """A vector of ids of any type, or of strings only. least: the smallest number of them."""

    shape: str
    texts: bool = False
    least: int = 0

    def take(self, value: object, sizes: Sizes) -> Any:
        if not isinstance(value, np.ndarray):
            raise ValueError(f"must be an array of {'strings' if self.texts else 'ids'}, not {short(value)}")
        check_shape(self.shape, value.shape, sizes)
        if len(value) < self.least:
            raise ValueError(f"has {len(value)} entries, expected at least {self.least}")
        if self.texts and not all(isinstance(item, str) for item in value):
            raise ValueError(f"must contain strings, not {value.dtype}")
        return value


@dataclass(frozen=True)
class Of(Attribute):
    """An object of a class, or a list of such objects."""

    kind: type
    listed: bool = False

    def take(self, value: object, sizes: Sizes) -> Any:
        items = value if self.listed and isinstance(value, list) else [value]
        if (self.listed and items is not value) or not all(isinstance(item, self.kind) for item in items):
            many = "list with every entry a " if self.listed else ""
            raise ValueError(f"must be a {many}{self.kind.__name__}, not {short(value)}")
        return value


def check_shape(words: str, shape: tuple[int, ...], sizes: Sizes) -> None:
    """Raise a ValueError unless a shape matches the words; words without a number get theirs from it."""
    names, found = [word.strip() for word in words.split(",")], dict(sizes)
    wanted: list[object] = []
    for name, length in zip(names, shape):
        word, sign, more = name.partition("+") if "+" in name else name.partition("-")
        extra = int(sign + more) if sign else 0
        wanted.append(int(word) if word.isdecimal() else found.setdefault(word, length - extra) + extra)
    if len(names) != len(shape) or tuple(wanted) != shape or min(found.values()) < 0:
        expected = ", ".join(str(found[name]) if name in sizes else name for name in names)
        raise ValueError(f"has shape {shape}, expected ({expected}{',' * (len(names) == 1)})")
    sizes.update(found)


def take_attributes(owner: str, declared: Mapping[str, Attribute], values: Given) -> tuple[Facts, Sizes]:
    """The values in the form that the model uses, and their sizes; a ValueError names the first wrong one."""
    unknown = set(values) - set(declared)
    if unknown:
        raise ValueError(f"{owner} has no fitted attribute {', '.join(sorted(map(str, unknown)))}")
    taken: Facts = {}
    sizes: Sizes = {}
    for name, attribute in declared.items():
        if name not in values:
            if attribute.needed:
                raise ValueError(f"{name} is missing, which every fitted {owner} has")
            continue
        if values[name] is None and attribute.none:
            taken[name] = None
            continue
        try:
            taken[name] = attribute.take(values[name], sizes)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    return taken, sizes


def short(value: object) -> str:
    """A value as error messages show it."""
    plain = value is None or isinstance(value, str | float | int)
    return repr(value) if plain and len(repr(value)) < 40 else type(value).__name__


MAPS: dict[Any, dict[str, Attribute]] = {  # the stored attributes of a fitted map, in the order of `place`
    NystroemMap: {
        "gamma_": Number(above=0),
        "landmarks_": Array("landmarks, features", csr=True, least=1),
        "mixing_": Array("landmarks, outputs", least=1),
    },
    FourierMap: {
        "gamma_": Number(above=0),
        "frequencies_": Array("features, waves", least=1),
        "phases_": Array("waves", least=1),
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
        found = TransformerMap(params["transformer"])
        if "transformer_" not in state:
            return found
        width = state["n_features"]
        if type(width) is not int or not 0 < width < 1 << 25:
            raise ValueError(f"a feature map has {width!r} features, expected a positive whole number")
        return found.place(state["transformer_"], np.zeros((1, width)))
    kinds = {kind.__name__: kind for kind in MAPS}
    if name not in kinds and name not in TRANSFORMERS:
        raise ValueError(f"there is no transformer {name!r} that a model file can hold")
    kind = kinds[name] if name in kinds else getattr(import_module(TRANSFORMERS[name]), name)
    unknown = set(params) - set(kind._get_param_names())
    if unknown:
        raise ValueError(f"{name} has no parameter {', '.join(sorted(unknown))}: another version of scikit-learn?")
    made = kind(**params)
    if kind in MAPS and state:
        values, _ = take_attributes(name, MAPS[kind], state)
        return made.place(*values.values())
    for key, item in state.items():
        if not re.fullmatch(r"_?[a-zA-Z]\w*", key) or hasattr(kind, key):
            raise ValueError(f"{key!r} is not a fitted attribute of {name}")
        setattr(made, key, item)
    return made
