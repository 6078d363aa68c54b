"""What `tune` takes for a target is what `export` then writes there: targets x rankers x their tables of settings."""

import warnings

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

import hingerank as hr
from hingerank.cli.app import run
from hingerank.data.missing import WAYS
from hingerank.data.scaling import SCALERS
from hingerank.export.exporting import written
from hingerank.export.formats import FORMATS, WORDS, carries
from hingerank.export.forms import FOLDED, KINDS, ExportError, Outline, scaling_kind
from hingerank.features.fourier import FourierMap
from hingerank.features.kernels import KERNELS
from hingerank.features.nystroem import NystroemMap
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.registry import RANKERS, ranker_class
from hingerank.search.serving import run_together, why_not
from hingerank.search.settings import AROUND, CONTEXTS, SCALES, STAGES

RNG = np.random.default_rng(0)
X = np.column_stack((RNG.exponential(1.2, 40), RNG.normal(5, 2, 40), RNG.choice([0.0, 0.0, 1.0, 2.0], 40)))
QID = np.repeat(np.arange(4), 10)
Y = np.clip(np.round(X[:, 0] + X[:, 2] / 2), 0, 3)
SMALL = {"n_estimators": 3, "n_components": 6, "n_knots": 4, "min_child_samples": 2, "max_iter": 10}
NAMES = [name for name in RANKERS if issubclass(ranker_class(name), BaseRanker)]
OTHERS = {
    "interactions": (hr.AdditiveRankSVM(n_knots=4), {"interactions": [(0, 1)]}),
    "no interactions": (hr.AdditiveRankSVM(n_knots=4), {"interactions": 0}),
    "waves": (hr.RankSVM(), {"features": FourierMap(6, gamma=0.5)}),
    "landmarks": (hr.RankSVM(), {"features": NystroemMap(6, gamma=0.5)}),
    "products": (hr.RankSVM(), {"features": PolynomialFeatures(2)}),
    "zeros": (hr.LightGBMRanker(n_estimators=3, min_child_samples=2), {"params": {"zero_as_missing": True}}),
    "zeros too": (hr.GBRank(n_estimators=3, min_child_samples=2), {"params": {"zero_as_missing": "true"}}),
    **{f"line, missing {how}": (hr.RankSVM(), {"missing": how}) for how in WAYS},
    **{f"curves, missing {how}": (hr.AdditiveRankSVM(n_knots=4), {"missing": how}) for how in WAYS},
    **{f"steps, missing {how}": (hr.RankBoost(max_iter=10), {"missing": how, "scale": "log"}) for how in WAYS},
    **{
        f"blend, missing {a} and {b}": (hr.Blend(folds=2), {"members": [hr.RankSVM(missing=a), hr.RankNet(missing=b)]})
        for a in WAYS
        for b in WAYS
    },
    "blend of trees": (hr.Blend(folds=2), {"members": [hr.RankBoost(max_iter=5, missing="median")] * 2}),
    **{f"kernel {k}": (hr.KernelRankSVM(gamma=0.1), {"kernel": k}) for k in (*KERNELS, "poly")},
    **{f"landmarks of {k}": (hr.NystroemRankSVM(6, gamma=0.1), {"kernel": k}) for k in KERNELS},
}


def small(name):
    kind = ranker_class(name)
    return kind(**{key: value for key, value in SMALL.items() if key in kind().get_params()})


def fitted(ranker, setting):
    pytest.importorskip(getattr(ranker, "requires", None) or "numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small, and not all converge
        return ranker.__class__(**ranker.get_params() | setting).fit(X, Y, qid=QID)


def agree(ranker, setting):
    """Whether every target takes the fitted ranker or refuses it as `tune` thinks before the fit."""
    try:
        form = fitted(ranker, setting)._form()
    except ExportError:
        assert all(why_not(ranker, setting, to) for to in FORMATS), setting
        return
    for to in FORMATS:
        why = why_not(ranker, setting, to)
        try:
            written(form, to, type(ranker).__name__, {}, FORMATS[to].options)
        except ExportError as error:
            assert str(error) == why, (to, setting)
        else:
            assert not why, (to, setting)


@pytest.mark.parametrize("name", NAMES)
def test_a_target_takes_what_tune_thinks_it_takes(name):
    ranker = small(name)
    scales = [scale for scale in SCALERS if scale != "none"] if "scale" in ranker.get_params() else []
    for scale in [*scales, None]:
        agree(ranker, {"scale": scale} if scales else {})


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_the_table_of_settings_has_the_kind_it_says(name):
    ranker = small(name)
    for stage in STAGES[name]:
        for parameter, values in stage.items():
            for value in [] if any(values is open for open in (SCALES, AROUND, CONTEXTS)) else values:
                setting = {parameter: value}
                try:
                    found = fitted(ranker, setting)._form().kind
                except ExportError:
                    found = None
                assert type(ranker)(**ranker.get_params() | setting)._form_kind == found, setting


@pytest.mark.parametrize("case", OTHERS)
def test_so_do_settings_that_are_in_no_table(case):
    agree(*OTHERS[case])


def test_every_kind_and_scaling_has_its_place_in_the_tables():
    kinds = {*KINDS.values(), "zero-trees", "surfaces"}
    assert set(WORDS) == set(FOLDED) == kinds
    scaled = {scaling_kind(name) for name in SCALERS} - {"none"}
    assert all({*f.scales} <= scaled and {*f.carries} <= kinds for f in FORMATS.values())
    by_query = [Outline("linear", how) for how in scaled if how.startswith("query-")]
    within = {to for to in FORMATS for outline in by_query if carries(to, [outline])}
    assert within == {to for to in FORMATS if FORMATS[to].within}


@pytest.fixture(scope="module")
def sized():
    """Queries whose features are on scales of their own, so that scaling within queries is best by far."""
    rng = np.random.default_rng(3)
    queries, size = 40, 12
    inner = rng.random((queries * size, 3))
    units = np.repeat(10.0 ** rng.uniform(-3, 3, (queries, 3)), size, axis=0)
    grades = np.digitize(inner @ [2.0, 1.0, 0.5] + 0.2 * rng.random(len(inner)), [1.2, 1.8, 2.4])
    return hr.RankingData.from_arrays(inner * units, grades.astype(float), np.repeat(np.arange(queries), size))


GRID = {"C": [0.01], "scale": [None, *(scale for scale in SCALERS if scale != "none")]}


@pytest.mark.parametrize("to", FORMATS)
def test_export_after_tune_works_and_the_cost_is_told(sized, to, tmp_path):
    ranker = hr.tune("rank-svm", sized, folds=2, params=GRID, serve=to)
    ranker.export(tmp_path / "out/", to=to)
    found = ranker.tuning_
    assert len(found.trials) == 9 and found.serve == to
    best = max(found.trials, key=lambda t: t.mean)
    assert best.setting["scale"] == "query-minmax" == found.free["setting"]["scale"]
    cost, error = found.serve_cost
    assert cost == pytest.approx(best.mean - found.score, abs=1e-12)
    if FORMATS[to].within:
        assert cost == 0 and "costs nothing" in str(found) and found.best == best.setting
    else:
        assert cost > 0.02 and cost > 2 * error and not best.served
        assert f"running in {to} costs {cost:.4f} ± {error:.4f}" in str(found)
        assert "onnx (with the rows' query ids" in str(found) and "sql (by window" in str(found)
        assert f"not in {to}" in [row[-1] for row in found.table()[1]]
    ranker.save(tmp_path / "model")
    assert hr.load(tmp_path / "model").tuning_ == found
    old = {k: v for k, v in found.to_dict().items() if k not in ("serve", "free", "advice")}
    assert Tuning.from_dict(old).serve is None  # files of older versions


def test_only_what_runs_there_is_tried_where_that_is_asked(sized):
    ranker = hr.tune("rank-svm", sized, folds=2, params=GRID, serve="es", serve_only=True)
    assert ranker.tuning_.serve == "elasticsearch" and ranker.tuning_.serve_cost is None
    assert [t.setting["scale"] for t in ranker.tuning_.trials] == [None, "minmax", "standard", "maxabs", "deviation"]
    assert "the cost of this limit is not known" in str(ranker.tuning_)


def test_several_rankers_of_which_one_cannot_run_there(sized):
    params = {"scale": "query-minmax", "C": [0.01]}
    with pytest.raises(ValueError, match="leaves nothing to try for rank-svm: solr sees one row at a time"):
        hr.tune("rank-svm", sized, params=params, serve="solr")
    with pytest.raises(ValueError, match="leaves nothing to try for additive-rank-svm: solr cannot carry curves"):
        hr.tune(["rank-svm", "additive-rank-svm"], sized, params={"C": 0.1}, serve="solr", serve_only=True)
    ranker = hr.tune(["rank-svm", "additive-rank-svm"], sized, folds=2, params={"C": [0.01]}, serve="solr")
    assert isinstance(ranker, hr.RankSVM) and {t.ranker for t in ranker.tuning_.trials} == {
        "rank-svm", "additive-rank-svm",
    }  # fmt: skip


def test_a_ranker_that_cannot_run_there_may_have_settings_that_stop_early():
    train = hr.make_shop().rows.split(test_size=0.25, seed=0)[0]
    ranker = hr.tune(["rank-svm", "additive-rank-svm"], train, folds=3, params={"C": [1e-6, 0.1]}, serve="solr")
    curves = [trial for trial in ranker.tuning_.trials if trial.ranker == "additive-rank-svm"]
    assert any("stopped after 2" in (trial.problem or "") for trial in curves)
    assert not any(trial.served for trial in curves) and ranker.tuning_.ranker == "rank-svm"


PAIRS = {
    "two lines": ["rank-svm", "ranknet"],
    "line and curves": ["rank-svm", "additive-rank-svm"],
    "line and steps": ["rank-svm", hr.RankBoost(max_iter=5)],
    "two of steps": [hr.RankBoost(max_iter=5), hr.RankBoost(max_iter=3)],
}


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_blend_for_a_target_is_refused_before_any_fit_or_written(pair, to, sized, tmp_path):
    given = {"scale": ["standard", "log"]}
    fits = []
    try:
        blend = hr.tune(
            PAIRS[pair], sized, folds=2, params=given, serve=to, blend=True, progress=lambda *said: fits.append(said)
        )
    except ValueError as error:
        assert f"serve={to!r} leaves" in str(error) and not fits
        alone = carries(to, {"two lines": [Outline("linear")], "two of steps": [Outline("trees")]}.get(pair, []))
        assert pair not in ("two lines", "two of steps") or not alone
    else:
        blend.export(tmp_path / "out/", to=to)


@pytest.fixture(scope="module")
def holey():
    """Rows with missing values, of which a line and a net choose different fillings."""
    made = hr.make_letor(16, 8, n_features=3, seed=7, dtype="float64")
    missing = np.random.default_rng(7).random(made.X.shape) < 0.3
    return hr.RankingData(np.where(missing, np.nan, made.X), made.y, made.qid)


FILLED = {"missing": ["median", "zero"], "C": [0.01], "scale": "standard"}


@pytest.mark.filterwarnings("ignore:.*negative")
@pytest.mark.parametrize("to", FORMATS)
def test_members_that_fill_missing_values_are_chosen_to_run_together(to, holey, tmp_path):
    """Each member runs there with either filling, and a sum of lines that are filled differently does not."""
    how = {"folds": 2, "params": FILLED, "widen": False, "blend": True}
    blend = hr.tune(["rank-svm", "ranknet"], holey, serve=to, **how)
    blend.export(tmp_path / "out/", to=to, check=holey)
    free = hr.tune(["rank-svm", "ranknet"], holey, **how)
    ways = [[setting["missing"] for setting in each.tuning_.members.values()] for each in (free, blend)]
    assert ways[0] == ["median", "zero"]
    assert ways[1] == (["zero", "zero"] if to in ("solr", "elasticsearch", "opensearch", "pmml") else ways[0])


def test_members_that_cannot_run_together_are_said_at_the_end(holey):
    line, other = hr.RankSVM(missing="zero", C=0.01), hr.RankNet(missing="median", C=0.01)
    apart = [Trial(name, {}, [0.5], 0.5, 0.1, 0.0) for name in ("rank-svm", "ranknet")]
    tried = [(line, apart[:1]), (other, apart[1:])]
    assert run_together("sql", tried, apart) == apart
    with pytest.raises(ValueError, match="that could be fitted run there together: pmml cannot carry the sum"):
        run_together("pmml", tried, apart)


def test_a_blend_that_no_export_carries_is_told(sized):
    given = {"context": [None, "rank"], "scale": "standard", "C": 0.01}
    pair = ["rank-svm", hr.RankSVM(loss="logistic")]
    blend = hr.tune(pair, sized, folds=2, params=given, blend=True)
    assert blend.members_[0].context == "rank"
    words = "no export supports this blend: to run it elsewhere, tune with serve= one of "
    assert words + ", ".join(FORMATS)[:6] in str(blend.tuning_)
    with pytest.raises(ExportError):
        blend.export("nowhere/", to="python")
    served = hr.tune(pair, sized, folds=2, params=given, blend=True, serve="solr")
    assert served.members_[0].context is None and "no export" not in str(served.tuning_)
    params = given | {"context": None}
    assert hr.tune(pair, sized, folds=2, params=params, blend=True).tuning_.advice == ""


def test_a_blend_of_which_one_could_be_fitted_says_what_the_others_met(holey):
    with pytest.raises(ValueError, match=r"only rankboost could be fitted.* first error of rank-svm is: .*missing="):
        hr.tune(
            [hr.RankBoost(max_iter=5, missing="zero"), "rank-svm"], holey, folds=2, params={"max_iter": 5}, blend=True
        )


@pytest.mark.parametrize("asked", ["a call", "the command"])
def test_a_choice_that_no_export_carries_is_told(sized, asked, tmp_path, capsys):
    """Ranks within queries stay here: a result says so, and which targets to tune for."""
    ranker = hr.tune("rank-svm", sized, folds=2, params={"context": [None, "rank"], "scale": "standard", "C": 0.01})
    assert ranker.context == "rank" and not any(not why_not(ranker, {}, to) for to in FORMATS)
    words = f"no export supports this setting: to run it elsewhere, tune with serve= one of {', '.join(FORMATS)[:6]}"
    if asked == "the command":
        hr.write(sized, tmp_path / "rows.txt")
        given = ["tune", str(tmp_path / "rows.txt"), "--folds", "2", "-o", f"{tmp_path}/m/"]
        assert run([*given, *(f"--set={v}" for v in ("context=none,rank", "scale=standard", "C=0.01"))]) == 0
        told = capsys.readouterr()
        assert words[:40] in " ".join((told.out + told.err).split())
        return
    assert words in str(ranker.tuning_)
    served = hr.tune("rank-svm", sized, folds=2, params={"context": [None, "rank"], "C": 0.01}, serve="sql")
    assert served.context is None and "no export" not in str(served.tuning_)
    plain = hr.tune("rank-svm", sized, folds=2, params={"C": [0.01, 0.1], "scale": "standard"})
    assert plain.tuning_.advice == ""


def test_targets_that_are_none(sized):
    with pytest.raises(ValueError, match="did you mean 'solr'"):
        hr.tune("rank-svm", sized, serve="sorl")
    with pytest.raises(ValueError, match="serve is for rankers of rows"):
        hr.tune("rank-svm", sized, serve="vectors")
    with pytest.raises(ValueError, match="serve_only needs a target"):
        hr.tune("rank-svm", sized, serve_only=True)


def test_the_command_line_serves(sized, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hr.write(sized, "rows.txt")
    chosen = ["tune", "rows.txt", "--folds", "2", "--set", "C=0.01", "--set", "scale=standard,query-minmax"]
    assert run([*chosen, "--serve", "es", "-o", "model/"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "running in elasticsearch costs" in said and "formats that run it" in said
    assert run(["export", "model/", "--to", "es", "-o", "there/"]) == 0
    assert run([*chosen, "--serve-only", "-o", "other/"]) == 1
    assert "--serve-only needs a target" in capsys.readouterr().err
