"""Queries for diversification, relations, aspects, joins and generated data."""

import lzma
import pickle

import numpy as np
import pytest
from scipy import sparse

from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.diversity import relations as distances
from hingerank.diversity.generate import make_diverse
from hingerank.diversity.learning import RLTR
from hingerank.diversity.measures import evaluate_diversity
from hingerank.diversity.queries import DiverseData, DiverseQuery, join_run, read_aspects
from hingerank.diversity.relations import (
    Relation,
    Relations,
    aspects_from_clusters,
    aspects_from_scores,
    aspects_from_subtopics,
    category_relation,
    cosine_relation,
    euclidean_relation,
    mixture_relation,
    text_relations,
    topic_mixture,
    unit_scores,
    url_relation,
)
from hingerank.diversity.selection import MMR, PM2, XQuAD


def all_rows(relation):
    return np.stack([relation.row(i) for i in range(relation.n)])


def test_cosine_dense_and_sparse():
    V = np.array([[1.0, 0], [2, 0], [0, 3], [-1, 0], [0, 0]])
    expected = 1 - np.array([[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
    assert all_rows(cosine_relation(V)) == pytest.approx(expected)
    assert all_rows(cosine_relation(sparse.csr_matrix(V))) == pytest.approx(expected)
    assert cosine_relation(V, clip=False).row(0)[3] == pytest.approx(2.0)
    assert cosine_relation(V.astype(np.float32)).row(0).dtype == np.float32


def test_euclidean_is_at_most_one_for_unit_features():
    V = np.array([[0.0, 0], [1, 1], [1, 0]])
    assert euclidean_relation(V).row(0) == pytest.approx([0, 1, np.sqrt(0.5)])
    assert euclidean_relation(V, scale=1.0).row(0) == pytest.approx([0, np.sqrt(2), 1])


def test_every_relation_can_be_sent_to_another_process():
    """And its subset: a comparison with workers sends the topics, distances that are computed on demand included."""
    urls, V = ["a.org/x", "a.org/y", "b.org"], np.eye(3)
    parts = [*text_relations(["red car", "old car", "old bus"]), url_relation(urls), category_relation(urls)]
    parts += [cosine_relation(V), cosine_relation(sparse.csr_matrix(V)), euclidean_relation(V), mixture_relation(V)]
    for relations in (Relations(parts), Relations(parts).subset(np.array([2, 0]))):
        sent = pickle.loads(pickle.dumps(relations))
        assert sent.names == relations.names
        assert np.array_equal(sent.materialize().row(0), relations.materialize().row(0))


def test_urls():
    urls = ["http://www.a.org/x/", "https://A.org/x/y.html", "a.org/z", "http://b.org/x", "http://a.org/xy"]
    rows = all_rows(url_relation(urls))
    assert rows[0].tolist() == [0, 0, 0.5, 1, 0.5]
    assert (rows == rows.T).all()


def test_categories():
    rows = all_rows(category_relation(["Arts/Music/Jazz", "Arts/Music", "Arts/Film", "Science", "", "Music/Arts"]))
    assert rows[0] == pytest.approx([0, 1 / 3, 2 / 3, 1, 1, 1])
    assert rows[4].tolist() == [1, 1, 1, 1, 0, 1]
    assert (rows == rows.T).all()


def test_text_relations_find_the_same_theme():
    cats = ["the cat purrs and the kitten sleeps", "a kitten is a young cat that purrs", "cat and kitten purrs again"]
    cars = ["the engine of a fast car", "car engine and wheels of the car", "fast wheels engine car"]
    for model in ("nmf", "lda"):
        parts = text_relations(cats + cars, topics=2, model=model)
        assert [part.name for part in parts] == ["tfidf", f"{model}2"]
        for part in parts:
            rows = all_rows(part)
            assert rows[:3, :3].mean() < rows[:3, 3:].mean()
            assert rows.min() >= -1e-12
            assert rows.max() <= 1 + 1e-12
    with pytest.raises(ValueError, match="model must be 'nmf' or 'lda', not 'plsa'"):
        text_relations(cats, topics=2, model="plsa")


def test_topic_mixtures_are_distributions():
    counts = np.random.default_rng(0).poisson(1.0, (12, 30))
    for model in ("nmf", "lda"):
        mixture = topic_mixture(counts, 4, model)
        assert mixture.sum(axis=1) == pytest.approx(np.ones(12))
    assert mixture_relation(np.eye(3)).row(0) == pytest.approx([0, 1, 1])


def test_relations_from_parts_tensor_and_subset_agree():
    rng = np.random.default_rng(0)
    V, W = rng.random((7, 3)), rng.random((7, 2))
    lazy = Relations([cosine_relation(V, "v"), euclidean_relation(W, "w")])
    stored, tensor = lazy.materialize(), np.stack([lazy.row(i).T for i in range(7)])
    given = Relations(tensor, ["v", "w"])
    for relations in (stored, given):
        assert relations.names == ("v", "w")
        assert (relations.rows([2, 5]) == lazy.rows([2, 5])).all()
        some = np.array([6, 1, 3])
        assert (relations.subset(some).row(1) == lazy.subset(some).row(1)).all()
        assert (relations.subset(some).row(1) == lazy.row(1)[:, some]).all()
    assert Relations(tensor[:, :, 0]).row(3).shape == (1, 7)


def test_bad_relations():
    for parts, problem in [
        (np.zeros((3, 2, 1)), r"shape \(3, 2, 1\)"),
        (np.full((2, 2), np.nan), "relation 0 between candidates 0 and 0 is nan"),
        ([], "at least one"),
        ([Relation("a", 2, None), Relation("b", 3, None)], "different numbers of candidates: a 2, b 3"),
    ]:
        with pytest.raises(DataError, match=problem):
            Relations(parts)
    with pytest.raises(DataError, match="relation 'x' of candidate 0"):
        Relations([Relation("x", 2, lambda i: np.array([0.0, np.inf]))]).row(0)
    with pytest.raises(DataError, match="vector of candidate 1 is NaN, infinite or too long"):
        cosine_relation(np.array([[1.0], [np.nan]]))


def test_queries_refuse_what_cannot_be_used():
    X = np.zeros((3, 2))
    bad = X.copy()
    bad[1, 0] = np.nan
    for parts, problem in [
        ({"X": bad}, r"query 'q': X\[1, 0\] is nan; replace missing values"),
        ({"X": np.zeros(3)}, "X has 1 dimensions, expected 2"),
        ({"X": [["a"]] * 3}, "query 'q': X must be numbers"),
        ({"words": ["a b", "c", "d"]}, "words must be numbers"),
        ({"relations": lambda i: X[i]}, r"a list of at least one Relation, such as cosine_relation\(X\)"),
        ({"relevance": np.ones(2)}, "relevance has 2 candidates but X has 3"),
        ({"relevance": [1, np.inf, 0]}, r"relevance\[1\] is inf"),
        ({"judgments": np.ones((4, 2))}, "judgments has 4 candidates"),
        ({"relations": np.zeros((4, 4))}, "relations has 4 candidates"),
        ({"aspects": np.full((3, 2), 1.5)}, r"probabilities in \[0, 1\]"),
        ({"aspects": np.ones((3, 2)), "aspect_weights": [1.0]}, "2 non-negative numbers"),
        ({"aspect_weights": [1.0]}, "without aspects"),
        ({"words": np.ones((2, 5))}, "words has 2 candidates"),
        ({"words": np.full((3, 2), np.nan)}, "words must be counts, 0 or more, found nan"),
        ({"docids": ["a", "b", "a"]}, "document a occurs twice"),
        ({"docids": ["a"]}, "docids has 1 candidates"),
    ]:
        with pytest.raises(DataError, match=problem):
            DiverseQuery(**{"X": X, "qid": "q", **parts})


def test_sparse_parts_of_a_query_are_those_of_dense_ones():
    parts = {"X": np.eye(3), "judgments": np.eye(3), "aspects": np.eye(3), "vectors": np.eye(3)}
    query = DiverseQuery(**{name: sparse.csr_matrix(part) for name, part in parts.items()})
    for name, part in parts.items():
        np.testing.assert_array_equal(getattr(query, name), part)


def test_data_of_different_shapes_is_refused():
    one, two = DiverseQuery(np.zeros((2, 1)), qid="a"), DiverseQuery(np.zeros((2, 2)), qid="b")
    with pytest.raises(DataError, match=r"\(1, 0\) in 'a' but \(2, 0\) in 'b'"):
        DiverseData([one, two])
    with pytest.raises(DataError, match="found int"):
        DiverseData([one, 3])


def test_subset_takes_every_part_along():
    (query,) = make_diverse(1, 20, seed=4)
    part = query.subset([7, 3])
    for name in ("X", "judgments", "relevance", "aspects", "docids"):
        assert (getattr(part, name) == getattr(query, name)[[7, 3]]).all()
    assert (part.words.toarray() == query.words.toarray()[[7, 3]]).all()
    assert part.relations.row(0)[:, 1] == pytest.approx(query.relations.row(7)[:, 3])


def test_a_subset_is_of_rows_or_of_a_mask():
    query = DiverseQuery(np.arange(6.0).reshape(3, 2), relevance=[3, 2, 1], docids=list("abc"))
    assert query.subset(np.array([True, False, True])).docids.tolist() == ["a", "c"]
    assert query.subset([True, True, False]).relevance.tolist() == [3, 2]
    assert query.subset([-1, 0]).docids.tolist() == ["c", "a"] and query.subset([]).n == 0
    with pytest.raises(IndexError):
        query.subset([True, False])


@pytest.mark.parametrize(
    ("more", "words"),
    [({"depth": 0}, "depth must be"), ({"depth": -1}, "depth must be"), ({"clusters": 0}, "clusters must be")],
)
def test_a_join_takes_some_documents_and_some_clusters(more, words):
    with pytest.raises(ValueError, match=words):
        join_run({"7": ["a", "b"]}, {"7": {"a": [1.0], "b": [2.0]}}, **more)


@pytest.mark.parametrize("kind", [float, np.float32, int, str])
def test_ids_of_a_join_match_however_they_are_written(kind):
    """Tables of pandas have 7.0 for 7: such features were those of other documents, so that "skip" left out all."""
    qid, docid = np.array([1, 1, 2], kind), np.array([7, 8, 9], kind)
    rows = RankingData.from_arrays(np.eye(3), np.zeros(3), qid, docid=docid)
    runs = {"1": ["8", "7"]}, {kind(1): [kind(8), kind(7)]}, [(kind(1), kind(7), 0.5), (kind(1), kind(8), 1.0)]
    for run in runs:
        query = join_run(run, rows, [(kind(1), kind(4), kind(7), 1)], incomplete="skip")[0]
        assert (query.qid, query.docids.tolist()) == ("1", ["8", "7"])
        assert query.X.argmax(axis=1).tolist() == [1, 0] and query.judgments.tolist() == [[0], [1]]
        assert query.judged.subtopics == ["4"]


def test_documents_of_a_join_have_the_same_features():
    with pytest.raises(DataError, match="document b in topic 7 has 2 features, others have 1"):
        join_run({"7": ["a", "b"]}, {"7": {"a": [1.0], "b": [2.0, 3.0]}})


def test_scores_and_aspects():
    assert unit_scores([3.0, 3.0]).tolist() == [0, 0]
    assert unit_scores([]).tolist() == []
    assert unit_scores([-1000.0, -1000.0 + np.log(3)], "softmax") == pytest.approx([0.25, 0.75])
    assert aspects_from_scores([[1.0, 5], [3, 5], [2, 9]]).tolist() == [[0, 0], [1, 0], [0.5, 1]]
    assert aspects_from_subtopics([[2, 0], [0, -2]]).tolist() == [[1, 0], [0, 0]]
    with pytest.raises(DataError, match="finite"):
        unit_scores([np.nan])


def test_clusters_become_aspects():
    V = np.repeat(np.array([[0.0, 0], [5, 5], [0, 9]]), 6, axis=0) + 0.1 * np.random.default_rng(0).random((18, 2))
    aspects = aspects_from_clusters(V, clusters=3)
    assert aspects.sum(axis=1) == pytest.approx(np.ones(18))
    groups = aspects.argmax(axis=1).reshape(3, 6)
    assert (groups == groups[:, :1]).all()
    assert len(set(groups[:, 0])) == 3
    assert aspects_from_clusters(V[:2], clusters=8).shape == (2, 2)


def test_join_of_files(tmp_path):
    run, aspect_file = tmp_path / "run.xz", tmp_path / "aspects.txt"
    with lzma.open(run, "wt") as file:
        file.write("1 Q0 a 1 9 x\n1 Q0 b 2 7 x\n1 Q0 c 3 5 x\n")
    aspect_file.write_text("1 s1 a 0.5\n1 s2 c 1\n")
    features = RankingData(
        X=np.array([[1.0, 0], [0, 1], [1, 1], [5, 5]]),
        y=np.zeros(4),
        qid=np.array([1, 1, 1, 2]),
        docid=np.array(["c", "b", "a", "a"], object),
    )
    qrels = [("1", "1", "b", 1), ("1", "2", "a", 1), ("1", "2", "z", 1)]
    (query,) = join_run(run, features, qrels, read_aspects(aspect_file), depth=2)
    assert query.X.tolist() == [[1, 1], [0, 1]]
    assert query.relevance.tolist() == [1, 0]
    assert query.judgments.tolist() == [[0, 1], [1, 0]]
    assert query.aspects.tolist() == [[0.5, 0], [0, 0]]
    assert query.relations.names == ("cosine", "euclidean")
    assert join_run(run)[0].relations is None


def test_joins_that_lack_something(tmp_path):
    run = {"1": ["a", "b"]}
    for how, problem in [
        ({"features": {"1": {"a": [1.0]}}}, "1 of 2 documents of topic 1 have no features, such as b"),
        ({"features": {"2": {}}}, "topic 1 of the run has no features"),
        ({"qrels": [("2", "1", "a", 1)]}, "topic 1 of the run has no judgments"),
        ({"aspects": {}}, "topic 1 of the run has no aspects"),
    ]:
        with pytest.raises(DataError, match=problem):
            join_run(run, **how)
    plain = RankingData(X=np.ones((1, 1)), y=np.zeros(1), qid=np.array([1]))
    with pytest.raises(DataError, match="no document ids"):
        join_run(run, plain)
    with pytest.raises(ValueError, match="relation of features must be 'cosine' or 'euclidean', not 'jaccard'"):
        join_run(run, relations=["jaccard"])
    path = tmp_path / "aspects.txt"
    for text, problem in [("1 s a 1.5\n", "line 1: the probability is '1.5'"), ("1 s a x\n", "'x'")]:
        path.write_text(text)
        with pytest.raises(DataError, match=problem):
            read_aspects(path)
    path.write_text("1 s a 1\n1 s a 0\n")
    with pytest.raises(DataError, match="line 2: document a occurs twice"):
        read_aspects(path)


def test_what_is_incomplete_is_kept_at_the_end_or_left_out_and_counted():
    """Topic 1 lacks features of b, topic 2 its aspects, topic 3 its features, topic 4 its judgments."""
    run = {"1": ["a", "b", "c"], "2": ["a", "c"], "3": ["x", "y"], "4": ["a"]}
    vectors = {"a": [1.0, 0.0], "c": [0.0, 1.0]}
    parts = {
        "features": dict.fromkeys("124", vectors),
        "qrels": [(topic, "1", "c", 1) for topic in "123"],
        "aspects": {topic: {"s": {"c": 1.0}} for topic in "134"},
    }
    counts = {"documents without features": 3, "topics without aspects": 1, "topics without judgments": 1}
    kept, skipped = (join_run(run, incomplete=how, **parts) for how in ("keep", "skip"))
    assert kept.gaps == skipped.gaps == counts | {"topics without features or texts": 1}
    assert [q.qid for q in kept] == ["1", "2", "3", "4"] and [q.qid for q in skipped] == ["1"]
    assert kept[0].relevance.tolist() == [1.0, 0.0] and kept[0].rest == ["b"] and skipped[0].rest == []
    for ranker in (XQuAD(1.0), PM2(), MMR()):
        ranked = {topic: found.docids for topic, found in ranker.fit(kept).rerank_run(kept).items()}
        assert ranked["2"] == ["a", "c"] and ranked["3"] == ["x", "y"], "the order of the run"
        assert ranked["1"][-1] == "b" and sorted(ranked["1"]) == ["a", "b", "c"]
    assert XQuAD(1.0).rerank_run(kept, top=2)["1"].docids == ["c", "a"]
    assert RLTR().fit(kept).rerank(kept[2]).tolist() == []
    with pytest.raises(ValueError, match="incomplete must be 'error', 'keep' or 'skip', not 'drop'"):
        join_run(run, incomplete="drop")


def test_scores_of_joined_topics_equal_those_of_the_run():
    """The ideal is one of all judged documents, as TREC has it, not of the candidates alone."""
    qrels = [("1", "1", "b", 1), ("1", "2", "z", 1), ("1", "3", "c", 1)]
    data = join_run({"1": ["a", "b", "c"]}, {"1": {"a": [0.0], "b": [1.0]}}, qrels, incomplete="keep")
    ranker = MMR(lam=1.0)
    for measure in ("alpha-ndcg@20", "err-ia@20", "alpha-ndcg@2", "strec@3"):
        expected = evaluate_diversity(qrels, ranker.rerank_run(data), [measure])[measure]
        assert ranker.score(data, measure) == expected
    assert ranker.score(data, "strec@3") == pytest.approx(2 / 3)


def test_generated_queries():
    data = make_diverse(6, (25, 40), (3, 5), seed=9)
    again = make_diverse(8, (25, 40), (3, 5), seed=9)
    for query, same in zip(data, again):  # the first queries do not depend on how many follow
        assert (query.X == same.X).all()
        assert (query.judgments == same.judgments).all()
        assert (query.relations.row(3) == same.relations.row(3)).all()
        assert 25 <= query.n <= 40
        assert 3 <= query.judgments.shape[1] <= 5
        assert query.judgments.any()
        assert (query.X >= 0).all()
        assert (query.X <= 1).all()
    lazy = make_diverse(6, (25, 40), (3, 5), seed=9, materialize=False)
    assert lazy[2].relations.row(5) == pytest.approx(data[2].relations.row(5))
    assert (make_diverse(6, (25, 40), (3, 5), seed=10)[0].X.shape != data[0].X.shape) or (
        make_diverse(6, (25, 40), (3, 5), seed=10)[0].X != data[0].X
    ).any()
    assert "topics" in make_diverse(1, 20, topics=3).relation_names


def test_faceted_queries():
    """Good documents serve nearly all facets and are long; in ambiguous queries they serve one or two and are short."""
    share, lengths = [], {True: [], False: []}
    for query in make_diverse(60, 40, (6, 12), faceted=0.3, seed=1):
        served = query.judgments[query.judgments.any(axis=1)].sum(axis=1)
        faceted = bool(served.mean() > 2.1)
        share.append(faceted)
        good = query.judgments.any(axis=1)
        lengths[faceted].append(query.X[good, 1].mean() - query.X[~good, 1].mean())
        assert not faceted or served.mean() > 0.7 * query.judgments.shape[1]
    assert 0.2 < np.mean(share) < 0.4
    assert np.mean(lengths[True]) > 0.2
    assert np.mean(lengths[False]) < -0.2


def test_generated_clues_are_clues():
    """Documents of one subtopic are nearer in the text and category relations; noise relations know nothing."""
    gaps = {name: [] for name in ("tfidf", "category", "links")}
    for query in make_diverse(20, 60, seed=0):
        J = query.judgments.astype(bool)
        relevant = np.flatnonzero(J.any(axis=1))
        for i in relevant:
            same = [j for j in relevant if j != i and (J[i] & J[j]).any()]
            other = [j for j in relevant if not (J[i] & J[j]).any()]
            if same and other:
                for name in gaps:
                    row = query.relations.row(i)[query.relations.names.index(name)]
                    gaps[name].append(row[other].mean() - row[same].mean())
    assert np.mean(gaps["tfidf"]) > 0.03
    assert np.mean(gaps["category"]) > 0.1
    assert abs(np.mean(gaps["links"])) < 0.02


def test_generator_refuses_nonsense():
    for how, problem in (
        ({"n_queries": 0}, "n_queries must be a positive whole number, not 0"),
        ({"n_queries": 1.5}, "n_queries must be a positive whole number, not 1.5"),
        ({"candidates": (5, 2)}, r"candidates is \(5, 2\), expected a whole number, or a range"),
        ({"candidates": "a"}, "candidates is 'a', expected a whole number, or a range"),
        ({"noise": -1.0}, "noise must be a number of at least 0, not -1.0"),
        ({"subtopics": 0}, "subtopics is 0, expected"),
    ):
        with pytest.raises(ValueError, match=problem):
            make_diverse(**{"n_queries": 1, **how})
    for name in ("relevant", "known_aspects", "faceted"):
        with pytest.raises(ValueError, match=f"{name} must be a number from 0 to 1, not 1.5"):
            make_diverse(1, **{name: 1.5})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: distances.aspects_from_clusters(np.eye(3), softness=0), "softness must be a positive number, not 0"),
        (lambda: distances.aspects_from_clusters(np.eye(3), clusters=0), "clusters must be a positive whole number"),
        (lambda: distances.aspects_from_scores(np.eye(3), temperature=0), "temperature must be a positive number"),
        (lambda: distances.aspects_from_subtopics(np.eye(3), noise=2), "noise must be a number from 0 to 1"),
        (lambda: distances.euclidean_relation(np.eye(3), scale=-1), "scale must be a positive number, not -1"),
        (lambda: MMR("x").rerank([1.0], np.eye(1)), "lam must be a number from 0 to 1, not 'x'"),
    ],
)
def test_parameters_that_would_give_no_numbers(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()
