"""ListMLE: the likelihood of the graded order (Xia, Liu, Wang, Zhang & Li 2008)."""

from hingerank.rankers.baselines.base import LossRanker


class ListMLE(LossRanker):
    """min over w of  ½‖w‖² - C · sum over rows i of  log( exp(s_i) / (exp(s_i) + sum over j below i of exp(s_j)) ),

    s = Φ w, j the rows of i's query with a lower grade: the likelihood of the graded order under Plackett and Luce's
    model. Rows of equal grade do not compete, since their order is not known (`hingerank.losses.PlackettLuce` says
    more).

    Parameters
    ----------
    C : weight of the summed losses against the norm. tol, scale, features, max_iter, max_seconds, init, callback : as
        in RankSVM.

    Attributes
    ----------
    coef_ : weights. certificate_, trace_, n_iter_, n_pairs_, objective_, features_ : as in RankSVM.

    >>> import numpy as np
    >>> X, y, qid = np.array([[0.0], [1.0], [0.2], [0.9]]), [0, 1, 0, 1], ["a", "a", "b", "b"]
    >>> ListMLE(C=1.0).fit(X, y, qid=qid).rank(X, qid=qid).tolist()
    [1, 0, 3, 2]
    """

    loss = "listmle"
