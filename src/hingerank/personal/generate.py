"""Generated personal preferences with a known low-rank truth: every user has weights for a few hidden tastes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Column, Matrix, RowsLike
from hingerank.data.checks import fraction, generator, one_of, positive, whole
from hingerank.data.files import DataError
from hingerank.data.generate import bernoulli_places, grade_fractions
from hingerank.personal.preferences import places_within

AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class PersonalTruth:
    """score(user, x) = v_userᵀ Uᵀ x, with U (features × rank) and V (users × rank)."""

    U: np.ndarray
    V: np.ndarray

    def scores(self, users: Column, features: RowsLike) -> np.ndarray:
        """Return one true score per (user, feature row)."""
        return self.item_scores(np.asarray(users), np.arange(features.shape[0]), features)

    def item_scores(self, users: np.ndarray, items: np.ndarray, item_features: RowsLike) -> np.ndarray:
        """Return the same for rows `items` of `item_features`, computing the tastes of each item once."""
        tastes = item_features @ self.U if sp.issparse(item_features) else np.einsum("id,dk->ik", item_features, self.U)
        out = np.empty(len(users))
        for a in range(0, len(users), AT_A_TIME):
            part = slice(a, a + AT_A_TIME)
            out[part] = np.einsum("ik,ik->i", self.V[users[part]], tastes[items[part]])
        return out


@dataclass(frozen=True, eq=False, repr=False)
class PersonalData:
    """Item features with ratings (users, items, ratings) or comparisons (users, winners, losers).

    `items`, `winners` and `losers` index rows of `item_features`; users are numbered from 0.
    """

    item_features: RowsLike
    users: np.ndarray
    items: np.ndarray | None = None
    ratings: np.ndarray | None = None
    winners: np.ndarray | None = None
    losers: np.ndarray | None = None
    truth: PersonalTruth | None = None

    @property
    def n_users(self) -> int:
        return int(self.users.max()) + 1 if self.truth is None else len(self.truth.V)

    @property
    def n_items(self) -> int:
        return self.item_features.shape[0]

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        what = "pairs" if self.ratings is None else "ratings"
        return (
            f"PersonalData({self.n_users} users, {self.n_items} items, {self.item_features.shape[1]} features, "
            f"{len(self)} {what})"
        )

    def take(self, rows: Column) -> "PersonalData":
        """Return some of the ratings or comparisons; items and truth stay."""
        names = ("users", "items", "ratings", "winners", "losers")
        return replace(self, **{name: value[rows] for name in names if (value := getattr(self, name)) is not None})

    def split(self, test_size: float = 0.2, seed: int = 0) -> tuple["PersonalData", "PersonalData"]:
        """Return (train, test): test has a random fraction `test_size` of every user's ratings or comparisons."""
        fraction("test_size", test_size, inside=True)
        order = np.argsort(generator(seed, "seed").permutation(len(self)))
        test = places_within(self.users, order) < np.round(test_size * np.bincount(self.users))[self.users]
        return self.take(~test), self.take(test)


def make_personal(
    n_users: int = 200, n_items: int = 500, n_features: int = 16, rank: int = 4, *, kind: str = "pairs",
    per_user: int | tuple[int, int] = 50, noise: float = 0.0, n_grades: int = 5, skew: Any = 0.0,
    sparse_density: float | None = None, dtype: Any = np.float64, seed: int = 0,
) -> PersonalData:  # fmt: skip
    """score(user, item) = v_userᵀ Uᵀ x_item with U, V and X standard normal; preferences follow the score.

    The synthetic set of the literature is ``make_personal(1000, 10_000, 64, 20, per_user=800)``.

    Parameters
    ----------
    n_users, n_items, n_features, rank : int
        Sizes: U is features x rank, V users x rank, X items x features.
    kind : "pairs" or "ratings"
        "pairs": a user compares two random items, and the higher score + noise wins; "ratings": a user rates random
        items, all different, from 1 to ``n_grades`` by the score + noise.
    per_user : int or (smallest, largest)
        Number of comparisons or ratings of each user, or a range to draw from.
    noise : float, default 0
        Standard deviation of the noise on each score, in standard deviations of the score.
    n_grades : int, default 5
        Number of different ratings.
    skew : float or list of float
        The fractions of the ratings, lowest first, fall as exp(-skew·rating); or the fractions themselves.
    sparse_density : float, optional
        Make the item features CSR with this fraction of entries present.
    dtype : float type
        Type of the item features.
    seed : int
        The result depends only on the arguments.

    Examples
    --------
    >>> data = make_personal(50, 100, 8, rank=2, per_user=30)
    >>> data
    PersonalData(50 users, 100 items, 8 features, 1500 pairs)
    >>> features, truth = data.item_features, data.truth
    >>> bool((truth.scores(data.users, features[data.winners]) > truth.scores(data.users, features[data.losers])).all())
    True
    """
    n_users, n_features, rank = whole("n_users", n_users), whole("n_features", n_features), whole("rank", rank)
    n_items, noise = whole("n_items", n_items, 2), positive("noise", noise, least=0)
    one_of("kind", kind, "pairs", "ratings")
    model, choices, errors = generator(seed, "seed").spawn(3)
    truth = PersonalTruth(model.standard_normal((n_features, rank)), model.standard_normal((n_users, rank)))
    features = _item_features(n_items, n_features, sparse_density, np.dtype(dtype), model)
    counts = _counts(per_user, n_users, n_items if kind == "ratings" else None, choices)
    users = np.repeat(np.arange(n_users), counts)

    def noisy(items: np.ndarray) -> np.ndarray:
        scores = truth.item_scores(users, items, features)
        return scores + noise * scores.std() * errors.standard_normal(len(scores)) if noise else scores

    if kind == "pairs":
        one = choices.integers(0, n_items, len(users))
        other = (one + choices.integers(1, n_items, len(users))) % n_items  # another item
        first, second = noisy(one), noisy(other)
        winners, losers = np.where(first > second, one, other), np.where(first > second, other, one)
        return PersonalData(features, users, winners=winners, losers=losers, truth=truth)
    items = np.concatenate([choices.choice(n_items, count, replace=False) for count in counts])
    scores, shares = noisy(items), grade_fractions(n_grades, skew)
    ratings = 1.0 + np.searchsorted(np.quantile(scores, np.cumsum(shares)[:-1]), scores, side="right")
    return PersonalData(features, users, items=items, ratings=ratings, truth=truth)


def _counts(per_user: Any, n_users: int, most_allowed: int | None, rng: np.random.Generator) -> np.ndarray:
    least, most = (per_user, per_user) if np.ndim(per_user) == 0 else per_user
    if not 1 <= least <= most:
        raise DataError(f"per_user is {per_user}, expected a number, or a range (smallest, largest), of at least 1")
    if most_allowed is not None and most > most_allowed:
        raise DataError(f"per_user is {per_user}, but there are only {most_allowed} items to rate")
    return rng.integers(least, most + 1, n_users)


def _item_features(n: int, d: int, density: float | None, dtype: np.dtype, rng: np.random.Generator) -> Matrix:
    if density is None:
        return rng.standard_normal((n, d), dtype=dtype)
    positive("sparse_density", fraction("sparse_density", density))
    places = bernoulli_places(n * d, density, rng)
    values = rng.standard_normal(len(places), dtype=dtype)
    return sp.csr_matrix((values, places % d, np.searchsorted(places, np.arange(n + 1) * d)), shape=(n, d))
