"""Arguments that several commands share, and parameters of rankers as the command line gives them."""

from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="LETOR/SVMlight text (plain or compressed), a binary folder or Parquet.")
]
Missing = Annotated[str, typer.Option(help="What NULL and missing values become: error, zero or nan.")]


def read_setting(text: str) -> tuple[str, Any]:
    """`name=value` as (name, value)."""
    from hingerank.lab.catalogue import read_value

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--set {text!r} is not of the form NAME=VALUE")
    return name.strip(), read_value(value)


def make_ranker(cls: Any, name: str, parameters: dict[str, Any]) -> Any:
    """The ranker with these parameters; one it does not have is a mistake of the user's."""
    known = list(cls().get_params(deep=False))
    for parameter in parameters:
        if parameter not in known:
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {', '.join(known)}")
    return cls(**parameters)
