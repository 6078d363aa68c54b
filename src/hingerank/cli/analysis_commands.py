"""`analyse`: the inside of a model."""

from pathlib import Path
from typing import Annotated

import typer

from hingerank.cli.output import Json, note, print_json, print_table


def analyse(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="interactions: the ranks of a dual model's multipliers.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that fit wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FIGURE", help="Also draw histograms: .svg, .png or .pdf.")
    ] = None,
    share: Annotated[
        list[float] | None, typer.Option(min=0.0, max=1.0, help="Fraction of the energy to keep; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Look inside a model: how low the rank of each query's multipliers is.

    The model is a dual one: rank-svm fitted with --loss hinge --set solver=dual, factorized or regularized.

    Example: hingerank analyse interactions model/ -o interactions.svg
    """
    from hingerank.export.model_file import load
    from hingerank.papers.interactions import interactions

    if what != "interactions":
        raise ValueError(f"there is no analysis {what!r}; the known one is: interactions")
    fractions = tuple(share or (0.9, 1.0))
    found = interactions(load(model))
    if output is not None:
        found.plot(output, fractions)
    if json:
        histograms = {f"{s:g}": found.histogram(s).tolist() for s in fractions}
        print_json({"queries": found.table(fractions), "histograms": histograms})
        return
    columns = found.table(fractions)
    print_table("Multipliers of every query", list(columns), list(zip(*columns.values())))
    names = ["", *(f"{10 * k}–{10 * k + 10} %" for k in range(10))]
    rows = [[f"{s:.0%} of the energy", *found.histogram(s).tolist()] for s in fractions]
    print_table("Queries by the dimensions they need, as a fraction of their rows", names, rows)
    if output is not None:
        note(f"wrote {output}")
