"""Sequential selection against the definitions recomputed from scratch, and against pyversity."""

import numpy as np
import pytest

from hingerank.diversity.learning import RLTR
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.relations import Relation, Relations, cosine_relation
from hingerank.diversity.selection import AGGREGATES, MMR, PM2, XQuAD, aggregate_kinds, select
from hingerank.diversity.structural import SVMDiv


def random_query(rng, n=30, r=3, a=4):
    R = rng.random((n, n, r))
    return DiverseQuery(
        rng.random((n, 5)),
        relations=(R + R.transpose(1, 0, 2)) / 2,
        relevance=rng.random(n),
        aspects=rng.random((n, a)) * (rng.random((n, a)) < 0.5),
        aspect_weights=rng.random(a),
        words=rng.poisson(0.4, (n, 40)),
        judgments=rng.random((n, a)) < 0.2,
        qid="q",
    )


def greedy(n, top, score):
    """The item with the largest score(i, chosen), the first of equals, `top` times."""
    chosen = []
    for _ in range(min(top, n)):
        left = [i for i in range(n) if i not in chosen]
        chosen.append(max(left, key=lambda i: (score(i, chosen), -i)))
    return chosen


@pytest.mark.parametrize("seed", range(4))
def test_mmr_is_its_formula(seed):
    query = random_query(np.random.default_rng(seed))
    distance = np.stack([query.relations.row(i).mean(axis=0) for i in range(query.n)])

    def score(i, chosen):
        return 0.3 * query.relevance[i] - (0.7 * max(1 - distance[i, j] for j in chosen) if chosen else 0)

    assert MMR(lam=0.3).rerank(query, 12).tolist() == greedy(query.n, 12, score)


def test_mmr_uses_the_relation_that_is_named():
    query = random_query(np.random.default_rng(1))
    one = query.with_parts(relations=Relations(np.stack([query.relations.row(i)[1] for i in range(query.n)])))
    expected = MMR(0.4).rerank(one).tolist()
    assert MMR(0.4, "r2").rerank(query).tolist() == MMR(0.4, 1).rerank(query).tolist() == expected
    assert MMR(0.4, "r3").rerank(query).tolist() != expected
    with pytest.raises(ValueError, match="no relation 'text'; the query has r1, r2, r3"):
        MMR(0.4, "text").rerank(query)


@pytest.mark.parametrize("seed", range(4))
def test_xquad_is_its_formula(seed):
    query = random_query(np.random.default_rng(seed))
    A, P = query.aspects, query.aspect_weights

    def score(i, chosen):
        novelty = sum(P[a] * A[i, a] * np.prod(1 - A[chosen, a]) for a in range(len(P)))
        return 0.4 * query.relevance[i] + 0.6 * novelty

    assert XQuAD(lam=0.6).rerank(query, 15).tolist() == greedy(query.n, 15, score)


@pytest.mark.parametrize("seed", range(4))
def test_pm2_is_its_formula(seed):
    query = random_query(np.random.default_rng(seed))
    A, w = query.aspects, query.aspect_weights

    def score(i, chosen):
        seats = sum((A[j] / A[j].sum() for j in chosen if A[j].sum() > 0), np.zeros(len(w)))
        quotient = w / (2 * seats + 1)
        turn = quotient.argmax()
        others = (quotient * A[i]).sum() - quotient[turn] * A[i, turn]
        return 0.7 * quotient[turn] * A[i, turn] + 0.3 * others + 1e-9 * query.relevance[i]

    assert PM2(lam=0.7).rerank(query, 15).tolist() == greedy(query.n, 15, score)


@pytest.mark.parametrize("aggregate", [name for name in AGGREGATES if name != "none"])
def test_linear_selection_is_its_formula(aggregate):
    rng = np.random.default_rng(5)
    query = random_query(rng)
    R = query.relations.rows(range(query.n))
    s, w = query.X @ rng.standard_normal(5), rng.standard_normal(3 * len(aggregate_kinds(aggregate)))
    functions = {"min": [np.min], "mean": [np.mean], "max": [np.max], "all": [np.min, np.mean, np.max]}[aggregate]

    def score(i, chosen):
        if not chosen:
            return s[i]
        return s[i] + w @ np.concatenate([f(R[chosen, :, i], axis=0) for f in functions])

    order = select(s, w, query.relations.row if len(w) else None, aggregate_kinds(aggregate), 12)
    assert order.tolist() == greedy(query.n, 12, score)


def test_selection_asks_for_one_row_of_relations_for_each_pick():
    rng = np.random.default_rng(0)
    asked = []

    def row(i):
        asked.append(int(i))
        return np.abs(np.arange(50.0) - i) / 50

    query = DiverseQuery(rng.random((50, 2)), relations=[Relation("place", 50, row)], relevance=rng.random(50))
    order = MMR(0.5).rerank(query, top=20)
    assert asked == order[:-1].tolist()


def test_svmdiv_selection_is_its_formula():
    rng = np.random.default_rng(2)
    query = random_query(rng)
    model = SVMDiv(candidates=None, levels=(1, 2), shares=(0.2, 0.5))
    model.coef_, model.word_coef_ = rng.standard_normal(5), rng.standard_normal(6)
    model.certificate_ = model.trace_ = None
    has = [query.words.toarray() >= level for level in (1, 2)]
    band = [np.searchsorted((0.2, 0.5), h.mean(axis=0), side="right") + 3 * k for k, h in enumerate(has)]
    sizes = np.bincount(np.concatenate([b[h.any(axis=0)] for b, h in zip(band, has)]), minlength=6)
    value = model.word_coef_ / np.maximum(sizes, 1)

    def score(i, chosen):
        total = query.X[i] @ model.coef_ / 10
        for h, b in zip(has, band):
            total += value[b[h[i] & ~h[chosen].any(axis=0)]].sum()
        return total

    expected = greedy(query.n, 10, lambda i, chosen: round(score(i, chosen), 12))
    assert model.rerank(query, 10).tolist() == expected


def test_equal_scores_keep_the_order_of_the_candidates():
    query = DiverseQuery(
        np.zeros((4, 1)), relations=np.zeros((4, 4, 1)), relevance=np.ones(4), aspects=np.zeros((4, 2))
    )
    for ranker in (MMR(), XQuAD(), PM2()):
        assert ranker.rerank(query).tolist() == [0, 1, 2, 3]


def test_lam_at_its_ends():
    query = random_query(np.random.default_rng(3))
    by_relevance = np.argsort(-query.relevance, kind="stable").tolist()
    assert MMR(lam=1.0).rerank(query, 30).tolist() == by_relevance
    assert XQuAD(lam=0.0).rerank(query, 30).tolist() == by_relevance
    for ranker in (MMR(1.5), XQuAD(-0.1), PM2(float("nan"))):
        with pytest.raises(ValueError, match="lam must be a number from 0 to 1, not"):
            ranker.rerank(query)


@pytest.mark.parametrize("lam", [0.2, 0.5, 0.9])
def test_same_order_as_pyversity(lam):
    pyversity = pytest.importorskip("pyversity")
    rng = np.random.default_rng(7)
    for _ in range(5):
        vectors, relevance = rng.standard_normal((200, 16)).astype(np.float32), rng.random(200).astype(np.float32)
        query = DiverseQuery(np.zeros((200, 0)), relations=[cosine_relation(vectors)], relevance=relevance)
        theirs = pyversity.diversify(vectors, relevance, k=20, strategy="mmr", diversity=1 - lam)
        assert MMR(lam).rerank(query, 20).tolist() == theirs.indices.tolist()


def test_rerank_says_what_is_wrong():
    query = random_query(np.random.default_rng(0))
    bare = DiverseQuery(query.X, qid="7")
    with pytest.raises(ValueError, match="query '7' has no relevance, which MMR needs"):
        MMR().rerank(bare)
    with pytest.raises(ValueError, match="query '7' has no relations, which MMR needs"):
        MMR().rerank(bare.with_parts(relevance=query.relevance))
    with pytest.raises(ValueError, match="no aspects, which PM2 needs"):
        PM2().rerank(bare)
    with pytest.raises(ValueError, match="top must be a positive whole number, not 0"):
        MMR().rerank(query, top=0)
    with pytest.raises(ValueError, match="expected a DiverseQuery, got list"):
        MMR().rerank([query])
    with pytest.raises(ValueError, match="not fitted"):
        RLTR().rerank(query)
    for call in (MMR().fit, MMR().score):
        with pytest.raises(ValueError, match="queries must be a list of DiverseQuery, not DiverseQuery"):
            call(query)
    with pytest.raises(ValueError, match="two queries have the id 'q'"):
        MMR().rerank_run([query, query])


def test_run_of_several_queries():
    rng = np.random.default_rng(0)
    queries = [random_query(rng).with_parts(qid=name) for name in ("b", "a")]
    run = MMR().fit(queries).rerank_run(queries, top=3)
    assert list(run) == ["b", "a"]
    assert run["b"].docids == [str(i) for i in MMR().rerank(queries[0], 3)]
    assert run["b"].scores.tolist() == [3, 2, 1]


def test_candidates_beyond_the_competitors_follow_by_relevance():
    query = random_query(np.random.default_rng(6))
    model = SVMDiv(candidates=5, top=5).fit([query])
    order = model.rerank(query, 12).tolist()
    by_relevance = np.argsort(-query.relevance, kind="stable").tolist()
    assert sorted(order[:5]) == sorted(by_relevance[:5])
    assert order[5:] == by_relevance[5:12]


def test_mmr_takes_arrays():
    rng = np.random.default_rng(0)
    scores, vectors = rng.random(12), rng.random((12, 4))
    distances = 1 - (vectors @ vectors.T) / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    unit = (scores - scores.min()) / np.ptp(scores)
    wanted, left = [int(np.argmax(scores))], set(range(12)) - {int(np.argmax(scores))}
    while len(wanted) < 5:
        best = max(left, key=lambda i: 0.7 * unit[i] - 0.3 * max(1 - distances[i, j] for j in wanted))
        wanted.append(best)
        left.remove(best)
    assert MMR(lam=0.7).rerank(scores, vectors, top=5).tolist() == wanted
    np.fill_diagonal(distances, 0.0)
    assert MMR(lam=0.7).rerank(scores, top=5, relation=distances).tolist() == wanted
    with pytest.raises(ValueError, match="12 scores but distances for 3 candidates"):
        MMR().rerank(scores, vectors[:3])
    with pytest.raises(ValueError, match="with scores give either"):
        MMR().rerank(scores)


def test_svm_div_on_the_command_line(tmp_path, monkeypatch, capsys):
    from hingerank.cli import main

    monkeypatch.chdir(tmp_path)
    words = ["red car", "red car fast", "old bus", "blue boat", "red car slow", "boat race"]
    run, texts, qrels = [], [], []
    for topic in (1, 2, 3):
        for i, text in enumerate(words):
            run.append(f"{topic} Q0 d{topic}{i} {i + 1} {10 - i} x")
            texts.append(f"d{topic}{i}\t{text}")
        qrels += [f"{topic} 1 d{topic}0 1", f"{topic} 2 d{topic}2 1", f"{topic} 3 d{topic}3 1"]
    for name, lines in (("run.txt", run), ("texts.tsv", texts), ("qrels.txt", qrels)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    fit = ["rerank", "run.txt", "--method", "svm-div", "--texts", "texts.tsv", "--fit", "qrels.txt", "--save", "m/"]
    fit += ["--force"]
    assert main(fit) == 0
    assert main(["rerank", "run.txt", "--model", "m/", "--texts", "texts.tsv", "--top", "3", "-o", "out.txt"]) == 0
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 9
    capsys.readouterr()
    assert main(fit[:4] + fit[6:]) == 1 and "needs; give --texts" in capsys.readouterr().err
    (tmp_path / "texts.tsv").write_text("d10 no tab\n")
    assert main(fit) == 1 and "texts.tsv, line 1: expected a document, a tab" in capsys.readouterr().err
