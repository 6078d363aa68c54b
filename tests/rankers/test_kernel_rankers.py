"""The kernel rankers: parameters, model files, pruning, precomputed matrices, devices."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

import hingerank as hr
from hingerank import FourierRankSVM, KernelRankSVM, NystroemRankSVM, RankSVM
from hingerank.features import maps as blocks
from hingerank.features.kernels import make_kernel

RANKERS = [KernelRankSVM, NystroemRankSVM, FourierRankSVM]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    qid = np.sort(rng.integers(0, 15, 220))
    X = rng.random((220, 5))
    y = np.clip(np.round(2 * np.sin(7 * X[:, 0]) + X[:, 1]), 0, 2)
    return X, y, qid


@pytest.mark.parametrize("make", RANKERS)
def test_what_is_not_linear_is_learned(make, data):
    X, y, qid = data
    assert make(gamma=2.0, C=10.0).fit(X, y, qid).score(X, y, qid) > RankSVM().fit(X, y, qid).score(X, y, qid) + 0.1


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "poly", "laplacian", "chi2", "cosine", "linear"])
def test_every_kernel_is_saved_and_loaded(kernel, data, tmp_path):
    X, y, qid = data
    for make in (KernelRankSVM, NystroemRankSVM):
        for rows in (X, sp.csr_matrix(X)):
            ranker = make(kernel=kernel, gamma=0.7, degree=2).fit(rows, y, qid)
            back = hr.load(ranker.save(tmp_path / "model"))
            assert np.array_equal(back.predict(rows), ranker.predict(rows)) and back.gamma_ == 0.7


def test_a_function_can_be_a_kernel_but_cannot_be_saved(data, tmp_path):
    X, y, qid = data
    named = KernelRankSVM("rbf", gamma=1.0, tol=1e-6).fit(X, y, qid)
    own = KernelRankSVM(lambda A, B: make_kernel("rbf", 1.0).matrix(A, B), tol=1e-6).fit(X, y, qid)
    np.testing.assert_allclose(own.predict(X), named.predict(X), atol=1e-5)
    for ranker in (own, NystroemRankSVM(20, kernel=lambda A, B: A @ B.T).fit(X, y, qid)):
        with pytest.raises(ValueError, match="contains no code"):
            ranker.save(tmp_path / "model")
    with pytest.raises(ValueError, match="cannot hold"):
        RankSVM(features=FunctionTransformer(np.abs)).fit(X, y, qid).save(tmp_path / "model")


def test_precomputed_matrices(data, tmp_path):
    X, y, qid = data
    shuffled = np.random.default_rng(1).permutation(len(y))  # rows of a query need not lie together
    X, y, qid = X[shuffled], y[shuffled], qid[shuffled]
    new = np.random.default_rng(2).random((30, 5))
    kernel = make_kernel("rbf", 1.3)
    K, across = kernel.matrix(X, X), kernel.matrix(new, X)
    ranker = KernelRankSVM("precomputed", C=2.0, tol=1e-10).fit(K, y, qid)
    plain = KernelRankSVM("rbf", gamma=1.3, C=2.0, tol=1e-10).fit(X, y, qid)
    np.testing.assert_allclose(ranker.predict(across), plain.predict(new), atol=1e-5)
    assert np.array_equal(hr.load(ranker.save(tmp_path / "model")).predict(across), ranker.predict(across))
    weight = np.ones(len(y))
    weight[::3] = 0
    left_out = KernelRankSVM("precomputed", tol=1e-10).fit(K, y, qid, sample_weight=weight)
    without = KernelRankSVM(gamma=1.3, tol=1e-10).fit(X[weight > 0], y[weight > 0], qid[weight > 0])
    np.testing.assert_allclose(left_out.predict(across), without.predict(new), atol=1e-5)
    assert weight[left_out.support_].all()
    with pytest.raises(ValueError, match="square matrix"):  # also of queries whose rows do not lie together
        KernelRankSVM("precomputed").fit(np.hstack([K, K[:, :2]]), y, np.random.default_rng(0).permutation(qid))
    with pytest.raises(ValueError, match="square matrix"):
        KernelRankSVM("precomputed").fit(K[:, :-1], y, qid)
    with pytest.raises(ValueError, match="symmetric"):
        KernelRankSVM("precomputed").fit(K + np.triu(K), y, qid)
    with pytest.raises(ValueError, match="dense matrix"):
        KernelRankSVM("precomputed", scale="standard").fit(K, y, qid)
    dual = KernelRankSVM("precomputed", loss="hinge", solver="dual").fit(K, y, qid)
    assert dual.score(K, y, qid) > 0.9


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_coefficients_that_are_zero_at_the_optimum_are_left_out(loss):
    """Rows of queries with one grade have no pairs; rows far apart have no active ones."""
    rng = np.random.default_rng(3)
    qid = np.repeat(np.arange(20), 10)
    y = rng.integers(0, 2, 200).astype(float)
    y[qid < 5] = 1.0
    X = rng.normal(size=(200, 3)) + 2.0 * y[:, None]
    ranker = KernelRankSVM(gamma=0.05, C=1.0, loss=loss, tol=1e-3).fit(X, y, qid)
    assert ranker.certificate_.converged and not np.isin(ranker.support_, np.flatnonzero(qid < 5)).any()
    assert len(ranker.support_) < 100 and ranker.support_rows_.shape == (len(ranker.support_), 3)
    np.testing.assert_array_equal(ranker.support_rows_, X[ranker.support_])
    strict = KernelRankSVM(gamma=0.05, C=1.0, loss=loss, tol=1e-5).fit(X, y, qid)
    assert strict.objective_ * (1 - 1e-4) <= ranker.objective_ <= strict.objective_ * 1.01
    assert len(strict.support_) <= len(ranker.support_) + 5


@pytest.mark.parametrize("make", RANKERS)
def test_scores_do_not_depend_on_how_many_rows_are_asked_for(make, data, monkeypatch):
    X, y, qid = data
    ranker = make(gamma=1.0).fit(X, y, qid)
    together = ranker.predict(X)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    np.testing.assert_allclose(ranker.predict(X), together, atol=1e-12)
    np.testing.assert_allclose([ranker.predict(X[k : k + 1])[0] for k in (0, 7)], together[[0, 7]], atol=1e-12)


def test_models_keep_no_training_row_beyond_landmarks(data, tmp_path):
    X, y, qid = data
    landmarks = NystroemRankSVM(12, gamma=1.0).fit(X, y, qid)
    assert landmarks.landmarks_.shape == (12, 5) and landmarks.coef_.shape == (12,)
    assert all(any(np.array_equal(row, x) for x in X) for row in landmarks.landmarks_)
    for ranker, room in ((landmarks, 12 * 5), (FourierRankSVM(12, gamma=1.0).fit(X, y, qid), 12 * 6)):
        held = sum(v.size for v in vars(ranker).values() if isinstance(v, np.ndarray))
        assert held <= room + 12
        names = hr.load(ranker.save(tmp_path / "model"))._state()
        assert sum(v.size for v in names.values() if isinstance(v, np.ndarray)) <= room + 12


def test_rank_is_a_parameter_and_a_method(data):
    X, y, qid = data
    ranker = NystroemRankSVM(30, gamma=1.0, rank=7).fit(X, y, qid)
    assert ranker.get_params()["rank"] == 7 and ranker.rank(X, qid, top=1).shape == (15,)
    assert ranker._new_map().fit(X).mixing_.shape == (30, 7)
    assert NystroemRankSVM(30, gamma=1.0).fit(X, y, qid).rank(X, qid).shape == (220,)


@pytest.mark.parametrize("make", RANKERS)
@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_the_size_of_the_numbers_does_not_matter(make, size, data):
    X, y, qid = data
    there = make().fit(X * size, y, qid)
    np.testing.assert_allclose(there.predict(X * size), make().fit(X, y, qid).predict(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("make", RANKERS)
def test_gamma_counts_weights_as_repeated_rows(make, data):
    X, y, qid = data
    weight = np.random.default_rng(5).integers(0, 3, len(y))
    ranker = make(scale=None).fit(X, y, qid, sample_weight=weight)
    assert ranker.gamma_ == pytest.approx(1 / np.repeat(X, weight, axis=0).var(axis=0).sum())
    assert make().fit(X, y, qid, sample_weight=weight).gamma_ == pytest.approx(1 / 5)  # of scaled rows


@pytest.mark.parametrize("make", RANKERS)
def test_limits_and_callbacks(make, data):
    X, y, qid = data
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert make(C=100.0, tol=1e-12, max_iter=1).fit(X, y, qid).certificate_.status == "max_iter"
    seen = []
    with pytest.warns(ConvergenceWarning):
        make(C=100.0, tol=1e-12, callback=lambda entry: seen.append(entry) or len(seen) == 2).fit(X, y, qid)
    assert len(seen) == 2
    with pytest.warns(UserWarning, match="no preference pairs"):
        assert not np.ptp(make().fit(X, np.ones(len(y)), qid).predict(X))


@pytest.mark.parametrize(
    "ranker, words",
    [
        (KernelRankSVM("rfb"), "no kernel 'rfb'"),
        (KernelRankSVM(C=0), "C must be a positive number"),
        (KernelRankSVM(gamma=0), "gamma must be"),
        (KernelRankSVM(loss="hinge", solver="newton"), "does not minimise"),
        (KernelRankSVM(loss="hinge", solver="cutting-plane"), "does not minimise"),
        (KernelRankSVM(memory_gb=-1), "memory_gb"),
        (FourierRankSVM(memory_gb="much"), "memory_gb"),
        (KernelRankSVM("polynomial", degree=2.5), "whole degree"),
        (KernelRankSVM("polynomial", degree=float("inf")), "whole degree"),
        (KernelRankSVM("polynomial", coef0=float("inf")), "coef0 of at least 0"),
        (KernelRankSVM("polynomial", coef0="1"), "coef0 of at least 0"),
        (NystroemRankSVM(kernel="poly", coef0=-1.0), "coef0 of at least 0"),
        (KernelRankSVM(gamma=10**400), "gamma must be"),
        (NystroemRankSVM("many"), "n_components must be"),
        (KernelRankSVM(device="tpu"), "device must be"),
        (NystroemRankSVM(0), "n_components"),
        (NystroemRankSVM(landmarks="all"), "landmarks must be"),
        (FourierRankSVM(-3), "n_components"),
        (FourierRankSVM(device="warp"), "device must be"),
        (RankSVM(features="rbf"), "fit and transform"),
    ],
)
def test_wrong_parameters_are_named(ranker, words, data):
    X, y, qid = data
    if "device" in words:
        pytest.importorskip("torch")
    with pytest.raises(ValueError, match=words):
        ranker.fit(X, y, qid)


def test_the_dual_says_that_it_is_for_small_data():
    X, y = np.random.default_rng(0).random((6100, 2)), np.arange(6100) % 2
    with pytest.raises(ValueError, match="at most 6000 rows"):
        KernelRankSVM(loss="hinge", solver="dual", memory_gb=0).fit(X, y, np.arange(6100) // 5)


def test_altered_models_are_refused(data, tmp_path):
    X, y, qid = data
    for make, name in ((KernelRankSVM, "dual_coef_"), (NystroemRankSVM, "coef_"), (FourierRankSVM, "coef_")):
        ranker = make(gamma=1.0).fit(X, y, qid)
        setattr(ranker, name, getattr(ranker, name)[:-1])
        with pytest.raises(ValueError, match=r"cannot save: .* has shape"):
            ranker.save(tmp_path / "model")


class TestDevices:
    """The GPU's code, run by PyTorch's CPU build."""

    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch")

    @pytest.mark.parametrize("make", RANKERS)
    @pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
    def test_answers_are_those_of_the_cpu(self, make, loss, data):
        X, y, qid = data
        options = {"gamma": 1.0, "C": 0.5, "loss": loss}
        here = make(**options).fit(X, y, qid)
        there = make(device="torch-cpu", **options).fit(X, y, qid)
        assert there.certificate_.converged
        assert there.objective_ == pytest.approx(here.objective_, rel=3e-3)
        assert np.corrcoef(there.predict(X), here.predict(X))[0, 1] > 0.999

    @pytest.mark.parametrize("kernel", ["polynomial", "laplacian", "chi2", "cosine", "linear"])
    def test_every_kernel(self, kernel, data):
        from hingerank.problem.torch_design import TorchGram, check_device

        X = data[0]
        v = np.random.default_rng(0).normal(size=len(X))
        for rows in (X, sp.csr_matrix(X)):
            gram = TorchGram(make_kernel(kernel, 0.5, 2), rows, check_device("torch-cpu"))
            np.testing.assert_allclose(gram.home(gram.product(gram.away(v))), gram.matrix() @ v, atol=1e-3)

    def test_without_a_gpu_it_says_so(self, torch, data):
        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
        with pytest.raises(ValueError, match="sees no NVIDIA GPU"):
            KernelRankSVM(device="cuda").fit(*data)

    def test_path(self, data):
        X, y, qid = data
        path = NystroemRankSVM(30, gamma=1.0, device="torch-cpu").fit_path(X, y, qid, Cs=[0.1, 1.0])
        assert all(member.certificate_.converged for member in path)


def test_without_pytorch_it_says_so(data, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="needs PyTorch"):
        FourierRankSVM(device="cuda").fit(*data)


def test_a_fit_to_pairs_is_as_complete_as_one_to_grades(data):
    """So that predict changes nothing, and the model file says how many pairs it was trained on."""
    X = data[0]
    for ranker in (hr.KernelRankSVM(gamma=0.1), hr.NystroemRankSVM(5, gamma=0.1), hr.FourierRankSVM(8, gamma=0.1)):
        ranker.fit_pairs(X, [0, 1, 2], [3, 4, 5])
        before = set(vars(ranker))
        ranker.predict(X)
        assert set(vars(ranker)) == before
        assert ranker.fingerprint_["pairs"] == 3 and ranker.validation_scores_ == []
