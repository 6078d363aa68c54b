"""The commands `reproduce`, which runs tables of papers again, and `analyse`, which examines a model."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hingerank.cli.options import JSON, command, option, switch, target
from hingerank.cli.output import Answer, answer, console, note, print_json, print_table

if TYPE_CHECKING:
    from hingerank.papers import Outcome, PaperTable, Place

# what `hingerank reproduce` does, and the arguments that it then takes, besides --output and --json
USED = {
    "--list": (),
    "--write-docs": (),
    "--check": ("NAME", "--data", "--workers", "--results"),
    "running a table": ("NAME", "--data", "--workers", "--folds", "--row", "--on", "--device"),
}


@command
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Tables to run; see --list.")] = None,
    list_tables: bool = switch("List the tables.", flag="--list"),
    data: Path | None = option("FOLDER", "Folder of data sets. Default: $HINGERANK_DATA, else where fetch keeps them."),
    folds: str | None = option("1,2,…", "Run these folds only, for a quick look; saves nothing."),
    row: list[str] | None = option("ROW", "Run this row of a saved table again; repeatable."),
    on: str | None = option("SET", "Run the methods on this data set instead."),
    workers: int | None = option("N", "Number of processes. Default: one per core in long runs.", min=1),
    device: str = option("cpu|cuda", "Where rankers that can use a GPU learn.", "cpu"),
    check: bool = switch("Run the fast tables (or those named) again and print what changed."),
    write_docs: bool = switch("Write OUTPUT.md and the tables of other pages from saved results."),
    results: Path | None = option("FOLDER", "Saved results to --check against. Default: those of OUTPUT."),
    output: Path = option(
        "FOLDER",
        "Folder of results; an interrupted run resumes.",
        Path("docs/reproductions"),
        short="-o",
        panel="Output",
    ),
    json: bool = JSON,
) -> None:
    """Run a table of a paper again and print the differences.

    Each fit is saved as it is computed: run the same command again to resume.

    Example: hingerank reproduce lai2013-table2
    """
    from hingerank.papers import TABLES, Place, default_data, find_table, on_set
    from hingerank.problem.torch_design import check_device

    modes = {"--list": list_tables, "--write-docs": write_docs, "--check": check}
    options = {"NAME": names, "--data": data, "--workers": workers, "--results": results, "--folds": folds,
               "--row": row, "--on": on, "--device": device != "cpu"}  # fmt: skip
    _refuse_others([flag for flag, given in modes.items() if given], [flag for flag, given in options.items() if given])
    if list_tables:
        rows = [[table.name, table.cited, table.title] for table in TABLES.values()]
        found = [dict(zip(("name", "paper", "title"), line)) for line in rows]
        answer(json, found, ("Tables of papers to run again", ["name", "paper", "table"], rows))
    elif write_docs:
        _write_page(output, json)
    elif check:
        _check(names, data or default_data(), results or output, workers, json)
    elif not names:
        raise ValueError("name a table; `hingerank reproduce --list` lists them")
    else:
        numbers = None if folds is None else _numbers(folds)
        tables = [find_table(name) for name in names]  # before the first one runs, so that wrong names fail at once
        tables = tables if on is None else [on_set(table, on) for table in tables]
        if idle := [table.name for table in tables if device != "cpu" and not table.takes_device]:
            raise ValueError(f"--device {device}: no ranker of {idle[0]} can use a GPU; leave it out")
        check_device(device)
        place = Place(data or default_data(), output / "runs", numbers, None, workers, device)
        for table in tables:
            outcome = _run(table, row, output, place)
            if numbers is None:
                note(f"wrote {outcome.save(output)}")
            _show(outcome, json)


def _refuse_others(modes: list[str], options: list[str]) -> None:
    """Refuse two modes at once, and options that the one given, or a run without one, does not use."""
    if len(modes) > 1:
        raise ValueError(f"{' and '.join(modes)} exclude each other: give one of them")
    mode = modes[0] if modes else "running a table"
    if others := [flag for flag in options if flag not in USED[mode]]:
        raise ValueError(f"{others[0]} is not for {mode}: leave it out")


def _run(table: "PaperTable", rows: list[str] | None, output: Path, place: "Place") -> "Outcome":
    """Run a table, or only these rows of a saved one, and return all of its results."""
    from hingerank.lab.progress import LiveBoard
    from hingerank.papers import load_outcome, reproduce_rows
    from hingerank.papers import reproduce as run_table
    from hingerank.papers.outcome import cost

    saved = load_outcome(table, output)
    typer.echo(cost(table, saved), err=True)
    if rows and saved is None:
        raise ValueError(f"{output} holds no result of {table.name}: run all of it first, without --row")
    try:
        with LiveBoard(console(stderr=True)) as board:
            place = replace(place, progress=board)
            return reproduce_rows(saved, rows, place) if rows and saved is not None else run_table(table, place)
    except KeyboardInterrupt:
        note("run the same command again to resume")
        raise


def _show(outcome: "Outcome", json: bool) -> None:
    from hingerank.papers.pages import table_lines

    table = outcome.table
    if json:
        names = ("row", "column", "paper", "ours", "difference")
        sections = [
            {"title": outcome.section_title(k), "part": outcome.share(k) or None,
             "figures": [{name: getattr(cell, name) for name in names} for cell in outcome.figures(k)]}
            for k in range(len(table.sections))
        ]  # fmt: skip
        print_json({"name": table.name, "sections": sections})
        return
    for k in range(len(table.sections)):
        if not outcome.sections[k]:
            continue
        print_table(f"{table.name}: {outcome.section_title(k)}", *table_lines(outcome, k))
        if outcome.note(k):
            print(outcome.note(k))
    if outcome.not_run():
        print(outcome.not_run())
    print(outcome.summary())


def _write_page(output: Path, json: bool) -> None:
    from hingerank.data.files import write_whole
    from hingerank.papers import TABLES, load_outcome
    from hingerank.papers.pages import fill_pages, write_page, write_what_came_out

    found = [outcome for table in TABLES.values() if (outcome := load_outcome(table, output)) is not None]
    if not found:
        raise ValueError(f"{output} holds no saved results: run `hingerank reproduce NAME -o {output}` first")
    path = output.with_suffix(".md")
    write_page(path, found, output.name)
    for outcome in found:
        write_whole(output / f"{outcome.table.name}.svg", outcome.picture().encode())
    summary = path.with_name("what-came-out.md")
    write_what_came_out(summary, found)
    written = [path, summary, *fill_pages(path.parent, {outcome.table.name: outcome for outcome in found})]
    answer(json, {"written": written}, *map(str, written))


def _check(names: list[str] | None, data: Path, output: Path, workers: int | None, json: bool) -> None:
    """Run tables in a temporary folder, compare them with the saved ones, and exit with 1 if a figure changed."""
    from tempfile import TemporaryDirectory

    from hingerank.lab.progress import LiveBoard
    from hingerank.papers import TABLES, Place, find_table, load_outcome
    from hingerank.papers import reproduce as run_table

    tables = [find_table(name) for name in names] if names else [table for table in TABLES.values() if table.fast]
    saved = [found for table in tables if (found := load_outcome(table, output)) is not None]
    if not saved:
        which = ", ".join(table.name for table in tables)
        raise ValueError(f"{output} holds no saved results of {which}: name a folder that has some with --results")
    changes: dict[str, list[str]] = {}
    with TemporaryDirectory() as runs:
        for old in saved:
            with LiveBoard(console(stderr=True)) as board:
                new = run_table(old.table, Place(data, Path(runs), None, board, workers))
            name = old.table.name
            changes[name] = new.moved_from(old)
            if not json:
                when = f"{old.date}, version {old.versions.get('hingerank', 'unknown')}"
                print(f"{name}: {len(changes[name]) or 'nothing'} changed since {when}")
                for words in changes[name]:
                    print(f"  {words}")
    if json:
        print_json(changes)
    if any(changes.values()):
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    from hingerank.data.checks import whole_decimal

    numbers = [whole_decimal(word.strip()) or 0 for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError(f"--folds {text!r}: give numbers counted from 1, such as 1,2")
    return numbers


@command
def analyse(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="interactions: the rank of a dual model's multipliers.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that fit saved.")],
    output: Path | None = target("FILE", "Also draw histograms: .svg, .png or .pdf.", short="-o"),
    share: list[float] | None = option("X", "Fraction of the energy to keep; repeatable.", min=0.0, max=1.0),
) -> Answer:
    """Print the rank of each query's multipliers in a dual model.

    A multiplier is the weight of a pair of rows. Dual models are rank-svm with --loss hinge --set solver=dual,
    factorized and regularized.

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
        note(f"wrote {output}")
    columns, histograms = found.table(fractions), {s: found.histogram(s).tolist() for s in fractions}
    names = ["", *(f"{10 * k}–{10 * k + 10} %" for k in range(10))]
    rows = [[f"{s:.0%} of the energy", *histograms[s]] for s in fractions]
    return (
        {"queries": columns, "histograms": {f"{s:g}": counts for s, counts in histograms.items()}},
        ("Multipliers of every query", list(columns), list(zip(*columns.values()))),
        ("Queries by the dimensions that they need, as a fraction of their rows", names, rows),
    )
