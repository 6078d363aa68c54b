"""Maps of rows: the base class of all feature maps, transformers, and context within queries as further columns.

Rows are mapped in blocks that are small enough to stay in cache, and never stored twice. Blocks run on all cores, with
the same result for any number of cores, in single precision if that is accurate enough. Factors of kernel matrices turn
kernel values into features with the same inner products. Any scikit-learn transformer can be a feature map.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy import sparse
from scipy.linalg import lapack
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import ArrayLike, Floats, Matrix
from hingerank.data.blocks import blocks_from_qid, check_matrix
from hingerank.data.scaling import make_scaler
from hingerank.features.kernels import Kernel
from hingerank.kernels.rows import scores_range
from hingerank.kernels.threads import cut_shards, run_shards, serial_blas

BLOCK_BYTES = 1 << 21
SMALL_BYTES = 1 << 25
SMALLEST = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}  # relative tolerances of kernel values
CONTEXTS = ("rank", "standard")
SPREAD = np.sqrt(12.0)  # 1 / the standard deviation of evenly spaced ranks from 0 to 1


def storage_type(rows: int, columns: int, given: object) -> type:
    """float64 if the input is float64 and the result takes at most 32 MiB, which costs no time; else float32."""
    return np.float64 if given == np.float64 and 8 * rows * columns <= SMALL_BYTES else np.float32


def over_rows(rows: int, width: int, work: Callable[[int, int], object], itemsize: int = 4) -> None:
    """Call work(a, b) for ranges of rows that cover all of them. A range of rows of ``width`` numbers fits in cache."""
    height = max(1, BLOCK_BYTES // (itemsize * max(1, width)))

    def shard(borders: tuple[int, int]) -> None:
        first, last = borders
        for a in range(first, last, height):
            work(a, min(a + height, last))

    with serial_blas():
        run_shards(shard, cut_shards(np.arange(rows + 1), height))


def factorise(W: np.ndarray, smallest: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
    """(rows kept, T) with T Tᵀ = W[kept, kept]⁻¹. Kernel values with the kept rows, times T, are features for W.

    A pivoted Cholesky factorisation W = L Lᵀ gives T = L⁻ᵀ. It leaves out rows whose squared distance from the span of
    the kept ones is below ``smallest`` times the largest diagonal entry, such as repeated rows. The features span the
    same space as the eigenvectors, at a tenth of their cost.

    Examples
    --------
    >>> kept, T = factorise(np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> kept.tolist(), T.tolist()
    ([0, 2], [[0.5, 0.0], [0.0, 1.0]])
    """
    most = float(W.diagonal().max(initial=0.0))
    if most <= 0:
        return np.zeros(1, np.int64), np.zeros((1, 1))
    factor, order, rank, _ = lapack.dpstrf(np.asarray(W, np.float64), tol=smallest * most, lower=1)
    L = np.tril(factor[:rank, :rank])
    T = scipy.linalg.solve_triangular(L, np.eye(rank), lower=True, overwrite_b=True).T
    return order[:rank].astype(np.int64) - 1, np.ascontiguousarray(T)


def leading_factor(W: np.ndarray, rank: int, smallest: float = 1e-12) -> np.ndarray:
    """T = U Σ^{-½} for the ``rank`` largest eigenvalues of W, without those below ``smallest`` times the largest."""
    n = len(W)
    values, vectors = scipy.linalg.eigh(W, subset_by_index=[max(0, n - rank), n - 1])
    keep = values > max(smallest * values.max(initial=0.0), np.finfo(np.float64).tiny)
    if not keep.any():
        return np.zeros((n, 1))
    return np.ascontiguousarray((vectors[:, keep] / np.sqrt(values[keep]))[:, ::-1])


class Factors(dict[type, Matrix]):
    """The factor B of a kernel for some rows, by dtype: computed on first access, and not pickled."""

    def __init__(self, kernel: Kernel, rows: Matrix):
        super().__init__()
        self.kernel, self.rows = kernel, rows

    def __missing__(self, dtype: type) -> Matrix:
        self[dtype] = found = self.kernel.right(self.rows, dtype)
        return found

    def __reduce__(self) -> tuple[type, tuple[Kernel, Matrix]]:
        return Factors, (self.kernel, self.rows)


class FeatureMap(TransformerMixin, BaseEstimator):
    """φ(x) = Mᵀ ψ(x), as a scikit-learn transformer. M is the matrix ``mixing_``, or None if φ = ψ.

    Scores <w, φ(x)> are <M w, ψ(x)>. Training and prediction therefore need only ψ, which ``write`` computes. Only
    ``transform`` computes φ itself.
    """

    mixing_: np.ndarray | None = None
    width_: int  # length of ψ(x)
    kernel_: Kernel  # ψ(x) = the kernel's values between x and the rows of the factor `right_`
    right_: Factors

    @property
    def n_outputs(self) -> int:
        """The length of φ(x)."""
        return self.width_ if self.mixing_ is None else self.mixing_.shape[1]

    def write(self, X: Matrix, out: np.ndarray) -> None:
        """Write ψ of the rows X, a small block, into out."""
        dtype = out.dtype.type
        self.kernel_.between(self.kernel_.left(X, dtype), self.right_[dtype], out)

    def stored_bytes(self, X: Matrix) -> int:
        """The number of bytes of ``rows(X)``."""
        dtype = storage_type(X.shape[0], self.width_, X.dtype)
        return X.shape[0] * self.width_ * np.dtype(dtype).itemsize

    def rows(self, X: Matrix) -> Matrix:
        """ψ of all rows, C-ordered. It is float64 only if X is float64 and the result is small."""
        out = np.empty((X.shape[0], self.width_), storage_type(X.shape[0], self.width_, X.dtype))
        over_rows(len(out), self.width_, lambda a, b: self.write(X[a:b], out[a:b]), out.itemsize)
        return out

    def scores(self, X: Matrix, weights: np.ndarray) -> np.ndarray:
        """<weights, ψ(x)> for every row. ψ is computed one block at a time in X's precision; sums are in float64.

        The weights may be a matrix with one column for each of several rankers.
        """
        weights = np.ascontiguousarray(weights, np.float64)
        out = np.empty((X.shape[0], *weights.shape[1:]))

        def work(a: int, b: int) -> None:
            block = np.empty((b - a, self.width_), X.dtype)
            self.write(X[a:b], block)
            if weights.ndim == 1:
                scores_range((block,), 0, b - a, weights, out[a:b])
            else:
                out[a:b] = block.astype(np.float64, copy=False) @ weights

        over_rows(len(out), self.width_, work, X.dtype.itemsize)
        return out

    def names(self, given: Sequence[str]) -> list[str]:
        """The names of the outputs φ(x), given the names of the features."""
        return [f"map {number}" for number in range(1, self.n_outputs + 1)]

    def unmixed(self, w: np.ndarray) -> np.ndarray:
        """The weights of ψ that correspond to weights w of φ."""
        return w if self.mixing_ is None else self.mixing_ @ w

    def transform(self, X: Matrix) -> np.ndarray:
        """φ of all rows."""
        check_is_fitted(self)
        X = rows_like(X, self.n_features_in_)
        if self.mixing_ is None:
            return self.rows(X)
        out = np.empty((X.shape[0], self.mixing_.shape[1]), storage_type(X.shape[0], self.width_, X.dtype))
        mixing = self.mixing_.astype(out.dtype)

        def work(a: int, b: int) -> None:
            block = np.empty((b - a, self.width_), out.dtype)
            self.write(X[a:b], block)
            np.matmul(block, mixing, out=out[a:b])

        over_rows(len(out), self.width_, work, out.itemsize)
        return out


def rows_like(X: Matrix, n_features: int | None = None) -> Matrix:
    """X as a float matrix, dense or CSR, after checking its number of features."""
    X = check_matrix(X)
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the map was fitted on {n_features}: pass the same features")
    return X.tocsr() if sp.issparse(X) else X


@runtime_checkable
class Transformer(Protocol):
    """Any object that fits and transforms rows, like a scikit-learn transformer."""

    def fit(self, X: Matrix, y: object = None) -> object: ...

    def transform(self, X: Matrix) -> Matrix: ...


class TransformerMap(FeatureMap):
    """φ(x) = transformer.transform(x) in float32, one block of rows at a time. Sparse results stay CSR.

    Examples
    --------
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> TransformerMap(PolynomialFeatures(2)).fit(np.ones((1, 1)) * 3).rows(np.ones((1, 1)) * 3).tolist()
    [[1.0, 3.0, 9.0]]
    """

    def __init__(self, transformer):
        self.transformer = transformer

    def fit(self, X: Matrix, y: object = None, sample_weight: np.ndarray | None = None) -> "TransformerMap":
        """Fit a copy of the transformer on the rows."""
        if not isinstance(self.transformer, Transformer):
            raise ValueError(f"features must be a transformer with fit and transform, not {self.transformer!r}")
        return self.place(clone(self.transformer).fit(X), X[:1])

    def place(self, transformer: Any, row: Matrix) -> "TransformerMap":
        """Set a fitted transformer. Transforming one row shows the width and type of its results."""
        self.transformer_, first = transformer, transformer.transform(row)
        self.n_features_in_, self.width_, self.sparse_ = row.shape[1], first.shape[1], sp.issparse(first)
        return self

    def write(self, X, out):
        block = self.transformer_.transform(X)
        out[...] = block.toarray() if sp.issparse(block) else block

    def names(self, given: Sequence[str]) -> list[str]:
        try:
            return [str(name) for name in self.transformer_.get_feature_names_out(np.asarray(given, object))]
        except (AttributeError, ValueError):  # not every transformer names its outputs
            return super().names(given)

    def stored_bytes(self, X):
        return 0 if self.sparse_ else super().stored_bytes(X)

    def rows(self, X):
        if not self.sparse_:
            return super().rows(X)
        height = max(1, BLOCK_BYTES // (4 * X.shape[1]))
        blocks = [self.transformer_.transform(X[a : a + height]) for a in range(0, X.shape[0], height)]
        rows = sp.csr_matrix(sp.vstack(blocks, format="csr"), dtype=storage_type(X.shape[0], self.width_, X.dtype))
        rows.sum_duplicates()
        return rows


def check_width(mapped: FeatureMap | None, n_features: int, n_weights: int) -> None:
    """Raise a ValueError unless a fitted map (or None) has this number of features and one output per weight."""
    if mapped is not None and mapped.n_features_in_ != n_features:
        raise ValueError(f"features_ maps {mapped.n_features_in_} features, expected {n_features}")
    width = n_features if mapped is None else mapped.n_outputs
    if n_weights != width:
        raise ValueError(f"coef_ has shape ({n_weights},), expected ({width},)")


def beside_context(X: Matrix, qid: ArrayLike | None, context: str) -> Floats:
    """The columns of dense rows, followed by each column's ranks or z-scores within the queries.

    Ranks go from -√3 to √3, so that their standard deviation is about 1; equal values share the mean of their ranks.

    >>> beside_context(np.array([[5.0], [7.0], [5.0]]), [0, 0, 0], "rank").round(2).tolist()
    [[5.0, -0.87], [7.0, 1.73], [5.0, -0.87]]
    """
    if not isinstance(context, str) or context not in CONTEXTS:
        raise ValueError(f"context must be None, {' or '.join(map(repr, CONTEXTS))}, not {context!r}")
    if sparse.issparse(X):
        raise ValueError(f"context={context!r} would fill a sparse matrix: pass dense rows, or context=None")
    if context == "standard":
        return np.hstack((X, make_scaler("query-standard").fit(X).transform(X, qid).astype(X.dtype, copy=False)))
    from scipy.stats import rankdata

    blocks = blocks_from_qid(qid, X.shape[0])
    rows, sizes, ranks = blocks.gather(X), blocks.sizes, np.empty(X.shape, X.dtype)
    start, last = (np.repeat(each, sizes) for each in (blocks.offsets[:-1], np.maximum(sizes - 1, 1)))
    for column in range(X.shape[1]):  # ranks among all rows, ordered by query first
        keys = np.unique(rows[:, column], return_inverse=True)[1] + len(rows) * blocks.numbers
        ranks[:, column] = rankdata(keys) - 1 - start
    ranks = (SPREAD * (ranks / last[:, None] - 0.5) * (np.repeat(sizes, sizes) > 1)[:, None]).astype(X.dtype)
    return np.hstack((X, blocks.scatter(ranks)))
