"""FourierRankSVM: the RBF Ranking SVM through random Fourier features."""

from hingerank.features.fourier import FourierMap
from hingerank.rankers.mapped import MappedRanker


class FourierRankSVM(MappedRanker):
    """min over w of  ½‖w‖² + C · sum over pairs of  loss(<w, φ(x_i) − φ(x_j)>),  φ(x) = √(2/m) cos(Ωᵀx + b).

    <φ(x), φ(y)> ≈ exp(−γ‖x − y‖²), so this approaches KernelRankSVM as m grows, at the cost of a linear ranker with m
    features. No training row is kept.

    Parameters
    ----------
    n_components : m, number of features. gamma : a number, "scale" (1 / (features · variance of X)), "median" (1 /
        median squared distance) or "auto" (1 / features). C, loss, tol, solver, pair_weight, grade_weight, scale,
        max_iter, max_seconds, callback : as in RankSVM.
    orthogonal : directions orthogonal to each other in groups, each used as a cosine and as a sine: a smaller error at
        equal m; False: all independent with random phases, as in the paper.
    random_state : the seed. memory_gb : most gigabytes for the mapped training rows, default half of the machine's;
        above it they are mapped again for every pass. device : "cpu", or "cuda" to train on an NVIDIA GPU (needs
        PyTorch; memory_gb does not apply there).

    Attributes
    ----------
    coef_ : a weight for each of the m features. frequencies_ : Ω. phases_ : b. gamma_ : the γ used. certificate_,
    trace_, n_iter_, n_pairs_, objective_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 0]  # the best rows lie in the middle
    >>> sorted(FourierRankSVM(n_components=50, gamma=1.0, C=10.0).fit(X, y).rank(X, top=2).tolist())
    [1, 2]
    """

    _fitted = ("frequencies_", "phases_")

    def __init__(
        self, n_components=500, gamma="scale", C=1.0, tol=1e-3, *, orthogonal=True, random_state=0,
        loss="squared_hinge", solver="auto", pair_weight="uniform", grade_weight=None, scale=None, max_iter=None,
        max_seconds=None, memory_gb=None, device="cpu", callback=None,
    ):  # fmt: skip
        self.n_components = n_components
        self.gamma = gamma
        self.C = C
        self.tol = tol
        self.orthogonal = orthogonal
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
        return FourierMap(
            self.n_components, gamma=self.gamma, orthogonal=self.orthogonal, random_state=self.random_state
        )

    def _placed_map(self):
        return self._new_map().place(self.frequencies_, self.phases_)

    def _prepare(self, X, sample_weight):
        super()._prepare(X, sample_weight)
        self.frequencies_, self.phases_ = self._map.frequencies_, self._map.phases_
