"""Every format gives the ranker's own scores, in a program that runs it; what cannot be carried is refused."""

import json
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli.app import run
from hingerank.export.exporting import compare
from hingerank.export.formats import FORMATS
from hingerank.export.forms import largest_below, largest_single
from hingerank.export.lucene import SLACK, before_slack

DATA = hr.make_letor(n_queries=12, n_features=6, seed=3)
ANYWHERE = ["python", "c", "javascript", "sql", "onnx"]
MODELS = {
    "linear": lambda: hr.RankSVM(C=0.1),
    "standard": lambda: hr.RankSVM(C=0.1, scale="standard"),
    "minmax": lambda: hr.RankSVM(C=0.1, scale="minmax"),
    "intercept": lambda: hr.CRR(C=0.1, scale="maxabs"),
    "sparse": lambda: hr.FenchelRank(radius=1.0),
    "nystroem": lambda: hr.NystroemRankSVM(n_components=20, gamma=0.5, C=0.1, scale="standard"),
    "fourier": lambda: hr.FourierRankSVM(n_components=30, gamma=0.5, C=0.1, scale="standard"),
    "polynomial": lambda: hr.KernelRankSVM(kernel="polynomial", degree=2, gamma=0.1, C=0.01, scale="minmax"),
    "mapped-linear": lambda: hr.KernelRankSVM(kernel="linear", C=0.1),
    "steps": lambda: hr.RankBoost(max_iter=20),
    "curves": lambda: hr.AdditiveRankSVM(n_knots=6, C=0.1, smoothness=0.1),
    "scaled-curves": lambda: hr.AdditiveRankSVM(n_knots=6, C=0.1, smoothness=0.1, scale="minmax"),
    "few-curves": lambda: hr.AdditiveRankSVM(n_knots=4, C=0.1, sparsity=0.3),
    "surfaces": lambda: hr.AdditiveRankSVM(n_knots=6, C=0.1, smoothness=0.1, interactions=[(0, 1), (1, 3)]),
    "scaled-surfaces": lambda: hr.AdditiveRankSVM(n_knots=6, C=0.1, interactions=[(2, 0)], scale="standard"),
    "lightgbm": lambda: hr.LightGBMRanker(n_estimators=12, num_leaves=7, min_child_samples=3),
    "scaled-trees": lambda: hr.LightGBMRanker(n_estimators=12, num_leaves=7, min_child_samples=3, scale="standard"),
    "bags": lambda: hr.LightGBMRanker(n_estimators=5, num_leaves=7, min_child_samples=3, n_bags=3),
    "xgboost": lambda: hr.XGBoostRanker(n_estimators=12, max_depth=3),
}
PER_QUERY = {
    "query-minmax": lambda: hr.RankSVM(C=0.1, scale="query-minmax"),
    "query-standard": lambda: hr.RankSVM(C=0.1, scale="query-standard"),
    "query-nystroem": lambda: hr.NystroemRankSVM(n_components=15, gamma=0.5, C=0.1, scale="query-minmax"),
    "query-curves": lambda: hr.AdditiveRankSVM(n_knots=6, C=0.1, scale="query-minmax"),
    "query-surfaces": lambda: hr.AdditiveRankSVM(n_knots=6, C=0.1, interactions=[(0, 1)], scale="query-minmax"),
    "query-trees": lambda: hr.LightGBMRanker(n_estimators=9, num_leaves=7, min_child_samples=3, scale="query-minmax"),
}


@pytest.fixture(scope="module")
def fitted():
    made = {}

    def get(name):
        if name not in made:
            ranker = (MODELS | PER_QUERY)[name]()
            if "xgboost" in name:
                pytest.importorskip("xgboost", reason="XGBoost is not installed")
            made[name] = ranker.fit(DATA)
        return made[name]

    return get


def needs(to):
    if not any(consumer.present() for consumer in FORMATS[to].consumers):
        pytest.skip(f"nothing here runs {to}: {', '.join(consumer.name for consumer in FORMATS[to].consumers)}")
    if to == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed")


def tolerance(name):
    return 1e-6 if "xgboost" in name else 1e-12  # XGBoost adds its trees up in single precision


@pytest.mark.parametrize("to", ANYWHERE)
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_the_rankers_own(fitted, tmp_path, name, to):
    needs(to)
    done = fitted(name).export(tmp_path / "model.x", to, check=DATA)
    assert done.check["relative_to_largest_score"] < tolerance(name)
    assert done.check["reordered_queries"] == 0 and done.check["rows"] == DATA.n_rows


@pytest.mark.parametrize("to", ["sql", "onnx"])
@pytest.mark.parametrize("name", PER_QUERY)
def test_queries_are_scaled_where_the_format_sees_them(fitted, tmp_path, name, to):
    needs(to)
    done = fitted(name).export(tmp_path / "model.x", to, check=DATA)
    assert done.check["relative_to_largest_score"] < 1e-12 and done.check["reordered_queries"] == 0


@pytest.mark.parametrize("name", ["standard", "polynomial", "fourier", "lightgbm", "query-minmax", "query-standard"])
def test_duckdb_reads_the_same_statement(fitted, tmp_path, name):
    pytest.importorskip("duckdb", reason="DuckDB is not installed")
    ranker = fitted(name)
    done = ranker.export(tmp_path / "model.sql", "sql")
    X, qid = np.asarray(DATA.X, np.float64), np.unique(DATA.qid, return_inverse=True)[1]
    scores = FORMATS["sql"].consumers[1].run(done.files, ranker._form(), X, qid)
    assert np.abs(scores - ranker.predict(X, qid)).max() < 1e-12 * np.abs(scores).max()


@pytest.mark.parametrize("scale", ["query-minmax", "query-standard"])
def test_databases_scale_hundreds_of_columns_within_queries(tmp_path, scale):
    """SQLite allows 2,000 columns in a step, PostgreSQL 1,664."""
    X, qid = np.random.default_rng(0).random((20, 700)), np.arange(20) // 5
    ranker = hr.RankSVM(C=0.1, scale=scale).fit(X, X[:, 0] > 0.5, qid)
    files = ranker.export(tmp_path / "model.sql", "sql").files
    scores = FORMATS["sql"].consumers[0].run(files, ranker._form(), X, qid)
    assert np.abs(scores - ranker.predict(X, qid)).max() < 1e-12 * np.abs(scores).max()


@pytest.mark.parametrize("name", ["standard", "nystroem", "fourier", "polynomial", "surfaces", "query-minmax"])
def test_onnx_scores_no_rows(fitted, tmp_path, name):
    """A query may find nothing."""
    needs("onnx")
    path = fitted(name).export(tmp_path / "model.onnx", "onnx").files[0]
    found = FORMATS["onnx"].consumers[0].run([path], fitted(name)._form(), np.empty((0, 6)), np.empty(0))
    assert found.shape == (0,)


def test_python_scores_rows_far_from_all_landmarks(fitted, tmp_path):
    text = fitted("nystroem").export(tmp_path / "model.py", "python").files[0].read_text("utf-8")
    exec(text, made := {})
    assert made["score"]([1e200] * 6) == 0


@pytest.mark.parametrize("name", ["standard", "nystroem", "fourier", "lightgbm", "query-minmax"])
def test_onnx_in_single_precision_differs_little(fitted, tmp_path, name):
    needs("onnx")
    done = fitted(name).export(tmp_path / "model.onnx", "onnx", check=DATA, precision="float")
    assert 1e-10 < done.check["relative_to_largest_score"] < 1e-5


@pytest.mark.parametrize("to", ["python", "c", "javascript", "sql", "onnx"])
def test_missing_values_and_zeros_go_where_they_should(tmp_path, to):
    """LightGBM's trees with missing values, and with zeros that are missing."""
    needs(to)
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((400, 3)), 1)
    X[rng.random(X.shape) < 0.2] = 0.0
    y, qid = (X[:, 0] > 0.3) + (X[:, 1] == 0) + (X[:, 2] < -0.2), np.repeat(np.arange(20), 20)
    for zero in (False, True):
        params = {"zero_as_missing": zero, "use_missing": True}
        holes = np.where(rng.random(X.shape) < 0.1, np.nan, X)
        ranker = hr.LightGBMRanker(n_estimators=8, num_leaves=6, min_child_samples=3, params=params).fit(holes, y, qid)
        files = ranker.export(tmp_path / "model.x", to).files
        consumer = next(each for each in FORMATS[to].consumers if each.present())
        scores = consumer.run(files, ranker._form(), holes, qid)
        assert np.abs(scores - ranker.predict(holes)).max() < 1e-12


def test_refusals_name_formats_that_can(fitted, tmp_path):
    with pytest.raises(hr.ExportError, match=r"one row at a time .* formats that can: sql, onnx"):
        fitted("query-minmax").export(tmp_path / "m.c", "c")
    with pytest.raises(hr.ExportError, match=r"known ones are: .*python"):
        fitted("linear").export(tmp_path / "m", "cobol")
    with pytest.raises(hr.ExportError, match="has no option colour; its options: precision"):
        fitted("linear").export(tmp_path / "m", "onnx", colour=1)
    with pytest.raises(hr.ExportError, match="laplacian"):
        hr.KernelRankSVM(kernel="laplacian", gamma=1.0, C=0.1).fit(DATA).export(tmp_path / "m.py", "python")
    with pytest.raises(hr.ExportError, match=r"PolynomialFeatures\(\)\): use features='nystroem' or 'fourier'"):
        hr.RankSVM(C=0.1, features="polynomial").fit(DATA).export(tmp_path / "m.py", "python")
    with pytest.raises(hr.ExportError, match="has no form"):
        hr.MMR().fit(hr.make_diverse(n_queries=2, seed=0)).export(tmp_path / "m.py", "python")
    assert not list(tmp_path.iterdir())


def test_the_function_and_the_package_share_a_name(fitted, tmp_path):
    from hingerank.export.model_file import load

    assert load is hr.load and hr.export is sys.modules["hingerank.export"]
    assert hr.export(fitted("linear"), tmp_path / "m.py", to="python").files[0] == tmp_path / "m.py"


def test_names_travel(fitted, tmp_path):
    done = fitted("standard").export(tmp_path / "m.sql", "sql", features={"f2": 'the "second"'}, check=DATA)
    assert '"the ""second"""' in done.files[0].read_text() and done.check["reordered_queries"] == 0
    with pytest.raises(hr.ExportError, match="f99, which the model has no feature for"):
        fitted("standard").export(tmp_path / "n.sql", "sql", features={"f99": "x"})
    with pytest.raises(hr.ExportError, match="same name"):
        fitted("standard").export(tmp_path / "n.sql", "sql", features={"f2": "f1"})


@pytest.mark.parametrize("to", ANYWHERE)
@pytest.mark.parametrize("data", [None, DATA])
def test_the_line_beside_an_export_tests_it(fitted, tmp_path, to, data):
    needs(to)
    done = fitted("lightgbm").export(tmp_path / "it's a $HOME {model}.x", to, check=data)
    about = json.loads(done.files[-1].read_text())
    assert len(about["rows"]) == len(about["scores"]) == len(about["qid"]) >= 20 and len(set(about["scores"])) > 4
    line = about["test"].replace("python -c", f"{shlex.quote(sys.executable)} -c")
    told = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert float(told) < 1e-12


def test_the_command_line_exports_and_checks(fitted, tmp_path, capsys):
    hr.write(DATA, tmp_path / "data.txt")
    fitted("standard").save(tmp_path / "model.safetensors")
    (tmp_path / "names.json").write_text('{"f1": "title"}')
    given = [tmp_path / "model.safetensors", "--to", "sql", "-o", tmp_path / "m.sql", "--check", tmp_path / "data.txt"]
    assert (
        run([*map(str, ["export", *given, "--features", tmp_path / "names.json", "--set", "table=hits", "--json"])])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["check"]["reordered_queries"] == 0 and told["check"]["consumer"] == "sqlite"
    assert '"title"' in (tmp_path / "m.sql").read_text() and '"hits"' in (tmp_path / "m.sql").read_text()
    assert run(["export", *map(str, given), "--force"]) == 0
    assert "largest difference" in capsys.readouterr().out
    assert run(["export", str(given[0]), "--to", "nothing", "-o", "x"]) == 1
    assert "the known ones are" in capsys.readouterr().err


def test_compare_counts_reordered_queries_and_negatives():
    expected, qid = np.array([3.0, 2.0, 1.0, 5.0, 4.0]), np.array([0, 0, 0, 1, 1])
    found = compare(expected, np.array([3.0, 2.0, -1.0, 4.0, 4.5]), qid)
    assert found["reordered_queries"] == 1 and found["negative_scores"] == 1 and found["largest_difference"] == 2.0
    assert compare(expected, expected.copy(), qid)["reordered_queries"] == 0
    with pytest.raises(hr.ExportError, match="1 rows no finite score"):
        compare(expected, np.array([3.0, 2.0, np.nan, 4.0, 4.5]), qid)


def test_thresholds_land_on_the_last_number_that_goes_left():
    rng = np.random.default_rng(0)
    number, centre, width = rng.standard_normal(200), rng.standard_normal(200), 10.0 ** rng.uniform(-6, 6, 200)
    x = largest_below(number, lambda x: (x - centre) / width)
    assert ((x - centre) / width <= number).all()
    assert ((np.nextafter(x, np.inf) - centre) / width > number).all()
    single = largest_below(number.astype(np.float32).astype(float), np.float32)
    assert (single.astype(np.float32) == number.astype(np.float32)).all()
    assert (np.nextafter(single, np.inf).astype(np.float32) > number.astype(np.float32)).all()
    near = largest_single(number)
    assert near.dtype == np.float32 and (near <= number).all() and (np.nextafter(near, np.float32(9e9)) > number).all()


ENGINES = ["solr", "elasticsearch", "opensearch", "vespa", "pmml"]


@pytest.mark.filterwarnings("ignore:.*scores are negative")
@pytest.mark.parametrize("to", ENGINES)
@pytest.mark.parametrize("name", ["linear", "standard", "minmax", "intercept", "sparse", "steps", *list(MODELS)[-4:]])
def test_engines_score_as_the_ranker_does(fitted, tmp_path, name, to):
    done = fitted(name).export(tmp_path / to, to, check=DATA)
    single = to not in ("vespa", "pmml")
    assert done.check["relative_to_largest_score"] < (2e-6 if single or "xgboost" in name else 1e-12)
    assert done.check["reordered_queries"] <= (1 if single else 0)


@pytest.mark.parametrize("name", ["curves", "scaled-curves", "few-curves"])
def test_curves_go_where_expressions_can_say_them(fitted, tmp_path, name):
    for to in ("vespa", "pmml"):
        done = fitted(name).export(tmp_path / to, to, check=DATA)
        assert done.check["relative_to_largest_score"] < 1e-12 and done.check["reordered_queries"] == 0
    for to in ("solr", "elasticsearch", "opensearch"):
        with pytest.raises(
            hr.ExportError, match=r"cannot carry curves .* python, c, javascript, sql, onnx, vespa, pmml"
        ):
            fitted(name).export(tmp_path / "m", to)


@pytest.mark.parametrize("name", ["surfaces", "scaled-surfaces"])
def test_surfaces_go_where_products_can_be_said(fitted, tmp_path, name):
    ranker = fitted(name)
    assert all(surface.weight > 0 for surface in ranker.surfaces_)
    done = ranker.export(tmp_path / "vespa", "vespa", check=DATA)
    assert done.check["relative_to_largest_score"] < 1e-12 and done.check["reordered_queries"] == 0
    for to in ("solr", "elasticsearch", "opensearch", "pmml"):
        with pytest.raises(
            hr.ExportError, match=r"cannot carry curves with surfaces .* python, c, javascript, sql, onnx, vespa"
        ):
            ranker.export(tmp_path / "m", to)


@pytest.mark.parametrize("name", ["curves", "surfaces"])
def test_curves_and_surfaces_beyond_their_knots_are_exported_too(fitted, tmp_path, name):
    far = hr.RankingData(3.0 * np.asarray(DATA.X, np.float64) - 1.0, DATA.y, DATA.qid)
    for to in (*ANYWHERE, "vespa", *(["pmml"] if name == "curves" else [])):
        needs(to)
        done = fitted(name).export(tmp_path / (to if to == "vespa" else f"{to}.x"), to, check=far)
        assert done.check["relative_to_largest_score"] < 1e-12


def test_vespa_takes_kernels_as_onnx_and_scales_queries_in_the_global_phase(fitted, tmp_path):
    done = fitted("query-minmax").export(tmp_path / "query", "vespa", check=DATA)
    assert done.check["reordered_queries"] == 0 and "normalize_linear" in done.files[0].read_text()
    for to in ("solr", "opensearch", "pmml"):
        with pytest.raises(hr.ExportError, match="formats that can: sql, onnx, vespa"):
            fitted("query-minmax").export(tmp_path / "m", to)
        with pytest.raises(hr.ExportError, match=r"cannot carry a kernel .* formats that can: .*vespa"):
            fitted("nystroem").export(tmp_path / "m", to)
    needs("onnx")
    done = fitted("nystroem").export(tmp_path / "mapped", "vespa", check=DATA)
    assert done.check["relative_to_largest_score"] < 1e-5 and "onnx(hingerank).scores" in done.files[0].read_text()


@pytest.mark.parametrize("to", ["solr", "elasticsearch"])
@pytest.mark.parametrize("name", ["standard", "linear", "lightgbm"])
def test_a_shift_keeps_the_order_and_leaves_no_negatives(fitted, tmp_path, name, to):
    least = fitted(name).predict(DATA).min()
    if least < 0:
        with pytest.warns(UserWarning, match="scores are negative, which"):
            assert fitted(name).export(tmp_path / "a", to, check=DATA).check["negative_scores"] > 0
        with pytest.warns(UserWarning, match="scores are negative, which") as warned:
            fitted(name).export(tmp_path / "a", to, check=DATA, shift=0.25 * -least)
        enough = float(re.search(r"shift=(\S+) is enough", str(warned[0].message))[1])
        assert enough == pytest.approx(-least, rel=1e-4)  # with the shift that was given
    check = fitted(name).export(tmp_path / "b", to, check=DATA, shift=1.0 - min(0.0, least)).check
    assert check["negative_scores"] == 0 and check["reordered_queries"] == 0
    assert check["relative_to_largest_score"] < 2e-6


@pytest.mark.parametrize("to", ["solr", "opensearch"])
@pytest.mark.parametrize("name", ["standard", "linear", "lightgbm", "steps", "xgboost"])
def test_a_shift_is_found(fitted, tmp_path, name, to):
    """Enough for the rows of a check, and for any row at all where trees bound the scores."""
    done = fitted(name).export(tmp_path / "a", to, check=DATA, shift="auto")
    assert done.check["negative_scores"] == 0 and done.check["relative_to_largest_score"] < 2e-6
    scores = fitted(name).predict(DATA)
    assert -scores.min() <= done.options["shift"]
    if name in ("standard", "linear"):
        assert done.options["shift"] <= np.ptp(scores) / 2 - scores.min()
        with pytest.raises(hr.ExportError, match="pass check=data"):
            fitted(name).export(tmp_path / "b", to, shift="auto")
    else:
        assert fitted(name).export(tmp_path / "b", to, shift="auto").options["shift"] == done.options["shift"]
        far = np.random.default_rng(0).normal(0, 10, (500, DATA.n_features))
        assert (fitted(name).predict(far) + done.options["shift"] >= 0).all()


@pytest.mark.parametrize("name", ["standard", "minmax", "intercept", "sparse", "steps", "lightgbm", "bags"])
def test_ranklib_models_for_the_plugins(fitted, tmp_path, name):
    done = fitted(name).export(tmp_path / "m", "opensearch", ranklib=True, shift=30.0, check=DATA, define=True)
    assert done.check["relative_to_largest_score"] < 1e-6 and done.check["negative_scores"] == 0
    model = json.loads(done.files[0].read_text())["model"]["model"]
    first = "## LambdaMART" if name in ("steps", "lightgbm", "bags") else "## Linear Regression"
    assert model["type"] == "model/ranklib" and model["definition"].startswith(first)


def test_exports_of_columns_far_from_zero(tmp_path):
    """RankLib has no normalizers, so weights carry the scaling; rows made up for logarithms fit single precision."""
    rng = np.random.default_rng(0)
    X = np.column_stack((2.0**40 + 2.0**18 * rng.integers(0, 10, 200), rng.random(200)))  # singles
    far = hr.RankingData(X, (X[:, 0] > np.median(X[:, 0])).astype(float), np.arange(200) % 10)
    ranker = hr.RankSVM(C=0.1, scale="standard").fit(far)
    assert ranker._form().folded().scaling is not None
    done = ranker.export(tmp_path / "m", "opensearch", ranklib=True, define=True, shift="auto", check=far)
    assert done.check["relative_to_largest_score"] < 1e-8
    X = 1e12 + rng.integers(0, 1000, (200, 8))
    trees = hr.LightGBMRanker(n_estimators=9, min_child_samples=3, scale="log").fit(X, far.y, far.qid)
    assert trees.export(tmp_path / "trees", "solr").files


def test_ranklib_refuses_trees_whose_missing_values_are_no_zeros(tmp_path):
    X = np.asarray(DATA.X).copy()
    X[::3, 0] = np.nan
    X[:, 0] += 1  # so that a zero goes left of every threshold, and a missing value does not always
    ranker = hr.LightGBMRanker(n_estimators=9, num_leaves=7, min_child_samples=3).fit(X, DATA.y, DATA.qid)
    with pytest.raises(hr.ExportError, match="treats missing values as zeros"):
        ranker.export(tmp_path / "m", "opensearch", ranklib=True, define=True)


@pytest.mark.parametrize("factor", [1.0, 1e-5, 1e5])
def test_solr_lands_on_thresholds_in_spite_of_its_slack(tmp_path, factor):
    """Values that stand on thresholds themselves, in single precision."""
    X = (np.round(np.asarray(DATA.X), 2) * factor).astype(np.float32).astype(np.float64)
    ranker = hr.RankBoost(max_iter=40).fit(X, DATA.y, DATA.qid)
    ranker.thresholds_ = np.array(
        [X[abs(X[:, k] - t).argmin(), k] for k, t in zip(ranker.features_, ranker.thresholds_)]
    )
    rows = hr.RankingData(X, DATA.y, DATA.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check = ranker.export(tmp_path / "s", "solr", check=rows).check
    assert check["relative_to_largest_score"] < 1e-6


def test_features_that_single_precision_cannot_tell_apart_are_warned_of(tmp_path):
    """Timestamps in milliseconds within a second: engines see one number."""
    rng = np.random.default_rng(0)
    X, qid = rng.random((200, 1)), np.arange(200) % 10
    data = hr.RankingData(1.7e12 + 1000 * X, np.floor(3 * X[:, 0]), qid)
    ranker = hr.LightGBMRanker(n_estimators=5, min_child_samples=5).fit(data)
    with pytest.warns(UserWarning, match=r"rows get other scores because solr rounds features to single precision"):
        ranker.export(tmp_path / "s/", "solr", check=data, shift="auto")


def test_thresholds_below_solrs_slack_take_in_the_value_they_stand_on():
    """Sums with the slack are coarser there than the values: they are raised, but never from below 0 to 0."""
    limit = np.float32([-3.3e-7, -1.23e-8, 4.56e-9, 1e-35, -1e-35, 2.5])
    reached = before_slack(limit) + SLACK
    assert (reached[:4] >= limit[:4]).all() and (reached - limit < 2e-13).all() and reached[4] < 0 and reached[5] == 2.5
    assert before_slack(SLACK[None]) + SLACK == SLACK  # was sought one number after another, for minutes


def test_a_mapping_gives_engines_their_queries(fitted, tmp_path):
    solr = {
        "f1": {"name": "title", "class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": "{!field f=t}x"}}
    }
    done = fitted("standard").export(tmp_path / "solr", "solr", features=solr, define=True)
    first = json.loads(done.files[1].read_text())[0]
    assert first["name"] == "title" and first["params"] == {"q": "{!field f=t}x"} and "SolrFeature" in first["class"]
    plugin = {"f1": {"name": "title", "params": ["keywords"], "template": {"match": {"title": "{{keywords}}"}}}}
    done = fitted("standard").export(tmp_path / "es", "elasticsearch", features=plugin, define=True)
    first = json.loads(done.files[1].read_text())["featureset"]["features"][0]
    assert first["name"] == "title" and first["params"] == ["keywords"] and "match" in first["template"]
    model = json.loads(done.files[0].read_text())["model"]["model"]
    assert "title" in model["definition"] and "title" in model["feature_normalizers"]
    vespa = {"f1": {"name": "title", "expression": "bm25(title)"}}
    assert "bm25(title)" in fitted("standard").export(tmp_path / "v", "vespa", features=vespa).files[0].read_text()


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize(
    "ranker", [hr.PersonalRankSVM(rank=2, shared=True), hr.MeanVarianceRanker(), hr.JointRanker(), hr.SeparateRanker()]
)
def test_vectors_multiply_to_scores(tmp_path, ranker, kind):
    rng = np.random.default_rng(0)
    X, users, items = rng.standard_normal((20, 4)), np.repeat(["ann", "bob", "eve"], 12), rng.integers(0, 20, 36)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(X, users, items, rng.integers(1, 6, 36))
    done = ranker.export(tmp_path / "v", "vectors", items=X, kind=kind)
    U, V = read_vectors(tmp_path / "v")
    about = json.loads((tmp_path / "v" / "ids.json").read_text())
    assert about["users"] == ["ann", "bob", "eve"] and about["items"] == list(range(20)) and len(done.files) == 3
    for k, user in enumerate(about["users"]):
        assert np.abs(V @ U[k] - ranker.predict([user] * 20, X)).max() < 1e-12
    with pytest.raises(hr.ExportError, match=r"name a folder for them, as in .*/w/"):
        ranker.export(tmp_path / f"w.{kind}", "vectors", items=X, kind=kind)
    with pytest.raises(hr.ExportError, match="for each user: export it with to='vectors'"):
        ranker.export(tmp_path / "m.py", "python")
    for options, problem in {
        "item_ids": ([0] * 20, "several items have the id 0"), "table": ("t", "vectors have no option table"),
        "check": (DATA, "vectors have no option check"), "features": ({"f1": "a"}, "vectors have no option features"),
    }.items():  # fmt: skip
        with pytest.raises(hr.ExportError, match=problem[1]):
            ranker.export(tmp_path / "v", "vectors", items=X, **{options: problem[0]})


def read_vectors(folder):
    """The vectors of users and of items."""
    if (folder / "users.npy").exists():
        return np.load(folder / "users.npy"), np.load(folder / "items.npy")
    import pyarrow.parquet as pq

    tables = [pq.read_table(folder / f"{name}.parquet")["vector"].combine_chunks() for name in ("users", "items")]
    return [table.flatten().to_numpy().reshape(len(table), -1) for table in tables]


def test_only_personal_rankers_have_vectors(fitted, tmp_path):
    with pytest.raises(hr.ExportError, match=r"no user vectors; formats that can export it: python, c, .*onnx"):
        fitted("linear").export(tmp_path / "v", "vectors", items=np.zeros((1, 6)))
    with pytest.raises(hr.ExportError, match=r"export it: python, c, javascript, sql, onnx, vespa, pmml$"):
        fitted("curves").export(tmp_path / "v", "vectors", items=np.zeros((1, 6)))
    with pytest.raises(hr.ExportError, match="MMR has no form that another program could run"):
        hr.MMR().fit(hr.make_diverse(n_queries=2, seed=0)).export(tmp_path / "v", "vectors")
    with pytest.raises(hr.ExportError, match="items="):
        hr.JointRanker().fit(np.eye(2), ["a", "a"], [0, 1], [1, 2]).export(tmp_path / "v", "vectors")


def test_a_file_that_is_named_is_a_file(fitted, tmp_path):
    """Formats of several files write one of them for most models; where they need a folder, they say so."""
    linear, kernel = fitted("linear"), fitted("nystroem")
    for to, name in (("solr", "lamps.json"), ("opensearch", "v1.2.json"), ("vespa", "shop.profile")):
        done = linear.export(tmp_path / name, to)
        assert [path.name for path in done.files] == [name, f"{Path(name).stem}.examples.json"]
        assert (tmp_path / name).is_file()
        assert all(path.parent == tmp_path / "folder.v2" for path in linear.export(tmp_path / "folder.v2", to).files)
    for ranker, to, name, options in (
        (linear, "solr", "both.json", {"define": True}), (kernel, "vespa", "both.profile", {}),
    ):  # fmt: skip
        with pytest.raises(hr.ExportError, match=r"writes model\.\w+ and \w+\.\w+: name a folder for them, .*both/"):
            ranker.export(tmp_path / name, to, **options)
        assert not (tmp_path / name).exists()
        assert len(ranker.export(f"{tmp_path}/{name}/", to, **options).files) == 3  # a slash says that it is a folder
