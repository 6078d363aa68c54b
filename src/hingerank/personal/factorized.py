"""Factorised rankers: score(u, x) = <Uᵀx, v_u>, a basis of k ranking functions and a mixture of them for every user."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Column, Matrix, PerRow, RowsLike
from hingerank.data.checks import generator, one_of, positive, whole
from hingerank.kernels.threads import asked_threads, serial_blas
from hingerank.personal.alternating import (
    WIDEST,
    LocalUsers,
    Users,
    alternating,
    columns_in_use,
    count_right,
    first_gradient_norm,
    in_use,
    item_vectors,
)
from hingerank.personal.catalogue import History, UserIndex
from hingerank.personal.clicks import AllPairs, clicks_of, drawn_preferences, fit_all_pairs
from hingerank.personal.clicks import choose_multiple as click_multiple
from hingerank.personal.factor_ranker import FactorRanker
from hingerank.personal.fold_in import (
    LEAST_USERS,
    MULTIPLES,
    USUAL,
    USUAL_MULTIPLE,
    forgotten_users,
    held_back,
    learn_strength,
    spread_of_users,
)
from hingerank.personal.nuclear import nuclear_gap
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.rankers import accuracies
from hingerank.rankers.base import forget_fit
from hingerank.rankers.rank_parameter import RankParameter
from hingerank.renaming import renamed
from hingerank.solvers.run import Callback, Solution

LEAST_DRAWN, PER_DRAW = 20, 2  # fewest items sampled for a user; epochs until others are sampled
FORGETTING = 3  # epochs without the users who judge the prior
TRIED = 5  # largest number of epochs of a fit that tries a C
NO_TARGETS = np.empty(0)


@dataclass(eq=False, repr=False)
class PersonalRankSVM(FactorRanker):
    """min over U, V of  C · sum over users u, pairs (i preferred to j by u) of max(0, 1 - v_uᵀUᵀ(x_i - x_j))²
    + ½(‖U‖² + ‖V‖²).  Factorization RankSVM (Cheng, Davidson & Hsieh 2018); the hinge need not be squared.

    Column c of U is a basic ranking function of the item features. User u ranks by the mixture U v_u of them. At the
    best factors of a matrix the penalty equals the trace norm of U Vᵀ, so users share what they have in common. The
    objective is not convex. A fit ends where the gradient vanishes; the result depends on ``random_state``, usually
    only a little.

    Parameters
    ----------
    rank : int, default 10
        k, the number of basic ranking functions (at most the number of features and of users).
    C : float, optional
        Weight of the loss; multiplies its sum over pairs. Default a multiple of 1/‖∇loss at 0‖₂ (spectral norm), the
        smallest useful C: it follows the scale of the features and the number of pairs. A fifth of the data of half of
        the users is held out, and the multiple is the smallest of 5, 25, 125, 625 and 3125 that is about as good there
        as the best one. For clicks it is 25; with the squared loss it is 15, 50, 150 or 500, chosen by lists for
        held-out clicks.
    tol : float, default 0.01
        The fit stops when an epoch can lower the objective by no more than tol times its value. If the decrease since
        weights of 0 is smaller than the value, it is used instead.
    loss : "squared_hinge", "hinge" or "squared"
        max(0, 1 - t)², max(0, 1 - t) or (1 - t)² for a pair of margin t. The squared loss is only for ``fit_clicks``:
        it compares every click with every item, without sampling, in a fraction of the time. The kink of the hinge is
        rounded over a width that shrinks until the error of rounding is below tol; this takes about twice as many
        passes over the data and some more epochs.
    shared : bool, default False
        Whether users also share a function w: w_u = w + U v_u, with the penalty ½‖w‖².
    pair_weight : "uniform" or "user"
        With "user" every user has the same total weight, however many pairs there are (C is then per user).
    cold_users : "mean" or "zero"
        The weights of users without a pair: the mean weights of the others, or 0.
    prior : "users", "zero" or a number
        The prior of a new user in ``add_user``. "users" has the mean and the covariance of the fitted users; the weight
        of the new ratings relative to it is learnt from the fitted users. A number sets this weight; with 0 every new
        user is the mean user. "zero" is ½‖v‖², as in the fit.
    scale : "standard" or None
        "standard" scales numeric columns of the item features to mean 0 and standard deviation 1 over the items of the
        fit. Columns of 0 and 1 and sparse columns (words) stay as they are. All weights belong to the scaled columns.
    features : a feature map φ of the scaled item features, such as ``NystroemMap`` or any scikit-learn transformer,
        or the name of one: "nystroem", "nystroem:200", "fourier", "polynomial"
        It is fitted to the items of the fit and kept in the model. φ(x) then replaces x, also in ``basis_``.
    max_iter : int, default 100
        Largest number of epochs. A fit that reaches a limit warns with the accuracy it has reached.
    max_seconds : float, optional
        Largest time in seconds.
    n_jobs : int, optional
        Number of threads, default as many as the limits allow (see ``docs/scale.md``); it does not change the result.
    random_state : int, default 0
        Seed of the initial basis.
    callback : function, optional
        Called with each entry of the trace; return True to stop the fit.

    Attributes
    ----------
    basis_ : U (features x rank), strongest column first
    user_weights_ : V (users x rank)
    users_ : ids, one per row of V
    has_pairs_ : which users had a pair to learn from
    coef_ : w, if ``shared``
    C_ : the value of C that was used
    item_centre_, item_scale_ : centre and scale of each column of features; None without scaling
    features_ : the fitted feature map, or None
    width_ : final width of the rounded kink of the hinge; 0 for the squared hinge
    prior_mean_, prior_root_, prior_strength_ : the prior of new users, see hingerank.personal.fold_in
    trace_ : for each epoch value, gradient, train_accuracy, validation_accuracy (with ``eval_set``) and seconds
    notes_ : counts of what was found in the data (repeated ratings, contradictions, users without a pair, ...)
    certificate_, n_iter_, n_pairs_, objective_ : as in RankSVM

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]])
    >>> ranker = PersonalRankSVM(rank=1, C=1.0)
    >>> ranker = ranker.fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 1], [5, 2, 1, 4])
    >>> ranker.rank("ann", X).tolist(), ranker.rank("bob", X).tolist()
    ([0, 2, 3, 1], [1, 3, 2, 0])
    """

    rank: int = RankParameter(10)  # type: ignore[assignment]
    C: float | None = None
    tol: float = 1e-2
    _: KW_ONLY
    loss: str = "squared_hinge"
    shared: bool = False
    pair_weight: str = "uniform"
    cold_users: str = "mean"
    prior: str | float = "users"
    scale: str | None = "standard"
    features: object = None
    max_iter: int = 100
    max_seconds: float | None = None
    n_jobs: int | None = None
    random_state: int = 0
    callback: Callback = None

    @renamed
    def fit_clicks(
        self, item_features: RowsLike, users: Column, items: Column, *, negatives: str = "uniform",
        per_click: float = 5.0, n_draws: int = 15, sample_weight: PerRow = None,
    ) -> Self:  # fmt: skip
        """Learn from clicks, listens or purchases: users prefer items they took to items sampled from the rest.

        All pairs of a user's clicks and sampled items count, without being listed. Items are sampled again every two
        epochs, ``n_draws`` times. With ``loss="squared"`` users prefer what they took to all other items, and
        ``negatives``, ``per_click`` and ``n_draws`` have no effect. With the default ``pair_weight="uniform"`` users
        with many clicks have more weight; "user" gives all users the same weight.

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        users, items : who took what (ids of any type; row numbers of item_features); repeats count once
        negatives : how items are sampled: "uniform", or "popularity", in proportion to their clicks
        per_click : number of items sampled for each click of a user, and at least 20 per user
        n_draws : how often items are sampled; with the last sample the fit continues until it is stationary
        sample_weight : weight of each click, default 1, such as ``hr.age_weights(times, half_life)``
            It applies to all pairs of a click. Weights of repeated clicks add up, and a weight of 0 is no click.
        """
        X = self._rows(item_features, reset=True)
        one_of("negatives", negatives, "uniform", "popularity")
        positive("per_click", per_click)
        clicks, rng = clicks_of(users, items, X.shape[0], sample_weight), generator(self.random_state)
        against_all = self.loss == "squared"
        few = against_all and self.prior != "users"  # no pairs are judged: one item per user is enough

        def draw() -> UserPreferences:
            often, least = (0.0, 1) if few else (per_click, LEAST_DRAWN)
            packed = drawn_preferences(clicks, often, least, negatives, rng, self.pair_weight)
            return replace(packed, users=clicks.users)

        how = {"clicks": clicks} if against_all else {"draws": [draw] * (whole("n_draws", n_draws) - 1)}
        self._fit(X, draw(), None, **how)
        self.notes_["clicks"] = len(clicks.items)
        return self

    def fit_parts(self, item_features: RowsLike, data: Any) -> Self:
        """Learn from ratings in parts of whole users, which may be on workers of a cluster, as ``fit`` does.

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        data : from `hingerank.read_rating_parts`
        """
        X = self._rows(item_features, reset=True)
        return self._fit(X, data.preferences(self, X.shape[0]), None)

    def update(
        self, item_features: RowsLike, users: Column, items: Column, ratings: Column, *, basis: bool = True,
        sample_weight: PerRow = None,
    ) -> Self:  # fmt: skip
        """Fit again from the present basis and users, to other ratings: the old ones that still count, and new ones.

        The objective and the certificate are those of a ``fit`` to these ratings with C = ``C_``. Only the start
        differs, which saves most of the epochs if little has changed. Users and items may be new. An update that is
        interrupted leaves the model as it was.

        Parameters
        ----------
        item_features, users, items, ratings, sample_weight : as in ``fit``, with the same features
        basis : whether to improve the basis too; the model then has the users of these ratings, as after ``fit``
            With False the basis and the other users stay. Each user of these ratings gets the best weights for this
            basis, argmin ½‖v‖² + C · loss_u(X_u U v), a convex problem that needs no start.
        """
        check_is_fitted(self)
        X = self._rows(item_features)
        p = self._known(users, items, ratings, X.shape[0], sample_weight)
        if not basis:
            return self._put(p.users, self._fold_in(X, p, as_fitted=True), p.pairs > 0)
        numbers, new = self._index.numbers(p.users), self.user_weights_.mean(axis=0)
        V = np.where((numbers >= 0)[:, None], self.user_weights_[numbers], new)
        U = np.column_stack([self.basis_, self.coef_]) if self.shared else self.basis_
        fitted = copy(self)._fit(X, p, None, start=(U, V, float(self.C_)))  # if interrupted, this model stays
        forget_fit(self)
        self.__dict__.update(fitted.__dict__)
        return self

    def nuclear_gap(
        self, item_features: RowsLike, users: Column, items: Column, ratings: Column, *, sample_weight: PerRow = None
    ) -> float:
        """Return the relative duality gap of  min over W of C · loss(W) + ‖W‖_*  at W = U Vᵀ.

        ½(‖U‖² + ‖V‖²) is at least the nuclear norm ‖U Vᵀ‖_*, and equal to it at the best factors of
        a matrix. So with enough columns the factorised problem has the optimum of this convex one. A gap near 0 means
        the global optimum. A large gap means that the fit stopped early, is another stationary point, or needs more
        columns. Use it for small data: it computes the singular values of a features x users matrix. Arguments are
        those of ``fit``.
        """
        check_is_fitted(self)
        X = self._rows(item_features)
        p = self._known(users, items, ratings, X.shape[0], sample_weight)
        V = self.user_weights_[self._index.known(p.users)]
        return nuclear_gap(X, p, self.basis_, V, self.coef_ if self.shared else None, float(self.C_), self.width_)

    def _learn(
        self, X: Matrix, preferences: Any, watched: UserPreferences | None, *,
        draws: Sequence[Callable[[], UserPreferences]] = (), start: tuple[np.ndarray, np.ndarray, float] | None = None,
        clicks: History | None = None,
    ) -> Solution:  # fmt: skip
        """Fit U and V.

        preferences: of users here, or of users in parts (hingerank.distributed.ratings); draws: functions that sample
        preferences for the epochs after the first; start: initial U, V and C; clicks: clicks to compare with all items.
        """
        self._check_settings()
        if self.C is not None:
            self.C_ = float(self.C)
        if clicks is not None:
            return self._learn_clicks(X, preferences, clicks)
        if self.loss == "squared":
            raise ValueError("loss='squared' is for fit_clicks: use 'squared_hinge' or 'hinge' for ratings and pairs")
        threads, V, rows = asked_threads(self.n_jobs), None, slice(None)
        users: Users
        # used: the features of rated items, without columns of 0; here: preferences in this process, of parts a sample
        with serial_blas():  # passes have their own threads, and one BLAS thread gives repeatable results
            if isinstance(preferences, UserPreferences):
                used, here, columns = (X, preferences, None) if draws else in_use(X, preferences)
                if start is not None:
                    V = np.pad(start[1], ((0, 0), (0, int(self.shared))), constant_values=1.0)
                users = LocalUsers(used, here, V, threads)
            else:
                used, columns = preferences.features(X)
                rows, here = preferences.sample(self, used.shape[0])
                users = preferences
            if start is not None:
                U, self.C_ = start[0] if columns is None else start[0][columns], start[2]
            else:
                U = self._start(used, len(preferences.users), here.known.target)
                if self.C is None:
                    multiple, U = (USUAL_MULTIPLE, U) if draws else self._multiple(used, here, U)
                    self.C_ = multiple / self._gradient_norm(used, users.power)
            for draw in draws:
                U, here = self._alternate(users, U, self.C_, tol=0.0, max_iter=PER_DRAW).w, draw()
                users = LocalUsers(used, here, users.V, threads)
            if watched is not None:
                order = UserIndex(preferences.users).known(watched.users)
                watched_items = X if columns is None else X[:, columns]

            def watch(U: np.ndarray) -> dict[str, float]:
                found = None
                if watched is not None:
                    found = count_right(item_vectors(watched_items, U), users.V[order], watched, threads)
                return accuracies(users.right(U), watched, found)

            solution = self._alternate(users, U, self.C_, watch=watch, **self._limits())
            self._learn_prior(used, solution.w, solution.extra["V"][rows], here)
        return self._keep(X.shape[1], columns, solution, preferences.pairs > 0)

    def _learn_clicks(self, X: Matrix, drawn: UserPreferences, clicks: History) -> Solution:
        """Compare every click with every item; drawn: some of these pairs, which judge the prior of new users."""
        if self.shared:
            raise ValueError("loss='squared' has no shared function: set shared=False, or take another loss")
        table = clicks.table.astype(np.float64)
        if self.pair_weight == "user":
            each = np.add.reduceat(table.data, table.indptr[:-1]) * X.shape[0]
            table.data /= np.repeat(each, np.diff(table.indptr))
        threads, (used, columns) = asked_threads(self.n_jobs), columns_in_use(X)
        with serial_blas():
            problem = AllPairs(used, table, threads)
            U = self._start(used, len(clicks.users))
            if self.C is None:
                multiple, U = click_multiple(used, table, U, threads)
                self.C_ = multiple * problem.least_C()
            solution = fit_all_pairs(problem, U, self.C_, **self._limits())
            self._learn_prior(used, solution.w, solution.extra["V"], drawn)
        self.n_pairs_ = len(clicks.items) * (X.shape[0] - 1)
        return self._keep(X.shape[1], columns, solution, np.ones(len(clicks.users), bool))

    def _start(self, X: Matrix, n_users: int, target: np.ndarray = NO_TARGETS) -> np.ndarray:
        """Return an initial U with items' vectors of about 1, and a last column of 0 if all users share one.

        The optimal factors grow as the square root of the targets, so U does too, rounded to a power of 2.
        """
        k = min(int(self.rank), X.shape[1], n_users)
        U = generator(self.random_state).standard_normal((X.shape[1], k))
        typical = np.sqrt(np.mean(item_vectors(X, U) ** 2))
        square = np.vdot(target, target) / max(1, len(target))
        U *= np.exp2(np.round(0.25 * np.log2(square))) if square > 0 else 1.0
        return np.pad(U / (typical if typical > 0 else 1.0), ((0, 0), (0, int(self.shared))))

    def _alternate(self, users: Users, U: np.ndarray, C: float, **how: Any) -> Solution:
        """Improve U, and the users' V in place."""
        users.begin(C, U.shape[1], int(self.shared), WIDEST if self.loss == "hinge" else 0.0)
        return alternating(users, U, **how)

    def _keep(self, n_features: int, columns: np.ndarray | None, solution: Solution, warm: np.ndarray) -> Solution:
        functions, V, self.width_ = solution.w, solution.extra["V"], float(solution.extra["width"])
        k = functions.shape[1] - self.shared
        if columns is not None:
            functions = np.zeros((n_features, functions.shape[1]))
            functions[columns] = solution.w
        self.basis_, self.user_weights_ = np.ascontiguousarray(functions[:, :k]), np.ascontiguousarray(V[:, :k])
        self.has_pairs_ = warm
        self.__dict__.pop("coef_", None)
        if self.shared:
            self.coef_ = functions[:, k].copy()
        self._settle_cold(self.user_weights_, warm)
        return solution

    def _natural(self, X: Matrix, preferences: UserPreferences) -> float:
        U = self._start(X, len(preferences.users), preferences.known.target)
        multiple, _ = self._multiple(X, preferences, U)
        return multiple / self._gradient_norm(X, LocalUsers(X, preferences).power)

    def _gradient_norm(self, X: Matrix, power: Callable[[np.ndarray], Any]) -> float:
        """Return ‖∇loss‖₂ at 0, which for the squared hinge, whose power is given, is twice that of the hinge."""
        norm = first_gradient_norm(X.shape[1], power)
        return norm if self.loss == "squared_hinge" else 0.5 * norm

    def _multiple(self, X: Matrix, fitted: UserPreferences, U: np.ndarray) -> tuple[float, np.ndarray]:
        """Choose the multiple of the smallest useful C by held-out data, from U: (multiple, basis to start from).

        It is the smallest that orders about as many held-out pairs correctly as the best one, where "about" is the
        square root of the number that the best one orders wrongly. Larger ones are tried until one is clearly worse.
        """
        parts = held_back(fitted, self._known)
        if parts is None:
            return USUAL_MULTIPLE, U
        (learnt, whole), threads = parts, asked_threads(self.n_jobs)
        users, seen = LocalUsers(X, learnt, threads=threads), learnt.judged or learnt
        norm, n_pairs = self._gradient_norm(X, users.power), whole.n_pairs - seen.n_pairs
        found = list[tuple[float, float, np.ndarray]]()  # the multiple, pairs in the right order, the basis
        for multiple in MULTIPLES:  # each fit starts from the one before
            U = self._alternate(users, U, multiple / norm, tol=self.tol, max_iter=TRIED).w
            P = item_vectors(X, U)
            right = count_right(P, users.V, whole, threads)[0] - count_right(P, users.V, seen, threads)[0]
            found.append((multiple, right, U))
            best = max(right for _, right, _ in found)
            enough = best - np.sqrt(max(0.0, n_pairs - best))
            if right < enough:
                break
        return next((multiple, U) for multiple, right, U in found if right >= enough)

    def _learn_prior(self, X: Matrix, U: np.ndarray, V: np.ndarray, fitted: UserPreferences) -> None:
        """Compute the prior of new users, and the weight of their ratings relative to it."""
        warm, k = fitted.pairs > 0, U.shape[1] - self.shared
        P, known = item_vectors(X, U), V[:, :k] if warm.all() or not warm.any() else V[warm, :k]
        self.prior_mean_, self.prior_root_ = spread_of_users(known, P[:, :k], fitted.item)
        self.prior_strength_ = float(self.prior if isinstance(self.prior, Real) else USUAL)
        if self.prior == "zero":
            self.prior_mean_ = None
        if self.prior != "users":
            return
        gone, stay = forgotten_users(fitted)
        if len(gone) < LEAST_USERS or not (fitted.pairs[stay] > 0).any():
            return
        left = fitted.take(stay)
        others = LocalUsers(X, left, V[stay], asked_threads(self.n_jobs))
        without = self._alternate(others, U.copy(), self.C_, tol=0.0, max_iter=FORGETTING)
        P, V = item_vectors(X, without.w), without.extra["V"][left.pairs > 0, :k]
        P, shared = P[:, :k], P[:, k] if self.shared else None
        mean, root = spread_of_users(V, P, left.item)
        self.prior_strength_ = learn_strength(P, shared, fitted.take(gone), mean, root, self._known)

    def _check_settings(self) -> None:
        whole("rank", self.rank)
        one_of("loss", self.loss, "squared_hinge", "hinge", "squared")
        if self.shared not in (True, False):
            raise ValueError(f"shared must be True or False, not {self.shared!r}; MeanVarianceRanker takes a number")
        number = isinstance(self.prior, Real) and not isinstance(self.prior, bool) and 0 <= float(self.prior) < np.inf
        if self.prior not in ("users", "zero") and not number:
            raise ValueError(f"prior must be 'users', 'zero' or a number of at least 0, not {self.prior!r}")
        one_of("cold_users", self.cold_users, "mean", "zero")


@dataclass(eq=False, repr=False)
class InductiveMatrixCompletion(PersonalRankSVM):
    """min over U, V of  C · sum over ratings of (v_uᵀUᵀx_i - (rating - mean of u's ratings))² + ½(‖U‖² + ‖V‖²)
    (Jain & Dhillon 2013, with the trace norm).

    The factors of PersonalRankSVM are fitted to the ratings themselves. The mean of a user's ratings is subtracted,
    because it does not affect the order. A score estimates rating - mean. The model was not designed for comparisons
    (``fit_pairs``); they are fitted as score differences of 1.

    Parameters
    ----------
    C : float, optional
        Weight of the loss; multiplies its sum over ratings. Default as in PersonalRankSVM.
    rank, tol, cold_users, prior, scale, features, max_iter, max_seconds : as in PersonalRankSVM
    n_jobs, random_state, callback : as in PersonalRankSVM
        Attributes and methods are those of PersonalRankSVM too.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> ranker = InductiveMatrixCompletion(rank=1, C=1.0)
    >>> ranker.fit(X, ["ann", "ann", "bob", "bob"], [0, 1, 0, 1], [5, 2, 1, 4]).rank("ann", X).tolist()
    [0, 2, 1]
    """

    loss: str = field(default="squared_hinge", init=False)
    shared: bool = field(default=False, init=False)
    pair_weight: str = field(default="uniform", init=False)
    _squared_error = True
