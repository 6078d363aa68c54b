"""Generated users and items: what users say follows the low-rank truth."""

import numpy as np
import pytest
import scipy.sparse as sp

from hingerank.personal.generate import make_personal


def true_scores(data, items):
    features = data.item_features.toarray() if sp.issparse(data.item_features) else data.item_features
    return np.einsum("ij,ij->i", features[items] @ data.truth.U, data.truth.V[data.users])


@pytest.mark.parametrize("density", [None, 0.3])
def test_pairs_follow_the_truth(density):
    data = make_personal(40, 60, 12, 3, per_user=(5, 20), sparse_density=density, seed=1)
    assert data.item_features.shape == (60, 12) and data.truth.U.shape == (12, 3) and data.truth.V.shape == (40, 3)
    counts = np.bincount(data.users, minlength=40)
    assert counts.min() >= 5 and counts.max() <= 20
    assert (data.winners != data.losers).all()
    gap = true_scores(data, data.winners) - true_scores(data, data.losers)
    assert gap.min() > -1e-9 and (gap > 0).mean() > 0.95
    np.testing.assert_allclose(
        data.truth.scores(data.users, data.item_features[data.winners]), true_scores(data, data.winners)
    )


def test_noise_turns_some_pairs_around():
    def right(noise):
        data = make_personal(50, 100, 8, 2, per_user=100, noise=noise, seed=2)
        return (true_scores(data, data.winners) > true_scores(data, data.losers)).mean()

    assert right(0) == 1 and 0.75 < right(0.5) < 0.95 and 0.5 < right(20) < 0.6


def test_ratings_follow_the_truth():
    data = make_personal(30, 80, 10, 2, kind="ratings", per_user=(10, 40), n_grades=4, skew=[1, 2, 4, 1], seed=3)
    assert len({*zip(data.users.tolist(), data.items.tolist())}) == len(data), "nobody rates an item twice"
    np.testing.assert_allclose(
        np.bincount(data.ratings.astype(int))[1:] / len(data), [0.125, 0.25, 0.5, 0.125], atol=0.01
    )
    scores = true_scores(data, data.items)
    order = np.argsort(scores)
    assert (np.diff(data.ratings[order]) >= 0).all()


@pytest.mark.slow
def test_seed_and_size_of_the_literature():
    a, b = make_personal(seed=5), make_personal(seed=5)
    np.testing.assert_array_equal(a.winners, b.winners)
    assert (a.winners != make_personal(seed=6).winners).any()
    big = make_personal(1000, 10_000, 64, 20, per_user=800)
    assert len(big) == 800_000 and repr(big) == "PersonalData(1000 users, 10000 items, 64 features, 800000 pairs)"
    spread = true_scores(big, big.winners).std()
    assert spread == pytest.approx(np.sqrt(64 * 20), rel=0.25)


@pytest.mark.parametrize("kind", ["pairs", "ratings"])
def test_split_by_user(kind):
    data = make_personal(20, 50, 6, 2, kind=kind, per_user=20)
    train, test = data.split(0.25, seed=1)
    assert len(train) + len(test) == len(data)
    assert (np.bincount(test.users) == 5).all()
    columns = ("users", "items", "ratings") if kind == "ratings" else ("users", "winners", "losers")
    rows = [sorted(zip(*(getattr(part, c).tolist() for c in columns))) for part in (train, test, data)]
    assert sorted(rows[0] + rows[1]) == rows[2]
    again = data.split(0.25, seed=1)[1]
    np.testing.assert_array_equal(again.users, test.users)
    with pytest.raises(ValueError, match=r"test_size must be a number between 0 and 1, not 1\.5"):
        data.split(1.5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_items": 1}, "n_items must be a whole number of at least 2, not 1"),
        ({"rank": 0}, "rank must be a positive whole number, not 0"),
        ({"noise": -1}, "noise must be a number of at least 0, not -1"),
        ({"kind": "clicks"}, "'pairs' or 'ratings'"),
        ({"seed": "x"}, "seed must be a whole number of at least 0, or None, not 'x'"),
        ({"rank": "x"}, "rank must be a positive whole number"),
        ({"per_user": (5, 2)}, "per_user is"),
        ({"per_user": 501, "kind": "ratings"}, "only 500 items to rate"),
        ({"sparse_density": 2}, "sparse_density must be a number from 0 to 1, not 2"),
    ],
)
def test_wrong_arguments_are_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        make_personal(**wrong)
