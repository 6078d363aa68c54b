"""Old names of public parameters: they work for two minor versions, with a FutureWarning that says the new one.

`RENAMED` lists them; `@renamed` goes before each class or function in it. A class then takes old names in its
constructor and in ``set_params``, and has them as attributes; ``get_params`` and copies use the new names only. Files
of older versions are read by `present_names`, without a warning.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

# class, function or Class.method -> {old name: new name}
RENAMED: dict[str, dict[str, str]] = {
    "AdaRank": {"n_rounds": "max_iter"},
    "RankBoost": {"n_rounds": "max_iter"},
    "BoostingRanker.fit_path": {"n_rounds": "max_iter"},
    "PRank": {"n_passes": "max_iter"},
    "PAMM": {"epochs": "max_iter"},
    "PersonalRankSVM.fit_clicks": {"epochs": "n_draws"},
    "LambdaRank": {"depth": "top"},
    "SoftRank": {"depth": "top"},
    "FeatureSelectionRanker": {"k": "n_features"},
    "FeatureSelectionRanker.fit_path": {"ks": "n_features"},
    "MeanVarianceRanker": {"sharing": "shared"},
    "PairwiseRanker.fit_pairs": {"weight": "sample_weight"},
    "PersonalRanker.fit_pairs": {"weight": "sample_weight"},
    "ExplicitPairs": {"weight": "sample_weight"},
    "LinearRanker.feature_table": {"names": "feature_names"},
    "Ratings.with_features": {"names": "feature_names"},
}
LAST = "0.4"  # the last version in which the names above work

T = TypeVar("T")
Result = TypeVar("Result")
Value = TypeVar("Value")


def renamed(target: T) -> T:
    """Let a class, function or method take the old names that `RENAMED` has for it."""
    kind: Any = target
    names = RENAMED[kind.__qualname__]
    if not isinstance(target, type):
        return _taking(kind, kind.__qualname__)
    kind.__init__ = _taking(kind.__init__, kind.__qualname__)
    if getattr(kind, "set_params", None):  # an estimator
        kind._renamed = names
        kind.set_params = _setting(kind.set_params)
        for old, new in names.items():
            setattr(kind, old, _OldAttribute(old, new))
    return target


def present_names(
    owner: object, values: Mapping[str, Value], warn: bool = False, stacklevel: int = 2
) -> dict[str, Value]:
    """The values under the present names of their parameters.

    owner: an estimator or its class, or the name of one in `RENAMED`; warn: give a FutureWarning for an old name, whose
    stacklevel counts from the caller.

    >>> present_names("RankBoost", {"n_rounds": 5, "scale": None})
    {'max_iter': 5, 'scale': None}
    """
    if isinstance(owner, str):
        name, names = owner, RENAMED.get(owner, {})
    else:
        kind = owner if isinstance(owner, type) else type(owner)
        known = getattr(kind, "_renamed", {})
        own = inspect.signature(kind).parameters if known else {}  # of a subclass perhaps, which keeps an old name
        name, names = kind.__name__, {old: new for old, new in known.items() if old not in own}
    found: dict[str, Value] = {}
    for given, value in values.items():
        new = names.get(given, given)
        if new in found or (new != given and new in values):
            raise TypeError(f"{name} got {given} and {new}, which are one parameter: give {new} alone")
        if new != given and warn:
            _warn(name, given, new, stacklevel + 1)
        found[new] = value
    return found


def present_keys(owner: str, value: Any) -> Any:
    """A description, of lists and dicts of any depth, with the present names of parameters.

    >>> present_keys("RankBoost", {"kind": "Grid", "space": {"n_rounds": [1, 2]}})
    {'kind': 'Grid', 'space': {'max_iter': [1, 2]}}
    """
    if isinstance(value, Mapping):
        return {name: present_keys(owner, item) for name, item in present_names(owner, value).items()}
    return [present_keys(owner, item) for item in value] if isinstance(value, list) else value


def _warn(owner: str, old: str, new: str, stacklevel: int) -> None:
    text = f"{owner}: the parameter {old} is called {new} now; the old name works up to version {LAST}"
    warnings.warn(text, FutureWarning, stacklevel=stacklevel + 1)


def _taking(function: Callable[..., Result], owner: str) -> Any:
    """The function, which also takes the old names of its arguments."""

    @functools.wraps(function)
    def call(*args: object, **named: object) -> Result:
        return function(*args, **present_names(owner, named, warn=True))

    return call


def _setting(set_params: Callable[..., Result]) -> Callable[..., Result]:
    @functools.wraps(set_params)
    def call(self: Any, **named: object) -> Result:
        return set_params(self, **present_names(self, named, warn=True))

    call.__doc__ = "Set parameters, by their names or by old ones, and return self."
    return call


class _OldAttribute:
    """A parameter under its old name."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, ranker: object, kind: type) -> object:
        if ranker is None:
            raise AttributeError(self.old)
        _warn(kind.__name__, self.old, self.new, 2)
        return getattr(ranker, self.new)

    def __set__(self, ranker: object, value: object) -> None:
        _warn(type(ranker).__name__, self.old, self.new, 2)
        setattr(ranker, self.new, value)
