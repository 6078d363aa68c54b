"""From user ids of any type to their numbers, and ids as a model file holds them."""

from typing import Any

import numpy as np

from hingerank.data.blocks import check_ids
from hingerank.data.files import DataError

ADD_USER = "add_user learns a new user from a few ratings"


class UserIndex:
    """Numbers of users by id. Ids known from the start are searched in sorted order, those added later in a dict."""

    def __init__(self, ids: np.ndarray):
        self._ids, self._order = ids, None if ids.dtype.kind == "O" else np.argsort(ids, kind="stable")
        self._numbers: dict[Any, int] = {}
        self._listed = self._order is None  # whether all ids are in the dict, where objects are looked up
        if self._order is None:
            self._numbers = {user: number for number, user in enumerate(ids.tolist())}

    def add(self, ids: np.ndarray, first: int) -> None:
        """Users with numbers first, first + 1, ..."""
        self._numbers.update({user: first + place for place, user in enumerate(ids.tolist())})

    def numbers(self, users: Any, n_rows: int | None = None) -> np.ndarray:
        """The number of each user, -1 if not known; one id alone (text, a number) stands for n_rows rows."""
        if n_rows is not None and _is_one(users):
            return np.repeat(self.numbers([users]), n_rows)
        wanted = check_ids(users, len(users) if n_rows is None else n_rows, "users")
        found = np.full(len(wanted), -1)
        if wanted.dtype.kind == "O" and self._order is not None and not self._listed:
            self._numbers = {user: number for number, user in enumerate(self._ids.tolist())} | self._numbers
            self._listed = True
        if self._order is not None and len(self._ids) and _same_kind(wanted, self._ids):
            place = np.searchsorted(self._ids, wanted, sorter=self._order)
            found = self._order[np.minimum(place, len(self._ids) - 1)]
            found = np.where(self._ids[found] == wanted, found, -1)
        for row in np.flatnonzero(found < 0) if self._numbers else ():
            found[row] = self._numbers.get(wanted[row].item() if wanted.dtype.kind != "O" else wanted[row], -1)
        return found

    def known(self, users: Any, n_rows: int | None = None, cure: str = ADD_USER) -> np.ndarray:
        """As `numbers`; an id that is not known is a DataError, which says what to do about it."""
        numbers = self.numbers(users, n_rows)
        if len(numbers) and numbers.min() < 0:
            user = users if _is_one(users) else np.asarray(users)[numbers < 0].tolist()[0]
            raise DataError(f"user {user!r} is not known: was it in the data of fit, and of the same type? ({cure})")
        return numbers


def _same_kind(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether ids of these two arrays can be equal: both numbers, or both of the same kind of text or time."""
    numbers = "biuf"
    return a.dtype.kind == b.dtype.kind or (a.dtype.kind in numbers and b.dtype.kind in numbers)


def _is_one(users: Any) -> bool:
    """Whether this is one id and not a list of them."""
    return isinstance(users, str | bytes) or np.ndim(users) == 0


def plain_ids(ids: np.ndarray) -> Any:
    """Ids as a model file holds them: objects of several kinds as a list, dates and bytes as (type, raw bytes)."""
    if ids.dtype.kind == "O":
        return ids if all(isinstance(user, str) for user in ids) else ids.tolist()
    if ids.dtype.kind in "MmS":
        return ids.dtype.str, np.frombuffer(ids.tobytes(), np.uint8)
    return ids


def ids_from_plain(ids: Any) -> Any:
    """The inverse of `plain_ids`; a ValueError refuses what it cannot have given."""
    if isinstance(ids, tuple):
        kind, raw = ids
        if np.dtype(kind).kind not in "MmS":
            raise ValueError(f"user ids cannot be of type {kind}")
        return np.frombuffer(raw.tobytes(), kind).copy()
    if isinstance(ids, list):
        array = np.empty(len(ids), object)
        array[:] = ids
        return check_ids(array, len(ids), "users_")
    return ids


def ids_like(known: np.ndarray, new: np.ndarray) -> np.ndarray:
    """New ids (objects) in the type of those known if they are of its kind, else as objects."""
    plain = np.asarray(new.tolist()) if len(new) else known[:0]
    whole = {"i": "iu", "u": "iu"}.get(known.dtype.kind, known.dtype.kind if known.dtype.kind in "UfSMm" else "")
    return plain if plain.ndim == 1 and plain.dtype.kind in whole else new
