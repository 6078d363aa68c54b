"""Methods by name: default values, values given, and searches over their ranges."""

import pytest

from hingerank.lab import compare, query_folds
from hingerank.lab.methods import Method, make_search, method_from_name, parse_settings
from hingerank.registry import ranker_class
from hingerank.search.folds import path_batches
from hingerank.search.proposals import Choice, Grid, Integers, LogUniform, OptunaSearch, RandomSearch
from hingerank.search.settings import CS


def test_a_ranker_with_its_usual_values():
    method = method_from_name("rank-svm")
    assert method.name == "rank-svm" and method.ranker is ranker_class("rank-svm")
    assert method.path == "C"
    assert next(method.search.propose(0)) == [{"loss": "squared_hinge", "pair_weight": "uniform", "C": C} for C in CS]


def test_clear_beginnings_of_names():
    assert method_from_name("fenchel").name == "fenchel"
    assert method_from_name("fenchel").ranker is ranker_class("fenchel-rank")
    with pytest.raises(ValueError, match="'rank' could be rank-svm, "):
        method_from_name("rank")


def test_values_given_are_tried_or_fixed():
    method = method_from_name("mine = rank-svm", {"C": [1.0, 2.0], "loss": ["hinge"], "tol": [1e-4, 1e-5]})
    assert method.name == "mine"
    assert dict(method.fixed) == {"loss": "hinge"}
    assert method.search.settings() == [{"C": C, "tol": tol} for C in (1.0, 2.0) for tol in (1e-4, 1e-5)]
    fixed = method_from_name("rank-svm", {"C": [3.0]})
    assert dict(fixed.fixed) == {"C": 3.0} and next(fixed.search.propose(0)) == [
        {"loss": loss, "pair_weight": "uniform"} for loss in ("squared_hinge", "hinge")
    ]


def test_what_is_left_to_try_without_data_is_tried(make_toy_data):
    """Without a fold there are no scalings to try, and with C fixed nothing in the first stage."""
    methods = [method_from_name("rank-svm", {"C": [0.01]}), method_from_name("joint")]
    results = compare(methods, query_folds(make_toy_data(), 3), measures=[], workers=1)
    tried = [r["setting"] for r in results.validations("rank-svm")]
    assert {(each["loss"], each["pair_weight"]) for each in tried} > {
        ("hinge", "uniform"),
        ("squared_hinge", "uniform"),
    }
    assert not results.validations("joint") and not results.failures()


def test_searches_over_ranges():
    space = {"C": [0.1, 10.0, 1.0], "k": [2, 8], "loss": ["a", "b"], "z": [-1.0, 1.0]}
    search = make_search([space], "random", 7)
    assert isinstance(search, RandomSearch) and search.size == 7
    assert search.space == {
        "C": LogUniform(0.1, 10.0),
        "k": Integers(2, 8),
        "loss": Choice(("a", "b")),
        "z": Choice((-1.0, 1.0)),
    }
    assert isinstance(make_search([space], "optuna", 7), OptunaSearch)
    assert make_search([{}], "random", 7) == Grid({})


def test_settings_are_read():
    given = parse_settings(["a.b.C=1e-3, 2", "scale=none,standard", "rank-svm.loss=hinge", "x=true"])
    assert given == {
        "a.b": {"C": [0.001, 2]},
        "": {"scale": [None, "standard"], "x": [True]},
        "rank-svm": {"loss": ["hinge"]},
    }


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: method_from_name("rank-svn"), "no ranker named 'rank-svn'"),
        (lambda: method_from_name("rank-svm", {"c": [1]}), "no parameter 'c'; it has C, "),
        (lambda: make_search([{"C": [1.0, 2.0]}], "bayes", 3), "search must be 'grid', 'random' or 'optuna', not"),
        (lambda: parse_settings(["C"]), "not of the form"),
        (lambda: parse_settings(["C="]), "not of the form"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_seeds_reach_rankers_that_take_them(rankers):
    assert Method("n", rankers.Noise).make({}, seed=4).random_state == 4
    assert Method("n", rankers.Noise, fixed={"random_state": 1}).make({}, seed=4).random_state == 1
    assert Method("c", rankers.Column).make({"column": 2}, seed=4).column == 2


def test_batches_follow_the_path(rankers):
    method = Method("p", rankers.Path, {"C": [1, 2], "intercept": [0, 1]})
    groups = path_batches(method.search.settings(), method.paths)
    assert [[s["C"] for s in group] for group in groups] == [[1, 2], [1, 2]]
    assert [{s["intercept"] for s in group} for group in groups] == [{0}, {1}]
    assert len(path_batches([{"column": 0}, {"column": 1}], Method("c", rankers.Column).paths)) == 2
