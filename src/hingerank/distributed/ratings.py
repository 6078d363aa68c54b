"""Ratings in parts of whole users, and the fit of a factorised model on them.

The solver has the basis U. The users' weights V stay with the parts (`OnParts`), which execute the steps of the fit.
Each step returns sums over users, which are added in part order, so the bits do not depend on where the parts are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from hingerank.arrays import Ranker
from hingerank.data.blocks import number_ids
from hingerank.data.files import DataError, PathLike
from hingerank.distributed.parted_data import unfitted
from hingerank.distributed.parts import Lease, LoadedPart, OnParts, Part, Runner
from hingerank.distributed.reading import listed, runner_of, spanning_ids
from hingerank.kernels.threads import add_up
from hingerank.personal.alternating import (
    LocalUsers,
    Matrix,
    StepSums,
    Users,
    columns_in_use,
    items_in_use,
)
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.ratings import Ratings, number_items, read_ratings

ROWS_FOR_PRIOR = 300_000  # number of ratings, by evenly spaced users, from which the prior of new users is learned


class RatingsPart(Part):
    """Ratings of whole users, as the path of a file that `read_ratings` can read."""

    def read(self) -> Ratings:
        return read_ratings(self.path, **dict(self.options))


@dataclass(frozen=True)
class RatingParts:
    """Ratings in parts of whole users.

    Attributes
    ----------
    parts : the parts, in the order of the users
    runner : calls functions of the parts
    users : ids of the users, part after part
    n_rows : number of ratings
    item_ids : ids for the rows of the item features; None if the files name items by row numbers
    lease : keeps the parts loaded
    """

    parts: list[RatingsPart]
    runner: Runner
    users: np.ndarray
    n_rows: int
    item_ids: np.ndarray | None
    lease: Lease = field(repr=False)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"RatingParts({len(self.parts)} parts, {self.n_rows} ratings by {len(self.users)} users)"

    def preferences(self, ranker: Ranker, n_items: int) -> "UsersInParts":
        """The users with their preferences in the form that the ranker needs."""
        make = partial(UsersOfPart, ranker=unfitted(ranker), n_items=n_items, item_ids=self.item_ids)
        return UsersInParts(self, OnParts(self.runner, self.parts, make))


def read_rating_parts(
    paths: PathLike | Iterable[PathLike], client: object = None, *, item_ids: object = None, **options: object
) -> RatingParts:
    """Read ratings in parts of whole users, for ``PersonalRankSVM.fit_parts``.

    Parameters
    ----------
    paths : path or sequence of paths
        Files with the same path on every worker, or one folder of such files. Each file is a part.
    client : dask.distributed.Client, or None
        The cluster whose workers hold the parts, as in `hingerank.distributed.read`.
    item_ids : sequence, optional
        Ids of all items in the order of the item features. By default the files name items by row numbers.
    **options
        Parameters of `read_ratings`: user, item, rating, delimiter, duplicates.

    Examples
    --------
    >>> import numpy as np
    >>> import hingerank as hr
    >>> from pathlib import Path
    >>> _ = Path("a.csv").write_text("user,item,rating\\nann,0,5\\nann,1,2\\n")
    >>> _ = Path("b.csv").write_text("user,item,rating\\nbob,0,1\\nbob,1,4\\n")
    >>> data = hr.read_rating_parts(["a.csv", "b.csv"])
    >>> data
    RatingParts(2 parts, 4 ratings by 2 users)
    >>> hr.PersonalRankSVM(rank=1, C=1.0).fit_parts(np.eye(2), data).rank("bob", np.eye(2)).tolist()
    [1, 0]
    """
    given, runner = tuple(sorted(options.items())), runner_of(client)
    parts = [RatingsPart(path, given) for path in listed(paths)]
    if not parts:
        raise DataError("there are no parts to learn from: name files of ratings")
    lease, found = Lease(runner, parts), runner.run(_users_of, parts, ())
    parts = [replace(part, content=content) for part, (*_, content) in zip(parts, found)]
    users = np.concatenate([ids for ids, *_ in found])
    if spread := spanning_ids([ids for ids, *_ in found]):
        user, (first, other, *_) = next(iter(spread.items()))
        raise DataError(
            f"user {user!r} is in several parts ({parts[first].path}, {parts[other].path}); a part must have "
            "all ratings of its users: sort the ratings by user before splitting, or give the users of every "
            "file new ids"
        )
    ids = None if item_ids is None else np.array(item_ids)
    return RatingParts(parts, runner, users, sum(n for _, n, _ in found), ids, lease)


def _users_of(part: LoadedPart) -> tuple[np.ndarray, int, tuple[str, ...]]:
    rated = part.data
    return number_ids(rated.users, len(rated), "users")[0], len(rated), part.content


class UsersOfPart(LocalUsers):
    """A part's users and their preferences, made from its ratings in the form that a ranker needs.

    `features` comes before a fit.
    """

    def __init__(self, part: LoadedPart, ranker: Ranker, n_items: int, item_ids: np.ndarray | None):
        self.rated = part.data
        try:
            items = self.rated.item_ids[self.rated.items]
            self.items = items if item_ids is None else number_items(items, item_ids)[1]
            given = self.rated.users, self.items, self.rated.ratings
            preferences = ranker._known(*given, n_items)
        except DataError as error:
            raise error.at(part.part.path) from None
        super().__init__(np.empty((n_items, 0)), preferences)

    def facts(self) -> tuple[np.ndarray, np.ndarray, dict[str, int], np.ndarray]:
        p = self.preferences
        return p.users, p.pairs, p.notes, np.unique(p.item)

    def features(self, X: Matrix, number: np.ndarray | None) -> None:
        """Set the items' features. Item j becomes item number[j]. Items that no user here rated are left out."""
        p = self.preferences if number is None else self.preferences.with_items(number)
        self.X, number = items_in_use(X, p.item)
        self.preferences = p if number is None else p.with_items(number)

    def weights(self) -> np.ndarray:
        return self.V

    def sample(self, stride: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(users, items, ratings) of every stride-th user."""
        ids, codes = number_ids(self.rated.users, len(self.rated), "users")
        rows = codes % stride == 0
        return ids[codes[rows]], self.items[rows], self.rated.ratings[rows]


class UsersInParts(Users):
    """Users whose preferences and weights are with the parts: what a fit asks of them is asked of every part."""

    def __init__(self, data: RatingParts, parts: OnParts):
        self.data, self.call = data, parts.call
        found = self.call("facts")
        self.users = np.concatenate([users for users, _, _, _ in found])
        self.pairs = np.concatenate([pairs for _, pairs, _, _ in found])
        self.notes = {name: sum(part[2][name] for part in found) for name in found[0][2]}
        self.used = reduce(np.union1d, [used for _, _, _, used in found])
        self.number: np.ndarray | None = None
        self.counts = [len(users) for users, _, _, _ in found]

    @property
    def n_pairs(self) -> int:
        return int(self.pairs.sum())

    def features(self, X: Matrix) -> tuple[Matrix, np.ndarray | None]:
        """Send the features of the rated items to the parts. Returns them, and the columns kept (None: all)."""
        X, self.number = items_in_use(X, self.used)
        X, columns = columns_in_use(X)
        self.call("features", X, self.number, changes=True)
        return X, columns

    def power(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        found = self.call("power", v)
        return sum(square for square, _ in found), add_up([moved.copy() for _, moved in found])

    def begin(self, C: float, rank: int, fixed: int = 0, width: float = 0.0) -> None:
        self.C, self.free, self.width = C, rank - fixed, width
        self.call("begin", C, rank, fixed, width, changes=True)

    def right(self, U: np.ndarray) -> tuple[float, int]:
        right, pairs = zip(*self.call("right", U))
        return sum(right), sum(pairs)

    def sample(self, ranker: Ranker, n_items: int) -> tuple[np.ndarray, UserPreferences]:
        """The numbers of some users and their preferences: of all users, or of evenly spaced ones in every part."""
        stride = max(1, -(-self.data.n_rows // ROWS_FOR_PRIOR))
        users, items, ratings = (np.concatenate(column) for column in zip(*self.call("sample", stride)))
        some = ranker._known(users, items if self.number is None else self.number[items], ratings, n_items)
        firsts = np.cumsum([0, *self.counts[:-1]])
        return np.concatenate([first + np.arange(0, n, stride) for first, n in zip(firsts, self.counts)]), some

    def narrow(self, width: float) -> None:
        self.width = width
        self.call("narrow", width, changes=True)

    def step(self, U: np.ndarray, turn: np.ndarray | None = None, again: bool = False) -> StepSums:
        columns: Any = zip(*self.call("step", U, turn, again, changes=True))
        return StepSums(*(sum(column[1:], column[0]) for column in columns))

    def value(self, U: np.ndarray) -> float:
        return float(sum(self.call("value", U, changes=True)))

    def curved(self, D: np.ndarray) -> np.ndarray:
        return add_up([part.copy() for part in self.call("curved", D)])

    @property
    def V(self) -> np.ndarray:
        return np.concatenate(self.call("weights"))
