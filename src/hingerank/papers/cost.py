"""The cost of running a table again, shown before it starts."""

import math

from hingerank.lab.progress import describe_time
from hingerank.papers.engine import PaperTable
from hingerank.papers.outcome import Outcome


def cost(table: PaperTable, saved: Outcome | None = None) -> str:
    """The number of settings to try, and how long their fits took when the table was saved.

    >>> from hingerank.papers import TABLES
    >>> cost(TABLES["xu2019-fig2"])
    'xu2019-fig2: nothing to choose; how long it takes is not known'
    """
    recipes = {row: recipe for section in table.sections for row, recipe in section.methods.items()}
    tried = {row: math.prod(map(len, recipe.search.values())) for row, recipe in recipes.items()}
    words = f"{len(tried)} methods, {sum(tried.values())} settings a fold or more" if tried else "nothing to choose"
    found = {row: ours for rows in (saved.sections if saved else []) for row, ours in rows.items() if row in tried}
    fits = [tried[row] * max(1, len(ours.chosen)) * (ours.seconds or 0.0) for row, ours in found.items()]
    if saved is None:
        return f"{table.name}: {words}; how long it takes is not known"
    return (
        f"{table.name}: {words}; it took {describe_time(sum(fits) or saved.seconds)} when it was saved ({saved.date})"
    )
