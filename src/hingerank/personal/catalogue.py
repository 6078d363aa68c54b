"""The items of a personal model, kept beside it: ids, features and their names, so that lists can be made at once.

Who rated which of them in training is kept too, so that lists can be compared with simple ones.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.blocks import number_ids, places_of
from hingerank.data.files import DataError, draft_of
from hingerank.export.model_file import FILE_NAME as MODEL_NAME
from hingerank.personal.item_features import identity_features, join_features
from hingerank.personal.users import UserIndex, ids_from_plain, ids_like, plain_ids

FILE_NAME = "items.npz"


@dataclass(frozen=True)
class History:
    """Who rated or took what: `table` (users x items, CSR) has an entry for each pair, `users` the ids of its rows."""

    users: np.ndarray
    table: sp.csr_matrix

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(user, row of the item) of each."""
        return np.repeat(self.users, np.diff(self.table.indptr)), self.table.indices

    def replaced(self, other: "History") -> "History":
        """This history with that of the users of `other` in the place of theirs."""
        stays = UserIndex(other.users).numbers(self.users) < 0
        new = np.empty(len(other.users), object)
        new[:] = other.users.tolist()
        users = np.concatenate([self.users[stays], ids_like(self.users, new)])
        return History(users, sp.csr_matrix(sp.vstack([self.table[stays], other.table])))


def history_of(users: Any, rows: np.ndarray, n_items: int) -> History:
    """The history of pairs (user, row of the item) in any order; a pair may be repeated.

    >>> history_of(["bob", "ann", "bob"], np.array([2, 0, 1]), 3).table.toarray().tolist()
    [[False, True, True], [True, False, False]]
    """
    ids, code = number_ids(users, len(rows), "users")
    table = sp.csr_matrix((np.ones(len(rows), bool), (code, rows)), shape=(len(ids), n_items))
    table.sum_duplicates()
    return History(ids, table)


@dataclass(frozen=True)
class Catalogue:
    """Items by id, a row of features each, and what people call them where that is known.

    history: who rated which of them in training; None where it is not known, as beside models of version 0.2.
    """

    ids: np.ndarray
    X: Any
    names: list[str]
    titles: np.ndarray | None = None
    history: History | None = None

    def called(self, row: int) -> str:
        """The title of an item, or its id."""
        return str((self.ids if self.titles is None else self.titles)[row : row + 1].tolist()[0])

    def places(self, wanted: Any) -> np.ndarray:
        """The row numbers of ids, compared as text; -1 for an id that is not here."""
        return places_of([str(value) for value in np.asarray(wanted).tolist()], map(str, self.ids.tolist()))

    def rows(self, wanted: Any, what: str = "item") -> np.ndarray:
        """As `places`; an id that is not here is a DataError."""
        found = self.places(wanted)
        if len(found) and found.min() < 0:
            item = np.asarray(wanted)[np.argmin(found) :][:1].tolist()[0]
            raise DataError(
                f"{what} {item!r} is not in the catalogue of the model: leave it out, or name a table that has it with "
                "--items"
            )
        return found

    def aligned(self, names: list[str]) -> "Catalogue":
        """The same items with these features, in this order: 0 where an item file has no such column.

        A model's columns of single items (`identity_features`) need not be in a file: an item is known by its id.
        """
        if self.names == names:
            return self
        X, own = join_features((self.X, self.names), identity_features(self.ids))
        place = {name: column for column, name in reversed(list(enumerate(own)))}  # the file's own names go first
        known = [(new, place[name]) for new, name in enumerate(names) if name in place]
        if not known:
            raise DataError("the items have none of the features that the model learnt from: give the same columns")
        new, old = np.array(known).T
        pick = sp.csr_matrix((np.ones(len(new)), (old, new)), shape=(len(own), len(names)))
        made = sp.csr_matrix(X) @ pick
        return replace(self, X=made if sp.issparse(self.X) else made.toarray(), names=names)

    def with_history_of(self, other: "Catalogue") -> "Catalogue":
        """The same items with the history of those of them that are in another catalogue too."""
        if other.history is None:
            return self
        row = self.places(other.ids)
        users, items = other.history.pairs
        here = row[items] >= 0
        return replace(self, history=history_of(users[here], row[items[here]], len(self.ids)) if here.any() else None)

    def save(self, model: Any) -> Path:
        """Write the items beside a saved model, which is a folder or a file of any name."""
        path = items_file(model)
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
        with draft_of(path) as draft, open(draft, "wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        return path


def items_file(model: Any) -> Path:
    """Where the items of a saved model are: items.npz in its folder, or NAME.items.npz beside a file NAME.

    >>> items_file("model/model.safetensors").as_posix(), items_file("shop.safetensors").as_posix()
    ('model/items.npz', 'shop.safetensors.items.npz')
    """
    path = Path(model)
    if path.is_dir():
        return path / FILE_NAME
    return path.with_name(FILE_NAME if path.name == MODEL_NAME else f"{path.name}.{FILE_NAME}")


def load_catalogue(model: Any) -> Catalogue | None:
    """The items beside a model, None if there are none."""
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
    """A matrix from a file, whose indices are checked."""
    X = sp.csr_matrix((data, indices, start), shape=tuple(shape))
    X.check_format(full_check=True)
    return X
