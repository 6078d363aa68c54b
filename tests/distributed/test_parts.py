"""A fit over parts is the fit of their rows together; queries are whole, and what cannot be learnt is said."""

from dataclasses import replace

import numpy as np
import pytest

import hingerank as hr
from hingerank.distributed import parted_data
from hingerank.distributed import parts as parts_module
from hingerank.metrics import parse_measure

RANKERS = {
    "RankSVM": {},
    "RankNet": {},
    "ListNet": {},
    "ListMLE": {},
    "FRank": {},
    "RankRLS": {"pair_weight": "rows"},
    "CRR": {"C": 100.0},
    "PointwiseRegression": {},
    "FenchelRank": {"radius": 5.0},
    "SparseRankSVM": {"ridge": 0.1},
    "NystroemRankSVM": {"n_components": 20, "gamma": 0.1},
    "FourierRankSVM": {"n_components": 20, "gamma": 0.1},
}


@pytest.fixture(scope="module")
def data():
    made = hr.make_letor(90, 12, seed=1)
    return hr.RankingData((made.X * 3).astype(np.float32), made.y, made.qid)


@pytest.fixture(scope="module")
def paths(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("parts")
    forms = ["a/", "b.txt", "c.parquet", "d/"]
    for form, ids in zip(forms, np.array_split(data.blocks.ids, 4)):
        hr.write(data.subset(ids.tolist()), f"{place}/{form}")
    return [str(place / form.rstrip("/")) for form in forms]


@pytest.fixture
def parts(paths):
    return hr.distributed.read([paths[0], paths[3]])


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "data"
    hr.write(data, f"{path}/")
    return str(path)


@pytest.mark.filterwarnings("ignore::hingerank.ScaleWarning")
@pytest.mark.parametrize("name", RANKERS)
def test_parts_have_the_answer_of_the_whole(data, folder, name):
    spread = hr.distributed.read(folder, parts=5)
    assert len(spread.parts) == 5 and (spread.n_rows, spread.n_queries) == (data.n_rows, data.n_queries)
    mapped = name in ("NystroemRankSVM", "FourierRankSVM")
    for scale in [None] if mapped else [None, "standard", "query-minmax"]:
        one = getattr(hr, name)(scale=scale, tol=1e-7, **RANKERS[name]).fit(data)
        other = getattr(hr, name)(scale=scale, tol=1e-7, **RANKERS[name]).fit(spread)
        assert other.certificate_.converged and other.n_pairs_ == one.n_pairs_
        assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
        np.testing.assert_allclose(other.predict(spread), other.predict(data), rtol=1e-5, atol=1e-5)
        assert other.score(spread) == pytest.approx(other.score(data))


@pytest.mark.parametrize("name", ["SVMMAP", "SoftRank", "RankCosine"])
def test_parts_of_losses_of_measures(data, folder, name):
    one, other = (getattr(hr, name)(tol=1e-5).fit(rows) for rows in (data, hr.distributed.read(folder, parts=4)))
    assert other.certificate_.converged and other.objective_ == pytest.approx(one.objective_, rel=1e-5)


def test_the_bits_do_not_depend_on_samples_being_fetched_or_on_how_parts_are_held(data, folder, monkeypatch):
    spread = hr.distributed.read(folder, parts=3)
    first = hr.RankSVM(tol=1e-9).fit(spread)
    again = hr.RankSVM(tol=1e-9).fit(hr.distributed.read(folder, parts=3))
    assert np.array_equal(first.coef_, again.coef_)
    parts_module.forget(spread.parts)
    assert np.array_equal(first.coef_, hr.RankSVM(tol=1e-9).fit(spread).coef_)


def test_samples_of_parts_start_a_fit(tmp_path, monkeypatch):
    """Both ways to solve a sample: fetched, and asked for round by round."""
    from hingerank.problem import problem

    monkeypatch.setattr(problem, "ROWS_OF_A_SAMPLE", 100)
    made = hr.make_letor(1200, 8, 5, seed=2)
    hr.write(made, tmp_path / "data" / "")
    whole, spread = hr.RankSVM(tol=1e-8).fit(made), hr.distributed.read(tmp_path / "data", parts=3)
    fetched = hr.RankSVM(tol=1e-8).fit(spread)
    monkeypatch.setattr(parted_data, "SAMPLE_BYTES", 0)
    asked = hr.RankSVM(tol=1e-8).fit(spread)
    assert fetched.objective_ == pytest.approx(whole.objective_, rel=1e-8)
    assert asked.objective_ == pytest.approx(whole.objective_, rel=1e-8)


def test_text_tables_and_folders_are_parts(data, paths):
    one = hr.RankSVM(tol=1e-8, scale="query-minmax").fit(data)
    for some in (paths[1:2], paths[2:3], paths[3:]):
        assert hr.distributed.read(some).n_rows > 0
    tables = hr.distributed.read([paths[0], paths[3]])
    assert tables.n_queries == 45 + 1 or tables.n_queries < data.n_queries
    assert one.score(tables) == pytest.approx(
        np.mean(
            np.concatenate(
                [
                    hr.evaluate(d.y, one.predict(d), d.qid, "ndcg@10", per_query=True)["ndcg@10"]
                    for d in map(hr.read, (paths[0], paths[3]))
                ]
            )
        )
    )


def test_a_query_in_two_parts_is_refused_by_its_id_or_brought_together(data, tmp_path):
    third = data.n_rows // 3 + 5  # inside a query
    hr.write(data.take(np.arange(third)), tmp_path / "a" / "")
    hr.write(data.take(np.arange(third, data.n_rows)), tmp_path / "b" / "")
    query = data.qid[third]
    with pytest.raises(hr.DataError, match=f"query {query} is in several parts"):
        hr.distributed.read([tmp_path / "a", tmp_path / "b"])
    joined = hr.distributed.read([tmp_path / "a", tmp_path / "b"], spanning="join")
    assert (joined.n_rows, joined.n_queries) == (data.n_rows, data.n_queries)
    one, other = hr.RankSVM(tol=1e-8).fit(data), hr.RankSVM(tol=1e-8).fit(joined)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-8)


@pytest.mark.parametrize("solver", ["smoothing", "cutting-plane"])
def test_the_hinge_over_parts(data, folder, solver):
    """Its solvers change the loss on their way, or need the moments of the pairs."""
    spread = hr.distributed.read(folder, parts=3)
    one = hr.RankSVM(loss="hinge", solver="smoothing", tol=1e-5).fit(data)
    other = hr.RankSVM(loss="hinge", solver=solver, tol=1e-5).fit(spread)
    assert other.certificate_.converged and other.objective_ == pytest.approx(one.objective_, rel=2e-5)


def test_closed_parts_are_read_again(folder):
    spread = hr.distributed.read(folder, parts=3)
    first, before = hr.RankSVM().fit(spread), parts_module.LOADED[0]
    spread.close()
    assert np.array_equal(hr.RankSVM().fit(spread).coef_, first.coef_)
    assert parts_module.LOADED[0] - before == 3


def test_a_path_of_rankers_over_parts(data, folder):
    spread = hr.distributed.read(folder, parts=3)
    found = hr.RankSVM(tol=1e-7).fit_path(spread, Cs=[0.1, 1.0])
    for ranker, C in zip(found, (0.1, 1.0)):
        assert ranker.objective_ == pytest.approx(hr.RankSVM(C=C, tol=1e-7).fit(data).objective_, rel=1e-6)


def test_what_cannot_be_learnt_from_parts_is_said(folder, data):
    spread = hr.distributed.read(folder, parts=2)
    for ranker in (hr.RankBoost(), hr.KernelRankSVM(), hr.TGRank(), hr.RSRank(), hr.LambdaRank()):
        with pytest.raises(ValueError, match="does not learn from data in parts"):
            ranker.fit(spread)
    with pytest.raises(ValueError, match="leave out qid"):
        hr.RankSVM().fit(spread, qid=data.qid)
    fitted = hr.RankSVM().fit(spread)
    with pytest.raises(ValueError, match="leave out y"):
        fitted.score(spread, data.y)
    for call in (fitted.rank, fitted.explain, lambda X: hr.RankSVM().fit_pairs(X, [0], [1])):
        with pytest.raises(ValueError, match="not data in parts"):
            call(spread)
    with pytest.raises(ValueError, match="leave out sample_weight"):
        fitted.score(spread, sample_weight=np.ones(spread.n_rows))
    with pytest.raises(ValueError, match="leave out qid"):
        fitted.predict(spread, data.qid)
    with pytest.raises(ValueError, match="solver='dual'"):
        hr.RankSVM(loss="hinge", solver="dual").fit(spread)
    with pytest.raises(ValueError, match="grade_weight"):
        hr.RankSVM(grade_weight=np.ones((3, 3))).fit(spread)
    with pytest.raises(ValueError, match="scale by columns"):
        hr.FourierRankSVM(scale="query-minmax").fit(spread)


def test_values_that_are_not_finite_name_the_part(data, tmp_path):
    X = data.X.copy()
    X[3, 4] = np.nan
    hr.write(replace(data, X=X), tmp_path / "bad" / "")
    with pytest.raises(hr.DataError, match=r"bad: in the block of rows .* NaN \(a missing value\) at row 3, column 4"):
        hr.RankSVM().fit(hr.distributed.read(tmp_path / "bad"))


def test_a_checkpoint_is_where_a_fit_goes_on(data, folder, tmp_path):
    spread, checkpoint = hr.distributed.read(folder, parts=2), hr.distributed.Checkpoint(tmp_path / "w.npy")
    with pytest.raises(hr.DataError, match="no weights"):
        checkpoint.weights()
    whole = hr.RankSVM(tol=1e-8, callback=checkpoint).fit(spread)
    assert np.array_equal(checkpoint.weights(), whole.coef_) and "w" not in whole.trace_[0]
    assert hr.RankSVM(tol=1e-8, init=checkpoint.weights()).fit(spread).certificate_.n_iter == 0


def test_tuning_over_parts(data, folder):
    spread = hr.distributed.read(folder, parts=3)
    grid = {"C": [0.001, 1.0], "scale": ["standard", "query-minmax"]}
    found = hr.tune("rank-svm", spread, folds=2, params=grid, widen=False)  # too few to stop a setting
    assert len(found.tuning_.trials) == 4 and all(trial.problem is None for trial in found.tuning_.trials)
    assert len(found.tuning_.chosen.scores) == 2 and found.certificate_.converged
    train, check = spread.fold(0, 4, False), spread.fold(0, 4, True)
    last = hr.tune("rank-svm", train, validation=check, params={"C": [0.01, 1.0]}, widen=False)
    assert last.fingerprint_["rows"] == data.n_rows


def test_ties_are_broken_by_the_document_ids_of_a_part(data, tmp_path):
    few = np.sign(data.X[:, :2] - np.median(data.X[:, :2], axis=0))
    rows = hr.RankingData.from_arrays(few, data.y, data.qid, docid=np.arange(data.n_rows) % 7)
    ranker, measure = hr.RankSVM(C=1.0).fit(rows), "ndcg@3:trec"
    expected = hr.evaluate(rows, ranker.predict(rows), measures=measure)
    hr.write(rows, f"{tmp_path}/rows/")
    parts = hr.distributed.read(str(tmp_path / "rows"))
    assert hr.distributed.evaluate(ranker, parts, measure) == pytest.approx(expected, abs=1e-12)


def test_the_scale_of_err_is_that_of_all_parts(data, tmp_path):
    """Only one row has the highest grade, so only one part."""
    data = replace(data, y=np.where(np.arange(data.n_rows) == 0, 4.0, np.minimum(data.y, 2)))
    hr.write(data, tmp_path / "whole.txt")
    rows, parts = hr.read(tmp_path / "whole.txt"), hr.distributed.read(tmp_path / "whole.txt", parts=3)
    ranker = hr.RankSVM(C=0.01).fit(rows)
    expected = hr.evaluate(rows, ranker.predict(rows), measures=["err@10", "ndcg@10"])
    assert hr.distributed.evaluate(ranker, parts, ["err@10", "ndcg@10"]) == pytest.approx(expected, abs=1e-12)
    alone = hr.distributed.evaluate(ranker, parts, parse_measure("err@10"))
    assert alone == pytest.approx({"err@10": expected["err@10"]}, abs=1e-12)
    with pytest.raises(ValueError, match="a measure is a name"):
        hr.distributed.evaluate(ranker, parts, lambda y, scores: 1.0)
    with pytest.raises(ValueError, match=r"must be rows in parts .*, not .*Data; hingerank.evaluate measures rows in"):
        hr.distributed.evaluate(ranker, hr.make_letor(2))
    choices = {"params": {"C": [0.01, 1.0]}, "measure": "err@10", "folds": 2}
    trials = hr.tune("rank-svm", parts, **choices).tuning_.trials
    fixed = hr.tune("rank-svm", parts, **choices | {"measure": "err@10:max_grade=4"}).tuning_.trials
    assert [trial.mean for trial in trials] == [trial.mean for trial in fixed]


def test_folds_of_parts_share_no_query(folder):
    spread = hr.distributed.read(folder, parts=3)
    held, rest = spread.fold(1, 4, True), spread.fold(1, 4, False)
    assert held.n_queries + rest.n_queries == spread.n_queries
    ids = [set(np.concatenate([facts.ids for facts in some.facts]).tolist()) for some in (held, rest)]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("settings", [{"alpha": 0.3}, {"loss": "logistic", "C": 10.0}, {"scale": "query-minmax"}])
def test_regression_counts_from_the_means_of_all_parts(data, folder, settings):
    one = hr.CRR(tol=1e-9, **settings).fit(data)
    other = hr.CRR(tol=1e-9, **settings).fit(hr.distributed.read(folder, parts=4))
    assert other.certificate_.converged and other.objective_ == pytest.approx(one.objective_, rel=1e-7)
    assert other.intercept_ == pytest.approx(one.intercept_, abs=1e-3)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-3)


@pytest.mark.parametrize(
    "settings", [{}, {"scale": "query-minmax"}, {"scale": "log"}, {"loss": "hinge", "tol": 1e-3}, {"monotone": {0: 1}},
                 {"sparsity": 0.3}]
)  # fmt: skip
@pytest.mark.parametrize("weighted", [False, True])
def test_curves_over_parts(data, folder, settings, weighted):
    weight = np.random.default_rng(0).integers(0, 3, data.n_rows).astype(float) if weighted else None
    settings = {"n_knots": 5, "tol": 1e-6, **settings}
    one = hr.AdditiveRankSVM(**settings).fit(data, sample_weight=weight)
    other = hr.AdditiveRankSVM(**settings).fit(hr.distributed.read(folder, parts=4), sample_weight=weight)
    assert other.certificate_.converged and other.objective_ == pytest.approx(one.objective_, rel=2 * settings["tol"])
    np.testing.assert_allclose(other.knots_, one.knots_, rtol=1e-6)
    np.testing.assert_allclose(other.heights_, one.heights_, atol=0.02 * np.abs(one.heights_).max())
    np.testing.assert_allclose(other.deviations_, one.deviations_, atol=0.02 * one.deviations_.max())


def test_sparse_curves_over_parts(data, tmp_path):
    import scipy.sparse as sp

    rows = replace(data, X=sp.csr_matrix(np.where(data.X > 1, data.X, 0.0)))
    hr.write(rows, tmp_path / "sparse" / "")
    one = hr.AdditiveRankSVM(n_knots=4, tol=1e-6).fit(rows)
    other = hr.AdditiveRankSVM(n_knots=4, tol=1e-6).fit(hr.distributed.read(tmp_path / "sparse", parts=3))
    assert other.objective_ == pytest.approx(one.objective_, rel=2e-6)


def test_a_path_of_curves_over_parts(data, folder):
    found = hr.AdditiveRankSVM(n_knots=4, tol=1e-6).fit_path(
        hr.distributed.read(folder, parts=2), Cs=[0.1, 1.0], smoothness=[1.0, 10.0]
    )
    for ranker in found:
        expected = hr.AdditiveRankSVM(n_knots=4, tol=1e-6, C=ranker.C, smoothness=ranker.smoothness).fit(data)
        assert ranker.objective_ == pytest.approx(expected.objective_, rel=1e-5)
    with pytest.raises(ValueError, match="interactions"):
        hr.AdditiveRankSVM(interactions=1).fit(hr.distributed.read(folder, parts=2))


@pytest.mark.filterwarnings("ignore::hingerank.ScaleWarning")
@pytest.mark.parametrize("name", [name for name in RANKERS if name != "NystroemRankSVM"])
def test_weights_of_rows_over_parts(data, folder, name):
    """Part after part, as `predict` gives scores; rows of weight 0 are left out, of a scaler's figures too."""
    rng, spread = np.random.default_rng(1), hr.distributed.read(folder, parts=4)
    weight = rng.integers(0, 3, data.n_rows).astype(float)
    for scale in [None, "standard", "quantile"] if name == "RankSVM" else ["standard"]:
        settings = {"scale": scale, "tol": 1e-7, **RANKERS[name]}
        one = getattr(hr, name)(**settings).fit(data, sample_weight=weight)
        other = getattr(hr, name)(**settings).fit(spread, sample_weight=weight)
        assert other.objective_ == pytest.approx(one.objective_, rel=1e-5), scale
        own = weight * (np.arange(data.n_rows) >= spread.facts[0].n_rows)  # a whole part has no weight
        one = getattr(hr, name)(**settings).fit(data, sample_weight=own)
        other = getattr(hr, name)(**settings).fit(spread, sample_weight=own)
        assert other.objective_ == pytest.approx(one.objective_, rel=1e-5), scale
    with pytest.raises(ValueError, match="sample_weight"):
        getattr(hr, name)().fit(spread, sample_weight=weight[:-1])


def test_parts_with_other_grades_have_folds(tmp_path):
    made = hr.make_letor(12, 5, 4, seed=1)
    hr.write(made, tmp_path / "data" / "")
    grades = np.arange(60.0) % 3
    spread = hr.distributed.read(tmp_path / "data", parts=2)
    fold = spread.graded(grades).fold(0, 3, True)
    assert (fold.n_queries, fold.n_rows) == (4, 20)
    y = np.concatenate([parts_module.held(part).data.y for part in fold.parts])
    assert np.array_equal(y, grades[np.isin(made.qid, [1, 4, 7, 10])])


def test_a_part_whose_queries_all_begin_in_others_is_left_out(tmp_path):
    for name, lines in (("a", "1 qid:1 1:0.5\n0 qid:1 1:0.1\n"), ("b", "2 qid:1 1:0.7\n"), ("c", "1 qid:2 1:3\n")):
        (tmp_path / f"{name}.txt").write_text(lines)
    data = hr.distributed.read([tmp_path / f"{name}.txt" for name in "abc"], spanning="join")
    assert (len(data.parts), data.n_queries, data.n_rows) == (2, 2, 4)


@pytest.mark.parametrize("parts", [0, -1, 1.5])
def test_the_number_of_parts_is_checked(tmp_path, parts):
    hr.write(hr.make_letor(3, 5, 4), tmp_path / "data" / "")
    with pytest.raises(ValueError, match=r"parts is .*, expected a whole number of at least 1"):
        hr.distributed.read(tmp_path / "data", parts=parts)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("1 qid:1 0:2 1:5\n", "1 qid:2 1:2 2:1\n"), "some parts count features from 0 and some from 1"),
        (("1 qid:1 1:2\n", "1 qid:1 1:2\n0 qid:01 1:3\n"), "are numbers and those of .* are text, but both have 1"),
    ],
)
def test_parts_that_mean_other_features_or_queries_are_refused(tmp_path, lines, words):
    for name, line in zip("ab", lines):
        (tmp_path / f"{name}.txt").write_text(line)
    with pytest.raises(hr.DataError, match=words):
        hr.distributed.read([tmp_path / "a.txt", tmp_path / "b.txt"])


def test_data_in_place_of_files_are_refused_by_their_type(data):
    for read in (hr.distributed.read, hr.read_rating_parts):
        with pytest.raises(hr.DataError, match=r"a file or a folder, not RankingData: write it with hr\.write"):
            read([data])
