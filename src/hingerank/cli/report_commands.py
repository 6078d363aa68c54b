"""`report` and `cite`: what is made of a comparison that was run."""

from pathlib import Path
from typing import Annotated

import typer

from hingerank.cli.compare_command import Baseline, Test
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
    latex: Annotated[
        bool, typer.Option("--latex", help="Also write the folder's table.tex, with every measure.")
    ] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Also write the folder's per-query.csv: every query's values.")
    ] = False,
    trec_runs: Annotated[
        bool, typer.Option("--trec-runs", help="Also write the folder's trec-runs/, a TREC run of every method.")
    ] = False,
    table: Annotated[Path | None, typer.Option(metavar="FILE", hidden=True)] = None,  # --csv to a file, as in 0.2
    user: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Of a model: whose list to show; may be repeated.")
    ] = None,
    exclude: Annotated[Path | None, typer.Option(metavar="RATINGS", help="Of a model: what users have rated.")] = None,
    items: Items = None,
) -> None:
    """Make one self-contained page of a comparison, or of a personal model, to read offline, on paper or on a phone.

    The page of a model has its basic ranking functions in words, its users on a map, and lists with reasons.

    Example: hingerank report run/ -o report.html

    Example: hingerank report run/ --latex --csv --trec-runs

    Example: hingerank report model/ --exclude ratings.csv -o model.html
    """
    from hingerank.data.files import write_whole
    from hingerank.export.model_file import FILE_NAME
    from hingerank.lab.paper import latex_table, write_trec_runs
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
    if latex:
        write_whole(run / "table.tex", latex_table(results, baseline, test).encode())
        print(run / "table.tex")
    if csv:
        results.write_csv(run / "per-query.csv")
        print(run / "per-query.csv")
    for path in write_trec_runs(results) if trec_runs else []:
        print(path)


def cite(
    what: Annotated[list[str], typer.Argument(metavar="RUN|RANKER…", help="Folders of `compare`, names of rankers.")],
) -> None:
    """Print the papers of rankers, or of all methods of a comparison, as BibTeX.

    Example: hingerank cite run/ > references.bib

    Example: hingerank cite rank-svm listnet
    """
    from hingerank.lab.references import bibtex, rankers_of_run
    from hingerank.lab.results import load_results

    rankers: list[str] = []
    for word in what:
        if not Path(word).is_dir():
            rankers.append(word)
            continue
        found, others = rankers_of_run(load_results(word).header)
        rankers += found
        for method in others:
            print(f"% {method}: no ranker of this library, cite its paper yourself")
    print(bibtex(rankers), end="")
