"""PersonalRankSVM: one Ranking SVM per user, all built from the same few basic ranking functions."""

from hingerank.personal.factors import FactorRanker


class PersonalRankSVM(FactorRanker):
    """min over U, V of  C · sum over users u, pairs (i preferred to j by u) of max(0, 1 - v_uᵀUᵀ(x_i - x_j))²
    + ½(‖U‖² + ‖V‖²),  which is Factorization RankSVM (Cheng, Davidson & Hsieh 2018).

    Column c of U is a basic ranking function of the item features; user u ranks by the mixture U v_u of them. The norms
    add up to the trace norm of U Vᵀ, so that users share what they have in common. The objective is not convex: a fit
    reaches a point where the gradient vanishes, which depends on `random_state`, mostly a little.

    Parameters
    ----------
    rank : k, the number of basic ranking functions (at most the number of features and of users).
    shared : learn besides a function w that all users share, w_u = w + U v_u, with ½‖w‖² more to pay.
    C : weight of the summed pair losses against the norms. A user with n ratings has up to n²/2 pairs.
    tol : stop when the norm of the gradient in (U, V) is at most tol times that of the first epoch.
    pair_weight : "uniform", or "user": every user counts the same however many pairs there are (C then is per user).
    cold_users : what users without a pair get: "mean", the mean weights of the others, or "zero", no opinion.
    max_iter, max_seconds : limits in epochs and time; a fit that hits one warns and says how far it got.
    n_jobs : threads, default all; the answer is the same for any number.
    random_state : seed of the start. callback : called with each trace entry; a true answer stops the fit.

    Attributes
    ----------
    basis_ : U (features x rank), strongest column first. user_weights_ : V (users x rank). users_ : ids, one per row of
    V. coef_ : w, where `shared`. has_pairs_ : which users had a pair to learn from. trace_ : for each epoch value,
    gradient, train_accuracy, validation_accuracy (with eval_set) and seconds. certificate_, n_iter_, n_pairs_,
    objective_ : as in RankSVM.
    notes_ : counts of what was found in the data (repeated ratings, contradictions, users without a pair, ...).

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]])
    >>> ranker = PersonalRankSVM(rank=1, C=1.0)
    >>> ranker = ranker.fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 1], [5, 2, 1, 4])
    >>> ranker.rank("ann", X).tolist(), ranker.rank("bob", X).tolist()
    ([0, 2, 3, 1], [1, 3, 2, 0])
    """
