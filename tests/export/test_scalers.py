"""Every scaler, in every ranker that exports, in every format: the ranker's own scores, or a refusal naming who can.

What a format sees of a ranker is its form: a body and a scaling. So every ranker's forms are held against its scores
with every scaler, in one program, and one ranker for each kind of body goes through all formats with every scaler.
"""

import json
import subprocess
import warnings

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.scaling import SCALERS
from hingerank.export import code
from hingerank.export.exporting import written
from hingerank.export.formats import ANYHOW, FORMATS
from hingerank.export.forms import KINDS, largest_below, of_columns, scaling_kind
from hingerank.export.lucene import LUCENE
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class

RNG = np.random.default_rng(0)
ROWS = 60
X = np.column_stack(
    (
        np.floor(np.expm1(RNG.exponential(1.2, ROWS))),  # counts with a long tail, many of them 0
        RNG.choice([-1.0, 0.0, 0.0, 0.0, 2.5], ROWS),  # values that many rows share, the least and the largest too
        RNG.normal(0, 1e-7, ROWS),  # tiny
        RNG.normal(5, 2, ROWS),
    )
)
QID = np.repeat(np.arange(6), 10)
Y = np.clip(np.round(np.log1p(X[:, 0]) / 2 + X[:, 1] / 2 + X[:, 2] * 1e6 + RNG.normal(0, 0.5, ROWS)), 0, 3)
BEYOND = np.vstack((X, 1.3 * X[::5], -X[::7], X[::6] + 1e-8, np.zeros((1, 4))))  # and outside of what was learnt from
QUERY = np.sort(np.arange(len(BEYOND)) % 6)
SMALL = {"n_estimators": 5, "n_components": 8, "n_knots": 5, "min_child_samples": 2, "max_iter": 40}
BODIES = {
    "linear": lambda scale: hr.RankSVM(scale=scale, C=0.1),
    "offset": lambda scale: hr.CRR(scale=scale, C=0.1),
    "rbf": lambda scale: hr.NystroemRankSVM(scale=scale, n_components=8, gamma=0.5, C=0.1),
    "polynomial": lambda scale: hr.KernelRankSVM(scale=scale, kernel="polynomial", degree=2, gamma=0.1, C=0.01),
    "waves": lambda scale: hr.FourierRankSVM(scale=scale, n_components=8, gamma=0.5, C=0.1),
    "curves": lambda scale: hr.AdditiveRankSVM(scale=scale, n_knots=5, C=0.1),
    "surfaces": lambda scale: hr.AdditiveRankSVM(scale=scale, n_knots=4, C=0.1, interactions=[(0, 1), (1, 3)]),
    "steps": lambda scale: hr.RankBoost(scale=scale, max_iter=6),
    "trees": lambda scale: hr.LightGBMRanker(scale=scale, n_estimators=4, num_leaves=6, min_child_samples=2),
}
CLOSE = 1e-7  # squares of counts cancel
IN_PROCESS = [to for to in FORMATS if to not in ("c", "javascript")]


def fitted(ranker):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small, and not all converge
        return ranker.fit(X, Y, QID)


def scores_of(ranker, to, folder, **options):
    """The scores that the export's own consumer gives, and the ranker's."""
    form, _, contents = written(ranker._form(), to, "R", {}, dict(FORMATS[to].options) | options)
    folder.mkdir(exist_ok=True)
    files = [folder / name for name in FORMATS[to].files]
    for path, content in zip(files, contents, strict=True):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    files.append(folder / "examples.json")
    files[-1].write_text(json.dumps({"statement": FORMATS[to].options}))
    consumer = next(each for each in FORMATS[to].consumers if each.present())
    return consumer.run(files, form, BEYOND, QUERY), ranker.predict(BEYOND, QUERY)


def difference(found, expected):
    """The largest, relative to the largest score."""
    return np.abs(found - expected).max() / np.abs(expected).max()


def equal(ranker, to, folder):
    """Whether the consumer's scores are the ranker's, of rows in single precision where the format has them so."""
    found, expected = scores_of(ranker, to, folder)
    mapped = to == "vespa" and ranker._form().kind == "mapped"
    if to == "vespa" and ranker._form().scaled == "query-minmax":  # constant columns give one number to all of a query
        found = found - np.array([(found - expected)[q == QUERY].mean() for q in QUERY])
    if mapped or to in LUCENE:
        rounded = ranker.predict(BEYOND.astype(np.float32).astype(np.float64), QUERY)
        expected = np.clip(found, np.minimum(expected, rounded), np.maximum(expected, rounded))
    return difference(found, expected) < (0.02 if mapped else 1e-5 if to in LUCENE else CLOSE)


def runs(to):
    """Whether something here runs a format; a test of a format that nothing here runs is skipped."""
    if not any(consumer.present() for consumer in FORMATS[to].consumers):
        pytest.skip(f"nothing here runs {to}")
    if to in ("onnx", "vespa"):
        pytest.importorskip("onnx", reason="onnx is not installed")
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    return True


def test_every_scaler_is_a_scaling_that_exports_know():
    for name in SCALERS:
        assert scaling_kind(name) in ("none", *ANYHOW), f"let exports write {name}"


@pytest.mark.parametrize("name", RANKERS)
def test_forms_of_every_ranker_score_as_it_does(name, tmp_path):
    """In one program, SQL, which carries all kinds of forms."""
    kind = ranker_class(name)
    if not issubclass(kind, BaseRanker) or "scale" not in kind().get_params():
        return  # personal and diverse rankers, whose exports have tests of their own
    if name == "xgboost":
        pytest.importorskip("xgboost", reason="XGBoost is not installed")
    for scale in SCALERS:
        ranker = kind(scale=scale)
        ranker.set_params(**{key: value for key, value in SMALL.items() if key in ranker.get_params()})
        try:
            form = fitted(ranker)._form()
        except hr.ExportError as error:
            assert "has no form" in str(error)
            return
        assert type(form.body) in KINDS and form.scaled in {"none", "columns", *SCALERS}
        gap = difference(*scores_of(ranker, "sql", tmp_path))
        assert gap < (1e-6 if name == "xgboost" else CLOSE), (scale, gap)


@pytest.mark.parametrize("scale", SCALERS)
@pytest.mark.parametrize("body", BODIES)
def test_every_format_carries_every_scaler_or_names_who_can(tmp_path, body, scale):
    ranker = fitted(BODIES[body](scale))
    tried, carried, named = [*filter(runs, IN_PROCESS)], set(), set()
    for to in tried:
        try:
            assert equal(ranker, to, tmp_path / to), to
            carried.add(to)
        except hr.ExportError as error:
            able = str(error).partition("formats that can: ")[2].split(", ")
            assert able and set(able) <= set(FORMATS)
            named.update(able)
    assert named & {*tried} <= carried


@pytest.mark.parametrize("to", FORMATS)
def test_what_a_format_says_of_scalers_is_what_it_does(to):
    """The table of the documentation: linear models and trees with logarithms and with quantiles."""
    engines = LUCENE
    for scale in ("log", "quantile"):
        ranker = fitted(hr.RankSVM(scale=scale, C=0.1))
        if to in engines:
            with pytest.raises(hr.ExportError, match=f"{to} cannot carry a linear model on .* {scale!r}; formats that"):
                written(ranker._form(), to, "RankSVM", {}, FORMATS[to].options)
        else:
            assert written(ranker._form(), to, "RankSVM", {}, FORMATS[to].options)[2][0]
        trees = fitted(hr.LightGBMRanker(scale=scale, n_estimators=3, min_child_samples=2))
        assert written(trees._form(), to, "LightGBMRanker", {}, FORMATS[to].options)[2][0]


WITH_SCALING = [  # every loop of the code, and every scaling before it
    *((body, scale) for body in ("linear", "rbf", "waves", "curves", "surfaces") for scale in ("log", "quantile")),
    ("rbf", "standard"), ("polynomial", "minmax"), ("polynomial", "quantile"), ("trees", "quantile"),
]  # fmt: skip


def test_javascript_scores_every_body_with_every_scaling(tmp_path):
    """All of them in one process."""
    if not FORMATS["javascript"].consumers[0].present():
        pytest.skip("node is not installed")
    expected = []
    for k, (body, scale) in enumerate(WITH_SCALING):
        ranker = fitted(BODIES[body](scale))
        text = written(ranker._form(), "javascript", "R", {}, {})[2][0]
        (tmp_path / f"m{k}.js").write_text(text)
        expected.append(ranker.predict(BEYOND, QUERY))
    lines = "const rows = JSON.parse(require('fs').readFileSync(0)); const all = [];"
    lines += f"for (let k = 0; k < {len(expected)}; k++) all.push(rows.map(require('{tmp_path}/m' + k + '.js').score));"
    lines += "process.stdout.write(JSON.stringify(all));"
    given = json.dumps(BEYOND.tolist())
    told = subprocess.run(["node", "-e", lines], input=given, capture_output=True, text=True, check=True).stdout
    for (body, scale), found, own in zip(WITH_SCALING, json.loads(told), expected, strict=True):
        assert difference(np.array(found), own) < CLOSE, (body, scale)


def test_c_scores_every_body_with_every_scaling(tmp_path):
    """All of them in one library."""
    import ctypes

    compiler = code.compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    expected = []
    for k, (body, scale) in enumerate(WITH_SCALING):
        ranker = fitted(BODIES[body](scale))
        (tmp_path / f"m{k}.c").write_text(written(ranker._form(), "c", "R", {}, {})[2][0])
        names = "".join(f"#define {name} {name}_{k}\n" for name in ("score", "FEATURES", "N_FEATURES"))
        (tmp_path / f"part{k}.c").write_text(f'{names}#include "m{k}.c"\n')
        expected.append(ranker.predict(BEYOND, QUERY))
    library = tmp_path / "all.so"
    command = [compiler, "-O0", "-std=c99", "-Wall", "-Werror", "-Wno-unused", "-shared", "-fPIC", "-o", library]
    subprocess.run([*command, *sorted(tmp_path.glob("part*.c")), "-lm"], check=True)
    loaded, pointer = ctypes.CDLL(str(library)), ctypes.POINTER(ctypes.c_double)
    rows = np.ascontiguousarray(BEYOND)
    for k, (body, scale) in enumerate(WITH_SCALING):
        score = loaded[f"score_{k}"]
        score.restype, score.argtypes = ctypes.c_double, [pointer]
        found = np.array([score(row.ctypes.data_as(pointer)) for row in rows])
        assert difference(found, expected[k]) < CLOSE, (body, scale)


@pytest.mark.parametrize("to", ["python", "c", "javascript", "sql", "onnx"])
@pytest.mark.parametrize("scale", ["standard", "log", "quantile"])
def test_zeros_that_are_missing_are_zeros_after_scaling(tmp_path, to, scale):
    runs(to)
    holes = np.where(np.random.default_rng(1).random(BEYOND.shape) < 0.2, np.nan, BEYOND)
    holes[::9, 3] = X[:, 3].mean()
    params = {"zero_as_missing": True, "use_missing": True}
    ranker = fitted(hr.LightGBMRanker(scale=scale, n_estimators=6, num_leaves=6, min_child_samples=2, params=params))
    done = ranker.export(tmp_path / "model.x", to)
    consumer = next(each for each in FORMATS[to].consumers if each.present())
    found = consumer.run(done.files, ranker._form(), holes, QUERY)
    assert np.abs(found - ranker.predict(holes)).max() < 1e-12
    with pytest.raises(hr.ExportError, match="sql"):
        ranker.export(tmp_path / "p", "pmml")


@pytest.mark.parametrize("scale", ["minmax", "log", "quantile"])
def test_thresholds_fold_through_any_scaling(scale):
    """What a scaled row goes left of, the row goes left of, to the last bit; where places jump, too."""
    scaling = fitted(hr.RankSVM(scale=scale))._form().scaling
    column = np.repeat(np.arange(4), 50)
    scaled = of_columns(scaling, column)
    number = np.concatenate((RNG.choice(scaling.transform(X)[:, 0], 100), RNG.random(100)))
    last = largest_below(number, scaled)
    assert (scaled(last) <= number).all()
    with np.errstate(over="ignore"):
        above = scaled(np.nextafter(last, np.inf))
    assert ((above > number) | (last == np.finfo(float).max)).all()


@pytest.mark.parametrize("scale", ["standard", "log", "query-minmax"])
@pytest.mark.parametrize("cls", [hr.RankSVM, hr.NystroemRankSVM, hr.FourierRankSVM])
def test_onnx_computes_a_single_column_in_double_precision(tmp_path, cls, scale):
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    X = 10 * np.random.default_rng(0).random((60, 1))
    data = hr.RankingData(X, np.floor(X[:, 0] / 3), np.arange(60) // 10)
    ranker = cls(C=0.1, scale=scale, **({} if cls is hr.RankSVM else {"n_components": 8, "gamma": 0.3})).fit(data)
    assert ranker.export(tmp_path / "model.onnx", "onnx", check=data).check["relative_to_largest_score"] < 1e-12
