"""Fits of several settings: along one path if the ranker has one, else one at a time.

Searches fit many settings by one ``fit_path``, scale rows once for several fits and score several rankers at once. A
user's class that overrides only `fit` or `predict` inherits these shortcuts from a class that does not know it. They
are then not used: every setting is fitted and scored by the class's own methods.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hingerank.arrays import PerRow, Ranker, RowsLike
from hingerank.data.checks import WeakFitWarning
from hingerank.data.files import canonical
from hingerank.search.settings import Setting

FITS = ("fit", "_fit", "_fit_parts")  # methods that a path replaces
SCORES = ("predict", "_predict", "_scores", "_scaled")  # methods that scoring several rankers at once replaces
SCALED = ("fit", "predict", "_learning_rows", "_predict", "_scaled")  # methods that scaling in advance replaces


class SettingFit(NamedTuple):
    """A fitted ranker, or the error that stopped it; its seconds; its warnings."""

    setting: Setting
    ranker: Ranker
    seconds: float
    error: Exception | None = None
    warned: tuple[str, ...] = ()


def path_batches(settings: Sequence[Setting], paths: tuple[str, ...]) -> list[list[Setting]]:
    """Settings to fit together: those that differ only in the path's parameters; otherwise one at a time.

    >>> path_batches([{"C": 1, "loss": "a"}, {"C": 2, "loss": "a"}, {"C": 1, "loss": "b"}], ("C",))
    [[{'C': 1, 'loss': 'a'}, {'C': 2, 'loss': 'a'}], [{'C': 1, 'loss': 'b'}]]
    """
    groups: dict[str, list[Setting]] = {}
    for number, setting in enumerate(settings):
        own = _of_path(setting, paths)
        rest = canonical({n: v for n, v in setting.items() if n not in own}) if own else f"alone {number}"
        groups.setdefault(f"{own} {rest}", []).append(setting)
    return list(groups.values())


def _of_path(setting: Setting, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The path's parameters that a setting has: all of them, or only the first."""
    return paths if all(name in setting for name in paths) else tuple(name for name in paths[:1] if name in setting)


def fit_settings(
    make: Callable[[Setting], Ranker],
    settings: Sequence[Setting],
    paths: tuple[str, ...],
    rows: tuple[RowsLike, PerRow, PerRow],
    learn: Callable[[Ranker], object],
    caught: tuple[type[Exception], ...] = (Exception,),
    stop_on: object = None,
) -> Iterator[SettingFit]:
    """Fit each setting; along a path in one call if there are several, else, or if that fails, one at a time.

    Parameters
    ----------
    make : returns an unfitted ranker for a setting
    settings : a batch from `path_batches`
    paths : the parameter whose values ``fit_path`` fits in one call; or several, whose values it takes together
    rows : what ``fit_path`` takes: X, y and qid; or data in parts, None and None
    learn : fits one ranker to the same rows
    caught : errors that belong to a setting; all others are raised
    stop_on : rows for early stopping, for rankers whose paths support it
    """
    names = _of_path(settings[0], paths)
    if names and (len(settings) > 1 or stop_on is not None):
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                values = [
                    setting[names[0]] if len(names) == 1 else tuple(map(setting.get, names)) for setting in settings
                ]
                more = {} if stop_on is None else {"eval_set": [stop_on]}
                rankers = list(make(settings[0]).fit_path(*rows, values, **more))
            if len(rankers) != len(values):
                raise ValueError(
                    f"fit_path returned {len(rankers)} rankers for {len(values)} values of {', '.join(names)}"
                )
            seconds = (time.perf_counter() - start) / len(settings)
            for setting, ranker in zip(settings, rankers):
                yield SettingFit(setting, ranker, seconds, None, _texts(warned))
            return
        except caught:  # the loop below finds out which setting failed
            pass
    for setting in settings:
        start, ranker, error = time.perf_counter(), None, None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            if len(settings) > 1:  # only the best will be used, so weak fits of others need no warning
                warnings.simplefilter("ignore", WeakFitWarning)
            try:
                ranker = make(setting)
                learn(ranker)
            except caught as problem:
                error = problem
        yield SettingFit(setting, ranker, time.perf_counter() - start, error, _texts(warned))


def _texts(warned: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in warned))


def follows(kind: type, home: type, methods: tuple[str, ...]) -> bool:
    """Whether a shortcut of the class `home` is valid for `kind`: no user's class overrides `methods`.

    Classes of this package override methods and keep the shortcuts valid, which their tests check.

    >>> from hingerank import RankSVM
    >>> Mine = type("Mine", (RankSVM,), {"fit": lambda self, X: self, "__module__": "mine"})
    >>> follows(RankSVM, RankSVM, FITS), follows(Mine, RankSVM, FITS), follows(Mine, RankSVM, SCORES)
    (True, False, True)
    """
    order = kind.__mro__
    if home not in order:
        return False
    users = [place for place in order[: order.index(home)] if place.__module__.partition(".")[0] != "hingerank"]
    return not any(name in vars(place) for place in users for name in methods)


def path_of(ranker: Ranker) -> str | None:
    """The parameter whose values one call of a ranker's (or class's) ``fit_path`` fits; None: fit them one by one."""
    kind = ranker if isinstance(ranker, type) else type(ranker)
    home = next((place for place in kind.__mro__ if "fit_path" in vars(place)), None)
    return getattr(kind, "path_parameter", "C") if home is not None and follows(kind, home, FITS) else None
