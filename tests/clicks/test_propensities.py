"""Propensities: the most likely ones by brute force, published figures, truth inside intervals, and what is unknown."""

import itertools
import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import hingerank as hr
from hingerank.clicks.counting import group_by
from hingerank.clicks.estimation import SharedCells, fit_all_pairs, fit_product
from hingerank.kernels.clicks import product_step
from hingerank.rankers.corrections import click_weights

TRUE = np.array([1.0, 0.7, 0.4, 0.25])
ATTRACTION = np.array([0.8, 0.6, 0.5, 0.3, 0.2, 0.7])


def likelihood(theta, gamma, slot, pair, n, c):
    product = theta[slot] * gamma[pair]
    return (c * np.log(product) + (n - c) * np.log1p(-product)).sum()


def test_em_is_as_likely_as_brute_force():
    rng = np.random.default_rng(0)
    cells = list(itertools.product(range(2), range(2)))
    slot, pair = (np.array(column) for column in zip(*cells))
    n = rng.integers(20, 60, 4).astype(float)
    c = rng.binomial(n.astype(int), 0.3).astype(float)
    theta, gamma, turns = fit_product(slot, pair, n, c, 2, 2, max_iter=100_000, tol=1e-12)
    assert turns < 100_000
    grid = np.linspace(0.005, 0.995, 100)
    a, g, h = np.meshgrid(grid, grid, grid, indexing="ij")
    one = np.full(a.shape, grid[-1])  # only products count, so the larger θ is free
    best = max(
        sum(c[e] * np.log(t[i] * q[j]) + (n[e] - c[e]) * np.log1p(-t[i] * q[j]) for e, (i, j) in enumerate(cells)).max()
        for t, q in [((one, a), (g, h)), ((a, one), (g, h))]
    )
    assert best <= likelihood(theta, gamma, slot, pair, n, c) + 1e-9 <= best + 0.05


@pytest.mark.parametrize("seed", range(3))
def test_em_finds_the_optimum_of_a_general_solver(seed, place_log):
    log = place_log(TRUE, ATTRACTION, 300, seed)
    cells = log.cells()
    slot, pair = cells.place - 1, cells.document

    def cost(x):
        theta, gamma = expit(x[:4]), expit(x[4:])
        return -likelihood(theta, gamma, slot, pair, cells.showings, cells.clicks)

    best = minimize(cost, np.zeros(10), method="BFGS", options={"gtol": 1e-6})
    theta, gamma, _ = fit_product(slot, pair, cells.showings, cells.clicks, 4, 6, max_iter=50_000, tol=1e-10)
    assert likelihood(theta, gamma, slot, pair, cells.showings, cells.clicks) == pytest.approx(-best.fun, abs=1e-4)
    np.testing.assert_allclose(theta / theta[0], expit(best.x[:4]) / expit(best.x[0]), rtol=2e-3)


def test_all_pairs_is_its_definition(place_log):
    """The graph by loops over documents, and the likelihood by L-BFGS in logits."""
    log = place_log(TRUE, ATTRACTION, 400)
    cells = log.cells()
    n, c = np.zeros((6, 4)), np.zeros((6, 4))
    n[cells.document, cells.place - 1], c[cells.document, cells.place - 1] = cells.showings, cells.clicks
    weight, clicks = np.zeros((4, 4)), np.zeros((4, 4))
    for d, k, j in itertools.product(range(6), range(4), range(4)):
        if k != j and n[d, k] and n[d, j]:
            weight[k, j] += min(n[d, k], n[d, j])
            clicks[k, j] += min(n[d, k], n[d, j]) * c[d, k] / n[d, k]
    graph = SharedCells(cells.query, cells.document, cells.place - 1, 4).graph(cells.showings, cells.clicks)
    assert len(graph.weight) == 6  # of four places, any two
    np.testing.assert_allclose(graph.weight, weight[graph.first, graph.second])
    np.testing.assert_allclose(graph.clicks, [clicks[graph.first, graph.second], clicks[graph.second, graph.first]])
    both = [(k, j) for k in range(4) for j in range(4) if k != j]
    shared = {frozenset(pair): number for number, pair in enumerate(itertools.combinations(range(4), 2))}

    def cost(x):
        p, r = expit(x[:4]), expit(x[4:])
        terms = [(weight[k, j], clicks[k, j], p[k] * r[shared[frozenset((k, j))]]) for k, j in both]
        return -sum(c * np.log(q) + (w - c) * np.log1p(-q) for w, c, q in terms)

    best = expit(minimize(cost, np.zeros(10), method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-7}).x[:4])
    p, _, _ = fit_all_pairs(graph)
    np.testing.assert_allclose(p / p[0], best / best[0], atol=2e-4)


@pytest.mark.parametrize("method", ["em", "all-pairs"])
def test_many_showings_show_the_truth(method, place_log):
    found = hr.propensities(place_log(TRUE, ATTRACTION, 20_000, 3), method)
    np.testing.assert_allclose(found.values, TRUE, atol=0.02)
    low, high = found.interval(rounds=60)
    assert (low <= TRUE).all() and (high >= TRUE).all() and low[0] == high[0] == 1
    assert ((high - low)[1:] < 0.08).all() and ((high - low)[1:] > 0.005).all()
    np.testing.assert_array_equal(found.alpha, found.values)
    assert not found.beta.any()


def test_the_default_is_right_where_documents_have_few_showings():
    """1,500 lists of 1,500 queries: by EM, whose attractions fit single clicks, all places are examined alike."""
    rng = np.random.default_rng(0)
    attraction, query = rng.uniform(0.1, 0.9, (1500, 6)), rng.integers(0, 1500, 1500)
    order = np.argsort(-attraction[query] + 0.4 * rng.normal(size=(1500, 6)), axis=1)[:, :4]
    clicks = rng.random(order.shape) < TRUE * attraction[query[:, None], order]
    log = hr.ClickLog(
        queries=np.repeat(query, 4), documents=order.ravel(), places=np.tile([1, 2, 3, 4], 1500), clicks=clicks.ravel(),
        sessions=np.repeat(np.arange(1500), 4),
    )  # fmt: skip
    found = hr.propensities(log)
    low, high = found.interval(rounds=60)
    assert found.method == "all-pairs" and found.about["converged"]
    assert (low <= TRUE).all() and (high >= TRUE).all() and (high - low).max() < 0.25
    assert (hr.propensities(log, "em").values > TRUE + 0.15)[1:].all()
    assert not hr.propensities(log, max_iter=2).about["converged"]


def plain_steps(slot, pair, n, c, n_slots, steps, prior=(0.0, 0.0)):
    """EM without leaps: its parameters, those of slots first, and how likely the clicks were before the last step."""
    shown = np.concatenate([np.bincount(slot, n, n_slots), np.bincount(pair, n)])
    x, new, likely = np.full(len(shown), 0.5), np.empty(len(shown)), -np.inf
    for _ in range(steps):
        likely = product_step(slot, pair, n, c, n_slots, x, shown, *prior, new)
        x, new = new, x
    return x, likely


def test_published_figures_of_yandex(yandex):
    """Places 2, 3, 5 and 10 relative to the first; raw click rates are .968 .662 .412 .174."""
    em, pairs = hr.propensities(yandex, "em"), hr.propensities(yandex, "all-pairs").values
    at = [1, 2, 4, 9]
    assert em.about["converged"] and em.about["iterations"] < 1500
    np.testing.assert_allclose(em.values[at], [0.7356, 0.6097, 0.3850, 0.2529], atol=1e-4)
    np.testing.assert_allclose(pairs[at], [0.723, 0.594, 0.367, 0.237], atol=0.001)
    draws = np.array([hr.propensities(yandex, method).resampled(10) for method in ("em", "all-pairs")])
    assert np.corrcoef(draws[0, :, 1], draws[1, :, 1])[0, 1] > 0.5  # the same logs are drawn for both
    cells = yandex.cells()
    slot, pair = np.asarray(cells.place, np.int64) - 1, group_by([cells.query, cells.document]).number
    n, c = (np.asarray(part, np.float64) for part in (cells.showings, cells.clicks))
    published = plain_steps(slot, pair, n, c, yandex.n_places, 500)[0][: yandex.n_places]
    published = published / published[0]  # the figures in print are of EM that is stopped after 500 steps
    np.testing.assert_allclose(published[at], [0.730, 0.605, 0.382, 0.251], atol=0.003)
    np.testing.assert_allclose(published, pairs, atol=0.02)
    raw = np.bincount(cells.place, cells.clicks)[1:] / np.bincount(cells.place, cells.showings)[1:]
    np.testing.assert_allclose((raw / raw[0])[at], [0.968, 0.662, 0.412, 0.174], atol=0.001)


@pytest.mark.parametrize("prior", [(0.0, 0.0), (0.3, 1.0)])
def test_leaps_of_em_end_where_plain_steps_do(prior):
    """At the most likely product, in far fewer steps."""
    rng = np.random.default_rng(4)
    slot, pair = np.repeat(np.arange(6), 40), np.tile(np.arange(40), 6)
    n = rng.integers(1, 30, 240).astype(float)
    c = rng.binomial(n.astype(int), 0.9**slot * rng.uniform(0.02, 0.4, 40)[pair]).astype(float)
    x, plain = plain_steps(slot, pair, n, c, 6, 20_000, prior)
    theta, gamma, steps = fit_product(slot, pair, n, c, 6, 40, prior=prior)
    assert steps < 2000
    shown = np.concatenate([np.bincount(slot, n), np.bincount(pair, n)])
    found = product_step(slot, pair, n, c, 6, np.concatenate([theta, gamma]), shown, *prior, np.empty(46))
    assert found >= plain - 1e-6
    np.testing.assert_allclose(theta / theta[0], x[:6] / x[0], atol=2e-4)


def test_counted_logs_give_the_same_and_intervals_alike(place_log, tmp_path):
    log = place_log(TRUE, ATTRACTION, 3000)
    cells = log.cells()
    both = [np.repeat(column, 2) for column in (cells.query, cells.document, cells.place)]
    counted = hr.ClickLog(
        queries=both[0], documents=both[1], places=both[2], clicks=np.tile([1, 0], len(cells)),
        weights=np.stack([cells.clicks, cells.showings - cells.clicks], 1).ravel(),
    )  # fmt: skip
    one, two = hr.propensities(log), hr.propensities(counted)
    np.testing.assert_allclose(one.values, two.values, atol=1e-9)
    np.testing.assert_allclose(np.diff(one.interval(), axis=0), np.diff(two.interval(), axis=0), rtol=0.3)


def test_weights_of_actions_do_not_count_as_clicks(place_log):
    log = place_log(TRUE, ATTRACTION, 500)
    plain = hr.propensities(log).values
    log.clicks = log.clicks * 5
    np.testing.assert_array_equal(hr.propensities(log).values, plain)


def test_contexts_have_values_of_their_own(place_log):
    phone, desk = np.array([1.0, 0.4, 0.2, 0.1]), np.array([1.0, 0.9, 0.8, 0.6])
    one, two = place_log(phone, ATTRACTION, 15_000, 1), place_log(desk / 2, ATTRACTION, 15_000, 2)
    log = hr.ClickLog(
        queries=np.zeros(120_000, int),
        documents=np.r_[one.document_names[one.document], two.document_names[two.document]],
        places=np.r_[one.place, two.place], clicks=np.r_[one.clicks, two.clicks],
        sessions=np.r_[one.session, two.session + 15_000], contexts=["phone"] * 60_000 + ["desk"] * 60_000,
    )  # fmt: skip
    found = hr.propensities(log, by_context=True)
    np.testing.assert_allclose(found.values, [phone, desk], atol=0.04)
    assert len(found.interval(rounds=5)[0]) == 2 and found.plot().axes
    with pytest.raises(hr.DataError, match="has no contexts"):
        hr.propensities(one, by_context=True)


def unconnected():
    """Places 1 and 2 share documents, 3 and 4 share others, place 5 shares none, 6 is empty, 7 is like 5."""
    shown = [("a", 1), ("b", 2), ("b", 1), ("a", 2), ("c", 3), ("d", 4), ("d", 3), ("c", 4), ("e", 5), ("f", 7)]
    documents, places = zip(*(shown * 30))
    clicks = np.random.default_rng(0).random(300) < 0.4
    return hr.ClickLog(queries=["q"] * 300, documents=documents, places=places, clicks=clicks)


@pytest.mark.parametrize("method", ["em", "all-pairs"])
def test_what_is_not_identified_is_no_number(method):
    found = hr.propensities(unconnected(), method)
    assert np.isnan(found.values[2:]).all() and not np.isnan(found.values[:2]).any()
    assert found.reasons["3"] == found.reasons["5"] == "no document joins it with place 1, directly or not"
    assert found.reasons["6"] == "nothing was shown there"
    rows = hr.RankingData.from_arrays([[1.0], [2.0]], [0, 0], ["q", "q"], docid=["a", "b"])
    for place, why in ((3, r" \(no document joins it with place 1.*\)"), (6, r" \(nothing was shown there\)"), (9, "")):
        log = hr.ClickLog(queries=["q"] * 2, documents=["a", "b"], places=[1, place], clicks=[1, 1])
        with pytest.raises(hr.DataError, match=f"place {place} has no propensity above 0{why}, and 1 cells"):
            click_weights(log.join(rows), found)
    assert np.isnan(found.interval(rounds=5)[0][2:]).all()
    assert json.loads(json.dumps(found.to_dict()))["values"][2] is None


@pytest.mark.parametrize("method", ["em", "all-pairs"])
def test_places_with_few_clicks_that_tell_are_named(method):
    """Clicks on documents of one place alone say nothing of places, however many they are."""
    two, alone = list("abab"), ["c"] * 100
    log = hr.ClickLog(
        queries=["q"] * 104, documents=two + alone, places=[1, 2, 2, 1] + [1] * 100, clicks=[1, 0, 1, 1] + [1] * 100
    )
    found = hr.propensities(log, method)
    assert found.few_clicks == {"1": 2.0, "2": 1.0} and "too few clicks to tell at 2 of them" in repr(found)
    many = hr.ClickLog(queries=["q"] * 80, documents=two * 20, places=[1, 2, 2, 1] * 20, clicks=[1, 0, 1, 1] * 20)
    assert not hr.propensities(many, method).few_clicks and "few" not in repr(hr.propensities(many, method))


@pytest.mark.parametrize("method", ["em", "all-pairs"])
def test_a_stray_place_far_down_costs_nothing(method, place_log):
    """The graph holds the edges that there are, not all two places up to the last: memory and minutes, once."""
    log = place_log(TRUE, ATTRACTION, 400)
    far = hr.ClickLog(
        queries=[*log.query, 0], documents=[*log.document, 99], places=[*log.place, 200_000], clicks=[*log.clicks, 1]
    )
    found = hr.propensities(far, method)
    np.testing.assert_allclose(found.values[:4], hr.propensities(log, method).values, atol=1e-6)
    assert np.isnan(found.values[4:]).all() and found.reasons["200000"].startswith("no document joins it")
    assert far.describe().findings[2].count == 1


def test_a_context_with_nothing_to_compare_has_its_first_place_alone(place_log):
    log = place_log(TRUE, ATTRACTION, 400)
    both = hr.ClickLog(
        queries=[*log.query, 5], documents=[*log.document, 0], places=[*log.place, 1], clicks=[*log.clicks, 1],
        contexts=["desk"] * len(log) + ["phone"],
    )  # fmt: skip
    for method in ("em", "all-pairs"):
        found = hr.propensities(both, method, by_context=True)
        assert found.values[1, 0] == 1 and np.isnan(found.values[1, 1:]).all() and not np.isnan(found.values[0]).any()


def test_places_that_no_clicks_compare_are_unknown():
    """Documents join places 1 and 2, 2 and 3, and 3 and 4; nothing that stood at 3 was clicked."""
    shown = [("a", 1), ("a", 2), ("b", 2), ("b", 3), ("c", 3), ("c", 4), ("d", 4), ("d", 5)] * 40
    documents, places = zip(*shown)
    clicks = np.isin(places, [1, 2, 4, 5]) & (np.random.default_rng(0).random(320) < 0.5)
    log = hr.ClickLog(queries=["q"] * 320, documents=documents, places=places, clicks=clicks)
    found = hr.propensities(log)
    assert found.values[1] > 0.5 and found.values[2] < 1e-6  # seen and never clicked, while place 2 was
    assert (
        np.isnan(found.values[3:]).all() and found.reasons["4"] == "no clicks compare it with place 1, directly or not"
    )
    clicks = [
        *(clicks & (np.array(places) > 2)),
        True,
    ]  # none on documents of place 1, but on one that stood nowhere else
    quiet = hr.ClickLog(queries=["q"] * 321, documents=[*documents, "z"], places=[*places, 1], clicks=clicks)
    with pytest.raises(hr.DataError, match="no place can be compared with the first: documents that were seen there"):
        hr.propensities(quiet)


def test_where_nothing_can_be_compared_it_is_an_error():
    log = unconnected()
    alone = log.take(np.isin(log.place, [1, 3, 4]))
    with pytest.raises(hr.DataError, match="no place can be compared with the first"):
        hr.propensities(alone)
    with pytest.raises(hr.DataError, match="no place can be compared with the first"):
        hr.propensities(log.take(log.place > 2), "all-pairs")


def test_features_join_places_that_documents_do_not():
    """Every document is at one place; its features say how attractive it is."""
    rng = np.random.default_rng(0)
    n = 400
    X = rng.normal(size=(n, 3))
    gamma = expit(X @ [1.0, -0.5, 0.3] - 0.5)
    place = np.clip(np.round(2.5 - X[:, 0] + rng.normal(size=n)), 1, 4).astype(int)  # better ones higher up
    rows = np.repeat(np.arange(n), 100)
    clicks = rng.random(len(rows)) < TRUE[place[rows] - 1] * gamma[rows]
    log = hr.ClickLog(queries=rows // 10, documents=rows, places=place[rows], clicks=clicks)
    data = hr.RankingData.from_arrays(X, np.zeros(n), np.arange(n) // 10, docid=np.arange(n))
    found = hr.propensities(log, "regression-em", data=data)
    np.testing.assert_allclose(found.values, TRUE, atol=0.05)
    assert found.about["converged"] and found.about["iterations"] < 1000  # thousands without leaps
    with pytest.raises(hr.DataError, match="no place can be compared"):
        hr.propensities(log, "em")
    with pytest.raises(hr.DataError, match="give data="):
        hr.propensities(log, "regression-em")
    with pytest.raises(hr.DataError, match="no document of the log has a row"):
        hr.propensities(log, "regression-em", data=hr.RankingData(X, data.y, data.qid, data.docid + n))
    with pytest.raises(hr.DataError, match=r"several rows in a query .such as query 0, document 0.: leave one"):
        hr.propensities(log, "regression-em", data=hr.RankingData(X, data.y, data.qid, np.full(n, 0)))
    some = hr.propensities(log, "regression-em", data=data.take(np.flatnonzero(place != 2)))
    assert np.isnan(some.values[1]) and some.reasons == {"2": "nothing with features was shown there"}
    with pytest.raises(hr.DataError, match="no place can be compared"):  # once NaN everywhere, without a word
        hr.propensities(log, "regression-em", data=data.take(np.flatnonzero(place != 1)))


def test_trust_bias_by_judgments():
    rng = np.random.default_rng(0)
    alpha, beta = np.array([0.6, 0.4, 0.3]), np.array([0.3, 0.15, 0.05])
    grades = np.array([0, 1, 2, 2, 0, 1])
    document, place = rng.integers(0, 6, 90_000), rng.integers(1, 4, 90_000)
    clicks = rng.random(90_000) < alpha[place - 1] * grades[document] / 2 + beta[place - 1]
    log = hr.ClickLog(queries=["q"] * 90_000, documents=document, places=place, clicks=clicks)
    judged = {("q", str(d)): grade for d, grade in enumerate(grades)}
    found = hr.propensities(log, judgments=judged)
    np.testing.assert_allclose(found.alpha, alpha, atol=0.02)
    np.testing.assert_allclose(found.beta, beta, atol=0.02)
    np.testing.assert_allclose(found.values, alpha / alpha[0], atol=0.04)
    data = hr.RankingData.from_arrays(np.zeros((6, 1)), grades, ["q"] * 6, docid=np.arange(6))
    np.testing.assert_allclose(hr.propensities(log, judgments=data).alpha, found.alpha)
    alike = hr.propensities(log.take((log.place != 2) | (log.document_names[log.document] == 0)), judgments=judged)
    assert np.isnan(alike.alpha[1]) and alike.reasons == {
        "2": "judged documents shown there do not differ in relevance"
    }
    with pytest.raises(hr.DataError, match="no showing is of a judged document"):
        hr.propensities(log, judgments={("z", "z"): 1})
    with pytest.raises(hr.DataError, match="clicks at place 1 do not rise with relevance"):
        hr.propensities(log, judgments={("q", str(d)): 2 - grade for d, grade in enumerate(grades)})
    with pytest.raises(hr.DataError, match="shown at place 1 do not differ in relevance"):
        hr.propensities(log.take(log.place > 1), judgments=judged)


def test_trust_bias_of_a_context_that_judgments_do_not_reach():
    place, grade, n = np.tile([1, 1, 2, 2], 200), np.tile([0, 1, 0, 1], 200), 800
    chance = 0.2 + np.where(place == 1, 0.6, 0.3) * grade
    names = np.array(["low", "high", "other"])
    log = hr.ClickLog(
        queries=np.zeros(2 * n), places=np.tile(place, 2), contexts=np.repeat(["desk", "phone"], n),
        documents=np.concatenate([names[grade], np.where(place == 1, "other", names[grade])]),
        clicks=np.tile(np.random.default_rng(0).random(n) < chance, 2),
    )  # fmt: skip
    found = hr.propensities(log, judgments={(0, "low"): 0, (0, "high"): 1}, by_context=True)
    alone = hr.propensities(log.take(log.context == 0), judgments={(0, "low"): 0, (0, "high"): 1}, by_context=True)
    np.testing.assert_allclose(found.values[0], [1, 0.5], atol=0.1)
    assert np.isnan(found.values[1]).all() and not np.isnan(found.alpha[1, 1])  # alpha needs no first place
    assert found.reasons == {
        "1 (phone)": "judged documents shown there do not differ in relevance",
        "2 (phone)": "judged documents shown at place 1 do not differ in relevance",
    }
    np.testing.assert_array_equal(alone.alpha, [found.alpha[0], [np.nan, np.nan]])


def test_given_values_and_files(place_log, tmp_path):
    log = place_log(TRUE, ATTRACTION, 300)
    found = hr.propensities(log, "given", values=[0.5, 0.25])
    assert found.values.tolist() == [1, 0.5] and hr.propensities(log, "given", values=found) is found
    with pytest.raises(hr.DataError, match="have no interval"):
        found.interval()
    estimate = hr.propensities(log)
    estimate.save(tmp_path / "p.json")
    again = hr.propensities(log, "given", values=tmp_path / "p.json")
    np.testing.assert_allclose(again.values, estimate.values)
    assert set(json.loads((tmp_path / "p.json").read_text())) >= {"values", "low", "high", "alpha", "beta", "places"}
    logged = place_log(TRUE, ATTRACTION, 300, propensities=np.tile(TRUE / 2, 300))
    np.testing.assert_allclose(hr.propensities(logged, "given").values, TRUE)
    (tmp_path / "bad.json").write_text('{"alpha": [1], "beta": [0, 0], "places": [1]}')
    for values, words in [(tmp_path / "bad.json", "no propensities that can be read"), (None, "needs values="),
                          ([1, 0], "numbers above 0"), (tmp_path / "none.json", "there is no such file")]:  # fmt: skip
        with pytest.raises(hr.DataError, match=words):
            hr.propensities(log, "given", values=values)


def test_mistakes_are_named(place_log):
    log = place_log(TRUE, ATTRACTION, 50)
    for more, words in [({"method": "ems"}, "did you mean 'em'"), ({"values": [1]}, "pass method='given' too"),
                        ({"method": "given", "values": [1], "by_context": True}, "by_context=True is for estimated"),
                        ({"max_iter": 0}, "max_iter must be a positive whole number")]:  # fmt: skip
        with pytest.raises(ValueError, match=words):
            hr.propensities(log, **more)
    with pytest.raises(ValueError, match="level must be a number between 0 and 1, not 2"):
        hr.propensities(log).interval(level=2)
