"""Methods that some rankers do not have, and why."""

from typing import NoReturn

NO_CLICKS = (
    "it has no loss of pairs in which clicked rows can weigh. RankSVM, AdditiveRankSVM, KernelRankSVM, SparseRankSVM, "
    "RankNet, ListNet and others do; or let hingerank.judgments make grades of a click model, and use fit"
)


class Absent:
    """A method that a class does not have: asking for it is an AttributeError that says why, so `hasattr` is False.

    Parameters
    ----------
    why : the reason, and what to use instead

    Examples
    --------
    >>> class Some:
    ...     fly = Absent("it has no wings: use walk")
    >>> hasattr(Some(), "fly")
    False
    >>> Some().fly
    Traceback (most recent call last):
    AttributeError: Some has no fly: it has no wings: use walk
    """

    def __init__(self, why: str) -> None:
        self.why = why

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no {self.name}: {self.why}")
