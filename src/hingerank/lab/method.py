"""A method to compare: a name, how to make its ranker, and which settings to try."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hingerank.data.plain_json import plain
from hingerank.lab.search import Setting, as_search, describe_search
from hingerank.lab.store import canonical


@dataclass(frozen=True)
class Method:
    """name; ranker: a class, a function of the setting's keywords, or an estimator to copy; search: lists of values by
    parameter (a grid) or a search of `hingerank.lab.search`; fixed: parameters that are the same throughout.

    A ranker with `fit_path(X, y, qid, values)` fits all values of one parameter in one go, from warm starts; that
    parameter is `path`, by default the class's own `path_parameter`, else C.

    >>> from sklearn.linear_model import Ridge
    >>> Method("ridge", Ridge, {"alpha": [0.1, 1.0]}, fixed={"tol": 1e-6}).make({"alpha": 0.1})
    Ridge(alpha=0.1, tol=1e-06)
    """

    name: str
    ranker: Any
    search: Any = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "search", as_search(self.search))
        if self.path is None:
            usual = "C" if hasattr(self.ranker, "fit_path") else None
            object.__setattr__(self, "path", getattr(self.ranker, "path_parameter", usual))

    def make(self, setting: Setting, seed: int | None = None) -> Any:
        """A fresh ranker with this setting; `seed` goes to a parameter random_state that nothing else sets."""
        parameters = {**self.fixed, **setting}
        if self._is_estimator:
            from sklearn.base import clone

            ranker = clone(self.ranker)
            if seed is not None and "random_state" not in parameters and _unset_state(ranker):
                parameters["random_state"] = seed
            return ranker.set_params(**parameters)
        if seed is not None and "random_state" not in parameters and "random_state" in _parameters(self.ranker):
            parameters["random_state"] = seed
        return self.ranker(**parameters)

    @property
    def _is_estimator(self) -> bool:
        return not inspect.isclass(self.ranker) and hasattr(self.ranker, "set_params")

    def definition(self) -> dict[str, Any]:
        """What makes this method this method, for the run's header: a changed definition is another method."""
        source = type(self.ranker) if self._is_estimator else self.ranker
        home = f"{getattr(source, '__module__', '')}:{getattr(source, '__qualname__', repr(source))}"
        start = {k: repr(v) for k, v in self.ranker.get_params().items()} if self._is_estimator else {}
        words = {"ranker": home, "start": start, "fixed": dict(self.fixed), "search": describe_search(self.search)}
        return plain(words)

    def batches(self, settings: list[Setting]) -> list[list[Setting]]:
        """Settings to fit together: those that differ in the path parameter only; otherwise one at a time."""
        if self.path is None:
            return [[setting] for setting in settings]
        groups: dict[str, list[Setting]] = {}
        for setting in settings:
            rest = canonical({k: v for k, v in setting.items() if k != self.path})
            groups.setdefault(rest if self.path in setting else canonical(setting), []).append(setting)
        return list(groups.values())


def _parameters(call: Any) -> Mapping[str, Any]:
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        return {}


def _unset_state(estimator: Any) -> bool:
    parameters = estimator.get_params(deep=False)
    return "random_state" in parameters and parameters["random_state"] is None
