"""`reproduce`: a paper's tables run again; `analyse`: the inside of a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hingerank.cli.output import Json, Workers, console, note, print_json, print_table

if TYPE_CHECKING:
    from hingerank.papers import Outcome, PaperTable, Place


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Tables, as --list names them.")] = None,
    list_tables: Annotated[bool, typer.Option("--list", help="List the tables that can be run.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The real sets; default: $HINGERANK_DATA, else ../shared/data."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where results are kept, and runs continued.")
    ] = Path("docs/reproductions"),
    folds: Annotated[
        str | None, typer.Option(metavar="1,2,…", help="Run these folds only, for a quick look: nothing is saved.")
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="ROW", help="Run this row of a saved table anew; may be repeated."),
    ] = None,
    on: Annotated[
        str | None, typer.Option(metavar="SET", help="Run the methods of the tables on this set instead.")
    ] = None,
    workers: Workers = None,
    device: Annotated[
        str, typer.Option(metavar="cpu|cuda", help="Where rankers that can learn on a GPU do so.")
    ] = "cpu",
    check: Annotated[
        bool, typer.Option("--check", help="Run the fast tables (or those named) anew and say what moved.")
    ] = False,
    write_docs: Annotated[
        bool,
        typer.Option("--write-docs", help="Write OUTPUT.md and the tables of pages beside it from saved results."),
    ] = False,
    json: Json = False,
) -> None:
    """Run a table of a paper again: the paper's figures, ours, and the difference.

    Every fit is kept as soon as it is known: after an interruption the same command goes on where it stopped.

    Example: hingerank reproduce lai2013-table2
    """
    from hingerank.lab.progress import LiveBoard
    from hingerank.papers import TABLES, Place, default_data, find_table, on_set
    from hingerank.papers import reproduce as run_table
    from hingerank.problem.torch_design import check_device

    if list_tables:
        _list(json)
    elif write_docs:
        _write_page(output)
    elif check:
        _check(names, data or default_data(), output, workers)
    elif not names:
        raise ValueError(f"name a table: {', '.join(TABLES)}")
    else:
        check_device(device)
        numbers = None if folds is None else _numbers(folds)
        tables = [find_table(name) for name in names]  # all of them before the first one runs
        for table in tables if on is None else [on_set(table, on) for table in tables]:
            try:
                with LiveBoard(console(stderr=True)) as board:
                    place = Place(data or default_data(), output / "runs", numbers, board, workers, device)
                    outcome = run_table(table, place) if not row else _run_rows(table, row, place, output)
            except KeyboardInterrupt:
                note("the same command goes on where this one stopped")
                raise
            if numbers is None:
                note(f"wrote {outcome.save(output)}")
            _show(outcome, json)


def _run_rows(table: "PaperTable", rows: list[str], place: "Place", output: Path) -> "Outcome":
    from hingerank.papers import load_outcome, reproduce_rows

    saved = load_outcome(table, output)
    if saved is None:
        raise ValueError(f"{output} holds no result of {table.name}: run all of it first, without --row")
    return reproduce_rows(saved, rows, place)


def _show(outcome: "Outcome", json: bool) -> None:
    from hingerank.papers.outcome import table_lines

    table = outcome.table
    if json:
        print_json({"name": table.name, "sections": [_as_dict(outcome, k) for k in range(len(table.sections))]})
        return
    for k, section in enumerate(table.sections):
        if not outcome.sections[k]:
            note(f"not run, its data are not there: {section.title}")
            continue
        print_table(f"{table.name}: {outcome.section_title(k)}", *table_lines(outcome, k))
        if outcome.note(k):
            print(outcome.note(k))
    print(outcome.summary())


def _as_dict(outcome: "Outcome", place: int) -> dict[str, Any]:
    cells = [
        {"row": f.row, "column": f.column, "paper": f.paper, "ours": f.ours, "difference": f.difference}
        for row in outcome.figures(place)
        for f in row
    ]
    return {"title": outcome.section_title(place), "part": outcome.share(place) or None, "figures": cells}


def _list(json: bool) -> None:
    from hingerank.papers import TABLES

    rows = [[table.name, table.cited, table.title] for table in TABLES.values()]
    if json:
        print_json([dict(zip(("name", "paper", "title"), row)) for row in rows])
    else:
        print_table("Tables of papers to run again", ["name", "paper", "table"], rows)


def _write_page(output: Path) -> None:
    from hingerank.data.files import write_whole
    from hingerank.papers import TABLES, load_outcome
    from hingerank.papers.outcome import write_page
    from hingerank.papers.pages import fill_pages

    found = [outcome for table in TABLES.values() if (outcome := load_outcome(table, output)) is not None]
    if not found:
        raise ValueError(f"{output} holds no saved results: run `hingerank reproduce NAME -o {output}` first")
    path = output.with_suffix(".md")
    write_page(path, found, output.name)
    for outcome in found:
        write_whole(output / f"{outcome.table.name}.svg", outcome.picture().encode())
    for written in [path, *fill_pages(path.parent, {outcome.table.name: outcome for outcome in found})]:
        print(written)


def _check(names: list[str] | None, data: Path, output: Path, workers: int | None) -> None:
    """Run tables in a folder of their own, compare them with what is saved, and exit with 1 where a figure moved."""
    from tempfile import TemporaryDirectory

    from hingerank.lab.progress import LiveBoard
    from hingerank.papers import TABLES, Place, find_table, load_outcome
    from hingerank.papers import reproduce as run_table

    tables = [find_table(name) for name in names] if names else [table for table in TABLES.values() if table.fast]
    saved = [found for table in tables if (found := load_outcome(table, output)) is not None]
    if not saved:
        raise ValueError(f"{output} holds no saved results of {', '.join(table.name for table in tables)}")
    moved = 0
    with TemporaryDirectory() as runs:
        for old in saved:
            with LiveBoard(console(stderr=True)) as board:
                new = run_table(old.table, Place(data, Path(runs), None, board, workers))
            changes = new.moved_from(old)
            moved += len(changes)
            when = f"{old.date}, version {old.versions.get('hingerank', 'unknown')}"
            print(f"{old.table.name}: {len(changes) or 'nothing'} moved since {when}")
            for words in changes:
                print(f"  {words}")
    if moved:
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    from hingerank.data.checks import whole_decimal

    numbers = [whole_decimal(word.strip()) or 0 for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError(f"--folds {text!r}: give numbers counted from 1, such as 1,2")
    return numbers


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
