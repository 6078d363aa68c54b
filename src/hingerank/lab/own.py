"""The user's own parts of a comparison: found by "module:Name" or "file.py:Name", and identified in a run's header."""

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.arrays import Ranker
from hingerank.data.files import canonical, plain
from hingerank.lab.fitting import NEEDS

PLAIN = (type(None), bool, int, float, str, list, tuple, dict, np.generic, np.ndarray)


def is_place(text: object) -> bool:
    """Whether a text has the form "module:Name" or "file.py:Name"."""
    return isinstance(text, str) and ":" in text


def import_own(place: str) -> Any:
    """What "module:Name" or "file.py:Name" names, from the current folder, from a path, or installed.

    A file is imported as a module of its name from its folder, so that worker processes find it too.
    """
    home, _, name = place.rpartition(":")
    path = Path(home)
    folder = str((path.parent if home.endswith(".py") else Path()).resolve())
    if home.endswith(".py") and not path.is_file():
        raise ValueError(f"{place}: there is no file {home}")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = import_module(path.stem if home.endswith(".py") else home)
    except Exception as error:
        raise ValueError(f"{place}: {home} cannot be imported ({type(error).__name__}: {error})") from error
    found = getattr(module, "__file__", None)
    if home.endswith(".py") and (found is None or Path(found).resolve() != path.resolve()):
        raise ValueError(f"{place}: another module is called {path.stem} ({found or 'built in'}): rename the file")
    if name not in vars(module):
        names = [key for key, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
        raise ValueError(f"{place}: {home} has no {name!r}; it defines {', '.join(names) or 'nothing'}")
    return vars(module)[name]


def own_ranker(place: str) -> Ranker:
    """The user's class, function or estimator, if it can be a method of a comparison."""
    found = import_own(place)
    if inspect.isfunction(found):
        return found  # of the setting's keywords
    has = {name for name in ("fit", "predict", "rerank") if callable(getattr(found, name, None))}
    if not has >= {"fit", "predict"} and not has >= {"fit", "rerank"}:
        raise ValueError(f"{place} has {', '.join(sorted(has)) or 'neither fit nor predict'}: {NEEDS}")
    return found


def own_loss(place: str) -> object:
    """The user's loss: an object, or a class or function that makes one."""
    found = import_own(place)
    return found() if inspect.isclass(found) or inspect.isfunction(found) else found


def describe_part(value: object) -> Any:
    """A parameter for a run's header, the same in every process: an object by its class and its own values.

    >>> from hingerank.losses import squared_hinge
    >>> describe_part(0.5), describe_part(squared_hinge())
    (0.5, 'hingerank.losses.pairs:WindowLoss {"name":"squared_hinge","terms":[[1.0,0.0,1.0]]}')
    """
    if isinstance(value, PLAIN):
        return plain(value)
    source = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    state = (
        ""
        if source is value
        else f" {canonical({k: describe_part(v) for k, v in getattr(value, '__dict__', {}).items()})}"
    )
    return f"{source.__module__}:{source.__qualname__}{state}"


def check_values(name: str, values: object) -> None:
    """A ValueError if a parameter's values to try are objects, which results could not tell apart."""
    for value in values if isinstance(values, list | tuple) else ():
        if not isinstance(value, PLAIN):
            raise ValueError(
                f"the values of {name!r} to try hold {type(value).__name__}, an object: give each its own method, with "
                f"fixed={{{name!r}: …}}"
            )
