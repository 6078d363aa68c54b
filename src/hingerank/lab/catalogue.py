"""Methods by the names of the command line, with the settings that are tried unless others are asked for."""

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hingerank.lab.method import Method
from hingerank.lab.ratings import PersonalRows
from hingerank.lab.search import Choice, Grid, Integers, LogUniform, OptunaSearch, RandomSearch, Search

# parameter -> values to try, for every ranker that has it
VALUES: dict[str, list[Any]] = {
    "C": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0],
    "radius": [1.0, 3.0, 10.0, 30.0, 100.0],
}
# ranker -> values to try instead
SPECIAL: dict[str, dict[str, list[Any]]] = {
    "kernel-rank-svm": {"C": [1e-3, 1e-1, 10.0], "gamma": [1e-2, 1e-1, 1.0]},
    "nystroem-rank-svm": {"C": [1e-4, 1e-2, 1.0], "gamma": [1e-2, 1e-1, 1.0]},
    "fourier-rank-svm": {"C": [1e-4, 1e-2, 1.0], "gamma": [1e-2, 1e-1, 1.0]},
    "sparse-rank-svm": {"C": [0.1, 1.0, 10.0, 100.0, 1000.0]},
    "tg-rank": {"C": [0.1, 1.0, 10.0, 100.0, 1000.0]},
    "rs-rank": {"C": [1e-2, 0.1, 1.0, 10.0, 100.0]},
    "feature-selection": {"k": [3, 5, 10, 20], "C": [1e-3, 1e-1]},
    "factorized": {"C": [1e-3, 1e-1, 10.0], "rank": [2, 5, 10]},
    "regularized": {"C": [1e-3, 1e-1, 10.0], "lam": [0.1, 1.0, 10.0]},
    "listnet": {"C": [1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0]},
    "rankrls": {"C": [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0]},
    "crr": {"C": [1e-1, 1.0, 10.0, 100.0, 1e3, 1e4], "alpha": [0.1, 0.5]},
    "adarank": {"n_rounds": [1, 2, 3, 5, 8, 12, 20, 50]},
    "rankboost": {"n_rounds": [10, 20, 50, 100, 200, 300]},
    "personal-rank-svm": {"C": [1e-5, 1e-4, 1e-3, 1e-2], "rank": [10, 30]},
    "matrix-completion": {"C": [1e-3, 1e-2, 1e-1], "rank": [10, 30]},
    "lightgbm": {"n_estimators": [20, 50, 100, 200], "num_leaves": [7, 31]},
    "xgboost": {"n_estimators": [20, 50, 100, 200], "max_depth": [3, 6]},
}


def method_from_name(
    text: str, given: Mapping[str, Sequence[Any]] | None = None, search: str = "grid", trials: int = 20
) -> Method:
    """ "rank-svm" (or what `registered_name` takes for it), or "own=rank-svm" to call it otherwise.

    given: parameter -> values, one to fix it, several to try instead of the usual ones.
    search: "grid" tries all combinations; "random" and "optuna" try `trials` settings, numbers from the range of their
    values (drawn evenly in the logarithm where all are positive) and words from among them.

    >>> method = method_from_name("hinge=rank-svm", {"loss": ["hinge"], "C": [0.1, 1.0]})
    >>> method.name, dict(method.fixed), method.search.settings()
    ('hinge', {'loss': 'hinge'}, [{'C': 0.1}, {'C': 1.0}])
    """
    from hingerank.personal.base import PersonalRanker
    from hingerank.rankers import ranker_class, registered_name
    from hingerank.rankers.base import BaseRanker

    called, _, asked = (part.strip() for part in text.rpartition("="))
    name = registered_name(asked)
    ranker = ranker_class(name)
    if not issubclass(ranker, BaseRanker | PersonalRanker):
        raise ValueError(not_from_rows(name, ranker))
    known = [p for p in inspect.signature(ranker).parameters if p not in ("args", "kwargs")]
    given = dict(given or {})
    for parameter in given:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
    usual = SPECIAL.get(name, {p: values for p, values in VALUES.items() if p in known})
    fixed = {p: values[0] for p, values in given.items() if len(values) == 1}
    space = {p: list(v) for p, v in {**usual, **given}.items() if p not in fixed}
    tried = make_search(space, search, trials)
    if issubclass(ranker, PersonalRanker):
        return Method(called or asked, PersonalRows, tried, {"ranker": name, **fixed})
    return Method(called or asked, ranker, tried, fixed)


def make_search(space: Mapping[str, Sequence[Any]], kind: str, trials: int) -> Search:
    """A grid of these values, or a search over their ranges."""
    if kind == "grid" or not space:
        return Grid(space)
    kinds: dict[str, Any] = {"random": RandomSearch, "optuna": OptunaSearch}
    if kind not in kinds:
        raise ValueError(f"there is no search {kind!r}; choose grid, random or optuna")
    return kinds[kind]({name: _range(values) for name, values in space.items()}, trials)


def _range(values: Sequence[Any]) -> Any:
    if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        return Integers(min(values), max(values))
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0 for v in values) and len(set(values)) > 1:
        return LogUniform(float(min(values)), float(max(values)))
    return Choice(tuple(values))


def parse_settings(texts: Iterable[str]) -> dict[str, dict[str, list[Any]]]:
    """["hinge.C=0.1,1", "loss=hinge"] as {method: {parameter: values}}; "" stands for every method.

    Values are read by `read_value`; a value may be a list.

    >>> parse_settings(["hinge.C=0.1,1", "loss=hinge", "weights=[1, 2],[3, 4]"])
    {'hinge': {'C': [0.1, 1]}, '': {'loss': ['hinge'], 'weights': [[1, 2], [3, 4]]}}
    """
    found: dict[str, dict[str, list[Any]]] = {}
    for text in texts:
        head, equals, values = text.partition("=")
        method, _, parameter = head.strip().rpartition(".")
        if not equals or not parameter or not values.strip():
            raise ValueError(f"--set {text!r} is not of the form PARAMETER=VALUE,… or METHOD.PARAMETER=VALUE,…")
        if parameter in found.setdefault(method, {}):
            raise ValueError(f"--set gives {head.strip()} twice: give all its values at once, with commas between them")
        found[method][parameter] = _values(values)
    return found


def _values(text: str) -> list[Any]:
    """Values with commas between them; those within the brackets of a list do not count."""
    try:
        return json.loads(f"[{text}]")
    except ValueError:
        return [read_value(value.strip()) for value in text.split(",")]


def read_value(text: str) -> Any:
    """A value typed on the command line: JSON where it is JSON (3, 0.5, true, null, [1, 2]), else a number or a word.

    >>> [read_value(text) for text in ("3", ".5", "None", "[1, 2]", "hinge")]
    [3, 0.5, None, [1, 2], 'hinge']
    """
    words: dict[str, Any] = {"none": None, "true": True, "false": False}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    for read in (json.loads, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def not_from_rows(name: str, ranker: Any) -> str:
    """Why graded rows are not enough for a ranker, and the command that takes what it needs."""
    from hingerank.personal.base import PersonalRanker

    if issubclass(ranker, PersonalRanker):
        return f"{name} learns from ratings: use hingerank compare with --items, or {ranker.__name__} from Python"
    return f"{name} reorders the documents of a run: use hingerank rerank, or {ranker.__name__} from Python"
