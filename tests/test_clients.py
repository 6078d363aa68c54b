"""Libraries that people use rankers with. The page docs/clients.md has the recipes; heavy ones run here."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold

import hingerank as hr

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "clients.md").read_text("utf-8")
START = re.search(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
HEAVY = {
    re.search(r"^import (shap|skops|mlflow)", text, re.M)[1]: text
    for text in re.findall(r"(?ms)^```py\n(.*?)^```", PAGE)
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", sorted(HEAVY))
def test_recipes_of_heavy_libraries_run(library, tmp_path, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    exec(compile(START, "clients.md", "exec"), names)
    exec(compile(HEAVY[library], "clients.md", "exec"), names)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_skops_takes_rankers_of_every_family():
    skops = pytest.importorskip("skops.io")
    data = hr.make_letor(12, n_features=5, seed=0)
    for ranker in (
        hr.NystroemRankSVM(n_components=5), hr.KernelRankSVM(), hr.FourierRankSVM(n_components=5), hr.AdditiveRankSVM(),
        hr.RankBoost(max_iter=4), hr.RankSVM(missing="median"),
    ):  # fmt: skip
        stored = skops.dumps(ranker.fit(data))
        back = skops.loads(stored, trusted=skops.get_untrusted_types(data=stored))
        assert np.array_equal(back.predict(data), ranker.predict(data))


@pytest.mark.parametrize("scale", [None, "standard", "minmax", "maxabs", "deviation"])
@pytest.mark.parametrize("make", [hr.RankSVM, hr.FenchelRank, hr.ListNet, hr.CRR, hr.AdaRank])
@pytest.mark.filterwarnings("ignore")
def test_linear_forms_are_in_the_units_of_the_input(make, scale):
    data = hr.make_letor(12, n_features=5, seed=0)
    X = np.asarray(data.X, np.float64) * 10.0 ** np.arange(5) + 7
    ranker = make(scale=scale).fit(X, data.y, data.qid)
    weights, intercept = ranker.linear_form()
    scores = ranker.predict(X)
    assert weights.shape == (5,)
    np.testing.assert_allclose(X @ weights + intercept, scores, atol=1e-9 * np.abs(scores).max())


def test_linear_forms_say_where_there_is_none():
    data = hr.make_letor(12, n_features=5, seed=0)
    for scale in ("log", "quantile", "query-minmax"):
        with pytest.raises(ValueError, match=f"scale='{scale}'.*is not a linear function"):
            hr.RankSVM(scale=scale).fit(data).linear_form()
    X = np.array(data.X, np.float64)
    X[::3, 1] = np.nan
    ranker = hr.RankSVM(missing="indicator", scale="standard").fit(X, data.y, data.qid)
    weights, intercept = ranker.linear_form()
    whole = ~np.isnan(X).any(axis=1)
    assert np.allclose(X[whole] @ weights + intercept, ranker.predict(X[whole]))


def test_a_search_without_routing_says_what_to_do():
    data = hr.make_letor(12, n_features=5, seed=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search = GridSearchCV(hr.RankSVM(scale="standard"), {"C": [0.1]}, cv=GroupKFold(3))
        search.fit(data.X, data.y, groups=data.qid)
    assert np.isfinite(search.best_score_)
    assert any("set_fit_request(qid=True)" in str(each.message) for each in said)
