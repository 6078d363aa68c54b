"""Rankers that aim at a measure of whole rankings: SVM-MAP, LambdaRank, SoftRank and RankCosine."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from hingerank.arrays import ArrayLike
from hingerank.data.checks import real, whole
from hingerank.losses.rankings import AveragePrecision, ExpectedNdcg, LambdaLoss
from hingerank.preferences import GradedPreferences
from hingerank.problem import Design, Point, Problem
from hingerank.rankers.base import UnweightedRanker
from hingerank.rankers.linear import LossRanker, OwnLossRanker
from hingerank.rankers.sources import MAPPED
from hingerank.renaming import renamed
from hingerank.solvers.lbfgs import lbfgs
from hingerank.solvers.newton import reranking
from hingerank.solvers.run import Solution

MOST_ROUNDS = 100  # of LambdaRank, which may have no fixed point
BYTES_OF_SWAPS = 144  # a row of mapped data, of LambdaRank, which keeps the gains and places of all rows


class RankCosine(OwnLossRanker):
    """min over w of  ½‖w‖² + C · sum over queries of  ½ (1 - z·u / sqrt(1 + z·z)),  z = s - mean s,  s = Φ w,

    where u are the grades of the query, centred and divided by their norm: (1 - cosine of scores and grades) / 2 (Qin
    et al. 2008). It differs from the paper in three points. Scores and grades are centred in each query, so a shift of
    scores changes nothing. The 1 under the root gives the loss a value at s = 0. And s is linear in the features, or in
    those of any feature map, where the paper adds up weak rankers. Every query has the same weight and a loss of at
    most 1, so the problem is not convex: the fit starts at w = 0, and the certificate is that of a stationary point.
    O(rows).

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over queries, or None for one that follows the data
    tol : stop when half the squared gradient is at most tol times the objective and its decrease from weights of 0
    scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    certificate_ : how stationary the weights are
    coef_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> RankCosine(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "cosine"


@dataclass(eq=False, repr=False)
class SVMMAP(UnweightedRanker, LossRanker):
    """min over w of  ½‖w‖² + C · sum over queries of  max over rankings π of  1 - AP(π) + w·(Ψ(π) - Ψ(π*)),

    Ψ(π) = mean over relevant rows i and others j of ±(x_i - x_j), + where π has i above j, and π* any ranking with all
    relevant rows first (Yue et al. 2007). The sum is convex and never below that of 1 - AP. The maximum runs over all
    rankings and is exact, in O(n log n) for a query of n rows; the solver is that of 1-slack cutting planes. The
    paper's C is divided by the number of queries. Queries without relevant rows, or without others, are left out.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over queries, or None for one that follows the data
    relevant : the least grade of a relevant row
    tol, scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    n_pairs_ : pairs of a relevant row and another
    coef_, certificate_, trace_, n_iter_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> SVMMAP(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "average_precision"

    C: float | None = 1.0
    relevant: float = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    init: ArrayLike | None = None

    def _loss(self):
        return AveragePrecision(self.relevant)

    def _preferences(self, y, blocks, sample_weight):
        if np.isnan(real(self.relevant)):
            raise ValueError(f"relevant must be a number, the least grade of a relevant row, not {self.relevant!r}")
        two = np.where(y >= self.relevant, self.relevant, self.relevant - 1.0)
        return GradedPreferences(two, blocks.offsets, item_weight=sample_weight)


@dataclass(eq=False, repr=False)
class TopRanker(LossRanker):
    """A ranker whose loss counts the top ranks."""

    C: float | None = 1.0
    top: int | None = None
    tol: float = 1e-3
    _: KW_ONLY
    init: ArrayLike | None = None

    def _top(self) -> int | None:
        return None if self.top is None else whole("top", self.top)


@renamed
class SoftRank(UnweightedRanker, TopRanker):
    """min over w of  ½‖w‖² + C · sum over queries of  1 - sum_i g_i E[D(rank of i)],  scores drawn from N(s_i, 1),

    s = Φ w, g = (2^y - 1) / DCG*, D = 1 / log2(1 + rank): NDCG, made smooth by noise on the scores (Taylor et al.
    2008). Another variance than 1 would be another C. The paper's score is a neural network; here it is linear in the
    features, or in those of any feature map. Not convex: L-BFGS from w = 0, and the certificate is that of a stationary
    point. The distribution of every relevant row's rank costs O(rows · top), so a query costs O(rows · relevant rows ·
    top).

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over queries, or None for one that follows the data
    top : number of top ranks that count, as in NDCG@10; None for all
        With few ranks and many rows the gradient vanishes at w = 0, where all rows tie: give ``init`` then.
    tol : stop when ‖w + C ∇loss‖ is at most tol times ‖w‖ + ‖C ∇loss‖
    scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    certificate_ : how stationary the weights are
    coef_, trace_, n_iter_, n_pairs_, C_, objective_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> SoftRank(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "expected_ndcg"

    def _loss(self):
        return ExpectedNdcg(self._top())

    def _solver(self):
        return "newton"  # for its default max_iter

    def _minimise(self, problem, before=None, solve=None):
        return super()._minimise(problem, before, descend)


@renamed
class LambdaRank(TopRanker):
    """w with  w + C · sum over pairs (i preferred to j) of  W_ij / (1 + exp(s_i - s_j)) · (x_j - x_i) = 0,  s = Φ w,

    W_ij = (2^y_i - 2^y_j) abs(D_i - D_j) / DCG*, D = 1 / log2(1 + rank), the change of NDCG if i and j swapped
    ranks in the ranking by s (Burges, Ragno & Le 2006). These lambdas are not the gradient of a function, since W
    depends on the ranking. Such a w is a fixed point: it minimises the RankNet problem with the weights of its own
    ranking, and is no optimum of NDCG. The certificate is that problem's duality gap. If rows keep swapping there is no
    fixed point, and the fit ends at max_iter, with a warning. The paper's score is a neural network; here it is linear
    in the features, or in those of any feature map. Every pair is visited: O(rows²) for a query.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, here that of the lambdas
        None for one that follows the data.
    top : number of top ranks that count, as in NDCG@10; None for all
    tol : stop when that duality gap is at most tol times the objective and tol times its decrease from weights of 0
    scale, missing, features, max_iter, max_seconds, init, callback : as in RankSVM

    Attributes
    ----------
    certificate_ : how near a fixed point the weights are
    objective_ : the weighted losses and the norm at the last weights W
    coef_, trace_, n_iter_, n_pairs_, C_, features_ : as in RankSVM

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [0.2], [0.9]], [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> LambdaRank(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "logistic"  # that of RankNet, before it is weighted
    _farthest = MAPPED  # the weights follow the ranking of all rows
    _bytes_a_row = BYTES_OF_SWAPS

    def _problem(self, source):
        top, preferences, plain = self._top(), self._graded(source.preferences), super()._problem(source)
        uphill = plain.design.scores(-plain.at(np.zeros(plain.dimension)).gradient)
        return LambdaProblem(plain.design, LambdaLoss(preferences, top), preferences, uphill)

    def _limits(self, max_iter=None):
        return super()._limits(MOST_ROUNDS)

    def _minimise(self, problem, before=None, solve=None):
        def rank(w: np.ndarray) -> None:
            problem.loss.rank(problem.design.scores(w) if w.any() else problem.first_scores)

        return super()._minimise(problem, before, partial(reranking, rank=rank))


class LambdaProblem(Problem):
    """LambdaRank's problem, with the scores that rank the rows before there is a model: one step of RankNet."""

    def __init__(self, design: Design, loss: LambdaLoss, preferences: GradedPreferences, first_scores: np.ndarray):
        super().__init__(design, loss, preferences)
        self.first_scores, self.swaps = first_scores, loss

    def first_C(self) -> float:
        """As every problem's, with the weights of the first ranking."""
        self.swaps.rank(self.first_scores)
        return super().first_C()


def descend(problem: Problem, w: np.ndarray | None, **limits: Any) -> Solution:
    """L-BFGS until  ‖w + C ∇loss‖ ≤ tol · (‖w‖ + ‖C ∇loss‖):  the gradients of norm and loss nearly cancel."""
    here: Point  # the point evaluated last

    def at(w: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal here
        here = problem.at(w)
        return here.value, here.gradient

    def imbalance(gradient: np.ndarray) -> float:
        norms = float(np.linalg.norm(here.w) + np.linalg.norm(gradient - here.w))
        return float(np.linalg.norm(gradient)) / norms if norms > 0 else 0.0

    return lbfgs(at, np.zeros(problem.dimension) if w is None else w, measure=imbalance, **limits)
