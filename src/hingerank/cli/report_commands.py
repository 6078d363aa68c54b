"""`report`."""

from pathlib import Path
from typing import Annotated

import typer

from hingerank.cli.experiment_commands import Baseline, Test
from hingerank.cli.personal_commands import Items, report_model


def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="The folder that `compare` wrote, finished or not, or a personal model."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page; default: report.html in the folder."),
    ] = None,
    baseline: Baseline = None,
    test: Test = "randomisation",
    table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the long table (method, fold, query, …) as CSV.")
    ] = None,
    user: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Of a model: whose list to show; may be repeated.")
    ] = None,
    exclude: Annotated[Path | None, typer.Option(metavar="RATINGS", help="Of a model: what users have rated.")] = None,
    items: Items = None,
) -> None:
    """Make one self-contained page of a comparison, or of a personal model, to read offline, on paper or on a phone.

    The page of a model has its basic ranking functions in words, its users on a map, and lists with reasons.

    Example: hingerank report run/ -o report.html

    Example: hingerank report model/ --exclude ratings.csv -o model.html
    """
    from hingerank.export.model_file import FILE_NAME
    from hingerank.lab.report.page import write_report
    from hingerank.lab.results import load_results

    for place, what, name in ((output, "page", "report.html"), (table, "table", "table.csv")):
        if place is not None and place.is_dir():
            raise ValueError(f"{place} is a folder: name the {what}, as in {place / name}")
    if run.suffix == ".safetensors" or (run / FILE_NAME).is_file():
        print(report_model(run, output, user, exclude, items))
        return
    results = load_results(run)
    if table is not None:
        results.write_csv(table)
    print(write_report(results, output, baseline, test))
