"""`reproduce`: tables of the papers, run again."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.output import console, note, print_json, print_table


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
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core in long runs.")] = None,
    write_docs: Annotated[
        bool, typer.Option("--write-docs", help="Write the page of all saved results, OUTPUT.md, and stop.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Run a table of a paper again: the paper's figures, ours, and the difference.

    Every fit is kept as soon as it is known: after an interruption the same command goes on where it stopped.

    Example: hingerank reproduce lai2013-table2
    """
    from hingerank.lab.reproductions import TABLES, find_table

    if list_tables:
        _list(json)
    elif write_docs:
        _write_page(output)
    elif not names:
        raise ValueError(f"name a table: {', '.join(TABLES)}")
    else:
        chosen = [find_table(name) for name in names]  # before the first one runs
        for table in chosen:
            _run(table, data, output, folds, workers, json)


def _run(table: Any, data: Path | None, output: Path, folds: str | None, workers: int | None, json: bool) -> None:
    from hingerank.lab.progress import LiveBoard
    from hingerank.lab.reproductions import Place, default_data, reproduce
    from hingerank.lab.reproductions.page import table_lines

    numbers = None if folds is None else _numbers(folds)
    try:
        with LiveBoard(console(stderr=True)) as board:
            place = Place(data or default_data(), output / "runs", numbers, board, workers)
            outcome = reproduce(table, place)
    except KeyboardInterrupt:
        note("the same command goes on where this one stopped")
        raise
    if numbers is None:
        saved = outcome.save(output)
        note(f"wrote {saved}")
    if json:
        print_json({"name": table.name, "sections": [_as_dict(outcome, k) for k in range(len(table.sections))]})
        return
    for k, section in enumerate(table.sections):
        print_table(f"{table.name}: {section.title}", *table_lines(outcome, k))
        if outcome.note(k):
            print(outcome.note(k))
    print(outcome.summary())


def _as_dict(outcome: Any, place: int) -> dict[str, Any]:
    cells = [
        {"row": f.row, "column": f.column, "paper": f.paper, "ours": f.ours, "difference": f.difference}
        for row in outcome.figures(place)
        for f in row
    ]
    return {"title": outcome.table.sections[place].title, "figures": cells}


def _list(json: bool) -> None:
    from hingerank.lab.reproductions import TABLES

    rows = [[table.name, table.cited, table.title] for table in TABLES.values()]
    if json:
        print_json([dict(zip(("name", "paper", "title"), row)) for row in rows])
    else:
        print_table("Tables of papers to run again", ["name", "paper", "table"], rows)


def _write_page(output: Path) -> None:
    from hingerank.lab.reproductions import TABLES, load_outcome
    from hingerank.lab.reproductions.page import write_page

    found = [outcome for table in TABLES.values() if (outcome := load_outcome(table, output)) is not None]
    if not found:
        raise ValueError(f"{output} holds no saved results: run `hingerank reproduce NAME -o {output}` first")
    path = output.with_suffix(".md")
    write_page(path, found)
    print(path)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise ValueError(f"--folds {text!r}: give numbers counted from 1, such as 1,2")
    return numbers
