"""Weights from clicks: each correction against its formula, click by click, and against the truth with endless data."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import hingerank as hr
from hingerank.rankers.corrections import CORRECTIONS, click_weights, regressed_relevance

ALPHA, BETA = np.array([0.9, 0.5, 0.3, 0.2]), np.array([0.05, 0.04, 0.02, 0.0])


class Trust:
    """As hingerank.propensities with trust bias has them."""

    places, alpha, beta, context_names, reasons = np.arange(1, 5), ALPHA, BETA, None, {}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 4)), np.repeat(np.arange(12), 5)
    return hr.RankingData.from_arrays(X, np.zeros(60), qid, docid=np.arange(60))


@pytest.fixture(scope="module")
def log(rows):
    """600 lists of 4 of the 5 candidates of a query, in random orders."""
    rng = np.random.default_rng(1)
    query = rng.integers(0, 12, 600)
    document = np.concatenate([5 * q + rng.permutation(5)[:4] for q in query])
    place = np.tile(np.arange(1, 5), 600)
    clicks = rng.random(2400) < ALPHA[place - 1] * (0.2 + 0.5 * (document % 5 == 0)) + BETA[place - 1]
    return hr.ClickLog(queries=np.repeat(query, 4), documents=document, places=place, clicks=clicks)


def by_showing(log, worth):
    """Σ over showings of worth(place, click), by document."""
    return np.bincount(log.document_names[log.document], worth(log.place, log.clicks), 60)


@pytest.mark.filterwarnings("ignore:.*takes clicks from trust")
def test_formulas_of_single_clicks(rows, log):
    data, tau = log.join(rows), 10 / np.sqrt(600)
    expected = {
        "naive": by_showing(log, lambda k, c: c),
        "ips": by_showing(log, lambda k, c: c / ALPHA[k - 1]),
        "clipped": by_showing(log, lambda k, c: c / np.maximum(ALPHA[k - 1], tau)),
        "affine": np.maximum(by_showing(log, lambda k, c: (c - BETA[k - 1]) / ALPHA[k - 1]), 0.0),
    }
    for correction, weights in expected.items():
        np.testing.assert_allclose(click_weights(data, Trust(), correction), weights, atol=1e-12)
    for values in (ALPHA, ALPHA.tolist(), dict(zip(range(1, 5), ALPHA))):
        np.testing.assert_allclose(click_weights(data, values), expected["ips"], atol=1e-12)


def test_doubly_robust_by_its_formula(rows, log):
    data, tau = log.join(rows), 0.6
    guess = regressed_relevance(data, ALPHA[data.place - 1], BETA[data.place - 1])
    assert guess.min() >= 0 and guess.std() > 0
    document = log.document_names[log.document]
    shown, seen = by_showing(log, lambda k, c: k > 0), by_showing(log, lambda k, c: ALPHA[k - 1])
    missed = by_showing(log, lambda k, c: c - BETA[k - 1] - ALPHA[k - 1] * guess[document])
    mu = guess + missed / (shown * np.maximum(seen / shown, tau))
    lists = np.bincount(log.query_names[log.query], minlength=12)[np.arange(60) // 5] / 4
    found = click_weights(data, Trust(), "doubly-robust", clip=tau)
    np.testing.assert_allclose(found, lists * np.maximum(mu, 0), rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_regression_takes_a_missing_feature_for_the_median_of_its_column(rows, log, sparse):
    """Once every weight was NaN, and so was the value of every ranking."""
    X = np.array(rows.X)
    X[7, 0], X[30, 1] = np.nan, np.nan
    full = np.where(np.isnan(X), [np.sort(column)[(np.isfinite(column).sum() - 1) // 2] for column in X.T], X)

    def joined(X):
        known = csr_matrix(X) if sparse else X
        return log.join(hr.RankingData.from_arrays(known, rows.y, rows.qid, docid=rows.docid, missing="nan"))

    found, expected = (click_weights(joined(each), ALPHA, "doubly-robust") for each in (X, full))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_regression_never_sees_the_query_it_is_for(rows, log):
    """Other clicks in one query leave its own regressed relevance as it is."""
    data = log.join(rows)
    alpha, beta = ALPHA[data.place - 1], BETA[data.place - 1]
    more = np.where(data.data.qid[data.row] == 3, data.showings, data.clicks)
    changed = hr.ClickLog(
        queries=data.data.qid[data.row], documents=data.row, places=data.place, clicks=more / data.showings,
        weights=data.showings,
    ).join(rows)  # fmt: skip
    order = np.lexsort((changed.place, changed.row))
    again = np.lexsort((data.place, data.row))
    np.testing.assert_array_equal(changed.row[order], data.row[again])
    before = regressed_relevance(data, alpha, beta)
    after = regressed_relevance(changed, ALPHA[changed.place - 1], BETA[changed.place - 1])
    mine = rows.qid == 3
    np.testing.assert_allclose(after[mine], before[mine], atol=0.05)  # the ridge is chosen on all
    assert np.abs(after[~mine] - before[~mine]).max() > 0.01


def test_rows_that_nothing_tells_apart_have_clicks_over_expected_looks(log):
    """Places weigh by how often they were looked at: the first ones, with the best documents, are not all."""
    rows = hr.RankingData.from_arrays(np.ones((60, 1)), np.zeros(60), np.repeat(np.arange(12), 5), docid=np.arange(60))
    data = log.join(rows)
    alpha, query = ALPHA[data.place - 1], rows.qid[data.row]
    found = regressed_relevance(data, alpha, np.zeros(len(data)))
    for value in np.unique(found):
        others = ~np.isin(query, rows.qid[found == value])
        assert value == pytest.approx(data.clicks[others].sum() / (data.showings * alpha)[others].sum(), rel=1e-9)
    assert len(np.unique(found)) == 5


def endless(rows, relevance, correction):
    """Every document of a query at each place, with the clicks that are expected."""
    n, places = rows.n_rows, np.repeat(np.arange(1, 5), rows.n_rows)
    r = np.tile(relevance, 4)
    beta = BETA if correction in ("affine", "doubly-robust") else 0 * BETA
    clicks = ALPHA[places - 1] * r + beta[places - 1]
    log = hr.ClickLog(
        queries=np.tile(rows.qid, 4), documents=np.tile(np.arange(n), 4), places=places, clicks=clicks,
        weights=np.full(4 * n, 1e6),
    )  # fmt: skip
    return log.join(rows)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_with_endless_data_all_but_the_naive_weights_are_the_relevance(rows, correction):
    relevance = np.random.default_rng(2).uniform(0, 0.9, 60)
    data = endless(rows, relevance, correction)
    found = click_weights(data, Trust() if correction in ("affine", "doubly-robust") else ALPHA, correction)
    ratio = found / relevance
    if correction == "naive":  # every document was seen equally often at every place
        np.testing.assert_allclose(ratio, 1e6 * ALPHA.sum(), rtol=1e-9)
        return
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


def test_logged_propensities_are_taken_where_none_are_given(rows):
    log = hr.ClickLog(queries=[0, 0], documents=[0, 1], places=[1, 2], clicks=[1, 1], propensities=[0.5, 0.1])
    assert click_weights(log.join(rows)).tolist()[:3] == [2.0, 10.0, 0.0]


def test_propensities_of_contexts(rows):
    """A phone's second place is not that of a desktop."""

    class ByDevice(Trust):
        context_names, alpha = np.array(["desktop", "phone"]), np.array([[1.0, 0.5], [1.0, 0.1]])
        beta = np.zeros((2, 2))

    log = hr.ClickLog(
        queries=[0, 0, 0], documents=[0, 1, 1], places=[1, 2, 2], clicks=[1, 1, 1],
        contexts=["phone", "phone", "desktop"],
    )  # fmt: skip
    assert click_weights(log.join(rows), ByDevice()).tolist()[:2] == [1.0, 12.0]
    other = hr.ClickLog(queries=[0], documents=[0], places=[1], clicks=[1], contexts=["tablet"])
    with pytest.raises(ValueError, match=r"place 1 \(tablet\) has no propensity above 0.*leave their showings out, or"):
        click_weights(other.join(rows), ByDevice())


def test_an_unknown_propensity_has_the_reason_of_its_own_place(rows):
    class Gaps(Trust):
        alpha, beta, reasons = np.array([1.0, np.nan, 0.0]), np.zeros(3), {"2": "nothing was shown there"}

    shown = hr.ClickLog(queries=[0], documents=[0], places=[3], clicks=[1])
    with pytest.raises(ValueError, match="place 3 has no propensity above 0, and 1 cells"):
        click_weights(shown.join(rows), Gaps())
    shown = hr.ClickLog(queries=[0] * 3, documents=[0, 1, 2], places=[1, 6, 3], clicks=[1] * 3)
    with pytest.raises(ValueError, match=r"place 3 has no .*, and 2 cells .*log\.place < 3"):  # once 6: 3 was the next
        click_weights(shown.join(rows), [1.0, 0.5])


def test_propensities_estimated_from_the_log(rows, log):
    estimated = hr.propensities(log, method="em")
    weights = click_weights(log.join(rows), estimated)
    np.testing.assert_allclose(weights, by_showing(log, lambda k, c: c / estimated.values[k - 1]), rtol=1e-9)


def test_what_is_wrong_is_said(rows, log):
    data = log.join(rows)
    with pytest.raises(ValueError, match="the log itself has none"):
        click_weights(data)
    with pytest.raises(ValueError, match="place 4 has no propensity"):
        click_weights(data, [1.0, 0.5, 0.2])
    with pytest.raises(ValueError, match="did you mean 'clipped'"):
        click_weights(data, ALPHA, "cliped")
    with pytest.raises(ValueError, match="clip must be"):
        click_weights(data, ALPHA, "clipped", clip=0.0)
    with pytest.raises(
        ValueError,
        match=r"clip=0\.2 is for correction='clipped' or correction='doubly-robust', not for correction='ips'",
    ):
        hr.RankSVM().fit_clicks(data, propensities=ALPHA, clip=0.2)
    with pytest.raises(ValueError, match=r"log\.join"):
        hr.RankSVM().fit_clicks(log, propensities=ALPHA)
    with pytest.raises(ValueError, match="one query only"):
        click_weights(data.subset([3]), ALPHA, "doubly-robust")
    silent = hr.ClickLog(queries=[0], documents=[0], places=[1], clicks=[0]).join(rows)
    with pytest.raises(hr.DataError, match="no clicks to learn from"):
        hr.RankSVM().fit_clicks(silent, propensities=ALPHA)
