"""Feature scaling: within each query, or by columns as learned from training data.

Every scaler has `fit(X, y=None, qid=None)`, `transform(X, qid=None)`, `per_query` (does transform need qid?), and goes
into a model file through `to_state` and back through `scaler_from_state`. float32 stays float32, CSR stays CSR.
"""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin

from hingerank.data.blocks import blocks_from_qid, check_matrix
from hingerank.data.files import DataError
from hingerank.kernels.scaling import columns_dense, minmax_csr, minmax_dense, standard_csr, standard_dense
from hingerank.kernels.threads import cut_shards, run_shards

ROWS_PER_SHARD = 4096
State = tuple[dict[str, Any], dict[str, np.ndarray]]


class Scaler(TransformerMixin, BaseEstimator):
    """x' = x: the scaler called "none", and what the others share."""

    name: ClassVar[str] = "none"
    per_query: ClassVar[bool] = False

    def fit(self, X: Any, y: Any = None, qid: Any = None) -> Any:
        """Learn from training rows; y is ignored, and so is qid unless the scaler says otherwise."""
        matrix = check_matrix(X, missing="nan")
        self.n_features_in_ = matrix.shape[1]
        self._learn(matrix)
        return self

    def transform(self, X: Any, qid: Any = None) -> Any:
        """The scaled rows, in the order given. NaN stays NaN and does not count."""
        matrix = check_matrix(X, missing="nan")
        if not hasattr(self, "n_features_in_"):
            raise DataError(f"the scaler {self.name!r} is not fitted: call fit first")
        if matrix.shape[1] != self.n_features_in_:
            raise DataError(f"X has {matrix.shape[1]} features, the scaler was fitted on {self.n_features_in_}")
        return self._scale(matrix, qid)

    def fit_transform(self, X: Any, y: Any = None, qid: Any = None) -> Any:
        """fit(X).transform(X, qid)."""
        return self.fit(X, y).transform(X, qid)

    def to_state(self) -> State:
        """(what JSON can hold, arrays): all that `scaler_from_state` needs."""
        arrays = {key: getattr(self, f"{key}_") for key in self._arrays}
        return {"name": self.name, "n_features": self.n_features_in_}, arrays

    _arrays: ClassVar[tuple[str, ...]] = ()

    def _learn(self, X: Any) -> None:
        """Nothing to learn."""

    def _scale(self, X: Any, qid: Any) -> Any:
        return X


class QueryMinMaxScaler(Scaler):
    """x' = (x − min)/(max − min) over the rows of x's own query, 0 where max = min: LETOR's QueryLevelNorm.

    In CSR an absent entry is the number 0 and counts as such. It stays absent as long as no value of the column is
    negative in that query; otherwise it would have to become a positive number, and a DataError asks for a dense X.

    Examples
    --------
    >>> QueryMinMaxScaler().fit_transform([[1.0, 5], [3, 5], [7, 5]], qid=["a", "a", "b"])
    array([[0., 0.],
           [1., 0.],
           [0., 0.]])
    """

    name = "query-minmax"
    per_query = True

    def _scale(self, X: Any, qid: Any) -> Any:
        return _scale_queries(X, qid, minmax_dense, minmax_csr)


class QueryStandardScaler(Scaler):
    """x' = (x − mean)/sd over the rows of x's own query (sd with divisor n), 0 where sd = 0.

    In CSR an absent entry counts as 0 in mean and sd, and nothing is centred: x' = x/sd, so that zeros stay zeros. The
    scores of a linear ranker then differ by one constant per query, which changes no order within the query.
    """

    name = "query-standard"
    per_query = True

    def _scale(self, X: Any, qid: Any) -> Any:
        return _scale_queries(X, qid, standard_dense, standard_csr)


class ColumnScaler(Scaler):
    """x'_j = (x_j − centre_j)/width_j with `centre_` and `width_` learned from training rows by scikit-learn."""

    _arrays = ("centre", "width")

    def _scale(self, X: Any, qid: Any) -> Any:
        if sp.issparse(X):
            if self.centre_.any():
                raise DataError(
                    f"the scaler {self.name!r} was fitted on dense rows and would fill a CSR matrix; use dense"
                )
            data = (X.data / self.width_[X.indices]).astype(X.dtype)
            return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
        out = np.empty_like(X)
        edges = np.arange(0, len(X) + ROWS_PER_SHARD, ROWS_PER_SHARD).clip(max=len(X))
        shards = list(zip(edges[:-1].tolist(), edges[1:].tolist()))
        run_shards(lambda s: columns_dense(X, s[0], s[1], self.centre_, self.width_, out), shards)
        return out


class MinMaxScaler(ColumnScaler):
    """x' = (x − min)/(max − min) of the column over the training rows, scikit-learn's MinMaxScaler; dense only."""

    name = "minmax"

    def _learn(self, X: Any) -> None:
        from sklearn.preprocessing import MinMaxScaler as Learner

        if sp.issparse(X):
            raise DataError("the scaler 'minmax' would fill a CSR matrix: use 'maxabs', 'query-minmax' or a dense X")
        learner = Learner().fit(X)
        self.centre_ = learner.data_min_.astype(np.float64)
        self.width_ = 1 / learner.scale_.astype(np.float64)


class StandardScaler(ColumnScaler):
    """x' = (x − mean)/sd of the column over the training rows, scikit-learn's StandardScaler; CSR is not centred."""

    name = "standard"

    def _learn(self, X: Any) -> None:
        from sklearn.preprocessing import StandardScaler as Learner

        learner = Learner(with_mean=not sp.issparse(X)).fit(X)
        self.centre_ = np.zeros(X.shape[1]) if sp.issparse(X) else learner.mean_.astype(np.float64)
        self.width_ = learner.scale_.astype(np.float64)


class MaxAbsScaler(ColumnScaler):
    """x' = x/max|x| of the column over the training rows, scikit-learn's MaxAbsScaler; zeros stay zeros."""

    name = "maxabs"

    def _learn(self, X: Any) -> None:
        from sklearn.preprocessing import MaxAbsScaler as Learner

        self.width_ = Learner().fit(X).scale_.astype(np.float64)
        self.centre_ = np.zeros(X.shape[1])


SCALERS: dict[str, type[Scaler]] = {
    kind.name: kind
    for kind in (Scaler, QueryMinMaxScaler, QueryStandardScaler, MinMaxScaler, StandardScaler, MaxAbsScaler)
}


def make_scaler(name: str | None) -> Scaler:
    """A new scaler by name: "none", "query-minmax", "query-standard", "minmax", "standard" or "maxabs".

    Examples
    --------
    >>> make_scaler("maxabs").fit([[2.0], [-4.0]]).transform([[1.0]])
    array([[0.25]])
    """
    name = "none" if name is None else name
    if name not in SCALERS:
        raise DataError(f"no scaler is called {name!r}; choose from {', '.join(SCALERS)}")
    return SCALERS[name]()


def scaler_from_state(state: State) -> Scaler:
    """The fitted scaler that gave this state."""
    header, arrays = state
    scaler = make_scaler(header["name"])
    scaler.n_features_in_ = int(header["n_features"])
    if set(arrays) != set(scaler._arrays):
        raise DataError(f"the scaler {scaler.name!r} needs the arrays {scaler._arrays}, found {tuple(arrays)}")
    for key, array in arrays.items():
        if array.shape != (scaler.n_features_in_,) or not np.isfinite(array).all():
            raise DataError(f"{key} of the scaler {scaler.name!r} must hold {scaler.n_features_in_} finite numbers")
        setattr(scaler, f"{key}_", np.asarray(array, np.float64))
    if "width" in arrays and not (scaler.width_ > 0).all():
        raise DataError(f"a width of the scaler {scaler.name!r} is not positive")
    return scaler


def _scale_queries(X: Any, qid: Any, dense: Any, csr: Any) -> Any:
    blocks = blocks_from_qid(qid, X.shape[0])
    rows = np.arange(X.shape[0]) if blocks.order is None else blocks.order
    shards = cut_shards(blocks.offsets, ROWS_PER_SHARD)
    if not sp.issparse(X):
        out = np.empty_like(X)
        run_shards(lambda shard: dense(X, rows, blocks.offsets, *shard, out), shards)
        return out
    data = np.empty_like(X.data)
    where = (X.data, X.indices, X.indptr, X.shape[1], rows, blocks.offsets)
    for query in run_shards(lambda shard: csr(*where, *shard, data), shards):
        if query >= 0:
            raise DataError(
                f"query {blocks.ids[query]} has negative values in a column with absent entries: scaled, those would "
                "not stay 0. Make X dense, or use 'query-standard' or 'maxabs'"
            )
    return sp.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
