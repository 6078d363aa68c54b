"""The API reference, a page for each public name and for each group of them, written before the site is read."""

import inspect
from pathlib import Path

import hingerank

PAGES = {  # page -> (title, what it is about, beginnings of the modules it covers)
    "rankers": ("Rankers", "Estimators that order the rows of a query.", ["hingerank.rankers"]),
    "tuning": ("Tuning", "Settings found over folds of queries, and progress while one waits.",
               ["hingerank.search", "hingerank.watching"]),
    "personal": ("Personal rankers", "One ranking function per user.",
                 ["hingerank.personal", "hingerank.distributed.ratings"]),
    "diversity": ("Diverse rankings", "Results that differ from each other.", ["hingerank.diversity"]),
    "clicks": ("Clicks", "Click logs: reading, propensities, click models, judgments, interleaving.",
               ["hingerank.clicks"]),
    "data": ("Data", "Reading, writing, generating and fetching.", ["hingerank.data"]),
    "evaluation": ("Measures and experiments", "How good a ranking is, and which ranker is better.",
                   ["hingerank.metrics", "hingerank.lab"]),
    "preferences": ("Preferences", "Who should beat whom.", ["hingerank.preferences"]),
    "models": ("Models", "Files that hold a fitted ranker.", ["hingerank.export"]),
}  # fmt: skip
SHARED = """.. rubric:: What every ranker has

Rankers of graded rows are scikit-learn estimators and share these methods.

.. autoclass:: hingerank.rankers.base.BaseRanker
   :members: fit, predict, rank, score, explain

.. autoclass:: hingerank.rankers.base.SavedModel
   :members: save

"""


def write(folder: Path) -> None:
    """index.rst, a page for each group, and one for each name; files that would not change are left alone."""
    folder.mkdir(exist_ok=True)
    pages = {}
    for page, (title, about, beginnings) in PAGES.items():
        names = [name for name, home in hingerank._HOME.items() if home.startswith(tuple(beginnings))]
        table = "".join(f"   * - :doc:`hr.{name} <{_file(name)}>`\n     - {_summary(name)}\n" for name in names)
        tree = "".join(f"   {_file(name)}\n" for name in names)
        pages[page] = (
            f"{_heading(title)}{about}\n\n{SHARED * (page == 'rankers')}"
            f".. list-table::\n   :widths: 30 70\n\n{table}\n.. toctree::\n   :hidden:\n\n{tree}"
        )
        pages |= {_file(name): _heading(f"hr.{name}") + _entry(name) for name in names}
    tree = "".join(f"   {page}\n" for page in ["command-line", *PAGES])
    about = "".join(
        f"- :doc:`{title} <{page}>`: {words[0].lower()}{words[1:]}\n" for page, (title, words, _) in PAGES.items()
    )
    pages["index"] = (
        _heading("API")
        + "Everything here is imported from ``hingerank``: ``import hingerank as hr``, then ``hr.RankSVM``.\n\n"
        + f"- :doc:`Command line <command-line>`: the help of every command.\n{about}\n"
        + f".. toctree::\n   :hidden:\n\n{tree}"
    )
    covered = tuple(beginning for _, _, beginnings in PAGES.values() for beginning in beginnings)
    lost = [name for name, home in hingerank._HOME.items() if not home.startswith(covered)]
    if lost:
        raise ValueError(f"no page of the API reference covers {', '.join(lost)}: see docs/_site/api_pages.py")
    for page, text in pages.items():
        path = folder / f"{page}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def _file(name: str) -> str:
    """Of a page; a function and a class may differ in case alone, which not every file system tells apart."""
    return f"{name}-function" if name[0].islower() else name


def _summary(name: str) -> str:
    """The first words about a name: what a formula begins with is left to its page."""
    from hingerank.registry import RANKERS, SUMMARIES

    own = next((SUMMARIES[key] for key, home in RANKERS.items() if home.endswith((f":{name}", f".{name}"))), None)
    text = " ".join((own or inspect.getdoc(getattr(hingerank, name)) or "").split("\n\n")[0].split())
    return "``" + text.rstrip(",:. ").replace("`", "") + "``" if _is_formula(text) else text


def _is_formula(text: str) -> bool:
    return any(sign in text for sign in "=Σ½‖|*_@")


def _heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n"


def _entry(name: str) -> str:
    thing = getattr(hingerank, name)
    if not inspect.isclass(thing):
        return f".. autofunction:: hingerank.{name}\n\n"
    lines = [f".. autoclass:: hingerank.{name}"]
    if not issubclass(thing, Exception):
        own = [key for key in _members(thing) if not key.startswith("_")]
        if own:
            lines.append(f"   :members: {', '.join(own)}")
    return "\n".join(lines) + "\n\n"


def _members(thing: type) -> list[str]:
    """Documented methods and properties that the class does not share with every ranker."""
    from hingerank.export.model_file import SavedModel
    from hingerank.rankers.base import BaseRanker, LinearRanker

    shared = {*BaseRanker.__mro__, *LinearRanker.__mro__, *SavedModel.__mro__}
    found = {}
    for base in reversed([c for c in thing.__mro__ if c not in shared and c.__module__.startswith("hingerank")]):
        for key, value in vars(base).items():
            call = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if key.startswith("set_") and key.endswith("_request"):
                continue
            if inspect.isfunction(call) or isinstance(value, property):
                found[key] = bool(getattr(call, "__doc__", None) or inspect.getdoc(value))
    return [key for key, documented in found.items() if documented]
