"""Exports in the programs they are for: JPMML, RankLib, Vespa's expressions, PostgreSQL, onnxruntime, node, C, …"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from hingerank.export.exporting import compare, rows_of, scores_by
from hingerank.export.formats import FORMATS


def close(ranker, rows, scores, tolerance=1e-12):
    X, _, qid = rows_of(rows)
    found = compare(scores_by(ranker, X, qid), scores, qid)
    assert found["relative_to_largest_score"] < tolerance and found["reordered_queries"] == 0, found
    return found


@pytest.mark.parametrize("name", ["standard", "sparse", "lightgbm", "steps", "curves"])
def test_jpmml(java, scored, fitted, rows, tmp_path, name):
    ranker = fitted(name)
    path = ranker.export(tmp_path / "model.pmml", "pmml").files[0]
    names = [f"f{j + 1}" for j in range(rows.n_features)]
    close(ranker, rows, scored([*java("pmml", "PmmlScores"), path], names, rows.X))


@pytest.mark.parametrize("name", ["standard", "sparse", "lightgbm", "steps"])
def test_ranklib(java, scored, fitted, rows, tmp_path, name):
    """The parser and the scorer that the plugins of Elasticsearch and OpenSearch hand model/ranklib to."""
    ranker = fitted(name)
    done = ranker.export(tmp_path / "m", "opensearch", ranklib=True, shift="auto", check=rows, define=True)
    (tmp_path / "model").write_text(json.loads(done.files[0].read_text("utf-8"))["model"]["model"]["definition"])
    used = [int(f["name"][1:]) - 1 for f in json.loads(done.files[1].read_text("utf-8"))["featureset"]["features"]]
    scores = scored([*java("ranklib", "RankLibScores"), tmp_path / "model"], list(map(str, used)), rows.X[:, used])
    assert (scores >= 0).all()
    close(ranker, rows, scores - done.options["shift"], 1e-6)


@pytest.mark.parametrize("name", ["standard", "sparse", "lightgbm", "xgboost", "steps", "curves", "query-minmax"])
def test_vespa_profiles(java, scored, fitted, rows, tmp_path, name):
    """Vespa's parser of schemas reads the profile, its expressions score rows, its global phase scales queries."""
    ranker, (X, _, qid) = fitted(name), rows_of(rows)
    profile = ranker.export(tmp_path / "v", "vespa").files[0]
    names = ["query", *(f"attribute(f{j + 1})" for j in range(rows.n_features))]
    scores = scored([*java("vespa", "VespaScores"), profile], names, np.column_stack((qid, X)))
    if name == "query-minmax":  # a constant column is 0.5 there and 0 here: one number for each query
        scores = scores - np.array([(scores - ranker.predict(X, qid))[qid == q].mean() for q in qid])
    close(ranker, rows, scores, 1e-6 if name == "xgboost" else 1e-12)  # XGBoost itself adds in single precision


@pytest.mark.parametrize("name", ["nystroem", "fourier"])
def test_vespa_hands_rows_to_an_onnx_model(java, scored, fitted, rows, tmp_path, name):
    """The profile gives the model the row; what the model makes of it is tried by onnxruntime, which Vespa runs."""
    ranker, (X, _, qid) = fitted(name), rows_of(rows)
    done = ranker.export(tmp_path / "v", "vespa")
    names = ["query", *(f"attribute(f{j + 1})" for j in range(rows.n_features))]
    command = [*java("vespa", "VespaScores"), done.files[0], "ranker_features"]
    given = scored(command, names, np.column_stack((qid, X))).reshape(X.shape)
    assert (given == X).all()
    close(ranker, rows, FORMATS["onnx"].consumers[0].run(done.files[1:], ranker._form(), given, qid), 1e-5)


@pytest.mark.parametrize("folder", ["vespa", "global"])
def test_vespa_runs_the_hybrid_profiles_of_the_page(java, scored, tmp_path, monkeypatch, folder):
    """docs/hybrid.md: features are BM25, closeness and an attribute; a profile that inherits has the query's vector."""
    page = (Path(__file__).parents[2] / "docs" / "hybrid.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "hybrid.md", "exec"), names)
    (heir,) = re.findall(r"^```text\n(rank-profile.*?)^```", page, re.MULTILINE | re.DOTALL)
    profile = tmp_path / "both.profile"
    profile.write_text((tmp_path / folder / "model.profile").read_text("utf-8") + heir)
    ranker, data = names["best" if folder == "vespa" else "within"], names["test"]
    X, _, qid = rows_of(data)
    given = np.column_stack((qid, X[:, :2], np.expm1(X[:, 2])))
    columns = ["query", "bm25(title)", "closeness(field,embedding)", "attribute(popularity)"]
    scores = scored([*java("vespa", "VespaScores"), profile], columns, given)
    if folder == "global":  # a constant column is 0.5 there and 0 here: one number for each query
        scores = scores - np.array([(scores - scores_by(ranker, X, qid))[qid == q].mean() for q in qid])
    close(ranker, data, scores)


@pytest.fixture(scope="module")
def postgres():
    """psql(text) -> what a server of our own, on a socket in a folder, answers."""
    found = shutil.which("initdb")
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *([Path(found).parent] if found else [])]
    programs = next((place for place in places if (place / "initdb").exists()), None)
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="hingerank-pg-"))  # not below a folder that only its owner may enter
    owner = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        owner = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")

    def call(*command, **more):
        done = subprocess.run([*owner, *map(str, command)], capture_output=True, text=True, cwd="/", **more)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    call(programs / "initdb", "-D", folder / "data", "-A", "trust", "-U", "ranker")
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off -c max_stack_depth=6MB"
    call(programs / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-o", options, "-w", "start")
    client = programs / "psql" if (programs / "psql").exists() else shutil.which("psql")
    psql = [client, "-h", folder, "-U", "ranker", "-d", "postgres", "-q", "-At", "-v", "ON_ERROR_STOP=1"]
    yield lambda text: call(*psql, input=text)
    call(programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    "name",
    ["standard", "sparse", "lightgbm", "steps", "curves", "nystroem", "fourier", "query-minmax", "query-standard"],
)
def test_postgres(postgres, fitted, rows, tmp_path, name):
    ranker = fitted(name)
    statement = ranker.export(tmp_path / "model.sql", "sql").files[0].read_text("utf-8")
    X, _, qid = rows_of(rows)
    columns = ", ".join(f'"f{j + 1}" DOUBLE PRECISION' for j in range(X.shape[1]))
    lines = ["\t".join(map(repr, [q, k, *row])) for k, (q, row) in enumerate(zip(qid.tolist(), X.tolist()))]
    setup = f"DROP TABLE IF EXISTS documents; CREATE TABLE documents (qid INTEGER, docid INTEGER, {columns});\n"
    told = postgres(setup + "COPY documents FROM STDIN;\n" + "\n".join(lines) + "\n\\.\n" + statement + ";\n")
    found = np.array([line.split("|") for line in told.split()], np.float64)
    scores = np.empty(len(X))
    scores[found[:, 1].astype(int)] = found[:, 2]
    close(ranker, rows, scores)


@pytest.mark.parametrize("name", ["standard", "sparse", "lightgbm", "steps", "curves", "nystroem", "fourier"])
@pytest.mark.parametrize(("to", "number"), [("c", 0), ("javascript", 0), ("onnx", 0), ("sql", 0), ("sql", 1)])
def test_programs_at_hand(fitted, rows, tmp_path, name, to, number):
    consumer = FORMATS[to].consumers[number]
    if not consumer.present():
        pytest.skip(f"{consumer.name} is not installed")
    ranker, (X, _, qid) = fitted(name), rows_of(rows)
    close(ranker, rows, consumer.run(ranker.export(tmp_path / "model.x", to).files, ranker._form(), X, qid))
