"""Data in parts of whole queries. Each part is loaded in this process or on a worker.

A question is a function of a loaded part. `PartedData.ask` calls it for every part and returns the results in part
order, so that sums over parts have the same bits wherever the parts are. What a fit computes from a part and needs
again stays with the part (`OnParts`). A loaded part is released together with the data object that it was loaded for
(`Lease`). A file that was replaced after it was loaded is an error.
"""

import hashlib
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.files import BINARY_HEADER, DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import MOST_COPIED, RowsView
from hingerank.kernels.threads import serial_blas

MOST_MADE = 2  # number of objects that a loaded part keeps


@dataclass(frozen=True)
class Part:
    """A part of a data set: the path from which it is read. It has whole queries. A pickle contains no rows.

    Parameters
    ----------
    path : a file or folder that `hingerank.read` can read, with the same path on every machine
    options : options of `hingerank.read`
    rows : (first, last) rows of a binary folder; None for all
    without : ids of queries in the file that belong to another part
    more : (part, ids) of queries in other parts that belong to this one
    fold : (k, folds, chosen): only the queries whose number in the part is k modulo folds (chosen), or all others
    owner : distinguishes parts of the same path that were made at different times
    content : `content_of` the files when the part was first read; None before
    grades : (part, grades) replace the grades of the file; the rows are those loaded for that part
    """

    path: str
    options: tuple[tuple[str, Any], ...] = ()
    rows: tuple[int, int] | None = None
    without: tuple[Any, ...] = ()
    more: "tuple[tuple[Part, tuple[Any, ...]], ...]" = ()
    fold: tuple[int, int, bool] | None = None
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    content: tuple[str, ...] | None = field(default=None, repr=False)
    grades: "tuple[Part, np.ndarray] | None" = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> str:
        return hashlib.blake2b(repr(self).encode(), digest_size=16).hexdigest()

    @property
    def paths(self) -> list[str]:
        """All paths that the part is read from."""
        return [self.path, *(other.path for other, _ in self.more)]

    def read(self) -> Any:
        """All rows of the path: RankingData."""
        from hingerank.data.read_write import read  # fits of arrays need no reader

        return read(self.path, **dict(self.options))

    def load(self) -> Any:
        """The rows of the part."""
        if self.fold is not None:  # before the grades: a part with other grades has folds too
            data = held(replace(self, fold=None)).data
            k, folds, chosen = self.fold
            inside = (np.arange(data.n_queries) % folds == k) == chosen
            rows = np.flatnonzero(data.blocks.scatter(np.repeat(inside, data.blocks.sizes)))
            view = data.X.take(rows) if isinstance(data.X, RowsView) else RowsView(data.X, rows)
            X = view[:] if view.nbytes <= MOST_COPIED else view
            return RankingData(X, data.y[rows], data.qid[rows], None, data.feature_names)
        if self.grades is not None:
            return replace(held(self.grades[0]).data, y=self.grades[1])
        try:
            data = self.read()
        except OSError as error:
            raise DataError(f"{self.path}: the file of a part is missing or cannot be read ({error})") from None
        if self.rows is not None:
            data = data.take(np.arange(*self.rows))
        if self.without:
            data = data.subset(rows=~np.isin(data.qid, np.array(self.without)))
        for other, ids in self.more:
            there = other.load()
            mine = there.subset(rows=np.isin(there.qid, np.array(ids)))
            data = RankingData.concatenate([data, mine], join_queries=True)
        return data


def written(path: str) -> tuple[int, int] | None:
    """Size and modification time of a file, or of the header of a binary folder; None if it does not exist now.

    This is called before every question and takes microseconds.
    """
    with suppress(OSError):
        status = os.stat(os.path.join(path, BINARY_HEADER) if os.path.isdir(path) else path)
        return status.st_size, status.st_mtime_ns
    return None


def content_of(path: str) -> str:
    """A value that copies of the file share on all machines: a hash of a binary folder's header, else the size."""
    header = os.path.join(path, BINARY_HEADER)
    if os.path.isfile(header):
        with open(header, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    return str(os.path.getsize(path))


def _changed(path: str) -> DataError:
    return DataError(f"{path}: the file was replaced after its rows were read; read the data again to learn from it")


class LoadedPart:
    """A part that is loaded in this process, and the objects made from it (`OnParts`)."""

    def __init__(self, part: Part):
        self.part, self.written = part, [written(path) for path in part.paths]
        self.data = part.load()  # RankingData, or the data of another kind of part
        self.content = tuple(map(content_of, part.paths))
        for path, before, now in zip(part.paths, part.content or self.content, self.content):
            if before != now:
                raise _changed(path)
        self.made: dict[str, tuple[Any, int]] = {}  # objects, and how often each was changed

    def check(self) -> None:
        """Raise a DataError if a file was replaced after loading. A file that was deleted is not an error."""
        for path, before in zip(self.part.paths, self.written):
            now = written(path)
            if now is not None and now != before:
                raise _changed(path)


_AT_HAND: dict[str, LoadedPart] = {}
_LOCK = threading.RLock()
LOADED = [0]  # number of parts that this process has read so far


def held(part: Part) -> LoadedPart:
    """The part as it is loaded in this process. It is read now if necessary."""
    with _LOCK:
        known = _AT_HAND.get(part.key)
        if known is not None:
            known.check()
            return known
        _AT_HAND[part.key] = found = LoadedPart(part)
        LOADED[0] += 1
        return found


def forget(parts: Sequence[Part]) -> None:
    """Release parts that are loaded in this process. This can be called at any time."""
    for part in parts:
        _AT_HAND.pop(part.key, None)


Question = Callable[..., Any]  # a function of a loaded part and more arguments
Arguments = tuple[Any, ...]  # the further arguments of a question
Answers = list[Any]  # a result for every part


def answers(question: Question, parts: Sequence[Part], arguments: Arguments) -> Answers:
    """The results of question(loaded part, *arguments) for some parts, one after the other."""
    return [question(held(part), *arguments) for part in parts]


class Runner:
    """Calls questions for parts in this process, and releases parts that are no longer needed."""

    def run(self, question: Question, parts: Sequence[Part], arguments: Arguments) -> Answers:
        """The results in part order."""
        return answers(question, parts, arguments)

    def forget(self, parts: Sequence[Part]) -> None:
        """Release the parts where they are loaded. This can be called at any time and does not wait."""
        forget(parts)


class Lease:
    """Keeps parts loaded as long as something refers to this object."""

    def __init__(self, runner: Runner, parts: Sequence[Part]):
        weakref.finalize(self, runner.forget, list(parts)).atexit = False


# Objects that stay with the parts.


class OnParts:
    """An object for every part, which stays with the part and can be called.

    A worker that restarts loads its parts and makes their objects again, and repeats the calls that changed them, with
    the same bits.

    Parameters
    ----------
    runner : calls functions of the parts
    parts : the parts
    make : makes the object of a loaded part; pickled for parts on other machines
    """

    def __init__(self, runner: Runner, parts: Sequence[Part], make: Callable[[LoadedPart], Any]):
        self.runner, self.parts, self.make = runner, list(parts), make
        self.token, self.changes, self.made = uuid.uuid4().hex, list[Method](), False

    def call(self, name: str, *arguments: object, changes: bool = False) -> Answers:
        """Call a method of every object; changes: whether it changes them. The results are in part order."""
        method = methodcaller(name, *arguments)
        about = self.token, len(self.changes), method, changes
        anew = (*about, self.make, self.changes)
        found, self.made = self.runner.run(_call, self.parts, about if self.made else anew), True
        lost = [part for part, answer in zip(self.parts, found) if answer is None]
        again = iter(self.runner.run(_call, lost, anew) if lost else ())
        if changes:
            self.changes.append(method)
        return [answer for (answer,) in (answer or next(again) for answer in found)]


Method = Callable[[Any], Any]  # the call of a method of an object, with its arguments


def _call(
    part: LoadedPart, token: str, changed: int, method: Method, changes: bool,
    make: Callable[[LoadedPart], Any] | None = None, before: Sequence[Method] = (),
) -> tuple[Any] | None:  # fmt: skip
    """Call a method of the part's object after that many changes; None if the part does not have it.

    With `make` the object is made if necessary, and changed as it was before.
    """
    there, count = part.made.get(token, (None, 0))
    with serial_blas():  # one BLAS thread gives the same bits each time
        if there is None or count != changed:
            if make is None:
                return None
            there = make(part)
            for change in before:
                change(there)
        answer = method(there)
    part.made[token] = there, changed + changes
    while len(part.made) > MOST_MADE:
        del part.made[next(iter(part.made))]
    return (answer,)


@dataclass(frozen=True)
class PartFacts:
    """What is known of a part before training."""

    n_rows: int
    ids: np.ndarray
    n_features: int
    names: tuple[str, ...] | None
    dtype: str
    sparse: bool
    content: tuple[str, ...]
    index_base: int | None = None


def facts_of(part: LoadedPart) -> PartFacts:
    """Sizes, query ids and names of a part."""
    X, data = part.data.X, part.data
    names = None if data.feature_names is None else tuple(data.feature_names)
    sparse = sp.issparse(X) or (isinstance(X, RowsView) and X.sparse)
    sizes = data.n_rows, data.blocks.ids, data.n_features
    return PartFacts(*sizes, names, str(X.dtype), sparse, part.content, data.index_base)


@dataclass(frozen=True)
class RowWeights:
    """A weight for each row of data in parts, or none. Questions that need weights send them to the parts."""

    values: np.ndarray | None = None  # part after part
    starts: dict[str, int] = field(default_factory=dict)  # key of a part -> index of its first weight

    def of(self, part: LoadedPart) -> np.ndarray | None:
        """The weights of a part's rows."""
        if self.values is None:
            return None
        first = self.starts[part.part.key]
        return self.values[first : first + part.data.n_rows]


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Rows of all parts as one matrix."""
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def joined_weights(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The weights of all parts; None if rows have no weights."""
    given = [weight for weight in parts if weight is not None]
    return np.concatenate(given) if given else None
