"""Against Joachims' SVMrank: its stored models, scores and objective on every fold of OHSUMED and MQ2008."""

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.export.svmlight import C_from_svmrank, C_to_svmrank, read_linear_model, write_svmrank_model
from hingerank.losses import hinge

DATA = Path(os.environ.get("HINGERANK_DATA", Path(__file__).parents[3] / "shared" / "data"))
REFERENCE = DATA / "svm_rank-reference" / "all.tar.xz"
SETS = {"OHSUMED": "OHSUMED/QueryLevelNorm", "Mq2008": "MQ2008"}

needs_data = pytest.mark.skipif(not REFERENCE.exists(), reason="real data not found: set HINGERANK_DATA to its folder")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("svmrank")
    with tarfile.open(REFERENCE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "svm_rank-reference" / "data"


@needs_data
@pytest.mark.parametrize("name", SETS)
def test_stored_scores_and_objective(reference, name):
    parts = [hr.read(DATA / SETS[name] / f"S{k}.txt.xz", dtype="float64") for k in range(1, 6)]
    for fold in range(1, 6):
        files = reference / name / f"Fold{fold}"
        ids = [(fold - 1 + k) % 5 for k in range(5)]
        train = [parts[k] for k in sorted(ids[:3])]  # SVMrank's files have the parts in ascending order
        X, y = (np.concatenate([getattr(p, what) for p in train]) for what in ("X", "y"))
        qid = np.concatenate([p.qid for p in train])
        theirs = read_linear_model(files / "final_model", X.shape[1])
        test = parts[ids[4]]
        stored = {"train_score": X, "vali_score": parts[ids[3]].X, "test_score": test.X}
        for file, rows in stored.items():
            np.testing.assert_allclose(theirs.predict(rows), np.loadtxt(files / file), atol=1e-6)
        c = float((files / "bestPars").read_text().split()[1])
        ours = hr.RankSVM(C=C_from_svmrank(c, len(np.unique(qid))), loss="hinge", tol=1e-4).fit(X, y, qid=qid)
        blocks = hr.RankingData.from_arrays(X, y, qid).blocks
        preferences = hr.GradedPreferences(blocks.gather(y), blocks.offsets)
        w = theirs.coef_
        value = 0.5 * w @ w + ours.C * hinge().at(blocks.gather(X) @ w, preferences).value
        assert ours.objective_ <= value * (1 + 1e-4)  # never above it, beyond our own tolerance
        assert ours.objective_ >= value * (1 - 2e-3)  # and below it by no more than SVMrank's own tolerance
        assert spearmanr(ours.predict(test.X), theirs.predict(test.X))[0] > 0.99


def test_conventions_are_inverse():
    assert C_to_svmrank(C_from_svmrank(3.0, 60), 60) == 3.0


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_write_then_read(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.integers(0, 3, 40)
    ranker = hr.RankSVM(C=0.1).fit(X, y)
    write_svmrank_model(ranker, tmp_path / "model.txt")
    again = read_linear_model(tmp_path / "model.txt", 5)
    np.testing.assert_array_equal(again.coef_, ranker.coef_)
    with pytest.raises(ValueError, match="scales its features"):
        write_svmrank_model(hr.RankSVM(scale="standard").fit(X, y), tmp_path / "scaled.txt")
    with pytest.raises(ValueError, match="has learned what missing values mean"):
        write_svmrank_model(hr.RankSVM(missing="indicator").fit(np.where(X > 1, np.nan, X), y), tmp_path / "m.txt")
    with pytest.raises(ValueError, match="no format carries context='rank'"):
        write_svmrank_model(hr.RankSVM(context="rank").fit(X, y), tmp_path / "m.txt")


def test_support_vectors_are_summed(tmp_path):
    """SVM-light lists support vectors with their multipliers; a linear model is their sum."""
    head = "SVM-light Version V6.20\n0 # kernel type\n" + "3 #\n" * 5 + "4 # highest\n3 #\n3 #\n0.5 # threshold\n"
    (tmp_path / "m").write_text(head + "0.5 1:2 3:1 #\n-1 1:1 2:4 #\n")
    np.testing.assert_array_equal(read_linear_model(tmp_path / "m").coef_, [0.0, -4.0, 0.5])


def test_liblinear(tmp_path):
    text = "solver_type L2R_L2LOSS_RANKSVM\nnr_class 2\nnr_feature 3\nbias -1\nw\n0.25 \n-1 \n3e-2 \n"
    (tmp_path / "m").write_text(text)
    np.testing.assert_array_equal(read_linear_model(tmp_path / "m").coef_, [0.25, -1.0, 0.03])
    np.testing.assert_array_equal(read_linear_model(tmp_path / "m", 4).coef_, [0.25, -1.0, 0.03, 0.0])


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "expected a model of SVM-light"),
        ("PK\x03\x04", "expected a model of SVM-light"),
        ("SVM-light Version V6.20\n2 # kernel type\n", "only linear models"),
        ("SVM-light V\n0 #\n" + "1 #\n" * 5 + "x #\n1 #\n2 #\n0 #\n", "line 8: found 'x'"),
        ("SVM-light V\n0 #\n" + "1 #\n" * 5 + "4000000000 #\n1 #\n2 #\n0 #\n", "at most"),
        ("SVM-light V\n0 #\n" + "1 #\n" * 5 + "3 #\n1 #\n2 #\n0 #\n1 9:2 #\n", "line 12: found '9:2'"),
        ("SVM-light V\n0 #\n" + "1 #\n" * 5 + "3 #\n1 #\n2 #\n0 #\n1 1:nan #\n", "finite"),
        ("solver_type X\nnr_class 2\nnr_feature 3\nbias -1\nw\n1\n", "cut short"),
        ("solver_type X\nnr_class 7\nnr_feature 3\nbias -1\nw\n1\n", "7 classes"),
    ],
)
def test_bad_files_are_named(tmp_path, text, words):
    (tmp_path / "model").write_text(text)
    with pytest.raises(DataError, match=words):
        read_linear_model(tmp_path / "model")
