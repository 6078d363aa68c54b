"""Parameters of rankers and other pairs of a name and a value, as they are given on the command line."""

from collections.abc import Sequence
from typing import Any

from hingerank.registry import did_you_mean
from hingerank.renaming import present_names


def named_values(texts: Sequence[str] | None, flag: str, mark: str = "=") -> dict[str, str]:
    """Parse the texts that an option was given, such as name=value, into a mapping from names to values."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, sign, value = (part.strip() for part in text.partition(mark))
        if not (name and sign):
            raise ValueError(f"{flag} {text}: give a name and a value, as in NAME{mark}VALUE")
        if name in found:
            raise ValueError(f"{flag} {name} is given twice, as {found[name]} and {value}: leave out one")
        found[name] = value
    return found


def read_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse the texts of --set into parameters and their values."""
    from hingerank.lab.methods import read_value

    return {name: read_value(value) for name, value in named_values(texts, "--set").items()}


def make_ranker(cls: Any, name: str, parameters: dict[str, Any], flags: dict[str, str] | None = None) -> Any:
    """Make a ranker with these parameters; those that it does not have itself are passed to the library behind it.

    flags: parameter -> the option that gave it.
    """
    parameters = present_names(cls, parameters, warn=True)
    known = list(cls().get_params(deep=False))
    others = getattr(cls, "_others", None)  # the parameter for arguments of that library
    own = {key: value for key, value in parameters.items() if key in known}
    more = {key: value for key, value in parameters.items() if key not in known}
    if more and others is None:
        first = next(iter(more))
        if first in (flags or {}):
            raise ValueError(f"{name} does not take {(flags or {})[first]}; its parameters are {', '.join(known)}")
        raise ValueError(f"{name} has no parameter {first!r}; it has {', '.join(known)}{did_you_mean(first, known)}")
    if more and others is not None:
        own[others] = {**(own.get(others) or {}), **more}
    return cls(**own)
