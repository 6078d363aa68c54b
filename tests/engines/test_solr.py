"""A real Solr with its learning-to-rank module: features and models over HTTP, scores and order, logged features."""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.export.exporting import compare, rows_of

HERE, CORE = Path(__file__).parent, "rows"


class Solr:
    """A server's address, and what tests say to it."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}/solr/{CORE}"

    def call(self, path, body=None, method=None, **parameters):
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        request = urllib.request.Request(
            f"{self.address}/{path}?{urllib.parse.urlencode(parameters)}", data, {"Content-Type": "application/json"},
            method=method,
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()[-2000:]) from None

    def index(self, rows):
        X, _, qid = rows_of(rows)
        documents = [
            {"id": str(k), "qid": str(q)} | {f"f{j + 1}": v for j, v in enumerate(row)}
            for k, (q, row) in enumerate(zip(qid.tolist(), X.tolist()))
        ]
        self.call("update", documents, commit="true")

    def install(self, files, name):
        for place in (f"schema/model-store/{name}", "schema/feature-store/_DEFAULT_"):
            self.call(place, method="DELETE")
        self.call("schema/feature-store", files[1].read_text("utf-8"), "PUT")
        self.call("schema/model-store", files[0].read_text("utf-8"), "PUT")

    def rank(self, query, model, **more):
        asked = {"q": f"qid:{query}", "rq": f"{{!ltr model={model} reRankDocs=1000}}", "rows": 1000, "fl": "id,score"}
        return self.call("select", **(asked | more))["response"]["docs"]


@pytest.fixture(scope="module")
def solr(java, tmp_path_factory, rows):
    home = tmp_path_factory.mktemp("solr")
    shutil.copytree(HERE / "solr", home, dirs_exist_ok=True)
    (home / CORE).mkdir()
    (home / "conf").rename(home / CORE / "conf")
    (home / CORE / "core.properties").write_text(f"name={CORE}\n")
    with open(home / "log", "w") as log:
        command = [*java("solr", "SolrNode"), str(home)]
        node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    port = next((line.split()[1] for line in node.stdout if line.startswith("PORT")), None)
    assert port, (home / "log").read_text()[-3000:]
    server = Solr(port)
    server.index(rows)
    yield server
    node.stdin.close()
    node.wait(60)
    node.stdout.close()


# no value is missing here: a version before 9 refuses to hear where missing ones go, which matters to XGBoost's trees
@pytest.mark.parametrize("shift", [0.0, 30.0])
@pytest.mark.parametrize("name", ["standard", "sparse", "lightgbm", "xgboost", "steps"])
def test_scores_and_order_of_all_queries(solr, fitted, rows, tmp_path, name, shift):
    ranker, (X, _, qid) = fitted(name), rows_of(rows)
    solr.install(
        ranker.export(tmp_path / "solr", "solr", name=name, shift=shift, missing=False, define=True).files, name
    )
    scores, orders = np.full(len(X), np.nan), {}
    for query in np.unique(qid):
        found = solr.rank(query, name)
        orders[query] = [int(document["id"]) for document in found]
        scores[orders[query]] = [document["score"] for document in found]
    expected = ranker.predict(X, qid) + shift
    told = compare(expected, scores, qid)
    assert told["relative_to_largest_score"] < 2e-6 and told["reordered_queries"] <= 1, told
    for order in orders.values():
        assert (np.diff(expected[order]) <= 2e-6 * np.abs(expected).max()).all()
    print(name, shift, told)


def test_the_check_does_what_solr_does(solr, fitted, rows, tmp_path):
    """The arithmetic that --check does in Solr's place gives Solr's numbers, to the last bit for trees."""
    from hingerank.export.lucene import run_solr

    X, _, qid = rows_of(rows)
    for name in ("standard", "lightgbm", "xgboost"):
        files = fitted(name).export(tmp_path / name, "solr", name=name, missing=False, define=True).files
        solr.install(files, name)
        here = run_solr(files, fitted(name)._form(), X, qid)
        there = {int(d["id"]): d["score"] for q in np.unique(qid) for d in solr.rank(q, name)}
        gap = np.abs(here - [there[k] for k in range(len(X))]).max()
        assert gap <= 1e-6 * np.abs(here).max()


def test_from_the_engine_to_a_model_and_back(solr, fitted, rows, tmp_path):
    """Solr logs features, they are joined with judgments, a ranker learns from them, and Solr ranks by it."""
    X, _, qid = rows_of(rows)
    first = fitted("standard").export(tmp_path / "first", "solr", name="first", define=True).files
    solr.install(first, "first")
    log = tmp_path / "log.jsonl"
    with open(log, "w") as stream:
        for query in np.unique(qid):
            asked = {"q": f"qid:{query}", "rows": 1000, "fl": "id,qid,[features store=_DEFAULT_ format=dense]"}
            stream.write(json.dumps(solr.call("select", **asked)) + "\n")
    judgments = {(str(q), str(k)): grade for k, (q, grade) in enumerate(zip(qid.tolist(), rows.y.tolist()))}
    data = hr.read_feature_log(log, judgments)
    assert data.n_rows == len(X)
    order = data.docid.astype(int)
    column = [int(name[1:]) - 1 for name in data.feature_names]
    assert np.abs(data.X - X[order][:, column]).max() < 1e-6 * np.abs(X).max()
    ranker = hr.RankSVM(C=0.01, scale="standard").fit(data)
    solr.install(ranker.export(tmp_path / "again", "solr", name="again", shift=20.0, define=True).files, "again")
    expected = dict(zip(data.docid.tolist(), (ranker.predict(data) + 20.0).tolist()))
    for query in np.unique(qid):
        for found in solr.rank(query, "again"):
            assert abs(found["score"] - expected[found["id"]]) < 1e-5 * max(expected.values())
