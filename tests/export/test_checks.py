"""An export that does not score as the ranker does is not written, whoever finds it out, and no code is ever run."""

import json
import os
import re
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli.app import run
from hingerank.export import exporting
from hingerank.export.exporting import refuse_differences
from hingerank.export.formats import FORMATS

DATA = hr.make_letor(n_queries=6, n_features=4, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return hr.RankSVM(C=0.1, scale="standard").fit(DATA)


def runs(to):
    if not any(consumer.present() for consumer in FORMATS[to].consumers):
        pytest.skip(f"nothing here runs {to}")
    if to == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.fixture
def broken(monkeypatch):
    """break_(format): its writer gives two features each other's weights."""

    def break_(to):
        def write(form, about, **options):
            weights = form.body.weights.copy()
            weights[:2] = weights[1::-1]
            return FORMATS_BEFORE[to].write(replace(form, body=form.body._replace(weights=weights)), about, **options)

        monkeypatch.setitem(exporting.FORMATS, to, FORMATS_BEFORE[to]._replace(write=write))

    return break_


FORMATS_BEFORE = dict(FORMATS)


def listed(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("to", FORMATS)
def test_a_wrong_export_is_refused_and_nothing_is_touched(tmp_path, broken, to, checked, fitted):
    runs(to)
    options = {"shift": 50.0} if "shift" in FORMATS[to].options else {}
    fitted.export(tmp_path / "there", to, check=DATA, **options)
    before = listed(tmp_path)
    broken(to)
    for target in ("there", "new", "deep/er/"):  # a slash says that it is a folder
        with pytest.raises(hr.ExportError, match=r"not written: .* rows differently from the ranker.*row \d+ of query"):
            fitted.export(f"{tmp_path}/{target}", to, check=DATA if checked else None, **options)
    assert listed(tmp_path) == before and {path.name for path in tmp_path.iterdir()} <= {
        "there", "there.examples.json",
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:the features differ in scale")
def test_a_kernel_that_loses_digits_is_named(tmp_path):
    """The distances within two groups vanish beside that between them, in the ranker but not in the export."""
    X = np.random.default_rng(0).normal(size=(60, 3)) + 1e9 * np.outer(np.arange(60) % 2, [1, 0, 0])
    data = hr.RankingData(X, np.arange(60.0) % 3, np.arange(60) // 10)
    ranker = hr.NystroemRankSVM(n_components=10, gamma=0.5, C=1.0, random_state=0).fit(data)
    with pytest.raises(hr.ExportError, match="width that its values lose digits: fit with scale='standard'"):
        ranker.export(tmp_path / "model.py", "python", check=data)
    ranker.set_params(scale="standard").fit(data).export(tmp_path / "model.py", "python", check=data)


def test_exports_of_one_stem_have_examples_of_their_own(tmp_path, fitted):
    (tmp_path / "model.examples.json").write_text("[]")  # as if another program had written it
    names = ["model.examples.json", "model.py.examples.json", "model.examples.json", "model.py.examples.json"]
    for to, suffix, name in zip(["sql", "python"] * 2, [".sql", ".py"] * 2, names, strict=True):
        done = fitted.export(tmp_path / f"model{suffix}", to)
        assert [path.name for path in done.files] == [f"model{suffix}", name]
        assert json.loads(done.files[1].read_text())["to"] == to
    assert len(list(tmp_path.iterdir())) == 4
    (tmp_path / "model.examples.json").unlink()
    assert fitted.export(tmp_path / "model.py", "python").files[1].name == "model.py.examples.json"


def test_the_command_line_fails_where_a_check_fails(tmp_path, broken, capsys, fitted):
    hr.write(DATA, tmp_path / "data.txt")
    fitted.save(tmp_path / "model.safetensors")
    (tmp_path / "m.sql").write_text("what was there")
    broken("sql")
    given = ["export", tmp_path / "model.safetensors", "--to", "sql", "-o", tmp_path / "m.sql", "--force"]
    for more in (["--check", tmp_path / "data.txt"], []):
        assert run([*map(str, [*given, *more])]) == 1
        told = re.sub(r"\s+", " ", capsys.readouterr().err)
        assert "sql, run by sqlite, scores" in told and re.search(r"row \d+ of query \S+: \S+, not \S+", told)
        assert (tmp_path / "m.sql").read_text() == "what was there" and not list(tmp_path.glob("*.examples.json"))


def test_an_export_is_written_untried_where_nothing_runs_it(tmp_path, monkeypatch, fitted):
    absent = tuple(consumer._replace(present=lambda: False) for consumer in FORMATS["python"].consumers)
    monkeypatch.setitem(exporting.FORMATS, "python", FORMATS["python"]._replace(consumers=absent))
    assert fitted.export(tmp_path / "m.py", "python").files[0].exists()
    with pytest.raises(hr.ExportError, match="nothing here can run"):
        fitted.export(tmp_path / "n.py", "python", check=DATA)
    assert not (tmp_path / "n.py").exists()


def test_an_export_that_does_not_run_is_refused_unless_another_program_runs_it(tmp_path, monkeypatch, fitted):
    def write(form, about, **options):
        return "this is no statement"

    monkeypatch.setitem(exporting.FORMATS, "sql", FORMATS["sql"]._replace(write=write))
    with pytest.raises(hr.ExportError, match=r"does not run: sqlite says .*syntax error"):
        fitted.export(tmp_path / "m.sql", "sql")
    assert not list(tmp_path.iterdir())

    def fails(*given):
        raise OSError("too many columns")

    limited = (
        FORMATS_BEFORE["sql"].consumers[0]._replace(name="limited", run=fails),
        FORMATS_BEFORE["sql"].consumers[0],
    )
    monkeypatch.setitem(exporting.FORMATS, "sql", FORMATS_BEFORE["sql"]._replace(consumers=limited))
    assert fitted.export(tmp_path / "m.sql", "sql", check=DATA).check["consumer"] == "sqlite"


def test_differences_are_judged_within_queries_and_by_precision():
    qid, expected = np.array([0, 0, 0, 1, 1, 1]), np.array([1.0, 2.0, 3.5, 5.0, 4.1, 3.3])

    def judged(scores, single=False, rounded=expected, expected=expected):
        refuse_differences(expected, rounded, scores, qid, single, "it", qid)

    judged(expected + np.where(qid == 0, 7, -2))  # a constant for each query moves no row
    little, much = np.array([0, 0, 1e-3, 0, 0, 0]), np.array([0, 0.5, 0, 0, 0, 0])
    judged(expected + little, single=True)
    with pytest.raises(hr.ExportError, match=r"it scores 1 of 6 rows .* row 3 of query 0: 3.501, not 3.5$"):
        judged(expected + little)
    judged(expected + much, single=True, rounded=expected + much)
    halves = np.round(expected * 2) / 2  # which single precision holds, as XGBoost's scores are held
    judged(halves + little, rounded=halves, expected=halves)
    with pytest.raises(hr.ExportError, match="double precision: python"):
        judged(expected + much, single=True)


@pytest.mark.parametrize("to", FORMATS)
def test_numbers_that_are_not_finite_are_refused(tmp_path, to):
    ranker = hr.RankSVM(C=0.1, scale="standard").fit(DATA)
    for value in (np.nan, np.inf):
        ranker.coef_ = np.array([1.0, value, 0.0, 0.0])
        with pytest.raises(hr.ExportError, match="weights have numbers that are not finite"):
            ranker.export(tmp_path / "m", to)
    ranker.coef_ = np.ones(4)
    ranker.scaler_.width_ = np.array([1.0, 1e-320, 1.0, 1.0])  # its reciprocal is infinite
    with pytest.raises(hr.ExportError, match="not finite"):
        ranker.export(tmp_path / "m", to)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", ["solr", "elasticsearch", "opensearch"])
def test_numbers_beyond_single_precision_are_refused_by_engines(tmp_path, to, fitted):
    ranker = hr.RankSVM(C=0.1).fit(DATA)
    ranker.coef_ = ranker.coef_ * 1e45
    with pytest.raises(hr.ExportError, match="beyond this engine's single precision"):
        ranker.export(tmp_path / "m", to)
    with pytest.raises(hr.ExportError, match="shift must be a finite number"):
        fitted.export(tmp_path / "m", to, shift=np.inf)


def test_vectors_that_are_not_finite_are_refused(tmp_path):
    ranker = hr.JointRanker().fit(np.eye(2), ["a", "a"], [0, 1], [1, 2])
    ranker.coef_ = ranker.coef_ * np.nan
    with pytest.raises(hr.ExportError, match="not finite"):
        ranker.export(tmp_path / "v", "vectors", items=np.eye(2))


def test_an_expression_of_the_mapping_is_never_run(tmp_path, fitted):
    """It is Vespa's to compute: a check takes the feature's value from the rows."""
    trap = tmp_path / "trap"
    found = "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
    nasty = f"({found}.__init__.__globals__['system']('touch {trap}') + x0)"  # as eval would run it
    (tmp_path / "names.json").write_text(json.dumps({"f1": {"expression": nasty}, "f2": {"expression": "bm25(t) + 1"}}))
    hr.write(DATA, tmp_path / "data.txt")
    fitted.save(tmp_path / "model.safetensors")
    given = [tmp_path / "model.safetensors", "--to", "vespa", "-o", tmp_path / "v", "--check", tmp_path / "data.txt"]
    assert run([*map(str, ["export", *given, "--features", tmp_path / "names.json"])]) == 0
    assert not os.path.exists(trap)
    text = (tmp_path / "v" / "model.profile").read_text()
    assert f"expression: {nasty}\n" in text and "expression: bm25(t) + 1\n" in text and "* feature_2" in text


@pytest.mark.parametrize("text", ["a }\n}", "a # b", "}{", "{", "", "a\nb"])
def test_an_expression_that_would_end_its_function_is_refused(tmp_path, text, fitted):
    with pytest.raises(hr.ExportError, match="the expression of the feature 'f1' must be one line"):
        fitted.export(tmp_path / "v", "vespa", features={"f1": {"expression": text}})


def test_databases_are_closed_also_where_a_statement_fails(tmp_path, monkeypatch, fitted):
    opened, connect = [], sqlite3.connect

    class Watched(sqlite3.Connection):
        closed = False

        def close(self):
            self.closed = True
            super().close()

    def watch(*arguments):
        opened.append(connect(*arguments, factory=Watched))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", watch)
    done = fitted.export(tmp_path / "m.sql", "sql", check=DATA)
    (tmp_path / "m.sql").write_text("SELECT nonsense")
    consumer = next(consumer for consumer in FORMATS["sql"].consumers if consumer.name == "sqlite")
    with pytest.raises(sqlite3.Error):
        consumer.run(done.files, fitted._form(), DATA.X, np.zeros(DATA.n_rows))
    assert len(opened) > 1 and all(connection.closed for connection in opened)


@pytest.mark.parametrize(
    ("to", "options", "problem"),
    [
        ("solr", {"shift": "much"}, r"shift must be a finite number, or 'auto', not 'much'"),
        ("solr", {"define": "no"}, "define must be True or False, not 'no'"),
        ("solr", {"missing": "no"}, "missing must be True or False, not 'no'"),
        ("opensearch", {"ranklib": 1}, "ranklib must be True or False, not 1"),
        ("solr", {"name": ""}, "name must be a text that is not empty, not ''"),
        ("sql", {"table": ""}, "table must be a text that is not empty"),
        ("sql", {"key": None}, "key must be a text that is not empty, not None"),
        ("vespa", {"rerank": "many"}, "rerank must be a whole number, not 'many'"),
        ("vespa", {"rerank": 10.5}, "rerank must be a whole number, not 10.5"),
        ("vespa", {"rerank": np.inf}, "rerank must be a whole number, not inf"),
        ("vespa", {"name": 3}, "name must be letters, digits, - and _, and begin with no digit, not '3'"),
        ("vespa", {"phase": "first"}, "phase must be 'first-phase' or 'second-phase', not 'first'"),
        ("vespa", {"rerank": 0}, "rerank must be a positive number of rows, not 0"),
        ("solr", {"shift": "auto"}, "pass check=data, or give a number"),
    ],
)
def test_options_of_another_type_are_refused(tmp_path, to, options, problem, fitted):
    with pytest.raises(hr.ExportError, match=problem):
        fitted.export(tmp_path / "m/", to, **options)
    assert not list(tmp_path.iterdir())


def test_a_number_may_be_a_name(tmp_path, fitted):
    """As the command line reads --set name=7."""
    done = fitted.export(tmp_path / "m/", "solr", name=7, store=8)
    assert json.loads(done.files[0].read_text())["name"] == "7" and done.options["store"] == "8"
    assert '"5"' in fitted.export(tmp_path / "m.sql", "sql", table=5, key=6).files[0].read_text()


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        ({"f1": None}, "the mapping calls 'f1' None: give a text"),
        ({"f1": ["title"]}, r"the mapping calls 'f1' \['title'\]: give a text"),
        ({"f1": {"name": None}}, "the mapping calls 'f1' None: give a text"),
        ({0: "title"}, "the mapping names 0, which the model has no feature for"),
        ({"f1": {"nome": "title"}}, r"the mapping of 'f1' has nome; it may have name, .*expression"),
    ],
)
def test_a_mapping_of_anything_but_names_is_refused(tmp_path, features, problem, fitted):
    for to in ("solr", "python"):
        with pytest.raises(hr.ExportError, match=problem):
            fitted.export(tmp_path / "m/", to, features=features)


@pytest.mark.parametrize("to", ["python", "solr"])
def test_rows_to_check_have_the_features_of_fit_in_their_order(tmp_path, to):
    names = ["a", "b", "c", "d"]
    ranker = hr.RankSVM(C=0.1).fit(hr.RankingData(DATA.X, DATA.y, DATA.qid, feature_names=names))
    turned = hr.RankingData(DATA.X[:, ::-1].copy(), DATA.y, DATA.qid, feature_names=names[::-1])
    options = {"shift": "auto"} if to == "solr" else {}
    with pytest.raises(ValueError, match="those seen in fit but in another order"):
        ranker.export(tmp_path / "m/", to, check=turned, **options)
    with pytest.raises(hr.ExportError, match=r"check must be RankingData, as hr\.read returns it, not ndarray"):
        ranker.export(tmp_path / "m/", to, check=DATA.X)
    assert not list(tmp_path.iterdir())


def test_settings_that_are_options_of_the_command_are_refused(tmp_path, monkeypatch, capsys, fitted):
    monkeypatch.chdir(tmp_path)
    fitted.save("model/")
    for command in (
        ["export", "--to", "solr", "-o", "m/"],
        ["upload", "--to", "solr", "--url", "http://localhost:9/c"],
    ):
        assert run([command[0], "model/", *command[1:], "--set", "features=x"]) == 1
        assert "--set features: use --features" in capsys.readouterr().err
    assert run(["upload", "model/", "--to", "solr", "--url", "http://localhost:9/c", "--set", "name=x"]) == 1
    assert "--set name: use --name" in capsys.readouterr().err


def test_a_table_to_check_may_name_its_columns(tmp_path, monkeypatch, capsys, fitted):
    monkeypatch.chdir(tmp_path)
    fitted.save("model/")
    lines = (f"{q},{y:g},{','.join(map(str, x))}" for x, y, q in zip(DATA.X.tolist(), DATA.y, DATA.qid))
    (tmp_path / "t.csv").write_text("\n".join(["search,grade,f1,f2,f3,f4", *lines]))
    given = ["export", "model/", "--to", "python", "-o", "m.py", "--label", "grade", "--qid", "search"]
    assert run([*given, "--check", "t.csv"]) == 0
    assert "largest difference" in capsys.readouterr().out
    assert run([*given, "--force"]) == 1
    assert "--label does nothing without --check" in capsys.readouterr().err
