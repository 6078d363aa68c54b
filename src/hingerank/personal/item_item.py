"""Score items by the other items that a user took: a full-rank matrix of weights between items, in closed form."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy import linalg
from sklearn.utils.extmath import randomized_svd

from hingerank.arrays import Column, Matrix, PerRow, RowsLike
from hingerank.data.checks import positive, warn
from hingerank.data.files import DataError
from hingerank.export.attributes import Array, Attribute, Number
from hingerank.personal.catalogue import history_of
from hingerank.personal.item_features import row_numbers, same_rows
from hingerank.personal.preferences import check_items, check_ratings
from hingerank.personal.rankers import SCORES_AT_ONCE, PersonalRanker
from hingerank.personal.top_n import part_found, row_products, rows_or_mean
from hingerank.rankers.base import Absent, keep_account
from hingerank.solvers.run import Certificate, Solution

UNTAKEN = 0.7  # factor of the scores of items that nobody took, since not being taken counts against them
MOST_ITEMS = 30_000  # a square matrix of this size takes 7 GB
STRENGTHS, USUAL = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), 3.0  # the default if too little can be held out
MOST = 200  # largest number of directions
PART_HELD, MOST_HELD, LEAST_HELD = 0.2, 1000, 20  # items held out
USERS, LEAST_USERS, TOP = 500, 20, 10  # users whose lists are judged, and the length of a list


class EASE(PersonalRanker):
    """score(u, j) = (T B)_uj,  B = argmin over matrices with diagonal 0 of
    ‖T - T B‖² + feature_weight · ‖Fᵀ - Fᵀ B‖² + ridge · ‖B‖²:  EASE (Steck 2019) with item features.

    T (users x items) holds what users took. F (items x features) holds the features; its columns act as further users.

    Each item's column of T and its features are predicted from those of all other items. With G the matrix TᵀT +
    feature_weight · F Fᵀ + ridge · I and P its inverse, B = I - P diag(P)⁻¹. Items that nobody took are scored
    by their features; the weights come from a ridge regression of each user's scores T B on F. The strength of that
    ridge is chosen on held-out items. These scores are multiplied by 0.7, as such items are less popular. EASE is for
    up to some ten thousand items, because it stores a square matrix of items. Items with the same features count as
    one; add indicator columns (``hr.identity_features``) to distinguish them. Methods are those of PersonalRankSVM,
    as far as they apply.

    Parameters
    ----------
    ridge : float, default 300
        Weight of ‖B‖². The more users an item has on average, the larger it should be.
    feature_weight : float, default 3
        Weight of a feature: it counts as this many users who took exactly the items that have it. With 0 features only
        distinguish items, and items that nobody took are not ranked.
    scale : "standard" or None
        As in PersonalRankSVM.

    Attributes
    ----------
    weights_ : B, items x items
    shared_features_ : the numbers of the features that several items have
    directions_ : the strongest directions of these features, shared features x directions
    new_weights_ : contribution of each item that a user took to the weights of these directions, items x directions
    new_strength_ : strength of the ridge for items that nobody took, as a multiple of the mean of their squared norms
    items_ : the features of the items that anybody took, a row each, in the order of weights_
    history_ : T, users x items (CSR)

    Examples
    --------
    >>> X = np.eye(4)
    >>> ranker = EASE(ridge=1.0).fit_clicks(X, [1, 1, 2, 2, 2, 3], [0, 1, 0, 1, 2, 0])
    >>> ranker.top_k([3], X, 2, exclude=([3], [0]))[0].tolist()
    [[1, 2]]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "items_": Array("items, features", csr=True),
        "weights_": Array("items, items"),
        "shared_features_": Array("shared features", kind="i", low=0, high="features", rising=True),
        "directions_": Array("shared features, directions"),
        "new_weights_": Array("items, directions"),
        "new_strength_": Number(low=0),
        "history_": Array("users, items", csr=True),
    }
    natural_C: Any = Absent("its loss is about items, and has no C")
    items_: Matrix
    weights_: np.ndarray
    shared_features_: np.ndarray
    directions_: np.ndarray
    new_weights_: np.ndarray
    new_strength_: float
    history_: sp.csr_matrix

    def __init__(self, ridge=300.0, *, feature_weight=3.0, scale="standard"):
        self.ridge = ridge
        self.feature_weight = feature_weight
        self.scale = scale

    def fit(
        self, item_features: RowsLike, users: Column, items: Column, ratings: Column, *, sample_weight: PerRow = None,
        eval_set: Any = None,
    ) -> Self:  # fmt: skip
        """Learn from who rated what; the ratings themselves do not count. Arguments as in ``fit_clicks``."""
        if eval_set is not None:
            raise ValueError("EASE has no epochs to watch: leave eval_set out")
        check_ratings(ratings, len(items))
        return self.fit_clicks(item_features, users, items, sample_weight=sample_weight)

    def fit_pairs(self, *given: Any, **named: Any) -> Self:
        """Raise an error, because comparisons do not say what users took."""
        raise ValueError("EASE learns from what users took: use fit_clicks, or PersonalRankSVM for comparisons")

    def fit_clicks(
        self, item_features: RowsLike, users: Column, items: Column, *, sample_weight: PerRow = None
    ) -> Self:
        """Learn from clicks, listens or purchases.

        Parameters
        ----------
        item_features : array, CSR matrix or data frame with a row per item
        users, items : who took what (ids of any type; row numbers of item_features); repeats count once
        sample_weight : weight of each click, default 1; weights of repeated clicks add up
        """
        positive("ridge", self.ridge)
        positive("feature_weight", self.feature_weight, least=0)
        began, X = time.perf_counter(), self._rows(item_features, reset=True)
        rows = check_items(items, X.shape[0], "items")
        _, number, firsts = same_rows(X)
        history = history_of(users, number[rows], len(firsts), sample_weight)
        taken = np.flatnonzero(np.bincount(history.items, minlength=len(firsts)))
        first = firsts[taken]
        if len(first) > MOST_ITEMS:
            raise DataError(f"{len(first)} items are too many for a matrix of items (at most {MOST_ITEMS}): use "
                            "PersonalRankSVM(loss='squared').fit_clicks")  # fmt: skip
        T = history.table[:, taken].astype(np.float64)
        self.users_, self.history_, self.items_, self.notes_ = history.users, T, X[first], {}
        keep_account(self, self._solve(T, X[first], began))
        return self

    def _solve(self, T: sp.csr_matrix, F: Matrix, began: float) -> Solution:
        G = (T.T @ T).toarray()
        if self.feature_weight > 0:
            G += self.feature_weight * (F @ F.T).toarray() if sp.issparse(F) else self.feature_weight * (F @ F.T)
        origin = np.trace(G)  # the loss at B = 0
        G[np.diag_indices_from(G)] += self.ridge
        try:
            P = linalg.cho_solve(linalg.cho_factor(G, lower=True), np.eye(len(G)), overwrite_b=True)
        except ValueError:  # a LinAlgError, or sums overflow
            why = f"ridge={self.ridge:g} is lost in sums of {origin:.3g}: raise it, or divide the weights or features"
            raise DataError(why) from None
        scale = 1.0 / np.diag(P)
        self.weights_ = -P * scale
        np.fill_diagonal(self.weights_, 0.0)
        found = directions(F if self.feature_weight > 0 else 0 * F)  # to score items that nobody took
        self.new_strength_ = choose_strength(T, P, F) if found.right.size else USUAL
        self.shared_features_, self.directions_ = found.shared, found.right
        self.new_weights_ = UNTAKEN * (self.weights_ @ found.left) * found.shrunk(self.new_strength_)
        left = float(np.abs(G @ self.weights_[:, :1] - G[:, :1])[1:].max(initial=0.0)) / float(np.abs(G).max())
        value = float(scale.sum()) - len(G) * float(self.ridge)  # the sum over columns of 1 / P_jj - ridge
        certificate = Certificate("stationarity", left, 1e-6, "converged", 1, time.perf_counter() - began)
        return Solution(self.weights_, value, certificate, [{"value": value}], origin=float(origin))

    def _checked(self, features: RowsLike, reset: bool) -> Matrix:
        """Return features in the form of the fit, dense or CSR, because items are found by the bits of their rows."""
        X = super()._checked(features, reset)
        if reset:
            return X
        narrow = X.dtype.itemsize < self.items_.dtype.itemsize
        if narrow and ((X.data if sp.issparse(X) else X) % 1).any():  # whole numbers are not rounded
            warn(
                f"the features are {X.dtype}, and {type(self).__name__} learned from {self.items_.dtype}: an item "
                "counts as new if its features were rounded; pass them in the precision of the fit"
            )
        X = X.astype(self.items_.dtype, copy=False)
        if sp.issparse(self.items_):
            return sp.csr_matrix(X)
        return X.toarray() if sp.issparse(X) else X

    @cached_property
    def _numbers_of_rows(self) -> dict[bytes, int]:
        return same_rows(self.items_)[0]

    def _item_numbers(self, X: Matrix) -> np.ndarray:
        """Return the place in weights_ of each row, -1 for items that were not in the fit."""
        return row_numbers(self._numbers_of_rows, X)

    def _item_vectors(self, X: Matrix) -> np.ndarray:
        """Return for each row the weights of the items that a user may have taken."""
        number = self._item_numbers(X)
        weights, new = self.weights_.T[number], number < 0
        if new.any():
            weights[new] = (X[new][:, self.shared_features_] @ self.directions_) @ self.new_weights_.T
        return weights

    def _taken(self, item_features: RowsLike) -> tuple[np.ndarray, np.ndarray]:
        """Return the (users, rows of item_features) that the fit learned from, for the items that are given."""
        number = self._item_numbers(self._rows(item_features))
        row = np.full(len(self.weights_), -1, np.int64)
        row[number[number >= 0]] = np.flatnonzero(number >= 0)
        T = self.history_.tocoo()
        here = row[T.col] >= 0
        return self.users_[T.row[here]], row[T.col[here]]

    def _usual_measure(self) -> str:
        return "list_ndcg@10"

    def _user_vectors(self, numbers: np.ndarray) -> Matrix:
        return rows_or_mean(self.history_, numbers)

    def _scores(self, X: Matrix, numbers: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        out = np.empty(len(numbers))
        step = max(1, SCORES_AT_ONCE // max(1, len(self.weights_)))
        for a in range(0, len(out), step):
            part = slice(a, a + step)
            out[part] = row_products(
                self._item_vectors(X[part if rows is None else rows[part]]), self._user_vectors(numbers[part])
            )
        return out


@dataclass(frozen=True)
class Directions:
    """The features of items that nobody took are scored with weights that reproduce the scores of the known items:

        score(u, x) = <w_u, x>,  w_u = argmin over w of  ‖s_u - F w‖² + strength · m · ‖w‖²

    with s_u the user's scores of the known items, F their features and m the mean of ‖f_i‖² over items. A feature that
    only one item has (an indicator column, a rare word) does not help with others and is left out. Of the other
    features the strongest directions are used (`MOST` singular vectors). The best strength depends on how informative
    the features are. Some items are held out as if they were new, and the strength is chosen whose lists find most of
    what users took.

    F[:, shared] = left · diag(size) · rightᵀ, for features that several items have; m is the mean of ‖f_i‖²."""

    shared: np.ndarray
    left: np.ndarray
    size: np.ndarray
    right: np.ndarray
    m: float

    def shrunk(self, strength: float) -> np.ndarray:
        """Return the factor of each direction of scores in w_u: w_u = right · (shrunk * leftᵀ s_u)."""
        return self.size / (self.size**2 + strength * self.m)


def directions(F: Matrix) -> Directions:
    """Return the strongest directions of the features that several items have."""
    n, shared = F.shape[0], np.flatnonzero(np.asarray((F != 0).sum(axis=0)).ravel() > 1)
    if len(shared) == 0:
        return Directions(shared, np.zeros((n, 0)), np.zeros(0), np.zeros((0, 0)), 1.0)
    part = sp.csr_matrix(F)[:, shared]
    left, size, right = randomized_svd(part, min(MOST, *part.shape), random_state=0)
    return Directions(shared, left, size, np.ascontiguousarray(right.T), float(part.multiply(part).sum()) / n)


def choose_strength(T: sp.csr_matrix, P: np.ndarray, F: Matrix) -> float:
    """Return the strength with the best lists of held-out items.

    Parameters
    ----------
    T : users x items, what they took
    P : the inverse that gives the weights of EASE
    F : items x features
    """
    rng, n = np.random.default_rng(0), T.shape[1]
    held = np.sort(rng.permutation(n)[: min(MOST_HELD, int(PART_HELD * n))])
    known = np.setdiff1d(np.arange(n), held)
    took = np.asarray(T[:, held].sum(axis=1)).ravel()
    some = rng.permutation(np.flatnonzero(took > 0))[:USERS]
    if len(held) < LEAST_HELD or len(some) < LEAST_USERS:
        return USUAL
    found = directions(F[known])
    of_users = scores_without(T[some], P, known, held) @ found.left
    of_items = np.asarray(F[held][:, found.shared] @ found.right)
    wanted = (T[some][:, held].toarray() > 0).astype(np.float64)
    right = [part_found((of_users * found.shrunk(s)) @ of_items.T, wanted, TOP) for s in STRENGTHS]
    return STRENGTHS[int(np.argmax(right))]


def scores_without(T: sp.csr_matrix, P: np.ndarray, known: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return users' scores of the known items by an EASE without the held-out items, from the P of one with them.

    The inverse of a block of a matrix is P_kk - P_kh P_hh⁻¹ P_hk.
    """
    kept = np.zeros(T.shape[1])
    kept[known] = 1.0
    own = sp.csr_matrix(T.multiply(kept))
    product = own @ P
    across = np.linalg.solve(P[np.ix_(held, held)], P[held])
    product = product - product[:, held] @ across
    diagonal = np.diag(P) - np.einsum("hi,hi->i", P[held], across)
    return (own.toarray() - product / np.where(kept > 0, diagonal, 1.0))[:, known]
