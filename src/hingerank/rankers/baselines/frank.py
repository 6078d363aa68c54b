"""FRank: fidelity loss of pairs (Tsai, Liu, Qin, Chen & Ma 2007)."""

from hingerank.rankers.baselines.base import LossRanker


class FRank(LossRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  1 - sqrt(1 / (1 + exp(-(s_i - s_j)))),  s = Φ w.

    The loss of a pair is at most 1, however wrong it is. So the problem is not convex: the fit starts at w = 0, and the
    certificate is that of a stationary point. The original adds up weak rankers; here s is linear in the features, or
    in those of any feature map. Every pair is visited: O(rows²) for a query.

    Parameters
    ----------
    C, tol, scale, features, max_iter, max_seconds, init, callback : as in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> FRank(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "fidelity"
