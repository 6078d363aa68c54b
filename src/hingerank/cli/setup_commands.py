"""The commands `models`, `warmup`, `doctor` and `demo`."""

from pathlib import Path

import typer

from hingerank.cli.options import JSON, command, option
from hingerank.cli.output import Answer, answer, facts, note, progress, working


@command
def models() -> Answer:
    """List the rankers, with the data that each learns from.

    Rankers of rows and of ratings are for fit, tune and compare. Rankers of topics are for rerank and compare.

    Example: hingerank models
    """
    from hingerank.registry import SUMMARIES, learns_from

    rows = [[name, learns_from(name), text] for name, text in SUMMARIES.items()]
    names = ["name", "data", "summary"]
    return [dict(zip(names, row)) for row in rows], (f"{len(rows)} rankers", names, rows)


@command
def warmup(json: bool = JSON) -> None:
    """Compile every kernel once, so that later runs start fast.

    The compiled code is kept on disk (NUMBA_CACHE_DIR sets the folder). A new version of hingerank or numba compiles
    again.

    Example: hingerank warmup
    """
    import time

    from hingerank.lab.warmup import warm

    started = time.perf_counter()
    with progress("compiling") as advance:
        steps = warm(advance)
    seconds = time.perf_counter() - started
    failed = [step for step in steps if step.problem]
    done = f"{len(steps) - len(failed)} of {len(steps)} steps compiled or loaded in {seconds:.1f} s"
    table = "not compiled", ["step", "problem"], [[step.label, step.problem] for step in failed]
    answer(json, [vars(step) for step in steps], done, *([table] if failed else []))
    if failed:
        raise typer.Exit(1)


@command
def doctor(json: bool = JSON) -> None:
    """Show versions, threads, caches, GPU and optional parts.

    The status is 1 if something is wrong, such as a library that is too old.

    Example: hingerank doctor
    """
    from hingerank.lab.doctor import examine

    with working("looking"):
        found = examine()
    kept, problems = found["kernels"], found["problems"]
    about = {
        "python": f"{found['python']}, {found['system']}",
        "threads": f"{found['threads']} of {found['cores']} (HINGERANK_NUM_THREADS)",
        "compiled kernels": f"{kept['folder']}, {kept['bytes'] / 1e6:.0f} MB (NUMBA_CACHE_DIR)",
        "data sets": f"{found['data_sets']} (HINGERANK_CACHE)",
        "GPU": found["gpu"],
    }
    rows = [[one["name"], one["installed"] or "missing", one["lowest"]] for one in found["libraries"]]
    parts = [
        [part["part"], ", ".join(f"{one['name']} {one['installed'] or 'missing'}" for one in part["libraries"]),
         part["gives"]]
        for part in found["parts"]
    ]  # fmt: skip
    answer(
        json, found, facts(f"hingerank {found['hingerank']}", about),
        ("libraries", ["name", "version", "at least"], rows),
        ("optional parts: pip install 'hingerank[NAME]'", ["name", "installed", "for"], parts),
        *(problems or ["nothing is wrong"]),
    )  # fmt: skip
    if problems:
        raise typer.Exit(1)


@command
def demo(
    output: Path = option(
        "FOLDER", "Folder to write, made if needed.", Path("hingerank-demo"), short="-o", panel="Output"
    ),
    queries: int = option("N", "Number of different searches, at most 120.", 120, min=10),
    seed: int = option("N", "Seed of the shop.", 0, min=0),
) -> Answer:
    """Show the whole path in a small shop: clicks to ranker to page.

    The shop is generated. Its click log becomes propensities, a ranker with a curve for each feature, a page to open in
    a browser, and SQL that ranks as the model does.

    Example: hingerank demo --output hingerank-demo
    """
    import time

    from hingerank.lab.demo import run_demo

    started = time.perf_counter()
    found = run_demo(output, queries, seed, note)
    seconds = time.perf_counter() - started
    columns, rows = found.table()
    places = {"page": found.page, "model": found.model, "exported": found.exported.files[0]}
    certificate = found.ranker.certificate_.to_dict()
    note(f"{seconds:.1f} s; the same with commands:\n" + "\n".join(found.commands))
    note("the last line names a page to open in a browser")
    document = {**places, "columns": columns, "rows": rows, "certificate": certificate, "seconds": seconds}
    return document, ("rankings of searches that were held out", columns, rows), str(found.page)
