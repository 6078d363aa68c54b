"""Relations that are learned: likelihoods and gradients against slow definitions, the optimum, selection, files."""

import numpy as np
import pytest

from hingerank.data.files import DataError
from hingerank.diversity.generate import make_diverse
from hingerank.diversity.learning import PAMM, RLTR, DiverseScore, Margins, OrderedQuery
from hingerank.diversity.measures import parse_diversity_measure
from hingerank.diversity.queries import DiverseData, DiverseQuery
from hingerank.diversity.selection import aggregate_kinds
from hingerank.export.model_file import load

AGGREGATES = {"none": [], "mean": [np.mean], "min": [np.min], "all": [np.min, np.mean, np.max]}


@pytest.fixture(scope="module")
def data():
    return make_diverse(10, (15, 20), n_features=4, seed=2)


def score_of(query, aggregate, rank):
    kinds = aggregate_kinds(aggregate)
    given = len(kinds) * len(query.relations)
    return DiverseScore(query.n_features, given, kinds, query.representation.shape[1], rank)


def slow_score(query, w, score, chosen, i):
    """ω_r·x_i + ω_d·h_S(i) + v_i·W v̄_S, term by term."""
    linear, theta = score.split(w)
    functions = [(np.min, np.mean, np.max)[kind] for kind in score.kinds]
    total, W, V = linear[: score.n_features] @ query.X[i], score.matrix(theta), query.representation
    if len(chosen) and functions:
        rows = query.relations.rows(chosen)
        total += linear[score.n_features :] @ np.concatenate([g(rows[:, :, i], axis=0) for g in functions])
    if len(chosen) and score.rank:
        total += np.mean([V[i] @ W @ V[j] for j in chosen])
    return total


def slow_likelihood(query, w, score, order):
    total = 0.0
    for t, y in enumerate(order):
        left = [i for i in range(query.n) if i not in order[:t]]
        f = {i: slow_score(query, w, score, list(order[:t]), i) for i in left}
        total += f[y] - np.log(sum(np.exp(value) for value in f.values()))
    return total


@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("aggregate", list(AGGREGATES))
def test_likelihoods_and_their_gradient(data, aggregate, rank):
    query, rng = data[0], np.random.default_rng(1)
    score = score_of(query, aggregate, rank)
    orders = [rng.permutation(query.n)[:4] for _ in range(3)]
    known = OrderedQuery(query, orders, aggregate != "none")
    w, weights = rng.standard_normal(len(score.start(rng))), rng.standard_normal(3)
    values, gradient_of = score.likelihoods(known, w)
    assert values == pytest.approx([slow_likelihood(query, w, score, order) for order in orders], abs=1e-10)
    gradient = gradient_of(weights)
    assert len(gradient) == len(w)
    for k in range(len(w)):
        e = 1e-6 * np.eye(len(w))[k]
        apart = score.likelihoods(known, w + e)[0] - score.likelihoods(known, w - e)[0]
        assert gradient[k] == pytest.approx(weights @ apart / 2e-6, abs=1e-6)


def test_a_free_matrix_is_r_ltr_with_every_product_of_two_entries_as_a_relation(data):
    learned = RLTR(C=2.0, aggregate="none", orders=2, top=4, tol=1e-7, learned_rank=4).fit(data)

    def with_products(query):
        V = query.representation  # entry (j, i): what i gains when j is chosen
        products = np.einsum("ia,jb->jiab", V, V).reshape(query.n, query.n, -1)
        return query.with_parts(relations=products)

    given = RLTR(C=2.0, aggregate="mean", orders=2, top=4, tol=1e-7).fit(data.map(with_products))
    assert learned.relation_matrix_.ravel() == pytest.approx(given.relation_coef_, abs=1e-5)
    assert learned.coef_ == pytest.approx(given.coef_, abs=1e-5)
    for query in data[:4]:
        assert (learned.rerank(query) == given.rerank(with_products(query))).all()


@pytest.mark.parametrize("aggregate", list(AGGREGATES))
def test_selection_takes_the_best_score_at_every_place(data, aggregate):
    model = RLTR(C=5.0, aggregate=aggregate, orders=2, top=4, learned_rank=1, tol=1e-2).fit(data)
    assert np.linalg.matrix_rank(model.relation_matrix_) == 1
    query, score = data[1], score_of(data[1], aggregate, 4)
    w = np.concatenate((model.coef_, model.relation_coef_, model.relation_matrix_.ravel()))
    chosen = []
    for _ in range(8):
        left = [i for i in range(query.n) if i not in chosen]
        chosen.append(max(left, key=lambda i: slow_score(query, w, score, chosen, i)))
    assert model.rerank(query, top=8).tolist() == chosen


def test_low_rank_factors_are_stationary(data):
    model = RLTR(C=3.0, aggregate="mean", orders=2, top=4, learned_rank=1, tol=1e-6, max_iter=2000).fit(data)
    assert model.certificate_.converged and model.certificate_.kind == "relative gradient norm"
    values = [entry["value"] for entry in model.trace_]
    assert values[-1] < RLTR(C=3.0, aggregate="mean", orders=2, top=4, tol=1e-6).fit(data).trace_[-1]["value"]


def test_pamm_steps_along_the_gradient_of_broken_pairs(data):
    rng, query = np.random.default_rng(3), data[0]
    score = score_of(query, "mean", 1)
    sampled = Margins(query, parse_diversity_measure("alpha-ndcg@20"), 5, 2, 4, True, rng)
    w = rng.standard_normal(len(score.start(rng)))
    likelihood = [slow_likelihood(query, w, score, order) for order in sampled.query.orders]
    weights = np.zeros(6)
    for a in range(2):
        for b in range(2, 6):
            gap = sampled.values[a] - sampled.values[b]
            if gap > 1e-12 and likelihood[a] - likelihood[b] <= 2.0 * gap:
                weights[a], weights[b] = weights[a] + 1 / 8, weights[b] - 1 / 8
    count, step = sampled.broken(score, w, 2.0)
    assert count == round(8 * weights[:2].sum()) > 0
    assert step == pytest.approx(score.likelihoods(sampled.query, w)[1](weights))


def planted(n_queries, seed):
    """Two kinds of documents that features tell apart; a query asks for one of each, and no relation is given."""
    rng, queries = np.random.default_rng(seed), []
    for q in range(n_queries):
        kind, good = rng.integers(0, 2, 20), rng.random(20) < 0.5
        X = np.column_stack((good + 0.3 * rng.standard_normal(20), kind, 1 - kind))
        queries.append(DiverseQuery(X, judgments=np.eye(2)[kind] * good[:, None], qid=str(q)))
    return DiverseData(queries)


@pytest.mark.parametrize("method", [RLTR, PAMM])
@pytest.mark.parametrize("rank", [1, 3])
def test_a_planted_relation_is_found(method, rank):
    train, test = planted(30, 0), planted(30, 1)
    plain = method(aggregate="none").fit(train).score(test, "alpha-ndcg@5")
    learned = method(aggregate="none", learned_rank=rank).fit(train)
    assert learned.score(test, "alpha-ndcg@5") > plain + 0.02
    W = learned.relation_matrix_[1:, 1:]
    assert W[0, 0] < W[0, 1] and W[1, 1] < W[1, 0]  # another of the same kind adds less


def test_vectors_take_the_place_of_features(data):
    rng = np.random.default_rng(0)
    with_vectors = data.map(lambda query: query.with_parts(vectors=rng.random((query.n, 3))))
    model = PAMM(max_iter=2, learned_rank=2).fit(with_vectors)
    assert model.relation_matrix_.shape == (3, 3)
    assert with_vectors[0].subset([2, 0]).vectors == pytest.approx(with_vectors[0].vectors[[2, 0]])
    with pytest.raises(ValueError, match="the query has vectors of length 4, the model was fitted on 3"):
        model.rerank(data[0])
    with pytest.raises(DataError, match="queries differ in their"):
        RLTR().fit([with_vectors[0], data[1]])
    with pytest.raises(DataError, match="vectors has 3 candidates"):
        data[0].with_parts(vectors=np.ones((3, 2)))


@pytest.mark.parametrize("method", [RLTR(C=1.0, orders=2, learned_rank=1), PAMM(max_iter=2, learned_rank=4)])
def test_saved_models_keep_what_they_learned(data, method, tmp_path):
    model = method.fit(data)
    again = load(model.save(tmp_path / "model.safetensors"))
    assert (again.relation_matrix_ == model.relation_matrix_).all()
    assert again.rerank(data[0]).tolist() == model.rerank(data[0]).tolist()
    del model.relation_matrix_
    with pytest.raises(ValueError, match="relation_matrix_"):
        load(model.save(tmp_path / "other.safetensors"))


def test_ranks_that_are_none():
    with pytest.raises(ValueError, match="learned_rank"):
        RLTR(learned_rank=-1).fit(make_diverse(3, 12, seed=1))
    assert DiverseScore(0, 0, np.empty(0), 3, 0).matrix(np.zeros(0)).shape == (0, 0)
    query = DiverseQuery(np.array([[1.0], [3.0], [5.0]]))
    means = OrderedQuery(query, [np.array([0, 2, 1])], False).means
    assert means[0, :, 0].tolist() == [0.0, 1.0, 3.0]
