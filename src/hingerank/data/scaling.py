"""Feature scaling: within each query, or by columns with statistics of the training data.

Every scaler has `fit(X, y=None, qid=None)`, `transform(X, qid=None)` and `per_query`, which says whether transform
needs qid. `to_state` gives what a model file stores, and `scaler_from_state` restores the scaler from it. float32 stays
float32, CSR stays CSR.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin

from hingerank.arrays import ArrayLike, Facts, Matrix
from hingerank.data.blocks import blocks_from_qid, check_matrix, evenly
from hingerank.data.describe import Figures, column_figures
from hingerank.data.files import DataError
from hingerank.kernels.scaling import (
    minmax_csr,
    minmax_dense,
    quantile_dense,
    standard_csr,
    standard_dense,
)
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.registry import did_you_mean

ROWS_PER_SHARD = 4096
SAMPLED_ROWS, QUANTILES = 1 << 14, 65
State = tuple[Facts, dict[str, np.ndarray]]


class Scaler(TransformerMixin, BaseEstimator):
    """x' = x: the scaler "none", and the base class of the others."""

    name: ClassVar[str] = "none"
    per_query: ClassVar[bool] = False
    learns_from: ClassVar[str] = "nothing"  # or "columns" (their `Figures`) or "rows" (at most SAMPLED_ROWS of them)

    @property
    def factor(self) -> np.ndarray | None:
        """Factors that can replace this scaler in linear scores: Σ_j w_j x'_j = Σ_j (factor_j w_j) x_j + constant.

        None if x' is not the same linear function of x for all rows.
        """
        return None

    def fit(
        self, X: Matrix, y: object = None, qid: ArrayLike | None = None, sample_weight: np.ndarray | None = None
    ) -> Self:
        """Learn from training rows. y and qid are ignored. Weights are used by scalers that compute means."""
        matrix = check_matrix(X, missing="nan")
        self.n_features_in_ = matrix.shape[1]
        self._learn(column_figures(matrix, sample_weight) if self.learns_from == "columns" else None, matrix)
        return self

    def transform(self, X: Matrix, qid: ArrayLike | None = None) -> Matrix:
        """The scaled rows, in the order given. NaN stays NaN and does not count."""
        matrix = check_matrix(X, missing="nan")
        if not hasattr(self, "n_features_in_"):
            raise DataError(f"the scaler {self.name!r} is not fitted: call fit first")
        if matrix.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {matrix.shape[1]} features, but the scaler was fitted on {self.n_features_in_}: pass the same "
                "features"
            )
        return self.scale_rows(matrix, qid)

    def fit_figures(self, figures: Figures | None, sample: Matrix) -> Self:
        """Learn from statistics of the columns and a sample of rows, for data larger than memory.

        The result is that of `fit`, except for rounding and, if the scaler needs rows, for the choice of the sample.
        """
        self.n_features_in_ = sample.shape[1]
        self._learn(figures, sample)
        return self

    def fit_transform(self, X: Matrix, y: object = None, qid: ArrayLike | None = None) -> Matrix:
        """fit(X).transform(X, qid)."""
        return self.fit(X, y).transform(X, qid)

    def to_state(self) -> State:
        """All that `scaler_from_state` needs: (values for JSON, arrays)."""
        arrays = {key: getattr(self, f"{key}_") for key in self._arrays}
        return {"name": self.name, "n_features": self.n_features_in_}, arrays

    _arrays: ClassVar[tuple[str, ...]] = ()

    def _learn(self, figures: Any, rows: Matrix) -> None:
        """Learn from statistics of the columns, or from all rows or a sample; this class has nothing to learn."""

    def scale_rows(self, X: Matrix, qid: ArrayLike | None) -> Matrix:
        """`transform` for rows that were checked before."""
        return X


class QueryMinMaxScaler(Scaler):
    """x' = (x − min)/(max − min) over the rows of x's own query, 0 if max = min: LETOR's QueryLevelNorm.

    In CSR an absent entry counts as 0. It stays 0 if no value of the column is negative in that query. Otherwise it
    would become a positive number, which is a DataError: use a dense X.

    Examples
    --------
    >>> QueryMinMaxScaler().fit_transform([[1.0, 5], [3, 5], [7, 5]], qid=["a", "a", "b"])
    array([[0., 0.],
           [1., 0.],
           [0., 0.]])
    """

    name = "query-minmax"
    per_query = True

    def scale_rows(self, X: Matrix, qid: ArrayLike | None) -> Matrix:
        return _scale_queries(X, qid, minmax_dense, minmax_csr)


class QueryStandardScaler(Scaler):
    """x' = (x − mean)/sd over the rows of x's own query (sd with divisor n), 0 if sd = 0.

    In CSR an absent entry counts as 0 in mean and sd. CSR is not centred: x' = x/sd, so that zeros stay zeros. The
    scores of a linear ranker then differ by one constant per query, which does not change the order within the query.
    """

    name = "query-standard"
    per_query = True

    def scale_rows(self, X: Matrix, qid: ArrayLike | None) -> Matrix:
        return _scale_queries(X, qid, standard_dense, standard_csr)


class ColumnScaler(Scaler):
    """x'_j = (x_j − centre_j)/width_j with `centre_` and `width_` learned from training rows."""

    learns_from = "columns"
    _arrays: ClassVar[tuple[str, ...]] = ("centre", "width")

    @property
    def factor(self) -> np.ndarray:
        return 1 / self.width_

    def scale_rows(self, X: Matrix, qid: ArrayLike | None) -> Matrix:
        if sp.issparse(X):
            if self.centre_.any():
                raise DataError(
                    f"the scaler {self.name!r} was fitted on dense rows and would fill a CSR matrix: pass dense rows"
                )
            data = (X.data / self.width_[X.indices]).astype(X.dtype)
            return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
        return _by_shards(X, lambda x, out: np.divide(x - self.centre_, self.width_, out=out, casting="same_kind"))


class MinMaxScaler(ColumnScaler):
    """x' = (x − min)/(max − min) of the column over the training rows, scikit-learn's MinMaxScaler; dense only."""

    name = "minmax"

    def _learn(self, figures: Figures, rows: Matrix) -> None:
        if sp.issparse(rows):
            raise DataError("the scaler 'minmax' would fill a CSR matrix: use 'maxabs', 'query-minmax' or a dense X")
        low, high = (np.nan_to_num(ends.astype(np.float64)) for ends in (figures.low, figures.high))
        self.centre_, self.width_ = low, np.where(high > low, high - low, 1.0)


class StandardScaler(ColumnScaler):
    """x' = (x − mean)/sd of the column over the training rows, scikit-learn's StandardScaler; CSR is not centred."""

    name = "standard"

    def _learn(self, figures: Figures, rows: Matrix) -> None:
        self.width_ = np.where(figures.spread > 0, figures.spread, 1.0)
        self.centre_ = np.zeros(len(self.width_)) if sp.issparse(rows) else figures.mean


class MaxAbsScaler(ColumnScaler):
    """x' = x/max|x| of the column over the training rows, scikit-learn's MaxAbsScaler; zeros stay zeros."""

    name = "maxabs"

    def _learn(self, figures: Figures, rows: Matrix) -> None:
        largest = np.maximum(np.abs(figures.low), np.abs(figures.high)).astype(np.float64)
        self.width_, self.centre_ = np.where(largest > 0, largest, 1.0), np.zeros(len(largest))


class DeviationScaler(ColumnScaler):
    """x' = x/sd of the column over the training rows. It is not centred, so zeros stay zeros, and CSR equals dense.

    Distances, and kernels computed from them, are the same as with "standard". ``scale="auto"`` means this scaler.

    Examples
    --------
    >>> DeviationScaler().fit_transform([[1.0], [3.0]]).tolist()
    [[1.0], [3.0]]
    """

    name = "deviation"

    def _learn(self, figures: Figures, rows: Matrix) -> None:
        self.width_, self.centre_ = _widths(figures.spread), np.zeros(rows.shape[1])


class LogScaler(Scaler):
    """x' = sign(x) · log(1 + |x|)/width, for counts and other columns with long tails.

    The width is the sd of the logarithms in at most SAMPLED_ROWS evenly spaced rows. Zeros stay zeros.

    Examples
    --------
    >>> LogScaler().fit_transform([[0.0], [9.0], [99.0], [999.0]]).ravel().round(2).tolist()
    [0.0, 0.89, 1.79, 2.68]
    """

    name = "log"
    learns_from = "rows"
    _arrays = ("width",)

    def _learn(self, figures: None, rows: Matrix) -> None:
        sample = rows[evenly(rows.shape[0], SAMPLED_ROWS)]
        if sp.issparse(sample):
            logs: Matrix = sp.csr_matrix((signed_log(sample.data), sample.indices, sample.indptr), shape=sample.shape)
        else:
            logs = signed_log(sample)
        self.width_ = _widths(column_figures(logs).spread)

    def scale_rows(self, X: Matrix, qid: ArrayLike | None) -> Matrix:
        if sp.issparse(X):
            data = (signed_log(X.data) / self.width_[X.indices]).astype(X.dtype)
            return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
        return _by_shards(X, lambda x, out: np.divide(signed_log(x), self.width_, out=out, casting="same_kind"))


class QuantileScaler(Scaler):
    """x' = the fraction of training rows below x, from 0 to 1. Only the order of a column's values matters. Dense only.

    It is linear between QUANTILES quantiles of at most SAMPLED_ROWS evenly spaced rows. A value that many rows share
    gets the middle of their fractions.

    Examples
    --------
    >>> QuantileScaler().fit_transform([[1.0], [10.0], [100.0]]).tolist()
    [[0.0], [0.5], [1.0]]
    """

    name = "quantile"
    learns_from = "rows"
    _arrays = ("quantiles",)

    def _learn(self, figures: None, rows: Matrix) -> None:
        if sp.issparse(rows):
            raise DataError("the scaler 'quantile' would fill a CSR matrix: use 'log', 'maxabs' or a dense X")
        sample = rows[evenly(len(rows), SAMPLED_ROWS)].astype(np.float64)
        places = np.linspace(0, 1, min(QUANTILES, max(2, len(sample))))
        columns = np.sort(np.ascontiguousarray(sample.T))  # NaN comes last
        known = len(sample) - np.isnan(columns).sum(axis=1)
        at = places * (np.maximum(known, 1) - 1)[:, None]
        low, high = (np.take_along_axis(columns, f(at).astype(np.int64), axis=1) for f in (np.floor, np.ceil))
        self.quantiles_ = np.nan_to_num(low + (high - low) * (at - np.floor(at)))

    def scale_rows(self, X: Matrix, qid: ArrayLike | None) -> Matrix:
        if sp.issparse(X):
            X = X.toarray()
        return _by_shards(X, lambda x, out: quantile_dense(x, self.quantiles_, out))


SCALERS: dict[str, type[Scaler]] = {
    kind.name: kind
    for kind in (
        Scaler, QueryMinMaxScaler, QueryStandardScaler, MinMaxScaler, StandardScaler, MaxAbsScaler, DeviationScaler,
        LogScaler, QuantileScaler,
    )
}  # fmt: skip


def make_scaler(name: str | None) -> Scaler:
    """A new scaler by name.

    The names are "none", "query-minmax", "query-standard", "minmax", "standard", "maxabs", "deviation", "log" and
    "quantile". "auto" is "deviation", which works with every ranker and with CSR.

    Examples
    --------
    >>> make_scaler("maxabs").fit([[2.0], [-4.0]]).transform([[1.0]])
    array([[0.25]])
    """
    name = {None: "none", "auto": "deviation"}.get(name, name)
    if name not in SCALERS:
        raise DataError(
            f"there is no scaler {name!r}; choose from {', '.join(SCALERS)}{did_you_mean(str(name), SCALERS)}"
        )
    return SCALERS[name]()


def scaler_from_state(state: State) -> Scaler:
    """The fitted scaler with this state."""
    header, arrays = state
    scaler = make_scaler(header["name"])
    scaler.n_features_in_ = int(header["n_features"])
    if set(arrays) != set(scaler._arrays):
        raise DataError(f"the scaler {scaler.name!r} needs the arrays {scaler._arrays}, found {tuple(arrays)}")
    for key, array in arrays.items():
        shape = (scaler.n_features_in_, *array.shape[1:2]) if key == "quantiles" else (scaler.n_features_in_,)
        if array.shape != shape or not np.isfinite(array).all():
            raise DataError(f"{key} of the scaler {scaler.name!r} must hold {scaler.n_features_in_} finite numbers")
        setattr(scaler, f"{key}_", np.ascontiguousarray(array, np.float64))
    if "width" in arrays and not (scaler.width_ > 0).all():
        raise DataError(f"the widths of the scaler {scaler.name!r} must be positive: the model is damaged")
    if "quantiles" in arrays and (scaler.quantiles_.shape[1] < 2 or (np.diff(scaler.quantiles_) < 0).any()):
        raise DataError(f"the quantiles of the scaler {scaler.name!r} must not fall: the model is damaged")
    return scaler


def _widths(spread: np.ndarray) -> np.ndarray:
    """The sds, or 1 where one is 0. They have seven digits, so that weight 2 and a repeated row are the same."""
    return np.array([float(f"{value:.7g}") for value in np.where(spread > 0, spread, 1.0)])


def signed_log(x: np.ndarray) -> np.ndarray:
    """sign(x) · log(1 + |x|)."""
    return np.copysign(np.log1p(np.abs(x, dtype=np.float64)), x)


def _by_shards(X: np.ndarray, work: Callable[[np.ndarray, np.ndarray], object]) -> np.ndarray:
    """Call work(rows, out) for blocks of rows that make up a dense X. Returns out."""
    out = np.empty_like(X)

    def some(first: int) -> None:
        with np.errstate(over="ignore"):  # results beyond single precision are infinite
            work(X[first : first + ROWS_PER_SHARD], out[first : first + ROWS_PER_SHARD])

    run_shards(some, range(0, len(X), ROWS_PER_SHARD))
    return out


def _scale_queries(X: Matrix, qid: ArrayLike | None, dense: Callable[..., None], csr: Callable[..., int]) -> Matrix:
    blocks = blocks_from_qid(qid, X.shape[0])
    rows, shards = blocks.rows, cut_shards(blocks.offsets, ROWS_PER_SHARD)
    if not sp.issparse(X):
        out = np.empty_like(X)
        run_shards(lambda shard: dense(X, rows, blocks.offsets, *shard, out), shards)
        return out
    data = np.empty_like(X.data)
    where = (X.data, X.indices, X.indptr, X.shape[1], rows, blocks.offsets)
    for query in run_shards(lambda shard: csr(*where, *shard, data), shards):
        if query >= 0:
            raise DataError(
                f"query {blocks.ids[query]} has negative values in a column with absent entries, and scaling would not "
                "keep these at 0: make X dense, or use 'query-standard' or 'maxabs'"
            )
    return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
