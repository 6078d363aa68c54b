"""What a basis of ranking functions and users' mixtures of them can do once they are found: rank, and learn new users.

New users are folded in from a few ratings with the basis fixed: a k-dimensional Ranking SVM each, in milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Matrix
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute, Number
from hingerank.personal.fold_in import Prior, fold_in, plain_prior
from hingerank.personal.preferences import UserPreferences, counting
from hingerank.personal.problem import ItemFeatures
from hingerank.personal.rankers import PersonalRanker
from hingerank.personal.users import ids_like


class FactorRanker(PersonalRanker):
    """score(u, x) = <Uᵀx, v_u>, and w·x more where there is a function that all users share."""

    _here_only = ("_rooms",)  # for users to come
    _saved: ClassVar[Mapping[str, Attribute]] = {
        "basis_": Array("columns, rank"),
        "user_weights_": Array("users, rank"),
        "has_pairs_": Array("users", "b"),
        "coef_": Array("columns", needed=False),  # of the function that all users share, if there is one
        "C_": Number(low=0, needed=False),  # this and the following are not in files of version 0.1
        "width_": Number(low=0, needed=False),
        "prior_mean_": Array("rank", none=True, needed=False),
        "prior_root_": Array("rank, rank", needed=False),
        "prior_strength_": Number(low=0, needed=False),
    }
    basis_: np.ndarray
    user_weights_: np.ndarray
    has_pairs_: np.ndarray
    coef_: np.ndarray  # of the function that all users share, if there is one
    C: Any
    C_: float
    width_: float = 0.0  # files of version 0.1 have none
    prior_mean_: np.ndarray | None = None  # files of version 0.1 have none
    prior_root_: np.ndarray
    prior_strength_: float
    loss: str
    shared: bool
    cold_users: str

    def _settle_cold(self, V: np.ndarray, warm: np.ndarray) -> None:
        """Users without a pair would have v = 0 (no opinion); the mean of the others in the model is a better guess."""
        if self.cold_users == "mean" and not warm.all() and self.has_pairs_.any():
            V[~warm] = self._mean_user()

    def _mean_user(self) -> np.ndarray:
        if self.prior_mean_ is not None:
            return self.prior_mean_
        return self.user_weights_[self.has_pairs_ if self.has_pairs_.any() else slice(None)].mean(axis=0)

    def _silent(self) -> np.ndarray:
        return ~self.has_pairs_

    def _shared(self, X: Matrix) -> np.ndarray | None:
        return X @ self.coef_ if self.shared else None

    def _place(self, X: Matrix) -> np.ndarray:
        return ItemFeatures(X).times(self.basis_)

    def _own(self, numbers: np.ndarray) -> np.ndarray:
        own = self.user_weights_[numbers]
        if (numbers < 0).any():
            own[numbers < 0] = self._mean_user()
        return own

    def add_user(
        self, user: Any, features: Any, ratings: Any = None, *, winners: Any = None, losers: Any = None
    ) -> np.ndarray:
        """v_u = v̄ + R z,  z = argmin ½‖z‖² + strength · min(1, n/20) n/pairs · loss_u(X_u U v_u):  a new user.

        v̄ and R Rᵀ are the mean and (to a factor) the covariance of the fitted users' weights: ratings that say nothing
        leave the mean user, and a few move it a little; the loss is the squared hinge here, whatever that of ``fit``.
        With ``prior="zero"``, ½‖v‖² + C · loss_u(X_u U v): the same data then give what ``fit`` would have given with
        this basis.

        Parameters
        ----------
        user : an id
        features : a row for each item that the user rated or compared
        ratings : one for each row of features
        winners, losers : instead of ratings comparisons, as row numbers of features
        """
        self._add([user], *self._about_one(features, ratings, winners, losers), replace=False)
        return self.user_weights_[-1].copy()

    def add_users(
        self, users: Any, item_features: Any, items: Any = None, ratings: Any = None, *, winners: Any = None,
        losers: Any = None, sample_weight: Any = None, replace: bool = False,
    ) -> Self:  # fmt: skip
        """Learn many users at once, as ``add_user`` learns one.

        Parameters
        ----------
        users, item_features, items, ratings : as in ``fit``
        winners, losers : instead of items and ratings comparisons, as in ``fit_pairs``
        sample_weight : how much each rating or comparison counts, as in ``fit`` and ``fit_pairs``
        replace : users known already get new weights from these data alone; otherwise they are an error
        """
        check_is_fitted(self)
        X = self._rows(item_features)
        if ratings is not None:
            users, items, ratings, weight = counting(users, items, ratings, sample_weight)
            preferences = self._from_ratings(users, items, ratings, X.shape[0], weight)
        elif winners is not None and losers is not None:
            preferences = self._from_comparisons(users, winners, losers, X.shape[0], sample_weight)
        else:
            raise ValueError("give either items and ratings, or winners and losers")
        return self._add(preferences.users, X, preferences, replace)

    def update_user(
        self, user: Any, features: Any, ratings: Any = None, *, winners: Any = None, losers: Any = None
    ) -> np.ndarray:
        """As ``add_user``, with the weights so far in the place of v̄:  more about a known user.

        The weights so far are the prior and stand in for the ratings they came from. To start a user afresh from all
        ratings use ``add_users(..., replace=True)``. Arguments and answer are those of ``add_user``.
        """
        check_is_fitted(self)
        number = int(self._users().known([user])[0])
        X, preferences = self._about_one(features, ratings, winners, losers)
        prior = self.user_weights_[number].copy()
        self.user_weights_[number] = self._fold_in(X, preferences, prior)[0]
        self.has_pairs_[number] |= bool(preferences.pairs[0] > 0)
        return self.user_weights_[number].copy()

    def new_users(self) -> dict[str, Any]:
        """The prior of new users as plain lists, for ``hingerank.personal.serving.new_user`` in other programs."""
        check_is_fitted(self)
        if self.prior_mean_ is None:
            raise ValueError("this model has no prior of new users: fit it with prior='users' or a number")
        mean, root = self.prior_mean_.tolist(), self.prior_root_.tolist()
        return {"mean": mean, "root": root, "strength": self.prior_strength_}

    def _about_one(self, features: Any, ratings: Any, winners: Any, losers: Any) -> tuple[Matrix, UserPreferences]:
        check_is_fitted(self)
        X = self._rows(features)
        if ratings is not None:
            return X, self._from_ratings(np.zeros(X.shape[0], np.int8), np.arange(X.shape[0]), ratings, X.shape[0])
        if winners is None or losers is None:
            raise ValueError("give ratings (one for each row of features), or winners and losers (rows of features)")
        return X, self._from_comparisons(np.zeros(len(winners), np.int8), winners, losers, X.shape[0], None)

    def _fold_in(self, X: Matrix, p: UserPreferences, known: np.ndarray | None = None) -> np.ndarray:
        """The weights of the users of `p`: drawn from the fitted ones, or from around `known` weights."""
        if self.prior_mean_ is None:
            centre = np.zeros(self.basis_.shape[1]) if known is None else known
            prior = plain_prior(centre, float(self.C_), self.loss == "hinge")
        else:
            prior = Prior(self.prior_mean_ if known is None else known, self.prior_root_, self.prior_strength_)
        return fold_in(ItemFeatures(X).times(self.basis_), self._shared(X), p, prior)

    def _add(self, users: Any, X: Matrix, preferences: UserPreferences, replace: bool) -> Self:
        numbers = self._users().numbers(users)
        if not replace and numbers.max() >= 0:
            user = np.asarray(users)[numbers >= 0].tolist()[0]
            raise DataError(f"user {user!r} is known already: use update_user, or add_users(..., replace=True)")
        return self._put(users, self._fold_in(X, preferences), preferences.pairs > 0)

    def _put(self, users: Any, V: np.ndarray, warm: np.ndarray) -> Self:
        """Give users these weights, known ones in the place of theirs; warm: who has a pair."""
        index = self._users()
        numbers = index.numbers(users)
        self._settle_cold(V, warm)
        old, new = numbers >= 0, numbers < 0
        self.user_weights_[numbers[old]], self.has_pairs_[numbers[old]] = V[old], warm[old]
        ids = np.empty(len(users), object)
        ids[:] = list(users)
        self._append("user_weights_", V[new])
        self._append("has_pairs_", warm[new])
        first, more = len(self.users_), ids_like(self.users_, ids[new])
        self._append("users_", more)
        index.add(more, first)
        return self

    def _append(self, name: str, rows: np.ndarray) -> None:
        """Put rows behind those of an attribute, in spare room that grows by half when it is used up."""
        array, rooms = getattr(self, name), self.__dict__.setdefault("_rooms", {})
        n, total = len(array), len(array) + len(rows)
        room, filled = rooms.get(name, (None, 0))
        dtype = np.result_type(array, rows) if rows.dtype.kind != "O" else rows.dtype
        if room is None or array.base is not room or filled != n or len(room) < total or room.dtype != dtype:
            room = np.empty((max(total + 16, 3 * n // 2), *array.shape[1:]), dtype)
            room[:n] = array
        room[n:total] = rows
        rooms[name] = (room, total)
        setattr(self, name, room[:total])

    def basis_table(
        self, feature_names: Sequence[str] | None = None, top: int = 25
    ) -> list[dict[str, list[tuple[str, float]]]]:
        """For each basic ranking function its most positive and most negative features with their weights.

        The functions come strongest first; the sign of a function is arbitrary (users may weigh it negatively), so it
        is turned to make its users' weights positive on average.

        Parameters
        ----------
        feature_names : of the item features, default those seen in ``fit``, else f1, f2, ...
            A feature map of scikit-learn makes its own of them; those of kernels number their outputs.
        top : features of each sign
        """
        check_is_fitted(self)
        names = self._column_names(feature_names)
        signs, table = np.where(self.user_weights_.mean(axis=0) < 0, -1.0, 1.0), []
        for column in (self.basis_ * signs).T:
            order = np.argsort(-column, kind="stable")
            best = [(str(names[j]), float(column[j])) for j in order[:top] if column[j] > 0]
            worst = [(str(names[j]), float(column[j])) for j in order[::-1][:top] if column[j] < 0]
            table.append({"positive": best, "negative": worst})
        return table

    def _check_together(self, sizes: Mapping[str, int]) -> None:
        super()._check_together(sizes)
        needed = ["coef_"] if self.shared else []
        needed += [] if self.prior_mean_ is None else ["prior_root_", "prior_strength_"]
        for name in needed:
            if name not in vars(self):
                raise ValueError(f"{name} is missing, which this model needs")

    def _derive(self) -> None:
        if "C_" not in vars(self):  # a file of version 0.1
            self.C_, self.prior_mean_ = self.C, None
