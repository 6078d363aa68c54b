"""Item features through a feature map: the ranker of the mapped matrix, with the map in the model."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer

import hingerank as hr
from hingerank.features.fourier import FourierMap
from hingerank.features.nystroem import NystroemMap
from hingerank.lab.report.personal import personal_page
from hingerank.personal.catalogue import Catalogue
from hingerank.personal.item_features import column_scales, scaled
from hingerank.personal.rankers import PersonalRanker
from hingerank.personal.serving import new_user
from hingerank.registry import RANKERS, ranker_class

RANKED = sorted(
    name
    for name in RANKERS
    if issubclass(ranker_class(name), PersonalRanker) and "features" in ranker_class(name)().get_params()
)
MAPS = [NystroemMap(12), NystroemMap(12, rank=5), FourierMap(10), PolynomialFeatures(2), SplineTransformer(n_knots=3)]


def told(seed=0):
    """Users who like what is near to a place of their own, and a column in another unit."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 2)) * [1.0, 100.0]
    users, items = np.repeat(np.arange(25), 12), np.concatenate([rng.permutation(80)[:12] for _ in range(25)])
    places = 0.7 * rng.standard_normal((25, 2))
    return X, users, items, np.round(-np.square(X[items] / [1.0, 100.0] - places[users]).sum(axis=1), 1)


def by_hand(X, feature_map):
    """The mapped matrix of scaled columns."""
    return clone(feature_map).fit_transform(scaled(X, *column_scales(X)))


@pytest.mark.parametrize("feature_map", MAPS, ids=lambda m: f"{type(m).__name__}{getattr(m, 'rank', None) or ''}")
@pytest.mark.parametrize("name", RANKED)
def test_a_fit_is_that_of_the_mapped_matrix(name, feature_map, tmp_path):
    (X, *rest), make = told(), ranker_class(name)
    ranker, F = make(features=feature_map).fit(X, *rest), by_hand(X, feature_map)
    plain = make(scale=None).fit(F, *rest)
    users, items = rest[:2]
    scores = ranker.predict(users, X[items])
    np.testing.assert_allclose(scores, plain.predict(users, F[items]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ranker.score(X, *rest), plain.score(F, *rest), atol=1e-6)
    assert ranker.n_features_in_ == 2 and ranker.features_.n_outputs == F.shape[1]
    back = hr.load(ranker.save(tmp_path))
    np.testing.assert_array_equal(back.predict(users, X[items]), scores)
    np.testing.assert_array_equal(back.top_k([3, 4], X)[0], ranker.top_k([3, 4], X)[0])
    _, own, vectors = ranker._vectors(X)  # as exports write them
    np.testing.assert_allclose(own @ vectors.T, np.array([ranker.predict(u, X) for u in ranker.users_]), atol=1e-9)
    assert make(features=feature_map).natural_C(X, *rest) == pytest.approx(ranker.C_, rel=1e-3)


def test_new_users_are_folded_in_by_mapped_items(tmp_path):
    X, *rest = told()
    ranker = hr.PersonalRankSVM(rank=3, prior=1.0, features=NystroemMap(12)).fit(X, *rest)
    plain = hr.PersonalRankSVM(rank=3, prior=1.0, scale=None).fit(F := by_hand(X, NystroemMap(12)), *rest)
    items, ratings = rest[1][:12], rest[2][:12]
    weights = ranker.add_user("zoe", X[items], ratings)
    np.testing.assert_allclose(weights, plain.add_user("zoe", F[items], ratings), atol=1e-6)
    assert (hr.load(ranker.save(tmp_path)).rank("zoe", X) == ranker.rank("zoe", X)).all()
    elsewhere = new_user(ranker.new_users(), ranker._vectors(X)[2][items].tolist(), ratings.tolist())
    np.testing.assert_allclose(elsewhere, weights, atol=1e-5)
    known = ranker.predict(rest[0], X[rest[1]])
    again = ranker.update(X[::-1], rest[0], 79 - rest[1], rest[2]).predict(rest[0], X[rest[1]])  # the map stays
    assert np.corrcoef(known, again)[0, 1] > 0.99


def test_a_second_fit_without_a_map_forgets_it():
    X, *rest = told()
    ranker = hr.PersonalRankSVM(rank=2, features=FourierMap(10)).fit(X, *rest)
    ranker.set_params(features=None).fit(X, *rest)
    same = hr.PersonalRankSVM(rank=2).fit(X, *rest)
    assert ranker.features_ is None
    np.testing.assert_array_equal(ranker.basis_, same.basis_)


def test_clicks_and_sparse_features_are_mapped_too():
    X, users, items, _ = told()
    rows = sp.csr_matrix(np.abs(X) * (np.abs(X) > 0.3))
    for loss in ("squared", "squared_hinge"):
        ranker = hr.PersonalRankSVM(rank=2, loss=loss, features=NystroemMap(15)).fit_clicks(rows, users, items)
        assert ranker.basis_.shape == (15, 2)
        assert ranker.top_k([0, 1], rows, 5)[0].shape == (2, 5)


def test_a_map_helps_where_users_like_what_is_near():
    X, users, items, ratings = told()
    held = np.arange(len(users)) % 4 == 0
    train, test = ((users[part], items[part], ratings[part]) for part in (~held, held))
    line, near = (
        hr.PersonalRankSVM(rank=5, features=m).fit(X, *train).score(X, *test) for m in (None, NystroemMap(40))
    )
    assert near > line + 0.1


def test_names_of_mapped_features():
    X, *rest = told()
    ranker = hr.PersonalRankSVM(rank=2, features=PolynomialFeatures(2, include_bias=False)).fit(X, *rest)
    words = {word for side in ranker.basis_table(["year", "price"])[0].values() for word, _ in side}
    assert "year price" in words and "year^2" in words
    kernel = hr.PersonalRankSVM(rank=2, features=NystroemMap(6)).fit(X, *rest)
    assert all(word.startswith("map ") for side in kernel.basis_table()[0].values() for word, _ in side)
    assert "year price" in personal_page(ranker, Catalogue(np.arange(80), X, ["year", "price"]))
    assert "map 3" in personal_page(kernel, Catalogue(np.arange(80), X, ["year", "price"]))


def test_what_is_refused_says_what_to_do(tmp_path):
    X, *rest = told()
    with pytest.raises(ValueError, match="features is 'nystrom', expected one of nystroem, fourier"):
        hr.PersonalRankSVM(features="nystrom").fit(X, *rest)
    ranker = hr.PersonalRankSVM(rank=2, features=FunctionTransformer(np.tanh)).fit(X, *rest)
    with pytest.raises(hr.ModelFileError, match="FunctionTransformer, which a model file cannot hold"):
        ranker.save(tmp_path)
    with pytest.raises(ValueError, match="for each user: export it with to='vectors'"):
        ranker.export(tmp_path / "model.py", to="python")
    with pytest.raises(ValueError, match="X has 3 features"):
        ranker.predict(0, np.ones((2, 3)))
    ranker.features_ = FourierMap(4).fit(X[:, :1])
    with pytest.raises(hr.ModelFileError, match="features_ must be a feature map fitted on 2 features"):
        ranker.save(tmp_path)
