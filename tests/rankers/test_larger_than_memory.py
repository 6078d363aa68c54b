"""Mapped data are read where they lie: the answers of a copy, without the copy."""

import ctypes
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data import rows_view
from hingerank.data.rows_view import RowsView, StackedRows, expected_bytes, is_mapped
from hingerank.registry import RANKERS as REGISTERED
from hingerank.registry import ranker_class

SCALES = [None, "standard", "minmax", "maxabs", "deviation", "query-minmax", "query-standard", "log", "quantile"]
RANKERS = {
    "RankSVM": {},
    "RankNet": {},
    "ListNet": {},
    "ListMLE": {},
    "RankRLS": {},
    "CRR": {},
    "AdditiveRankSVM": {"n_knots": 5},
    "FenchelRank": {"radius": 5.0},
    "SparseRankSVM": {},
    "NystroemRankSVM": {"n_components": 20, "gamma": 0.1},
    "FourierRankSVM": {"n_components": 20, "gamma": 0.1},
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """(in memory, mapped): dense float32, CSR, and dense with the rows of the queries in disorder."""
    data, place = hr.make_letor(60, 12, seed=3), tmp_path_factory.mktemp("mapped")
    small = replace(data, X=(data.X * 5 + 1).astype(np.float32))
    kinds = {
        "dense": small,
        "sparse": replace(data, X=sp.csr_matrix(np.where(data.X > 0.3, data.X, 0.0))),
        "disorder": small.take(np.random.default_rng(0).permutation(small.n_rows)),
    }
    for kind, rows in kinds.items():
        hr.write(rows, place / kind / "")
    return {kind: (rows, hr.read(place / kind)) for kind, rows in kinds.items()}


@pytest.mark.filterwarnings("ignore::hingerank.ScaleWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", [name for name in REGISTERED if getattr(ranker_class(name), "_farthest", "") == "mapped"]
)
def test_rankers_that_look_at_all_rows_take_mapped_ones_too(pairs, monkeypatch, name):
    monkeypatch.setattr(rows_view, "MOST_COPIED", 0)
    few = {"max_iter": 3} if "max_iter" in ranker_class(name)._get_param_names() else {}
    for kind in ("dense", "sparse", "disorder"):
        for scale in (None, "deviation"):
            one, other = (ranker_class(name)(scale=scale, **few).fit(data) for data in pairs[kind])
            np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-3, atol=1e-5 * np.abs(one.coef_).max())


def fitted(name, data, scale, **more):
    return getattr(hr, name)(scale=scale, tol=1e-7, **RANKERS[name], **more).fit(data)


@pytest.fixture
def no_copies(monkeypatch):
    """Blocks of a few rows, and an error where all rows are asked for at once."""
    monkeypatch.setattr(rows_view, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(rows_view, "MOST_COPIED", 0)

    def refuse(self, why):
        raise AssertionError(f"all rows were copied for {why}")

    monkeypatch.setattr(RowsView, "copied", refuse)


@pytest.mark.filterwarnings("ignore::hingerank.ScaleWarning")
@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "disorder"])
def test_a_mapped_fit_has_the_answer_of_one_in_memory(pairs, no_copies, name, kind):
    memory, mapped = pairs[kind]
    assert is_mapped(mapped.X) and not is_mapped(memory.X)
    if (name, kind) == ("AdditiveRankSVM", "sparse"):
        with pytest.raises(AssertionError, match=r"all rows were copied for .* sparse rows"):
            fitted(name, mapped, None)
        return
    hashed = name == "NystroemRankSVM"  # which rows are drawn hangs on their last bits
    scales = [s for s in SCALES if not (kind == "sparse" and s in ("minmax", "quantile"))]
    for scale in (
        scales if name == "RankSVM" else [None, "query-minmax"] if hashed else [None, "standard", "query-minmax"]
    ):
        one, other = fitted(name, memory, scale), fitted(name, mapped, scale)
        assert other.certificate_.converged and other.objective_ == pytest.approx(one.objective_, rel=1e-6), scale
        a, b = one.predict(memory), other.predict(mapped)
        assert np.abs(a - b).max() <= 2e-3 * np.abs(a).max(), scale
        assert other.fingerprint_ == one.fingerprint_


@pytest.mark.parametrize("scale", ["standard", "query-minmax"])
def test_weights_count_in_mapped_fits(pairs, no_copies, scale):
    memory, mapped = pairs["dense"]
    weight = np.random.default_rng(1).integers(0, 3, memory.n_rows).astype(float)
    one = hr.RankSVM(scale=scale, tol=1e-7).fit(memory, sample_weight=weight)
    other = hr.RankSVM(scale=scale, tol=1e-7).fit(mapped, sample_weight=weight)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-7)


@pytest.mark.parametrize("scale", ["standard", "log"])
def test_explicit_pairs_over_mapped_rows(pairs, no_copies, scale):
    memory, mapped = pairs["dense"]
    winners, losers = np.arange(0, 40), np.arange(40, 80)
    one = hr.RankSVM(scale=scale, tol=1e-7).fit_pairs(memory, winners, losers)
    other = hr.RankSVM(scale=scale, tol=1e-7).fit_pairs(mapped, winners, losers)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-7)


def test_the_hessian_of_blocks_is_that_of_the_rows(pairs, no_copies):
    memory, mapped = pairs["dense"]
    from hingerank.losses import squared_hinge
    from hingerank.preferences import GradedPreferences
    from hingerank.problem.mapped import StreamedDesign
    from hingerank.problem.problem import RowsDesign

    preferences = GradedPreferences(memory.y, memory.blocks.offsets)
    w = np.random.default_rng(0).normal(size=memory.n_features)
    one = RowsDesign(memory.X).sweep(squared_hinge(), preferences)
    other = StreamedDesign(RowsView(mapped.X)).sweep(squared_hinge(), preferences)
    for stride in (1, 3):
        np.testing.assert_allclose(other.hessian(w, stride), one.hessian(w, stride), rtol=1e-10)


def test_not_finite_values_are_named(no_copies, tmp_path):
    data = hr.make_letor(20, 10, seed=0)
    X = data.X.copy()
    X[7, 3] = np.inf
    hr.write(replace(data, X=X), tmp_path / "bad" / "")
    bad = hr.read(tmp_path / "bad")
    for scale in (None, "query-minmax"):
        with pytest.raises(hr.DataError, match="infinite at row 7, column 3"):
            hr.RankSVM(scale=scale).fit(bad)
    hr.write(data, tmp_path / "good" / "")
    ranker = hr.RankSVM().fit(hr.read(tmp_path / "good"))
    with pytest.raises(hr.DataError, match="infinite"):
        ranker.predict(bad)


def test_a_machine_too_small_says_so_before_it_starts(pairs, no_copies, monkeypatch):
    _, mapped = pairs["dense"]
    monkeypatch.setattr(rows_view, "machine_memory", lambda: 100_000_000)
    needs = r"needs about 0\.20 GB in addition to the file, and this machine has 0\.10 GB"
    with pytest.raises(hr.DataError, match=needs):
        hr.RankSVM().fit(mapped)
    assert expected_bytes(10**9, 136, 1000) < 64.5e9


PEAK = """
import sys, warnings, numpy as np, hingerank as hr
warnings.simplefilter("ignore")
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) * 1024
from hingerank.data import rows_view
rows_view.MOST_COPIED = 0
small, large = hr.read(sys.argv[1], verify=False), hr.read(sys.argv[2], verify=False)
import threading, time
for name, scale in [("RankSVM", "standard"), ("RankSVM", "query-minmax"), ("SparseRankSVM", "query-standard"),
                    ("RankRLS", "standard")]:
    ranker = getattr(hr, name)(scale=scale, tol=0.1)
    ranker.fit(small).predict(small)
    before, peak, done = anonymous(), 0, False
    def watch():
        global peak
        while not done:
            peak = max(peak, anonymous())
            time.sleep(0.001)
    thread = threading.Thread(target=watch)
    thread.start()
    ranker.fit(large).predict(large)
    done = True
    thread.join()
    print(name, scale, peak - before)
"""


def test_tune_and_folds_make_no_copies(pairs, no_copies):
    memory, mapped = pairs["disorder"]
    grid = {"C": [0.01, 1.0], "scale": ["standard", "query-minmax"], "tol": 1e-6}
    one = hr.tune("rank-svm", memory, folds=2, params=grid, widen=False)  # too few to stop a setting
    other = hr.tune("rank-svm", mapped, folds=2, params=grid, widen=False)
    assert isinstance(mapped.subset(mapped.blocks.ids[::2].tolist()).X, RowsView)
    assert other.tuning_.best == one.tuning_.best
    for a, b in zip(one.tuning_.trials, other.tuning_.trials):
        assert b.problem is None and b.scores == pytest.approx(a.scores, abs=2e-3)


@pytest.mark.parametrize("kind", ["dense", "sparse", "disorder"])
def test_tune_with_a_validation_set_makes_no_copies(pairs, no_copies, kind):
    """Its last fit is on both sets together."""
    grid = {"C": [0.01, 1.0], "scale": ["maxabs", "query-standard"], "tol": 1e-7}
    found = []
    for data in pairs[kind]:
        train, check = data.subset(data.blocks.ids[:40].tolist()), data.subset(data.blocks.ids[40:].tolist())
        found.append(hr.tune("rank-svm", train, validation=check, params=grid, widen=False))
    one, other = found
    assert other.tuning_.best == one.tuning_.best and other.fingerprint_["rows"] == one.fingerprint_["rows"]
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)


def test_stacked_rows_are_those_of_their_members(pairs, no_copies):
    memory, mapped = pairs["dense"]
    rng, view = np.random.default_rng(0), mapped.subset(mapped.blocks.ids[::3].tolist())
    for members, expected in [
        ([mapped.X, view.X, memory.X[:5]], np.concatenate([memory.X, np.asarray(view.X[:]), memory.X[:5]])),
        ([sp.csr_matrix(memory.X), mapped.X[:7]], np.concatenate([memory.X, memory.X[:7]])),
    ]:
        stacked = StackedRows(members)
        dense = (lambda X: X.toarray()) if stacked.sparse else np.asarray
        n, some = len(expected), rng.integers(0, len(expected), 50)
        assert stacked.shape == expected.shape
        for a, b in [(0, n), (3, 9), (memory.n_rows - 2, memory.n_rows + 3), (n - 1, n), (5, 5)]:
            np.testing.assert_array_equal(dense(stacked[a:b]), expected[a:b])
            np.testing.assert_array_equal(dense(RowsView(stacked, some).block(0, 50)), expected[some])


def test_compare_makes_no_copies(pairs, no_copies):
    from hingerank.lab import Method, query_folds

    method = Method("linear", hr.RankSVM, {"C": [0.01, 1.0]}, {"scale": "query-minmax", "tol": 1e-7})
    found = [hr.compare([method], query_folds(data, 3), workers=1) for data in pairs["dense"]]
    means = [results.fold_means("linear", "ndcg@10") for results in found]
    assert not found[1].failures() and means[0] == pytest.approx(means[1], abs=1e-3)


def test_small_mapped_data_are_copied_where_that_is_faster(pairs):
    assert not is_mapped(pairs["dense"][1].X)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_no_copy_is_made(tmp_path):
    """The peak beside the mapping stays far below the rows themselves."""
    data = hr.make_letor(1500, 40, 200, seed=0)
    data = replace(data, X=data.X.astype(np.float32))
    hr.write(data.subset(data.blocks.ids[:20].tolist()), tmp_path / "small" / "")
    hr.write(data, tmp_path / "large" / "")
    run = [sys.executable, "-c", PEAK, tmp_path / "small", tmp_path / "large"]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        assert int(line.split()[-1]) < 64 * data.n_rows + 24e6 < data.X.nbytes, printed


BESIDE = """
import ctypes, gc, json, sys, threading, time, warnings, hingerank as hr
from hingerank.data import rows_view
warnings.simplefilter("ignore")
rows_view.MOST_COPIED = 0
small, large = hr.read(sys.argv[1], verify=False), hr.read(sys.argv[2], verify=False)
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) * 1024
for name, settings in json.loads(sys.argv[3]):
    ranker = getattr(hr, name)(**settings)
    ranker.fit(small)
    peak, done = [0], threading.Event()
    def watch():
        while not done.wait(0.001):
            peak[0] = max(peak[0], anonymous())
    watcher = threading.Thread(target=watch)
    before = anonymous()
    watcher.start()
    ranker.fit(large)
    done.set()
    watcher.join()
    print(json.dumps([name, settings, peak[0] - before, ranker._bytes_a_row]), flush=True)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what a fit gave back is not there for the next
"""
WATCHED = [
    ("RankSVM", {"scale": "query-minmax"}),
    ("RankSVM", {"loss": "hinge", "tol": 0.1}),
    ("AdditiveRankSVM", {"n_knots": 5}),
    ("FenchelRank", {"radius": 5.0, "tol": 0.1}),
    ("RankNet", {"tol": 0.1}),
    ("ListNet", {}),
    ("ListMLE", {"tol": 0.1}),
    ("RankRLS", {}),
    ("CRR", {}),
    ("RankCosine", {"max_iter": 2}),
    ("SVMMAP", {"max_iter": 2}),
    ("LambdaRank", {"max_iter": 1}),
]


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="reads /proc")
@pytest.mark.slow
def test_no_fit_takes_more_than_is_said_before(tmp_path):
    """Peaks above what the process had before, of rows so narrow that what is kept for each of them counts.

    Of the 200 MB that come on top, the program itself takes 150, and blocks and samples of rows 30.
    """
    rng, n = np.random.default_rng(0), 1_000_000
    data = hr.RankingData(rng.standard_normal((n, 3), np.float32), rng.integers(0, 3, n), np.arange(n) // 10)
    hr.write(data, tmp_path / "large" / "")
    hr.write(data.take(np.arange(1000)), tmp_path / "small" / "")
    run = [sys.executable, "-c", BESIDE, tmp_path / "small", tmp_path / "large", json.dumps(WATCHED)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(WATCHED)
    over = [(name, settings, peak / n) for name, settings, peak, said in found if peak > said * n + 30e6]
    assert not over, over
    assert all(said <= 80 or name == "LambdaRank" for name, _, _, said in found)
