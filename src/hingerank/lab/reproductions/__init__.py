"""Tables of the papers, run again: `TABLES` by name, one module per paper.

A module holds the paper's figures, what is run for each row, and what was found. `hingerank reproduce` runs them.
"""

from hingerank.lab.reproductions import chen2017, cheng2018, lai2013, xu2015, xu2019
from hingerank.lab.reproductions.engine import (
    Ours,
    Outcome,
    PaperTable,
    Place,
    Section,
    default_data,
    load_outcome,
    reproduce,
)

MODULES = (xu2019, chen2017, lai2013, cheng2018, xu2015)
TABLES: dict[str, PaperTable] = {table.name: table for module in MODULES for table in module.TABLES}

__all__ = [
    "TABLES",
    "Ours",
    "Outcome",
    "PaperTable",
    "Place",
    "Section",
    "default_data",
    "find_table",
    "load_outcome",
    "reproduce",
]


def find_table(name: str) -> PaperTable:
    """The table of that name; an unknown name is a ValueError that lists the known ones."""
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r} to reproduce; the known ones are: {', '.join(TABLES)}")
    return TABLES[name]
