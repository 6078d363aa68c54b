"""`warmup` and `demo`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hingerank.cli.output import Json, console, note, print_json, print_table, progress


def warmup(json: Json = False) -> None:
    """Compile every kernel once, so that later runs start at once.

    The compiled code is kept on disk (set NUMBA_CACHE_DIR to choose where) and made again when hingerank or numba
    change.

    Example: hingerank warmup
    """
    import time

    from hingerank.lab.warmup import warm

    started = time.perf_counter()
    with progress("compiling") as advance:
        steps = warm(advance)
    seconds = time.perf_counter() - started
    failed = [step for step in steps if step.problem]
    if json:
        print_json([vars(step) for step in steps])
    else:
        print(f"{len(steps) - len(failed)} of {len(steps)} steps compiled or loaded in {seconds:.1f} s")
        if failed:
            print_table("not compiled", ["step", "problem"], [[step.label, step.problem] for step in failed])
    if failed:
        raise typer.Exit(1)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the page; made if it does not exist.")
    ] = Path("hingerank-demo"),
    queries: Annotated[int, typer.Option(min=10, help="Queries to generate.")] = 150,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated data.")] = 2,
    json: Json = False,
) -> None:
    """Show the family on generated data: tuned rankers side by side on a page, the winner saved, a query explained.

    Example: hingerank demo --output hingerank-demo
    """
    import time

    from hingerank.lab.demo import MEASURE, run_demo
    from hingerank.lab.progress import LiveBoard

    started = time.perf_counter()
    with LiveBoard(console(stderr=True)) as board:
        found = run_demo(output, n_queries=queries, seed=seed, progress=board if sys.stderr.isatty() else None)
    seconds = time.perf_counter() - started
    columns, rows = found.table()
    if json:
        places = {"page": found.page, "model": found.model, "explained": found.explained}
        print_json({**places, "columns": columns, "rows": rows, "seconds": seconds})
        return
    print_table(f"{MEASURE} on test, settings chosen on validation", columns, rows)
    note(f"{seconds:.1f} s; the winner is in {found.model}; open these pages in a browser:")
    print(found.explained)
    print(found.page)
