"""The page "What came out": all papers in one table, and what to believe today."""

from collections.abc import Sequence
from pathlib import Path

from hingerank.data.files import write_whole
from hingerank.papers.outcome import Outcome, markdown_lines

INTRODUCTION = """\
# What came out

<!-- Written by `hingerank reproduce --write-docs` from the results saved in reproductions/. Change those, or the
     data in src/hingerank/papers/figures, not this page. -->

Every table of five documents was run again. [Reproductions](reproductions.md) shows them figure by figure. This page
says what came out of each, and what a reader should believe today.

A figure is *within* if it differs from print by no more than its table allows, most often .01 of a measure; otherwise
it is *above* or *below*. Figures computed on other data than the paper's, or on partial data, are not counted. If a
baseline comes out above print, the paper tuned it less; the paper's own method then has less to gain.

"""


def write_what_came_out(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write one Markdown page about all papers."""
    papers = {outcome.table.paper: outcome.table for outcome in outcomes}
    rows, parts = [], []
    for paper, table in papers.items():
        own = [outcome for outcome in outcomes if outcome.table.paper == paper]
        rows.append([table.cited, *_counted(own, True), *_counted(own, False)])
        parts += [f"## {table.cited}", "", f"{paper}.", "", f"**What came out.** {table.came_out}", ""]
        parts += [f"**What to believe.** {table.believe}", "", *_why(own), ""]
    header = ["paper", "own methods: above", "within", "below", "baselines: above", "within", "below"]
    text = [INTRODUCTION + "\n".join(markdown_lines(header, rows)), "", *parts]
    write_whole(path, ("\n".join(text).rstrip() + "\n").encode())


def _counted(outcomes: Sequence[Outcome], own: bool) -> list[str]:
    """How many figures are above, within and below print."""
    counts = [0, 0, 0]
    for outcome in outcomes:
        for section, figure in outcome.differences():
            if outcome.table.is_own(figure.row, figure.column) == own and figure.difference is not None:
                close = section.close * (1 + 1e-9)
                counts[0 if figure.difference > close else 2 if figure.difference < -close else 1] += 1
    return [str(count) if sum(counts) else "–" for count in counts]


def _why(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each table of the paper whose figures were compared, with its finding."""
    return [
        f"- [{o.table.name}](reproductions.md#{o.table.name}): {o.agreement()}. {_first_sentence(o.table.finding)}"
        for o in outcomes
        if o.counts()[1]
    ]


def _first_sentence(text: str) -> str:
    """The text up to the first full stop that ends a sentence.

    >>> _first_sentence("It is .01 higher. That is all.")
    'It is .01 higher.'
    """
    head, stop, _ = text.partition(". ")
    return head + stop.strip()
