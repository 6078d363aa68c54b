"""Blends in other programs: sums of forms, and lines, curves and trees that become one."""

import re
import shutil
from importlib.util import find_spec

import numpy as np
import pytest

import hingerank as hr
from hingerank.export.formats import refusal
from hingerank.export.forms import Affine, Form, Outline, Shapes, Sum, Trees, with_surfaces
from hingerank.export.sums import summed
from hingerank.features.curves import Curves

pytest.importorskip("lightgbm")
LINE, SCALED = hr.RankSVM(C=0.1, scale="standard"), hr.RankSVM(C=0.1, scale="query-minmax")
CURVES, TREES = hr.AdditiveRankSVM(n_knots=5, C=0.1), hr.LightGBMRanker(8, min_child_samples=3)
BLENDS = {
    "line and trees": ([LINE, TREES], (Affine, Trees)),
    "line, curves and trees": ([LINE, CURVES, TREES], (Shapes, Trees)),
    "curves of logarithms and trees": ([hr.AdditiveRankSVM(n_knots=4, C=0.1, scale="log"), TREES], (Shapes, Trees)),
    "line of quantiles and curves": ([hr.RankSVM(C=0.1, scale="quantile"), CURVES], (Affine, Shapes)),
    "waves and trees": ([hr.FourierRankSVM(6, gamma=0.5, C=0.1), TREES], None),
    "kernels and a line": ([hr.NystroemRankSVM(6, gamma=0.5, C=0.1), LINE], None),
    "surfaces and a line": ([hr.AdditiveRankSVM(n_knots=4, C=0.1, interactions=[(0, 1)]), LINE], (Shapes,)),
    "within queries": ([SCALED, hr.RankSVM(scale="query-standard"), CURVES], (Affine, Affine, Shapes)),
    "two of trees": ([TREES, hr.LightGBMRanker(3, min_child_samples=3)], (Trees,)),
    "two lines": ([LINE, hr.RankSVM(C=1e-3, scale="standard")], (Affine,)),
    "line and curves": ([LINE, CURVES, hr.AdditiveRankSVM(n_knots=3, C=1.0)], (Shapes,)),
}
TOOLS = {"c": shutil.which("cc"), "javascript": shutil.which("node"), "onnx": find_spec("onnxruntime")}


@pytest.fixture(scope="module")
def data():
    made = hr.make_letor(20, (8, 14), n_features=4, seed=5, dtype="float64")
    return hr.RankingData(10 * made.X, made.y, made.qid)


@pytest.fixture(scope="module")
def blends(data):
    return {name: hr.Blend(members, folds=2).fit(data) for name, (members, _) in BLENDS.items()}


@pytest.mark.parametrize("name", BLENDS)
def test_lines_curves_and_trees_become_one(name, blends):
    kinds = BLENDS[name][1]
    form = blends[name]._form()
    if kinds is not None:
        assert tuple(type(part.body) for part in form.parts) == kinds
    assert isinstance(form.body, Sum) == (len(form.parts) > 1)


@pytest.mark.filterwarnings("ignore:.*negative")
@pytest.mark.parametrize("to", ["python", "c", "javascript", "sql", "onnx", "vespa", "pmml", "solr", "opensearch"])
@pytest.mark.parametrize("name", BLENDS)
def test_exports_score_as_the_blend_does(name, to, blends, data, tmp_path):
    """Each export is run by `check` on the data; those that cannot be say why, and name formats that can."""
    if not TOOLS.get(to, True):
        pytest.skip(f"nothing runs {to} here")
    blend, kinds = blends[name], [part.kind for part in blends[name]._form().parts]
    within = "within" in name
    able = len(kinds) == 1 or to in ("python", "c", "javascript", "sql", "onnx", "vespa")
    able &= not (within and to not in ("sql", "onnx"))
    able &= not (to in ("solr", "opensearch") and kinds[0] not in ("linear", "trees"))
    able &= not (to == "pmml" and kinds[0] not in ("linear", "curves", "trees"))
    if not able:
        with pytest.raises(hr.ExportError, match=r"cannot carry .*formats that can: .*sql"):
            blend.export(tmp_path / "model/", to)
        return
    found = blend.export(tmp_path / "model/", to, check=data)
    assert found.check["rows"] == data.n_rows and found.check["relative_to_largest_score"] < 1e-4
    assert found.check["reordered_queries"] == 0


def test_a_line_with_trees_says_why_solr_cannot_run_it(blends, tmp_path):
    with pytest.raises(hr.ExportError, match="a line or a curve is not an exact sum of trees"):
        blends["line and trees"].export(tmp_path / "model/", "solr")


def test_a_part_that_a_format_of_sums_cannot_carry_is_named():
    line, trees, odd = Outline("linear"), Outline("trees"), Outline("zero-trees")
    in_queries = Outline("linear", "query-minmax")
    for to, parts, words in [
        ("vespa", [line, odd], "vespa cannot carry trees that count zeros as missing values, a part of this Blend; "),
        ("c", [in_queries, trees], "c sees one row at a time and cannot carry a linear model on features .* within"),
        ("vespa", [in_queries, trees], "the sum of a linear model on features that are scaled by 'query-minmax' and t"),
        ("pmml", [line, Outline("linear", "log")], "the sum of a linear model and a linear model on features .*'log'"),
    ]:
        assert re.search(words, refusal(to, parts, "Blend")), refusal(to, parts, "Blend")


def test_names_of_the_other_program_reach_every_part(blends, data, tmp_path):
    blends["line and trees"].export(tmp_path / "m.sql", "sql", features={"f1": "title"}, check=data)
    assert '"title"' in (tmp_path / "m.sql").read_text() and '"f1"' not in (tmp_path / "m.sql").read_text()


def test_a_sum_of_curves_and_lines_is_exact_beyond_all_knots():
    rng = np.random.default_rng(0)
    one = Curves(np.array([0.0, 1.0, 3.0, -1.0]), rng.normal(size=4), np.array([0, 3, 4]), rng.normal(size=2))
    two = Curves(np.array([0.5, 4.0, 0.0, 2.0]), rng.normal(size=4), np.array([0, 2, 4]), rng.normal(size=2))
    line = Affine(rng.normal(size=2), 0.7)

    def curves(own):
        return Form("ab", with_surfaces(own, []))

    form = summed(["a", "b"], [(2.0, curves(one)), (0.5, curves(two)), (1.5, Form("ab", line))])
    X = rng.uniform(-9, 9, (200, 2))
    expected = 2 * one.scores(X) + 0.5 * two.scores(X) + 1.5 * (X @ line.weights + 0.7)
    np.testing.assert_allclose(form.body.curves.scores(X), expected, atol=1e-12)


def test_lines_and_curves_are_one_additive_ranker(data, tmp_path):
    blend = hr.Blend([LINE, CURVES], "stack").fit(data)
    one = blend.additive(data)
    assert isinstance(one, hr.AdditiveRankSVM) and len(one.curves_) == 4 and one.deviations_.min() >= 0
    apart = one.predict(data) - blend.predict(data)
    assert np.ptp(apart) < 1e-9 * np.ptp(blend.predict(data))  # but for a constant
    parts = blend.explain(data).contributions
    centred = np.concatenate([parts[data.qid == q] - parts[data.qid == q].mean(axis=0) for q in np.unique(data.qid)])
    np.testing.assert_allclose(one.deviations_, np.sqrt((centred**2).mean(axis=0)), rtol=1e-9)
    mixed = np.random.default_rng(0).permutation(data.n_rows)  # queries whose rows do not lie together
    np.testing.assert_allclose(blend.additive(data.X[mixed], data.qid[mixed]).deviations_, one.deviations_, rtol=1e-9)
    back = hr.load(one.save(tmp_path))
    assert np.array_equal(back.predict(data), one.predict(data))
    with pytest.raises(ValueError, match="not one sum of curves"):
        hr.Blend([LINE, TREES], folds=2).fit(data).additive(data)


@pytest.mark.parametrize("other", [("minmax", hr.RankSVM), ("maxabs", hr.RankSVM), ("standard", hr.AdditiveRankSVM)])
def test_a_blend_of_columns_far_from_zero_is_one_model(other, tmp_path):
    """Timestamps: neither scaling is folded into weights, and one takes the place of the other."""
    rng = np.random.default_rng(6)
    Z, qid = rng.standard_normal((200, 2)), np.arange(200) % 10
    X, y = Z * [10, 1] + [1.7e12, 0], np.digitize(Z @ [1.0, 0.5], [-0.5, 0.5]).astype(float)
    rows = hr.RankingData(X, y, qid)
    blend = hr.Blend([other[1](scale=other[0]), hr.RankSVM(scale="standard", C=0.1)]).fit(rows)
    found = blend.export(tmp_path / "m.pmml", "pmml", check=rows).check
    scores = blend.predict(rows)
    assert found["largest_difference"] < 1e-7 * np.ptp(scores)
    assert blend.additive(rows).score(X, y, qid) == pytest.approx(blend.score(X, y, qid), abs=1e-3)
