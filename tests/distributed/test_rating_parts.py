"""PersonalRankSVM over parts of users is the fit of all of them together, wherever the parts are."""

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.features.nystroem import NystroemMap
from hingerank.personal.fold_in import STRENGTHS, USUAL

pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")


@pytest.fixture(scope="module")
def told():
    """Ratings of 60 users sorted by user, which is the order of parts."""
    rng = np.random.default_rng(0)
    X, users = rng.standard_normal((50, 6)), np.repeat(np.arange(60), 14)
    items = np.concatenate([rng.permutation(45)[:14] for _ in range(60)])
    tastes = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6))
    ratings = np.digitize(np.einsum("rc,rc->r", tastes[users], X[items]) + 0.3 * rng.standard_normal(840), [-1, 0, 1])
    return X, users, items, ratings.astype(float)


@pytest.fixture(scope="module")
def paths(told, tmp_path_factory):
    place = tmp_path_factory.mktemp("ratings")
    return write_parts(place, *told[1:], parts=4)


def write_parts(place, users, items, ratings, parts):
    paths = [str(place / f"part{k}.csv") for k in range(parts)]
    for path, some in zip(paths, np.array_split(np.unique(users), parts)):
        rows = np.isin(users, some)
        lines = [f"{u},{i},{y}" for u, i, y in zip(users[rows], items[rows], ratings[rows])]
        with open(path, "w") as file:
            file.write("\n".join(["user,item,rating", *lines, ""]))
    return paths


@pytest.mark.parametrize("name", ["PersonalRankSVM", "InductiveMatrixCompletion"])
@pytest.mark.parametrize(
    "options", [{}, {"C": 0.05, "cold_users": "zero", "prior": "zero"}, {"C": 0.05, "features": NystroemMap(8)}]
)
def test_parts_have_the_answer_of_the_whole(told, paths, name, options):
    one = getattr(hr, name)(rank=2, tol=1e-8, **options).fit(*told)
    other = getattr(hr, name)(rank=2, tol=1e-8, **options).fit_parts(told[0], hr.read_rating_parts(paths))
    assert other.certificate_.converged and other.n_pairs_ == one.n_pairs_ and pytest.approx(one.C_) == other.C_
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert other.users_.tolist() == one.users_.tolist() and other.notes_ == one.notes_
    np.testing.assert_allclose(other.user_weights_ @ other.basis_.T, one.user_weights_ @ one.basis_.T, atol=2e-3)
    assert other.trace_[-1]["train_accuracy"] == pytest.approx(one.trace_[-1]["train_accuracy"], abs=2e-3)
    # which of a few strengths so few users favour turns on the last digits of a fit; what they are drawn from does not
    assert {one.prior_strength_, other.prior_strength_} <= {0.0, USUAL, *STRENGTHS}
    if one.prior_mean_ is not None:
        np.testing.assert_allclose(other.prior_mean_ @ other.basis_.T, one.prior_mean_ @ one.basis_.T, atol=2e-3)


def test_a_shared_function_and_features_that_few_items_have(told, tmp_path):
    """Most items are rated by nobody, most features are those of such items, and files name items by ids."""
    X, users, items, ratings = told
    wide = sp.lil_matrix((200, 30))
    wide[100 : 100 + len(X), 10:16] = X
    wide[:100, 20] = 1.0
    wide, ids = wide.tocsr(), np.array([f"item {k}" for k in range(200)])
    paths = write_parts(tmp_path, users, ids[100 + items], ratings, 3)
    settings = {"rank": 2, "shared": True, "tol": 1e-8, "C": 0.1}
    one = hr.PersonalRankSVM(**settings).fit(wide, users, 100 + items, ratings)
    other = hr.PersonalRankSVM(**settings).fit_parts(wide, hr.read_rating_parts(paths, item_ids=ids))
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-3)
    with pytest.raises(hr.DataError, match=r"part0.csv.*not in item_ids"):
        hr.PersonalRankSVM().fit_parts(wide, hr.read_rating_parts(paths, item_ids=ids[:101]))


@pytest.mark.slow
def test_parts_that_lost_what_they_knew_take_their_steps_again(told, paths):
    """As after a restart, with the same bits; the steps that were right are not taken twice."""
    data = hr.read_rating_parts(paths)
    expected = hr.PersonalRankSVM(rank=2, tol=1e-6).fit_parts(told[0], data)

    def lose(entry):
        if entry["epoch"] == 2:
            from hingerank.distributed.parts import held

            held(data.parts[1]).made.clear()

    again = hr.PersonalRankSVM(rank=2, tol=1e-6, callback=lose).fit_parts(told[0], data)
    assert np.array_equal(again.basis_, expected.basis_) and np.array_equal(again.user_weights_, expected.user_weights_)


@pytest.mark.slow
def test_the_bits_are_those_of_one_process_and_outlive_a_worker(client, told, paths):
    data, killed = hr.read_rating_parts(paths, client), []
    expected = hr.PersonalRankSVM(rank=2, tol=1e-6).fit_parts(told[0], hr.read_rating_parts(paths))
    far = hr.PersonalRankSVM(rank=2, tol=1e-6).fit_parts(told[0], data)
    before = data.runner.loads

    def kill(entry):
        if entry["epoch"] == 3 and not killed:
            address = data.runner.place[data.parts[0].key]
            killed.extend(part for part in data.parts if data.runner.place[part.key] == address)
            os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

    after = hr.PersonalRankSVM(rank=2, tol=1e-6, callback=kill).fit_parts(told[0], data)
    for found in (far, after):
        assert np.array_equal(found.basis_, expected.basis_) and found.objective_ == expected.objective_
        assert np.array_equal(found.user_weights_, expected.user_weights_)
    assert data.runner.loads - before == len(killed) > 0


def test_a_user_in_two_parts_is_refused(told, tmp_path):
    _, users, items, ratings = told
    paths = write_parts(tmp_path, np.where(np.arange(len(users)) % 2, users, users + 100), items, ratings, 2)
    with open(paths[1], "a") as file:
        file.write("3,1,2.0\n")
    with pytest.raises(hr.DataError, match=r"user 3 is in several parts .*part0.csv, .*part1.csv"):
        hr.read_rating_parts(paths)
    with pytest.raises(hr.DataError, match=r"gone\.csv"):
        hr.read_rating_parts([str(tmp_path / "gone.csv")])
