"""Errors and warnings of the library in the words of the command line: options instead of Python arguments."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hingerank.data.files import DataError

IN_PYTHON = {
    "random_state": "--seed",
    "held_out": "--hold-out",
    "actions": "--action",
}  # Python argument -> option of another name

REMEDIES = {  # parameter of the library -> what to do on the command line instead: alternatives
    "columns": ["name others with --label, --qid and --features"],
    "features": ["if it is not a feature, list the feature columns in --features, or name it as --docid"],
    "ratings": [
        "this looks like ratings of users: fit, tune and compare learn from them, if you name the items with --items, "
        "or a ranker of ratings, such as list-ranker"
    ],
    "click log": [
        "this looks like a click log: name the file of its documents' features with --features, or see hingerank clicks"
    ],
    "json": [
        "this looks like JSON: hingerank clicks reads clicks, and hingerank convert --judgments reads the features "
        "that a search engine logged"
    ],
    "missing": [
        "pass --missing zero",
        "--set missing=median (or zero or indicator) for a ranker that imputes",
        "--missing nan to accept it",
    ],
    "max_features": ["if there are more, read it in Python: hr.read(path, max_features=...)"],
    "index_base": ["features count from 1, as in the text that the model learned from"],
    "incomplete": ["add them, or pass --incomplete keep or --incomplete skip"],
    "subtopics": ["pass --diversity for judgments of subtopics"],
    "docid": ["name their column with --docid, or write the ids into the text as comments: # doc-9"],
    "relations": ["give --features"],
    "aspects": ["give --aspects", "--clusters with --features"],
    "words": ["give --texts"],
    "relevance": ["give a run", "--first listmle"],
    "features of documents": ["give --features"],
    "item features": ["name a table of their features with --items", "pass --hold-out ratings"],
    "context": ["name their column or field with --context"],
    "sessions": ["name the column of lists with --session, without --counted"],
    "catalogue": ["leave it out", "name a table that has it with --items"],
    "propensities": [
        "give --propensities a file that hingerank clicks propensities wrote, or numbers, such as 1,0.5,0.3",
        "pass --correction naive to take clicks as they are",
    ],
}


@contextmanager
def naming_options(given: Mapping[str, object], flags: Mapping[str, str]) -> Iterator[None]:
    """Make errors and warnings within name options; each warning is shown once.

    given: the value of each option of the command; flags: Python argument -> option.
    """
    show, shown = warnings.showwarning, set[str]()

    def show_once(message: Warning | str, *about: Any, **more: Any) -> None:
        text = advice(message, flags)
        if text not in shown:
            shown.add(text)
            show(text, *about, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show_once
        try:
            yield
        except ValueError as error:
            said = in_options(in_command_words(error, given), flags)
            if said == str(error):
                raise
            raise ValueError(said) from error


def in_command_words(error: ValueError, given: Mapping[str, object]) -> str:
    """Return the message of an error, with a remedy that names options instead of Python parameters.

    given: the value of each option of the command. Alternatives that need other options, or that were tried, are left
    out.
    """
    if not isinstance(error, DataError) or error.option not in REMEDIES:
        return str(error)

    def possible(remedy: str) -> bool:
        used = re.findall(r"--[a-z][\w-]*", remedy)
        return all(flag in given and f"{flag} {given[flag]} " not in f"{remedy} " for flag in used)

    remedies = REMEDIES[error.option]
    return f"{error.problem}; {', or '.join([*filter(possible, remedies)] or remedies)}"


VERBS = "must|is|are|has|needs|takes|cannot"


def in_options(text: str, flags: Mapping[str, str]) -> str:
    """Replace `name=value` anywhere in a message, and `name` before a verb at its start, by the option.

    A name elsewhere may be an ordinary word, such as items. A message that begins with a name and a verb is about the
    argument.

    >>> in_options("no items are saved", {"items": "--items"}), in_options("items must be a file", {"items": "--items"})
    ('no items are saved', '--items must be a file')
    >>> in_options("give items= or one_query=True", {"items": "--items", "one_query": "--one-query"})
    'give --items or --one-query'
    >>> in_options("name it map:relevant=4", {"relevant": "--relevant"})  # an option of a measure
    'name it map:relevant=4'
    """
    named = {**{name: option for name, option in IN_PYTHON.items() if option in flags.values()}, **flags}
    for name, option in named.items():
        free = rf"(?<![\w.'\":=-])(?<!--set ){re.escape(name)}"  # --set NAME=VALUE is how a message names an option
        text = re.sub(rf"{free}=(True\b|(?=[\s,;)]|$))", option, text)
        text = re.sub(rf"{free}=(['\"]?)([^\s,;'\")]+)\1", rf"{option} \2", text)
        text = re.sub(rf"^{re.escape(name)}(?= (?:{VERBS})\b)", option, text)
    return text


def advice(warning: Warning | str, flags: Mapping[str, str]) -> str:
    """Return the text of a warning with a remedy that names options."""
    from hingerank.data.checks import ScaleWarning

    if not isinstance(warning, ScaleWarning):
        return in_options(str(warning), flags)
    remedy = "give --scale standard, query-minmax, log or quantile"
    if warning.option != "scale":
        option = "--C" if warning.option == "C" else f"--set {warning.option}=…"
        remedy = f"raise it ({option}), rescale the features (--scale standard)"
    return f"{warning.problem}; {remedy}, or let hingerank tune choose"
