"""A comparison for a paper: a LaTeX table with the evidence for every measure, TREC runs of every method, BibTeX."""

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from hingerank.arrays import Facts, Given
from hingerank.data.blocks import blocks_from_qid
from hingerank.diversity.trec import RankedList, write_run
from hingerank.lab.leaderboard import latex_number, latex_row, latex_text, leaderboard
from hingerank.lab.methods import home_of
from hingerank.lab.results import Results, load_arrays, rows_file
from hingerank.lab.run_folder import file_name
from hingerank.registry import RANKERS, no_ranker, registered_name

# LaTeX.


def latex_table(results: Results, baseline: str | None = None, test: str = "randomisation") -> str:
    """A longtable with a block for each measure: mean, difference from the baseline, its 95 % interval, p and marks.

    It needs the packages booktabs, longtable and amssymb. p is corrected over the methods, by measure.
    """
    first = results.header["measure"]
    names = [first, *(name for name in results.measures if name != first)]
    boards = [leaderboard(results, name, baseline, test) for name in names]
    head = ["method", "mean", "difference", r"95\,\% interval", "$p$"]
    rows = [r"\toprule", latex_row(head), r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]
    whole = [board.baseline if board.baseline in results.complete else board.lines[0].method for board in boards]
    counts = [len(results.per_query(method, board.measure)) for method, board in zip(whole, boards)]
    for board, count in zip(boards, counts):
        over = "" if len(set(counts)) == 1 else f" over {count} queries"
        rows += [rf"\multicolumn{{5}}{{l}}{{\textit{{{latex_text(board.measure)}}}{over}}} \\*"]
        for line in board.lines:
            cells = board.latex_cells(line, [board.measure])
            if np.isnan(line.p):
                cells += ["baseline" if line.method == board.baseline else "--", "", ""]
            else:
                ends = [latex_number(end, signed=True) for end in (line.difference_low, line.difference_high)]
                cells += [latex_number(line.difference, signed=True), f"[{', '.join(ends)}]"]
                cells.append(f"{line.p:.4f}" if line.p >= 1e-4 else "$<$.0001")
            rows.append(latex_row(cells))
        rows += [r"\addlinespace"] if board is not boards[-1] else []
    board = boards[0]
    queries = f"{counts[0]} test queries" if len(set(counts)) == 1 else "the test queries with a value"
    words = [
        f"Means over {queries}, the best in bold; settings chosen on validation queries by "
        f"{latex_text(board.measure)}.",
        rf"$\blacktriangle$ and $\blacktriangledown$: better and worse than {latex_text(board.baseline)} at 5\,\% "
        f"({board.test} test over queries, two-sided, Holm-corrected over the methods).",
        r"Intervals are 95\,\% bootstrap intervals of the difference.",
    ]
    if any(line.missing for line in board.lines):
        lost = "; ".join(f"{line.method}: {line.absent}" for line in board.lines if line.missing)
        words.append(rf"$\dagger$: no result on some folds, so not compared ({latex_text(lost)}).")
    seeds = max(len(results.seeds(method)) for method in results.methods)
    words += [f"Methods with randomness: mean of {seeds} fits."] if seeds > 1 else []
    begin = [r"% \usepackage{booktabs,longtable,amssymb}", r"\begin{longtable}{lrrrr}"]
    return "\n".join([*begin, rf"\caption{{{' '.join(words)}}} \\", *rows, r"\end{longtable}", ""])


# TREC runs.


def write_trec_runs(results: Results) -> list[Path]:
    """A TREC run of every method and seed in trec-runs of the results' folder, over the test queries of all folds.

    Where queries are in the test parts of several folds there is a run for each fold. Documents without an id are
    numbered by their row in the test part, from 1. Returns the files.
    """
    if results.folder is None:
        raise ValueError("these results have no folder, and so no scores: give `compare` a folder")
    target = results.folder / "trec-runs"
    rows = {fold: load_arrays(results.folder / rows_file(fold)) for fold in results.folds}
    if not any(rows.values()):
        raise ValueError(f"{results.folder} does not say which rows were tested: run the same `compare` to its end")
    seen: list[object] = [query for found in rows.values() for query in set(found.get("queries", ()))]
    alone = [[fold] for fold in results.folds] if len(set(seen)) < len(seen) else [results.folds]
    written = []
    for method in results.methods:
        for seed in results.seeds(method):
            for folds in alone:
                run = {topic: ranked for fold in folds for topic, ranked in _ranked(results, method, fold, seed, rows)}
                if run:
                    words = [method, *([folds[0]] if len(alone) > 1 else [])]
                    words += [f"seed{seed}"] if len(results.seeds(method)) > 1 else []
                    written.append(target / f"{'.'.join(map(file_name, words))}.run")
                    write_run(written[-1], run, file_name(method))
    return written


def _ranked(
    results: Results, method: str, fold: str, seed: int, rows: dict[str, dict[str, np.ndarray]]
) -> Iterator[tuple[str, RankedList]]:
    """Every test query of a fold with its documents, best first; equal scores in the order of the rows."""
    scores, found = results.arrays(method, fold, seed).get("scores"), rows[fold]
    if scores is None or "queries" not in found:
        return
    documents = found.get("documents", np.arange(1, len(scores) + 1).astype(str))
    blocks = blocks_from_qid(found["queries"], len(scores))
    for query, best in zip(blocks.ids.tolist(), blocks.ranked(scores)):
        yield query, RankedList(documents[best].tolist(), scores[best])


@cache
def _table() -> Facts:
    return tomllib.loads(files(__package__).joinpath("references.toml").read_text("utf-8"))


def papers_of(ranker: str) -> list[str] | str:
    """The keys of a ranker's papers, or why it has none.

    >>> papers_of("listnet")
    ['cao2007learning']
    """
    name = registered_name(ranker)
    if name not in RANKERS:
        raise ValueError(no_ranker(ranker))
    return _table()["rankers"][name]


def bibtex(rankers: Iterable[str]) -> str:
    """The papers of these rankers, each once, below a comment that says which ranker is from which.

    >>> print(bibtex(["listnet"]).splitlines()[0])
    % listnet: cao2007learning
    """
    keys: dict[str, None] = {}
    lines = []
    for ranker in dict.fromkeys(map(registered_name, rankers)):
        papers = papers_of(ranker)
        lines.append(f"% {ranker}: {papers if isinstance(papers, str) else ', '.join(papers)}")
        keys.update(dict.fromkeys([] if isinstance(papers, str) else papers))
    for key in keys:
        fields = dict(_table()["papers"][key])
        lines += [
            "",
            f"@{fields.pop('type')}{{{key},",
            *(f"  {name} = {{{value}}}," for name, value in fields.items()),
            "}",
        ]
    return "\n".join([*lines, ""])


def rankers_of_run(header: Given) -> tuple[list[str], list[str]]:
    """The registered rankers of a run's methods, and the methods whose ranker is not registered."""
    by_class = {place.rpartition(":")[2]: name for name, place in RANKERS.items()} | {"BlendRows": "blend"}
    found, others = [], []
    for method, definition in header["methods"].items():
        package, _, cls = home_of(definition["ranker"]).partition(":")
        name = by_class.get(cls) if package == "hingerank" else None
        found.append(name) if name in RANKERS else others.append(method)
    return list(dict.fromkeys(found)), others
