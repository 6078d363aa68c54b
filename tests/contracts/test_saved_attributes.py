"""Every fitted attribute of every ranker, forged in every way: a model file is refused by name, or the model works."""

import importlib.util
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from scipy import sparse
from sklearn.base import clone

import hingerank as hr
from hingerank.export import model_file
from hingerank.export.attributes import Array, Ids, Number, Of, Size, take_attributes
from hingerank.export.model_file import ModelFileError, derived, saved_attributes
from hingerank.features.fourier import FourierMap
from hingerank.features.nystroem import NystroemMap
from hingerank.registry import RANKERS, ranker_class

SPEC = importlib.util.spec_from_file_location("write_saved", Path(__file__).parents[1] / "export" / "write_saved.py")
write_saved = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(write_saved)


def with_features(map_or_transformer):
    return hr.RankSVM(features=map_or_transformer).fit(*write_saved.graded_rows())


def spline():
    from sklearn.preprocessing import SplineTransformer

    return with_features(SplineTransformer(n_knots=3))


def precomputed():
    X, y, qid = write_saved.graded_rows()
    return hr.KernelRankSVM(kernel="precomputed").fit(X @ X.T, y, qid)


def personal(**settings):
    return hr.PersonalRankSVM(**settings).fit(*write_saved.ratings())


def separate_sparse():
    X, *rest = write_saved.ratings()
    return hr.SeparateRanker().fit(sparse.csr_matrix(X * (np.abs(X) > 0.5)), *rest)


def with_gaps(ranker):
    X, *rest = write_saved.graded_rows()
    return ranker.fit(np.where(np.quantile(X, 0.9) < X, np.nan, X), *rest)


def named(ranker):
    ranker.feature_names_in_ = np.array(list("abcd"), object)
    return ranker


MORE = {  # attributes that other settings leave
    "features": spline,
    "landmarks": lambda: with_features(NystroemMap(5, rank=3)),
    "waves": lambda: with_features(FourierMap(6)),
    "dual": lambda: hr.RankSVM(loss="hinge", solver="dual", scale="quantile").fit(*write_saved.graded_rows()),
    "interactions": lambda: hr.AdditiveRankSVM(n_knots=4, interactions=2).fit(*write_saved.graded_rows()),
    "missing": lambda: with_gaps(hr.RankSVM(missing="indicator", scale="standard")),
    "missing-curves": lambda: with_gaps(hr.AdditiveRankSVM(n_knots=4, missing="indicator")),
    "names": lambda: named(hr.RankSVM().fit(*write_saved.graded_rows())),
    "precomputed": precomputed,
    "shared": lambda: personal(shared=True),
    "mapped items": lambda: personal(shared=True, features=NystroemMap(5, rank=3)),
    "mapped users": lambda: hr.MeanVarianceRanker(features=FourierMap(6)).fit(*write_saved.ratings()),
    "no prior": lambda: personal(prior="zero"),
    "sparse users": separate_sparse,
}


def answers(case, ranker):
    if case == "precomputed":
        X = write_saved.graded_rows()[0]
        return ranker.predict(X @ X.T)
    return write_saved.answers(ranker)


@pytest.fixture(scope="module", params=[*RANKERS, *MORE])
def saved(request, tmp_path_factory):
    """(case, fitted ranker, file)"""
    case = request.param
    requires = getattr(ranker_class(case), "requires", None) if case in RANKERS else None
    if requires is not None:
        pytest.importorskip(requires)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker = write_saved.fitted(case) if case in RANKERS else MORE[case]()
    return case, ranker, Path(ranker.save(tmp_path_factory.mktemp("model") / "m"))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # of "names", which predicts an array
def test_what_fit_leaves_is_declared_and_comes_back(saved):
    case, ranker, path = saved
    declared, params = saved_attributes(type(ranker)), ranker.get_params()
    left = {name for name in vars(ranker) if name.endswith("_") and name not in params}
    assert left <= set(declared), "fit leaves attributes that are not saved"
    assert {name for name, attribute in declared.items() if attribute.needed} <= left
    back = hr.load(path)
    assert {name for name in vars(back) if name.endswith("_") and name not in params} == left
    assert np.array_equal(answers(case, back), answers(case, ranker))


def others(ranker):
    """What a ranker holds beside its parameters, what a model file holds, and what follows from that."""
    kind = type(ranker)
    known = {*vars(clone(ranker)), *saved_attributes(kind), *derived(kind), *kind._here_only}
    return set(vars(ranker)) - known


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # of "names", which predicts an array
def test_a_fit_leaves_only_the_fit(saved):
    case, ranker, path = saved
    expected = answers(case, ranker)
    assert not others(ranker), "fit leaves more than a model file holds"
    pickled = pickle.dumps(ranker)
    assert len(pickled) <= 2 * path.stat().st_size + 8192
    back = pickle.loads(pickled)
    assert not others(back) and np.array_equal(answers(case, back), expected)


LARGER = {  # fits whose rows, maps or pairs are much larger than what they find
    "order": lambda: hr.RankSVM(),
    "landmarks": lambda: hr.NystroemRankSVM(n_components=300),
    "waves": lambda: hr.FourierRankSVM(n_components=300),
    "features": lambda: hr.RankSVM(features="fourier"),
    "curves": lambda: hr.AdditiveRankSVM(sparsity=0.2),
    "swaps": lambda: hr.RSRank(max_iter=3),
    "lambdas": lambda: hr.LambdaRank(max_iter=1),
    "regression": lambda: hr.CRR(),
    "steps": lambda: hr.TGRank(max_iter=3),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::hingerank.ScaleWarning")
@pytest.mark.parametrize("case", LARGER)
def test_a_pickle_is_about_as_large_as_the_model_file(case, tmp_path):
    data = hr.make_letor(100, 30, n_features=8, seed=0)
    data = data.take(np.random.default_rng(0).permutation(data.n_rows))
    ranker = LARGER[case]().fit(data)
    ranker.predict(data)
    size = Path(ranker.save(tmp_path / "m")).stat().st_size
    assert not others(ranker) and len(pickle.dumps(ranker)) <= 2 * size + 8192


def test_rankers_of_a_path_share_their_map_and_keep_nothing_else(tmp_path):
    data = hr.make_letor(60, 20, n_features=8, seed=0)
    for ranker in (hr.NystroemRankSVM(n_components=200), hr.FourierRankSVM(n_components=200)):
        path = ranker.fit_path(data, Cs=[0.1, 1.0])
        assert path[0].shares_map(path[1]) and not path[0].shares_map(ranker.fit(data))
        size = Path(path[0].save(tmp_path / "m")).stat().st_size
        assert all(not others(member) and len(pickle.dumps(member)) <= 2 * size + 8192 for member in path)


def test_a_second_fit_leaves_nothing_of_the_first():
    X, y, qid = write_saved.graded_rows()
    ranker = hr.RankSVM(loss="hinge", solver="dual", scale="standard").fit(X, y, qid)
    ranker.set_params(solver="smoothing", scale=None).fit(X, y, qid)
    once = hr.RankSVM(loss="hinge", solver="smoothing").fit(X, y, qid)
    assert set(vars(ranker)) == set(vars(once))
    curves = hr.AdditiveRankSVM(n_knots=4, interactions=1).fit(X, y, qid).set_params(interactions=None).fit(X, y, qid)
    assert set(vars(curves)) == set(vars(hr.AdditiveRankSVM().fit(X, y, qid)))
    kernel = hr.KernelRankSVM(gamma=1.0).fit(X, y, qid)
    kernel.predict(X)
    again, new = kernel.fit(X, -y, qid).predict(X), hr.KernelRankSVM(gamma=1.0).fit(X, -y, qid).predict(X)
    assert np.array_equal(again, new)


PLAIN = {
    "none": None, "text": "forged", "minus": -1, "nothing": 0, "large": 1 << 60, "huge": 10**400, "half": 0.5,
    "yes": True, "nan": {"!": "float", "value": "nan"}, "infinite": {"!": "float", "value": "-inf"}, "list": [],
    "dict": {}, "texts": {"!": "strings", "items": ["a", "b"]}, "object": {"!": "certificate", "entries": {}},
    "broken": {"!": "csr"}, "scaler": {"!": "scaler", "state": {"!": "tuple", "items": [{"name": "none"}, {}]}},
}  # fmt: skip
ARRAYS = {
    "single": lambda a: a.astype(np.float32),
    "double": lambda a: a.astype(np.float64),
    "whole": lambda a: a.astype(np.int64),
    "bytes": lambda a: a.astype(np.int8),
    "unsigned": lambda a: np.abs(a[::-1].astype(np.float64)).astype(np.uint64),
    "truth": lambda a: a.astype(bool),
    "longer": lambda a: np.concatenate([a, a[-1:]]),
    "shorter": lambda a: a[:-1],
    "empty": lambda a: a[:0],
    "wider": lambda a: np.concatenate([a, a[..., -1:]], axis=-1),
    "deeper": lambda a: a[..., None],
    "flat": lambda a: a.ravel()[:1].reshape(()),
    "falling": lambda a: np.ascontiguousarray(a[::-1]),
    "zeros": np.zeros_like,
    "negative": lambda a: (-1 - np.abs(a.astype(np.float64))).astype(a.dtype if a.dtype.kind in "if" else np.int64),
    "beyond": lambda a: np.full_like(a, 100 if a.dtype.kind in "iu" else 1.0),
    "huge": lambda a: (
        np.full_like(a, np.iinfo(a.dtype).max if a.dtype.kind in "iu" else 1.0)
        if a.dtype.kind in "iub"
        else np.full_like(a, 1e300 if a.dtype == np.float64 else 1e38)
    ),
    "nan": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, np.inf),
}


def forgeries(path):
    """(what was forged, how, header, arrays) of every file that differs from this one in one attribute."""
    content = path.read_bytes()
    entries = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    arrays = safetensors.numpy.load(content)

    def header():
        return json.loads(entries["hingerank"])

    for name in header()["state"] or {}:
        own = {key for key in arrays if key == f"state.{name}" or key.startswith(f"state.{name}.")}
        rest = {key: array for key, array in arrays.items() if key not in own}
        changed = header()
        del changed["state"][name]
        yield name, "missing", changed, rest
        for how, value in PLAIN.items():
            changed = header()
            changed["state"][name] = value
            yield name, how, changed, rest
        for key in sorted(own):
            for how, change in ARRAYS.items():
                if arrays[key].ndim:
                    yield name, f"{key} {how}", header(), {**arrays, key: change(arrays[key])}
    if header()["state"] is not None:
        changed = header()
        changed["state"]["more_"] = 1
        yield "more_", "extra", changed, arrays


def write(path, header, arrays):
    header["arrays"] = model_file._described(arrays)
    text = json.dumps(header)
    path.write_bytes(safetensors.numpy.save(arrays, {"hingerank": text, "sha256": model_file._digest(text, arrays)}))


OTHER_DATA = {  # what models for other data have, and what they say about these
    "n_features_in_": "features",
    "coef_": "features",
    "relation_coef_": "relations",
    "users_": "is not known",
    "scaler_": "beyond single precision",
}
NO_SCORE = "the score of row 0 is"  # not finite: huge numbers are a model, too


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # of "names", which predicts an array
def test_a_forged_attribute_is_named_or_does_no_harm(saved, tmp_path):
    case, ranker, path = saved
    declared, forged = saved_attributes(type(ranker)), tmp_path / "forged"
    count = len(answers(case, ranker))
    for name, how, header, arrays in forgeries(path):
        write(forged, header, arrays)
        try:
            back = hr.load(forged)
        except ModelFileError as error:
            assert str(forged) in str(error) and any(n in str(error) for n in (name, *declared)), (name, how, error)
            continue
        assert how not in ("missing", "extra") or not declared[name].needed, (name, how)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                assert len(answers(case, back)) == count, (name, how)
            except ValueError as error:  # the model is in order, but not one for these data
                said = str(error)
                assert said.startswith(NO_SCORE) or OTHER_DATA.get(name, "in order") in said, (name, how, said)
            except Exception as error:
                pytest.fail(f"{case}: {name} {how} loads, and then fails with {error!r}")


def test_a_model_with_a_wrong_attribute_is_not_saved(tmp_path):
    ranker = hr.RankSVM().fit(*write_saved.graded_rows())
    for wrong in (np.ones(3), np.ones(4, int), [1.0] * 4, None):
        ranker.coef_ = wrong
        with pytest.raises(ModelFileError, match="cannot save: coef_ "):
            ranker.save(tmp_path / "m")
    del ranker.coef_
    with pytest.raises(ModelFileError, match="cannot save: coef_ is missing"):
        ranker.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_the_words_for_sizes():
    declared = {
        "n": Size("features"), "starts": Array("features+1", "i", low=0, rising=True), "grades": Array("grades"),
        "borders": Array("grades-1"), "pairs": Array("pairs, 2", "i", low=0, high="features"), "ids": Ids("grades"),
        "C": Number(low=0, needed=False), "of": Of(dict, listed=True, none=True),
    }  # fmt: skip
    right = {
        "n": 2, "starts": np.array([0, 1, 3], np.uint8), "grades": np.ones(3), "borders": np.ones(2),
        "pairs": np.array([[0, 1]]), "ids": np.array(["a", "b", "c"]), "of": None,
    }  # fmt: skip
    values, sizes = take_attributes("Toy", declared, right)
    assert sizes == {"features": 2, "grades": 3, "pairs": 1} and values["starts"].dtype == np.int64
    for name, wrong, words in [
        ("n", 0, "n must be a whole number from 1 on, not 0"),
        ("starts", np.array([0, 1]), r"starts has shape \(2,\), expected \(features\+1,\)"),
        ("starts", np.array([3, 1, 0], np.uint8), "starts contains numbers that do not increase"),
        ("starts", np.array([0.0, 1, 3]), "starts must contain whole numbers, not float64"),
        ("borders", np.ones(3), r"borders has shape \(3,\)"),
        ("pairs", np.array([[0, 2]]), "pairs contains 2, which is not below 2"),
        ("pairs", np.array([[0, -1]]), "pairs contains -1, which is below 0"),
        ("ids", ["a", "b", "c"], "ids must be an array of ids, not list"),
        ("C", -1.0, "C must be a finite number from 0 on, not -1.0"),
        ("of", {}, "of must be a list with every entry a dict, not dict"),
        ("other", 1, "Toy has no fitted attribute other"),
    ]:
        with pytest.raises(ValueError, match=words):
            take_attributes("Toy", declared, {**right, name: wrong})
    del right["ids"]
    with pytest.raises(ValueError, match="ids is missing, which every fitted Toy has"):
        take_attributes("Toy", declared, right)
