"""KernelRankSVM: the exact kernel Ranking SVM."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.features.kernels import make_kernel
from hingerank.features.nystroem import NystroemMap
from hingerank.features.width import choose_gamma
from hingerank.problem.gram import GivenGram, Gram
from hingerank.problem.kernel_space import KernelObjective
from hingerank.problem.memory import memory_budget
from hingerank.problem.torch_design import TorchGram, check_device
from hingerank.rankers.pairwise import PairwiseRanker
from hingerank.solvers.dual import dual_coordinate_descent
from hingerank.solvers.kernel import kernel_dual, kernel_newton, kernel_smoothing
from hingerank.solvers.newton import newton
from hingerank.solvers.smoothing import smoothing

IN_KERNEL_SPACE = {newton: kernel_newton, smoothing: kernel_smoothing, dual_coordinate_descent: kernel_dual}


class KernelRankSVM(PairwiseRanker):
    """min over f of  ½‖f‖² + C · sum over pairs of  loss(f(x_i) − f(x_j)),  f(x) = sum over rows of a_i κ(x_i, x).

    In coefficients: ½ aᵀKa + C · loss(Ka). Newton's method with conjugate gradients in the K-inner product: each of
    their steps is one product with K, of which one triangle is kept, n²/2 numbers in float32.

    Parameters
    ----------
    kernel : "rbf" exp(−γ‖x − y‖²), "polynomial" (γ<x, y> + coef0)^degree, "laplacian" exp(−γ‖x − y‖₁), "chi2",
        "cosine", "linear", a function of two arrays that returns their matrix (such a ranker cannot be saved), or
        "precomputed": X is then the matrix itself, in fit between all training rows, in predict between new and
        training rows.
    gamma : a number, "scale" (1 / (features · variance of X)), "median" (1 / median squared distance) or "auto" (1 /
        features). degree, coef0 : of "polynomial".
    C, loss, tol, pair_weight, grade_weight, scale, max_iter, max_seconds, callback : as in RankSVM; gradient norms are
        the kernel's.
    solver : "auto", "newton" (smooth losses), or for the hinge "smoothing", or "dual" (small data; gives
        `multipliers_`).
    memory_gb : most gigabytes for K, default half of the machine's; above it K is computed again for every product.
    device : "cpu", or "cuda" to train on an NVIDIA GPU (needs PyTorch; holds all of K there).

    Attributes
    ----------
    support_ : rows of the training X with a coefficient other than 0. support_rows_ : their features (not with
    "precomputed"). dual_coef_ : their coefficients. gamma_ : the γ used. certificate_, trace_, n_iter_, n_pairs_,
    objective_ : as in RankSVM.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 0]  # the best rows lie in the middle
    >>> sorted(KernelRankSVM(gamma=1.0, C=10.0).fit(X, y).rank(X, top=2).tolist())
    [1, 2]
    """

    _fitted: tuple[str, ...] = ("gamma_", "support_", "support_rows_", "dual_coef_")
    _training_only = ("callback",)
    _solvers = ("newton", "smoothing", "dual")

    def __init__(
        self, kernel="rbf", gamma="scale", C=1.0, tol=1e-3, *, degree=3, coef0=1.0, loss="squared_hinge",
        solver="auto", pair_weight="uniform", grade_weight=None, scale=None, max_iter=None, max_seconds=None,
        memory_gb=None, device="cpu", callback=None,
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.C = C
        self.tol = tol
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.solver = solver
        self.pair_weight = pair_weight
        self.grade_weight = grade_weight
        self.scale = scale
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.memory_gb = memory_gb
        self.device = device
        self.callback = callback

    def _prepare(self, X, sample_weight):
        check_device(self.device)
        self.gamma_: Any = None if self._given else choose_gamma(self.gamma, X, sample_weight)

    def _objective(self, X, loss, preferences, C):
        return KernelObjective(self._gram(X), loss, preferences, C)

    def _gram(self, X: Any) -> Any:
        if self._given:
            return GivenGram(self._square(X))
        kernel, device = make_kernel(self.kernel, self.gamma_, self.degree, self.coef0), check_device(self.device)
        return Gram(kernel, X, memory_budget(self.memory_gb)) if device is None else TorchGram(kernel, X, device)

    def _square(self, X: Any) -> np.ndarray:
        """A precomputed matrix with its columns in the order of its rows, which fit may have put in another one."""
        if self.scale is not None or sp.issparse(X) or self.device != "cpu":
            raise ValueError("kernel='precomputed' takes a dense matrix, scale=None and device='cpu'")
        rows = self._source_rows
        if X.shape[1] != len(X) if rows is None else X.shape[1] <= rows.max():
            raise ValueError(
                f"kernel='precomputed' needs a square matrix in fit, a value for every two rows; X has {X.shape[1]} "
                f"columns and {len(X) if rows is None else rows.max() + 1} rows"
            )
        X = X if rows is None else X[:, rows]
        if not np.allclose(X, X.T, rtol=1e-4, atol=1e-5 * np.abs(X).max(initial=0.0)):
            raise ValueError("kernel='precomputed' needs a symmetric matrix, and X is not: is it a kernel's?")
        return X

    def _choices(self):
        loss, solve, options = super()._choices()
        return loss, IN_KERNEL_SPACE[solve], options

    def _start(self, dimension):
        return None

    def _keep(self, solution):
        f = solution.w
        kept = np.flatnonzero(f.a)
        if not len(kept):  # no preference at all: one row keeps the model's form
            kept = np.zeros(1, np.int64)
        self.dual_coef_ = f.a[kept]
        self.support_ = kept if self._source_rows is None else self._source_rows[kept]
        self._expansion: NystroemMap | None = None
        if not self._given:
            self.support_rows_ = f.gram.X[kept]
            self._expansion = self._placed_map()

    def _placed_map(self):
        found = NystroemMap(kernel=self.kernel, degree=self.degree, coef0=self.coef0)
        found.gamma_ = self.gamma_
        return found.place(self.support_rows_)

    def _scores(self, X):
        if self._expansion is None:
            return np.asarray(X[:, self.support_] @ self.dual_coef_, np.float64).ravel()
        return self._expansion.scores(X, self.dual_coef_)

    def _restore(self, state):
        super()._restore(state)
        self._expansion = None if self._given else self._placed_map()
        known = len(self.support_) if self._given else self.support_rows_.shape[0]
        width = self.n_features_in_ if self._given else self.support_rows_.shape[1]
        if self.dual_coef_.shape != (known,) or len(self.support_) != known or width != self.n_features_in_:
            raise ValueError(
                f"{known} support rows of {width} features do not fit {self.dual_coef_.shape} coefficients"
            )

    @property
    def _given(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._given
        tags.input_tags.sparse = not self._given
        return tags
