"""Rankers of the form score(u, x) = <Uᵀx, v_u>: a basis of k ranking functions and a mixture of them for every user.

New users are folded in from a few ratings with the basis fixed: a k-dimensional Ranking SVM each, in milliseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.data.checks import positive, whole
from hingerank.kernels.threads import asked_threads, serial_blas
from hingerank.personal.all_pairs import AllPairs, fit_all_pairs
from hingerank.personal.all_pairs import choose_multiple as click_multiple
from hingerank.personal.alternating import WIDEST, LocalUsers, alternating
from hingerank.personal.choosing import USUAL as USUAL_MULTIPLE
from hingerank.personal.choosing import choose_multiple, held_back
from hingerank.personal.clicks import CHANCES, Clicks, clicks_of, drawn_preferences
from hingerank.personal.factor_ranker import FactorRanker
from hingerank.personal.fold_in import (
    LEAST_USERS,
    USUAL,
    fold_in,
    forgotten_users,
    learn_strength,
    plain_prior,
    spread_of_users,
)
from hingerank.personal.losses import UserPairs
from hingerank.personal.nuclear import nuclear_gap
from hingerank.personal.preferences import UserPreferences, counting
from hingerank.personal.problem import (
    FactorObjective,
    FirstGradient,
    ItemFeatures,
    Matrix,
    columns_in_use,
    count_right,
    first_gradient_norm,
    in_use,
    start_of_users,
)
from hingerank.personal.rankers import Watched, accuracies, check_positive
from hingerank.personal.users import UserIndex
from hingerank.rankers.rank_parameter import RankParameter
from hingerank.renaming import renamed
from hingerank.solvers.run import Solution

LOSSES = ("squared_hinge", "hinge", "squared")
Draw = Callable[[], UserPreferences]
LEAST_DRAWN, PER_DRAW = 20, 2  # items drawn for a user at least; steps until others are drawn
FORGETTING = 3  # epochs without the users by whom the prior is judged
TRIED = 5  # epochs of a fit that tries a C, at most


class PersonalRankSVM(FactorRanker):
    """min over U, V of  C · sum over users u, pairs (i preferred to j by u) of max(0, 1 - v_uᵀUᵀ(x_i - x_j))²
    + ½(‖U‖² + ‖V‖²),  which is Factorization RankSVM (Cheng, Davidson & Hsieh 2018), or with the hinge, not squared.

    Column c of U is a basic ranking function of the item features; user u ranks by the mixture U v_u of them. The norms
    add up to the trace norm of U Vᵀ, so that users share what they have in common. The objective is not convex: a fit
    reaches a point where the gradient vanishes, which depends on ``random_state``, mostly a little.

    Parameters
    ----------
    rank : int, default 10
        k, the number of basic ranking functions (at most the number of features and of users).
    C : float, optional
        Weight of the loss; multiplies its sum over pairs. Default a multiple of 1/‖∇loss at 0‖₂ (spectral norm), the
        smallest C at which anything is learnt: it follows the scale of the features and the number of pairs. The
        multiple is the smallest of 5, 25, 125, 625 and 3125 that predicts a fifth of what half of the users said,
        held back from a first fit, about as well as the best; clicks take 25, and with the squared loss
        15, 50, 150 or 500, by lists for clicks that were held back.
    tol : float, default 0.01
        Stop when an epoch neither lowers the objective nor promises to lower it by more than tol times its value, or
        times what was gained from weights of 0 if that is less.
    loss : "squared_hinge", "hinge" or "squared"
        max(0, 1 - t)², max(0, 1 - t) or (1 - t)² for a pair of margin t. The squared loss is for ``fit_clicks`` alone:
        every click against every item, none drawn, in a fraction of the time. The hinge is minimised with its kink
        rounded, ever less, until what rounding can hide is below tol too; that takes about twice the sweeps and some
        more epochs.
    shared : bool, default False
        Whether users share a function w besides, w_u = w + U v_u, with ½‖w‖² more to pay.
    pair_weight : "uniform" or "user"
        With "user" every user counts the same however many pairs there are (C then is per user).
    cold_users : "mean" or "zero"
        What users without a pair get: the mean weights of the others, or no opinion.
    prior : "users", "zero" or a number
        What ``add_user`` knows of a new user beforehand: that they are one of the fitted users, drawn from their mean
        and spread, the weight of the ratings against that learnt from the fitted users, or given as a number (0: the
        mean user whatever they say); or nothing ("zero": ½‖v‖², as in the fit).
    scale : "standard" or None
        How columns of numbers among the item features are scaled: to mean 0 and standard deviation 1 over the items of
        the fit, or not. Labels of 0 and 1 and sparse columns (words) stay. All weights are those of scaled columns.
    features : a feature map φ of the scaled item features, such as ``NystroemMap`` or any scikit-learn transformer,
        or the name of one: "nystroem", "nystroem:200", "fourier", "polynomial"
        Fitted on the items of the fit and kept in the model; φ(x) then stands in the place of x, also in ``basis_``.
    max_iter : int, default 100
        Limit in epochs; a fit that hits one of the limits warns and says how far it got.
    max_seconds : float, optional
        Limit in time.
    n_jobs : int, optional
        Threads, default as many as the limits allow (see ``docs/scale.md``); the answer is the same for any number.
    random_state : int, default 0
        Seed of the start.
    callback : function, optional
        Called with each entry of the trace; a true answer stops the fit.

    Attributes
    ----------
    basis_ : U (features x rank), strongest column first
    user_weights_ : V (users x rank)
    users_ : ids, one per row of V
    has_pairs_ : which users had a pair to learn from
    coef_ : w, where ``shared``
    C_ : C as it was used
    item_centre_, item_scale_ : what is subtracted from each column of features and what it is divided by; None: nothing
    features_ : the fitted feature map, or None
    width_ : over which the hinge's kink was rounded in the end; 0 for the squared hinge
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

    _training_only = ("callback",)
    rank = RankParameter()

    def __init__(
        self, rank=10, C=None, tol=1e-2, *, loss="squared_hinge", shared=False, pair_weight="uniform",
        cold_users="mean", prior="users", scale="standard", features=None, max_iter=100, max_seconds=None,
        n_jobs=None, random_state=0, callback=None,
    ):  # fmt: skip
        self.rank = rank
        self.C = C
        self.tol = tol
        self.loss = loss
        self.shared = shared
        self.pair_weight = pair_weight
        self.cold_users = cold_users
        self.prior = prior
        self.scale = scale
        self.features = features
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    @renamed
    def fit_clicks(
        self, item_features: Any, users: Any, items: Any, *, negatives: str = "uniform", per_click: float = 5.0,
        n_draws: int = 15, sample_weight: Any = None,
    ) -> Self:  # fmt: skip
        """Learn from clicks, listens or purchases alone: what a user took is preferred to items drawn from the rest.

        With ``loss="squared"`` it is preferred to all items, and ``negatives``, ``per_click`` and ``n_draws`` do not
        matter. Otherwise other items are drawn in every epoch; all pairs of a user's clicks and drawn items count,
        none is listed. With the default ``pair_weight="uniform"`` users with many clicks count for more; "user" weighs
        users alike.

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        users, items : who took what (ids of any type; row numbers of item_features); repeats count once
        negatives : how the others are drawn: "uniform", or "popularity", as often as people take them
        per_click : items drawn for each click of a user, at least 20 for a user
        n_draws : how often the others are drawn; on the last draw the fit goes on until it is stationary
        sample_weight : how much each click counts, default 1, such as ``hr.age_weights(times, half_life)``
            All pairs of a click count so; weights of repeated clicks add up, and one of 0 is no click.
        """
        X = self._rows(item_features, reset=True)
        if negatives not in CHANCES:
            raise ValueError(f"negatives is {negatives!r}, expected {' or '.join(map(repr, CHANCES))}")
        positive("per_click", per_click)
        clicks, rng = clicks_of(users, items, X.shape[0], sample_weight), np.random.default_rng(self.random_state)

        against_all = self.loss == "squared"
        few = against_all and self.prior != "users"  # nothing is judged by pairs: one item for each user will do

        def draw() -> UserPreferences:
            often, least = (0.0, 1) if few else (per_click, LEAST_DRAWN)
            packed = drawn_preferences(clicks, often, least, negatives, rng, self.pair_weight)
            return replace(packed, users=clicks.users)

        how = {"clicks": clicks} if against_all else {"draws": [draw] * (whole("n_draws", n_draws) - 1)}
        self._fit(X, draw(), None, **how)
        self.notes_["clicks"] = len(clicks.items)
        return self

    def fit_parts(self, item_features: Any, data: Any) -> Self:
        """Learn from ratings in parts of whole users, which may be on the workers of a cluster: what ``fit`` learns.

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        data : from `hingerank.read_rating_parts`
        """
        X = self._rows(item_features, reset=True)
        return self._fit(X, data.preferences(self, X.shape[0]), None, in_parts=True)

    def update(
        self, item_features: Any, users: Any, items: Any, ratings: Any, *, basis: bool = True, sample_weight: Any = None
    ) -> Self:
        """Go on from the present basis and users with other ratings: the old ones that still count, and new ones.

        The objective is that of a ``fit`` to these ratings with C = ``C_``, and so is the certificate; only the start
        differs, which saves most of the epochs where little has changed. Users and items may be new.

        Parameters
        ----------
        item_features, users, items, ratings, sample_weight : as in ``fit``, with the same features
        basis : whether to improve the basis too; the model then has the users of these ratings, as after ``fit``
            With False the basis and the other users stay, and each user of these ratings gets the weights that are best
            with this basis, argmin ½‖v‖² + C · loss_u(X_u U v): a convex problem, solved from no start.
        """
        check_is_fitted(self)
        X = self._rows(item_features)
        users, items, ratings, weight = counting(users, items, ratings, sample_weight)
        p = self._from_ratings(users, items, ratings, X.shape[0], weight)
        if not basis:
            prior = plain_prior(np.zeros(self.basis_.shape[1]), float(self.C_), self.loss == "hinge")
            return self._put(p.users, fold_in(self._place(X), self._shared(X), p, prior), p.pairs > 0)
        numbers, new = self._users().numbers(p.users), self.user_weights_.mean(axis=0)
        V = np.where((numbers >= 0)[:, None], self.user_weights_[numbers], new)
        U = np.column_stack([self.basis_, self.coef_]) if self.shared else self.basis_
        return self._fit(X, p, None, start=(U, V, float(self.C_)))

    def nuclear_gap(
        self, item_features: Any, users: Any, items: Any, ratings: Any, *, sample_weight: Any = None
    ) -> float:
        """The relative duality gap of  min over W of C · loss(W) + ‖W‖_*  at W = U Vᵀ: how far it is from the best.

        ½(‖U‖² + ‖V‖²) is at least the nuclear norm ‖U Vᵀ‖_*, and equal to it at the best U and V of a matrix; so the
        factorised problem with enough columns has the optimum of this convex one. Near 0 the fit is the global optimum;
        far from 0, it stopped early, is another stationary point, or more columns would help. For small data: it takes
        the singular values of a matrix of features by users. Arguments are those of ``fit``.
        """
        check_is_fitted(self)
        X = self._rows(item_features)
        users, items, ratings, weight = counting(users, items, ratings, sample_weight)
        p = self._from_ratings(users, items, ratings, X.shape[0], weight)
        V = self.user_weights_[self._users().known(p.users)]
        return nuclear_gap(X, p, self.basis_, V, self.coef_ if self.shared else None, float(self.C_), self.width_)

    def _learn(
        self, X: Matrix, preferences: Any, watched: Watched | None, draws: Sequence[Draw] = (),
        start: tuple[np.ndarray, np.ndarray, float] | None = None, in_parts: bool = False, clicks: Clicks | None = None,
    ) -> Solution:  # fmt: skip
        """draws: makers of preferences for epochs after the first one, whose items may be others; start: U, V, C;
        in_parts: whether users are where their ratings are; clicks: to be set against all items."""
        self._check_settings()
        if clicks is not None:
            return self._learn_clicks(X, preferences, clicks)
        if self.loss == "squared":
            raise ValueError("loss='squared' is for fit_clicks: use 'squared_hinge' or 'hinge' for ratings and pairs")
        if in_parts:
            return self._learn_parts(X, preferences)
        small, fitted, columns = (X, preferences, None) if draws else in_use(X, preferences)
        threads = asked_threads(self.n_jobs)
        with serial_blas():  # passes run on threads of their own; one BLAS thread repeats exactly
            if start is None:
                U, fixed = self._start(small, fitted.n_users)
                self.C_ = 1.0 if self.C is None else float(self.C)
                if self.C is None:
                    multiple, U = (USUAL_MULTIPLE, U) if draws else self._multiple(small, fitted, U)
                    norm = first_gradient_norm(small.shape[1], FirstGradient(small, fitted).power)
                    self.C_ = self._over(norm, multiple)
                V = start_of_users(fitted.n_users, U.shape[1], fixed)
            else:
                U, fixed, self.C_ = start[0] if columns is None else start[0][columns], int(self.shared), start[2]
                V = np.pad(start[1], ((0, 0), (0, fixed)), constant_values=1.0)
            for draw in draws:
                objective = FactorObjective(small, fitted, self.C_, U.shape[1], threads, fixed, self._width())
                epoch = alternating(LocalUsers(objective, V), U, tol=0.0, max_iter=PER_DRAW)
                U, V, fitted = epoch.w, epoch.extra["V"], draw()
            objective = FactorObjective(small, fitted, self.C_, U.shape[1], threads, fixed, self._width())
            watch = self._watch(small, X if columns is None else X[:, columns], fitted, watched, threads)
            solution = alternating(LocalUsers(objective, V), U, watch=lambda U: watch(U, V), **self._limits())
            self._learn_prior(small, solution.w, solution.extra["V"], fitted, threads)
        return self._keep(X.shape[1], columns, solution, preferences.pairs > 0)

    def _learn_parts(self, X: Matrix, packed: Any) -> Solution:
        small, columns = packed.features(X)
        with serial_blas():
            rows, some = packed.sample(self, small.shape[0])
            U, fixed = self._start(small, packed.n_users)
            self.C_ = 1.0 if self.C is None else float(self.C)
            if self.C is None:
                multiple, U = self._multiple(small, some, U)
                self.C_ = self._over(first_gradient_norm(small.shape[1], packed.power), multiple)
            users = packed.begin(self.C_, U.shape[1], fixed, self._width())
            solution = alternating(
                users, U, watch=lambda U: accuracies((packed.right(U), packed.n_pairs), None, None), **self._limits()
            )
            self._learn_prior(small, solution.w, solution.extra["V"][rows], some, asked_threads(self.n_jobs))
        return self._keep(X.shape[1], columns, solution, packed.pairs > 0)

    def _learn_clicks(self, X: Matrix, drawn: UserPreferences, clicks: Clicks) -> Solution:
        """Every click against every item; drawn: some of these pairs, by which the prior of new users is judged."""
        if self.shared:
            raise ValueError("loss='squared' has no shared function: set shared=False, or take another loss")
        weight = np.ones(len(clicks.items)) if clicks.weight is None else clicks.weight
        if self.pair_weight == "user":
            weight = weight / np.repeat(np.add.reduceat(weight, clicks.start[:-1]) * X.shape[0], np.diff(clicks.start))
        threads, columns = asked_threads(self.n_jobs), columns_in_use(X)
        small = X if columns is None else X[:, columns]
        with serial_blas():
            problem = AllPairs(small, clicks, weight, threads)
            U, _ = self._start(small, len(clicks.users))
            self.C_ = 1.0 if self.C is None else float(self.C)
            if self.C is None:
                multiple, U = click_multiple(small, clicks, weight, U, threads)
                self.C_ = multiple * problem.least_C()
            solution = fit_all_pairs(problem, U, self.C_, **self._limits())
            self._learn_prior(small, solution.w, solution.extra["V"], drawn, threads)
        self.n_pairs_ = len(clicks.items) * (X.shape[0] - 1)
        return self._keep(X.shape[1], columns, solution, np.ones(len(clicks.users), bool))

    def _start(self, X: Matrix, n_users: int) -> tuple[np.ndarray, int]:
        """(U to begin with, by which typical scores are 1; how many of its columns all users share)."""
        k = min(int(self.rank), X.shape[1], n_users)
        U = np.random.default_rng(self.random_state).standard_normal((X.shape[1], k))
        typical = np.sqrt(np.mean(ItemFeatures(X).times(U) ** 2))
        return np.pad(U / (typical if typical > 0 else 1.0), ((0, 0), (0, int(self.shared)))), int(self.shared)

    def _limits(self) -> dict[str, Any]:
        seconds = np.inf if self.max_seconds is None else self.max_seconds
        return {"tol": self.tol, "max_iter": self.max_iter, "max_seconds": seconds, "callback": self.callback}

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
        self._settle_cold(self.user_weights_, self.has_pairs_)
        return solution

    def _natural(self, X: Matrix, preferences: UserPreferences) -> float:
        multiple, _ = self._multiple(X, preferences, self._start(X, preferences.n_users)[0])
        return self._over(first_gradient_norm(X.shape[1], FirstGradient(X, preferences).power), multiple)

    def _over(self, norm: float, multiple: float) -> float:
        """C from ‖∇‖₂ of the squared hinge at 0, which is twice that of the hinge."""
        return multiple / (norm if self.loss == "squared_hinge" else 0.5 * norm)

    def _multiple(self, X: Matrix, fitted: UserPreferences, U: np.ndarray) -> tuple[float, np.ndarray]:
        """(How many times the smallest C at which anything is learnt, by what users said and a fit did not see; that
        fit's basis, to start from). U: where that fit starts."""
        parts = held_back(fitted, self._build(fitted, X.shape[0]))
        if parts is None:
            return USUAL_MULTIPLE, U
        (learnt, whole), fixed, threads = parts, int(self.shared), asked_threads(self.n_jobs)
        norm = first_gradient_norm(X.shape[1], FirstGradient(X, learnt).power)
        V, found = start_of_users(learnt.n_users, U.shape[1], fixed), dict[float, np.ndarray]()
        seen = learnt.judged or learnt

        def right(multiple: float) -> float:
            nonlocal U, V
            C = self._over(norm, multiple)
            objective = FactorObjective(X, learnt, C, U.shape[1], threads, fixed, self._width())
            reached = alternating(LocalUsers(objective, V), U, tol=self.tol, max_iter=TRIED)
            U, V = reached.w, reached.extra["V"]  # where the next one starts
            P, found[multiple] = ItemFeatures(X).times(U), U
            return count_right(P, V, whole, threads)[0] - count_right(P, V, seen, threads)[0]

        chosen = choose_multiple(right, whole.n_pairs - seen.n_pairs)
        return chosen, found[chosen]

    def _build(self, p: UserPreferences, n_items: int) -> Callable[..., UserPreferences]:
        """What makes preferences like `p` of users, items and ratings, or of users, winners and losers."""
        if isinstance(p.known, UserPairs):
            return lambda users, winners, losers: self._from_comparisons(users, winners, losers, n_items, None)
        return lambda users, items, ratings: self._from_ratings(users, items, ratings, n_items)

    def _width(self) -> float:
        """Of the hinge's kink to begin with, 0 for the squared hinge."""
        return WIDEST if self.loss == "hinge" else 0.0

    def _learn_prior(
        self, X: Matrix, U: np.ndarray, V: np.ndarray, fitted: UserPreferences, threads: int | None
    ) -> None:
        """What new users are drawn from, and how much their ratings weigh against it."""
        warm, k = fitted.pairs > 0, U.shape[1] - self.shared
        P, known = ItemFeatures(X).times(U), V[:, :k] if warm.all() or not warm.any() else V[warm, :k]
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
        objective = FactorObjective(X, left, self.C_, U.shape[1], threads, int(self.shared), self._width())
        without = alternating(LocalUsers(objective, V[stay]), U.copy(), tol=0.0, max_iter=FORGETTING)
        P, V = ItemFeatures(X).times(without.w), without.extra["V"][left.pairs > 0, :k]
        P, shared = P[:, :k], P[:, k] if self.shared else None

        mean, root = spread_of_users(V, P, left.item)
        build = self._build(fitted, len(P))
        self.prior_strength_ = learn_strength(P, shared, fitted.take(gone), mean, root, build)

    def _watch(
        self, small: Matrix, X: Matrix, fitted: UserPreferences, watched: Watched | None, threads: int | None
    ) -> Callable[[np.ndarray, np.ndarray], dict[str, float]]:
        """Pair accuracies for the trace: those of training on the `small` features, those watched on all of X."""
        judged = fitted.judged or fitted
        order = None if watched is None else UserIndex(fitted.users).known(watched.preferences.users)

        def watch(U: np.ndarray, V: np.ndarray) -> dict[str, float]:
            found = None
            if watched is not None:
                found = count_right(ItemFeatures(X).times(U), V[order], watched.preferences, threads)
            return accuracies(count_right(ItemFeatures(small).times(U), V, judged, threads), watched, found)

        return watch

    def _check_settings(self) -> None:
        if isinstance(self.rank, bool) or not isinstance(self.rank, Integral) or self.rank < 1:
            raise ValueError(f"rank must be a positive whole number, not {self.rank!r}")
        check_positive(self, *(["tol"] if self.C is None else ["C", "tol"]))
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, not {self.loss!r}")
        if self.shared not in (True, False):
            raise ValueError(f"shared must be True or False, not {self.shared!r}: how much is for MeanVarianceRanker")
        number = isinstance(self.prior, Real) and not isinstance(self.prior, bool) and 0 <= float(self.prior) < np.inf
        if self.prior not in ("users", "zero") and not number:
            raise ValueError(f"prior must be 'users', 'zero' or a number of at least 0, not {self.prior!r}")
        if self.cold_users not in ("mean", "zero"):
            raise ValueError(f"cold_users must be 'mean' or 'zero', not {self.cold_users!r}")
