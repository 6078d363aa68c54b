"""A real Solr with its learning-to-rank module: features and models over HTTP, scores and order, logged features."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.export.exporting import compare, rows_of

HERE, CORE = Path(__file__).parent, "rows"


class Solr:
    """A server's address, and what tests say to it."""

    def __init__(self, address):
        self.address = address

    def call(self, path, body=None, method=None, **parameters):
        return json.loads(self.text(path, body, method, **parameters))

    def text(self, path, body=None, method=None, **parameters):
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        request = urllib.request.Request(
            f"{self.address}/{path}?{urllib.parse.urlencode(parameters)}", data, {"Content-Type": "application/json"},
            method=method,
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read().decode()
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


@contextmanager
def started(home, command, settings="<solr/>"):
    """The address of a node that runs while the block does."""
    shutil.copytree(HERE / "solr" / "conf", home / CORE / "conf")
    (home / "solr.xml").write_text(settings)
    (home / "zoo.cfg").write_text("tickTime=2000\ninitLimit=10\nsyncLimit=5\n")
    with open(home / "log", "w") as log:
        node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        port = next((line.split()[1] for line in node.stdout if line.startswith("PORT")), None)
        assert port, (home / "log").read_text()[-3000:]
        yield f"http://127.0.0.1:{port}/solr"
    finally:
        node.stdin.close()
        node.wait(60)
        node.stdout.close()


@pytest.fixture(scope="module")
def solr(java, tmp_path_factory, rows):
    home = tmp_path_factory.mktemp("solr")
    (home / CORE).mkdir()
    (home / CORE / "core.properties").write_text(f"name={CORE}\n")
    with started(home, [*java("solr", "SolrNode"), str(home)]) as address:
        server = Solr(f"{address}/{CORE}")
        server.index(rows)
        yield server


@pytest.fixture(scope="module")
def cloud(java, tmp_path_factory, rows):
    """A node with a ZooKeeper of its own and a collection of two replicas."""
    home, (program, *more) = tmp_path_factory.mktemp("cloud"), java("solr", "SolrNode")
    with socket.socket() as free, socket.socket() as keeper:  # the ZooKeeper takes the port 1000 above Solr's
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        port -= 2000 if port > 60000 else 0
        keeper.bind(("127.0.0.1", port + 1000))
    inner = f'<str name="host">127.0.0.1</str><int name="hostPort">{port}</int><str name="hostContext">solr</str>'
    command = [
        program,
        "-DzkRun",
        f"-Dbootstrap_confdir={home / CORE / 'conf'}",
        f"-Dcollection.configName={CORE}",
        *more,
    ]
    with started(home, [*command, str(home), str(port)], f"<solr><solrcloud>{inner}</solrcloud></solr>") as address:
        made = {"action": "CREATE", "name": CORE, "numShards": 1, "replicationFactor": 2, "maxShardsPerNode": 2}
        Solr(address).call("admin/collections", **made, **{"collection.configName": CORE})
        server = Solr(f"{address}/{CORE}")
        server.index(rows)
        yield server


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


WORDS = ["desk", "floor", "table", "oak", "steel", "lamp", "chair", "shelf", "red", "blue"]
STORE = [
    {"name": "bm25", "class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": "{!field f=title}${text}"}},
    {"name": "edismax", "class": "org.apache.solr.ltr.feature.SolrFeature",
     "params": {"q": "{!edismax qf='title body'}${text}"}},
    {"name": "popularity", "class": "org.apache.solr.ltr.feature.FieldValueFeature", "params": {"field": "popularity"}},
    {"name": "original", "class": "org.apache.solr.ltr.feature.OriginalScoreFeature", "params": {}},
]  # fmt: skip


@pytest.fixture(scope="module")
def shop(solr, tmp_path_factory):
    """Documents with texts, a store of features that only Solr can compute, its log as curl leaves it, and grades."""
    rng = np.random.default_rng(0)
    documents = [
        {"id": f"p{k}", "qid": "shop", "title": " ".join(rng.choice(WORDS, 3)), "body": " ".join(rng.choice(WORDS, 12)),
         "popularity": float(rng.integers(1, 100))}
        for k in range(150)
    ]  # fmt: skip
    solr.call("update", documents, commit="true")
    solr.call("schema/feature-store", [entry | {"store": "shop"} for entry in STORE], "PUT")
    log, grades = tmp_path_factory.mktemp("shop") / "log.json", {}
    with open(log, "w") as stream:
        for first in WORDS:
            for second in WORDS[:3]:
                text = f"{first} {second}"
                asked = {"q": f"title:({text})", "fq": "qid:shop", "rows": 15, "qid": text, "echoParams": "explicit"}
                asked["fl"] = f"id,[features store=shop efi.text='{text}']"
                stream.write(solr.text("select", **asked))  # indented, with an empty line after it
                for row in json.loads(solr.text("select", **asked))["response"]["docs"]:
                    found = {n: float(v) for n, v in (pair.split("=") for pair in row["[features]"].split(","))}
                    worth = found["bm25"] + found["popularity"] / 40 + rng.normal(0, 0.3)
                    grades[text, row["id"]] = int(np.clip(worth, 0, 4))
    return log, grades


def models(solr):
    return {model["name"] for model in solr.call("schema/model-store")["models"]}


def test_logged_features_stay_solrs_own(solr, shop, tmp_path):
    """From Solr's log to a model that Solr runs: the store is as it was, and the scores are the ranker's."""
    log, grades = shop
    data = hr.read_feature_log(log, grades)
    assert list(data.feature_names) == [entry["name"] for entry in STORE] and data.n_queries == 30
    ranker = hr.tune("rank-svm", data, folds=3, serve="solr")
    own = solr.call("schema/feature-store/shop")
    done = ranker.export(tmp_path / "out", "solr", features=own, shift="auto", check=data)
    assert [path.name for path in done.files] == ["model.json", "model.examples.json"]
    assert json.loads(done.files[0].read_text("utf-8"))["store"] == "shop"
    for name, more in (("lamps", {}), ("lamps", {"replace": True})):
        sent = hr.upload(ranker, "solr", solr.address, name=name, store="shop", log=log, shift="auto", **more)
        assert sent.check["rows"] == 30 and sent.check["changed_since_log"] == 0
        assert sent.check["relative_to_largest_score"] < 1e-6 and sent.check["negative_scores"] == 0
    assert solr.call("schema/feature-store/shop")["features"] == own["features"]
    assert {"lamps"} <= models(solr) and "lamps_trial" not in models(solr)
    trees = hr.LightGBMRanker(n_estimators=20, num_leaves=7).fit(data)
    sent = hr.upload(trees, "solr", solr.address, name="trees", store="shop", log=log, shift="auto", missing=False)
    assert sent.check["relative_to_largest_score"] < 1e-5


def test_an_upload_that_fails_leaves_solr_as_it_was(solr, shop):
    log, grades = shop
    ranker = hr.RankSVM(scale="standard").fit(hr.read_feature_log(log, grades))
    before = models(solr), solr.call("schema/feature-store/shop")["features"]
    with pytest.raises(hr.ExportError, match=r"requires efi parameter.*; what was sent was removed again"):
        hr.upload(ranker, "solr", solr.address, name="fails", store="shop")
    with pytest.raises(hr.ExportError, match="lacks bm25, edismax, popularity, original"):
        hr.upload(ranker, "solr", solr.address, name="fails", store="none")
    with pytest.raises(hr.ExportError, match=r"failed with 404: is the address right"):
        hr.upload(ranker, "solr", solr.address + "s", name="fails", store="shop")
    assert (models(solr), solr.call("schema/feature-store/shop")["features"]) == before
    assert "none" not in solr.call("schema/feature-store")["featureStores"]


def test_what_solr_lacks_is_defined_where_that_is_asked_for(solr, fitted, rows):
    sent = hr.upload(fitted("standard"), "solr", solr.address, name="fields", store="fields", define=True, shift=30.0)
    assert sent.check["rows"] == 10 and sent.check["relative_to_largest_score"] < 2e-6
    again = hr.upload(fitted("sparse"), "solr", solr.address, name="fewer", store="fields", define=True, shift=30.0)
    assert not any(call.method == "PUT" and "feature-store" in call.url for call in again.calls)


def test_the_shell_commands_of_the_page_run(solr, tmp_path):
    """docs/solr.md, block by block in one shell: define, log, join, tune, upload, rank, and the way by hand."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    page = (HERE.parents[1] / "docs" / "solr.md").read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 9
    text = "\n".join(f"echo; echo BLOCK {k}\n{block}" for k, block in enumerate(blocks))
    text = text.replace("http://localhost:8983/solr/shop", solr.address)
    start = f'set -euo pipefail\nhingerank() {{ {shlex.quote(sys.executable)} -m hingerank "$@"; }}\n'
    done = subprocess.run(["bash", "-c", start + text], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout[-1500:], done.stderr[-1500:])
    said = done.stdout.split("BLOCK ")
    assert "queries, 4 features" in said[5] and "rank-svm: " in said[6]
    assert "running in solr costs" in said[6] or "solr can run the best setting" in said[6]
    assert "PUT " in said[7] and "largest difference" in said[7]
    ranked = json.loads(said[8].partition("\n")[2])["response"]["docs"]
    scores = [row["score"] for row in ranked]
    assert len(scores) == 10 and scores == sorted(scores, reverse=True) and min(scores) >= 0
    assert {"lamps-1", "lamps-2"} <= models(solr)
    assert [entry["name"] for entry in solr.call("schema/feature-store/products")["features"]] == [
        "title", "anywhere", "popularity", "first",
    ]  # fmt: skip


def test_uploads_to_a_cloud_reach_every_replica(cloud, fitted):
    """A replica sees features and models after a reload, which an upload asks for."""
    sent = hr.upload(fitted("standard"), "solr", cloud.address, name="a", store="fields", define=True, shift=30.0)
    assert sum("action=RELOAD" in call.url for call in sent.calls) == 2
    for k in range(4):  # one replica or the other answers
        hr.upload(fitted("sparse"), "solr", cloud.address, name=f"b{k}", store="fields", define=True, shift=30.0)
        assert models(cloud) == {"a", *(f"b{j}" for j in range(k + 1))}
    hr.upload(fitted("standard"), "solr", cloud.address, name="b0", store="fields", shift=30.0, replace=True)
    assert models(cloud) == {"a", "b0", "b1", "b2", "b3"}
