"""RankNet: logistic loss of pairs (Burges, Shaked, Renshaw, Lazier, Deeds, Hamilton & Hullender 2005)."""

from hingerank.rankers.baselines.base import LossRanker


class RankNet(LossRanker):
    """min over w of  ½‖w‖² + C · sum over pairs (i preferred to j) of  log(1 + exp(-(s_i - s_j))),  s = Φ w.

    The original has a neural network for s and stops its descent early; here s is linear in the features, or in those
    of any feature map, and the fit goes to the optimum. Every pair is visited: O(rows²) for a query.

    Parameters
    ----------
    C, tol, scale, features, max_iter, max_seconds, init, callback : as in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> RankNet(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "logistic"
