"""The items of a personal model, kept beside it: ids, features and their names, so that lists can be made at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.blocks import places_of
from hingerank.data.files import DataError, draft_of
from hingerank.export.model_file import FILE_NAME as MODEL_NAME
from hingerank.personal.item_features import identity_features, join_features

FILE_NAME = "items.npz"


@dataclass(frozen=True)
class Catalogue:
    """Items by id, a row of features each, and what people call them where that is known."""

    ids: np.ndarray
    X: Any
    names: list[str]
    titles: np.ndarray | None = None
    counts: np.ndarray | None = None  # training ratings of each

    def every_count(self) -> np.ndarray:
        """The row of each item as many times as it has training ratings."""
        return np.repeat(np.arange(len(self.ids)), 0 if self.counts is None else self.counts)

    def called(self, row: int) -> str:
        """The title of an item, or its id."""
        return str((self.ids if self.titles is None else self.titles)[row : row + 1].tolist()[0])

    def rows(self, wanted: Any, what: str = "item") -> np.ndarray:
        """The row numbers of ids, compared as text; an id that is not here is a DataError."""
        found = places_of([str(value) for value in np.asarray(wanted).tolist()], map(str, self.ids.tolist()))
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
        return Catalogue(self.ids, made if sp.issparse(self.X) else made.toarray(), names, self.titles, self.counts)

    def save(self, model: Any) -> Path:
        """Write the items beside a saved model, which is a folder or a file of any name."""
        path = items_file(model)
        ids = self.ids if self.ids.dtype.kind in "iuU" else np.array([str(value) for value in self.ids.tolist()])
        arrays: dict[str, np.ndarray] = {"ids": ids, "names": np.array(self.names, "U")}
        if self.counts is not None:
            arrays["counts"] = self.counts
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
            if "X" in found:
                X = found["X"]
            else:
                parts = found["data"], found["indices"], found["indptr"]
                X = sp.csr_matrix(parts, shape=tuple(found["shape"]))
            titles, counts = found.get("titles"), found.get("counts")
            if counts is not None and (counts.shape != (X.shape[0],) or counts.dtype.kind not in "iu"):
                raise ValueError("counts must be a whole number for each item")
            return Catalogue(found["ids"], X, found["names"].tolist(), titles, counts)
    except (KeyError, ValueError, OSError) as error:
        raise DataError(f"{path} does not hold items: {error}") from None
