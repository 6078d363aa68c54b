"""Map user ids of any type to their numbers, and store ids in model files."""

from typing import Any

import numpy as np

from hingerank.data.blocks import check_ids
from hingerank.data.files import DataError

ADD_USER = "add_user learns a new user from a few ratings"


class UserIndex:
    """Numbers of users by id. The first ids are searched in sorted order, ids added later in a dict."""

    def __init__(self, ids: np.ndarray):
        self._ids, self._order = ids, None if ids.dtype.kind == "O" else np.argsort(ids, kind="stable")
        self._numbers: dict[Any, int] = {}
        self._listed = self._order is None  # whether the dict has all ids, which objects need
        if self._order is None:
            self._numbers = {user: number for number, user in enumerate(ids.tolist())}

    def add(self, ids: np.ndarray, first: int) -> None:
        """Add users with numbers first, first + 1, ..."""
        self._numbers.update({user: first + place for place, user in enumerate(ids.tolist())})

    def numbers(self, users: Any, n_rows: int | None = None) -> np.ndarray:
        """Return the number of each user, -1 if unknown; a single id (text, a number) is for n_rows rows."""
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
        """Return the same as `numbers`; an unknown id is a DataError that says what to do."""
        numbers = self.numbers(users, n_rows)
        if len(numbers) and numbers.min() < 0:
            user = users if _is_one(users) else np.asarray(users)[numbers < 0].tolist()[0]
            raise DataError(f"user {user!r} is not known: was it in the data of fit, and of the same type? ({cure})")
        return numbers


def _same_kind(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether ids of two arrays can be equal: both are numbers, or both are the same kind of text or time."""
    numbers = "biuf"
    return a.dtype.kind == b.dtype.kind or (a.dtype.kind in numbers and b.dtype.kind in numbers)


def _is_one(users: Any) -> bool:
    """Return whether this is one id and not a list of ids."""
    return isinstance(users, str | bytes) or np.ndim(users) == 0


def plain_ids(ids: np.ndarray) -> Any:
    """Convert ids for a model file: objects of several types to a list, dates and bytes to (type, raw bytes)."""
    if ids.dtype.kind == "O":
        return ids if all(isinstance(user, str) for user in ids) else ids.tolist()
    if ids.dtype.kind in "MmS":
        return ids.dtype.str, np.frombuffer(ids.tobytes(), np.uint8)
    return ids


def ids_from_plain(ids: Any) -> Any:
    """Invert `plain_ids`; a value that it cannot have returned is a ValueError."""
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
    """Return new ids (objects) in the type of the known ones if they have the same kind, else as objects."""
    plain = np.asarray(new.tolist()) if len(new) else known[:0]
    whole = {"i": "iu", "u": "iu"}.get(known.dtype.kind, known.dtype.kind if known.dtype.kind in "UfSMm" else "")
    return plain if plain.ndim == 1 and plain.dtype.kind in whole else new
