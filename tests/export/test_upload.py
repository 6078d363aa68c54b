"""Uploads against small servers that keep the engines' rules: what is put, read back, scored, and taken back.

The rules are those of the plugin's REST handlers (PUT creates, POST updates, models cannot be updated) and of Solr's
managed resources (names are used once, stores are deleted whole). `make engines` does the same in a real Solr.
"""

import json
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli.app import run

NAMES = ["bm25", "edismax", "recency"]
RNG = np.random.default_rng(0)
X = (RNG.random((60, 3)) * [10, 20, 1]).astype(np.float32).astype(float)
ROWS = {f"d{k}": dict(zip(NAMES, row)) for k, row in enumerate(X.tolist())}
QID = np.repeat(np.arange(6), 10)
DATA = hr.RankingData.from_arrays(
    X, np.digitize(X @ [0.1, 0.05, 1.0], [1.2, 1.8]).astype(float), QID, feature_names=NAMES
)
SET = [{"name": n, "params": ["keywords"], "template": {"match": {"t": "{{keywords}}"}}} for n in ["unused", *NAMES]]
STORE = [
    {"name": n, "class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": n}, "store": "_DEFAULT_"}
    for n in ["unused", *NAMES]
]


class Fake:
    """What the two servers share: rows of features, a switch that breaks something, and the calls."""

    def __init__(self):
        self.broken, self.calls, self.models, self.headers = "", [], {}, []

    def answer(self, method, url, body):
        parts = urlsplit(url)
        path, query = unquote(parts.path), {k: v[-1] for k, v in parse_qs(parts.query).items()}
        self.calls.append(f"{method} {path}")
        if self.broken == "locked":
            return 401, {"error": {"reason": "who are you"}}
        if self.broken == "html":
            return 200, "<html>"
        return self.route(method, path, query, body)

    def score(self, weights, norms, row):
        total = np.float32(0)
        for name, weight in weights.items():
            mean, width = norms.get(name, (0.0, 1.0))
            total += np.float32(weight) * ((np.float32(row[name]) - np.float32(mean)) / np.float32(width))
        return float(total) * (3.0 if self.broken == "scores" else 1.0)


class FakePlugin(Fake):
    def __init__(self):
        super().__init__()
        self.sets = {"shop": list(SET)}

    def route(self, method, path, query, body):
        if path == "/products/_search":
            return self.search(body)
        if path.endswith("/_createmodel"):
            return self.create(path.split("/")[-2], body["model"])
        if path.endswith("/_addfeatures"):
            self.sets[path.split("/")[-2]] += body["features"]
            return 200, {}
        kind, name = path.split("/")[-2:]
        kept = self.sets if kind == "_featureset" else self.models
        if method == "GET":
            inner = (
                {"featureset": {"name": name, "features": kept.get(name)}} if kind == "_featureset" else kept.get(name)
            )
            return (200, {"_id": name, "found": True, "_source": inner}) if name in kept else (404, {"found": False})
        if method == "DELETE":
            return (200, {}) if kept.pop(name, None) is not None else (404, {"error": {"reason": "gone"}})
        if (method == "PUT") == (name in kept):
            return 409, {"error": {"reason": f"version conflict: {name}"}}
        kept[name] = (
            body["featureset"]["features"]
            if kind == "_featureset"
            else {"name": name, "type": "model", "model": body["model"]}
        )
        return 201, {}

    def create(self, name, model):
        if self.broken == "create":
            return 400, {"error": {"reason": "Cannot parse model"}}
        if name not in self.sets or model["name"] in self.models:
            return 405, {"error": {"reason": "Element of type [model] are not updatable"}}
        inner = dict(model["model"])
        unknown = [n for n in inner["definition"] if n not in [feature["name"] for feature in self.sets[name]]]
        if unknown:
            return 400, {"error": {"reason": f"Feature [{unknown[0]}] is unknown."}}
        inner["definition"] = json.dumps(inner["definition"])  # kept as text
        if self.broken == "kept":
            inner["definition"] = "{}"
        self.models[model["name"]] = {"name": model["name"], "type": "model", "model": {**model, "model": inner}}
        return 200, {}

    def search(self, body):
        these = body["query"]["bool"]["filter"][0]
        ids = these["ids"]["values"] if "ids" in these else list(ROWS)
        asked = body["rescore"]["query"]["rescore_query"]["sltr"]
        if asked["params"] != {"keywords": "lamp"}:
            return 400, {"error": {"reason": "Missing required param(s): [keywords]"}}
        inner = self.models[asked["model"]]["model"]["model"]
        norms = {
            n: (v["standard"]["mean"], v["standard"]["standard_deviation"])
            for n, v in inner["feature_normalizers"].items()
        }
        hits = []
        for name in ids[: body["size"]]:
            row = dict.fromkeys(ROWS[name], 0.0) if self.broken == "zeros" else ROWS[name]
            log = [{"name": n, "value": v} for n, v in {"unused": 3.0, **row}.items()]
            score = self.score(json.loads(inner["definition"]), norms, row)
            hits.append({"_id": name, "_score": score, "fields": {"_ltrlog": [{"hingerank": log}]}})
        return 200, {"hits": {"hits": hits}}


class FakeSolr(Fake):
    def __init__(self):
        super().__init__()
        self.stores, self.seen = {"_DEFAULT_": list(STORE)}, ""

    def route(self, method, path, query, body):
        if path.startswith("/solr/admin/"):
            self.seen = json.dumps([self.models, self.stores])  # what replicas know after a reload
            return 200, {"mode": "solrcloud" if self.broken == "cloud" else "std"}
        if self.broken == "cloud" and path.endswith("/select") and self.seen != json.dumps([self.models, self.stores]):
            return 400, {"error": {"msg": "cannot find model"}}
        place = path.removeprefix("/solr/products/")
        if place == "select":
            return self.select(query)
        if place == "schema/feature-store":
            return self.put_features(body) if method == "PUT" else (200, {"featureStores": list(self.stores)})
        if place.startswith("schema/feature-store/"):
            name = place.rpartition("/")[2]
            if method == "DELETE":
                del self.stores[name]
            return 200, {"features": self.stores.get(name, [])}
        if method == "DELETE":
            self.models.pop(place.rpartition("/")[2], None)
        elif method == "PUT":
            if self.broken == "create" or body["name"] in self.models:
                return 400, {"error": {"msg": f"model '{body['name']}' already exists. Please use a different name"}}
            self.models[body["name"]] = body
        return 200, {"models": list(self.models.values())}

    def put_features(self, features):
        for feature in features:
            known = self.stores.setdefault(feature["store"], [])
            if feature["name"] in [entry["name"] for entry in known]:
                return 500, {"error": {"msg": f"{feature['name']} already contained in the store"}}
            known.append(feature)
        return 200, {}

    def select(self, query):
        if "efi.text='lamp'" not in query["rq"] or "efi.text='lamp'" not in query["fl"]:
            return 400, {"error": {"msg": "SolrFeatureWeight requires efi parameter that was not passed in request."}}
        model = self.models[query["rq"].partition("model='")[2].partition("'")[0]]
        norms = {
            f["name"]: [float(f["norm"]["params"][k]) for k in ("avg", "std")] for f in model["features"] if "norm" in f
        }
        ids = query["q"].partition("}")[2].split(",") if "terms" in query["q"] else list(ROWS)
        docs = []
        for name in ids[: int(query["rows"])]:
            row = dict.fromkeys(ROWS[name], 0.0) if self.broken == "zeros" else ROWS[name]
            said = ",".join(f"{n}={v}" for n, v in {"unused": 3.0, **row}.items())
            docs.append({"id": name, "[features]": said, "score": self.score(model["params"]["weights"], norms, row)})
        return 200, {"response": {"docs": docs}}


@pytest.fixture(params=["solr", "opensearch"])
def engine(request):
    """A server that runs, with `to`, `url` and what an upload to it needs."""
    fake = FakeSolr() if request.param == "solr" else FakePlugin()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("Content-Length") or 0)
            fake.headers.append(dict(self.headers))
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = fake.answer(self.command, self.path, body)
            data = (answer if isinstance(answer, str) else json.dumps(answer, indent=2)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *said):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    fake.to, solr = request.param, request.param == "solr"
    fake.url = f"http://127.0.0.1:{server.server_port}/{'solr/products' if solr else 'products'}"
    fake.given = {"params": {"text": "lamp"}} if solr else {"params": {"keywords": "lamp"}, "store": "shop"}
    fake.kept = lambda: json.dumps([fake.models, fake.stores if solr else fake.sets])
    yield fake
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def ranker():
    return hr.RankSVM(C=0.1, scale="standard").fit(DATA)


def send(engine, ranker, **more):
    return hr.upload(ranker, engine.to, engine.url, **{"shift": 20.0, **engine.given, **more})


def test_a_model_is_put_read_back_and_scored(engine, ranker):
    before = engine.kept()
    done = send(engine, ranker, name="lamps")
    assert list(engine.models) == ["lamps"] and done.check["rows"] == 10
    assert done.check["relative_to_largest_score"] < 1e-6 and done.check["negative_scores"] == 0
    assert json.loads(before)[1] == json.loads(engine.kept())[1]  # features are as they were
    assert [f"{call.method} {unquote(urlsplit(call.url).path)}" for call in done.calls] == engine.calls
    with pytest.raises(hr.ExportError, match="already has a model 'lamps': give another name, or pass replace=True"):
        send(engine, ranker, name="lamps")


def test_a_model_is_replaced_once_the_new_one_scores_well(engine, ranker):
    send(engine, ranker, name="lamps")
    first = engine.kept()
    other = hr.RankSVM(C=1e-4, scale="standard").fit(DATA)
    for broken in ("scores", "kept" if engine.to == "opensearch" else "create", "locked", "html"):
        engine.broken = broken
        with pytest.raises(hr.ExportError):
            send(engine, other, name="lamps", replace=True)
        assert engine.kept() == first, broken
    engine.broken = ""
    assert send(engine, other, name="lamps", replace=True).check["relative_to_largest_score"] < 1e-6
    assert engine.kept() != first and list(engine.models) == ["lamps"]


def test_the_old_model_comes_back_where_the_new_one_is_refused(engine, ranker, monkeypatch):
    send(engine, ranker, name="lamps")
    before = json.loads(engine.kept())
    route, puts = type(engine).route, []

    def refuse(self, method, path, query, body):
        creates = path.endswith("_createmodel") or (method == "PUT" and path.endswith("model-store"))
        puts.extend([1] * creates)
        if creates and len(puts) == 2:  # the trial is taken, the model is not
            return 503, {"error": "no space"}
        return route(self, method, path, query, body)

    monkeypatch.setattr(type(engine), "route", refuse)
    with pytest.raises(hr.ExportError, match="no space; what was sent was removed again"):
        send(engine, hr.RankSVM(C=1e-4, scale="standard").fit(DATA), name="lamps", replace=True)
    assert json.loads(engine.kept()) == before


@pytest.mark.parametrize(
    ("method", "ends", "given"),
    [
        ("PUT", "/model-store", {"replace": True}),
        ("POST", "/_createmodel", {"replace": True}),
        ("PUT", "/feature-store", {"name": "new", "store": "fresh", "define": True}),
        ("PUT", "/_featureset/fresh", {"name": "new", "store": "fresh", "define": True}),
        ("DELETE", "/lamps", {"replace": True}),
        ("GET", "/collections", {"replace": True}),  # a reload
    ],
)
def test_what_was_done_before_an_answer_got_lost_is_taken_back(engine, ranker, monkeypatch, method, ends, given):
    engine.broken = "cloud" if engine.to == "solr" else ""
    send(engine, ranker, name="lamps")
    before, route, lost = json.loads(engine.kept()), type(engine).route, []

    def loses(self, *call):
        status, said = route(self, *call)
        if call[0] == method and call[1].endswith(ends) and not lost:
            lost.append(call)
            return 504, "gateway"
        return status, said

    monkeypatch.setattr(type(engine), "route", loses)
    try:
        send(engine, hr.RankSVM(C=1e-4, scale="standard").fit(DATA), **{"name": "lamps", **given})
    except hr.ExportError as error:
        assert "failed with 504" in str(error) and str(error).endswith("; what was sent was removed again")
        assert json.loads(engine.kept()) == before
    else:
        assert not lost  # a call that this engine has not


def test_what_scores_otherwise_is_taken_back(engine, ranker):
    before = engine.kept()
    engine.broken = "scores"
    with pytest.raises(
        hr.ExportError, match=r"of 10 rows differently from the ranker: .*; what was sent was removed again"
    ):
        send(engine, ranker)
    assert engine.kept() == before
    engine.broken = ""
    with pytest.raises(hr.ExportError, match=r"give them by params, as in params=.*; what was sent was removed again"):
        send(engine, ranker, params={})
    assert engine.kept() == before


def test_errors_are_the_engines_own_words(engine, ranker):
    before = engine.kept()
    said = {"create": "Cannot parse model" if engine.to == "opensearch" else "already exists", "html": "is not JSON"}
    said |= {"locked": "401: give credentials in the address or in a header: who are you"}
    for broken, words in said.items():
        engine.broken = broken
        with pytest.raises(hr.ExportError, match=words):
            send(engine, ranker)
        assert engine.kept() == before
    with pytest.raises(hr.ExportError, match=r"nothing answers at http://127.0.0.1:9/solr .* is the engine running"):
        hr.upload(ranker, "solr", "http://me:secret@127.0.0.1:9/solr/x")
    with pytest.raises(hr.ExportError, match="must begin with http"):
        hr.upload(ranker, "solr", "localhost:8983/solr/x")


def test_features_that_the_engine_lacks(engine, ranker):
    kept = engine.stores["_DEFAULT_"] if engine.to == "solr" else engine.sets["shop"]
    del kept[-1]
    before = engine.kept()
    with pytest.raises(hr.ExportError, match=r"lacks recency, which the model uses \(it has unused, bm25, edismax\)"):
        send(engine, ranker)
    assert engine.kept() == before and not any(call.startswith(("PUT", "POST")) for call in engine.calls)
    engine.broken = "scores"
    after = "left behind in the engine: definitions of recency" if engine.to == "solr" else "was removed again"
    with pytest.raises(hr.ExportError, match=after):
        send(engine, ranker, define=True)
    assert (engine.kept() == before) == (engine.to != "solr")  # Solr cannot delete a feature
    engine.broken = ""
    assert send(engine, ranker, define=True).check["rows"] == 10
    kept = engine.stores["_DEFAULT_"] if engine.to == "solr" else engine.sets["shop"]
    assert [entry["name"] for entry in kept] == ["unused", *NAMES]


def test_a_new_store_is_taken_back_whole(engine, ranker):
    before = engine.kept()
    engine.broken = "scores"
    with pytest.raises(hr.ExportError, match="what was sent was removed again"):
        send(engine, ranker, define=True, store="fresh")
    assert engine.kept() == before
    engine.broken = ""
    assert send(engine, ranker, define=True, store="fresh").check["rows"] == 10
    fresh = engine.stores["fresh"] if engine.to == "solr" else engine.sets["fresh"]
    assert [entry["name"] for entry in fresh] == NAMES


def test_an_empty_response_is_not_taken_for_an_empty_store(engine, ranker, monkeypatch):
    """Else its features would be defined again, and the store deleted when the engine refuses that."""
    before, route, lost = engine.kept(), type(engine).route, []

    def loses(self, *call):
        if not lost:
            lost.append(call)
            return 200, ""
        return route(self, *call)

    monkeypatch.setattr(type(engine), "route", loses)
    with pytest.raises(hr.ExportError, match=r"not understood: it has no list of .*; nothing was changed"):
        send(engine, ranker, define=True)
    assert lost and engine.kept() == before


def test_a_store_that_somebody_else_has_just_made_is_left_alone(engine, ranker, monkeypatch):
    route, stores = type(engine).route, engine.stores if engine.to == "solr" else engine.sets
    theirs = [{"name": n, "store": "fresh"} for n in ("bm25", "price")]

    def quicker(self, method, path, query, body):
        if method == "PUT" and "fresh" not in stores:
            stores["fresh"] = list(theirs)
        return route(self, method, path, query, body)

    monkeypatch.setattr(type(engine), "route", quicker)
    with pytest.raises(hr.ExportError, match=r"already contained in the store|version conflict: fresh"):
        send(engine, ranker, define=True, store="fresh")
    assert stores["fresh"] == theirs


def log_of(engine, path):
    """Two logged queries."""
    texts = []
    for q, ids in enumerate((["d3", "d4"], ["d5"])):
        if engine.to == "solr":
            docs = [{"id": i, "[features]": ",".join(f"{n}={v}" for n, v in ROWS[i].items())} for i in ids]
            texts.append({"qid": f"q{q}", "response": {"docs": docs}})
        else:
            hits = [
                {"_id": i, "fields": {"_ltrlog": [{"log": [{"name": n, "value": v} for n, v in ROWS[i].items()]}]}}
                for i in ids
            ]
            texts.append({"qid": f"q{q}", "hits": {"hits": hits}})
    path.write_text("\n".join(json.dumps(text, indent=1) for text in texts))
    return path


def test_logged_rows_are_scored_and_compared_with_the_log(engine, ranker, tmp_path):
    log = log_of(engine, tmp_path / "log")
    done = send(engine, ranker, log=log, shift="auto")
    assert (done.check["rows"], done.check["queries"], done.check["changed_since_log"]) == (3, 2, 0)
    assert done.check["negative_scores"] == 0
    engine.broken = "zeros"  # the store was replaced: the engine answers without an error
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert send(engine, ranker, log=log, name="other").check["changed_since_log"] == 3
    said = " ".join(str(each.message) for each in told)
    assert "bm25, edismax, recency: 0 in the engine for all 3 rows" in said
    assert "3 rows have other values of bm25, edismax, recency in the engine than in the log" in said


def test_a_dry_run_calls_nothing(engine, ranker):
    done = send(engine, ranker, dry_run=True, define=True, replace=True)
    assert engine.calls == [] and done.check is None
    methods = [call.method for call in done.calls]
    assert methods.count("DELETE") == 2 and len(methods) > 7 and all("http://" in str(call) for call in done.calls)


def test_a_cloud_is_reloaded_after_every_change(engine, ranker):
    if engine.to == "solr":
        engine.broken = "cloud"
        send(engine, ranker, name="a")
        send(engine, ranker, name="a", replace=True)
        assert engine.calls.count("GET /solr/admin/collections") == 5 and "a" in engine.seen
        engine.broken = ""
        send(engine, ranker, name="b")
        assert engine.calls.count("GET /solr/admin/collections") == 5


def test_credentials_go_into_a_header_and_into_nothing_else(engine, ranker):
    url = engine.url.replace("http://", "http://me:secret%21@")
    done = hr.upload(ranker, engine.to, url, shift=20.0, headers={"X-Mine": "1"}, **engine.given)
    assert engine.headers[0]["Authorization"] == "Basic bWU6c2VjcmV0IQ==" and engine.headers[0]["X-Mine"] == "1"
    assert "secret" not in str(done)


def test_where_there_is_no_upload_to(ranker):
    with pytest.raises(hr.ExportError, match="there is no upload to 'vespa': choose solr, elasticsearch, opensearch"):
        hr.upload(ranker, "vespa", "http://localhost")
    with pytest.raises(hr.ExportError, match="store must name the feature set"):
        hr.upload(ranker, "es", "http://localhost:9200/products")
    with pytest.raises(hr.ExportError, match="names no index"):
        hr.upload(ranker, "es", "http://localhost:9200", store="shop")
    with pytest.raises(
        hr.ExportError, match="names no collection: give one, as in http://localhost:8983/solr/products"
    ):
        hr.upload(ranker, "solr", "http://localhost:8983")
    for url in ("http://localhost:abc/solr/x", "http://[::1/solr/x"):
        with pytest.raises(hr.ExportError, match=r"the address 'http://.*/solr/x' is not valid: "):
            hr.upload(ranker, "solr", url)
    with pytest.raises(hr.ExportError, match="the address 'localhost:8983/solr/x' must begin with") as found:
        hr.upload(ranker, "solr", "me:secret@localhost:8983/solr/x")
    assert "secret" not in str(found.value)
    with pytest.raises(hr.ExportError, match=r"shift='auto' is computed from scores of rows: pass log='log.json', or"):
        hr.upload(ranker, "solr", "http://localhost:9/solr/x", shift="auto")
    for features in (["f1"], [{"name": "bm25"}], {"features": [{"name": "bm25"}]}):
        with pytest.raises(hr.ExportError, match=r"features is an engine's list.*: give a mapping|not an engine's"):
            hr.upload(ranker, "solr", "http://localhost:9/solr/x", features=features)
    with pytest.raises(hr.ExportError, match="features must map names"):
        hr.upload(ranker, "solr", "http://localhost:9/solr/x", features="names.json")
    with pytest.raises(hr.ExportError, match="solr has no option nothing"):
        hr.upload(ranker, "solr", "http://localhost:9200/solr/x", nothing=1)


def test_a_model_that_the_engine_cannot_hold_is_refused_before_any_call(engine):
    curves = hr.AdditiveRankSVM(n_knots=4).fit(DATA)
    with pytest.raises(hr.ExportError, match=f"{engine.to} cannot carry curves such as this AdditiveRankSVM"):
        send(engine, curves)
    assert engine.calls == []


def test_a_personal_model_is_sent_to_the_export_that_takes_it(engine, tmp_path, capsys):
    items, users = np.eye(4), [0, 0, 1, 1]
    hr.PersonalRankSVM(rank=1, C=1.0).fit(items, users, [0, 1, 2, 3], [1, 2, 1, 2]).save(tmp_path / "model")
    assert run(["upload", str(tmp_path / "model"), "--to", engine.to, "--url", engine.url, "--store", "shop"]) == 1
    assert "has a function for each user: export it with --to vectors" in capsys.readouterr().err
    assert engine.calls == []


def test_the_command_line_uploads(engine, ranker, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ranker.save("model/")
    log_of(engine, tmp_path / "log")
    word, more = ("text", []) if engine.to == "solr" else ("keywords", ["--store", "shop"])
    given = ["upload", "model/", "--to", engine.to, "--url", engine.url, "--param", f"{word}=lamp", *more]
    assert run([*given, "--log", "log", "--set", "shift=auto", "--header", "X-Mine: 1"]) == 0
    assert "largest difference" in capsys.readouterr().out and engine.headers[0]["X-Mine"] == "1"
    assert run(given) == 1
    assert "pass --replace" in capsys.readouterr().err
    count = len(engine.calls)
    assert run([*given, "--dry-run"]) == 0
    assert "GET http://127.0.0.1" in capsys.readouterr().out and len(engine.calls) == count
    assert run([*given, "--name", "b", "--set", "shift=20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["check"]["rows"] == 10
    assert run([*given, "--header", "X-Mine"]) == 1
    assert "--header X-Mine: give a name and a value" in capsys.readouterr().err
