"""Tables of personal rankers: accuracies are those of pairs counted one by one, the setting is validation's choice."""

import json
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from hingerank.papers import TABLES, Place, load_outcome, personal
from hingerank.papers.engine import Ours, kept, make_tables
from hingerank.papers.outcome import Outcome, reproduce, reproduce_rows
from hingerank.papers.sets import MissingSet
from hingerank.personal.generate import make_personal
from hingerank.registry import ranker_class

WORDS = {
    "paper": "Toy 2000, A Paper",
    "studies": {"toy": {"data": "toy"}},
    "methods": {
        "low rank": {"ranker": "personal-rank-svm", "search": {"C": [10.0, 100.0]}, "fixed": {"rank": 2}},
        "joint": {"ranker": "joint", "search": {"C": [0.1]}},
    },
    "tables": [
        {
            "name": "toy-table",
            "title": "Table",
            "setup": "As it is.",
            "sections": [
                {
                    "title": "Toy",
                    "study": "toy",
                    "runner": "personal.personal",
                    "columns": ["seconds", "train accuracy", "test accuracy"],
                    "rows": {"low rank": [1.0, 0.9, 0.8], "not run": [1.0, 0.5, 0.5], "joint": []},
                }
            ],
        }
    ],
}


def toy(place):
    data = make_personal(30, 200, 8, 2, per_user=40, seed=0)
    train, rest = data.split(0.5, seed=0)
    validation, test = rest.split(0.5, seed=0)
    parts = {"train": train, "validation": validation, "test": test}
    return data.item_features, {name: (p.users, p.winners, p.losers) for name, p in parts.items()}, True


def test_rows_are_run_with_the_setting_that_validation_chooses(tmp_path, monkeypatch):
    monkeypatch.setitem(personal.SETS, "toy", toy)
    section = make_tables([WORDS])["toy-table"].sections[0]
    place = Place(tmp_path, tmp_path)
    found = section.compute(place)
    kept = {path.name: json.loads(path.read_text("utf-8")) for path in (tmp_path / "toy").iterdir()}
    tried = {float(name[len("low-rank-C=") : -len(".json")]): made for name, made in kept.items() if "rank" in name}
    best = max(sorted(tried), key=lambda C: tried[C]["validation"])
    assert list(found) == ["low rank", "joint"] and found["low rank"].chosen == [{"C": best}]
    assert found["low rank"].values["test accuracy"] == tried[best]["test"] > 0.6
    beyond = {"C": sorted(set(tried) - {10.0, 100.0})}  # the next one is worse, so that those farther are not tried
    assert found["low rank"].widened == beyond and beyond["C"] in ([1.0], [1000.0])
    assert "joint-C=0.1.json" in kept
    monkeypatch.setitem(personal.SETS, "toy", None)  # what is kept is not computed again
    assert section.compute(place) == found


def test_a_row_is_run_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(personal.SETS, "toy", toy)
    saved = reproduce(make_tables([WORDS])["toy-table"], Place(tmp_path, tmp_path / "runs"))
    new = reproduce_rows(saved, ["joint"], Place(tmp_path, tmp_path / "others")).sections[0]
    assert new["joint"].made and new["low rank"] == saved.sections[0]["low rank"]
    assert [path.name for path in (tmp_path / "others" / "toy").iterdir()] == ["joint-C=0.1.json"]


def test_rows_of_a_section_that_has_none_yet_are_run(tmp_path, monkeypatch):
    monkeypatch.setitem(personal.SETS, "toy", toy)
    table = make_tables([WORDS])["toy-table"]
    empty = Outcome(table, [{}], 1.0, {"hingerank": "0"})
    place = Place(tmp_path, tmp_path / "runs")
    assert list(reproduce_rows(empty, ["joint"], place).sections[0]) == ["joint"]

    def absent(place):
        raise MissingSet("toy", "is not there")

    monkeypatch.setitem(personal.SETS, "toy", absent)
    elsewhere = Place(tmp_path, tmp_path / "others")
    assert reproduce_rows(empty, ["joint"], elsewhere).sections == [{}]
    with pytest.raises(MissingSet):
        reproduce_rows(replace(empty, sections=[{"joint": Ours({})}]), ["joint"], elsewhere)


def test_all_training_ratings_are_learned_from_at_a_given_setting(tmp_path, monkeypatch):
    monkeypatch.setitem(personal.SETS, "toy", lambda place: personal.all_training(toy(place)))
    words = {**WORDS, "methods": {"joint": {"ranker": "joint", "fixed": {"C": 0.1}}}}
    found = make_tables([words])["toy-table"].sections[0].compute(Place(tmp_path, tmp_path))["joint"]
    features, parts, _ = toy(None)
    triples = [np.concatenate(columns) for columns in zip(parts["train"], parts["validation"])]
    ranker = ranker_class("joint")(C=0.1, scale=None).fit_pairs(features, *triples)
    assert found.values["test accuracy"] == personal.pairs_right(ranker, features, parts, "test") and not found.chosen


def test_what_is_learned_from_all_training_ratings_has_the_settings_that_validation_chose():
    saved = Path(__file__).parents[2] / "docs/reproductions"
    outcome, compared = load_outcome(TABLES["cheng2018-table4"], saved), 0
    by_run = {section.study.run: rows for section, rows in zip(outcome.table.sections, outcome.sections)}
    for section in outcome.table.sections:
        if section.study.data.endswith(", all training ratings"):
            chosen = by_run[section.study.run.removesuffix("-all")]
            for row, recipe in section.methods.items():
                [setting] = chosen[row.removesuffix(", all ratings")].chosen
                assert setting.items() <= recipe.fixed.items(), row
                compared += 1
    assert compared == 12


@pytest.mark.slow
def test_fewer_comparisons_are_the_first_of_each_user(monkeypatch):
    monkeypatch.setattr("hingerank.personal.generate.make_personal", cache(make_personal))  # a million rows, once
    every, some = (personal.synthetic(None, used)[1] for used in (800, 3))
    for user in (0, 7, 999):
        first = [tuple(column[every["train"][0] == user][:3]) for column in every["train"]]
        assert [tuple(column[some["train"][0] == user]) for column in some["train"]] == first
    assert len(some["train"][0]) == 3000 and (some["test"][1] == every["test"][1]).all()


def test_what_is_kept_of_a_large_and_of_a_small_number_are_two_files(tmp_path):
    place = Place(tmp_path, tmp_path)
    assert [kept(place, "run", f"row-C={C:g}", lambda C=C: C) for C in (1e6, 1e-6)] == [1e6, 1e-6]


def test_ratings_in_the_right_order_are_counted_pair_by_pair():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((20, 3))

    class Ranker:
        def predict(self, users, X):
            return X @ np.array([1.0, 0.0, 0.0]) * (1 + users)

    def triples(n):
        return np.sort(rng.integers(0, 4, n)), rng.integers(0, 20, n), rng.integers(1, 6, n).astype(float)

    parts = {"train": triples(40), "test": triples(15)}

    def brute(names, old):
        rows = [(name, *row) for name in names for row in zip(*parts[name])]
        right = total = 0.0
        for (a, u, i, r), (b, v, j, q) in combinations(rows, 2):
            if u == v and r != q and (old or "test" in (a, b)):
                total += 1
                gap = (features[i, 0] - features[j, 0]) * (r - q)
                right += 0.5 if gap == 0 else gap > 0
        return right / total

    assert personal.ratings_right(Ranker(), features, parts, "train") == pytest.approx(brute(["train"], True))
    assert personal.ratings_right(Ranker(), features, parts, "test") == pytest.approx(brute(["train", "test"], False))
