"""Public parameters: a name for every thing, old names that still work, and what C multiplies."""

import inspect
import json
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hingerank as hr
from hingerank.data.checks import WeakFitWarning
from hingerank.export.model_file import load
from hingerank.lab import compare
from hingerank.lab.folds import query_folds
from hingerank.lab.methods import method_from_name
from hingerank.lab.run_folder import ResultsFile, current, read_header, read_results, write_header
from hingerank.rankers.base import BaseRanker
from hingerank.registry import RANKERS, ranker_class
from hingerank.renaming import LAST, RENAMED, present_names

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "parameters.md").read_text("utf-8")
SAVED = Path(__file__).resolve().parents[1] / "export" / "saved"
CLASSES = {place.rpartition(":")[2]: name for name, place in RANKERS.items()}

# what other programs, and earlier versions, call things that have a name here
SYNONYMS = {
    "max_iter": "n_iter iterations num_iterations max_iterations n_rounds num_rounds n_passes passes epochs n_epochs",
    "max_seconds": "timeout time_limit max_time seconds",
    "random_state": "rng random_seed",
    "sample_weight": "weight weights sample_weights",
    "top": "depth cutoff cut_off k_max at",
    "tol": "tolerance eps epsilon",
    "feature_names": "names columns",
    "C": "c lambda_ reg regularization alpha_reg",
    "n_jobs": "n_threads num_threads threads",
    "learning_rate": "lr eta",
    "n_features": "k_features ks",
    "shared": "sharing",
}
BANNED = {word: name for name, words in SYNONYMS.items() for word in words.split()}
OWN_WORDS = {
    "Blend.weights",
    "ClickLog.weights",
    "read_clicks.weight",
}  # a word of the list above that means something else there


def rows_of(title):
    """The cells of a table of the page, by its first row."""
    lines = PAGE[PAGE.index(f"| {title}") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def parameters(call):
    return [name for name in inspect.signature(call).parameters if name != "self"]


def public_calls():
    """(name, function) of every public function, and of every public method of a public class."""
    for name in hr.__all__:
        thing = getattr(hr, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing) and not issubclass(thing, Exception):
            yield name, thing.__init__
            for method, function in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_") and function.__module__.partition(".")[0] == "hingerank":
                    yield f"{name}.{method}", function


def test_the_glossary_has_the_parameters_of_all_rankers():
    glossary = {name.strip("`"): meaning for name, meaning in rows_of("name | meaning")}
    used = {name: parameters(ranker_class(name)) for name in RANKERS}
    for ranker, names in used.items():
        assert set(names) <= set(glossary), f"{ranker} has a parameter without a meaning: is there a name for it?"
    assert set(glossary) == {name for names in used.values() for name in names}
    assert list(glossary) == sorted(glossary) and len(set(glossary.values())) == len(glossary)


def test_no_public_call_has_a_synonym():
    found = {
        f"{name}.{word}": BANNED[word] for name, call in public_calls() for word in parameters(call) if word in BANNED
    }
    assert {place: name for place, name in found.items() if place not in OWN_WORDS} == {}


def test_a_seed_is_a_random_state_in_what_learns_and_a_seed_elsewhere():
    learning = {cls: ranker_class(name) for cls, name in CLASSES.items()} | {"tune": hr.tune}
    assert not [name for name, call in learning.items() if "seed" in parameters(call)]
    others = [(name, call) for name, call in public_calls() if name.partition(".")[0] not in learning]
    assert not [name for name, call in others if "random_state" in parameters(call)]


# What C multiplies.


def multiplied(cls):
    """ "sum over pairs", as a ranker's docstring says it."""
    found = re.findall(
        r"^    C : (?:float.*\n        W|w)eight of the loss; multiplies its ([^.\n,(]*)", cls.__doc__, re.M
    )
    assert len(found) == 1, f"{cls.__name__} must say: C : weight of the loss; multiplies its sum (mean) over ..."
    return found[0].strip().replace(" and its ", " and ")


WITH_C = {cls: name for cls, name in CLASSES.items() if "C" in parameters(ranker_class(name))}


def test_the_table_of_C_says_what_the_docstrings_say():
    table = {cls: words for words, names in rows_of("C multiplies") for cls in re.findall(r"`(\w+)`", names)}
    assert table == {cls: multiplied(ranker_class(name)) for cls, name in WITH_C.items()}


QUICK = {"AdditiveRankSVM": {"n_knots": 4}, "SVMMAP": {"tol": 1e-6}, "FRank": {"tol": 1e-9}}
NOT_CONVEX = {"RSRank", "FactorizedRankSVM", "RankingFM"}  # other rows, another stationary point
OWN = {"RegularizedRankSVM"}  # its other weights, gamma and lam, are of sums as well


@pytest.mark.parametrize(
    "cls", [c for c, n in WITH_C.items() if issubclass(ranker_class(n), BaseRanker) and c not in NOT_CONVEX | OWN]
)
def test_twice_the_queries_take_half_of_a_sums_C_and_all_of_a_means(cls):
    rng = np.random.default_rng(1)
    X, qid = rng.random((30, 3)), np.repeat(np.arange(5), 6)
    y = np.clip(np.round(3 * X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=30)), 0, 2)
    kind = ranker_class(WITH_C[cls])
    words, C = multiplied(kind), 20.0 if "mean" in multiplied(kind) else 0.5
    settings = {"tol": 1e-8} | QUICK.get(cls, {})
    one = kind(C=C, **settings).fit(X, y, qid)
    twice = [np.concatenate([X, X]), np.concatenate([y, y]), np.concatenate([qid, qid + 5])]
    two = kind(C=C if words.startswith("mean") else C / 2, **settings).fit(*twice)
    other = kind(C=C / 2 if words.startswith("mean") else C, **settings).fit(*twice)
    spread = np.ptp(one.predict(X, qid))
    assert spread > 0
    np.testing.assert_allclose(two.predict(X, qid), one.predict(X, qid), atol=2e-3 * spread)
    assert np.abs(other.predict(X, qid) - one.predict(X, qid)).max() > 0.02 * spread


# C=None follows the data.


def follow_data(seed=1):
    rng = np.random.default_rng(seed)
    X, qid = rng.random((30, 3)), np.repeat(np.arange(5), 6)
    return X, np.clip(np.round(3 * X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=30)), 0, 2), qid


FOLLOWS = {cls: name for cls, name in WITH_C.items() if issubclass(ranker_class(name), BaseRanker)}
L1 = {"SparseRankSVM", "TGRank", "RSRank"}
SCALES_ITSELF = {"AdditiveRankSVM", "KernelRankSVM", "NystroemRankSVM", "FourierRankSVM"}


@pytest.mark.parametrize("cls", FOLLOWS)
def test_C_that_follows_the_data_stays_with_more_of_it_and_in_other_units(cls):
    (X, y, qid), kind = follow_data(), ranker_class(FOLLOWS[cls])
    settings = {"tol": 1e-8} | QUICK.get(cls, {}) | ({"tol": 1e-4} if cls in NOT_CONVEX | OWN | {"TGRank"} else {})
    one = kind(C=None, **settings).fit(X, y, qid)
    thrice = kind(C=None, **settings).fit(
        np.tile(X, (3, 1)), np.tile(y, 3), np.concatenate([qid + 5 * k for k in range(3)])
    )
    larger = kind(C=None, **settings).fit(64 * X, y, qid)
    assert one.get_params()["C"] is None
    counted = 1 if multiplied(kind).startswith("mean") else 3
    unit = 1 if cls in SCALES_ITSELF else 64 if cls in L1 else 64**2
    np.testing.assert_allclose([thrice.C_ * counted, larger.C_ * unit], one.C_, rtol=1e-4)
    if cls not in NOT_CONVEX | OWN:  # its starts depend on rows, and its other weights are of sums as well
        spread = np.ptp(one.predict(X, qid))
        assert spread > 0
        near = (2e-2 if cls == "TGRank" else 2e-3) * spread
        np.testing.assert_allclose(thrice.predict(X, qid), one.predict(X, qid), atol=near)
        np.testing.assert_allclose(larger.predict(64 * X, qid), one.predict(X, qid), atol=near)


def test_C_that_follows_the_data_is_ten_smallest_useful_ones_by_a_list_of_pairs():
    X, y, qid = follow_data()
    pairs = [(i, j) for i in range(30) for j in range(30) if qid[i] == qid[j] and y[i] > y[j]]
    D = np.array([X[i] - X[j] for i, j in pairs])
    slopes = {"squared_hinge": (1.0, 2.0), "hinge": (1.0, 1.0), "logistic": (np.log(2.0), 0.5)}  # loss and slope at 0
    for loss, (value, slope) in slopes.items():
        ranker = hr.RankSVM(C=None, loss=loss).fit(X, y, qid)
        np.testing.assert_allclose(ranker.C_, 10 * len(D) * value / np.sum((slope * D.sum(0)) ** 2))
        same = hr.RankSVM(C=ranker.C_, loss=loss).fit(X, y, qid)
        np.testing.assert_array_equal(same.coef_, ranker.coef_)
    sparse = hr.SparseRankSVM(C=None).fit(X, y, qid)
    np.testing.assert_allclose(sparse.C_, 100 * len(D) / np.abs(2.0 * D.sum(0)).max())
    with pytest.warns(WeakFitWarning, match="C=None follows the data"):
        assert not hr.SparseRankSVM(C=0.0099 * sparse.C_).fit(X, y, qid).coef_.any()


def test_C_that_follows_the_data_is_kept_and_said(tmp_path):
    X, y, qid = follow_data()
    ranker = hr.RankSVM(C=None).fit(X, y, qid)
    assert pickle.loads(pickle.dumps(ranker)).C_ == hr.load(ranker.save(tmp_path / "model")).C_ == ranker.C_
    assert [path.C_ for path in hr.RankSVM(C=None).fit_path(X, y, qid, Cs=[2.0, 1.0])] == [2.0, 1.0]
    assert hr.RankSVM(C=3).fit(X, y, qid).C_ == 3.0
    hr.write(hr.RankingData(X, y, qid), tmp_path / "rows")
    mapped, parts = hr.read(tmp_path / "rows"), hr.distributed.read(tmp_path / "rows", parts=2)
    np.testing.assert_allclose([hr.RankSVM(C=None).fit(rows).C_ for rows in (mapped, parts)], ranker.C_, rtol=1e-6)
    with pytest.warns(UserWarning, match="no preference pairs"):
        assert hr.RankSVM(C=None).fit(X, np.ones(30), qid).C_ == 1.0
    for wrong in ("auto", -1, 0, np.nan, [1.0]):
        with pytest.raises(ValueError, match="C must be a positive number"):
            hr.RankSVM(C=wrong).fit(X, y, qid)


# Old names.

ESTIMATORS = {cls: names for cls, names in RENAMED.items() if cls in CLASSES}
RENAMES = [(cls, old, new) for cls, names in ESTIMATORS.items() for old, new in names.items()]


def test_old_names_go_when_they_were_said_to():
    now, last = (tuple(map(int, version.split(".")[:2])) for version in (hr.__version__, LAST))
    assert now <= last, "two minor versions are over: take the names out of RENAMED"


@pytest.mark.parametrize("cls,old,new", RENAMES)
def test_an_old_name_warns_and_works(cls, old, new):
    kind = getattr(hr, cls)
    assert new in parameters(kind) and old not in parameters(kind)
    with pytest.warns(FutureWarning, match=rf"{cls}.* {old} is called {new} now.* {LAST}") as caught:
        ranker = kind(**{old: 7})
    assert len(caught) == 1 and caught[0].filename == __file__
    assert ranker.get_params()[new] == 7 and old not in ranker.get_params()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(ranker).get_params()[new] == 7 and repr(ranker) == f"{cls}({new}=7)"
    for change in (lambda: ranker.set_params(**{old: 8}), lambda: setattr(ranker, old, 8)):
        with pytest.warns(FutureWarning, match=new) as caught:
            change()
        assert len(caught) == 1 and caught[0].filename == __file__ and getattr(ranker, new) == 8
    with pytest.warns(FutureWarning, match=new):
        assert getattr(ranker, old) == 8
    with pytest.raises(TypeError, match=f"give {new} alone"):
        kind(**{old: 7, new: 7})
    with pytest.warns(FutureWarning, match=new):
        make_pipeline(StandardScaler(), ranker).set_params(**{f"{cls.lower()}__{old}": 9})
    assert getattr(ranker, new) == 9


def test_a_subclass_may_keep_an_old_name():
    class Mine(hr.PRank):
        def __init__(self, n_passes=3):
            super().__init__(max_iter=n_passes)

    with pytest.warns(FutureWarning, match="max_iter"):
        assert clone(Mine(4)).set_params(n_passes=5).max_iter == 5


def test_every_renamed_call_takes_the_old_name():
    rng = np.random.default_rng(0)
    X, y, qid = rng.random((12, 3)), np.tile([0, 1, 2], 4), np.repeat([0, 1], 6)
    users, items = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    ratings = hr.ratings_from(users, items, [1, 2, 3, 3, 2, 1])
    fitted = hr.RankSVM().fit(X, y, qid)
    calls = {
        "BoostingRanker.fit_path": lambda **n: hr.RankBoost().fit_path(X, y, qid, **n)[0].max_iter,
        "FeatureSelectionRanker.fit_path": lambda **n: hr.FeatureSelectionRanker().fit_path(X, y, qid, **n)[0].coef_,
        "PersonalRankSVM.fit_clicks": lambda **n: hr.PersonalRankSVM(rank=1).fit_clicks(X, users, items, **n).basis_,
        "PairwiseRanker.fit_pairs": lambda **n: hr.RankSVM().fit_pairs(X, [0, 1], [2, 3], **n).coef_,
        "PersonalRanker.fit_pairs": lambda **n: hr.JointRanker().fit_pairs(X, [0, 0], [0, 1], [2, 3], **n).coef_,
        "ExplicitPairs": lambda **n: hr.ExplicitPairs([0, 1], [2, 3], 4, **n).weight,
        "LinearRanker.feature_table": lambda **n: [name for name, _ in fitted.feature_table(**n)],
        "Ratings.with_features": lambda **n: ratings.with_features(X[:3], **n).feature_names,
    }
    values = {"n_rounds": [2], "ks": [2], "epochs": 2, "weight": [1.0, 2.0], "names": ["a", "b", "c"]}
    assert set(calls) == set(RENAMED) - set(ESTIMATORS)
    for place, call in calls.items():
        ((old, new),) = RENAMED[place].items()
        with pytest.warns(FutureWarning, match=rf"{old} is called {new} now") as caught:
            one = call(**{old: values[old]})
        assert [w.filename for w in caught if w.category is FutureWarning] == [__file__]
        np.testing.assert_array_equal(one, call(**{new: values[old]}))


def test_models_of_older_versions_load_without_a_warning():
    found = 0
    for path in sorted(SAVED.glob("*/*.safetensors")):
        header = json.loads(json.loads(path.read_bytes()[8:][: int.from_bytes(path.read_bytes()[:8], "little")])
                            ["__metadata__"]["hingerank"])  # fmt: skip
        names = ESTIMATORS.get(RANKERS[header["ranker"]].rpartition(":")[2], {})
        for old in set(names) & set(header["params"]):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert load(path).get_params()[names[old]] == header["params"][old]
            found += 1
    assert found > 8


def test_searches_take_old_names_and_say_so():
    data = hr.make_letor(12, 8, 3, seed=0)
    with pytest.warns(FutureWarning, match="max_iter") as caught:
        ranker = hr.tune("rankboost", data, folds=2, params={"n_rounds": [1, 2]}, widen=False)
    assert len(caught) == 1 and caught[0].filename == __file__ and set(ranker.tuning_.best) == {"max_iter"}
    with pytest.warns(FutureWarning, match="max_iter"):
        method = method_from_name("rankboost", {"n_rounds": [1, 2]})
    assert method.search.settings() == [{"max_iter": 1}, {"max_iter": 2}]
    with pytest.warns(FutureWarning, match="max_iter") as caught:
        method = hr.Method("mine", hr.RankBoost, {"n_rounds": [1, 2]}, fixed={"scale": None})
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert method.path == "max_iter" and method.make(method.search.settings()[1]).max_iter == 2


def test_run_folders_of_older_versions_go_on(tmp_path):
    """As 0.2 wrote them: settings by old names, no marks of code."""
    data = hr.make_letor(9, 8, 3, seed=0)
    folds = query_folds(data, 3)
    methods = [hr.Method("boost", hr.RankBoost, {"max_iter": [1, 2]}, fixed={"n_thresholds": 9})]
    fresh = compare(methods, folds, measures=["map"], folder=tmp_path, workers=1)
    header = read_header(tmp_path)
    definition = header["methods"]["boost"]
    definition["search"]["space"] = {"n_rounds": definition["search"]["space"].pop("max_iter")}
    write_header(tmp_path, header)
    (tmp_path / "results.jsonl").rename(tmp_path / "new")
    with ResultsFile(tmp_path / "results.jsonl") as file:
        file.append({**r, "setting": {"n_rounds": r["setting"]["max_iter"]}} for r in read_results(tmp_path / "new"))
    before = len(read_results(tmp_path / "results.jsonl"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = compare(methods, folds, measures=["map"], folder=tmp_path, workers=1)
    assert len(read_results(tmp_path / "results.jsonl")) == before, "results that were there were computed again"
    assert [r["setting"] for r in again.records] == [r["setting"] for r in fresh.records]
    assert current(read_header(tmp_path), again.records)[0]["setting"].keys() == {"max_iter"}


def test_present_names_leave_what_is_not_theirs():
    assert present_names("RankSVM", {"n_rounds": 3}) == {"n_rounds": 3}
    assert present_names(object, {"k": 3}, warn=True) == {"k": 3}


@pytest.mark.parametrize("name", [name for name, place in RANKERS.items() if place.startswith("hingerank.rankers.")])
def test_limits_that_are_no_numbers_are_named(name):
    limits = {"max_iter": ("many", -1, 2.5), "max_seconds": ("long", -1, float("nan")), "n_starts": (0,)}
    kind, data = ranker_class(name), hr.make_letor(4, (4, 6), n_features=3, seed=0)
    for limit, values in limits.items():
        for value in values if limit in parameters(kind) else ():
            with pytest.raises(ValueError, match=f"^{limit} must be a"):
                kind(**{limit: value}).fit(data)
