"""Which quicker ways of a ranker are those of its own fit and predict.

Searches fit many settings by one ``fit_path``, scale rows once for several fits and score several rankers at once. A
user's class that overrides `fit` or `predict` alone inherits these ways from a class that knows nothing of it. They are
then not taken: every setting is fitted and scored as the class says.
"""

from typing import Any

FITS = ("fit", "_fit", "_fit_parts")  # what a path replaces
SCORES = ("predict", "_predict", "_scores", "_scaled")  # what scoring several rankers at once replaces
SCALED = ("fit", "predict", "_learning_rows", "_predict", "_scaled")  # what scaling the rows beforehand replaces


def follows(kind: type, home: type, methods: tuple[str, ...]) -> bool:
    """Whether a quicker way that the class `home` has is also that of `kind`: no user's class overrides `methods`.

    Classes of this package override methods and keep the ways true, which their tests check.

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


def paths_of(ranker: Any) -> tuple[str, ...]:
    """The parameters whose values one call of ``fit_path`` fits together; none: fit settings one by one."""
    path = path_of(ranker)
    return () if path is None else getattr(ranker, "path_parameters", (path,))


def path_of(ranker: Any) -> str | None:
    """The parameter whose values one call of a ranker's (or class's) ``fit_path`` fits; None: fit them one by one."""
    kind = ranker if isinstance(ranker, type) else type(ranker)
    home = next((place for place in kind.__mro__ if "fit_path" in vars(place)), None)
    return getattr(kind, "path_parameter", "C") if home is not None and follows(kind, home, FITS) else None
