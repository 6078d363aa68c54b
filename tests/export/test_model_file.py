"""The model file: everything comes back, nothing else gets in."""

import json
import os
import stat
import sys
from typing import ClassVar

import numpy as np
import pytest
import safetensors.numpy
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from hingerank.export import model_file
from hingerank.export.attributes import Array, Ids, Of
from hingerank.export.model_file import ModelFileError, SavedModel, load, read_header
from hingerank.rankers.base import LinearRanker
from hingerank.registry import RANKERS
from hingerank.solvers.run import Certificate


class Toy(LinearRanker):
    """coef_ = Xᵀy, and parameters and state of every kind."""

    _saved: ClassVar = {
        "support_": Array("3, features", csr=True),
        "names_": Ids("names", texts=True),
        "inner_": Of(LinearRanker, needed=False),
    }
    _training_only = ("callback",)

    def __init__(self, weights=None, grid=(1, 2), base=None, callback=None, scale=None):
        self.weights, self.grid, self.base, self.callback, self.scale = weights, grid, base, callback, scale

    def _fit(self, X, y, blocks, sample_weight):
        self.coef_ = np.asarray(X.T @ y)
        self.n_iter_, self.n_pairs_ = 3, 17
        self.certificate_ = Certificate("duality gap", np.float64(0.5), np.inf, "converged", 3, 0.25)
        self.trace_ = [{"value": 1.0, "gap": np.inf}, {"value": np.float32(0.5), "step": np.int64(2)}]
        self.support_ = sparse.csr_matrix(np.eye(3, X.shape[1], dtype=np.float32))
        self.names_ = np.array(["ä", "b"], object)


class Personal(SavedModel, BaseEstimator):
    """Not a BaseRanker: keeps its state in a form of its own."""

    def fit(self, table):
        self.table_ = {str(k): v for k, v in table.items()}
        return self

    def _state(self):
        return {"keys": list(self.table_), "values": np.array(list(self.table_.values()))}

    def _restore(self, state):
        self.table_ = dict(zip(state["keys"], state["values"].tolist(), strict=True))


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_rankers", sys.modules[__name__])
    for name, cls in {"toy": Toy, "personal": Personal}.items():
        monkeypatch.setitem(RANKERS, name, f"toy_rankers:{cls.__name__}")
        monkeypatch.setattr(cls, "__module__", "toy_rankers")


@pytest.fixture
def fitted():
    rng = np.random.default_rng(0)
    return Toy(weights=np.array([[1, 2], [3, 4]], ">i4")).fit(rng.normal(size=(20, 4)), rng.integers(0, 3, 20), 0)


def rewritten(path, header=None, arrays=None, digest=True):
    """The same file with another header or other arrays, and (unless told otherwise) a matching digest."""
    content = path.read_bytes()
    entries = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    old = safetensors.numpy.load(content)
    text = entries["hingerank"] if header is None else json.dumps(header(json.loads(entries["hingerank"])))
    new = old if arrays is None else arrays(old)
    checksum = model_file._digest(text, new) if digest else entries["sha256"]
    path.write_bytes(safetensors.numpy.save(new, {"hingerank": text, "sha256": checksum}))
    return path


def test_everything_comes_back(fitted, tmp_path):
    path = fitted.save(tmp_path / "m.safetensors", metadata={"data": "toy"})
    back = load(path)
    assert type(back) is Toy
    assert back.grid == (1, 2) and isinstance(back.grid, tuple)
    assert np.array_equal(back.weights, fitted.weights)
    assert back.coef_.dtype == fitted.coef_.dtype and np.array_equal(back.coef_, fitted.coef_)
    assert back.certificate_ == fitted.certificate_ and back.certificate_.converged
    assert back.trace_ == fitted.trace_
    assert (back.n_iter_, back.n_pairs_, back.n_features_in_) == (3, 17, 4)
    assert back.fingerprint_ == fitted.fingerprint_ and back.fingerprint_["pairs"] == 17
    assert back.support_.dtype == np.float32 and (back.support_ != fitted.support_).nnz == 0
    assert back.names_.tolist() == ["ä", "b"]
    assert not hasattr(back, "feature_names_in_") and back.scaler_ is None
    X = np.random.default_rng(1).normal(size=(7, 4))
    assert np.array_equal(back.predict(X), fitted.predict(X))
    header = read_header(path)
    assert header["metadata"] == {"data": "toy"} and header["ranker"] == "toy" and header["version"] == 1
    assert header["versions"]["numpy"] == np.__version__


def test_saving_a_loaded_model_again_changes_nothing(fitted, tmp_path):
    first = read_header(fitted.save(tmp_path / "a"))
    second = read_header(load(tmp_path / "a").save(tmp_path / "b"))
    assert {**first, "created": None} == {**second, "created": None}


def test_feature_names_and_nested_rankers(fitted, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.eye(3), columns=["a", "b", "c"])
    outer = Toy(base=Toy(grid=[5]), callback=print).fit(frame, [0, 1, 2], 0)
    outer.inner_ = fitted
    back = load(outer.save(tmp_path / "m"))
    assert back.base.grid == [5] and not hasattr(back.base, "coef_")
    assert np.array_equal(back.inner_.coef_, fitted.coef_) and np.array_equal(back.inner_.weights, fitted.weights)
    assert back.callback is None
    assert back.feature_names_in_.dtype == object and list(back.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="same order"):
        back.predict(frame[["b", "a", "c"]])


def test_a_class_with_its_own_state(tmp_path):
    back = load(Personal().fit({"u": 1.5, "v": 2.0}).save(tmp_path / "m"))
    assert back.table_ == {"u": 1.5, "v": 2.0}


def test_non_contiguous_empty_and_scalar_arrays(fitted, tmp_path):
    for array in (
        np.arange(12.0).reshape(3, 4).T,
        np.arange(10)[::3],
        np.zeros((0, 3)),
        np.array(4.5),
        np.ones(2, bool),
    ):
        fitted.weights = array
        back = load(fitted.save(tmp_path / "m")).weights
        assert back.dtype == array.dtype and back.shape == array.shape and np.array_equal(back, array)


def test_folders(fitted, tmp_path):
    made = fitted.save(f"{tmp_path}/new/model/")
    assert made == f"{tmp_path}/new/model/model.safetensors"
    assert np.array_equal(load(tmp_path / "new" / "model").coef_, fitted.coef_)
    assert fitted.save(tmp_path) == str(tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match="no model file"):
        load(tmp_path / "new")


def test_a_failed_write_leaves_the_old_file_and_no_draft(fitted, tmp_path, monkeypatch):
    path = tmp_path / "m"
    fitted.save(path)
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        fitted.save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["m"]


def test_the_file_gets_ordinary_permissions(fitted, tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    fitted.save(tmp_path / "m")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (len, "params.weights is <built-in function len>: a model file contains no code"),
        (lambda a, b: 0.0, "contains no code"),
        (np.random.default_rng(0), "random generator"),
        (np.array([object()]), "array of object"),
        (np.array([1j]), "array of complex128"),
        ({1.5: 2}, "keys other than plain strings"),
        ({"!": "float"}, "keys other than plain strings"),
        (object(), "is a object"),
        ([{"deep": (print,)}], "params.weights.0.deep.0 is"),
        (Personal, "contains no code"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_nothing_is_written(fitted, tmp_path, value, message):
    fitted.weights = value
    with pytest.raises(ModelFileError, match=message):
        fitted.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_unfitted_unregistered_and_bad_metadata(fitted, tmp_path, monkeypatch):
    with pytest.raises(NotFittedError):
        Toy().save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="metadata must be plain JSON"):
        fitted.save(tmp_path / "m", metadata={"f": print})
    monkeypatch.delitem(RANKERS, "toy")
    with pytest.raises(ModelFileError, match=r"Toy is not in hingerank\.registry\.RANKERS"):
        fitted.save(tmp_path / "m")


def put(*keys, value):
    def change(header):
        target = header
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value
        return header

    return change


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (put("version", value=2), "version 2; this hingerank"),
        (put("version", value=True), "version True"),
        (put("format", value="other"), "format 'other'"),
        (put("ranker", value="os:system"), "no ranker named 'os:system'"),
        (put("ranker", value=["toy"]), "cannot be loaded"),
        (put("params", "shell", value="ls"), "Toy has no parameter shell"),
        (put("params", "grid", value={"!": "pickle", "data": "gASV"}), "unknown kind of value 'pickle'"),
        (put("params", "grid", value={"!": "tuple"}), "cannot be loaded"),
        (put("params", "grid", value={"!": "array", "name": "nowhere"}), "array 'nowhere' is missing"),
        (
            put("params", "base", value={"!": "ranker", "ranker": "x", "params": {}, "state": None}),
            "no ranker named 'x'",
        ),
        (put("params", "weights", value=None), "does not use: params.weights"),
        (put("state", "predict", value="x"), "no fitted attribute predict"),
        (put("state", "n_features_in_", value=5), r"coef_ has shape \(4,\), expected \(5,\)"),
        (put("state", "n_features_in_", value="4"), "n_features_in_ must be"),
        (
            put("state", "feature_names_in_", value={"!": "strings", "items": ["a"]}),
            r"names_in_ has shape \(1,\)",
        ),
        (put("state", "certificate_", value={"!": "certificate", "entries": {"kind": "gap"}}), "a certificate has"),
        (put("state", value=3), "cannot be loaded"),
        (put("surprise", value=3), "damaged or was altered"),
        (put("metadata", value=[]), "damaged or was altered"),
        (put("arrays", "more", value={"dtype": "float64", "shape": [1]}), "damaged or was altered"),
    ],
)
def test_forged_headers_with_a_right_digest(fitted, tmp_path, header, message):
    path = tmp_path / "m"
    fitted.save(path)
    rewritten(path, header)
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_forged_arrays(fitted, tmp_path):
    path = tmp_path / "m"
    for change, message in [
        (lambda a: {k: v for k, v in a.items() if k != "state.coef_"}, "altered"),
        (lambda a: a | {"extra": np.ones(1)}, "altered"),
        (lambda a: a | {"state.coef_": np.ones(5)}, "altered"),
        (lambda a: a | {"state.coef_": a["state.coef_"].astype(np.float32)}, "altered"),
    ]:
        fitted.save(path)
        with pytest.raises(ModelFileError, match=message):
            load(rewritten(path, arrays=change))
    fitted.save(path)
    with pytest.raises(ModelFileError, match="do not match its digest"):
        load(rewritten(path, arrays=lambda a: a | {"state.coef_": a["state.coef_"] + 1}, digest=False))
    with pytest.raises(ModelFileError, match="do not match its digest"):
        load(rewritten(path, header=put("params", "scale", value="standard"), digest=False))


def test_weights_that_are_no_numbers_are_neither_loaded_nor_saved(fitted, tmp_path):
    path = tmp_path / "m"
    fitted.save(path)
    rewritten(path, arrays=lambda a: a | {"state.coef_": np.full(4, np.nan)})
    with pytest.raises(ModelFileError, match=r"state.coef_ contains numbers that are not finite"):
        load(path)
    fitted.save(path)
    words = {"!": "strings", "items": list("abcd")}
    rewritten(
        path,
        header=lambda h: put("arrays", value={k: v for k, v in h["arrays"].items() if k != "state.coef_"})(
            put("state", "coef_", value=words)(h)
        ),
        arrays=lambda a: {k: v for k, v in a.items() if k != "state.coef_"},
    )
    with pytest.raises(ModelFileError, match="coef_ must contain finite numbers, not object"):
        load(path)
    fitted.coef_ = np.array([1.0, np.inf, 0.0, 0.0])
    with pytest.raises(ModelFileError, match="not finite"):
        fitted.save(path)


def same(a, b):
    return json.dumps(a) == json.dumps(b)


def test_damaged_bytes_never_pass_and_never_raise_anything_else(fitted, tmp_path):
    fitted.trace_ = []
    path = tmp_path / "m"
    fitted.save(path)
    content, header = path.read_bytes(), read_header(path)
    rng = np.random.default_rng(5)
    refused = 0
    for position in rng.permutation(len(content))[:450]:
        for new in {content[position] ^ (1 << int(rng.integers(8))), int(rng.integers(256)), 0} - {content[position]}:
            path.write_bytes(content[:position] + bytes([new]) + content[position + 1 :])
            refused += loads_identically_or_refuses(path, fitted, header)
    assert refused > 900


def test_truncated_and_extended_files(fitted, tmp_path):
    path = tmp_path / "m"
    fitted.save(path)
    content, header = path.read_bytes(), read_header(path)
    cuts = [*range(12), *np.linspace(12, len(content) - 1, 150).astype(int)]
    for damaged in [
        *(content[:cut] for cut in cuts),
        content + b"\0",
        content * 2,
        b"\xff" * 64,
        b"PK\x03\x04" + content,
    ]:
        path.write_bytes(damaged)
        assert loads_identically_or_refuses(path, fitted, header)


def test_spliced_and_random_files(fitted, tmp_path):
    path = tmp_path / "m"
    fitted.save(path)
    content, header = path.read_bytes(), read_header(path)
    rng = np.random.default_rng(6)
    for _ in range(200):
        a, b, c = sorted(int(i) for i in rng.integers(0, len(content), 3))
        for damaged in (content[:a] + content[b:c] + content[a:], content[:a] + rng.bytes(b - a) + content[b:]):
            path.write_bytes(damaged)
            loads_identically_or_refuses(path, fitted, header)


def loads_identically_or_refuses(path, fitted, header):
    try:
        back = load(path)
    except ModelFileError:
        return 1
    assert same(read_header(path), header) and np.array_equal(back.coef_, fitted.coef_)
    return 0
