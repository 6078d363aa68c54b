"""A low-rank problem of comparisons and its fit."""

import pytest

from hingerank.personal.factorized import PersonalRankSVM
from hingerank.personal.generate import make_personal


@pytest.fixture(scope="module")
def low_rank():
    """Comparisons of 60 users over 200 items with 12 features, true rank 3."""
    return make_personal(60, 200, 12, 3, per_user=80, seed=3).split(0.25, seed=0)


@pytest.fixture(scope="module")
def fitted(low_rank):
    train = low_rank[0]
    return PersonalRankSVM(rank=3, C=1.0, tol=1e-8, prior="zero", max_iter=300, scale=None).fit_pairs(
        train.item_features, train.users, train.winners, train.losers
    )
