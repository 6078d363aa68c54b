"""New users from a few ratings, with the basis fixed: a k-dimensional Ranking SVM each, in milliseconds."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hingerank.data.files import DataError
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.passes import users_step
from hingerank.personal.preferences import UserPreferences
from hingerank.personal.problem import ItemFeatures
from hingerank.rankers.base import check_features

STEPS, LEFT = 50, 1e-6  # Newton steps at most, share of the first gradient that may be left
ROWS_PER_SHARD = 4096


class FoldIn:
    """v_u = argmin over v of  ½‖v - prior‖² + C · loss_u(X_u (U v + w))  with the fitted U, and w if there is one."""

    def add_user(
        self: Any, user: Any, features: Any, ratings: Any = None, *, winners: Any = None, losers: Any = None
    ) -> np.ndarray:
        """Learn a new user from a few ratings or comparisons; returns the user's weights.

        features: of the items the user rated or compared. ratings: one for each of these; or winners and losers: row
        numbers of `features`. Prior 0, so that the same data give what `fit` would have given with this basis.
        """
        self._add([user], *self._about_one(features, ratings, winners, losers), replace=False)
        return self.user_weights_[-1].copy()

    def add_users(
        self: Any, users: Any, item_features: Any, items: Any = None, ratings: Any = None, *, winners: Any = None,
        losers: Any = None, replace: bool = False,
    ) -> Any:  # fmt: skip
        """Learn many users at once; arguments as in `fit` (users, items, ratings) or `fit_pairs` (winners, losers).

        replace: users known already get new weights from these data alone; otherwise they are an error.
        """
        check_is_fitted(self)
        X = check_features(self, item_features, reset=False)
        if ratings is not None:
            preferences = self._from_ratings(users, items, ratings, X.shape[0])
        elif winners is not None and losers is not None:
            preferences = self._from_comparisons(users, winners, losers, X.shape[0], None)
        else:
            raise ValueError("give either items and ratings, or winners and losers")
        return self._add(preferences.users, X, preferences, replace)

    def update_user(
        self: Any, user: Any, features: Any, ratings: Any = None, *, winners: Any = None, losers: Any = None
    ) -> np.ndarray:
        """Learn more about a known user; arguments as in `add_user`. Returns the user's weights.

        The weights so far are the prior and stand in for the ratings they came from. To start a user afresh from all
        ratings use ``add_users(..., replace=True)``.
        """
        check_is_fitted(self)
        number = int(self._users().known([user])[0])
        X, preferences = self._about_one(features, ratings, winners, losers)
        prior = self.user_weights_[number].copy()
        self.user_weights_[number] = self._solve(X, preferences, prior)[0]
        self.has_pairs_[number] |= bool(preferences.pairs[0] > 0)
        return self.user_weights_[number].copy()

    def _about_one(self: Any, features, ratings, winners, losers) -> tuple[Any, UserPreferences]:
        check_is_fitted(self)
        X = check_features(self, features, reset=False)
        if ratings is not None:
            return X, self._from_ratings(np.zeros(X.shape[0], np.int8), np.arange(X.shape[0]), ratings, X.shape[0])
        if winners is None or losers is None:
            raise ValueError("give ratings (one for each row of features), or winners and losers (rows of features)")
        return X, self._from_comparisons(np.zeros(len(winners), np.int8), winners, losers, X.shape[0], None)

    def _solve(self: Any, X: Any, preferences: UserPreferences, prior: np.ndarray) -> np.ndarray:
        """The weights of the preferences' users, each started from and held to the prior."""
        functions, start, p, C = self.basis_, prior, preferences, float(self.C)
        if self.shared:
            functions, start = np.column_stack([functions, self.coef_]), np.append(prior, 1.0)
        P, V, scores = ItemFeatures(X).times(functions), np.tile(start, (p.n_users, 1)), np.empty(p.n_rows, np.float32)
        unused = np.empty((0, len(start))), np.empty(0), np.empty(0)
        run_shards(
            lambda ab: users_step(
                P, V, *ab, p.start, p.item, p.known, C, prior, LEFT, 0.0, STEPS, p.sizes, scores, *unused
            ),
            cut_shards(p.start, ROWS_PER_SHARD),
        )
        return V[:, : len(prior)]

    def _add(self: Any, users: Any, X: Any, preferences: UserPreferences, replace: bool) -> Any:
        index = self._users()
        numbers = index.numbers(users)
        if not replace and numbers.max() >= 0:
            user = np.asarray(users)[numbers >= 0].tolist()[0]
            raise DataError(f"user {user!r} is known already: use update_user, or add_users(..., replace=True)")
        V, warm = self._solve(X, preferences, np.zeros(self.basis_.shape[1])), preferences.pairs > 0
        if self.cold_users == "mean" and not warm.all() and self.has_pairs_.any():
            V[~warm] = self.user_weights_[self.has_pairs_].mean(axis=0)
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

    def _append(self: Any, name: str, rows: np.ndarray) -> None:
        """Put rows behind those of an attribute, in spare room that doubles when it is used up."""
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


def ids_like(known: np.ndarray, new: np.ndarray) -> np.ndarray:
    """New ids (objects) in the type of those known if they are of its kind, else as objects."""
    plain = np.asarray(new.tolist()) if len(new) else known[:0]
    whole = {"i": "iu", "u": "iu"}.get(known.dtype.kind, known.dtype.kind if known.dtype.kind in "UfSMm" else "")
    return plain if plain.ndim == 1 and plain.dtype.kind in whole else new
