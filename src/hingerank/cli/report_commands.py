"""The commands `report` and `cite`, which describe a finished comparison, a model or a click log."""

from pathlib import Path
from typing import Annotated

import typer

from hingerank.cli.click_fits import ClickMeasuring, open_clicks, value_of_models
from hingerank.cli.groups import JSON, Rows
from hingerank.cli.options import Group, check_kind, choice, command, option, switch, target
from hingerank.cli.output import answer, note, working
from hingerank.cli.personal_commands import report_model


class OfComparison(Group, panel="Comparison", kinds=("comparison",)):
    """What to write about a comparison."""

    baseline: str | None = option("METHOD", "Method to compare the others with. Default: the first.")
    test: str = choice("randomisation|t|wilcoxon", "Significance test: randomisation, t or wilcoxon.", "randomisation")
    latex: bool = switch("Also write table.tex with every measure.")
    csv: bool = switch("Also write per-query.csv with the values of every query.")
    trec_runs: bool = switch("Also write trec-runs/ with a TREC run of every method.")
    table: Path | None = option("FILE", "", hidden=True)  # writes the CSV to this file, as in version 0.2


class OfModel(Group, panel="Personal model", kinds=("personal model",)):
    """What to show about a personal model."""

    user: list[str] | None = option("ID", "User whose list to show; repeatable.")
    exclude: Path | None = option("RATINGS", "More ratings whose items are left out of lists.")
    include_rated: bool = switch("Lists may have items that the user has rated.")
    items: Path | None = option("TABLE", "Table of items: ids first, then features.")


class OfClicks(ClickMeasuring):
    """What to show about a click log."""

    features: Path | None = option("FILE", "Rows with features and document ids: RUN is then a click log.")
    model: list[Path] | None = option("MODEL", "Model whose value to estimate from clicks; repeatable.")
    measure: str = option("NAME", "Measure of the value.", "dcg@10")


@command
def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A folder of compare, finished or not, a personal model, or a click log."),
    ],
    comparison: OfComparison,
    personal: OfModel,
    clicks: OfClicks,
    output: Path | None = target("FILE", "Page to write. Default: report.html in the folder.", short="-o"),
    json: bool = JSON,
) -> None:
    """Write a web page about a comparison, a model or clicks.

    The page is one self-contained file. For a personal model it shows the basic ranking functions in words, a map of
    the users, and lists with reasons. For a click log it shows how much of the log was joined with features, how often
    each position is examined, and the estimated value of the models.

    Example: hingerank report run/ -o report.html

    Example: hingerank report run/ --latex --csv --trec-runs

    Example: hingerank report model/ --user 17 -o model.html

    Example: hingerank report log.ndjson --features features.parquet --propensities p.json --model model/ -o clicks.html
    """
    from hingerank.export.model_file import is_model

    kind = "personal model" if run.suffix == ".safetensors" or is_model(run) else "comparison"
    kind = "clicks" if clicks.features is not None else kind
    check_kind(kind, comparison, personal, clicks)
    for place, what, name in ((output, "page", "report.html"), (comparison.table, "table", "table.csv")):
        if place is not None and place.is_dir():
            raise ValueError(f"{place} is a folder: name the {what}, as in {place / name}")
    if kind == "clicks":
        written = [_report_clicks(run, output, clicks)]
    elif kind == "personal model":
        written = [report_model(run, output, personal)]
    else:
        written = _report_run(run, output, comparison)
    answer(json, {"written": written}, *map(str, written))


def _report_clicks(run: Path, output: Path | None, how: OfClicks) -> Path:
    """Write the page about a click log and return its path."""
    from hingerank.clicks.propensities import propensities
    from hingerank.data.files import DataError, write_whole
    from hingerank.lab.report.clicks import click_page, held_out_models

    rows, values = Rows(features=str(how.features)), None
    judged = [*(how.model or []), *(how.also or [])]
    if judged:
        log, data, values = value_of_models(run, judged, rows, how, how.measure)
    else:
        log, data = open_clicks(run, rows)
    given, curves = how.given_propensities(log), None
    try:
        curves = propensities(log) if given is None else propensities(log, "given", values=given)
    except DataError as error:
        note(f"no propensities are shown: {error}")
    place = Path(f"{run.stem}.html") if output is None else output
    with working("fitting click models"):
        models = held_out_models(log)
    write_whole(place, click_page(run.name, log, data, values, curves, models).encode())
    return place


def _report_run(run: Path, output: Path | None, how: OfComparison) -> list[Path]:
    """Write the page and files about a comparison and return their paths, the page first."""
    from hingerank.data.files import write_whole
    from hingerank.lab.paper import latex_table, write_trec_runs
    from hingerank.lab.report.page import write_report
    from hingerank.lab.results import load_results

    results = load_results(run)
    if how.table is not None:
        results.write_csv(how.table)
    written = [write_report(results, output, how.baseline, how.test)]
    if how.latex:
        write_whole(run / "table.tex", latex_table(results, how.baseline, how.test).encode())
        written.append(run / "table.tex")
    if how.csv:
        results.write_csv(run / "per-query.csv")
        written.append(run / "per-query.csv")
    return [*written, *(write_trec_runs(results) if how.trec_runs else [])]


@command
def cite(
    what: Annotated[list[str], typer.Argument(metavar="RUN|RANKER…", help="Folders of compare, or names of rankers.")],
    json: bool = JSON,
) -> None:
    """Print the papers behind rankers or a comparison as BibTeX.

    Example: hingerank cite run/ > references.bib

    Example: hingerank cite rank-svm listnet
    """
    from hingerank.data.files import no_such_file
    from hingerank.lab.paper import bibtex, rankers_of_run
    from hingerank.lab.results import load_results

    rankers: list[str] = []
    others: list[str] = []
    for word in what:
        if "/" in word and not Path(word).exists():
            raise ValueError(no_such_file(Path(word)))
        found = rankers_of_run(load_results(word).header) if Path(word).is_dir() else ([word], [])
        rankers += found[0]
        others += found[1]
    unknown = [f"% {method}: not a ranker of this library, cite its paper yourself" for method in others]
    papers = bibtex(rankers)
    answer(json, {"rankers": rankers, "without_paper": others, "bibtex": papers}, *unknown, papers.removesuffix("\n"))
