"""ListNet: cross entropy of the chances to come first (Cao, Qin, Liu, Tsai & Li 2007)."""

from hingerank.rankers.baselines.base import LossRanker


class ListNet(LossRanker):
    """min over w of  ½‖w‖² - C · sum over queries of  sum_i P_y(i) log P_s(i),  s = Φ w,

    where P_s(i) = exp(s_i) / sum_j exp(s_j) is the chance of row i to come first, and P_y the same of the grades.

    Parameters
    ----------
    C : weight of the losses, summed over queries, against the norm. tol, scale, features, max_iter, max_seconds, init,
        callback : as in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ListNet(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "listnet"
