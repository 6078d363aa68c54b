"""Rankers with a basis of ranking functions and a mixture of them for every user: ranking, and adding new users.

A new user is added from a few ratings with the basis fixed: a k-dimensional Ranking SVM, which takes milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Column, Matrix, PerRow, RowsLike
from hingerank.data.blocks import check_ids
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute, Number
from hingerank.personal.alternating import item_vectors
from hingerank.personal.catalogue import ADD_USER, ids_like
from hingerank.personal.fold_in import NARROWING, Prior, fold_in
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.rankers import PersonalRanker


class FactorRanker(PersonalRanker):
    """score(u, x) = <Uᵀx, v_u>, plus w·x if there is a function that all users share."""

    _here_only = ("_rooms",)  # spare rows for new users
    _cure: str | None = ADD_USER
    _saved: ClassVar[Mapping[str, Attribute]] = {
        "basis_": Array("columns, rank"),
        "user_weights_": Array("users, rank"),
        "has_pairs_": Array("users", "b"),
        "coef_": Array("columns", needed=False),  # w of the function that all users share, if there is one
        "C_": Number(low=0, needed=False),  # this attribute and the next ones are not in files of version 0.1
        "width_": Number(low=0, needed=False),
        "prior_mean_": Array("rank", none=True, needed=False),
        "prior_root_": Array("rank, rank", needed=False),
        "prior_strength_": Number(low=0, needed=False),
    }
    basis_: np.ndarray
    user_weights_: np.ndarray
    has_pairs_: np.ndarray
    coef_: np.ndarray  # w of the function that all users share, if there is one
    C_: float
    width_: float = 0.0  # files of version 0.1 have none
    prior_mean_: np.ndarray | None = None  # files of version 0.1 have none
    prior_root_: np.ndarray
    prior_strength_: float
    loss: str
    shared: bool
    cold_users: str

    def _settle_cold(self, V: np.ndarray, warm: np.ndarray) -> None:
        """Give users without a pair the mean weights of the others; otherwise their weights would be 0."""
        if self.cold_users == "mean" and not warm.all() and self.has_pairs_.any():
            V[~warm] = self._mean_user()

    def _mean_user(self) -> np.ndarray:
        if self.prior_mean_ is not None:
            return self.prior_mean_
        return self.user_weights_[self.has_pairs_ if self.has_pairs_.any() else slice(None)].mean(axis=0)

    def _without_pairs(self) -> np.ndarray:
        return ~self.has_pairs_

    @property
    def _cold(self) -> str:  # type: ignore[override]
        if self.cold_users == "mean":
            return super()._cold
        return "the list that all users share" if self.shared else "a list in which all items tie"

    def _shared(self, X: Matrix) -> np.ndarray | None:
        return X @ self.coef_ if self.shared else None

    def _item_vectors(self, X: Matrix) -> np.ndarray:
        return item_vectors(X, self.basis_)

    def _user_vectors(self, numbers: np.ndarray) -> np.ndarray:
        own = self.user_weights_[numbers]
        if (numbers < 0).any():
            own[numbers < 0] = self._mean_user()
        return own

    def add_user(
        self, user: object, features: RowsLike, ratings: PerRow = None, *, winners: PerRow = None, losers: PerRow = None
    ) -> np.ndarray:
        """Add a user from a few ratings or comparisons, and return the user's weights v_u.

        v_u = v̄ + R z,  z = argmin ½‖z‖² + strength · min(1, n/20) n/pairs · loss_u(X_u U v_u)

        for n ratings. v̄ is the mean of the fitted users' weights, and R Rᵀ their covariance up to a factor. So a user
        whose ratings are all equal gets the mean weights, and a few ratings change them a little. The loss is the
        squared hinge, whatever the loss of ``fit``. With ``prior="zero"`` the objective is ½‖v‖² + C · loss_u(X_u U v),
        and the weights are those that ``fit`` finds for this data and basis.

        Parameters
        ----------
        user : an id
        features : a row for each item that the user rated or compared
        ratings : one for each row of features
        winners, losers : comparisons instead of ratings, as row numbers of features
        """
        self._add([user], *self._given(None, features, None, ratings, winners, losers), replace=False)
        return self.user_weights_[-1].copy()

    def add_users(
        self, users: Column, item_features: RowsLike, items: PerRow = None, ratings: PerRow = None, *,
        winners: PerRow = None, losers: PerRow = None, sample_weight: PerRow = None, replace: bool = False,
    ) -> Self:  # fmt: skip
        """Add many users at once, as ``add_user`` adds one.

        Parameters
        ----------
        users, item_features, items, ratings : as in ``fit``
        winners, losers : comparisons instead of items and ratings, as in ``fit_pairs``
        sample_weight : the weight of each rating or comparison, as in ``fit`` and ``fit_pairs``
        replace : give users of the model new weights from this data alone; otherwise they are an error
        """
        X, preferences = self._given(users, item_features, items, ratings, winners, losers, sample_weight)
        return self._add(preferences.users, X, preferences, replace)

    def update_user(
        self, user: object, features: RowsLike, ratings: PerRow = None, *, winners: PerRow = None, losers: PerRow = None
    ) -> np.ndarray:
        """Update a known user with more data: as ``add_user``, with the present weights as the prior mean.

        The present weights stand for the ratings that they came from, so give new ratings only. To learn a user again
        from all ratings, use ``add_users(..., replace=True)``. Arguments and result are those of ``add_user``.
        """
        check_is_fitted(self)
        number = int(self._index.known([user])[0])
        X, preferences = self._given(None, features, None, ratings, winners, losers)
        prior = self.user_weights_[number].copy()
        self.user_weights_[number] = self._fold_in(X, preferences, prior)[0]
        self.has_pairs_[number] |= bool(preferences.pairs[0] > 0)
        return self.user_weights_[number].copy()

    def new_users(self) -> dict[str, Any]:
        """Return the prior of new users as plain lists, for ``hingerank.personal.serving.new_user`` elsewhere."""
        check_is_fitted(self)
        if self.prior_mean_ is None:
            raise ValueError("this model has no prior of new users: fit it with prior='users' or a number")
        mean, root = self.prior_mean_.tolist(), self.prior_root_.tolist()
        return {"mean": mean, "root": root, "strength": self.prior_strength_}

    def _given(
        self, users: Column, features: RowsLike, items: Column, ratings: Column, winners: Column, losers: Column,
        weight: PerRow = None,
    ) -> tuple[Matrix, UserPreferences]:  # fmt: skip
        """Return the item features, and what these users say of them; users: None for one; items: None for all rows."""
        check_is_fitted(self)
        X, pairs = self._rows(features), ratings is None
        if {winners is not None, losers is not None} != {pairs} or (pairs and items is not None):
            raise ValueError("give either ratings of items, or winners and losers (rows of features)")
        first, second = (winners, losers) if pairs else (np.arange(X.shape[0]) if items is None else items, ratings)
        users = np.zeros(len(first), np.int8) if users is None else users
        return X, self._known(users, first, second, X.shape[0], weight, pairs)

    def _fold_in(
        self, X: Matrix, p: UserPreferences, known: np.ndarray | None = None, as_fitted: bool = False
    ) -> np.ndarray:
        """Return the weights of the users of `p`, with the prior of new users, or one around `known` weights.

        as_fitted, or without such a prior: they minimise ½‖v - known‖² + C · loss, the objective of a fit (known is 0).
        """
        if as_fitted or self.prior_mean_ is None:
            k, widths = self.basis_.shape[1], NARROWING if self.loss == "hinge" else (0.0,)
            centre = np.zeros(k) if known is None else known
            prior = Prior(centre, np.eye(k), float(self.C_), by_rating=False, widths=widths)
        else:
            prior = Prior(self.prior_mean_ if known is None else known, self.prior_root_, self.prior_strength_)
        return fold_in(self._item_vectors(X), self._shared(X), p, prior)

    def _add(self, users: Column, X: Matrix, preferences: UserPreferences, replace: bool) -> Self:
        users = check_ids(users, len(users), "users")
        numbers = self._index.numbers(users)
        if not replace and numbers.max() >= 0:
            user = users[numbers >= 0].tolist()[0]
            raise DataError(f"user {user!r} is known already: use update_user, or add_users(..., replace=True)")
        return self._put(users, self._fold_in(X, preferences), preferences.pairs > 0)

    def _put(self, users: Column, V: np.ndarray, warm: np.ndarray) -> Self:
        """Store weights of users, and replace those of known users; warm: who has a pair."""
        index = self._index
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
        """Append rows to an attribute, in spare memory that grows by half when it is full."""
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
        """Return the most positive and most negative features of each basic ranking function, with their weights.

        The strongest function is first. The sign of a function is arbitrary, since users may have negative weights for
        it. Here the mean of its users' weights is made positive.

        Parameters
        ----------
        feature_names : of the item features, default those seen in ``fit``, else f1, f2, ...
            A feature map of scikit-learn derives its own names from them; kernel maps number their outputs.
        top : number of features of each sign
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
