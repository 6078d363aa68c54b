"""Features that a search engine has are named and never defined anew, unless that is asked for."""

import json
import warnings

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli.app import run

ENGINES = ["solr", "elasticsearch", "opensearch"]
NAMES = ["bm25", "edismax", "recency"]


@pytest.fixture(scope="module")
def ranker():
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) * [10, 20, 1]
    qid = np.repeat(np.arange(6), 10)
    grades = np.digitize(X @ [0.1, 0.05, 1.0], [1.2, 1.8]).astype(float)
    data = hr.RankingData.from_arrays(X, grades, qid, feature_names=NAMES)
    return hr.RankSVM(C=0.1, scale="standard").fit(data)


def listed(to, names):
    """An engine's own answers, with a feature that the model does not use first."""
    if to == "solr":
        entries = [{"name": n, "class": "org.apache.solr.ltr.feature.SolrFeature", "params": {}} for n in names]
        store = {"responseHeader": {"status": 0}, "features": [entry | {"store": "shop"} for entry in entries]}
        return [entries, store]
    features = [{"name": n, "params": ["keywords"], "template": {"match": {"t": "{{keywords}}"}}} for n in names]
    sent = {"featureset": {"name": "shop", "features": features}}
    answered = {
        "_index": ".ltrstore",
        "_id": "featureset-shop",
        "_source": {"name": "shop", "type": "featureset", **sent},
    }
    return [sent, answered]


def exported(ranker, folder, to, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ranker.export(folder, to, **options)


@pytest.mark.parametrize("to", ENGINES)
def test_the_model_alone_is_written(ranker, tmp_path, to):
    done = exported(ranker, tmp_path / "out", to)
    assert [path.name for path in done.files] == ["model.json", "model.examples.json"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["model.examples.json", "model.json"]
    assert "The features are the engine's own, by these names: bm25, edismax, recency." in done.notes


@pytest.mark.parametrize("to", ENGINES)
def test_definitions_are_written_where_they_are_asked_for(ranker, tmp_path, to):
    done = exported(ranker, tmp_path / "out", to, define=True)
    found = json.loads(done.files[1].read_text())
    features = found if to == "solr" else found["featureset"]["features"]
    assert done.files[1].name == ("features.json" if to == "solr" else "featureset.json")
    assert [feature["name"] for feature in features] == NAMES and not any("own" in note for note in done.notes)
    key = "class" if to == "solr" else "template"
    with pytest.raises(hr.ExportError, match="the mapping defines 'bm25': pass define=True"):
        ranker.export(tmp_path / "other", to, features={"bm25": {key: "anything"}})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("to", ENGINES)
def test_the_engines_own_list_is_held_against_the_model(ranker, tmp_path, to):
    for number, features in enumerate(listed(to, ["unused", *NAMES[::-1]])):
        done = exported(ranker, tmp_path / str(number), to, features=features)
        assert [path.name for path in done.files] == ["model.json", "model.examples.json"]
        if to == "solr":
            assert json.loads(done.files[0].read_text())["store"] == ("_DEFAULT_", "shop")[number]
    for features in listed(to, ["unused", "bm25"]):
        with pytest.raises(
            hr.ExportError, match=r"lacks edismax, recency, which the model uses \(it has unused, bm25\)"
        ):
            ranker.export(tmp_path / "none", to, features=features)
        done = exported(ranker, tmp_path / "some", to, features=features, define=True)
        found = json.loads(done.files[1].read_text())
        entries = found if to == "solr" else found["featureset"]["features"]
        assert [entry["name"] for entry in entries] == ["edismax", "recency"]
    assert not (tmp_path / "none").exists()


def test_ranklib_counts_by_the_places_in_the_engines_set(ranker, tmp_path):
    with pytest.raises(hr.ExportError, match="numbers features by their order in the feature set"):
        ranker.export(tmp_path / "m", "opensearch", ranklib=True)
    order = ["unused", "recency", "bm25", "more", "edismax"]
    done = exported(ranker, tmp_path / "m", "opensearch", ranklib=True, features=listed("opensearch", order)[1])
    text = json.loads(done.files[0].read_text())["model"]["model"]["definition"].splitlines()[-1]
    assert [pair.partition(":")[0] for pair in text.split()] == ["0", "3", "5", "2"]


def test_lists_that_are_none(ranker, tmp_path):
    with pytest.raises(hr.ExportError, match="sql has none: give a mapping"):
        ranker.export(tmp_path / "m.sql", "sql", features=listed("solr", NAMES)[0])
    with pytest.raises(hr.ExportError, match="every entry of an engine's list has a name"):
        ranker.export(tmp_path / "m", "solr", features=["bm25"])
    with pytest.raises(hr.ExportError, match="features must map names"):
        ranker.export(tmp_path / "m", "solr", features="bm25")
    assert not list(tmp_path.iterdir())
    named = {"bm25": "features", "edismax": "featureset", "recency": "_source"}  # words of the lists as names
    assert exported(ranker, tmp_path / "m", "solr", features=named).files


def test_the_command_line_takes_lists_and_defines(ranker, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ranker.save("model.safetensors")
    (tmp_path / "store.json").write_text(json.dumps(listed("solr", ["unused", *NAMES])[1]))
    given = ["export", "model.safetensors", "--to", "solr"]
    assert run([*given, "-o", "a/", "--features", "store.json"]) == 0
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["model.examples.json", "model.json"]
    assert run([*given, "-o", "b/", "--define"]) == 0 and (tmp_path / "b/features.json").exists()
    assert run([*given[:2], "--to", "sql", "-o", "m.sql", "--define"]) == 1
    assert "sql has no option define" in capsys.readouterr().err
    (tmp_path / "store.json").write_text("3")
    assert run([*given, "-o", "a/", "--features", "store.json", "--force"]) == 1
    assert "must be an object of feature names" in capsys.readouterr().err
