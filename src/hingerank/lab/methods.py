"""A method to compare: a name, how to make its ranker, and which settings to try."""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from hingerank.arrays import Facts, Given, PerRow, Ranker, RowsLike
from hingerank.data.checks import one_of
from hingerank.data.files import PathLike, plain
from hingerank.data.ranking_data import RankingData
from hingerank.lab.kinds import kind_of
from hingerank.lab.own import HasParams, check_values, code_mark, describe_part, is_place, own_loss, own_ranker
from hingerank.metrics.measure import MeasureLike
from hingerank.personal.baselines import BASELINES, PEERS, is_installed
from hingerank.registry import did_you_mean
from hingerank.renaming import present_names
from hingerank.search.folds import paths_of
from hingerank.search.proposals import (
    Choice,
    Distribution,
    Integers,
    LogUniform,
    OptunaSearch,
    RandomSearch,
    describe_search,
)
from hingerank.search.settings import (
    AROUND,
    STAGES,
    Grid,
    Search,
    Setting,
    Stage,
    Values,
    check_several,
    scales_for,
    usual_search,
)


@dataclass(frozen=True)
class Method:
    """A ranker with the settings to try.

    Parameters
    ----------
    name : what it is called in results
    ranker : a class, a function of the setting's keywords, or an estimator to copy
    search : lists of values by parameter (a grid), or a search of ``hingerank.search.proposals``
    fixed : parameters that are the same throughout
    path : the parameter whose values a ranker with ``fit_path(X, y, qid, values)`` fits together; default the ranker's
        own ``path_parameter``, else C, unless a subclass overrides `fit` alone; "" fits every setting from scratch

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> Method("ridge", Ridge, {"alpha": [0.1, 1.0]}, fixed={"tol": 1e-6}).make({"alpha": 0.1})
    Ridge(alpha=0.1, tol=1e-06)
    """

    name: str
    ranker: Ranker
    search: Any = field(default_factory=dict)
    fixed: Given = field(default_factory=dict)
    path: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.ranker) and not self._is_estimator:
            raise ValueError(
                f"the ranker of {self.name!r} is {self.ranker!r}: give a class, a function or an estimator; "
                "method_from_name takes the name of a ranker"
            )
        if not isinstance(self.fixed, Mapping) or not isinstance(self.search, Mapping | Search):
            raise ValueError(
                f"the settings of {self.name!r} must be dictionaries by parameter: values to try, such as "
                "{'C': [0.1, 1]}, or a search such as RandomSearch, and fixed={'scale': 'standard'}"
            )
        object.__setattr__(self, "fixed", present_names(self.ranker, self.fixed, warn=True, stacklevel=3))
        search: Any = Grid(self.search) if isinstance(self.search, Mapping) else self.search
        space = getattr(search, "space", {})
        named = present_names(self.ranker, space, warn=True, stacklevel=3)
        object.__setattr__(self, "search", search if [*named] == [*space] else replace(search, space=named))
        for parameter, values in named.items():
            check_values(parameter, values)
        if self.path is None:
            object.__setattr__(self, "path", next(iter(paths_of(self.ranker)), None))

    def make(self, setting: Setting, seed: int | None = None) -> Ranker:
        """A fresh ranker with this setting; `seed` goes to a parameter random_state that nothing else sets."""
        parameters = {**self.fixed, **setting}
        if seed is not None and self.is_random:
            parameters["random_state"] = seed
        if not self._is_estimator:
            return self.ranker(**parameters)
        from sklearn.base import clone

        return clone(self.ranker).set_params(**parameters)

    @property
    def is_random(self) -> bool:
        """Whether the ranker has a random_state that neither `fixed` nor the search sets, so that seeds count."""
        if "random_state" in {**self.fixed, **describe_search(self.search).get("space", {})}:
            return False
        if self._is_estimator:
            return self.ranker.get_params(deep=False).get("random_state", 0) is None
        return "random_state" in _parameters(self.ranker)

    @property
    def _is_estimator(self) -> bool:
        return not inspect.isclass(self.ranker) and isinstance(self.ranker, HasParams)

    def definition(self) -> Facts:
        """What identifies this method in the run's header: a changed definition is another method."""
        source = type(self.ranker) if self._is_estimator else self.ranker
        home = home_of(f"{getattr(source, '__module__', '')}:{getattr(source, '__qualname__', repr(source))}")
        start = {k: repr(v) for k, v in self.ranker.get_params().items()} if self._is_estimator else {}
        fixed = {name: describe_part(value) for name, value in self.fixed.items()}
        words = {"ranker": home, "start": start, "fixed": fixed, "search": describe_search(self.search)}
        return without_addresses(plain(words | {"path": ""} if self.path == "" else words))

    def code(self, measures: Sequence[MeasureLike] = ()) -> str:
        """A mark of the code of the ranker, of its parameters and of user-defined measures: results of changed code are
        computed again."""
        return code_mark(self.ranker, self.fixed, describe_search(self.search), *measures)

    @property
    def paths(self) -> tuple[str, ...]:
        """The path parameter; empty if every setting is fitted from scratch."""
        return (self.path,) if self.path else ()


def home_of(text: str) -> str:
    """ "module:name" of a ranker, this package's own without their module: it may move from version to version.

    >>> home_of("hingerank.rankers.linear:RankSVM"), home_of("sklearn.linear_model:Ridge")
    ('hingerank:RankSVM', 'sklearn.linear_model:Ridge')
    """
    package, _, _ = text.partition(".")
    return f"{package}:{text.rpartition(':')[2]}" if package == "hingerank" else text


def without_addresses(definition: Facts) -> Facts:
    """A definition in which functions and other objects have no place in memory, which no other process shares.

    >>> without_addresses({"fixed": {"kernel": "<function mine at 0x7f3a5c>"}})
    {'fixed': {'kernel': '<function mine>'}}
    """
    return json.loads(re.sub(r" at 0x[0-9a-fA-F]+", "", json.dumps(definition)))


def _parameters(call: Callable[..., object]) -> Given:
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        return {}


def method_from_name(
    text: str,
    given: Stage | None = None,
    search: str = "grid",
    trials: int = 20,
    fold: object = None,
) -> Method:
    """A method by the name of its ranker on the command line.

    Parameters
    ----------
    text : "rank-svm" (or what `registered_name` takes for it), a baseline of ratings ("popularity", "item-mean",
        "item-knn", "als", "bpr", "lightfm"), or "own=rank-svm" to set a display name. Your own class
        is "own=module:Class" or "own=file.py:Class"; your own loss has the same form in `given`
    given : parameter -> values, one to fix it, several to try instead of the usual ones
    search : "grid" tries all combinations of what is given, or what `hingerank.tune` would try; "random" and "optuna"
        try `trials` settings, numbers from the range of their values (drawn evenly in the logarithm where all are
        positive) and words from among them
    trials : settings that "random" and "optuna" try
    fold : its training rows decide which scalings, and which C of personal rankers, are tried; without it, none are

    Examples
    --------
    >>> method = method_from_name("hinge=rank-svm", {"loss": ["hinge"], "C": [0.1, 1.0]})
    >>> method.name, dict(method.fixed), method.search.settings()
    ('hinge', {'loss': 'hinge'}, [{'C': 0.1}, {'C': 1.0}])
    """
    from hingerank.registry import ranker_class, registered_name

    called, _, asked = (part.strip() for part in text.rpartition("="))
    for parameter, values in (given or {}).items():
        check_several(parameter, values)
    given = {p: [own_loss(v) if p == "loss" and is_place(v) else v for v in vs] for p, vs in (given or {}).items()}
    fixed, space = _split(given)
    if is_place(asked):
        found = make_search([space], search, trials)
        return Method(called or asked.rpartition(":")[2], own_ranker(asked), found, fixed)
    name = asked if asked in BASELINES else registered_name(asked)
    if name == "blend" or name in BASELINES:
        return _without_stages(called or asked, name, given, search, trials)
    ranker = ranker_class(name)
    given = present_names(ranker, given, warn=True)

    def train() -> Any:
        return fold[0] if isinstance(fold, tuple) else fold.part("train")  # type: ignore[attr-defined]

    def natural_C() -> float:
        return ranker().natural_C(*kind_of(train()).ratings)

    of_rows = (lambda: [*scales_for(train().X)], natural_C) if fold is not None else ()
    found = usual_search(ranker(), given, *of_rows)
    fixed, several = _split(given)
    rest = ({p: values for p, values in stage.items() if p not in fixed} for stage in found.stages)
    stages = [stage for stage in rest if stage] or [{}]
    tried = make_search(stages, search, trials, replace(found, stages=stages) if not several else None)
    return Method(called or asked, ranker, tried, fixed)


def _split(given: Stage) -> tuple[Facts, Stage]:
    """Parameters with one value, which are fixed, and those with several to try."""
    fixed = {parameter: values[0] for parameter, values in given.items() if len(values) == 1}
    return fixed, {parameter: values for parameter, values in given.items() if parameter not in fixed}


def _without_stages(called: str, name: str, given: Stage, search: str, trials: int) -> Method:
    """A baseline, a recommender of another library or a blend: a grid of what is given, or of its usual values."""
    ranker = BASELINES.get(name, BlendRows)
    known = list(_parameters(ranker))
    unknown = next((p for p in given if p not in known), None)
    if unknown is not None:
        hint = f"{did_you_mean(unknown, known)}; it has {', '.join(known)}" if known else ": it has no settings"
        raise ValueError(f"{name} has no parameter {unknown!r} here{hint}")
    if name in PEERS and not is_installed(name):
        raise ValueError(f"{name} needs the package {PEERS[name].needs}: pip install {PEERS[name].comes_with}")
    fixed, _ = _split(given)
    usual = {p: values for stage in STAGES.get(name, []) for p, values in stage.items() if p in known}
    space = {p: values for p, values in {**usual, **given}.items() if p not in fixed}
    return Method(called, ranker, make_search([space], search, trials), fixed)


class BlendRows:
    """A blend of rankers whose settings are tuned on folds of the training rows: `tune` with ``blend=True``.

    Parameters
    ----------
    members : names of the rankers; None: rank-svm, additive-rank-svm and, if it is installed, lightgbm
    folds : of the training queries
    measure : to tune by
    random_state : of the folds, and of rankers
    """

    def __init__(
        self,
        members: Sequence[str] | None = None,
        folds: int = 5,
        measure: str = "ndcg@10",
        random_state: int | None = None,
    ) -> None:
        self.members, self.folds, self.measure, self.random_state = members, folds, measure, random_state

    def fit(self, X: RowsLike, y: PerRow = None, qid: PerRow = None) -> "BlendRows":
        from hingerank.search.tuning import tune

        names = self.members
        if names is None:
            names = ["rank-svm", "additive-rank-svm", *(["lightgbm"] if find_spec("lightgbm") else [])]
        data = X if isinstance(X, RankingData) else RankingData(X, np.asarray(y), np.asarray(qid))
        self.ranker_ = tune(
            list(names), data, measure=self.measure, folds=self.folds, random_state=self.random_state or 0, blend=True
        )
        return self

    def predict(self, X: RowsLike, qid: PerRow = None) -> np.ndarray:
        return self.ranker_.predict(X, qid)

    def save(self, path: PathLike, metadata: Given | None = None) -> str:
        """Write the blend to a model file."""
        return self.ranker_.save(path, metadata)

    def __getattr__(self, name: str) -> object:
        """Fitted attributes, such as members_ and certificate_, are the blend's."""
        if not name.endswith("_") or name.startswith("_") or name == "ranker_":
            raise AttributeError(name)
        return getattr(self.ranker_, name)


def make_search(stages: Sequence[Stage], kind: str, trials: int, grid: Search | None = None) -> Search:
    """`grid`, by default a fixed one of all values, or a random or Optuna search over the ranges of all values."""
    space: dict[str, Values] = {}
    for stage in stages:
        for name, values in stage.items():
            space.setdefault(name, []).extend([] if values is AROUND else values)
    if not space or kind == "grid":
        return grid if grid is not None and space else Grid(space)
    drawn = RandomSearch if one_of("search", kind, "grid", "random", "optuna") == "random" else OptunaSearch
    return drawn({name: _range(values) for name, values in space.items()}, trials)


def _range(values: Values) -> Distribution:
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return Integers(min(values), max(values))
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0 for v in values) and len(set(values)) > 1:
        return LogUniform(float(min(values)), float(max(values)))
    return Choice(tuple(values))


def parse_settings(texts: Iterable[str]) -> dict[str, dict[str, list[object]]]:
    """``["hinge.C=0.1,1", "loss=hinge"]`` as ``{method: {parameter: values}}``; "" stands for every method.

    Values are read by `read_value`; a value may be a list.

    >>> parse_settings(["hinge.C=0.1,1", "loss=hinge", "weights=[1, 2],[3, 4]"])
    {'hinge': {'C': [0.1, 1]}, '': {'loss': ['hinge'], 'weights': [[1, 2], [3, 4]]}}
    """
    found: dict[str, dict[str, list[object]]] = {}
    for text in texts:
        head, equals, values = text.partition("=")
        method, _, parameter = head.strip().rpartition(".")
        if not equals or not parameter or not values.strip():
            raise ValueError(f"--set {text!r} is not of the form PARAMETER=VALUE,… or METHOD.PARAMETER=VALUE,…")
        if parameter in found.setdefault(method, {}):
            raise ValueError(f"--set gives {head.strip()} twice: give all its values at once, with commas between them")
        found[method][parameter] = _values(values)
    return found


def _values(text: str) -> list[object]:
    """Values with commas between them; those within the brackets of a list do not count."""
    try:
        return json.loads(f"[{text}]")
    except ValueError:
        return [read_value(value.strip()) for value in text.split(",")]


def read_value(text: str) -> object:
    """A value typed on the command line: JSON where it is JSON (3, 0.5, true, null, [1, 2]), else a number or a word.

    >>> [read_value(text) for text in ("3", ".5", "None", "[1, 2]", "hinge")]
    [3, 0.5, None, [1, 2], 'hinge']
    """
    words: Facts = {"none": None, "true": True, "false": False}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    spelt = text.isascii() and "_" not in text  # Python would also take 1_0 for a number
    for read in (json.loads, float) if spelt else (json.loads,):
        try:
            return read(text)
        except ValueError:
            pass
    return text
