"""BibTeX entries of the papers that rankers come from, stored in references.toml."""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from hingerank.arrays import Facts, Given
from hingerank.lab.methods import home_of
from hingerank.registry import RANKERS, no_ranker, registered_name

OWN_ROWS = {"PersonalRows", "BaselineRows"}  # rankers of ratings with the methods of rankers of rows


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
    return "\n".join([*lines, *(f"\n{_entry(key)}" for key in keys), ""])


def _entry(key: str) -> str:
    fields = dict(_table()["papers"][key])
    kind = fields.pop("type")
    return "\n".join([f"@{kind}{{{key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"])


def rankers_of_run(header: Given) -> tuple[list[str], list[str]]:
    """The registered rankers of a run's methods, and the methods whose ranker is not registered."""
    by_class = {place.rpartition(":")[2]: name for name, place in RANKERS.items()} | {"BlendRows": "blend"}
    found, others = [], []
    for method, definition in header["methods"].items():
        package, _, cls = home_of(definition["ranker"]).partition(":")
        name = by_class.get(cls) if package == "hingerank" else None
        if cls in OWN_ROWS:
            name = definition["fixed"].get("ranker")
        found.append(name) if name in RANKERS else others.append(method)
    return list(dict.fromkeys(found)), others
