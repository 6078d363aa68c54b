"""RankSVM: the linear Ranking SVM, pair-free."""

from typing import Any

from hingerank.features.adapter import as_feature_map
from hingerank.problem import RankObjective, RowsDesign
from hingerank.problem.mapped import mapped_design
from hingerank.problem.memory import memory_budget
from hingerank.rankers.base import LinearRanker
from hingerank.rankers.pairwise import ITERATIONS, SOLVERS, PairwiseRanker

__all__ = ["ITERATIONS", "SOLVERS", "RankSVM"]


class RankSVM(PairwiseRanker, LinearRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  loss(w·x_i - w·x_j).

    Parameters
    ----------
    C : weight of the summed pair losses against the norm (LIBLINEAR's ranksvm uses the same C; for SVMrank see
        `hingerank.export.svmlight.C_from_svmrank`).
    loss : "squared_hinge" max(0, 1-t)², "hinge" max(0, 1-t), or "modified_huber", "logistic", "exponential",
        "fidelity", "squared"; of whole lists "listnet", "listmle", "grade_differences", "all_differences".
    tol : stop when the gradient norm is at most tol times that at w = 0; for the hinge, when the duality gap is at most
        tol times the objective.
    solver : "auto", "newton" (smooth losses), or for the hinge "smoothing" (fastest), "cutting-plane", "dual" (gives
        `multipliers_`).
    pair_weight : "uniform", or "query": every query counts the same however many pairs it has.
    grade_weight : matrix over the distinct grades, ascending: the cost of a pair with these two grades.
    scale : feature scaling learnt in fit and carried in the model ("query-minmax", "standard", ...; None for none).
    max_iter, max_seconds : limits; a fit that hits one warns and says in `certificate_` how far it got.
    features : a feature map φ: any scikit-learn transformer (`Nystroem`, `PolynomialFeatures`, ...), fitted on the
        training rows; the ranker is then linear in φ(x), of which one copy is made, in float32 and by blocks (half of
        the machine's memory at most; beyond that φ is computed again for every pass). Such a ranker cannot be saved:
        NystroemRankSVM and FourierRankSVM can.
    init : weights to start from. callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    coef_ : weights. features_ : the fitted feature map, or None. certificate_ : how near the optimum the weights are.
    trace_ : one entry per iteration. n_iter_ : iterations. n_pairs_ : preference pairs. objective_ : the value reached.
    multipliers_, pairs_ : with solver="dual", a number for each pair (winner row, loser row).

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ranker = RankSVM(C=1.0).fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    def __init__(
        self, C=1.0, loss="squared_hinge", tol=1e-3, *, solver="auto", pair_weight="uniform", grade_weight=None,
        scale=None, features=None, max_iter=None, max_seconds=None, init=None, callback=None,
    ):  # fmt: skip
        self.C = C
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.pair_weight = pair_weight
        self.grade_weight = grade_weight
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.init = init
        self.callback = callback

    def _prepare(self, X, sample_weight):
        self.features_: Any = None
        if self.features is not None:
            self.features_ = as_feature_map(self.features).fit(X, sample_weight=sample_weight)

    def _objective(self, X, loss, preferences, C):
        return RankObjective(self._design(X), loss, preferences, C)

    def _design(self, X):
        if self.features_ is None:
            return RowsDesign(X)
        return mapped_design(self.features_, X, memory_budget(None), by_rows=self.solver == "dual")

    def _keep(self, solution):
        self.coef_ = solution.w

    def _scores(self, X):
        if getattr(self, "features_", None) is None:
            return super()._scores(X)
        return self.features_.scores(X, self.features_.unmixed(self.coef_))
