"""Diversifying rerankers in a comparison: over topics, with settings chosen on validation topics and one test."""

import warnings

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.diversity.generate import make_diverse
from hingerank.diversity.measures import evaluate_diversity
from hingerank.diversity.queries import DiverseData, DiverseQuery, join_run
from hingerank.diversity.relations import Relations, cosine_relation
from hingerank.diversity.selection import DiverseRanker
from hingerank.lab import Method, compare, leaderboard, part_folds, query_folds, topic_rows
from hingerank.lab.comparison import scored_folds
from hingerank.lab.folds import check_folds
from hingerank.lab.methods import method_from_name
from hingerank.lab.report.page import make_payload
from hingerank.lab.run_folder import fingerprint
from hingerank.registry import RANKERS, ranker_class
from hingerank.search.settings import STAGES

DIVERSE = [name for name in RANKERS if issubclass(ranker_class(name), DiverseRanker)]
MMR = Method("MMR", hr.MMR, {"lam": [0.3, 0.7, 1.0]})
XQUAD = Method("xQuAD", hr.XQuAD, {"lam": [0.0, 0.5, 0.9]})


@pytest.fixture(scope="module")
def data():
    return make_diverse(9, 15, 3, seed=2)


@pytest.fixture(scope="module")
def folds(data):
    return query_folds(data, k=3)


@pytest.mark.parametrize("name", DIVERSE)
def test_every_registered_reranker_can_be_compared(folds, name):
    """By its name, with settings to try that are all good."""
    method = method_from_name(name)
    assert method.search.size > 1 and set(method.search.stages[0]) == set(STAGES[name][0])
    few = {parameter: values[:2] for parameter, values in STAGES[name][0].items()}
    quick = Method(name, method.ranker, {next(iter(few)): next(iter(few.values()))}, method.fixed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = compare([quick], folds[:1], workers=1)
    assert results.failures() == [] and results.header["measure"] == "alpha-ndcg@20"
    record = results.test(name, "fold 1")
    assert {"alpha-ndcg@20", "err-ia@20", "strec@20", "nrbp"} < set(record["values"])
    assert 0 < np.mean(record["values"]["alpha-ndcg@20"]) <= 1 and len(record["queries"]) == 3


def test_choices_do_not_see_test_topics(data, folds):
    """Judgments of all test topics turned around: the same settings are chosen, and only their values change."""
    turned = [q.with_parts(judgments=q.judgments[::-1]) for q in folds[0].part("test").topics]
    other = (DiverseData(folds[0].part("train").topics), DiverseData(folds[0].part("validation").topics), turned)
    fold = (other[0], other[1], DiverseData(turned))
    before, after = (compare([MMR, XQUAD], [parts], workers=1) for parts in (folds[0], fold))
    for name in ("MMR", "xQuAD"):
        old, new = before.test(name, "fold 1"), after.test(name, "fold 1")
        assert old["setting"] == new["setting"] and old["values"] != new["values"]
        values = [r["value"] for r in before.validations(name)]
        assert values == [r["value"] for r in after.validations(name)]
        best = max(zip(values, [r["setting"]["lam"] for r in before.validations(name)]), key=lambda pair: pair[0])
        assert old["setting"] == {"lam": best[1]}


def test_values_are_those_of_the_chosen_rerankers_runs(tmp_path):
    """Against all judged documents, with documents that have no features at the end: what evaluate_diversity says."""
    made = make_diverse(9, 15, 3, seed=4)
    qrels = [(q.qid, j, d, int(q.judgments[i, j])) for q in made for i, d in enumerate(q.docids) for j in range(3)]
    qrels += [(q.qid, 0, "not in the run", 1) for q in made]
    run = {q.qid: dict(zip(q.docids, q.relevance)) for q in made}
    features = {q.qid: dict(list(zip(q.docids, q.X))[2:]) for q in made}
    joined = join_run(run, features, qrels, incomplete="keep")
    folds = query_folds(joined, k=3)
    measures = ["alpha-ndcg@20", "err-ia@20", "strec@5"]
    results = compare([MMR], folds, measures=measures, folder=tmp_path, workers=1)
    assert results.failures() == []
    assert results.header["summary"]["gaps"] == {"documents without features": 18}
    for fold in folds:
        record, topics = results.test("MMR", fold.name), fold.part("test").topics
        found = hr.MMR(**record["setting"]).rerank_run(topics)
        expected = evaluate_diversity(qrels, found, measures, per_query=True)
        for measure in measures:
            assert dict(zip(record["queries"], record["values"][measure])) == pytest.approx(expected[measure])
    assert make_payload(results)["data"]["gaps"] == {"documents without features": 18}


def test_rankers_of_rows_stand_beside_rerankers_and_marks_are_for_both_measures(folds):
    methods = [MMR, Method("ListMLE", hr.ListMLE, {"C": [0.1, 1.0]})]
    results = compare(methods, folds, measures=["alpha-ndcg@20", "err-ia@20", "ndcg@5"], workers=1)
    assert results.failures() == []
    for measure in results.measures:
        assert {line.method for line in leaderboard(results, measure).lines} == {"MMR", "ListMLE"}
    payload = make_payload(results)
    assert payload["more"] == ["alpha-ndcg@20", "err-ia@20"]
    assert all(set(line["marks"]) == {"alpha-ndcg@20", "err-ia@20"} for line in payload["lines"])
    assert payload["winner"]["command"] is None


def test_a_first_stage_gives_relevance_without_seeing_test_topics(data):
    bare = DiverseData([query.with_parts(relevance=None) for query in data])
    folds = check_folds(query_folds(bare, k=3))
    lacking = compare([MMR], folds, workers=1).failures()
    assert "has no relevance, which MMR needs" in lacking[0]["error"]
    scored = scored_folds(folds, Method("ListMLE", hr.ListMLE, {"C": [0.1, 1.0]}))
    assert compare([MMR, XQUAD], scored, workers=1).failures() == []
    test, train = folds[0].part("test"), folds[0].part("train")
    expected = {q.qid: scored[0].part("test").topics[i].relevance for i, q in enumerate(test.topics)}
    turned = [q.with_parts(judgments=1 - q.judgments) for q in test.topics]
    fold = (DiverseData(train.topics), DiverseData(folds[0].part("validation").topics), DiverseData(turned))
    again = scored_folds([fold], Method("ListMLE", hr.ListMLE, {"C": [0.1, 1.0]}))[0].part("test")
    assert all((topic.relevance == expected[topic.qid]).all() for topic in again.topics)
    assert all(topic.relevance.min() >= 0 and topic.relevance.max() == 1 for topic in again.topics)


def test_a_topic_to_learn_from_and_to_test_on_is_refused(data):
    with pytest.raises(DataError, match="query '1' is in both the train and the test part"):
        compare([MMR], [(data[:4], data[4:6], data[:3])])
    with pytest.raises(DataError, match="two topics are called '1'"):
        topic_rows([*data[:2], data[0]])


def test_topics_without_judgments_are_counted(data):
    unjudged = [*data[:7], data[7].with_parts(judgments=None), data[8].with_parts(judgments=np.zeros((15, 0)))]
    rows = topic_rows(unjudged)
    assert rows.n_queries == 7 and rows.gaps == {"topics without judgments or candidates, left out": 2}
    with pytest.raises(DataError, match="none of the 1 topics has judgments"):
        topic_rows(unjudged[7:8])


@pytest.mark.parametrize("part", ["relevance", "aspects", "words", "relations", "judgments", "docids", "vectors"])
def test_every_part_of_a_topic_counts_in_the_fingerprint(data, part):
    """Else a run folder would go on with other data."""
    if part == "vectors":
        data = data.map(lambda query: query.with_parts(vectors=np.arange(2.0 * query.n).reshape(query.n, 2)))
    query = data[0]
    order = np.arange(query.n)[::-1]
    turned = query.relations.subset(order) if part == "relations" else getattr(query, part)[order]
    changed = DiverseData([query.with_parts(**{part: turned}), *data[1:]])
    assert fingerprint(query_folds(data, 3)) == fingerprint(query_folds(DiverseData(list(data)), 3))
    assert fingerprint(query_folds(data, 3)) != fingerprint(query_folds(changed, 3))


def test_parts_that_exist_rotate(data):
    parts = part_folds([data[:3], data[3:6], data[6:]])
    assert [q.qid for q in parts[1].part("test").topics] == ["1", "2", "3"]


def test_mistakes_are_named(folds, data):
    with pytest.raises(ValueError, match="alpha-ndcg@50 looks at 50 ranks, but rerankers choose 20"):
        compare([MMR], folds, "alpha-ndcg@50")
    with pytest.raises(ValueError, match="unknown measure 'alpha-ndgc@20'"):
        compare([MMR], folds, "alpha-ndgc@20")
    with pytest.raises(DataError, match="topics must stay whole"):
        topic_rows(data).take([0, 1])
    rows = hr.make_letor(n_queries=6, rows_per_query=5, n_features=3, seed=0)
    error = compare([MMR], query_folds(rows, 3), workers=1).failures()[0]["error"]
    assert "MMR reorders the documents of topics: give DiverseData, not rows" in error


class Backwards:
    """A reranker of one's own: any class with fit(queries) and rerank(query, top)."""

    def __init__(self, wrong=False):
        self.wrong = wrong

    def fit(self, queries):
        assert all(isinstance(query, DiverseQuery) for query in queries)
        return self

    def rerank(self, query, top):
        return np.array([0, 0]) if self.wrong else np.arange(query.n)[::-1][:top]


def test_a_reranker_of_ones_own(folds):
    good = compare([Method("own", Backwards)], folds, workers=1)
    assert good.failures() == [] and len(good.tests("own")) == 3
    bad = compare([Method("own", Backwards, fixed={"wrong": True})], folds, workers=1)
    assert "Backwards.rerank returned rows twice, or beyond the 15 candidates" in bad.failures()[0]["error"]


@pytest.mark.slow
def test_workers_find_the_same(data, tmp_path):
    """Distances that are computed on demand are sent along."""
    lazy = data.map(lambda query: query.with_parts(relations=Relations([cosine_relation(query.X)])))
    folds = query_folds(lazy, k=3)
    alone, together = (compare([MMR, XQUAD], folds, workers=count) for count in (1, 2))
    for name in ("MMR", "xQuAD"):
        assert [r["values"] for r in alone.tests(name)] == [r["values"] for r in together.tests(name)]
