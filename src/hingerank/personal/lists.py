"""Lists over a whole catalogue: items that a user would both choose and like.

Ratings show what people think of the items they chose, not which items they choose. So a ranker of ratings alone puts
items first that few people would look at.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from hingerank.arrays import Column, Matrix, PerRow, RowsLike
from hingerank.data.blocks import number_ids
from hingerank.data.checks import generator, positive, real
from hingerank.export.attributes import Array, Attribute, Number
from hingerank.personal.alternating import item_vectors
from hingerank.personal.baselines import Popularity
from hingerank.personal.factorized import PersonalRankSVM
from hingerank.personal.item_item import EASE
from hingerank.personal.preferences import check_items, check_ratings, of_positive_weight, places_within
from hingerank.personal.top_n import evaluate_top, rows_or_mean
from hingerank.rankers.base import forget_fit
from hingerank.rankers.inputs import check_features
from hingerank.rankers.rank_parameter import RankParameter

MIXES, USUAL = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6), 0.4  # the default if too little can be held out
PART_HELD, LEAST_USERS = 0.2, 20  # fraction of each user's ratings; users who must have a relevant one among these
TO_SCALE = 200  # users whose scores set the scale of the two parts


class ListRanker(EASE):
    """score(u, j) = chosen(u, j) / σ_c + mix · liked(u, j) / σ_l:  what users choose plus what they like.

    ``chosen`` is `EASE` on who rated what, ``liked`` is `PersonalRankSVM` on the ratings. σ are the standard deviations
    of their scores over a user's catalogue. The ranker is for lists of recommendations from ratings.

    Parameters
    ----------
    ridge, feature_weight : parameters of `EASE`
    rank : parameter of `PersonalRankSVM`
    C : float, optional
        Weight of the loss; multiplies its sum over pairs. It is passed to `PersonalRankSVM`.
    mix : float, optional
        Weight of ``liked``. By default it is the one of 0, 0.1, 0.2, 0.4, 0.8 and 1.6 with the best NDCG@10 of lists,
        on a fifth of every user's ratings held out from both parts; 0.4 if these are too few. If lists by popularity
        are better on them, the fit warns.
    relevant : float, optional
        Smallest rating of an item that a list should find, used to choose mix. Default the median of the ratings.
    scale : "standard" or None
        As in PersonalRankSVM.
    random_state : int, default 0
        Seed of the initial basis of ``liked`` and of the held-out ratings.

    Attributes
    ----------
    mix_ : the value of mix that was used
    liked_basis_, liked_weights_ : U (features x rank) and V (users x rank) of ``liked``, U times mix · σ_c / σ_l
    weights_, new_weights_, items_, history_ : those of ``chosen``, as in EASE

    Examples
    --------
    >>> X = np.eye(4)
    >>> ranker = ListRanker(ridge=1.0, rank=1).fit(X, [1, 1, 2, 2, 2, 3], [0, 1, 0, 1, 2, 0], [5, 4, 5, 4, 1, 5])
    >>> ranker.top_k([3], X, 2, exclude=([3], [0]))[0].tolist()
    [[1, 2]]
    """

    _saved: ClassVar[Mapping[str, Attribute]] = {
        "liked_basis_": Array("features, rank"),
        "liked_weights_": Array("users, rank"),
        "mix_": Number(low=0),
    }
    liked_basis_: np.ndarray
    liked_weights_: np.ndarray
    mix_: float
    rank = RankParameter(10)

    def __init__(
        self, ridge=300.0, *, feature_weight=3.0, rank=10, C=None, mix=None, relevant=None, scale="standard",
        random_state=0,
    ):  # fmt: skip
        super().__init__(ridge, feature_weight=feature_weight, scale=scale)
        self.rank = rank
        self.C = C
        self.mix = mix
        self.relevant = relevant
        self.random_state = random_state

    def fit(
        self, item_features: RowsLike, users: Column, items: Column, ratings: Column, *, sample_weight: PerRow = None,
        eval_set: Any = None,
    ) -> Self:  # fmt: skip
        """Learn from which items were rated, and from the ratings. Arguments as in ``PersonalRankSVM.fit``."""
        if eval_set is not None:
            raise ValueError("ListRanker cannot watch its two parts: leave eval_set out")
        if self.mix is not None:
            positive("mix", self.mix, least=0)
        if self.relevant is not None and math.isnan(real(self.relevant)):
            raise ValueError(f"relevant must be a number, not {self.relevant!r}")
        users, items, ratings, weight = of_positive_weight(users, items, ratings, sample_weight)
        given = np.asarray(users), np.asarray(items), np.asarray(check_ratings(ratings, len(items)))
        X = check_features(self, item_features, reset=True)
        forget_fit(self)
        check_items(items, X.shape[0], "items")
        mix = self._choose(X, given, weight) if self.mix is None else float(self.mix)
        return self._fit_both(item_features, given, weight, mix)

    def fit_clicks(self, *given: Any, **named: Any) -> Self:
        """Raise an error, because clicks do not show what is liked."""
        raise ValueError("clicks do not show what is liked: use EASE().fit_clicks")

    def _fit_both(
        self, item_features: RowsLike, given: Sequence[np.ndarray], weight: np.ndarray | None, mix: float = 1.0
    ) -> Self:
        super().fit_clicks(item_features, given[0], given[1], sample_weight=weight)
        X = self._rows(item_features)
        liked = PersonalRankSVM(rank=int(self.rank), C=self.C, scale=None, prior=0.0, random_state=self.random_state)
        liked.fit(X, *given, sample_weight=weight)
        self.liked_basis_, self.liked_weights_ = liked.basis_, liked.user_weights_[liked._index.known(self.users_)]
        some = np.random.default_rng(0).permutation(len(self.users_))[:TO_SCALE]
        chosen = (self.history_[some] @ self.weights_).std(axis=1).mean()
        own = (item_vectors(self.items_, self.liked_basis_) @ self.liked_weights_[some].T).std(axis=0).mean()
        self.liked_basis_, self.mix_ = self.liked_basis_ * (chosen / own if own > 0 else 0.0) * mix, mix
        self.notes_ = liked.notes_
        return self

    def _choose(self, X: Matrix, given: Sequence[np.ndarray], weight: np.ndarray | None) -> float:
        """Return the mix with the best lists, judged by ratings held out from both parts."""
        code = number_ids(given[0], len(given[1]), "users")[1]
        rng, count = generator(self.random_state), np.bincount(code)
        held = places_within(code, rng.random(len(code))) < (PART_HELD * count)[code].astype(np.int64)
        key = code.astype(np.int64) * X.shape[0] + given[1]
        held &= ~np.isin(key, key[~held])  # repeated ratings of an item are on one side
        relevant = float(np.median(given[2])) if self.relevant is None else self.relevant
        if len(np.unique(code[held & (given[2] >= relevant)])) < LEAST_USERS:
            return USUAL
        test, train = (tuple(column[part] for column in given) for part in (held, ~held))
        other = clone(self)._fit_both(X, train, None if weight is None else weight[~held])
        whole, found = other.liked_basis_, []
        for mix in MIXES:
            other.liked_basis_ = mix * whole
            found.append(evaluate_top(other, X, test, train, relevant=relevant).means["ndcg"])
        popular = evaluate_top(Popularity().fit(X, *train), X, test, train, relevant=relevant).means["ndcg"]
        if popular > max(found):
            warnings.warn(
                f"lists by popularity alone are better on held-out ratings (NDCG@10 {popular:.4f}, these "
                f"{max(found):.4f}): there are too few ratings to tell users apart; collect more, or try another ridge",
                stacklevel=3,
            )
        return MIXES[int(np.argmax(found))]

    def _item_vectors(self, X: Matrix) -> np.ndarray:
        return np.hstack([super()._item_vectors(X), item_vectors(X, self.liked_basis_)])

    def _user_vectors(self, numbers: np.ndarray) -> Matrix:
        own = sp.csr_matrix(rows_or_mean(self.liked_weights_, numbers))
        return sp.csr_matrix(sp.hstack([super()._user_vectors(numbers), own]))
