"""The user's own parts of a comparison: found by "module:Name" or "file.py:Name", and identified in a run's header.

`code_mark` is a mark of the code behind a method: it changes when what the method computes may have changed.
User-defined classes and functions count by their code: the compiled code of their functions, and the constants,
functions and classes that this code names, directly or through others. (Compiled code, not the source file, which may
have been edited after it was imported. So another version of Python counts as a change.) Installed classes and
functions, and this package's, count by their version. What changes while a program runs, such as a list that a class
appends to, does not count.
"""

import contextlib
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hingerank.arrays import Facts, Given, Ranker
from hingerank.data.files import canonical, plain

CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(...))
NO_CODE = {  # of a class: where it stands and what Python notes about it
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__",
    "__annotations__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl",
    "__parameters__", "__orig_bases__",
}  # fmt: skip
NEEDS = "a method needs fit(X, y, qid=…) and predict(X), or for topics fit(queries) and rerank(query, top)"
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
    home = f"{source.__module__}:{source.__qualname__}"
    state = {k: describe_part(v) for k, v in getattr(value, "__dict__", {}).items()}
    return home if source is value else f"{home} {canonical(state)}"


def check_values(name: str, values: object) -> None:
    """A ValueError if a parameter's values to try are objects, which results could not tell apart."""
    for value in values if isinstance(values, list | tuple) else ():
        if not isinstance(value, PLAIN):
            raise ValueError(
                f"the values of {name!r} to try hold {type(value).__name__}, an object: give each its own method, with "
                f"fixed={{{name!r}: …}}"
            )


@runtime_checkable
class HasParams(Protocol):
    """An estimator, or a transformer, of scikit-learn's kind."""

    def get_params(self, deep: bool = True) -> Facts: ...


def code_mark(*things: object) -> str:
    """A mark of the code of classes, functions and estimators, and of those among their parameters."""
    words = _Words()
    for thing in things:
        words.add(thing)
    return words.digest.hexdigest()[:16]


class _Words:
    """A digest of what things mean; each class and function enters once."""

    def __init__(self) -> None:
        self.digest, self.seen = hashlib.sha256(), dict[int, tuple[int, object]]()

    def word(self, *parts: object) -> None:
        self.digest.update(repr(parts).encode() + b"\n")

    def add(self, thing: object) -> None:
        """Any value: what it is, and what it holds."""
        if isinstance(thing, CONSTANTS):
            self.word(thing)
        elif isinstance(thing, frozenset | set):
            self.word("set", *sorted(map(code_mark, thing)))
        elif isinstance(thing, Mapping):
            self.add(sorted(thing.items(), key=lambda item: str(item[0])))
        elif isinstance(thing, tuple | list):
            self.word("list", len(thing))
            for item in thing:
                self.add(item)
        elif id(thing) in self.seen:
            self.word("again", self.seen[id(thing)][0])
        else:
            self.seen[id(thing)] = len(self.seen), thing  # held, so that no other thing has its id meanwhile
            self._add_object(thing)

    def _add_object(self, thing: object) -> None:
        if isinstance(thing, functools.partial):
            self.add((thing.func, thing.args, thing.keywords))
        elif isinstance(thing, CodeType):
            self.word(thing.co_code, thing.co_names, thing.co_varnames, thing.co_freevars)
            self.add(thing.co_consts)
        elif isinstance(thing, type):
            self._add_class(thing)
        elif inspect.ismethod(thing):
            self.add((thing.__func__, thing.__self__))
        elif isinstance(thing, staticmethod | classmethod):
            self.add(thing.__func__)
        elif isinstance(thing, property):
            self.add((thing.fget, thing.fset))
        elif isinstance(function := inspect.unwrap(thing) if callable(thing) else None, FunctionType):
            self._add_function(function)
        else:
            self.add(type(thing))
            if isinstance(thing, HasParams):
                self.add(thing.get_params(deep=False))
            elif installed(type(thing).__module__) is None:
                self.add({name: value for name, value in getattr(thing, "__dict__", {}).items() if _lasting(value)})

    def _add_function(self, function: FunctionType) -> None:
        if (home := installed(function.__module__)) is not None:
            self.word(home, function.__qualname__)
            return
        self.add((function.__defaults__, function.__kwdefaults__, function.__code__))
        names = sorted(set(_names_in(function.__code__)))
        self._add_named(function.__globals__, names)
        enclosing: dict[str, object] = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # a variable of an enclosing function that is not set yet
                enclosing[name] = cell.cell_contents
        self._add_named(enclosing, sorted(enclosing))

    def _add_named(self, values: Given, names: list[str]) -> None:
        """What code names among the globals of its module, and among those of users' modules that it names."""
        for name in names:
            value = values.get(name)
            if isinstance(value, ModuleType) and installed(value.__name__) is None and id(value) not in self.seen:
                self.seen[id(value)] = len(self.seen), value
                self._add_named(vars(value), names)
            elif value is not None and _lasting(value):
                self.add((name, value))

    def _add_class(self, kind: type) -> None:
        """The class and those it derives from; an installed one stands for those below it."""
        covered: set[type] = {object}
        for place in kind.__mro__:
            if place in covered:
                continue
            home = installed(place.__module__)
            self.word(home, place.__qualname__)
            covered |= {place} if home is None else set(place.__mro__)
            for name, value in sorted(vars(place).items()) if home is None else ():
                if name not in NO_CODE and _lasting(value):
                    self.add((name, value))


def _lasting(value: object) -> bool:
    """Whether a value is part of a program's text: a constant, a class, a function or what wraps one."""
    if isinstance(value, tuple | frozenset):
        return all(map(_lasting, value))
    wraps = isinstance(value, staticmethod | classmethod | property | functools.partial)
    return wraps or isinstance(value, CONSTANTS) or callable(value)


def _names_in(code: CodeType) -> Iterator[str]:
    """Names of globals and attributes in a function and those inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


@functools.cache
def installed(module: str | None) -> str | None:
    """The name and version of the distribution that a module is of; None for code of users."""
    top = (module or "").partition(".")[0]
    if top == "hingerank":
        from hingerank import __version__

        return f"hingerank {__version__}"
    if top in sys.stdlib_module_names and top != "__main__":
        return "python"
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts):
        return None
    return ", ".join(f"{name} {version(name)}" for name in sorted(set(packages_distributions().get(top, [])))) or None
