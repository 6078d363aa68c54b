"""Recommenders under the protocol, judged by lists over all items."""

import inspect
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.cli.compare_commands import Methods, _with_defaults
from hingerank.data.files import DataError
from hingerank.lab import compare, list_folds, method_from_name, rating_folds
from hingerank.lab.kinds import OfLists
from hingerank.personal.baselines import BASELINES, PEERS, is_installed
from hingerank.personal.item_features import identity_features, join_features
from hingerank.personal.rankers import PersonalRanker
from hingerank.personal.top_n import same_lists
from hingerank.registry import RANKERS, ranker_class

PERSONAL = [name for name in RANKERS if issubclass(ranker_class(name), PersonalRanker)]
FAST = {  # settings with which a fit to these data takes next to no time
    "als": {"factors": [4], "regularization": [0.1]},
    "bpr": {"factors": [4], "regularization": [0.01], "iterations": [20]},
    "lightfm": {"no_components": [4], "epochs": [5], "taken": ["all"]},
    "item-knn": {"neighbours": [20], "shrink": [1.0]},
    "ease": {"ridge": [10.0], "feature_weight": [1.0]},
    "list-ranker": {"ridge": [10.0], "rank": [2], "mix": [0.4], "C": [0.1]},
    "rank-svm": {"C": [0.1], "scale": [None], "loss": ["hinge"], "pair_weight": ["uniform"]},
    "personal-rank-svm": {"C": [0.1], "rank": [2], "shared": [False]},
    "matrix-completion": {"C": [0.1], "rank": [2]},
    "mean-variance": {"C": [0.1], "shared": [1.0]},
    "popularity": {},
    "item-mean": {},
}
HELD_OUT = ["items", "ratings", "time"]


def skip_absent(name):
    if name in PEERS and not is_installed(name):
        pytest.skip(f"{PEERS[name].comes_with} is not installed")


@pytest.fixture(scope="module")
def ratings():
    made = hr.make_personal(40, 50, 4, 2, kind="ratings", per_user=20, seed=0)
    times = np.random.default_rng(0).permutation(len(made.users))
    told = hr.ratings_from(made.users, made.items, made.ratings, item_ids=range(50), times=times)
    return told, join_features((made.item_features, list("abcd")), identity_features(range(50)))


@pytest.mark.parametrize("held_out", HELD_OUT)
@pytest.mark.parametrize("name", [*BASELINES, *PERSONAL, "rank-svm"])
def test_figures_are_those_of_lists_over_the_whole_catalogue(ratings, name, held_out):
    """As `evaluate_top` finds them for the same fit, without what training and validation know."""
    skip_absent(name)
    told, (X, names) = ratings
    fold = list_folds(told, (X, names), 4, held_out=held_out, relevant=3)[-1]
    method = method_from_name(name, FAST.get(name, {"C": [0.1]}))
    results = compare([method], [fold], workers=1)
    assert not results.failures(), results.failures()[0]["error"]
    record = results.tests(name)[0]
    train, test, known = fold.train.index, fold.test.index, fold.test.known
    ranker = method.make(record["setting"], seed=0)
    seen = told.users[known], told.items[known]
    if held_out == "items":
        users = np.unique(told.users)
        old = np.unique(told.items[known])
        seen = np.repeat(users, len(old)), np.tile(old, len(users))
        assert not np.intersect1d(old, told.items[test]).size
    if name == "rank-svm":
        rows = fold.part("train")
        ranker.fit(rows.X, rows.y, rows.qid)
        model = SimpleNamespace(top_k=lambda of, X, top, exclude: same_lists(ranker.predict(X), of, top, exclude))
    else:
        model = ranker.fit(X, told.users[train], told.items[train], told.ratings[train])
    found = hr.evaluate_top(model, X, (told.users[test], told.items[test], told.ratings[test]), seen, relevant=3)
    values = dict(zip(record["queries"], zip(*(record["values"][m] for m in results.measures))))
    by_name = [found.per_user[m.removeprefix("list_").partition("@")[0]] for m in results.measures]
    assert len(values) == len(np.unique(told.users[test]))
    for user, mine in zip(found.users.tolist(), zip(*by_name)):
        assert values[user] == pytest.approx(mine)
    others = [value for user, line in values.items() if user not in found.users for value in line]
    assert all(value is None for value in others)


def test_measures_of_lists_and_of_rated_items_are_never_mixed(ratings):
    methods = [method_from_name("popularity")]
    with pytest.raises(ValueError, match=r"ndcg@10 judges the order of rated items, and these folds are for lists"):
        compare(methods, list_folds(*ratings, 3), "list_ndcg@10", ["list_recall@10", "ndcg@10"], workers=1)
    with pytest.raises(ValueError, match=r"list_ndcg@10 judges lists over all items, .*: give folds of list_folds"):
        compare(methods, rating_folds(*ratings, 3), "ndcg@10", ["list_ndcg@10"], workers=1)
    with pytest.raises(ValueError, match="at most 100 items"):
        compare(methods, list_folds(*ratings, 3), "list_ndcg@200", workers=1)
    with pytest.raises(DataError, match="no rating of 9 or more to validate by"):
        list_folds(*ratings, 3, relevant=9)


def test_what_is_relevant_is_part_of_a_run(ratings, tmp_path):
    methods = [method_from_name("popularity")]
    compare(methods, list_folds(*ratings, 3, relevant=3), folder=tmp_path, workers=1)
    with pytest.raises(ValueError, match="other data"):
        compare(methods, list_folds(*ratings, 3, relevant=4), folder=tmp_path, workers=1)


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "popularity"])
def test_settings_of_baselines(name):
    skip_absent(name)
    known = list(inspect.signature(BASELINES[name]).parameters)
    with pytest.raises(ValueError, match=f"{name} has no parameter 'C'.*; it has {known[0]}"):
        method_from_name(name, {"C": [1.0]})
    method = method_from_name(name)
    assert set(method.search.space) <= set(known)
    assert method.is_random == (name in PEERS)


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("hingerank.personal.baselines.find_spec", lambda name: None)
    for name, words in {"als": "implicit", "bpr": "implicit", "lightfm": "lightfm-next"}.items():
        with pytest.raises(ValueError, match=f"{name} needs the package .*: pip install {words}$"):
            method_from_name(name)


def test_the_command_line(ratings, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    told, _ = ratings
    lines = [f"{u},{i},{y:g},{t}" for u, i, y, t in zip(told.users, told.items, told.ratings, told.times)]
    Path("r.csv").write_text("customer,sku,rating,timestamp\n" + "\n".join(lines) + "\n")
    columns = ["--user-column", "customer", "--item-column", "sku", "--workers", "1", "--json"]
    fixed = [
        "--set",
        "ease.ridge=10",
        "--set",
        "ease.feature_weight=1",
        "--set",
        "item-knn.shrink=1",
        "--set",
        "item-knn.neighbours=9",
    ]
    line = ["compare", "r.csv", "--methods", "popularity,item-knn,ease", "--measure", "list_recall@5", *columns]

    def call(*words):
        status = main([*map(str, words)])
        return status, *capsys.readouterr()

    status, out, err = call(*line, *fixed, "--hold-out", "time", "-o", "run")
    assert status == 0, err
    board = {line["method"]: line["means"] for line in json.loads(out)}
    assert set(board) == {"popularity", "item-knn", "ease"} and "list_ndcg@10" in board["ease"]
    assert all(name.startswith("list_") for name in board["ease"])
    assert call("report", "run")[0] == 0
    assert call(*line, "--relevant", "9", "-o", "other")[0] == 1
    status, _, err = call("compare", "r.csv", *columns, "--relevant", "3", "-o", "other")
    assert status == 1 and "--relevant is for lists over all items: add --measure list_ndcg@10" in err


def test_what_is_compared_by_lists_unless_told(monkeypatch):
    assert _with_defaults(Methods(), "ratings", None, True).methods.startswith("popularity,item-knn,ease,list-ranker")
    monkeypatch.setattr("hingerank.personal.baselines.find_spec", lambda name: name == "implicit" or None)
    assert _with_defaults(Methods(), "ratings", None, True).methods == "popularity,item-knn,ease,list-ranker,als,bpr"


def test_an_item_that_is_not_in_a_short_list_is_no_hit(ratings):
    class Nothing:
        def fit(self, item_features, users, items, ratings):
            return self

        def top_k(self, users, candidates, top=10, *, exclude=None):
            return np.full((len(users), top), -1), np.full((len(users), top), -np.inf)

    lists = OfLists(list_folds(*ratings, 3)[0].test.take())
    assert lists.data.catalogue.shape[0] == 50
    values = lists.values(lists.scores(Nothing()), {name: name for name in ("list_recall@100", "list_ndcg@100")})
    assert all(np.nanmax(value) == 0 for value in values.values())
