"""The base class of rankers with one ranking function per user: inputs, predictions, lists, model files."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from hingerank.arrays import Column, Matrix, PerRow, RowsLike
from hingerank.data.blocks import number_ids
from hingerank.data.checks import one_of, positive, whole
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute, Ids, Mapped, Number, Of, Size
from hingerank.export.forms import ExportError
from hingerank.export.model_file import SavedModel
from hingerank.features.maps import FeatureMap
from hingerank.features.named_maps import feature_map
from hingerank.personal.alternating import count_right
from hingerank.personal.catalogue import UserIndex, ids_from_plain, plain_ids
from hingerank.personal.item_features import column_scales, scaled
from hingerank.personal.losses import GRADES
from hingerank.personal.preferences import (
    REPEATED,
    UserPreferences,
    check_columns,
    check_items,
    from_comparisons,
    from_ratings,
    of_positive_weight,
)
from hingerank.personal.top_n import SCORES_AT_ONCE, all_products, row_products, top_lists
from hingerank.rankers.base import Absent, forget_fit, keep_account
from hingerank.rankers.inputs import HasLimits, check_features, names_of_features, warn_weak
from hingerank.renaming import renamed
from hingerank.solvers.run import Certificate, Solution

SCALES = ("standard", None)
SMALLEST_SCALE = float(np.finfo(np.float64).tiny)  # smallest scale, since columns are divided by it


class PersonalRanker(HasLimits, SavedModel, BaseEstimator):
    """score(u, x) = shared(x) + <vector of x, vector of u>: user u prefers items with a higher score.

    A subclass defines `_learn` and, if they apply, `_shared`, `_item_vectors` and `_user_vectors`.
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
    item_centre_: np.ndarray | None = None  # not in files of version 0.2
    item_scale_: np.ndarray | None = None
    features: Any = None  # a map of the scaled item features, in rankers that have this parameter
    features_: FeatureMap | None = None
    pair_weight: str = "uniform"
    _squared_error = False  # whether ratings are targets of scores, and scores of pairs should differ by 1
    scale: str | None
    _cure: str | None = "unknown='mean' ranks for the mean user; fit again with the user's ratings"  # None: not needed
    _cold = "the list of the mean user"  # what users without a pair get
    C: Any

    def fit(
        self, item_features: RowsLike, users: Column, items: Column, ratings: Column, *, sample_weight: PerRow = None,
        eval_set: Any = None,
    ) -> Self:  # fmt: skip
        """Learn from ratings: a user prefers an item to every item that the user rated lower.

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        users : who gave each rating, ids of any type
        items : the rated items, as row numbers of item_features
        ratings : finite numbers
        sample_weight : weight of each rating, default 1, such as ``hr.age_weights(times, half_life)``
            A pair of ratings i and j has the weight w_i w_j. 2 acts like the rating twice, 0 like no rating.
        eval_set : (users, items, ratings) to watch
            ``trace_`` then has the accuracy on pairs with at least one of these ratings; the other one may be a
            training rating (the test accuracy of the paper).
        """
        X = self._rows(item_features, reset=True)
        preferences = self._known(users, items, ratings, X.shape[0], sample_weight)
        watched = None
        if eval_set is not None:
            check_columns(eval_set, "eval_set", "users", "items", "ratings")
            known = of_positive_weight(users, items, ratings, sample_weight)[:3]
            watched = joined_ratings(known, eval_set, X.shape[0], "eval_set")
            if len(watched.users) > len(preferences.users):
                user = watched.users[len(preferences.users) :].tolist()[0]
                raise DataError(f"eval_set has users without training ratings, such as {user!r}: leave them out")
        return self._fit(X, preferences, watched)

    @renamed
    def fit_pairs(
        self, item_features: RowsLike, users: Column, winners: Column, losers: Column, sample_weight: PerRow = None, *,
        eval_set: Any = None,
    ) -> Self:  # fmt: skip
        """Learn from comparisons: user users[e] prefers item winners[e] to item losers[e].

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        users : who made each comparison, ids of any type
        winners, losers : row numbers of item_features
        sample_weight : weight of each comparison, default 1; 0 is no comparison
        eval_set : (users, winners, losers) to watch in ``trace_``
        """
        X = self._rows(item_features, reset=True)
        preferences = self._known(users, winners, losers, X.shape[0], sample_weight, pairs=True)
        watched = None
        if eval_set is not None:
            check_columns(eval_set, "eval_set", "users", "winners", "losers")
            watched = from_comparisons(eval_set[0], eval_set[1], eval_set[2], X.shape[0])
        return self._fit(X, preferences, watched)

    def _rows(self, features: RowsLike, reset: bool = False) -> Matrix:
        """Check features, then scale and map them as a fit found it (reset: as this fit finds it)."""
        X = self._checked(features, reset)
        if reset:
            forget_fit(self)
            if self.scale not in SCALES:
                raise ValueError(f"scale must be {' or '.join(map(repr, SCALES))}, not {self.scale!r}")
            found = column_scales(X) if self.scale == "standard" else None
            self.item_centre_, self.item_scale_ = (None, None) if found is None else found
        if self.item_centre_ is not None and self.item_scale_ is not None:
            X = scaled(X, self.item_centre_, self.item_scale_)
        if reset:
            self.features_ = None if self.features is None else feature_map(self.features).fit(X)
        return X if self.features_ is None else self.features_.transform(X)

    def _checked(self, features: RowsLike, reset: bool) -> Matrix:
        return check_features(self, features, reset=reset)

    def _column_names(self, given: Sequence[str] | None = None) -> Sequence[str]:
        """Return the names of the columns of `_rows`, which the weights belong to; given: names of the features."""
        names = names_of_features(self, self.n_features_in_, given)
        return names if self.features_ is None else self.features_.names(names)

    def _known(
        self, users: Column, first: Column, second: Column, n_items: int, weight: PerRow = None, pairs: bool = False
    ) -> UserPreferences:
        """Return what users say, as this ranker learns it: items and ratings or, with `pairs`, winners and losers."""
        make = from_comparisons if pairs else from_ratings
        return make(users, first, second, n_items, weight, self.pair_weight, self._squared_error)

    def _fit(self, X: Matrix, preferences: UserPreferences, watched: UserPreferences | None, **how: Any) -> Self:
        self.users_, self.n_pairs_ = preferences.users, preferences.n_pairs
        cold = int((preferences.pairs == 0).sum())
        bare = X.shape[0] - int(np.count_nonzero(np.diff(X.indptr) if sp.issparse(X) else X.any(axis=1)))
        self.notes_ = preferences.notes | {"users without a pair": cold, "items whose features are all 0": bare}
        dropped = preferences.notes.get(REPEATED, 0)
        if dropped:
            warnings.warn(f"{dropped} ratings repeat an item of the same user: their mean counts", stacklevel=3)
        if cold == len(preferences.users):
            warnings.warn(
                "there are no preference pairs (every user gave all items the same rating), so no user prefers "
                "any item: if these are clicks or purchases, use PersonalRankSVM.fit_clicks, which needs no ratings",
                stacklevel=3,
            )
        if self.C is not None:
            positive("C", self.C)
        self._limits()  # a wrong one is named before the search for C
        solution = self._learn(X, preferences, watched, **how)
        keep_account(self, solution)
        if solution.weak and self.C is not None:  # one that follows the data is not small
            warn_weak(self, "C", solution)
        return self

    def _learn(self, X: Matrix, preferences: UserPreferences, watched: UserPreferences | None) -> Solution:
        """Find and store the weights; accuracies go into the trace."""
        raise NotImplementedError

    def natural_C(self, item_features: RowsLike, users: Column, items: Column, ratings: Column) -> float:
        """Return the C that a fit to this data uses if C is None; arguments as in ``fit``."""
        unfitted = clone(self)  # the features of this data shall not change what a fitted ranker predicts
        X = unfitted._rows(item_features, reset=True)
        return unfitted._natural(X, unfitted._known(users, items, ratings, X.shape[0]))

    def _natural(self, X: Matrix, preferences: UserPreferences) -> float:
        raise NotImplementedError

    def _rating_folds(self, data: Any, measure: str, **options: Any) -> Any:
        """Return the folds on which `hingerank.tune` tries settings."""
        from hingerank.personal.rating_folds import RatingFolds

        return RatingFolds(data, measure, **options)

    def _usual_measure(self) -> str:
        """Return the default measure of `hingerank.tune`."""
        return "ndcg@10"

    def _shared(self, X: Matrix) -> np.ndarray | None:
        """Return the part of the score that all users share."""
        return None

    def _item_vectors(self, X: Matrix) -> Matrix:
        """Return a vector for each row of X, to be multiplied with users' vectors; None if users have no vectors."""
        return None

    def _user_vectors(self, numbers: np.ndarray) -> Matrix:
        """Return the vectors of users as rows; -1 is the mean user."""
        raise NotImplementedError

    def predict(self, users: Column, features: RowsLike, *, unknown: str = "error") -> np.ndarray:
        """Return one score per row: that of features[r] for user users[r].

        Scores are comparable within a user, not between users.

        Parameters
        ----------
        users : ids; a single id is for all rows
        features : rows of features of items, which need not have been in ``fit``
        unknown : "error", or "mean": unknown users have the scores of the mean user
        """
        check_is_fitted(self)
        X = self._rows(features)
        several = not isinstance(users, str | bytes) and np.ndim(users) == 1
        if several and len(users) not in (1, X.shape[0]):  # the likely mistake is that all items were passed
            raise DataError(
                f"{len(users)} users but {X.shape[0]} rows of features: one score is given for each pair, so pass "
                "X[items], a row for each user (or one user alone for all rows)"
            )
        return self._scores(X, self._numbers(users, X.shape[0], unknown))

    def _without_pairs(self) -> np.ndarray:
        """Return which users have no pair to learn from, so that they get `_cold`."""
        return np.zeros(len(self.users_), bool)

    def _numbers(self, users: Column, n_rows: int | None = None, unknown: str = "error") -> np.ndarray:
        """Return the number of each user, -1 for unknown users if they are ranked for as the mean user."""
        if one_of("unknown", unknown, "error", "mean") == "mean" or self._cure is None:
            return self._index.numbers(users, n_rows)
        return self._index.known(users, n_rows, self._cure)

    def rank(self, user: object, candidates: RowsLike, top: int | None = None, *, unknown: str = "error") -> np.ndarray:
        """Return rows of the candidates, best first for this user; equal scores keep their order.

        Parameters
        ----------
        user : an id
        candidates : features of the items to put in order
        top : number of rows, default all
        unknown : as in ``predict``
        """
        return self._order(user, candidates, top, unknown)

    def _order(self, user: object, candidates: RowsLike, top: int | None = None, unknown: str = "error") -> np.ndarray:
        order = np.argsort(-self.predict(user, candidates, unknown=unknown), kind="stable")
        return order if top is None else order[: whole("top", top)]

    def top_k(
        self, users: Column, candidates: RowsLike, top: int = 10, *, exclude: tuple[Any, Any] | None = None,
        unknown: str = "error",
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Return the best candidates of every user: (rows, scores), one line per user, best first.

        Users are processed in blocks, so a users x candidates array is never stored.

        Parameters
        ----------
        users : ids
        candidates : features of the items to choose from
        top : number of candidates per user; if too few are left, rows are -1
        exclude : (users, rows) to leave out, such as what each user has already rated
            By default nothing is left out, because the ranker does not know which rows these are.
        unknown : as in ``predict``
        """
        check_is_fitted(self)
        X, numbers = self._rows(candidates), self._numbers(users, None, unknown)
        vectors, shared = self._item_vectors(X), self._shared(X)

        def scores(block: slice) -> np.ndarray:
            mine = numbers[block]
            S = (
                np.zeros((len(mine), X.shape[0]))
                if vectors is None
                else all_products(self._user_vectors(mine), vectors)
            )
            return S if shared is None else S + shared

        return top_lists(scores, users, X.shape[0], top, exclude)

    def similar_items(self, items: Column, candidates: RowsLike, top: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Return the items that are most similar to each item: (rows, cosines), a line per item, most similar first.

        cosine(i, j) = <z_i, z_j> / (‖z_i‖ ‖z_j‖), with z_i the vector that users' vectors multiply: Uᵀx_i for
        ``PersonalRankSVM``, the item's column of weights for ``EASE``. So items are similar if the same users like
        them, according to the model. The item itself is left out.

        Parameters
        ----------
        items : row numbers of candidates
        candidates : features of the items to choose from
        top : number of candidates per item; if too few are left, rows are -1
        """
        check_is_fitted(self)
        X = self._rows(candidates)
        wanted, vectors = check_items(items, X.shape[0], "items"), self._item_vectors(X)
        if vectors is None:
            raise ValueError(
                f"{type(self).__name__} has one list for all users, so no similar items: use PersonalRankSVM"
            )
        Z = np.asarray(vectors.toarray() if sp.issparse(vectors) else vectors, np.float64)
        Z = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), np.finfo(np.float64).tiny)

        def cosines(block: slice) -> np.ndarray:
            S = np.ascontiguousarray(Z[wanted[block]] @ Z.T)
            S[np.arange(len(S)), wanted[block]] = -np.inf
            return S

        return top_lists(cosines, wanted, len(Z), top)

    def score(
        self, item_features: RowsLike, users: Column, items: Column, ratings: Column, *, against: Any = None
    ) -> float:
        """Return the fraction of pairs of differently rated items that are ordered correctly; equal scores count half.

        The pairs of all users have the same weight.

        Parameters
        ----------
        item_features, users, items, ratings : as in ``fit``
        against : (users, items, ratings), usually those of training
            Pairs of one of ``ratings`` and one of these count too, as in the test accuracy of the paper (test-test and
            test-train pairs).
        """
        check_is_fitted(self)
        X = self._rows(item_features)
        if against is None:
            right, pairs = self._right(X, from_ratings(users, items, ratings, X.shape[0]))
        else:
            check_columns(against, "against", "users", "items", "ratings")
            others = from_ratings(against[0], against[1], against[2], X.shape[0])
            joined = joined_ratings(against, (users, items, ratings), X.shape[0], "against")
            (right, pairs), (known, settled) = self._right(X, joined), self._right(X, others)
            right, pairs = right - known, pairs - settled
        if pairs == 0:
            raise DataError("no user rated two items differently, so there is no pair to judge: give more ratings")
        return right / pairs

    def _right(self, X: Matrix, p: UserPreferences) -> tuple[float, int]:
        """Return the numbers of correctly ordered pairs and of all pairs."""
        scores = self._scores(X, np.repeat(self._numbers(p.users), np.diff(p.start)), p.item)
        return count_right(*p.at_scores(scores))

    def _scores(self, X: Matrix, numbers: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the score for user numbers[r] of row rows[r] of X (row r if None); each row of X is used once."""
        vectors, shared, out = self._item_vectors(X), self._shared(X), np.zeros(len(numbers))
        if shared is not None:
            out += shared if rows is None else shared[rows]
        if vectors is not None:
            step = max(1, SCORES_AT_ONCE // max(1, vectors.shape[1]))
            for a in range(0, len(out), step):
                part = slice(a, a + step)
                mine = vectors[part if rows is None else rows[part]]
                out[part] += row_products(mine, self._user_vectors(numbers[part]))
        return out

    def _form(self) -> Any:
        raise ExportError(f"{type(self).__name__} has a function for each user: export it with to='vectors'")

    def _vectors(self, items: Column) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if items is None:
            raise ExportError("vectors need the items' features: export(path, to='vectors', items=...)")
        X = self._rows(items)
        vectors, shared, count = self._item_vectors(X), self._shared(X), len(self.users_)
        parts = [] if vectors is None else [(self._user_vectors(np.arange(count)), vectors)]
        parts += [] if shared is None else [(np.ones((count, 1)), shared[:, None])]
        dense = [[m.toarray() if sp.issparse(m) else m for m in part] for part in parts]
        return self.users_, np.hstack([own for own, _ in dense]), np.hstack([item for _, item in dense])

    @cached_property
    def _index(self) -> UserIndex:
        return UserIndex(self.users_)

    def _state(self) -> dict[str, Any]:
        return {name: plain_ids(v) if name == "users_" else v for name, v in super()._state().items()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        try:
            users = {name: ids_from_plain(v) for name, v in state.items() if name == "users_"}
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"users_ must be ids of users: {error}") from None
        super()._restore({**state, **users})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def accuracies(
    training: tuple[float, int], watched: UserPreferences | None, found: tuple[float, int] | None
) -> dict[str, float]:
    """Return the accuracies for the trace from numbers of (correct, all) pairs of training and of the watched data."""
    right, pairs = training
    figures = {"train_accuracy": right / pairs if pairs else np.nan}
    if watched is not None and found is not None:
        with_training = watched.known.kind == GRADES  # watched ratings are joined with those of training
        more, total = (found[0] - right, found[1] - pairs) if with_training else found
        figures["validation_accuracy"] = more / total if total else np.nan
    return figures


def joined_ratings(first: Sequence[Column], second: Sequence[Column], n_items: int, name: str) -> UserPreferences:
    """Return the preferences of both ratings (users, items, ratings), which must differ in items.

    Accuracies subtract the pairs of the first, so none of its ratings may be replaced by a later one.
    """
    users, items, ratings = (np.concatenate([np.asarray(a), np.asarray(b)]) for a, b in zip(first, second))
    both = from_ratings(users, items, ratings, n_items)
    key = number_ids(users, len(items), "users")[1].astype(np.int64) * n_items + items.astype(np.int64)
    shared = int(np.isin(key[len(first[0]) :], key[: len(first[0])]).sum())
    if shared:
        raise DataError(
            f"{shared} ratings of {name} are of items that the same user rated in the other data too: leave them out "
            "of one of the two"
        )
    return both
