"""The convex personal rankers: Ranking SVMs over (user, item) rows whose users share all weights, none, or a mean.

Each is a `Problem` with one of three designs: weights that all users share, weights of each user, or both.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix
from hingerank.data.checks import positive
from hingerank.export.attributes import Array, Attribute, Number
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.losses import squared_hinge
from hingerank.personal.alternating import ROWS_PER_BLOCK
from hingerank.personal.losses import GRADES, PAIRS
from hingerank.personal.passes import own_back, own_scores
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.rankers import PersonalRanker, accuracies
from hingerank.personal.top_n import rows_or_mean
from hingerank.preferences import ExplicitPairs, GradedPreferences, Preferences
from hingerank.problem import Design, Problem
from hingerank.problem.problem import RowsDesign
from hingerank.renaming import renamed
from hingerank.solvers.newton import newton
from hingerank.solvers.run import Callback, Solution

ROWS_PER_SHARD = 8192
NATURAL = 2.0  # C times the mean over users of the summed squared distances of pairs


def pair_distances(X: Matrix, p: UserPreferences) -> float:
    """Return the mean over users of  scale · pairs · 2 · variance of the user's items,  about the sum of ‖x_i - x_j‖².

    It is 1 if there are no pairs or all items are equal.
    """
    if isinstance(X, np.ndarray):
        squares = np.einsum("ij,ij->i", X, X)
    else:
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    rows, pairs = p.mass
    n = np.where(rows > 0, rows, 1.0)
    weighted = p.known.kind != PAIRS and len(p.known.weight) > 0
    mass = p.known.weight if weighted else np.ones(len(p.item))
    users = sp.csr_matrix((mass, p.item, p.start), shape=(len(p.users), X.shape[0]))
    total, pairs = 0.0, pairs * p.known.scale
    for a in range(0, len(p.users), ROWS_PER_BLOCK):  # sums of features for one block of users at a time
        b = slice(a, a + ROWS_PER_BLOCK)
        sums: Any = users[b] @ X
        norms = np.asarray(sums.multiply(sums).sum(axis=1)).ravel() if sp.issparse(sums) else (sums**2).sum(axis=1)
        total += float(pairs[b] @ np.maximum(users[b] @ squares / n[b] - norms / n[b] ** 2, 0.0))
    return 2.0 * total / len(p.users) if total > 0 else 1.0


class SharedDesign(Design):
    """scores(w)[r] = <x_item(r), w>: each item is multiplied once, however many users rated it."""

    def __init__(self, X: Matrix, preferences: UserPreferences):
        self.items, self.item = RowsDesign(X), preferences.item
        self.shape = (len(preferences.item), X.shape[1])

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.items.scores(w)[self.item]

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.items.back(np.bincount(self.item, z, self.items.shape[0]))


class OwnDesign(Design):
    """scores(w)[r] = <x_item(r), w_u(r)> with a weight vector for every user, over the features of the user's items.

    A dense X gives every user all features (w is users x features, flattened); a CSR X only those of the user's items.
    """

    def __init__(self, X: Matrix, preferences: UserPreferences):
        self.X, self.p, self._sparse = X, preferences, sp.issparse(X)
        if self._sparse:  # columns are numbered within the user
            rows, count = X[preferences.item], len(preferences.users)
            user = np.repeat(np.repeat(np.arange(count), np.diff(preferences.start)), np.diff(rows.indptr))
            distinct, column = np.unique(user * X.shape[1] + rows.indices, return_inverse=True)
            self._columns = distinct % X.shape[1]
            self._start = np.searchsorted(distinct, np.arange(count + 1) * X.shape[1])
            self.shape = rows.shape[0], max(1, len(distinct))
            self._design = RowsDesign(sp.csr_matrix((rows.data, column.astype(np.int32), rows.indptr), self.shape))
        else:
            self.shape = (len(preferences.item), len(preferences.users) * X.shape[1])
            self._shards = cut_shards(preferences.start, ROWS_PER_SHARD)

    def scores(self, w: np.ndarray) -> np.ndarray:
        if self._sparse:
            return self._design.scores(w)
        p, W, out = self.p, w.reshape(len(self.p.users), -1), np.empty(self.shape[0])
        run_shards(lambda ab: own_scores(self.X, W, *ab, p.start, p.item, out), self._shards)
        return out

    def back(self, z: np.ndarray) -> np.ndarray:
        if self._sparse:
            return self._design.back(z)
        p, W = self.p, np.empty((len(self.p.users), self.X.shape[1]))
        run_shards(lambda ab: own_back(self.X, z, *ab, p.start, p.item, W), self._shards)
        return W.ravel()

    def vectors(self, w: np.ndarray) -> Matrix:
        """Return the weights as users x features, dense or CSR as X is."""
        if not self._sparse:
            return w.reshape(len(self.p.users), -1)
        shape = len(self.p.users), self.X.shape[1]
        return sp.csr_matrix((w[: len(self._columns)], self._columns, self._start), shape=shape)


class MeanAndOwnDesign(Design):
    """scores((m, w)) = √weight · shared(m) + own(w): ½‖m‖² + ½‖w‖² then penalises the mean by 1/weight."""

    def __init__(self, X: Matrix, preferences: UserPreferences, weight: float):
        self.shared, self.own, self.root = SharedDesign(X, preferences), OwnDesign(X, preferences), np.sqrt(weight)
        self.cut = X.shape[1]
        self.shape = (len(preferences.item), self.cut + self.own.shape[1])

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.shared.scores(self.root * w[: self.cut]) + self.own.scores(w[self.cut :])

    def back(self, z: np.ndarray) -> np.ndarray:
        return np.concatenate([self.root * self.shared.back(z), self.own.back(z)])


def row_preferences(p: UserPreferences) -> Preferences:
    """Return the preferences of the users' rows in the form that every loss of the library takes."""
    known = p.known
    if known.kind == GRADES:
        weight = known.weight if len(known.weight) else None
        return GradedPreferences(known.grade, p.start, item_weight=weight, query_weight=known.scale)
    if known.kind != PAIRS:
        raise TypeError("targets of scores have no pairs")
    per_user = np.diff(known.start)
    first, weight = np.repeat(p.start[:-1], per_user), np.repeat(known.scale, per_user)
    if len(known.weight):
        weight *= known.weight
    return ExplicitPairs(first + known.winner, first + known.loser, len(p.item), weight)


@dataclass(eq=False, repr=False)
class ConvexPersonalRanker(PersonalRanker):
    """½‖w‖² + C · sum over users and their pairs of max(0, 1 - t)², with scores that are linear in w.

    A subclass defines `_minimise`, which makes the design, calls `_newton` and stores the weights. If C is None, it is
    2 divided by the approximate mean over users of the sum over their pairs of ‖x_i - x_j‖². So it follows the scale of
    the features and the number of pairs.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"C_": Number(low=0, needed=False)}  # not in files of version 0.1
    C_: float = field(init=False)
    C: float | None = None
    tol: float = 1e-3
    _: KW_ONLY
    pair_weight: str = "uniform"
    scale: str | None = "standard"
    features: object = None
    max_iter: int = 100
    max_seconds: float | None = None
    callback: Callback = None

    def _natural(self, X: Matrix, preferences: UserPreferences) -> float:
        return NATURAL / pair_distances(X, preferences)

    def _minimise(self, X: Matrix, preferences: UserPreferences) -> Solution:
        raise NotImplementedError

    def _newton(self, design: Design, preferences: UserPreferences) -> Solution:
        problem = Problem(design, squared_hinge(), row_preferences(preferences), C=self.C_)
        return newton(problem, **self._limits())

    def _learn(self, X: Matrix, preferences: UserPreferences, watched: UserPreferences | None) -> Solution:
        self.C_ = self._natural(X, preferences) if self.C is None else float(self.C)
        solution = self._minimise(X, preferences)
        found = None if watched is None else self._right(X, watched)
        solution.trace[-1].update(accuracies(self._right(X, preferences), watched, found))
        return solution


class JointRanker(ConvexPersonalRanker):
    """min over w of  ½‖w‖² + C · sum over users u, pairs (i preferred to j by u) of max(0, 1 - w·(x_i - x_j))².

    All users share one ranking function, so all get the same list. Methods are those of PersonalRankSVM, as far as they
    apply.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; multiplies its sum over pairs. Default 2 / (mean over users of the sum over pairs of
        ‖x_i - x_j‖², approximately).
    tol, pair_weight, scale, features, max_seconds, callback : as in PersonalRankSVM
    max_iter : largest number of Newton steps

    Attributes
    ----------
    coef_ : w, a weight per feature

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> JointRanker(C=1.0).fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 2], [5, 2, 4, 3]).rank("bob", X).tolist()
    [0, 2, 1]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"coef_": Array("columns")}
    _cure = None  # all users have the same list, known or not
    coef_: np.ndarray

    def _minimise(self, X: Matrix, preferences: UserPreferences) -> Solution:
        solution = self._newton(SharedDesign(X, preferences), preferences)
        self.coef_ = solution.w
        return solution

    def _shared(self, X: Matrix) -> np.ndarray:
        return X @ self.coef_


class SeparateRanker(ConvexPersonalRanker):
    """min over w_u of  ½‖w_u‖² + C · sum over pairs (i preferred to j by u) of max(0, 1 - w_u·(x_i - x_j))²,  each u.

    Each user has a separate Ranking SVM; users share nothing. A user without a pair has w_u = 0, so all items tie.
    Methods are those of PersonalRankSVM, as far as they apply.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, default as in JointRanker
    tol, pair_weight, scale, features, max_iter, max_seconds, callback : as in JointRanker

    Attributes
    ----------
    user_weights_ : w_u by rows, users x features
        The array is dense if the features are; for CSR features it is CSR and has the features of a user's items.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> SeparateRanker(C=1.0).fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 2], [5, 2, 3, 4]).rank("bob", X).tolist()
    [1, 2, 0]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"user_weights_": Array("users, columns", csr=True)}
    _cure: str | None = (
        "SeparateRanker cannot rank for others: fit again with the user's ratings, or use MeanVarianceRanker"
    )
    user_weights_: Matrix
    _cold = "a list in which all items tie"

    def _without_pairs(self) -> np.ndarray:
        W = self.user_weights_
        return np.diff(W.indptr) == 0 if sp.issparse(W) else ~W.any(axis=1)

    def _minimise(self, X: Matrix, preferences: UserPreferences) -> Solution:
        design = OwnDesign(X, preferences)
        solution = self._newton(design, preferences)
        self.user_weights_ = design.vectors(solution.w)
        return solution

    def _item_vectors(self, X: Matrix) -> Matrix:
        return X

    def _user_vectors(self, numbers: np.ndarray) -> Matrix:
        return rows_or_mean(self.user_weights_, numbers)


@renamed
@dataclass(kw_only=True, eq=False, repr=False)
class MeanVarianceRanker(SeparateRanker):
    """min over w, v_u of  ‖w‖²/(2·shared) + ½ sum_u ‖v_u‖²
    + C · sum over u, pairs (i preferred to j by u) of max(0, 1 - (w + v_u)·(x_i - x_j))²   (Evgeniou & Pontil 2004).

    All users share a ranking function w, and each has a deviation v_u. Users without a pair, or unknown, rank by w.
    Methods are those of PersonalRankSVM, as far as they apply.

    Parameters
    ----------
    C : weight of the loss; multiplies its sum over pairs, default as in JointRanker
    tol, pair_weight, scale, features, max_iter, max_seconds, callback : as in JointRanker
    shared : how much users share: w has the penalty ‖w‖²/(2·shared)
        Near 0 users are separate; for large values w has no penalty.

    Attributes
    ----------
    coef_ : w, a weight per feature
    user_weights_ : v_u by rows, as in SeparateRanker

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> ranker = MeanVarianceRanker(C=1.0).fit(X, ["ann", "ann", "bob"], [0, 1, 0], [5, 2, 3])
    >>> ranker.rank("bob", X).tolist()
    [0, 2, 1]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {"coef_": Array("columns")}
    _cure = None  # unknown users rank by w
    _cold = "the list of the mean user"
    coef_: np.ndarray = field(init=False)
    shared: float = 1.0

    def _minimise(self, X: Matrix, preferences: UserPreferences) -> Solution:
        positive("shared", self.shared)
        design = MeanAndOwnDesign(X, preferences, self.shared)
        solution = self._newton(design, preferences)
        self.coef_ = design.root * solution.w[: design.cut]
        self.user_weights_ = design.own.vectors(solution.w[design.cut :])
        return solution

    def _shared(self, X: Matrix) -> np.ndarray:
        return X @ self.coef_

    def _user_vectors(self, numbers: np.ndarray) -> Matrix:
        return rows_or_mean(self.user_weights_, numbers, np.zeros(self.user_weights_.shape[1]))
