"""The users and items of a personal model: numbers of users by id, and the items saved next to the model.

A catalogue has ids, features and their names, so that a model can make lists. It also stores who rated which item in
training: lists leave these items out, and are compared with baselines.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Column, Matrix, PerRow
from hingerank.data.blocks import check_ids, number_ids, places_of
from hingerank.data.files import DataError, PathLike, draft_of
from hingerank.export.model_file import FILE_NAME as MODEL_NAME
from hingerank.personal.item_features import identity_features, join_features
from hingerank.personal.preferences import check_weights

ADD_USER = "add_user learns a new user from a few ratings"
FILE_NAME = "items.npz"


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

    def numbers(self, users: Column, n_rows: int | None = None) -> np.ndarray:
        """Return the number of each user, -1 if unknown; a single id (text, a number) is for n_rows rows."""
        if n_rows is None:
            n_rows = count_of(users)
        elif _is_one(users):
            return np.repeat(self.numbers([users]), n_rows)
        wanted = check_ids(users, n_rows, "users")
        found = np.full(len(wanted), -1)
        if wanted.dtype.kind == "O" and self._order is not None and not self._listed:
            self._numbers = {user: number for number, user in enumerate(self._ids.tolist())} | self._numbers
            self._listed = True
        kinds = {wanted.dtype.kind, self._ids.dtype.kind}  # ids can be equal if both are numbers, or of the same kind
        if self._order is not None and len(self._ids) and (len(kinds) == 1 or kinds <= set("biuf")):
            place = np.searchsorted(self._ids, wanted, sorter=self._order)
            found = self._order[np.minimum(place, len(self._ids) - 1)]
            found = np.where(self._ids[found] == wanted, found, -1)
        for row in np.flatnonzero(found < 0) if self._numbers else ():
            found[row] = self._numbers.get(wanted[row].item() if wanted.dtype.kind != "O" else wanted[row], -1)
        return found

    def known(self, users: Column, n_rows: int | None = None, cure: str = ADD_USER) -> np.ndarray:
        """Return the same as `numbers`; an unknown id is a DataError that says what to do."""
        numbers = self.numbers(users, n_rows)
        if len(numbers) and numbers.min() < 0:
            user = users if _is_one(users) else np.asarray(users)[numbers < 0].tolist()[0]
            raise DataError(f"user {user!r} is not known: was it in the data of fit, and of the same type? ({cure})")
        return numbers


def _is_one(users: Column) -> bool:
    """Return whether this is one id and not a list of ids."""
    return isinstance(users, str | bytes) or np.ndim(users) == 0


def count_of(users: Column) -> int:
    """Return the number of ids; a single id that is not in a list is a DataError."""
    if _is_one(users):
        raise DataError(f"users is the single id {users!r}, expected a list of ids: [{users!r}]")
    return len(users)


def plain_ids(ids: np.ndarray) -> Any:
    """Convert ids for a model file: objects of several types to a list, dates and bytes to (type, raw bytes)."""
    if ids.dtype.kind == "O":
        return ids if all(isinstance(user, str) for user in ids) else ids.tolist()
    if ids.dtype.kind in "MmS":
        return ids.dtype.str, np.frombuffer(ids.tobytes(), np.uint8)
    return ids


def ids_from_plain(ids: Column) -> Any:
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


@dataclass(frozen=True)
class History:
    """Who rated, clicked or took which item.

    users : ids of the rows of `table`, in order of first appearance
    table : users x items, CSR with rising columns; its entries are the weights, or true if there are none
    """

    users: np.ndarray
    table: sp.csr_matrix

    @property
    def start(self) -> np.ndarray:
        """The items of user u are items[start[u]:start[u+1]]."""
        return self.table.indptr.astype(np.int64)

    @property
    def items(self) -> np.ndarray:
        return self.table.indices

    @property
    def n_items(self) -> int:
        return self.table.shape[1]

    @property
    def code(self) -> np.ndarray:
        """The number of the user of each entry."""
        return np.repeat(np.arange(len(self.users)), np.diff(self.table.indptr))

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The user and the row of the item of each entry."""
        return self.users[self.code], self.items

    def of(self, users: Column) -> "History":
        """Return the history of these users alone."""
        rows = UserIndex(np.asarray(users)).numbers(self.users) >= 0
        return History(self.users[rows], self.table[rows])

    def replaced(self, other: "History") -> "History":
        """Return this history, with the entries of the users of `other` replaced by theirs."""
        stays = UserIndex(other.users).numbers(self.users) < 0
        new = np.empty(len(other.users), object)
        new[:] = other.users.tolist()
        users = np.concatenate([self.users[stays], ids_like(self.users, new)])
        return History(users, sp.csr_matrix(sp.vstack([self.table[stays], other.table])))


def history_of(users: Column, rows: np.ndarray, n_items: int, weight: PerRow = None) -> History:
    """Return the history of pairs (user, row of the item), which may be in any order and repeated.

    weight: of each pair; those of repeated pairs add up, and pairs of weight 0 are left out.

    >>> history_of(["bob", "ann", "bob"], np.array([2, 0, 1]), 3).table.toarray().tolist()
    [[False, True, True], [True, False, False]]
    """
    given = np.ones(len(rows), bool)
    if weight is not None:
        given = check_weights(weight, len(rows), "click")
        if len(given) and not given.any():
            raise DataError("sample_weight is 0 for every click: nothing is left to learn from")
        users, rows, given = check_ids(users, len(rows), "users")[given > 0], rows[given > 0], given[given > 0]
    ids, code = number_ids(users, len(rows), "users")
    table = sp.csr_matrix((given, (code, rows)), shape=(len(ids), n_items))
    table.sum_duplicates()
    return History(ids, table)


@dataclass(frozen=True)
class Catalogue:
    """Items with an id and a row of features each, and with titles if these are known.

    history: who rated which item in training; None if it is not stored, as for models of version 0.2.
    """

    ids: np.ndarray
    X: Matrix
    names: list[str]
    titles: np.ndarray | None = None
    history: History | None = None

    def called(self, row: int) -> str:
        """Return the title of an item, or its id if it has none."""
        return str((self.ids if self.titles is None else self.titles)[row : row + 1].tolist()[0])

    def places(self, wanted: Column) -> np.ndarray:
        """Return the row numbers of ids, compared as text; -1 for an id that is not in the catalogue."""
        return places_of([str(value) for value in np.asarray(wanted).tolist()], map(str, self.ids.tolist()))

    def rows(self, wanted: Column) -> np.ndarray:
        """Return the same as `places`; an id that is not in the catalogue is a DataError."""
        found = self.places(wanted)
        if len(found) and found.min() < 0:
            item = np.asarray(wanted)[np.argmin(found) :][:1].tolist()[0]
            problem = f"item {item!r} is not in the catalogue of the model"
            raise DataError(problem, "leave it out, or give a table that has it", "catalogue")
        return found

    def aligned(self, names: list[str]) -> "Catalogue":
        """Return the same items with these features, in this order; a feature that is missing here is 0.

        Indicator features of single items (`identity_features`) need not be in a file, since they follow from the ids.
        """
        if self.names == names:
            return self
        X, own = join_features((self.X, self.names), identity_features(self.ids))
        place = {name: column for column, name in reversed(list(enumerate(own)))}  # names in the file take precedence
        known = [(new, place[name]) for new, name in enumerate(names) if name in place]
        if not known:
            raise DataError("the items have none of the features that the model learnt from: give the same columns")
        new, old = np.array(known).T
        pick = sp.csr_matrix((np.ones(len(new)), (old, new)), shape=(len(own), len(names)))
        made = sp.csr_matrix(X) @ pick
        return replace(self, X=made if sp.issparse(self.X) else made.toarray(), names=names)

    def with_history_of(self, other: "Catalogue") -> "Catalogue":
        """Return the same items, with the history that another catalogue has for them."""
        if other.history is None:
            return self
        users, table = other.history.users, other.history.table
        nobody = sp.csr_matrix((len(users), 1), dtype=bool)  # the column of items that the other one does not have
        return replace(self, history=History(users, sp.hstack([table, nobody]).tocsr()[:, other.places(self.ids)]))

    def save(self, model: PathLike) -> Path:
        """Write the items next to a saved model, which is a folder or a file of any name."""
        path = items_file(model)
        with draft_of(path) as draft:
            self.write(draft)
        return path

    def write(self, path: Path) -> None:
        """Write the items to an .npz file."""
        ids = self.ids if self.ids.dtype.kind in "iuU" else np.array([str(value) for value in self.ids.tolist()])
        arrays: dict[str, np.ndarray] = {"ids": ids, "names": np.array(self.names, "U")}
        if self.history is not None:
            users, table = plain_ids(self.history.users), self.history.table
            mixed = np.array(json.dumps(users)) if isinstance(users, list) else self.history.users
            arrays["users"] = mixed.astype("U") if mixed.dtype.kind == "O" else mixed
            arrays |= {"taken": table.indices, "taken_start": table.indptr}
        if self.titles is not None:
            arrays["titles"] = np.array([str(title) for title in self.titles.tolist()])
        if sp.issparse(self.X):
            arrays |= {"data": self.X.data, "indices": self.X.indices, "indptr": self.X.indptr}
            arrays["shape"] = np.array(self.X.shape)
        else:
            arrays["X"] = np.asarray(self.X)
        with open(path, "wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


def items_file(model: PathLike) -> Path:
    """Return where the items of a model are: items.npz in its folder, or NAME.items.npz next to a file NAME.

    >>> items_file("model/model.safetensors").as_posix(), items_file("shop.safetensors").as_posix()
    ('model/items.npz', 'shop.safetensors.items.npz')
    """
    path = Path(model)
    if path.is_dir():
        return path / FILE_NAME
    return path.with_name(FILE_NAME if path.name == MODEL_NAME else f"{path.name}.{FILE_NAME}")


def load_catalogue(model: PathLike) -> Catalogue | None:
    """Load the items saved with a model; None if there are none."""
    path = items_file(model)
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as found:
            X = found["X"] if "X" in found else _csr(found["data"], found["indices"], found["indptr"], found["shape"])
            history = None
            if "users" in found:
                users = found["users"] if found["users"].ndim else ids_from_plain(json.loads(str(found["users"])))
                taken, shape = found["taken"], (len(users), X.shape[0])
                history = History(users, _csr(np.ones(len(taken), bool), taken, found["taken_start"], shape))
            return Catalogue(found["ids"], X, found["names"].tolist(), found.get("titles"), history)
    except (KeyError, ValueError, OSError) as error:
        raise DataError(f"{path} does not hold items: {error}") from None


def _csr(data: np.ndarray, indices: np.ndarray, start: np.ndarray, shape: Any) -> sp.csr_matrix:
    """Make a matrix from arrays of a file, and check its indices."""
    X = sp.csr_matrix((data, indices, start), shape=tuple(shape))
    X.check_format(full_check=True)
    return X
