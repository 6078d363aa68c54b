"""Kernel Ranking SVMs: exact, in the span of landmarks (Nyström), and through random Fourier features."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import ArrayLike, Matrix
from hingerank.data.checks import whole
from hingerank.data.memory import memory_budget
from hingerank.export.attributes import Array, Attribute, Number
from hingerank.export.forms import body_of_map, kernel_kind, map_kind
from hingerank.features.fourier import FourierMap
from hingerank.features.kernels import choose_gamma, make_kernel
from hingerank.features.maps import FeatureMap
from hingerank.features.nystroem import NystroemMap
from hingerank.losses import Loss, make_loss
from hingerank.problem import Design, Problem
from hingerank.problem.kernel_space import GivenGram, Gram, GramMatrix, KernelProblem
from hingerank.problem.mapped import features_design
from hingerank.problem.torch_design import TorchDesign, TorchGram, check_device
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.linear import PairwiseRanker, solvers_by_loss
from hingerank.rankers.problem_ranker import RowsSource
from hingerank.rankers.rank_parameter import RankParameter
from hingerank.rankers.sources import PARTS
from hingerank.solvers.kernel import kernel_dual, kernel_newton, kernel_smoothing

WITHOUT_GAMMA = ("linear", "cosine", "precomputed")
IN_KERNEL_SPACE = {"newton": kernel_newton, "smoothing": kernel_smoothing, "dual": kernel_dual}


@dataclass(kw_only=True, eq=False, repr=False)
class ScaledByDefault(PairwiseRanker):
    """``scale="auto"``: columns are divided by their standard deviation if γ is computed from the data.

    A γ that is a number, and a kernel that is a function or has no γ, refer to unscaled rows.
    """

    kernel: object = field(default="rbf", init=False)  # in rankers without that parameter
    gamma_: Any = field(init=False)
    loss: str | Loss = "squared_hinge"
    solver: str = "auto"
    pair_weight: str = "uniform"
    grade_weight: ArrayLike | None = None
    scale: str | None = "auto"
    memory_gb: float | None = None
    device: str = "cpu"

    def _scaling(self):
        as_it_is = callable(self.kernel) or self.kernel in WITHOUT_GAMMA or isinstance(self.gamma, Real)
        return None if self.scale == "auto" and as_it_is else self.scale


@dataclass(eq=False, repr=False)
class KernelRankSVM(ScaledByDefault):
    """min over f of  ½‖f‖² + C · sum over pairs of  loss(f(x_i) − f(x_j)),  f(x) = sum over rows of a_i κ(x_i, x).

    In coefficients: ½ aᵀKa + C · loss(Ka). Newton's method with conjugate gradients in the K-inner product: each of
    their steps is one product with K, of which one triangle is kept, n²/2 numbers in float32.

    Parameters
    ----------
    kernel : a name, a function of two arrays that returns their matrix, or "precomputed"
        "rbf" exp(−γ‖x − y‖²), "polynomial" (γ<x, y> + coef0)^degree, "laplacian" exp(−γ‖x − y‖₁), "chi2", "cosine",
        "linear". A ranker with a function cannot be saved. "precomputed": X is the matrix itself, in fit between all
        training rows, in predict between new and training rows.
    gamma : a number, "scale" (1 / sum of the columns' variances), "median" (1 / median squared distance) or "auto"
        The last is 1 / features. A rule may be multiplied: "0.25*scale".
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    scale : feature scaling, learnt in fit and stored with the model
        "auto" divides columns by their standard deviation, so that none dominates the distances. If gamma is a number,
        "auto" does not scale, because the number refers to the unscaled rows. None: no scaling.
    degree : degree of "polynomial"
    coef0 : constant of "polynomial"
    solver : "auto", "newton" (smooth losses), or for the hinge "smoothing", or "dual" (small data; ``multipliers_``)
    memory_gb : maximum number of gigabytes for K, default half of the machine's
        Above it K is computed again for every product.
    device : "cpu", or "cuda" to train on an NVIDIA GPU (needs PyTorch; holds all of K there)
    loss, tol, pair_weight, grade_weight, missing, max_iter, max_seconds, callback : as in RankSVM

    Attributes
    ----------
    support_ : rows of the training X with a coefficient other than 0
    support_rows_ : their features (not with "precomputed")
    dual_coef_ : their coefficients
    gamma_ : the γ used
    certificate_, trace_, n_iter_, n_pairs_, C_, objective_ : as in RankSVM

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 0]  # the best rows lie in the middle
    >>> sorted(KernelRankSVM(gamma=1.0, C=10.0).fit(X, y, qid=0).rank(X, top=2).tolist())
    [1, 2]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "gamma_": Number(above=0, none=True),
        "support_": Array("support", "i", low=0, least=1),
        "support_rows_": Array("support, columns", csr=True, needed=False),  # a precomputed kernel has none
        "dual_coef_": Array("support"),
    }
    _solvers = solvers_by_loss("newton", "smoothing", "dual")

    kernel: object = "rbf"
    gamma: float | str = "scale"
    C: float | None = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    degree: int = 3
    coef0: float = 1.0

    def _problem(self, source):
        X, device = source.X, check_device(self.device)
        self._solver()  # checks the loss
        gram: GramMatrix
        if self._given:
            self.gamma_, gram = None, GivenGram(self._square(source))
        else:
            self.gamma_ = choose_gamma(self.gamma, X, source.weight)
            kernel = make_kernel(self.kernel, self.gamma_, self.degree, self.coef0)
            gram = Gram(kernel, X, memory_budget(self.memory_gb)) if device is None else TorchGram(kernel, X, device)
        return KernelProblem(gram, make_loss(self.loss), source.preferences)

    @property
    def _sees_spreads(self):  # type: ignore[override]
        return not self._given

    def _square(self, source: RowsSource) -> np.ndarray:
        """A precomputed matrix with its columns in the order of its rows, which fit may have put in another one."""
        X, blocks = source.X, source.blocks
        if self.scale not in (None, "auto") or self.missing != "error" or sp.issparse(X) or self.device != "cpu":
            raise ValueError("kernel='precomputed' takes a dense matrix, no scale, no missing and device='cpu'")
        rows = None if blocks is None else blocks.given
        height = len(X)
        if rows is not None and source.weight is not None:  # rows of weight 0 are gone, perhaps the last ones
            height = max(rows.max() + 1, X.shape[1])
        if X.shape[1] != height:
            raise ValueError(
                f"kernel='precomputed' needs a square matrix in fit, one value per pair of rows; X has {X.shape[1]} "
                f"columns and {height} rows (for folds use scikit-learn's GridSearchCV, which splits columns as well)"
            )
        X = X if rows is None else X[:, rows]
        if not np.allclose(X, X.T, rtol=1e-4, atol=1e-5 * np.abs(X).max(initial=0.0)):
            raise ValueError("kernel='precomputed' needs a symmetric matrix of kernel values, which X is not")
        return X

    def _minimise(self, problem, before=None, solve=None):
        return super()._minimise(problem, before, IN_KERNEL_SPACE[self._solver()])

    def _take(self, solution, source):
        f = solution.w
        a = f.coefficients
        kept = np.flatnonzero(a)
        if not len(kept):  # no preference at all: one row keeps the model's form
            kept = np.zeros(1, np.int64)
        self.dual_coef_ = a[kept]
        self.support_ = source.given(kept)
        if not self._given:
            self.support_rows_ = f.gram.X[kept]
        super()._take(solution, source)

    @cached_property
    def _expansion(self) -> NystroemMap | None:
        if self._given:
            return None
        kernel = NystroemMap(kernel=self.kernel, degree=self.degree, coef0=self.coef0)
        return kernel.place(self.gamma_, self.support_rows_)

    def _scores(self, X):
        if self._expansion is None:
            return np.asarray(X[:, self.support_] @ self.dual_coef_, np.float64).ravel()
        return self._expansion.scores(X, self.dual_coef_)

    def _body(self):
        return body_of_map(self._expansion, self.dual_coef_)

    @property
    def _form_kind(self):  # type: ignore[override]
        return kernel_kind(self.kernel)

    def _check_together(self, sizes):
        super()._check_together(sizes)
        if not self._given and ("support_rows_" not in vars(self) or self.gamma_ is None):
            raise ValueError("support_rows_ or gamma_ is missing, which this kernel needs")
        if self._given and self.support_.max() >= sizes["features"]:
            raise ValueError(f"support_ holds {self.support_.max()}, which is not below {sizes['features']}")

    @property
    def _given(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._given
        tags.input_tags.sparse = not self._given
        return tags


class MappedRanker(ScaledByDefault):
    """min over w of  ½‖w‖² + C · sum over pairs of  loss(<w, φ(x_i) − φ(x_j)>)  for a feature map φ.

    A ranker defines ``_new_map()``, an unfitted FeatureMap, and ``_of_map``, the attributes of a fitted one that it
    keeps, and of which ``FeatureMap.place`` makes the map again.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"gamma_": Number(above=0), "coef_": Array("components", least=1)}
    _farthest = PARTS
    _sees_spreads = True
    _of_map: tuple[str, ...]

    def _new_map(self) -> FeatureMap:
        raise NotImplementedError

    def _problem(self, source):
        device, by_rows = check_device(self.device), self._solver() == "dual"
        rows, weight = source.sample()
        source.learnt = found = self._new_map().fit(rows, sample_weight=weight)
        for name in ("gamma_", *self._of_map):
            setattr(self, name, getattr(found, name))
        make: Callable[[Matrix], Design]
        if device is not None and not by_rows:
            make = partial(TorchDesign.of_map, found, device=device)
        else:
            make = partial(features_design, feature_map=found, memory_gb=self.memory_gb, by_rows=by_rows)
        design, preferences = source.pose(make)
        return Problem(design, make_loss(self.loss), preferences)

    def _take(self, solution, source):
        self.coef_ = source.learnt.unmixed(solution.w)
        super()._take(solution, source)

    @cached_property
    def _map(self) -> FeatureMap:
        """The feature map without what only training needs of it."""
        unfitted: Any = self._new_map()
        return unfitted.place(self.gamma_, *(getattr(self, name) for name in self._of_map))

    def shares_map(self, other: object) -> bool:
        """Whether another ranker of the same class, as of one path, has the very same feature map."""
        return all(vars(self)[name] is vars(other)[name] for name in self._of_map)

    def _scores(self, X):
        return self._map.scores(X, self.coef_)

    def _body(self):
        return body_of_map(self._map, self.coef_)

    @property
    def _form_kind(self):  # type: ignore[override]
        return map_kind(self._new_map())


@dataclass(eq=False, repr=False)
class NystroemRankSVM(MappedRanker):
    """min over f of  ½‖f‖² + C · sum over pairs of  loss(f(x_i) − f(x_j)),  f(x) = sum over landmarks of c_j κ(x, l_j).

    The norm is the kernel's. With all rows as landmarks this is KernelRankSVM; with m of them a fit costs what a linear
    ranker with m features costs, and the model holds the landmarks and their weights alone.

    Parameters
    ----------
    n_components : m, number of landmarks (all rows if there are fewer)
    gamma, scale, degree, coef0 : as in KernelRankSVM
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    kernel : "rbf", "polynomial", "laplacian", "chi2", "cosine", "linear", or a function of two arrays
        The function returns their matrix; such a ranker cannot be saved.
    rank : most dimensions to keep of the landmarks' span, by eigenvalue; 0 for no limit
    landmarks : "uniform" rows, "kmeans" centres or "leverage" (rows in proportion to how much they add)
    random_state : the seed
    memory_gb : maximum number of gigabytes for the mapped training rows, default half of the machine's
        Above it they are mapped again for every pass.
    device : "cpu", or "cuda" to train on an NVIDIA GPU (needs PyTorch; memory_gb does not apply there)
    loss, tol, pair_weight, grade_weight, missing, max_iter, max_seconds, callback, solver : as in RankSVM

    Attributes
    ----------
    landmarks_ : the landmarks, one per row
    coef_ : a weight for each landmark: score(x) = sum of coef_j κ(x, landmark_j)
    gamma_ : the γ used
    certificate_, trace_, n_iter_, n_pairs_, C_, objective_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0]  # the best rows lie in the middle
    >>> sorted(NystroemRankSVM(n_components=3, gamma=1.0, C=10.0).fit(X, y, qid=0).rank(X, top=2).tolist())
    [1, 2]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"landmarks_": Array("components, columns", csr=True)}
    _of_map = ("landmarks_",)
    _order = BaseRanker.rank

    n_components: int = 500
    gamma: float | str = "scale"
    C: float | None = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    kernel: object = "rbf"
    degree: int = 3
    coef0: float = 1.0
    rank: int = RankParameter(0)  # type: ignore[assignment]
    landmarks: str = "uniform"
    random_state: int | None = 0

    def _new_map(self):
        return NystroemMap(
            self.n_components, kernel=self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0,
            rank=whole("rank", self.rank or 0, least=0) or None, landmarks=self.landmarks,
            random_state=self.random_state,
        )  # fmt: skip


@dataclass(eq=False, repr=False)
class FourierRankSVM(MappedRanker):
    """min over w of  ½‖w‖² + C · sum over pairs of  loss(<w, φ(x_i) − φ(x_j)>),  φ(x) = √(2/m) cos(Ωᵀx + b).

    <φ(x), φ(y)> ≈ exp(−γ‖x − y‖²), so this approaches KernelRankSVM as m grows, at the cost of a linear ranker with m
    features. No training row is kept.

    Parameters
    ----------
    n_components : m, number of features
    gamma, scale : as in KernelRankSVM
    C : weight of the loss; multiplies its sum over pairs, or None for one that follows the data
    orthogonal : directions orthogonal to each other in groups, each used as a cosine and as a sine
        A smaller error at equal m; False: all independent with random phases, as in the paper.
    random_state : the seed
    memory_gb, device : as in NystroemRankSVM
    loss, tol, pair_weight, grade_weight, missing, max_iter, max_seconds, callback, solver : as in RankSVM

    Attributes
    ----------
    coef_ : a weight for each of the m features
    frequencies_ : Ω
    phases_ : b
    gamma_ : the γ used
    certificate_, trace_, n_iter_, n_pairs_, C_, objective_ : as in RankSVM

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0]  # the best rows lie in the middle
    >>> sorted(FourierRankSVM(n_components=50, gamma=1.0, C=10.0).fit(X, y, qid=0).rank(X, top=2).tolist())
    [1, 2]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "frequencies_": Array("columns, components"),
        "phases_": Array("components"),
    }
    _of_map = ("frequencies_", "phases_")

    n_components: int = 500
    gamma: float | str = "scale"
    C: float | None = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    orthogonal: bool = True
    random_state: int | None = 0

    def _new_map(self):
        return FourierMap(
            self.n_components, gamma=self.gamma, orthogonal=self.orthogonal, random_state=self.random_state
        )
