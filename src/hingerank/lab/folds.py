"""Folds: what a ranker may learn from, what chooses its setting, and what it is measured on.

Parts rotate by LETOR's rule (`hingerank.data.ranking_data.rotate`); queries are never cut.

For learning curves a method learns from a fraction of a fold's training queries. The subsets are nested: the training
queries are shuffled once, by the run's seed, and a size takes the first of them. Every size has its own choice of
settings. Validation and test queries are always all of them.

Ratings and topics for diversification are queries too: see `hingerank.lab.rating_folds` and `hingerank.lab.topics`.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hingerank.arrays import Matrix
from hingerank.data.blocks import blocks_from_qid
from hingerank.data.checks import generator, list_of
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData, check_columns, rotate
from hingerank.data.rows_view import RowsView
from hingerank.diversity.queries import DiverseData
from hingerank.lab.topics import TopicRows, join_topics, topic_rows

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class SelectedRows:
    """Some rows of a data set, taken only when they are needed; index: which, None for all."""

    data: RankingData
    index: np.ndarray | None

    @property
    def n_rows(self) -> int:
        return self.data.n_rows if self.index is None else len(self.index)

    def take(self) -> RankingData:
        return self.data if self.index is None else self.data.take(self.index)


@dataclass(frozen=True, eq=False)
class Fold:
    """A name and three parts.

    Attributes
    ----------
    name : what it is called in results
    train, validation, test : RankingData, or `SelectedRows` of one
    shared_queries : whether the parts may share queries, as those of ratings share users
    """

    name: str
    train: RankingData | SelectedRows
    validation: RankingData | SelectedRows
    test: RankingData | SelectedRows
    shared_queries: bool = False

    @property
    def rows(self) -> RankingData:
        """The data that test rows are taken from."""
        return self.selected("test").data

    def selected(self, name: str) -> SelectedRows:
        """ "train", "validation" or "test", not yet taken."""
        part = getattr(self, name)
        return part if isinstance(part, SelectedRows) else SelectedRows(part, None)

    def part(self, name: str) -> RankingData:
        """ "train", "validation" or "test", memory-mapped arrays as plain ones, so that every kernel sees one type."""
        data = self.selected(name).take()
        if isinstance(data.X, RowsView):
            X: Matrix = data.X
        elif isinstance(data.X, np.ndarray):
            X = np.asarray(data.X)
        else:
            parts = (np.asarray(data.X.data), np.asarray(data.X.indices), np.asarray(data.X.indptr))
            X = type(data.X)(parts, shape=data.X.shape, copy=False)
        docid = None if data.docid is None else np.asarray(data.docid)
        return replace(data, X=X, y=np.asarray(data.y), qid=np.asarray(data.qid), docid=docid)


FoldLike = Fold | Sequence[RankingData | DiverseData]  # a triple (train, validation, test) has no name


def query_folds(data: RankingData | DiverseData, k: int = 5, seed: int = 0) -> list[Fold]:
    """Shuffle the queries, cut them into k parts of nearly equal size and rotate the parts by LETOR's rule."""
    data = _rows_of(data)
    return _folds(data, data.fold_rows(k, seed))


def _rows_of(data: RankingData | DiverseData) -> RankingData:
    if not isinstance(data, RankingData | DiverseData):
        raise ValueError(
            f"a fold is of RankingData or DiverseData, not {type(data).__name__}: RankingData.from_arrays(X, y, qid) "
            "makes them from arrays"
        )
    return topic_rows(data) if isinstance(data, DiverseData) else data


def part_folds(parts: Sequence[RankingData | DiverseData]) -> list[Fold]:
    """LETOR's rule over parts that already exist, such as OHSUMED's S1 ... S5."""
    if len(parts) < 3:
        raise ValueError(f"{len(parts)} parts: give at least 3, one each to train, to validate and to test")
    rows = [_rows_of(part) for part in parts]
    topics = [part for part in rows if isinstance(part, TopicRows)]
    data = join_topics(topics) if len(topics) == len(rows) else RankingData.concatenate(rows)
    ends = np.cumsum([part.n_rows for part in rows])
    return _folds(data, rotate([np.arange(end - part.n_rows, end) for part, end in zip(rows, ends)]))


def _folds(data: RankingData, turns: Sequence[Sequence[np.ndarray]]) -> list[Fold]:
    parts = [[SelectedRows(data, rows) for rows in turn] for turn in turns]
    return [Fold(f"fold {i}", train, check, test) for i, (train, check, test) in enumerate(parts, 1)]


def check_folds(folds: Iterable[FoldLike]) -> list[Fold]:
    """The folds as a list, if each is usable: rows of the same features in every part, and no query in two parts.

    A triple (train, validation, test) without a name, such as `read_folds` gives, is called by its number.
    """
    if isinstance(folds, RankingData | DiverseData):
        raise ValueError(f"folds are {type(folds).__name__}: give query_folds(data), or a list of folds")
    named: list[Fold] = []
    for number, given in enumerate(list_of("folds", folds, "folds, as query_folds(data) makes them"), 1):
        if isinstance(given, Fold):
            named.append(given)
            continue
        parts = list_of(f"fold {number}", given, "three parts: train, validation and test")
        if len(parts) != 3:
            raise ValueError(f"fold {number} has {len(parts)} parts: give train, validation and test")
        train, validation, test = map(_rows_of, parts)
        named.append(Fold(f"fold {number}", train, validation, test))
    if not named:
        raise ValueError("there are no folds: give at least one")
    names = [fold.name for fold in named]
    if len(set(names)) < len(names):
        raise ValueError(f"folds must have different names, got {names}")
    for fold in named:
        seen: dict[Hashable, str] = {}
        for name in PARTS:
            part = fold.selected(name)
            whole, index = part.data, part.index
            blocks = whole.blocks if index is None else blocks_from_qid(whole.qid[index], len(index))
            ids = blocks.ids.tolist()
            if not ids:
                raise DataError(f"{fold.name}: the {name} part is empty")
            shared = next((q for q in ids if q in seen), None)
            if shared is not None and not fold.shared_queries:
                raise DataError(f"{fold.name}: query {shared!r} is in both the {seen[shared]} and the {name} part")
            seen.update(dict.fromkeys(ids, name))
        check_columns({f"the {name} part of {fold.name}": fold.selected(name).data for name in PARTS})
    return named


def grade_range(folds: Sequence[Fold]) -> tuple[float, float]:
    """The smallest and the largest grade in the folds' data, whichever part it is in."""
    sets = {id(data): data for fold in folds for part in PARTS for data in [fold.selected(part).data]}
    return min(float(data.y.min()) for data in sets.values()), max(float(data.y.max()) for data in sets.values())


def parse_sizes(text: str) -> list[float]:
    """Sizes typed on the command line, as percentages or fractions; checked by `check_sizes`.

    >>> parse_sizes("10%, 0.3,100%")
    [0.1, 0.3, 1.0]
    """
    try:
        words = [word.strip() for word in text.split(",")]
        sizes = [float(word[:-1]) / 100 if word.endswith("%") else float(word) for word in words]
    except ValueError:
        raise ValueError(f"sizes are {text!r}: give fractions of the training queries, as in 10%,30%,100%") from None
    return check_sizes(sizes)


def check_sizes(sizes: Iterable[float]) -> list[float]:
    """The sizes in order, each once, and 1 among them: the leaderboard is about all training queries."""
    given = list_of("sizes", sizes, "fractions of the training queries")
    found = sorted({round(float(size), 6) for size in given} | {1.0})
    wrong = next((size for size in found if not 0 < size <= 1), None)
    if wrong is not None:
        raise ValueError(f"sizes must be fractions of the training queries, above 0 and at most 1, not {wrong:g}")
    return found


def take_queries(data: RankingData, size: float, seed: int) -> RankingData:
    """A fraction `size` of the queries, rounded up, drawn by `seed`; a smaller fraction is a subset of it."""
    if size >= 1:
        return data
    order = generator(seed, "seed").permutation(data.n_queries)
    return data.subset(data.blocks.ids[order[: math.ceil(size * data.n_queries)]])


def size_text(size: float) -> str:
    """ "10 %" """
    return f"{100 * size:.4g} %"
