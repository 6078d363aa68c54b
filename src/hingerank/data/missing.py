"""How a ranker replaces missing values (NaN). It learns this from training rows and saves it in the model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.blocks import evenly
from hingerank.data.describe import column_quantiles
from hingerank.data.files import DataError
from hingerank.data.scaling import SAMPLED_ROWS
from hingerank.data.sparse import plain_csr

WAYS = ("error", "zero", "median", "indicator")


@dataclass(frozen=True, eq=False)
class MissingValues:
    """Replaces NaN by its column's number in `values`. Each column in `marked` gets another one: 1 for NaN, else 0.

    "zero" replaces NaN by 0. "median" uses the median of the column's known values in at most SAMPLED_ROWS evenly
    spaced training rows, or 0 if none is known. "indicator" does the same and marks the columns that had missing values
    in the training rows.

    Examples
    --------
    >>> found = MissingValues.learn("indicator", np.array([[1.0, 2.0], [np.nan, 3.0], [5.0, 4.0]]))
    >>> found.filled(np.array([[np.nan, np.nan]])).tolist()
    [[1.0, 3.0, 1.0]]
    """

    values: np.ndarray
    marked: np.ndarray

    @classmethod
    def learn(cls, how: str, X: Matrix, weight: np.ndarray | None = None) -> "MissingValues":
        """Learn the replacements from training rows, dense or CSR."""
        if how not in WAYS[1:]:
            hint = "; 'nan' is for reading data, a ranker has to replace NaN" if how == "nan" else ""
            raise ValueError(f"missing must be one of {', '.join(map(repr, WAYS))}, not {how!r}{hint}")
        values = np.zeros(X.shape[1])
        if how != "zero":
            rows = evenly(X.shape[0], SAMPLED_ROWS)
            values = column_quantiles(X[rows], None if weight is None else weight[rows], np.array([0.5]))[:, 0]
        marked = np.empty(0, np.int64)
        if how == "indicator":
            gaps = np.bincount(X.indices[np.isnan(X.data)]) if sp.issparse(X) else np.isnan(X).any(axis=0)
            marked = np.flatnonzero(gaps)
        return cls(values, marked)

    @property
    def width(self) -> int:
        """The number of columns of filled rows."""
        return len(self.values) + len(self.marked)

    def filled(self, X: Matrix) -> Matrix:
        """The rows with missing values replaced. CSR stays CSR."""
        if not sp.issparse(X):
            absent = np.isnan(X)
            if absent.any():
                X = np.where(absent, self.values.astype(X.dtype), X)
            return np.hstack((X, absent[:, self.marked].astype(X.dtype))) if len(self.marked) else X
        absent = np.isnan(X.data)
        data = np.where(absent, self.values.astype(X.dtype)[X.indices], X.data)
        full = sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
        if not len(self.marked):
            return full
        marks = sp.csr_matrix((absent.astype(X.dtype), X.indices, X.indptr), shape=X.shape)[:, self.marked]
        marks.eliminate_zeros()
        return plain_csr(sp.hstack((full, marks), format="csr"))

    def names(self, features: Sequence[str]) -> list[str]:
        """The names of the columns of filled rows."""
        return [*map(str, features), *(f"{features[j]} missing" for j in self.marked)]

    def to_state(self) -> dict[str, np.ndarray]:
        """The arrays from which `from_state` makes an equal object."""
        return {"values": self.values, "marked": self.marked}

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> "MissingValues":
        """The inverse of `to_state`. Arrays that are not valid are a DataError."""
        values, marked = np.asarray(state["values"], np.float64), np.asarray(state["marked"])
        fits = values.ndim == 1 and np.isfinite(values).all() and marked.ndim == 1 and marked.dtype.kind == "i"
        if not fits or (len(marked) and (marked[0] < 0 or marked[-1] >= len(values) or (np.diff(marked) <= 0).any())):
            raise DataError(
                "the replacements of missing values, or the numbers of the marked columns, are not valid: the model is "
                "damaged"
            )
        return cls(np.ascontiguousarray(values), marked.astype(np.int64))
