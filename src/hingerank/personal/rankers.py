"""What every ranker with one ranking function per user shares: inputs, predictions, lists of the best, model files."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hingerank.data.checks import positive, whole
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute, Ids, Mapped, Number, Of, Size
from hingerank.export.forms import ExportError
from hingerank.export.model_file import SavedModel
from hingerank.features.maps import FeatureMap
from hingerank.features.named_maps import feature_map
from hingerank.kernels.threads import cut_shards, run_shards
from hingerank.personal.losses import packed
from hingerank.personal.passes import top_rows, users_right
from hingerank.personal.preferences import (
    REPEATED,
    UserPreferences,
    check_items,
    counting,
    from_comparisons,
    from_ratings,
)
from hingerank.personal.problem import column_scales, scaled
from hingerank.personal.products import all_products, row_products
from hingerank.personal.top_lists import SCORES_AT_ONCE, hidden_items, top_lists
from hingerank.personal.users import UserIndex, ids_from_plain, plain_ids
from hingerank.rankers.base import Absent, keep_account
from hingerank.rankers.inputs import check_features, names_of_features, warn_weak
from hingerank.renaming import renamed
from hingerank.solvers.run import Certificate, Solution

SCALES = ("standard", None)
SMALLEST_SCALE = float(np.finfo(np.float64).tiny)  # columns are divided by it


@dataclass(frozen=True)
class Watched:
    """Preferences whose accuracy goes into the trace; with_training: the pairs of training are among theirs."""

    preferences: UserPreferences
    with_training: bool


class PersonalRanker(SavedModel, BaseEstimator):
    """score(u, x) = shared(x) + <place(x), own(u)>: higher comes first in the list of user u.

    A ranker defines `_learn`, and where they apply `_shared`, `_place` and `_own`.
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "n_features_in_": Size("features", also="columns"),
        "feature_names_in_": Ids("features", texts=True, needed=False),
        "users_": Ids("users", least=1),
        "item_centre_": Array("features", none=True, needed=False),
        "item_scale_": Array("features", low=SMALLEST_SCALE, none=True, needed=False),
        "features_": Mapped(none=True, needed=False),
        "n_iter_": Number(low=0, whole=True, needed=False),
        "n_pairs_": Number(low=0, whole=True, needed=False),
        "notes_": Of(dict, needed=False),
        "objective_": Number(finite=False, needed=False),
        "certificate_": Of(Certificate),
        "trace_": Of(dict, listed=True, needed=False),
    }
    fit_clicks: Any = Absent("it learns from ratings. PersonalRankSVM and EASE learn from clicks")
    users_: np.ndarray
    item_centre_: np.ndarray | None = None  # files of version 0.2 have none
    item_scale_: np.ndarray | None = None
    features: Any = None  # a map of the scaled item features, for rankers that take one
    features_: FeatureMap | None = None
    pair_weight: str = "uniform"
    scale: str | None

    def fit(
        self, item_features: Any, users: Any, items: Any, ratings: Any, *, sample_weight: Any = None,
        eval_set: Any = None,
    ) -> Self:  # fmt: skip
        """Learn from ratings: a user prefers an item to every item that the user rated lower.

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        users : who gave each rating, ids of any type
        items : the rated items, as row numbers of item_features
        ratings : finite numbers
        sample_weight : how much each rating counts, default 1, such as ``hr.age_weights(times, half_life)``
            The pair of ratings i and j counts w_i w_j: 2 acts as the rating standing there twice, 0 as its absence.
        eval_set : (users, items, ratings) to watch
            ``trace_`` then has the fraction of pairs ordered right among those with at least one of these ratings, the
            other possibly from the training ratings (the paper's test accuracy).
        """
        X = self._rows(item_features, reset=True)
        users, items, ratings, weight = counting(users, items, ratings, sample_weight)
        preferences = self._from_ratings(users, items, ratings, X.shape[0], weight)
        watched = None
        if eval_set is not None:
            joined = joined_ratings((users, items, ratings), eval_set, preferences, X.shape[0], "eval_set")
            if joined.n_users > preferences.n_users:
                user = joined.users[preferences.n_users :].tolist()[0]
                raise DataError(f"eval_set has users without training ratings, such as {user!r}: leave them out")
            watched = Watched(joined, with_training=True)
        return self._fit(X, preferences, watched)

    @renamed
    def fit_pairs(
        self, item_features: Any, users: Any, winners: Any, losers: Any, sample_weight: Any = None, *,
        eval_set: Any = None,
    ) -> Self:  # fmt: skip
        """Learn from comparisons: user users[e] prefers item winners[e] to item losers[e].

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        users : who made each comparison, ids of any type
        winners, losers : row numbers of item_features
        sample_weight : how much each comparison counts, default 1
        eval_set : (users, winners, losers) to watch in ``trace_``
        """
        X = self._rows(item_features, reset=True)
        preferences = self._from_comparisons(users, winners, losers, X.shape[0], sample_weight)
        watched = None
        if eval_set is not None:
            u, i, j = eval_set
            watched = Watched(from_comparisons(u, i, j, X.shape[0]), with_training=False)
        return self._fit(X, preferences, watched)

    def _rows(self, features: Any, reset: bool = False) -> Any:
        """Checked features on the scale, and through the map, that a fit found (reset: that this one finds)."""
        X = check_features(self, features, reset=reset)
        if reset:
            if self.scale not in SCALES:
                raise ValueError(f"scale must be {' or '.join(map(repr, SCALES))}, not {self.scale!r}")
            found = column_scales(X) if self.scale == "standard" else None
            self.item_centre_, self.item_scale_ = (None, None) if found is None else found
        if self.item_centre_ is not None and self.item_scale_ is not None:
            X = scaled(X, self.item_centre_, self.item_scale_)
        if reset:
            self.features_ = None if self.features is None else feature_map(self.features).fit(X)
        return X if self.features_ is None else self.features_.transform(X)

    def _column_names(self, given: Sequence[str] | None = None) -> Sequence[str]:
        """Of the columns of `_rows`, which weights are of; given: names of the features, default those of the fit."""
        names = names_of_features(self, self.n_features_in_, given)
        return names if self.features_ is None else self.features_.names(names)

    def _from_ratings(self, users: Any, items: Any, ratings: Any, n_items: int, weight: Any = None) -> UserPreferences:
        return from_ratings(users, items, ratings, n_items, self.pair_weight, weight)

    def _from_comparisons(self, users: Any, winners: Any, losers: Any, n_items: int, weight: Any) -> UserPreferences:
        return from_comparisons(users, winners, losers, n_items, weight, self.pair_weight)

    def _fit(self, X: Any, preferences: UserPreferences, watched: Watched | None, **how: Any) -> Self:
        self.users_, self.n_pairs_ = preferences.users, preferences.n_pairs
        self.__dict__.pop("_index", None)  # of an earlier fit
        cold, bare = int((preferences.pairs == 0).sum()), _rows_without_features(X)
        self.notes_ = preferences.notes | {"users without a pair": cold, "items whose features are all 0": bare}
        dropped = preferences.notes.get(REPEATED, 0)
        if dropped:
            warnings.warn(
                f"{dropped} ratings repeat an item of the same user: their mean counts",
                stacklevel=3,
            )
        if cold == preferences.n_users:
            warnings.warn(
                "there are no preference pairs (every user gave all items the same rating), so no one prefers "
                "anything: if these are clicks or purchases use PersonalRankSVM.fit_clicks, which needs no ratings",
                stacklevel=3,
            )
        solution = self._learn(X, preferences, watched, **how)
        keep_account(self, solution)
        warn_weak(self, "C", solution)
        return self

    def _learn(self, X: Any, preferences: UserPreferences, watched: Watched | None) -> Solution:
        """Find and keep the weights; accuracies go into the trace."""
        raise NotImplementedError

    def natural_C(self, item_features: Any, users: Any, items: Any, ratings: Any) -> float:
        """The C that a fit to these data takes where C is None; arguments as in ``fit``."""
        X = self._rows(item_features, reset=True)
        return self._natural(X, self._from_ratings(users, items, ratings, X.shape[0]))

    def _natural(self, X: Any, preferences: UserPreferences) -> float:
        raise NotImplementedError

    def _rating_folds(self, data: Any, measure: str, **options: Any) -> Any:
        """What `hingerank.tune` tries settings on."""
        from hingerank.personal.rating_folds import RatingFolds

        return RatingFolds(data, measure, **options)

    def _usual_measure(self) -> str:
        """What `hingerank.tune` judges settings by by default."""
        return "ndcg@10"

    def _shared(self, X: Any) -> np.ndarray | None:
        """The part of the score that all users share."""
        return None

    def _place(self, X: Any) -> Any:
        """What a user's own vector is multiplied with, by rows of X; None if users have no vectors."""
        return None

    def _own(self, numbers: np.ndarray) -> Any:
        """The vectors of users, as rows; -1 is the mean user."""
        raise NotImplementedError

    def predict(self, users: Any, features: Any, *, unknown: str = "error") -> np.ndarray:
        """One score per row: that of features[r] for user users[r].

        Scores of one user compare; scores of different users do not.

        Parameters
        ----------
        users : ids; one alone stands for all rows
        features : of items, which need not have been seen in ``fit``
        unknown : "error", or "mean": users that the model does not know have the scores of the mean user
        """
        check_is_fitted(self)
        X = self._rows(features)
        self._check_rows(users, X.shape[0])
        return self._scores(X, self._asked(users, unknown, X.shape[0]))

    def _asked(self, users: Any, unknown: str, n_rows: int | None = None) -> np.ndarray:
        """The number of each user, -1 for the mean user."""
        if unknown not in ("error", "mean"):
            raise ValueError(f"unknown must be 'error' or 'mean', not {unknown!r}")
        return self._numbers(users, n_rows) if unknown == "error" else self._users().numbers(users, n_rows)

    def _silent(self) -> np.ndarray:
        """Which users said nothing to learn from, so that they rank as the mean user does."""
        return np.zeros(len(self.users_), bool)

    def _numbers(self, users: Any, n_rows: int | None = None) -> np.ndarray:
        """The number of each user; rankers that can rank for anybody have -1 for those they do not know."""
        return self._users().known(users, n_rows)

    @staticmethod
    def _check_rows(users: Any, n_rows: int) -> None:
        """Users and rows must go together; a likely reason why they do not is that all items were passed."""
        several = not isinstance(users, str | bytes) and np.ndim(users) == 1
        if several and len(users) not in (1, n_rows):
            raise DataError(
                f"{len(users)} users but {n_rows} rows of features: one score is given for each pair, so pass "
                "X[items], a row for each user (or one user alone for all rows)"
            )

    def rank(self, user: Any, candidates: Any, top: int | None = None, *, unknown: str = "error") -> np.ndarray:
        """Rows of the candidates, best first for this user; equal scores keep their order.

        Parameters
        ----------
        user : an id
        candidates : features of the items to put in order
        top : only so many, default all
        unknown : as in ``predict``
        """
        return self._order(user, candidates, top, unknown)

    def _order(self, user: Any, candidates: Any, top: int | None = None, unknown: str = "error") -> np.ndarray:
        order = np.argsort(-self.predict(user, candidates, unknown=unknown), kind="stable")
        return order if top is None else order[: whole("top", top)]

    def top_k(
        self, users: Any, candidates: Any, top: int = 10, *, exclude: tuple[Any, Any] | None = None,
        unknown: str = "error",
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """The best candidates of every user: (rows, scores), one line per user, best first.

        Users go in blocks: users x candidates is never held.

        Parameters
        ----------
        users : ids
        candidates : features of the items to choose from
        top : candidates for each user; where too few are left the row is -1
        exclude : (users, rows) not to be offered, such as what each user has rated already
        unknown : as in ``predict``
        """
        check_is_fitted(self)
        X, top = self._rows(candidates), whole("top", top)
        numbers = self._asked(users, unknown)
        place, shared = self._place(X), self._shared(X)

        def scores(block: slice) -> np.ndarray:
            mine = numbers[block]
            S = np.zeros((len(mine), X.shape[0])) if place is None else all_products(self._own(mine), place)
            return S if shared is None else S + shared

        hidden = hidden_items(exclude, users, X.shape[0])
        return top_lists(scores, len(numbers), X.shape[0], top, hidden)

    def similar_items(self, items: Any, candidates: Any, top: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """cosine(i, j) = <z_i, z_j> / (‖z_i‖ ‖z_j‖), z what users' vectors are multiplied with: (rows, cosines).

        Items are similar where the same users like them, as far as the model knows: for ``PersonalRankSVM`` z_i is
        Uᵀx_i, for ``EASE`` the item's column of weights. One line per item, most similar first, without itself.

        Parameters
        ----------
        items : row numbers of candidates
        candidates : features of the items to choose from
        top : candidates for each item; where too few are left the row is -1
        """
        check_is_fitted(self)
        X, top = self._rows(candidates), whole("top", top)
        wanted, place = check_items(items, X.shape[0], "items"), self._place(X)
        if place is None:
            raise ValueError(f"{type(self).__name__} has one list for all users, which says nothing of similar items")
        Z = np.asarray(place.toarray() if sp.issparse(place) else place, np.float64)
        Z = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        rows, values = np.empty((len(wanted), top), np.int64), np.empty((len(wanted), top))
        step = max(1, SCORES_AT_ONCE // max(1, len(Z)))
        for a in range(0, len(wanted), step):
            block = wanted[a : a + step]
            S = np.ascontiguousarray(Z[block] @ Z.T)
            S[np.arange(len(block)), block] = -np.inf
            top_rows(S, 0, len(block), rows[a : a + step], values[a : a + step])
        return rows, values

    def score(self, item_features: Any, users: Any, items: Any, ratings: Any, *, against: Any = None) -> float:
        """The fraction of pairs of differently rated items that are ordered right; equal scores count one half.

        All users' pairs count alike.

        Parameters
        ----------
        item_features, users, items, ratings : as in ``fit``
        against : (users, items, ratings), usually those of training
            Pairs of one of these with one of the others count too, as in the paper (its test accuracy: test-test and
            test-train pairs).
        """
        check_is_fitted(self)
        X = self._rows(item_features)
        if against is None:
            right, pairs = self._right(X, from_ratings(users, items, ratings, X.shape[0]))
        else:
            others = from_ratings(against[0], against[1], against[2], X.shape[0])
            joined = joined_ratings(against, (users, items, ratings), others, X.shape[0], "against")
            (right, pairs), (known, settled) = self._right(X, joined), self._right(X, others)
            right, pairs = right - known, pairs - settled
        if pairs == 0:
            raise DataError("no user rated two items differently, so there is no pair to judge")
        return right / pairs

    def _right(self, X: Any, p: UserPreferences) -> tuple[float, int]:
        """Pairs in the right order, and all pairs."""
        numbers = np.repeat(self._numbers(p.users), np.diff(p.start))
        scores, shards = self._scores(X, numbers, p.item), cut_shards(p.start, 1 << 14)
        known, rows = packed(p.known), (scores[:, None], np.ones((p.n_users, 1)))
        item = np.arange(p.n_rows, dtype=np.int32)  # every row an item of its own
        parts = run_shards(lambda ab: users_right(*rows, *ab, p.start, item, known, p.sizes), shards)
        return float(sum(parts)), p.n_pairs

    def _scores(self, X: Any, numbers: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """The score for user numbers[r] of row rows[r] of X (row r if None); each row of X is used once."""
        place, shared, out = self._place(X), self._shared(X), np.zeros(len(numbers))
        if shared is not None:
            out += shared if rows is None else shared[rows]
        if place is not None:
            step = max(1, SCORES_AT_ONCE // max(1, place.shape[1]))
            for a in range(0, len(out), step):
                part = slice(a, a + step)
                out[part] += row_products(place[part if rows is None else rows[part]], self._own(numbers[part]))
        return out

    def _form(self) -> Any:
        raise ExportError(f"{type(self).__name__} has a function for each user: use to='vectors'")

    def _vectors(self, items: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if items is None:
            raise ExportError("vectors need the items' features: export(path, to='vectors', items=...)")
        X = self._rows(items)
        place, shared, count = self._place(X), self._shared(X), len(self.users_)
        parts = [] if place is None else [(self._own(np.arange(count)), place)]
        parts += [] if shared is None else [(np.ones((count, 1)), shared[:, None])]
        dense = [[m.toarray() if sp.issparse(m) else m for m in part] for part in parts]
        return self.users_, np.hstack([own for own, _ in dense]), np.hstack([item for _, item in dense])

    @cached_property
    def _index(self) -> UserIndex:
        return UserIndex(self.users_)

    def _users(self) -> UserIndex:
        return self._index

    def _state(self) -> dict[str, Any]:
        return {name: plain_ids(v) if name == "users_" else v for name, v in super()._state().items()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        try:
            users = {name: ids_from_plain(v) for name, v in state.items() if name == "users_"}
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"users_ must be ids of users: {error}") from None
        super()._restore({**state, **users})

    def __sklearn_is_fitted__(self) -> bool:
        return vars(self).keys() >= {"users_", "certificate_"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def accuracies(
    training: tuple[float, int], watched: Watched | None, found: tuple[float, int] | None
) -> dict[str, float]:
    """Fractions right of (right, all) pairs, those of training and those found of the watched, for the trace."""
    right, pairs = training
    figures = {"train_accuracy": right / pairs if pairs else np.nan}
    if watched is not None and found is not None:
        more, total = (found[0] - right, found[1] - pairs) if watched.with_training else found
        figures["validation_accuracy"] = more / total if total else np.nan
    return figures


def joined_ratings(first: Any, second: Any, known: UserPreferences, n_items: int, name: str) -> UserPreferences:
    """The preferences of both ratings (users, items, ratings), which may not be of the same items; known: the first's.

    Pairs of the first differ from the others by their number, so none of its ratings may give way to a later one.
    """
    users, items, ratings = (np.concatenate([np.asarray(a), np.asarray(b)]) for a, b in zip(first, second))
    both = from_ratings(users, items, ratings, n_items)
    alone = from_ratings(second[0], second[1], second[2], n_items)
    shared = both.notes.get(REPEATED, 0) - known.notes.get(REPEATED, 0) - alone.notes.get(REPEATED, 0)
    if shared:
        raise DataError(
            f"{shared} ratings with {name} are of items that the same user rated in the other data too: leave them out "
            "of one of the two"
        )
    return both


def check_positive(ranker: Any, *names: str) -> None:
    for name in names:
        positive(name, getattr(ranker, name))


def _rows_without_features(X: Any) -> int:
    if sp.issparse(X):
        return int((np.diff(X.indptr) == 0).sum())
    return int(X.shape[0] - np.count_nonzero(X.any(axis=1)))
