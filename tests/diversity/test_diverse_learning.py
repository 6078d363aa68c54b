"""R-LTR, PAMM and the structural SVMs: objectives against slow definitions, optimality, margins, errors, files."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from hingerank.data.files import DataError
from hingerank.diversity.generate import make_diverse
from hingerank.diversity.kernels import order_features, order_likelihood
from hingerank.diversity.learning import PAMM, RLTR, DiverseScore, Margins, OrderedQuery, fit_likelihood, ideal_orders
from hingerank.diversity.measures import parse_diversity_measure, relevant_subtopics
from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import MMR, PM2, XQuAD, aggregate_kinds
from hingerank.diversity.structural import RankingSearch, SelectionRisk, SetSearch, SVMDiv, minimise_risk
from hingerank.export.model_file import load
from hingerank.registry import ranker_class

QUICK = {
    "r-ltr": {"orders": 2},
    "pamm": {"max_iter": 3, "negatives": 6},
    "struct-svm-div": {"candidates": 15},
    "svm-div": {"candidates": 15, "C": 1.0},
}
ALL = ("mmr", "xquad", "pm2", "r-ltr", "pamm", "svm-div", "struct-svm-div")


@pytest.fixture(scope="module")
def data():
    return make_diverse(12, (20, 30), seed=2)


def linear_score(query, kinds):
    return DiverseScore(query.n_features, len(kinds) * len(query.relations), kinds, query.n_features, 0)


def make(name, **also):
    return ranker_class(name)(**{**QUICK.get(name, {}), **also})


def slow_likelihood(s, w, R, order, functions):
    """log P of a ranking from the definition; R[i] is the (r, n) row of item i."""
    total = 0.0
    for t, y in enumerate(order):
        left = [i for i in range(len(s)) if i not in order[:t]]
        f = {}
        for i in left:
            h = np.zeros(len(w))
            if t and functions:
                h = np.concatenate([g(R[order[:t], :, i], axis=0) for g in functions])
            f[i] = s[i] + w @ h
        total += f[y] - np.log(sum(np.exp(v) for v in f.values()))
    return total


@pytest.mark.parametrize("aggregate, functions", [("min", [np.min]), ("all", [np.min, np.mean, np.max]), ("none", [])])
def test_likelihood_and_gradient(aggregate, functions):
    rng = np.random.default_rng(1)
    n, r, kinds = 9, 2, aggregate_kinds(aggregate)
    R = rng.random((n, r, n))
    s, w = rng.standard_normal(n), rng.standard_normal(r * len(kinds))
    order = rng.permutation(n)[:5]

    def value(s, w):
        g_s, g_w, none = np.zeros(n), np.zeros(len(w)), np.empty((0, n))
        return order_likelihood(s, w, R, order, order, kinds, none, g_s, g_w, none), g_s, g_w

    found, g_s, g_w = value(s, w)
    assert found == pytest.approx(slow_likelihood(s, w, R, list(order), functions), abs=1e-10)
    step = 1e-6
    for k in range(n):
        e = step * np.eye(n)[k]
        assert g_s[k] == pytest.approx((value(s + e, w)[0] - value(s - e, w)[0]) / (2 * step), abs=1e-6)
    for k in range(len(w)):
        e = step * np.eye(len(w))[k]
        assert g_w[k] == pytest.approx((value(s, w + e)[0] - value(s, w - e)[0]) / (2 * step), abs=1e-6)


def test_rltr_reaches_the_maximum_of_its_likelihood(data):
    model = RLTR(C=0.7, aggregate="mean", orders=3, top=4, tol=1e-6).fit(data)
    assert model.certificate_.converged
    assert model.certificate_.value <= 1e-6
    rng = np.random.default_rng(0)
    orders = [ideal_orders(query.judgments, 4, 3, rng) for query in data]

    def objective(w):
        total = 0.5 * w @ w
        for query, mine in zip(data, orders):
            R, s = query.relations.rows(range(query.n)), query.X @ w[:10]
            total -= 0.7 * np.mean([slow_likelihood(s, w[10:], R, list(order), [np.mean]) for order in mine])
        return total

    w = np.concatenate((model.coef_, model.relation_coef_))
    best = objective(w)
    assert best == pytest.approx(model.trace_[-1]["value"], rel=1e-6)
    for direction in rng.standard_normal((6, len(w))):
        assert objective(w + 0.01 * direction) > best
        slope = (objective(w + 1e-4 * direction) - objective(w - 1e-4 * direction)) / 2e-4
        assert abs(slope) < 1e-3


def test_training_does_not_depend_on_threads(data, monkeypatch):
    found = []
    for threads in ("1", "4"):
        monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
        found.append([make(name).fit(data).coef_ for name in ("r-ltr", "pamm", "struct-svm-div", "svm-div")])
    for one, four in zip(*found):
        assert (one == four).all()


def test_pamm_keeps_themargins_it_says_it_keeps():
    data = make_diverse(8, (12, 16), n_features=30, noise=0.3, seed=1)
    model = PAMM("err-ia@10", margin=0.5, learning_rate=1.0, max_iter=400, negatives=6, average=False, top=3).fit(data)
    assert model.certificate_.status == "converged"
    assert model.certificate_.value == 0
    rng = np.random.default_rng(0)
    measure, kinds = parse_diversity_measure("err-ia@10"), aggregate_kinds("mean")
    pairs = 0
    for query in data:
        sampled = Margins(query, measure, 3, 5, 6, True, rng)
        R, s = query.relations.rows(range(query.n)), query.X @ model.coef_
        values = [measure(query.judgments, order) for order in sampled.query.orders]
        likelihood = [slow_likelihood(s, model.relation_coef_, R, list(o), [np.mean]) for o in sampled.query.orders]
        assert (
            sampled.broken(linear_score(query, kinds), np.concatenate((model.coef_, model.relation_coef_)), 0.5)[0] == 0
        )
        for a, b in itertools.product(range(5), range(5, 11)):
            if values[a] > values[b] + 1e-9:
                assert likelihood[a] - likelihood[b] > 0.5 * (values[a] - values[b]) - 1e-9
                pairs += 1
    assert pairs > 100


def test_pamm_step_is_the_mean_over_all_pairs_of_the_broken_ones(data):
    rng = np.random.default_rng(3)
    kinds = aggregate_kinds("min")
    sampled = Margins(data[0], parse_diversity_measure("alpha-ndcg@20"), 5, 2, 4, True, rng)
    w = rng.standard_normal(10 + len(data[0].relations))
    d, margin = 10, 2.0

    def likelihood(w, k):
        query, none = sampled.query, np.empty((0, data[0].n))
        nothing = (none, np.zeros(data[0].n), np.zeros(len(w) - d), none)
        return order_likelihood(query.X @ w[:d], w[d:], query.rows, query.slots[k], query.orders[k], kinds, *nothing)

    def total(w, broken):
        return sum(likelihood(w, a) - likelihood(w, b) for a, b in broken) / 8

    broken = [
        (a, b)
        for a, b in itertools.product(range(2), range(2, 6))
        if likelihood(w, a) - likelihood(w, b) <= margin * (sampled.values[a] - sampled.values[b])
        and sampled.values[a] > sampled.values[b] + 1e-12
    ]
    count, gradient = sampled.broken(linear_score(data[0], kinds), w, margin)
    assert 0 < len(broken) < 8
    assert count == len(broken)
    for k in range(len(w)):
        e = 1e-6 * np.eye(len(w))[k]
        assert gradient[k] == pytest.approx((total(w + e, broken) - total(w - e, broken)) / 2e-6, abs=1e-5)


def test_pamm_negatives_are_worse_than_positives(data):
    measure = parse_diversity_measure("alpha-ndcg@20")
    sampled = Margins(data[1], measure, 10, 4, 9, True, np.random.default_rng(0))
    assert sampled.values[:4] == pytest.approx(1.0)
    assert (sampled.values[4:] <= 1 + 1e-12).all()
    assert sampled.values[4:].mean() < 0.9
    assert {len(order) for order in sampled.query.orders} == {len(sampled.query.orders[0])}


def small_query(rng, n=5):
    R = rng.random((n, n, 2))
    J = np.zeros((n, 2))
    J[rng.permutation(n)[:2], [0, 1]] = 1
    J[rng.integers(n), 0] = 1
    return DiverseQuery(rng.random((n, 3)), relations=R + R.transpose(1, 0, 2), judgments=J, relevance=rng.random(n))


def test_structural_risk_against_all_rankings():
    """Greedy separation never exceeds the true maximum, and finds it nearly always on tiny queries."""
    rng = np.random.default_rng(4)
    measure, kinds = parse_diversity_measure("err-ia@3"), aggregate_kinds("mean")
    ratios = []
    for _ in range(30):
        query = small_query(rng)
        search = RankingSearch(query, measure, 3, 1, kinds, np.random.default_rng(0))
        w = rng.standard_normal(5)
        loss, slope = search(w)
        J, best, psi = relevant_subtopics(query.judgments), -np.inf, np.empty(5)
        length = len(search.discounts)
        for order in itertools.permutations(range(query.n), length):
            order_features(query.X, np.array(order), search.tensor, kinds, search.discounts, psi)
            value = search.ideal_value - measure(J, list(order)) + (psi - search.ideal) @ w
            best = max(best, value)
        found = loss + slope @ w
        assert found <= best + 1e-9
        ratios.append(best - found)
    assert np.mean(np.array(ratios) < 1e-9) > 0.6


def test_joint_features_of_a_ranking():
    rng = np.random.default_rng(0)
    query, psi = small_query(rng), np.empty(5)
    order, discounts = np.array([3, 0, 4]), np.array([0.5, 0.3, 0.2])
    R = query.relations.rows(range(5))
    order_features(query.X, order, R, aggregate_kinds("mean"), discounts, psi)
    h = [np.zeros(2), R[3][:, 0], (R[3][:, 4] + R[0][:, 4]) / 2]
    expected = sum(g * np.concatenate((query.X[i], hi)) for g, i, hi in zip(discounts, order, h))
    assert psi == pytest.approx(expected)


@pytest.mark.parametrize("name", ["svm-div", "struct-svm-div"])
def test_structural_svm_solution_is_optimal_for_its_selections(data, name):
    kept = [query.subset(np.argsort(-query.relevance, kind="stable")[:15]) for query in data]
    rng = np.random.default_rng(0)
    if name == "svm-div":
        searches = [SetSearch(query, SVMDiv()._coverage(query), 20) for query in kept]
    else:
        measure, kinds = parse_diversity_measure("alpha-ndcg@20"), aggregate_kinds("mean")
        searches = [RankingSearch(query, measure, 20, 5, kinds, rng) for query in kept]
    risk, dimension = SelectionRisk(searches), searches[0].dimension
    solution = minimise_risk(risk, 2.0, 1e-3, 500)
    assert solution.certificate.converged
    assert solution.value - solution.trace[-1]["lower_bound"] <= 1e-3 * solution.value
    value = lambda w: 0.5 * w @ w + 2 * risk(w)[0]  # noqa: E731
    assert solution.value < value(np.zeros(dimension))
    for size, direction in itertools.product((0.5, 0.05), rng.standard_normal((10, dimension))):
        assert value(solution.w + size * direction) > solution.value * (1 - 2e-3)


def test_rounds_at_most_are_kept_to_and_told(data):
    searches = [SetSearch(query, SVMDiv()._coverage(query), 20) for query in data]
    risk, asked = SelectionRisk(searches), []
    search = risk.search
    risk.search = lambda w: (asked.append(w), search(w))
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        certificate = minimise_risk(risk, 100.0, 1e-9, 2).certificate
    assert len(asked) == 1 + 2 and certificate.status == "max_iter" and certificate.value > certificate.tolerance


def test_planes_of_the_risk_are_below_it(data):
    kinds, measure = aggregate_kinds("mean"), parse_diversity_measure("alpha-ndcg@20")
    searches = [RankingSearch(q, measure, 5, 2, kinds, np.random.default_rng(0)) for q in data]
    risk, rng = SelectionRisk(searches), np.random.default_rng(1)
    points = [rng.standard_normal(searches[0].dimension) for _ in range(6)]
    for w in points:
        risk.search(w)
    planes = [(w, *risk(w)) for w in points]
    for v in points:
        later = risk(v)[0]
        assert all(value + g @ (v - w) <= later + 1e-9 for w, value, g in planes)


def test_learned_methods_beat_relevance_on_generated_queries():
    data = make_diverse(60, 60, noise=0.7, seed=5)
    train, test = data[:40], data[40:]
    by_relevance = MMR(lam=1.0).score(test)
    for model in (RLTR(C=10.0), PAMM(max_iter=15)):
        assert model.fit(train).score(test) > by_relevance + 0.05


def test_each_pamm_leans_towards_the_queries_that_its_measure_counts_for_more():
    """ERR-IA is higher in faceted queries, where good documents are long; alpha-NDCG counts both kinds alike."""
    data = make_diverse(60, 40, (6, 12), noise=1.5, faceted=0.3, seed=0)
    err, ndcg = (PAMM(measure, max_iter=10).fit(data).coef_ for measure in ("err-ia@20", "alpha-ndcg@20"))
    assert err[1] / np.abs(err).sum() > ndcg[1] / np.abs(ndcg).sum() + 0.02


@pytest.mark.parametrize("name", ALL)
def test_saved_models_rerank_the_same(data, name, tmp_path):
    model = make(name).fit(data)
    again = load(model.save(tmp_path / "model.safetensors"))
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    for query in data[:4]:
        assert (again.rerank(query) == model.rerank(query)).all()
    if hasattr(model, "certificate_"):
        assert again.certificate_ == model.certificate_


@pytest.mark.parametrize("name", ALL)
def test_rankers_are_estimators(data, name):
    model = make(name)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert model.fit(data) is model
    order = model.rerank(data[0], top=25)
    assert len(set(order.tolist())) == min(25, data[0].n) == len(order)
    assert (make(name).fit(list(data)).rerank(data[0]) == model.rerank(data[0])).all()


@pytest.mark.parametrize("name", ["r-ltr", "pamm", "svm-div", "struct-svm-div"])
def test_queries_that_cannot_be_learned_from(data, name):
    empty = [query.with_parts(judgments=np.zeros((query.n, 3))) for query in data[:2]]
    with pytest.raises(DataError, match="none of the 2 queries has a relevant candidate"):
        make(name).fit(empty)
    with pytest.raises(DataError, match=r"no judgments, which \w+ needs"):
        make(name).fit([data[0].with_parts(judgments=None)])
    with pytest.raises(DataError, match="no queries to learn from"):
        make(name).fit([])
    mixed = make(name, **({"orders": 1} if name == "r-ltr" else {})).fit([*empty, *data[2:]])
    assert np.isfinite(mixed.coef_).all()
    other = data[0].with_parts(X=np.ones((data[0].n, 3)))
    with pytest.raises(ValueError, match="the query has 3 features, but the model was fitted on 10"):
        mixed.rerank(other)


def test_relations_must_match_those_of_the_fit(data):
    model = make("r-ltr").fit(data)
    with pytest.raises(DataError, match="no relations, which RLTR needs"):
        model.rerank(data[0].with_parts(relations=None))
    fewer = data[0].with_parts(relations=np.zeros((data[0].n, data[0].n, 2)))
    with pytest.raises(ValueError, match="the query has 2 relations, but the model was fitted on 5"):
        model.rerank(fewer)
    with pytest.raises(DataError, match="no relations, which PAMM needs"):
        PAMM().fit([data[0].with_parts(relations=None)])
    with pytest.raises(ValueError, match=r"aggregate must be 'min', .* not 'median'"):
        RLTR(aggregate="median").fit(data)


def test_one_candidate_and_no_relations(data):
    alone = data[0].subset([3])
    assert make("r-ltr").fit(data).rerank(alone).tolist() == [0]
    plain = [query.with_parts(relations=None) for query in data]
    assert len(RLTR(aggregate="none").fit(plain).relation_coef_) == 0


def test_a_fit_that_stops_early_warns(data):
    with pytest.warns(Warning, match="relative gradient norm"):
        RLTR(max_iter=1, tol=1e-12).fit(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RLTR().fit(data)


def test_likelihood_is_the_mean_over_a_querys_rankings(data):
    kinds = aggregate_kinds("min")
    orders = ideal_orders(data[0].judgments, 5, 1, np.random.default_rng(0))
    score = linear_score(data[0], kinds)
    start = score.start(np.random.default_rng(0))
    once = fit_likelihood([OrderedQuery(data[0], orders, True)], score, start, 1.0, 1e-6, 200)
    twice = fit_likelihood([OrderedQuery(data[0], orders * 2, True)], score, start, 1.0, 1e-6, 200)
    assert twice.w == pytest.approx(once.w, abs=1e-6)


def test_classics_need_no_fit(data):
    for ranker in (MMR(), XQuAD(), PM2()):
        assert len(ranker.rerank(data[0])) == 20
        assert 0 < ranker.score(data, "err-ia@20") < 1


def test_parameters_out_of_range(data):
    for model, problem in [
        (RLTR(C=0), "C must be a positive number, not 0"),
        (RLTR(C=None), "C must be a positive number, not None"),  # once a TypeError
        (SVMDiv(max_iter=None), "max_iter must be a positive number, not None"),
        (RLTR(top=-1), "top must be a positive number, not -1"),
        (PAMM(learning_rate=float("nan")), "learning_rate must be a positive number, not nan"),
        (PAMM(max_iter=0), "max_iter must be a positive number, not 0"),
        (PAMM(max_iter=1.5), r"max_iter must be a whole number, not 1\.5"),
        (PAMM(margin=float("nan")), "margin must be a number of at least 0, not nan"),
        (RLTR(top=2.5), r"top must be a whole number, not 2\.5"),
        (SVMDiv(candidates=2.5), r"candidates must be a whole number, not 2\.5"),
        (SVMDiv(levels=()), r"expected levels, got \(\)"),
        (SVMDiv(shares=(0.5, 0.1)), r"shares that increase, got \(0\.5, 0\.1\)"),
        (SVMDiv(C=-1.0), "C must be a positive number, not -1.0"),
        (make("struct-svm-div", candidates=0), "candidates must be a positive number, not 0"),
        (make("struct-svm-div", measure="ndcg@10"), "'ndcg@10' is no diversity measure"),
    ]:
        with pytest.raises(ValueError, match=problem):
            model.fit(data)
