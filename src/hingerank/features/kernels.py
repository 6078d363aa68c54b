"""Kernel functions κ(x, y), evaluated on blocks of rows.

Most kernels are one matrix product and one function of its entries. ``left(X)`` and ``right(Y)`` return factors A and
B, and ``finish`` turns A Bᵀ into κ in place, while it is in cache. The same three steps run on a GPU. For 20,000 rows ×
46 features against 2,000 rows this is about ten times as fast as scikit-learn's rbf_kernel, which makes several passes
over memory. Other kernels call scikit-learn. ``choose_gamma`` computes a kernel's width from the data.
"""

import re
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.checks import generator, real
from hingerank.data.describe import column_figures
from hingerank.data.files import DataError

SAMPLED_PAIRS = 20_000  # number of pairs of rows from which gamma="median" is computed
ROWS_AT_A_TIME = 8192  # of a product in double precision
FAR = 1e3  # beyond this γ‖x − centre‖², rounding in float32 could make an exponent noticeably positive


class Kernel:
    """κ(x, y) = <x, y>, and the base class of the other kernels."""

    name = "linear"
    by_product = True  # whether κ is computed from one matrix product

    def __init__(self, gamma: float = 1.0, degree: int = 3, coef0: float = 1.0):
        self.gamma, self.degree, self.coef0 = float(gamma), degree, float(coef0)

    def centred(self, X: Matrix) -> "Kernel":
        """The same kernel, prepared for rows like X."""
        return self

    def left(self, X: Matrix, dtype: type) -> Matrix:
        """The factor A of rows X."""
        return X.astype(dtype, copy=False)

    def right(self, Y: Matrix, dtype: type) -> Matrix:
        """The factor B of rows Y."""
        return self.left(Y, dtype)

    def finish(self, Z: Matrix) -> None:
        """Turn A Bᵀ into κ, in place; Z is a NumPy array or a PyTorch tensor."""

    def between(self, A: Matrix, B: Matrix, out: np.ndarray) -> None:
        """out = κ between the rows of factor A and those of factor B."""
        if sp.issparse(A) or sp.issparse(B):
            product = A @ B.T
            out[...] = product.toarray() if sp.issparse(product) else product
        else:
            np.matmul(A, B.T, out=out)
        self.finish(out)

    def diagonal(self, A: Matrix, B: Matrix) -> np.ndarray:
        """κ(x, x) for each row, from its two factors."""
        products = A.multiply(B).sum(axis=1) if sp.issparse(A) else np.einsum("ij,ij->i", A, B)
        out = np.array(products, np.float64).reshape(-1, 1)
        self.finish(out)
        return out[:, 0]

    def matrix(self, X: Matrix, Y: Matrix) -> np.ndarray:
        """κ between all rows of X and all of Y, in double precision. This is for small matrices and tests."""
        out = np.empty((X.shape[0], Y.shape[0]))
        with np.errstate(over="ignore", invalid="ignore"):
            self.between(self.left(X, np.float64), self.right(Y, np.float64), out)
        if not np.isfinite(out).all():
            raise DataError("the kernel's values are not finite: products of the features overflow; rescale them")
        return out


class RBF(Kernel):
    """κ(x, y) = exp(−γ‖x − y‖²).

    ‖x − y‖² = ‖x‖² + ‖y‖² − 2<x, y> is one product, because two more columns hold the norms. Subtracting a centre first
    keeps the cancellation small, so that single precision loses at most about 1e-7 · γ‖x − centre‖². Sparse rows are
    not centred; they are computed in double precision.
    """

    name = "rbf"
    centre: np.ndarray | None = None

    def centred(self, X):
        other = type(self)(self.gamma)
        other.centre = None if sp.issparse(X) else X.mean(axis=0, dtype=np.float64)
        return other

    def left(self, X, dtype):
        rows, norms = self._rows(X)
        return _append(rows, norms, np.ones_like(norms), dtype)

    def right(self, Y, dtype):
        rows, norms = self._rows(Y)
        return _append(rows, np.ones_like(norms), norms, dtype)

    def _rows(self, X):
        rows = X.astype(np.float64)
        if self.centre is not None:
            rows = (rows.toarray() if sp.issparse(rows) else rows) - self.centre
        rows *= np.sqrt(2 * self.gamma)
        squares = rows.multiply(rows).sum(axis=1) if sp.issparse(rows) else np.einsum("ij,ij->i", rows, rows)
        return rows, -0.5 * np.asarray(squares).ravel()

    def between(self, A, B, out):
        if sp.issparse(A) or sp.issparse(B):
            return super().between(A, B, out)
        np.matmul(A, B.T, out=out)
        if min(A[:, -2].min(initial=0), B[:, -1].min(initial=0)) < -FAR:
            np.minimum(out, 0, out=out)
        np.exp(out, out=out)

    def finish(self, Z):
        if isinstance(Z, np.ndarray):
            np.minimum(Z, 0, out=Z)
            np.exp(Z, out=Z)
        else:
            (Z if Z.element_size() == 8 else Z.clamp_(max=0.0)).exp_()  # rounding is harmless in double precision


class Polynomial(Kernel):
    """κ(x, y) = (γ<x, y> + coef0)^degree."""

    name = "polynomial"

    def left(self, X, dtype):
        return (X * self.gamma).astype(dtype)

    def right(self, Y, dtype):
        return Y.astype(dtype, copy=False)

    def finish(self, Z):
        Z += self.coef0
        Z **= self.degree


class CosineKernel(Kernel):
    """κ(x, y) = <x, y> / (‖x‖ ‖y‖), 0 for rows of zeros."""

    name = "cosine"

    def left(self, X, dtype):
        from sklearn.preprocessing import normalize

        return normalize(X.astype(np.float64)).astype(dtype)


class _Paired(Kernel):
    """Kernels computed from pairs of rows by scikit-learn."""

    by_product = False

    def left(self, X, dtype):
        return X

    def diagonal(self, A, B):
        return np.ones(A.shape[0])


class Laplacian(_Paired):
    """κ(x, y) = exp(−γ‖x − y‖₁)."""

    name = "laplacian"

    def between(self, A, B, out):
        from sklearn.metrics.pairwise import manhattan_distances

        np.multiply(manhattan_distances(A, B), -self.gamma, out=out, casting="same_kind")
        np.exp(out, out=out)


class ChiSquared(_Paired):
    """κ(x, y) = exp(−γ sum_k (x_k − y_k)² / (x_k + y_k)), for non-negative features. Sparse rows become dense."""

    name = "chi2"

    def left(self, X, dtype):
        X = X.toarray() if sp.issparse(X) else X
        if X.size and X.min() < 0:
            raise DataError("the chi2 kernel needs non-negative features, and X has negative values: use 'laplacian'")
        return np.ascontiguousarray(X, np.float64)

    def between(self, A, B, out):
        from sklearn.metrics.pairwise import additive_chi2_kernel

        np.multiply(additive_chi2_kernel(A, B), self.gamma, out=out, casting="same_kind")
        np.exp(out, out=out)


class FunctionKernel(_Paired):
    """κ given as a function that maps two blocks of rows to their kernel matrix."""

    name = "function"

    def __init__(self, function: Callable[[Matrix, Matrix], np.ndarray]):
        super().__init__()
        self.function = function

    def between(self, A, B, out):
        values = np.asarray(self.function(A, B))
        if values.shape != out.shape:
            raise ValueError(
                f"the kernel function returned shape {values.shape} for {A.shape[0]} and {B.shape[0]} rows: "
                f"expected {out.shape}, a value for every two rows"
            )
        if not np.isfinite(values).all():
            raise ValueError("the kernel function returned NaN or infinite values: it must return finite numbers")
        out[...] = values

    def diagonal(self, A, B):
        out = np.empty((1, 1))
        return np.array([(self.between(A[k : k + 1], B[k : k + 1], out), out[0, 0])[1] for k in range(A.shape[0])])


KERNELS: dict[str, type[Kernel]] = {k.name: k for k in (Kernel, RBF, Polynomial, Laplacian, ChiSquared, CosineKernel)}


def make_kernel(kernel: object, gamma: float = 1.0, degree: int = 3, coef0: float = 1.0) -> Kernel:
    """A kernel by name ("linear", "rbf", "polynomial" or "poly", "laplacian", "chi2", "cosine") or from a function.

    Examples
    --------
    >>> make_kernel("rbf", gamma=0.5).matrix(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353]])
    """
    if callable(kernel):
        return FunctionKernel(kernel)
    kernel = "polynomial" if kernel == "poly" else kernel
    if kernel not in KERNELS:
        raise ValueError(f"there is no kernel {kernel!r}; use one of {', '.join(KERNELS)}, or a function of two arrays")
    if not (np.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma must be positive, not {gamma!r}")
    if kernel == "polynomial" and not (real(degree) >= 1 and real(degree) % 1 == 0 and real(coef0) >= 0):
        raise ValueError(
            f"a polynomial kernel needs a whole degree of at least 1 and a coef0 of at least 0, not {degree!r} and "
            f"{coef0!r}"
        )
    return KERNELS[kernel](gamma, degree, coef0)


def _append(rows: Matrix, first: np.ndarray, second: np.ndarray, dtype: type) -> Matrix:
    if sp.issparse(rows):
        return sp.hstack([rows, first[:, None], second[:, None]], format="csr", dtype=np.float64)
    out = np.empty((rows.shape[0], rows.shape[1] + 2), dtype)
    out[:, :-2], out[:, -2], out[:, -1] = rows, first, second
    return out


RULES = ("scale", "median", "auto")
_RULE = re.compile(rf"(?:([0-9.eE+-]+) *\* *)?({'|'.join(RULES)})")


def choose_gamma(gamma: float | str, X: Matrix, weight: np.ndarray | None = None, seed: int = 0) -> float:
    """The parameter γ of a kernel for rows X. A number is used as it is, a rule is evaluated on the data.

    Parameters
    ----------
    gamma : a positive number, a rule, or a rule times a number, such as "0.25*scale"
        "scale": 1 / (sum of the columns' variances). It equals scikit-learn's "scale" if all columns have the same
        mean, and does not change if a constant is added to a column. "median": 1 / median of ‖x − y‖² over 20,000
        sampled pairs of rows; the order of the rows does not matter. "auto": 1 / number of features.
    X : rows, dense or CSR
    weight : a weight per row, used by "scale"
    seed : seed of the sample of pairs for "median"

    Examples
    --------
    >>> choose_gamma("scale", np.array([[0.0, 2.0], [2.0, 0.0]])), choose_gamma("4*auto", np.ones((1, 2)))
    (0.5, 2.0)
    """
    factor, rule = gamma_rule(gamma)
    if rule == "auto":
        return factor / X.shape[1]
    if rule is None:
        return factor
    if rule == "scale":
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            variance = np.square(column_figures(X, weight).spread).sum()
            found = factor * (float(1.0 / variance) if variance > 0 else 1.0)
    else:
        found = factor * _median_heuristic(X, seed)
    if not 0 < found < np.inf:
        raise DataError(f"gamma={gamma!r} evaluates to {found}: squares of the features overflow; rescale them")
    return found


def gamma_rule(gamma: float | str) -> tuple[float, str | None]:
    """The number and the rule (or None) in a parameter gamma.

    >>> gamma_rule("0.25*scale"), gamma_rule("median"), gamma_rule(2)
    ((0.25, 'scale'), (1.0, 'median'), (2.0, None))
    """
    match = _RULE.fullmatch(gamma) if isinstance(gamma, str) else None
    try:
        number = real(float(match[1] or 1.0) if match else gamma)
    except ValueError:
        number = np.nan
    if not number > 0:
        raise ValueError(
            f"gamma must be a positive number, 'scale', 'median' or 'auto', or one of these three times a number, such "
            f"as '0.25*scale', not {gamma!r}"
        )
    return number, match[2] if match else None


def _median_heuristic(X: Matrix, seed: int) -> float:
    rng, n = generator(seed), X.shape[0]
    line = rng.standard_normal(X.shape[1])
    along = np.concatenate([X[a : a + ROWS_AT_A_TIME] @ line for a in range(0, n, ROWS_AT_A_TIME)])
    rows = np.argsort(along)  # so that the pairs depend on the rows and the seed alone, not on the order of the rows
    first, second = rows[rng.integers(0, n, (2, SAMPLED_PAIRS))]
    apart = X[first] - X[second]
    squares = apart.multiply(apart).sum(axis=1) if sp.issparse(X) else np.square(apart, dtype=np.float64).sum(axis=1)
    squares = np.asarray(squares, np.float64).ravel()
    squares = squares[squares > 0]
    return 1.0 / float(np.median(squares)) if len(squares) else 1.0
