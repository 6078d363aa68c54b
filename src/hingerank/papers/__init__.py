"""Tables of the papers, computed again: `TABLES` by name, from the files of `figures/`, for `hingerank reproduce`."""

from hingerank.papers.engine import Ours, PaperTable, Place, Section, default_data, on_set, read_tables
from hingerank.papers.outcome import Outcome, load_outcome, reproduce, reproduce_rows
from hingerank.registry import did_you_mean

PAPERS = ("xu2019", "chen2017", "lai2013", "cheng2018", "xu2015")  # files of figures/, in the order of the page
TABLES: dict[str, PaperTable] = read_tables(PAPERS)

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
    "on_set",
    "reproduce",
    "reproduce_rows",
]


def find_table(name: str) -> PaperTable:
    """The table with that name; an unknown name is a ValueError that suggests similar ones."""
    if name not in TABLES:
        hint = did_you_mean(name, TABLES)
        raise ValueError(f"there is no table {name!r} to reproduce (hingerank reproduce --list lists them){hint}")
    return TABLES[name]
