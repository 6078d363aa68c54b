"""The page in a real browser: complete, quiet, offline; it sorts, filters and drills down; text stays text."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from hingerank.data.ranking_data import RankingData
from hingerank.lab import Method, compare, leaderboard, query_folds
from hingerank.lab.report.examples import write_examples
from hingerank.lab.report.page import fitting_page, make_payload, render_page, script_json, write_report

HOSTILE = "</script><img src=x onerror=window.hacked=1>"


class Column:
    """Scores by one feature; has weights, a trace and warnings to show."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y, qid=None):
        if self.column == 3:
            raise ValueError(f"no third column {HOSTILE}")
        if self.column == 2:
            import warnings

            warnings.warn(f"odd {HOSTILE}", UserWarning, stacklevel=2)
        self.coef_ = np.eye(X.shape[1])[self.column]
        self.basis_, self.user_weights_ = (
            np.array([[1.0, 0.5], [0.5, -2.0], [-1.0, 0.0], [0.0, 0.1]]),
            np.array([[-1, 1]]),
        )
        self.trace_ = [{"iteration": i, "gap": 10.0**-i, "seconds": 0.1 * i} for i in range(1, 6)]
        self.certificate_ = {
            "kind": "duality gap",
            "value": 1e-5,
            "tolerance": 1e-3,
            "status": "converged",
            "n_iter": 5,
            "seconds": 0.5,
        }
        return self

    def predict(self, X):
        return X @ self.coef_


class Noise:
    def __init__(self, kind="a", random_state=None):
        self.kind, self.random_state = kind, random_state

    def fit(self, X, y, qid=None):
        return self

    def predict(self, X):
        return np.random.default_rng(self.random_state).standard_normal(len(X))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three methods on forty queries whose ids, documents and features are out to break the page."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.standard_normal(400)), 0, 2)
    qid = np.repeat(np.array([f"q{i}{HOSTILE if i == 7 else ''}" for i in range(40)], object), 10)
    docid = np.array([f"{HOSTILE}{i}" for i in range(400)], object)
    names = [f"f&{j}<b>" for j in range(4)]
    data = RankingData(X, y, qid, docid, names)
    methods = [
        Method("noise", Noise, {"kind": ["a", "b<i>"]}),
        Method(f"best{HOSTILE}", Column, {"column": [0, 1, 3]}),
        Method("other", Column, {"column": [1, 2]}),
    ]
    folder = tmp_path_factory.mktemp("run")
    folds = query_folds(data, 4)
    about = {"data": f"data {HOSTILE}", "command": f"hingerank compare '{HOSTILE}' -o run/"}
    results = compare(methods, folds, folder=folder, workers=1, about=about)
    write_examples(results, folds)
    return results


@pytest.fixture(scope="module")
def page_file(run):
    return write_report(run)


@pytest.fixture
def page(browser, page_file):
    opened = browser.open(page_file)
    opened.wait("document.documentElement.dataset.ready === 'yes'")
    yield opened
    assert opened.complaints == []
    assert opened.requests == []
    assert opened.run("window.hacked === undefined")
    assert opened.run("document.images.length") == 0


def test_the_leaderboard_is_the_leaderboard(page, run):
    board = leaderboard(run)
    rows = page.texts("#leaderboard tbody tr")
    assert len(rows) == 3
    for line, row in zip(board.lines, rows):
        assert row.startswith(line.method)
        assert f"{line.mean:.4f}" in row and (line.mark in row)
    assert "baseline" in rows[[line.method for line in board.lines].index("noise")]


def test_incomplete_methods_seeds_and_learning_curves_are_shown(browser, run, tmp_path):
    """The best method lost a fold: it stands last, unmarked; curves are drawn for the sizes there are."""
    best = leaderboard(run).lines[0].method
    small = [{**r, "size": 0.5} for r in run.records if r["method"] == "noise"]
    again = [{**r, "seed": 1} for r in run.records if r["method"] == "noise" and r["kind"] == "test"]
    lost = [r for r in run.records if (r["method"], r["fold"], r["kind"]) != (best, "fold 2", "test")]
    header = {**run.header, "sizes": [0.5, 1.0], "seeds": {"noise": 2}}
    path = write_report(replace(run, header=header, records=[*lost, *small, *again]), tmp_path / "report.html")
    page = browser.open(path)
    rows = page.texts("#leaderboard tbody tr")
    assert rows[-1].startswith(best) and "fold 2" in rows[-1] and "▲" not in rows[-1]
    assert "± seeds" in page.texts("#leaderboard thead tr")[0]
    for chart in ("ranks", "cost"):
        assert page.run(f"document.querySelectorAll('#{chart} [data-series]').length") == 2
    assert page.run("document.querySelectorAll('#learning [data-series]').length") == 3
    assert len(page.texts("#learning-table tbody tr")) == 3
    page.click("#leaderboard thead th:nth-child(2) button")
    assert page.texts("#leaderboard tbody tr")[-1].startswith(best)
    assert page.complaints == []


def test_sorting(page):
    name = "#leaderboard thead th:nth-child(1) button"
    page.click(name)
    names = page.texts("#leaderboard tbody td:first-child")
    assert names == sorted(names)
    page.click(name)
    assert page.texts("#leaderboard tbody td:first-child") == sorted(names, reverse=True)
    assert page.run("document.querySelector('#leaderboard th').getAttribute('aria-sort')") == "descending"
    page.click("#leaderboard thead th:nth-child(2) button")
    means = [float(text.split()[0]) for text in page.texts("#leaderboard tbody td:nth-child(2)")]
    assert means == sorted(means, reverse=True)


def test_hiding_a_method(page):
    assert page.run("document.querySelectorAll('#ranks [data-series]').length") == 3
    page.click("#chips .chip:nth-child(1)")
    assert page.run("document.querySelectorAll('#ranks [data-series]').length") == 2
    assert len(page.texts("#leaderboard tbody tr")) == 2
    page.click("#chips .chip:nth-child(1)")
    assert len(page.texts("#leaderboard tbody tr")) == 3


def test_filtering_queries(page):
    everything = page.texts("#query-list tbody td:first-child")
    assert len(everything) == 40
    page.type("#find-query", "q1")
    found = page.texts("#query-list tbody td:first-child")
    assert found and set(found) == {query for query in everything if "q1" in query}
    page.type("#find-query", "zzz")
    assert page.texts("#query-list tbody tr") == ["nothing matches"]


def test_drilling_down_to_two_rankings(page, run):
    page.click("#query-list tbody tr:nth-child(1)")
    query = page.texts("#query-list tbody tr.chosen td:first-child")[0]
    assert page.texts("#query-detail h3")[0].startswith(f"Query {query}")
    payload = make_payload(run)
    example = next(e for e in payload["examples"]["queries"] if str(e["query"]) == query)
    for place, choice in enumerate(("first", "second")):
        method = page.run(f"document.getElementById('{choice}').value")
        expected = [doc for _, doc in sorted(zip(example["places"][method], example["docs"]))]
        assert page.texts(f"#query-detail .lists > div:nth-child({place + 1}) tbody td:nth-child(3)") == expected
    heads = page.texts("#query-detail > div:last-child thead th")
    assert set(payload["examples"]["features"]) <= set(heads)
    page.run("document.getElementById('second').value = 'other'; document.getElementById('second').onchange()")
    assert page.texts("#query-detail .lists h3")[1] == "other"


def test_drilling_down_from_a_bar(page):
    page.click("#queries .bar.drill")
    assert page.texts("#query-detail h3")[0].startswith("Query q")
    assert page.run("document.querySelectorAll('#queries .bar').length") == 40


def test_tooltips_follow_the_pointer(page):
    page.click("#ranks circle[fill='transparent']")
    assert page.run("document.getElementById('tip').hidden") is False
    assert "k 1" in page.run("document.getElementById('tip').textContent")


def test_every_section_is_there(page):
    shown = page.run("[...document.querySelectorAll('main section')].filter(s => !s.hidden).map(s => s.id)")
    first = "leaderboard pairs ranks cost queries search convergence weights basis"
    assert " ".join(shown) == f"{first} problems data keep rebuild"
    seen = "[...document.querySelectorAll('main section')].filter(s => !s.hidden)"
    heights = page.run(f"{seen}.map(s => s.getBoundingClientRect().height)")
    assert min(heights) > 60
    assert page.texts("#search h3") == ["noise: kind", f"best{HOSTILE}: column", "other: column"]
    assert HOSTILE in page.texts("#command")[0]
    assert any(HOSTILE in text for text in page.texts("#problems td"))
    assert page.run("document.querySelectorAll('#convergence path.series').length") == 4
    assert page.texts("#weights tbody td:first-child") == ["f&0<b>"]
    assert page.texts("#basis td") == ["1", "f&2<b>", "f&0<b> f&1<b>", "2", "f&0<b> f&3<b>", "f&1<b>"]


@pytest.mark.parametrize("width, mobile", [(390, True), (320, True), (768, False)])
def test_no_sideways_scrolling(browser, page_file, width, mobile):
    page = browser.open(page_file, width=width, height=800, mobile=mobile)
    page.click("#query-list tbody tr:nth-child(1)")
    assert page.run("document.documentElement.scrollWidth") <= width
    size = page.run("parseFloat(getComputedStyle(document.querySelector('#leaderboard td')).fontSize)")
    assert size >= 13
    if folder := os.environ.get("HINGERANK_SCREENSHOTS"):
        page.screenshot(f"{folder}/report-{width}.png")
    assert page.complaints == []


def test_dark_and_light(browser, page_file):
    def background(page):
        return sum(
            json.loads(
                page.run("getComputedStyle(document.body).backgroundColor").replace("rgb(", "[").replace(")", "]")
            )
        )

    for dark in (False, True):
        page = browser.open(page_file, dark=dark)
        assert background(page) < 150 if dark else background(page) > 700
        if folder := os.environ.get("HINGERANK_SCREENSHOTS"):
            page.screenshot(f"{folder}/report-{'dark' if dark else 'light'}.png")
        page.click("#theme")
        assert background(page) > 700 if dark else background(page) < 150


def test_it_prints(browser, page_file):
    page = browser.open(page_file, dark=True)
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.querySelector('.top')).display") == "none"
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.call("Page.printToPDF")["data"]) > 10_000


def test_nothing_else_may_run_or_load(browser, page_file):
    """Even markup that got past the escaping could do nothing: the page's policy stops it."""
    page = browser.open(page_file)
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')")
    page.run("new Promise(done => setTimeout(done, 100))")
    assert page.run("window.hacked === undefined")
    assert any("Content Security Policy" in str(c) for c in page.complaints)


def test_text_is_escaped_in_the_file(run, page_file):
    text = page_file.read_text("utf-8")
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert json.loads(text.split('id="payload">')[1].split("</script>")[0]) is not None
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text


def test_json_survives_any_text():
    value = {"a": "</script>\u2028\u2029&<!--<script>", "b": [1.5, None]}
    text = script_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_the_page_stays_small(run):
    payload = make_payload(run)
    whole = render_page(payload)
    assert len(whole.encode()) < 400_000
    small = fitting_page(payload, most_bytes=len(whole.encode()) - 10_000)
    assert len(small.encode()) <= len(whole.encode()) - 10_000
    kept = json.loads(small.split('id="payload">')[1].split("</script>")[0])["examples"]["queries"]
    assert 0 < len(kept) < len(payload["examples"]["queries"])
    assert kept == payload["examples"]["queries"][: len(kept)]


def test_unfinished_and_empty_runs_have_a_page(browser, run, tmp_path):
    """A page can be made while the comparison runs: with no result yet, or with one method on one fold."""
    tests = [r for r in run.records if r["kind"] == "test"]
    for records in ([], tests[:1], [r for r in run.records if r["kind"] == "validation"]):
        path = write_report(replace(run, records=records), tmp_path / "report.html")
        page = browser.open(path)
        assert page.complaints == []
        assert len(page.texts("#leaderboard tbody tr")) == 3
