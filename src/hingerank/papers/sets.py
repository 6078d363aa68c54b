"""The data sets of the tables: the folders and layouts in which each may be found, and how its folds are read.

A set is looked for below the folder of real sets, under its own name and as its publisher packs it, and then where
`hingerank fetch` stores it. Some sets have a part or a stand-in that is easier to get: it is used only if the whole set
is not available, and the results say so (`Found.share`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import hingerank
from hingerank.arrays import Facts
from hingerank.data.fetching import PUBLIC_SETS, cache_folder
from hingerank.data.files import COMPRESSIONS, ROLES, DataError, find_folds, has_folds
from hingerank.data.generate import make_like
from hingerank.data.ranking_data import FoldParts
from hingerank.data.read_write import read_parts

HUGE = 1e300  # Istella's files mark a missing value by the largest double


@dataclass(frozen=True)
class KnownSet:
    """A set in the forms in which it is distributed.

    Attributes
    ----------
    fetched : its name in `hingerank fetch`
    folders : possible folders below that of real sets; the first that exists is used
    inside : folders inside what `fetch` stores, in the same form
    files : role -> name without endings, for a set of one fold whose files have names of their own
    part, share : the folder of a part of the set, and what part that is
    preset : of its measures
    raw : whether its values are unscaled, so that linear rankers have to scale them
    """

    fetched: str
    folders: Sequence[str]
    inside: Sequence[str] = ("",)
    files: Mapping[str, str] = field(default_factory=dict)
    part: str = ""
    share: str = ""
    preset: str = "letor3"
    raw: bool = False


@dataclass(frozen=True)
class Found:
    """Where a set is; share: the part of the set that this is, "" for all of it."""

    path: Path
    share: str = ""


def _gov(task: str, year: int) -> KnownSet:
    """One of the six .Gov sets of LETOR 3.0, which are all in Gov/QueryLevelNorm/YEAR_task_dataset."""
    name = f"{year}_{task}_dataset"
    layouts = [f"QueryLevelNorm/{name}", f"Gov/QueryLevelNorm/{name}"]
    own = f"{task.upper()}{year}"
    return KnownSet("gov", [f"{own}/QueryLevelNorm", own, *layouts[::-1], name], layouts)


def _yahoo(number: int) -> KnownSet:
    files = {"train": f"set{number}.train", "validation": f"set{number}.valid", "test": f"set{number}.test"}
    return KnownSet(
        "yahoo-ltr", ["ltrc_yahoo", "Yahoo-LTRC", "Webscope_C14B"], ["", "ltrc_yahoo"], files, preset="mslr"
    )


def _normalised(name: str) -> list[str]:
    """Folders of a LETOR set, alone or beside its unnormalised forms."""
    return [f"{name}/QueryLevelNorm", f"{name}/Querylevelnorm", name]


_NORMALISED = ["QueryLevelNorm", "Querylevelnorm", ""]
_RAW: Facts = {"preset": "mslr", "raw": True}

KNOWN: dict[str, KnownSet] = {
    "OHSUMED": KnownSet("ohsumed", _normalised("OHSUMED"), _NORMALISED),
    "MQ2007": KnownSet(
        "mq2007",
        _normalised("MQ2007"),
        _NORMALISED,
        part="MQ2007-partial",
        share="85 % of the rows",
        preset="letor4",
    ),
    "MQ2008": KnownSet("mq2008", _normalised("MQ2008"), _NORMALISED, preset="letor4"),
    **{f"{task.upper()}{year}": _gov(task, year) for task in ("td", "hp", "np") for year in (2003, 2004)},
    "MSLR-WEB10K": KnownSet("mslr-web10k", ["MSLR-WEB10K"], ["", "MSLR-WEB10K"], **_RAW),
    "MSLR-WEB30K": KnownSet("mslr-web30k", ["MSLR-WEB30K"], ["", "MSLR-WEB30K"], **_RAW),
    "Yahoo-LTRC": _yahoo(1),
    "Yahoo-LTRC-2": _yahoo(2),
    "Istella": KnownSet("istella", ["istella-letor/full", "istella/full"], ["", "full"], **_RAW),
    "Istella-S": KnownSet("istella-s", ["istella-s-letor/sample", "istella-s/sample"], ["", "sample"], **_RAW),
    "ml-1m": KnownSet("ml-1m", ["ml-1m"]),
    "ml-20m": KnownSet("ml-20m", ["ml-20m"]),
    "hetrec2011": KnownSet("hetrec2011", ["hetrec2011-movielens-2k-v2", "hetrec2011-movielens-2k", "hetrec2011"]),
    "trec-web": KnownSet("trec-web", ["trec-web", "ClueWeb09-B"]),
}


# generated data of a set's shape, used until the set itself is available: the shape, and the fraction of the queries
GENERATED = {"generated HP2004": ("HP2004", 1.0), "generated MSLR-WEB10K": ("MSLR-WEB10K", 0.02)}

OTHERS = ("ml-1m", "ml-20m", "hetrec2011", "trec-web")  # ratings and runs
GRADED = tuple(name for name in KNOWN if name not in OTHERS)  # sets of graded rows


class MissingSet(DataError):
    """A set that is not available; the message says where it comes from and where to put it."""


def find_set(name: str, data: Path) -> Found:
    """Where a set is; a MissingSet if neither it nor a part of it is available."""
    if name in GENERATED:
        return Found(data)
    known = KNOWN.get(name)
    folders = [data / name] if known is None else [data / folder for folder in known.folders]
    if known is not None:
        folders += [cache_folder() / known.fetched / inside for inside in known.inside]
    for folder in folders:
        if folder.is_dir() and (known is None or _holds(folder, known)):
            return Found(folder)
    if known is not None and known.part and (data / known.part).is_dir():
        return Found(data / known.part, known.share)
    how = "`hingerank fetch --list` says where public sets come from"
    if known is not None:
        how = f"it comes from {PUBLIC_SETS[known.fetched].page}; its folder there is {' or '.join(known.folders)}"
    raise MissingSet(
        f"there is no {name} in {data}: set $HINGERANK_DATA, or --data, to the folder that contains it; {how}"
    )


def _holds(folder: Path, known: KnownSet) -> bool:
    """Whether a folder contains the set itself: an empty one, or one with the set's other forms, does not count."""
    if known.files:
        return all(_named(folder, name) is not None for name in known.files.values())
    if known.fetched in OTHERS:
        return any(folder.iterdir())
    return any(find_folds(folder))


def read_set(name: str, path: Path, numbers: Sequence[int] | None = None) -> list[FoldParts]:
    """The folds of a set: those it is published in, or one if it is published as training and test files.

    Without validation queries, as in Istella's full set, every fifth training query is used for validation.
    """
    if name in GENERATED:
        shape, scale = GENERATED[name]
        data = make_like(shape, scale=scale, signal="nonlinear")
        turns = data.fold_rows(5)
        return [FoldParts(*map(data.take, turns[k - 1])) for k in numbers or range(1, 6)]
    known = KNOWN.get(name)
    if known is not None and known.files:
        files = {role: _named(path, stem) for role, stem in known.files.items()}
    elif has_folds(path):
        return hingerank.read_folds(path, numbers)
    else:
        files = dict(find_folds(path)[1].get(0, {}))
    if not {"train", "test"} <= set(files):
        raise DataError(f"{path}: no folds here, expected files S1…S5, Fold1…Fold5, or train and test")
    if numbers is not None and list(numbers) != [1]:
        raise DataError(
            f"{path}: there is no fold {next(k for k in numbers if k != 1)}, as {name} has a single one: ask for fold 1"
        )
    return [_one_fold({role: file for role, file in files.items() if file is not None})]


def _one_fold(files: Mapping[str, Path]) -> FoldParts:
    roles = [role for role in ROLES if role in files]
    data, sizes = read_parts([files[role] for role in roles])
    values = data.X if isinstance(data.X, np.ndarray) else data.X.data
    values[np.abs(values) > HUGE] = 0.0
    rows = dict(zip(roles, np.split(np.arange(data.n_rows), np.cumsum(sizes)[:-1])))
    if "validation" not in rows:
        place = np.unique(data.qid[rows["train"]], return_inverse=True)[1]
        rows["validation"], rows["train"] = rows["train"][place % 5 == 4], rows["train"][place % 5 != 4]
    return FoldParts(*(data.take(rows[role]) for role in ROLES))


def _named(folder: Path, stem: str) -> Path | None:
    """The file with that name, plain or compressed."""
    names = (stem + ending + packed for ending in (".txt", "") for packed in ("", *COMPRESSIONS))
    return next((folder / name for name in names if (folder / name).is_file()), None)
