"""Ratings under the protocol: users are queries, parts share them, and personal rankers take part."""

import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import hingerank as hr
from hingerank.cli.app import app
from hingerank.data.files import DataError
from hingerank.lab import compare
from hingerank.lab.folds import check_folds
from hingerank.lab.kinds import kind_of
from hingerank.lab.methods import method_from_name
from hingerank.lab.rating_folds import list_folds, rating_folds, rating_rows
from hingerank.lab.report.page import basis
from hingerank.lab.results import load_results
from hingerank.personal.rating_sets import open_ratings, read_items
from hingerank.personal.ratings import ratings_from

NAMES = ["liked <b>word</b>", *(f"word{j}" for j in range(1, 8))]


@pytest.fixture(scope="module")
def made():
    return hr.make_personal(
        n_users=60, n_items=80, n_features=8, rank=2, kind="ratings", per_user=20, noise=0.05, seed=3
    )


@pytest.fixture(scope="module")
def ratings(made):
    return ratings_from(made.users, made.items, made.ratings, item_ids=np.arange(len(made.item_features)))


@pytest.mark.parametrize("held_out", ["items", "ratings"])
def test_folds_share_users_and_test_every_rating_once(made, ratings, held_out):
    folds = check_folds(rating_folds(ratings, (made.item_features, NAMES), 4, seed=1, held_out=held_out))
    tested = np.concatenate([fold.test.index for fold in folds])
    assert len(np.unique(tested)) == len(tested) == len(ratings)
    for fold in folds:
        train, test = fold.part("train"), fold.part("test")
        assert set(test.qid) <= set(train.qid)
        shared = set(train.docid) & set(test.docid)
        assert not shared if held_out == "items" else shared
        own = fold.validation.index
        assert not np.intersect1d(own, fold.test.index).size and not np.intersect1d(own, fold.train.index).size


def test_held_out_ratings_are_spread_over_every_users(made, ratings):
    for fold in rating_folds(ratings, (made.item_features, NAMES), 4, held_out="ratings"):
        _, counts = np.unique(fold.part("test").qid, return_counts=True)
        assert counts.min() >= 4 and counts.max() <= 6  # of about 20


def test_users_that_training_does_not_know_are_left_out():
    given = ratings_from(["a"] * 6 + ["b"], [0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 1, 2, 3, 5], item_ids=np.arange(6))
    folds = rating_folds(given, (1 + np.eye(6), list("uvwxyz")), 3)
    for fold in folds:
        train = set(fold.part("train").qid)
        assert set(fold.part("test").qid) <= train and set(fold.part("validation").qid) <= train
    assert sum(len(fold.test.index) for fold in folds) == 6  # b's only rating is never tested


def test_rows_are_the_items_features(made, ratings):
    data = rating_rows(ratings, (made.item_features, NAMES))
    assert np.array_equal(data.X, made.item_features[made.items]) and np.array_equal(data.y, made.ratings)
    assert data.docid[5] == str(made.items[5]) and list(data.feature_names) == NAMES


def test_a_joint_ranker_is_a_ranker_of_rows(made, ratings):
    data = rating_rows(ratings, (made.item_features, NAMES))
    joint, plain = hr.JointRanker(C=0.1, tol=1e-8, scale=None), hr.RankSVM(C=0.1, tol=1e-8)
    rows = kind_of(data)
    rows.learn(joint)
    rows.learn(plain)
    assert np.allclose(rows.scores(joint), rows.scores(plain), atol=1e-6)
    assert (rows.scores(plain) == plain.predict(data)).all()


def test_rows_fit_as_ratings_do(made, ratings):
    data = rating_rows(ratings, (made.item_features, NAMES))
    rows, own = (hr.PersonalRankSVM(rank=2, tol=1e-4, random_state=4, scale=None) for _ in range(2))
    kind_of(data).learn(rows)
    own.fit(made.item_features, made.users, made.items, made.ratings)
    assert rows.objective_ == pytest.approx(own.objective_, rel=1e-3)
    assert rows.certificate_.converged


def test_personal_rankers_are_compared_and_show_their_basis(made, ratings, tmp_path):
    folds = rating_folds(ratings, (made.item_features, NAMES), 3, held_out="ratings")
    methods = [method_from_name("personal", {"rank": [2], "C": [0.01, 0.1]}), method_from_name("joint", {"C": [0.01]})]
    results = compare(methods, folds, "pair_accuracy", folder=tmp_path, workers=1)
    assert not results.failures()
    means = {line.method: line.means["pair_accuracy"] for line in hr.leaderboard(results).lines}
    assert means["personal"] > means["joint"] + 0.1
    table = basis(results, "personal")
    assert table["fold"] == "fold 1" and table["total"] == len(table["functions"]) == 2
    for function in table["functions"]:
        liked, disliked = ([weight for _, weight in function[side]] for side in ("likes", "dislikes"))
        assert liked == sorted(liked, reverse=True) and disliked == sorted(disliked)
        assert min(liked) > 0 > max(disliked) and len(liked) + len(disliked) == 8
    assert basis(results, "joint") is None


def test_a_run_of_an_older_version_is_continued(made, ratings, tmp_path):
    """Until 0.2 rankers of ratings were compared inside classes of their own, which run.json names."""
    folds = rating_folds(ratings, (made.item_features, NAMES), 3, held_out="ratings")
    named = {"personal": {"rank": [2], "C": [0.01, 0.1]}, "mean-variance": {"C": [0.1], "shared": [1.0]}}
    methods = [method_from_name(name, given) for name, given in named.items()]
    methods.append(method_from_name("item-knn", {"neighbours": [20], "shrink": [1.0, 5.0]}))
    before = compare(methods, folds, "pair_accuracy", folder=tmp_path, workers=1)
    header = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    del header["checksum"]
    of_personal, of_variance, of_baseline = header["methods"].values()
    of_personal |= {"ranker": "hingerank.lab.ratings:PersonalRows"}
    of_personal["fixed"] |= {"ranker": "personal-rank-svm"}
    of_variance |= {"ranker": "hingerank.lab.ratings:PersonalRows", "fixed": {"ranker": "mean-variance", "C": 0.1}}
    of_variance["fixed"] |= {"sharing": 1.0}  # as the parameter was called
    of_baseline |= {"ranker": "hingerank:BaselineRows"}
    of_baseline["fixed"] |= {"name": "item-knn"}
    (tmp_path / "run.json").write_text(json.dumps(header), encoding="utf-8")
    assert load_results(tmp_path).header["methods"] == before.header["methods"]
    seen = []
    again = compare(methods, folds, "pair_accuracy", folder=tmp_path, workers=1, progress=seen.append)
    assert again.records == before.records and not any(progress.running for progress in seen)


def test_the_command_line(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{u},{i},{r}" for u, i, r in zip(made.users, made.items, made.ratings)]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    head = "item," + ",".join(f"x{j}" for j in range(8)) + ",title\n"
    rows = [f"{i},{','.join(map(str, x))},{'red' if i % 2 else 'blue'} car" for i, x in enumerate(made.item_features)]
    (tmp_path / "items.csv").write_text(head + "\n".join(rows) + "\n")
    command = (
        "compare ratings.csv --items items.csv --hold-out ratings --methods personal,rank-svm --folds 3 --workers 1 "
    )
    command += "--measure pair_accuracy --set personal.rank=2 --set C=0.01 -o run --json"
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, done.output
    board = json.loads(done.stdout)
    assert [line["method"] for line in board] == ["personal", "rank-svm"]
    assert (
        "--items items.csv --hold-out ratings"
        in json.loads((tmp_path / "run/run.json").read_text())["about"]["command"]
    )
    page = CliRunner().invoke(app, ["report", "run"])
    text = (tmp_path / "run/report.html").read_text()
    assert page.exit_code == 0 and "title: blue" in text
    assert "--keep model/" not in text  # which is for graded rows


def test_items_from_a_table(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,year,about\n7,1999,red car\n9,2001,red bus\n")
    ids, (X, names) = read_items(path)
    assert ids.tolist() == [7, 9] and names == ["year", "about: red"] and X.toarray().tolist() == [[1999, 1], [2001, 1]]
    for text, words in (
        ("item,year\n7,1\n7,2\n", "twice"),
        ("item\n7\n", "need features"),
        ("item,year\n7,\n8,1\n", "empty cells"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=words):
            read_items(path)
    assert open_ratings(tmp_path) is None


@pytest.mark.parametrize(
    "options, words",
    [
        ({"k": 2}, "at least 3"),
        ({"k": 3.5}, "k must be a positive whole number, not 3.5"),
        ({"k": 90}, "90 folds need"),
        ({"held_out": "users"}, "'items', 'ratings' or 'time'"),
    ],
)
def test_mistakes_are_named(made, ratings, options, words):
    with pytest.raises(ValueError, match=words):
        rating_folds(ratings, (made.item_features, NAMES), **options)


def test_a_fold_without_anything_to_test_says_so():
    lonely = ratings_from(list("abcdef"), [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 1], item_ids=np.arange(6))
    with pytest.raises(DataError, match="fold 1 has no rating to validate by a user of its training part: give fewer"):
        rating_folds(lonely, (1 + np.eye(6), list("uvwxyz")), 3)


def test_users_who_come_one_after_the_other_have_no_latest_ratings(made):
    users = np.repeat(np.arange(20), 3)
    given = ratings_from(users, np.arange(60), made.ratings[:60], item_ids=np.arange(80), times=np.arange(60))
    with pytest.raises(DataError, match="no user has a rating to validate after others to train: hold out ratings or"):
        rating_folds(given, (made.item_features, NAMES), 5, held_out="time")


def test_a_measure_to_which_all_ratings_are_relevant_is_named(made, ratings):
    folds = rating_folds(ratings, (made.item_features, NAMES), 3)
    rank_svm = method_from_name("rank-svm", {"C": [1.0], "scale": [None], "loss": ["squared_hinge"]})
    with pytest.warns(UserWarning, match="all rows are relevant to map, so it is the same for all methods"):
        results = compare([rank_svm], folds, "map", [], workers=1)
    assert results.query_mean("rank-svm", "map") == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare([rank_svm], folds, "map:relevant=4", [], workers=1)


@pytest.mark.parametrize("make", [rating_folds, list_folds])
def test_items_that_share_no_feature_are_not_held_out(ratings, make):
    own = hr.identity_features(ratings.item_ids)
    with pytest.raises(DataError, match="no two items share a feature"):
        make(ratings, own, 3, held_out="items")
    assert len(make(ratings, own, 3, held_out="ratings")) == 3


def test_personal_rankers_need_ratings(tmp_path):
    hr.write(hr.make_letor(n_queries=9, seed=0), tmp_path / "data.txt")
    line = ["compare", str(tmp_path / "data.txt"), "-o", "run", "--methods"]
    told = CliRunner().invoke(app, [*line, "personal,rank-svm"])
    assert told.exit_code != 0 and "personal learns a function for each user" in str(told.exception)
    told = CliRunner().invoke(app, [*line, "personal,popularity"])  # which learn from nothing else
    assert told.exit_code != 0 and "data.txt is read as ratings of users" in str(told.exception)


def test_popularity_and_item_mean_are_methods_to_compare():
    from hingerank.lab.methods import method_from_name

    X, y, qid = np.eye(3)[[0, 1, 0, 2]], np.array([5.0, 1.0, 4.0, 2.0]), np.array([1, 1, 2, 2])
    asked = kind_of(hr.RankingData.from_arrays(np.eye(3), y[:3], qid[:3]))
    found = {}
    for name in ("popularity", "item-mean"):
        ranker = method_from_name(name).make({})
        kind_of(hr.RankingData.from_arrays(X, y, qid)).learn(ranker)
        found[name] = asked.scores(ranker).tolist()
    assert found["popularity"] == [2, 1, 1] and np.argmax(found["item-mean"]) == 0
    with pytest.raises(ValueError, match="has no settings"):
        method_from_name("popularity", {"C": [1.0]})
