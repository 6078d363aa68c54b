"""Tables of sets that few have: every part of them runs, on tiny imitations in the layout of the set."""

import gzip
import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.data.generate import make_letor
from hingerank.papers import TABLES, Place
from hingerank.papers.letor import _fit_both
from hingerank.papers.outcome import reproduce
from hingerank.papers.sets import GENERATED, read_set

GOV = ("TD2004", "NP2004", "HP2004")
OF_GOV = [
    "chen2017-table3",
    *(f"lai2013-{part}" for part in ("table2", "table3", "table4", "table5", "table7", "table8", "table9", "fig2")),
    "lai2013-features",
]


@pytest.fixture(scope="module")
def gov(tmp_path_factory):
    """The three .Gov sets of 2004 as LETOR 3.0 lays them out: 64 features, two grades, five parts of three queries."""
    folder = tmp_path_factory.mktemp("gov")
    data = make_letor(15, 12, n_features=64, n_grades=2, skew=(0.8, 0.2), query_effect=0.0, seed=0)
    for name in GOV:
        parts = folder / "Gov" / "QueryLevelNorm" / f"2004_{name[:2].lower()}_dataset"
        parts.mkdir(parents=True)
        for k, ids in enumerate(np.split(data.blocks.ids, 5), 1):
            hr.write(data.take(np.flatnonzero(np.isin(data.qid, ids))), parts / f"S{k}.txt")
    return Place(folder, folder / "runs", folds=[1], workers=1)


def shortened(table):
    """The parts of a table that are of the .Gov sets, with one value of every grid and few steps."""

    def short(recipe):
        fixed = {k: 10 if k in ("max_iter", "n_components") else v for k, v in recipe.fixed.items()}
        return replace(recipe, search={name: values[:1] for name, values in recipe.search.items()}, fixed=fixed)

    def part(section):
        methods = {row: short(recipe) for row, recipe in section.study.methods.items()}
        rows = {row: methods[row] for row in section.methods}
        return replace(section, study=replace(section.study, methods=methods), methods=rows)

    return replace(table, sections=[part(section) for section in table.sections if section.study.data in GOV])


@pytest.mark.parametrize("name", OF_GOV)
def test_every_part_of_the_gov_sets_is_run_and_fills_its_rows(gov, name, monkeypatch):
    monkeypatch.setenv("HINGERANK_CACHE", str(gov.data / "cache"))
    table = shortened(TABLES[name])
    outcome = reproduce(table, gov)
    assert table.sections and not outcome.not_run()
    for section, found in zip(table.sections, outcome.sections):
        assert set(section.figures) <= set(found), "a figure of the paper that has none of ours beside it"
        assert all(np.isfinite(ours.values[c]) for ours in found.values() for c in section.columns if c in ours.values)


def test_features_are_counted_over_folds_and_measured_alone(gov, monkeypatch):
    monkeypatch.setenv("HINGERANK_CACHE", str(gov.data / "cache"))
    section = shortened(TABLES["lai2013-features"]).sections[0]
    found = section.compute(gov)
    test = read_set("TD2004", gov.find("TD2004"), [1])[0].test
    row, ours = next(iter(found.items()))
    values = test.X[:, int(row.removeprefix("feature ")) - 1]
    best = max(hr.evaluate(test.y, s * values, test.qid, "ndcg@10:letor3")["ndcg@10:letor3"] for s in (1, -1))
    assert ours.values["N@10 alone"] == pytest.approx(best)
    assert sum(ours.values["weight"] for ours in found.values()) == pytest.approx(1.0)  # radius 1 keeps few features
    assert all(ours.values["folds"] in (0.0, 1.0) for ours in found.values())


def test_tgranks_c_counts_every_pair_and_its_ball_is_fenchelranks(gov):
    train = read_set("HP2004", gov.find("HP2004"), [1])[0].train
    found = _fit_both(train, 0.1)
    pairs = sum(a != b for q in train.blocks.ids for a, b in combinations(train.y[train.qid == q], 2))
    weights = hr.TGRank(C=0.1 * pairs, max_iter=1000).fit(train).coef_
    assert found["FenchelRank"]["r"] == pytest.approx(np.abs(weights).sum())
    assert found["TGRank"]["ratio"] == pytest.approx(np.count_nonzero(weights) / len(weights))


def test_a_sets_statistics_are_those_of_pairs_counted_one_by_one(gov, monkeypatch):
    monkeypatch.setenv("HINGERANK_CACHE", str(gov.data / "cache"))
    section = TABLES["xu2019-table1"].sections[0]
    section = replace(section, study=replace(section.study, data="TD2004"))
    ours = section.compute(replace(gov, folds=None))["TD2004"].values
    parts = [fold.test for fold in read_set("TD2004", gov.find("TD2004"))]
    pairs = [sum(a != b for a, b in combinations(p.y[p.qid == q], 2)) for p in parts for q in p.blocks.ids]
    assert ours == {"rows": 180, "queries": 15, "pairs": sum(pairs), "shared rows": pytest.approx(np.mean(pairs) / 12)}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_data_of_a_sets_shape_come_in_five_folds(name, tmp_path):
    folds = read_set(name, tmp_path, [2, 4])
    assert len(folds) == 2 and folds[0].train.n_features == {"HP2004": 64, "MSLR-WEB10K": 136}[name.split()[1]]
    ids = [set(part.blocks.ids.tolist()) for part in folds[0]]
    assert not ids[0] & ids[1] and not ids[1] & ids[2] and len(set().union(*ids)) == len(read_ids(name, tmp_path))


def read_ids(name, folder):
    return {q for part in read_set(name, folder, [1])[0] for q in part.blocks.ids.tolist()}


def test_the_slides_table_of_whole_tracks_is_one_command_over_a_users_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HINGERANK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data" / "trec-web"
    for name, first, file in (("09", 1, "qrels.diversity.gz"), ("10", 51, "10.diversity-qrels.final")):
        (folder / name).mkdir(parents=True)
        lines = f"{first} 1 a 1\n{first} 2 b 1\n{first} 1 c 0\n".encode()
        (folder / name / file).write_bytes(gzip.compress(lines) if file.endswith(".gz") else lines)
    (folder / "runs").mkdir()
    for row, order in (("QL", "ca"), ("PAMM(ERR-IA)", "ab")):
        lines = (f"{t} Q0 {doc} {k} {9 - k} x\n" for t in (1, 51) for k, doc in enumerate(order, 1))
        (folder / "runs" / f"{row}.txt").write_text("".join(lines))
    asked = ["reproduce", "xu2015-tracks", "--data", str(tmp_path / "data"), "-o", str(tmp_path / "out")]
    assert main(asked) == 0
    assert "PAMM(ERR-IA)" in capsys.readouterr().out
    saved = json.loads((tmp_path / "out" / "xu2015-tracks.json").read_text("utf-8"))["sections"][0]["rows"]
    assert saved["PAMM(ERR-IA)"]["values"]["α-NDCG@20, 2010"] == 1.0 > saved["QL"]["values"]["α-NDCG@20, 2010"]
    assert "α-NDCG@20, 2011" not in saved["QL"]["values"], "no topics of that year"


@pytest.fixture
def films(tmp_path, monkeypatch):
    """Eight users' ratings of thirty films, as MovieLens 20M lays them out."""
    monkeypatch.setenv("HINGERANK_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    folder = tmp_path / "ml-20m"
    folder.mkdir()
    kinds = ["Action", "Comedy", "Drama", "Horror"]
    films = [f"{k},Film {k},{'|'.join(rng.choice(kinds, 2, replace=False))}" for k in range(1, 31)]
    (folder / "movies.csv").write_text("\n".join(["movieId,title,genres", *films]) + "\n")
    seen = [(user, film) for user in range(1, 9) for film in rng.choice(30, 15, replace=False) + 1]
    lines = [f"{user},{film},{rng.integers(1, 11) / 2},0" for user, film in seen]
    (folder / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *lines]) + "\n")
    return Place(tmp_path, tmp_path / "runs")


def test_the_line_of_movielens_20m_is_run_on_a_users_copy(films):
    section = next(s for s in TABLES["cheng2018-table4"].sections if s.study.data == "ml-20m")
    recipe = replace(section.methods["rank 18"], fixed={"rank": 2})
    found = replace(section, methods={"rank 18": recipe}).compute(films)
    assert 0 <= found["rank 18"].values["test accuracy"] <= 1


def test_a_basic_function_shows_its_features_from_most_positive_to_most_negative(films):
    section = TABLES["cheng2018-fig2"].sections[0]
    study, options = replace(section.study, data="ml-20m"), {"rank": 2, "C": 0.1, "function": 1}
    found = replace(section, study=study, options=options).compute(films)
    weights = [ours.values["weight"] for ours in found.values()]
    assert {"film", "Comedy"} & set(found) and weights == sorted(weights, reverse=True) and weights[0] > 0 > weights[-1]
