"""Methods by name: default values, values given, and searches over their ranges."""

import pytest

from hingerank.lab.methods import VALUES, make_search, method_from_name, parse_settings
from hingerank.registry import ranker_class
from hingerank.search.proposals import Choice, Grid, Integers, LogUniform, OptunaSearch, RandomSearch


def test_a_ranker_with_its_usual_values():
    method = method_from_name("rank-svm")
    assert method.name == "rank-svm" and method.ranker is ranker_class("rank-svm")
    assert method.path == "C"
    assert [s["C"] for s in method.search.settings()] == VALUES["C"]


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
    assert method_from_name("rank-svm", {"C": [3.0]}).search.settings() == [{}]


def test_searches_over_ranges():
    space = {"C": [0.1, 10.0, 1.0], "k": [2, 8], "loss": ["a", "b"], "z": [-1.0, 1.0]}
    search = make_search(space, "random", 7)
    assert isinstance(search, RandomSearch) and search.size == 7
    assert search.space == {
        "C": LogUniform(0.1, 10.0),
        "k": Integers(2, 8),
        "loss": Choice(("a", "b")),
        "z": Choice((-1.0, 1.0)),
    }
    assert isinstance(make_search(space, "optuna", 7), OptunaSearch)
    assert make_search({}, "random", 7) == Grid({})


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
        (lambda: method_from_name("rank-svm", {"c": [1]}), "no parameter 'c'; it has C, loss"),
        (lambda: method_from_name("mmr"), "use hingerank rerank, or MMR from Python"),
        (lambda: make_search({"C": [1.0, 2.0]}, "bayes", 3), "grid, random or optuna"),
        (lambda: parse_settings(["C"]), "not of the form"),
        (lambda: parse_settings(["C="]), "not of the form"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
