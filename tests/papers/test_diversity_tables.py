"""Comparisons of diversifying rerankers: folds rotate, choices never see test queries, marks say what they mean."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hingerank.diversity.generate import make_diverse
from hingerank.diversity.measures import parse_diversity_measure
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import XQuAD
from hingerank.papers import TABLES, Place, Section, diversity
from hingerank.papers.diversity import (
    ERR,
    NDCG,
    _rows,
    fold_values,
    indri_queries,
    leave_one_out,
    marks,
    web_track_qrels,
)
from hingerank.papers.engine import TableStudy

DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).parents[3] / "shared" / "data"))


METHODS = TABLES["xu2015-diversity"].sections[-1].methods
QUICK = ("One feature", "ListMLE", "MMR", "xQuAD", "PM-2")


@pytest.fixture(scope="module")
def folds():
    data = make_diverse(10, 20, 3, seed=1)
    return [data[k::5] for k in range(5)]


@pytest.mark.parametrize("name", QUICK)
def test_every_query_is_tested_once(folds, name):
    found = fold_values(name, METHODS, folds)
    assert sorted(map(int, found["values"][ERR])) == list(range(1, 11)) == sorted(map(int, found["values"][NDCG]))
    assert len(found["chosen"]) == 5
    assert all(0 <= value <= 1 for value in found["values"][NDCG].values())


def test_a_grid_grows_where_its_edge_is_best_on_validation(folds):
    recipe = replace(METHODS["ListMLE"], search={"C": [0.1, 1.0]})
    found = fold_values("ListMLE", {"ListMLE": recipe}, folds)
    grown = _rows({"ListMLE": found}, Section("S", ["α-NDCG@20"], {}, methods={"ListMLE": recipe}))["ListMLE"].widened
    assert {0.1, 1.0} < {setting["C"] for setting in found["tried"]} == {0.1, 1.0, *grown["C"]}
    assert all(setting in found["tried"] for setting in found["chosen"])


def test_choices_do_not_see_test_queries(folds):
    """Judgments of the test fold turned around: the same setting is chosen, and only its values change."""
    turned = [query.with_parts(judgments=query.judgments[::-1]) for query in folds[4]]
    before = fold_values("xQuAD", METHODS, folds)
    after = fold_values("xQuAD", METHODS, [*folds[:4], type(folds[4])(turned)])
    assert before["chosen"][0] == after["chosen"][0]  # fold 5 is tested first
    tested = [query.qid for query in folds[4]]
    assert [before["values"][NDCG][qid] for qid in tested] != [after["values"][NDCG][qid] for qid in tested]


def score_candidates(queries, run):
    """Measures of a run, with the ideal ranking computed over the candidates."""
    values = {ERR: {}, NDCG: {}}
    for q in queries:
        order = [list(q.docids).index(docid) for docid in run[q.qid].docids[:20]]
        for name, by_query in values.items():
            by_query[q.qid] = parse_diversity_measure(name)(q.judgments, order)
    return values


def test_leave_one_out_asks_the_others():
    """λ = 1 is right for a and b, λ = 0 for c: a and b each hear one vote of each kind, c hears two for λ = 1."""

    def query(qid, good):
        shape = {"relevance": [1.0, 0.0], "aspects": [[0.0], [1.0]], "docids": ["r", "s"]}
        return DiverseQuery(np.zeros((2, 0)), judgments=np.eye(2)[:, [good]], qid=qid, **shape)

    queries = [query("a", 1), query("b", 1), query("c", 0)]
    found = leave_one_out(queries, partial(score_candidates, queries), [XQuAD(1.0), XQuAD(0.0)])
    assert found["chosen"] == [{"lam": 1.0}] * 3
    assert found["values"][NDCG]["a"] == 1
    assert found["values"][NDCG]["c"] < 1


def test_marks():
    rng = np.random.default_rng(0)
    base = rng.random(60)
    table = {"ref": base, "worse": base - 0.1 - 0.05 * rng.random(60), "same": base + 0.01 * rng.standard_normal(60)}
    table["better"] = base + 0.1
    values = {row: {"m": dict(enumerate(column))} for row, column in table.items()}
    found = marks(values, {"M": ("m", "ref")})
    assert found == {"ref": {}, "worse": {"M": "▼"}, "same": {}, "better": {"M": "▲"}}


def test_columns_are_means_over_the_topics_of_a_year_or_of_all():
    values = {measure: {"1": 0.1, "50": 0.3, "51": 0.8} for measure in (ERR, NDCG)}
    section = Section("S", ["ERR-IA@20, 2009", "α-NDCG@20, 2010", "ERR-IA@20, all", "α-NDCG@20"], {})
    found = _rows({"QL": {"values": values, "chosen": [{"lam": 0.5}]}}, section)["QL"]
    assert found.values == pytest.approx(dict(zip(section.columns, [0.2, 0.8, 0.4, 0.4])))
    assert found.marks is None and found.chosen == [{"lam": 0.5}]


def test_generated_queries_of_several_seeds_are_one_row_and_are_kept(tmp_path, monkeypatch):
    options = {"name": "toy", "queries": 10, "seeds": [0, 1], "against": ["ListMLE", "ListMLE"]}
    options["data"] = {"candidates": 12, "subtopics": [2, 4]}
    methods = {"ListMLE": METHODS["ListMLE"]}
    section = Section("S", ["ERR-IA@20", "α-NDCG@20"], {}, TableStudy("toy", ""), methods, options=options)
    place = Place(tmp_path, tmp_path)
    first = diversity.generated_queries(section, place)
    assert len(list((tmp_path / "toy").iterdir())) == 4 and len(first["ListMLE"].chosen) == 10
    data = make_diverse(10, seed=0, **options["data"]), make_diverse(10, seed=1, **options["data"])
    alone = [fold_values("ListMLE", METHODS, [d[k::5] for k in range(5)]) for d in data]
    means = [value for found in alone for value in found["values"][ERR].values()]
    assert first["ListMLE"].values["ERR-IA@20"] == pytest.approx(np.mean(means))
    monkeypatch.setattr(diversity, "fold_values", None)  # what is kept is not computed again
    assert diversity.generated_queries(section, place) == first


@pytest.mark.skipif(not (DATA / "trec-web-diversity").is_dir(), reason=f"no TREC diversity data in {DATA}")
def test_queries_of_the_web_tracks():
    folder = DATA / "trec-web-diversity"
    qrels = web_track_qrels(folder)
    guessed, true = (indri_queries(folder, qrels, aspects) for aspects in ("suggestions", "subtopics"))
    assert (len(guessed), len(true)) == (13, 198)
    assert all(query.n <= 100 and query.aspects.max() <= 1 for query in guessed)
    assert guessed[0].qid == "6"
    assert guessed[0].aspects.shape[1] == 10


def test_products_of_vectors_are_near_the_cosines_of_texts():
    query = diversity.with_vectors(make_diverse(2, 30, seed=0), 4000)[0]
    assert query.vectors.shape == (30, 4000)
    products = query.vectors @ query.vectors.T
    cosines = 1 - query.relations.rows(range(30))[:, list(query.relations.names).index("tfidf")]
    apart = ~np.eye(30, dtype=bool)
    assert np.corrcoef(products[apart], cosines[apart])[0, 1] > 0.9
