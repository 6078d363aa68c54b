"""NystroemRankSVM: the kernel Ranking SVM in the span of a few landmarks."""

from hingerank.features.nystroem import NystroemMap
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.mapped import MappedRanker
from hingerank.rankers.rank_parameter import RankParameter


class NystroemRankSVM(MappedRanker):
    """min over f of  ½‖f‖² + C · sum over pairs of  loss(f(x_i) − f(x_j)),  f(x) = sum over landmarks of c_j κ(x, l_j).

    The norm is the kernel's. With all rows as landmarks this is KernelRankSVM; with m of them a fit costs what a linear
    ranker with m features costs, and the model holds the landmarks and their weights alone.

    Parameters
    ----------
    n_components : m, number of landmarks (all rows where there are no more). gamma : a number, "scale" (1 / (features ·
        variance of X)), "median" (1 / median squared distance) or "auto" (1 / features). C, loss, tol, solver,
        pair_weight, grade_weight, scale, max_iter, max_seconds, callback : as in RankSVM.
    kernel : "rbf", "polynomial", "laplacian", "chi2", "cosine", "linear", or a function of two arrays that returns
        their matrix (such a ranker cannot be saved). degree, coef0 : of "polynomial".
    rank : most dimensions to keep of the landmarks' span, by eigenvalue; 0 for no limit.
    landmarks : "uniform" rows, "kmeans" centres or "leverage" (rows in proportion to how much they add).
    random_state : the seed. memory_gb : most gigabytes for the mapped training rows, default half of the machine's;
        above it they are mapped again for every pass. device : "cpu", or "cuda" to train on an NVIDIA GPU (needs
        PyTorch; memory_gb does not apply there).

    Attributes
    ----------
    landmarks_ : rows. coef_ : a weight for each: score(x) = sum of coef_j κ(x, landmark_j). gamma_ : the γ used.
    certificate_, trace_, n_iter_, n_pairs_, objective_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 0]  # the best rows lie in the middle
    >>> sorted(NystroemRankSVM(n_components=3, gamma=1.0, C=10.0).fit(X, y).rank(X, top=2).tolist())
    [1, 2]
    """

    _fitted = ("landmarks_",)
    rank = RankParameter()
    _order = BaseRanker.rank

    def __init__(
        self, n_components=500, gamma="scale", C=1.0, tol=1e-3, *, kernel="rbf", degree=3, coef0=1.0, rank=0,
        landmarks="uniform", random_state=0, loss="squared_hinge", solver="auto", pair_weight="uniform",
        grade_weight=None, scale=None, max_iter=None, max_seconds=None, memory_gb=None, device="cpu", callback=None,
    ):  # fmt: skip
        self.n_components = n_components
        self.gamma = gamma
        self.C = C
        self.tol = tol
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.rank = rank
        self.landmarks = landmarks
        self.random_state = random_state
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

    def _new_map(self):
        return NystroemMap(
            self.n_components, kernel=self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0,
            rank=int(self.rank or 0) or None, landmarks=self.landmarks, random_state=self.random_state,
        )  # fmt: skip

    def _placed_map(self):
        found = self._new_map()
        found.gamma_ = self.gamma_
        return found.place(self.landmarks_)

    def _prepare(self, X, sample_weight):
        super()._prepare(X, sample_weight)
        self.landmarks_ = self._map.landmarks_
