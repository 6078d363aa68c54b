"""Appends parts of a data set to the arrays of the binary form."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.array_file import ArrayFile
from hingerank.data.errors import DataError
from hingerank.data.ranking_data import RankingData


class BinaryWriter:
    """Writes X, y, qid and docid of each part; later parts must agree with the first one in form and types."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, ArrayFile] = {}
        self.facts: dict[str, Any] = {}  # what the first part said
        self.n_features = 0
        self.codes: dict[str, int] = {}  # distinct text query ids

    def add(self, part: RankingData) -> None:
        csr = sp.issparse(part.X)
        self._agree("layout", "csr" if csr else "dense")
        self._agree("feature_names", None if part.feature_names is None else list(part.feature_names))
        self.n_features = max(self.n_features, part.n_features) if csr else part.n_features
        if csr:
            self._add_csr(part.X)
        else:
            self._append("X", part.X)
        self._append("y", part.y.astype(np.float64, copy=False))
        self._add_ids("qid", part.qid)
        self._agree("has docid", part.docid is not None)
        if part.docid is not None:
            self._add_ids("docid", part.docid)

    def __enter__(self) -> "BinaryWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files.values():
            file.close()

    def finish(self) -> dict[str, Any]:
        """Complete every file and give the header's entries."""
        if not self.files:
            raise DataError("there is nothing to save: no part came")
        if self.facts["type of qid"] == "text":
            self._append_text("qid", list(self.codes))
        arrays = {name: file.finish() for name, file in self.files.items()}
        return {
            "layout": self.facts["layout"],
            "features": self.n_features,
            "feature_names": self.facts["feature_names"],
            "arrays": arrays,
        }

    def _agree(self, what: str, value: Any) -> None:
        if self.facts.setdefault(what, value) != value:
            raise DataError(f"parts differ in {what}: {self.facts[what]!r} came first, then {value!r}")

    def _append(self, name: str, piece: np.ndarray) -> None:
        if name not in self.files:
            self.files[name] = ArrayFile(self.folder / f"{name}.npy", piece.dtype, piece.shape[1:])
        file = self.files[name]
        if piece.dtype != file.dtype or piece.shape[1:] != file.columns:
            raise DataError(
                f"parts differ in {name}: {file.dtype} with columns {file.columns} came first, "
                f"then {piece.dtype} with columns {piece.shape[1:]}"
            )
        file.append(piece)

    def _add_csr(self, X: Any) -> None:
        if "X_indptr" not in self.files:
            self._append("X_indptr", np.zeros(1, np.int64))
        before = self.files["X_data"].rows if "X_data" in self.files else 0
        self._append("X_data", X.data)
        self._append("X_indices", X.indices.astype(np.int32, copy=False))
        self._append("X_indptr", X.indptr[1:].astype(np.int64) + before)

    def _add_ids(self, name: str, ids: np.ndarray) -> None:
        ids = _plain_ids(ids, name)
        text = ids.dtype.kind in "UO"
        self._agree(f"type of {name}", "text" if text else str(ids.dtype))
        if not text:
            self._append(name, ids)
        elif name == "qid":
            codes = (self.codes.setdefault(i, len(self.codes)) for i in ids.tolist())
            self._append("qid_codes", np.fromiter(codes, np.int64, len(ids)))
        else:
            self._append_text(name, ids.tolist())

    def _append_text(self, name: str, texts: list[str]) -> None:
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        before = self.files[f"{name}_text"].rows if f"{name}_text" in self.files else 0
        self._append(f"{name}_ends", np.cumsum([len(e) for e in encoded], dtype=np.int64) + before)
        self._append(f"{name}_text", np.frombuffer(b"".join(encoded), np.uint8))


def _plain_ids(ids: np.ndarray, name: str) -> np.ndarray:
    """Numbers, fixed bytes or dates as they are, text as U or as objects that are all str."""
    if ids.dtype.kind in "biufSMmU":
        return ids
    objects = ids.astype(object)
    if all(isinstance(i, str) for i in objects):
        return objects
    numbers = np.array(objects.tolist())
    if numbers.dtype.kind in "biuf" and numbers.shape == ids.shape:
        return numbers
    kinds = sorted({type(i).__name__ for i in objects})
    raise DataError(f"{name} mixes {', '.join(kinds)}: make all ids text, or all numbers, to save them")


def text_from_bytes(text: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The inverse of writing text: piece i is text[ends[i−1]:ends[i]]; objects, so that one long id costs little."""
    borders = np.concatenate(([0], ends))
    if (np.diff(borders) < 0).any() or borders[-1] != len(text):
        raise DataError("the borders of the text ids are damaged")
    whole, edges = text.tobytes(), borders.tolist()
    texts = np.empty(len(ends), object)
    texts[:] = [whole[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(edges)]
    return texts
