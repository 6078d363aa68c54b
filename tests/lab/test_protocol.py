"""The protocol: settings chosen on validation only, test looked at once, everything recorded, the same however run."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from hingerank.lab.comparison import compare
from hingerank.lab.folds import Fold, SelectedRows, query_folds
from hingerank.lab.methods import Method, method_from_name
from hingerank.lab.results import load_results
from hingerank.metrics import evaluate, parse_measure
from hingerank.rankers.linear import RankSVM
from hingerank.search.proposals import Integers, LogUniform, OptunaSearch, RandomSearch

MEASURES = ["ndcg@10", "p@2", "map"]


def without_time(records):
    """Records that two runs must agree on, in an order that does not depend on who finished first."""
    times = {"seconds", "predict_seconds"}
    kept = [{k: v for k, v in record.items() if k not in times} for record in records]
    return sorted(kept, key=lambda r: (r["method"], r["fold"], r["kind"], str(r["setting"])))


def test_choice_on_validation_and_one_look_at_test(data, rankers):
    folds = query_folds(data, 4)
    grid = {"column": [3, 0, 1], "sign": [-1, 1]}
    results = compare([Method("column", rankers.Column, grid)], folds, measures=MEASURES, workers=1)
    for fold in folds:
        validation, test = fold.part("validation"), fold.part("test")
        values = {
            (r["setting"]["column"], r["setting"]["sign"]): r["value"]
            for r in results.validations("column")
            if r["fold"] == fold.name
        }
        for (column, sign), value in values.items():
            expected = evaluate(validation.y, sign * validation.X[:, column], validation.qid, ["ndcg@10"])["ndcg@10"]
            assert value == pytest.approx(expected, abs=1e-12)
        best = max(values, key=values.get)
        record = results.test("column", fold.name)
        assert record["setting"] == {"column": best[0], "sign": best[1]}
        expected = evaluate(test.y, best[1] * test.X[:, best[0]], test.qid, MEASURES, per_query=True)
        for measure in MEASURES:
            assert record["values"][measure] == pytest.approx(list(expected[measure]), abs=1e-12)
        assert record["queries"] == list(dict.fromkeys(test.qid.tolist()))


def test_the_scale_of_err_is_that_of_all_folds(data, rankers):
    """Only one row has the highest grade: folds without it are measured on the same scale."""
    data = replace(data, y=np.where(np.arange(data.n_rows) == 5, 4.0, data.y))
    method = Method("column", rankers.Column, {"column": [0, 3]})
    results = compare([method], query_folds(data, 3), "err@10", ["ERR", "err:trec"], workers=1)
    expected = evaluate(data, data.X[:, 0], measures=["err@10", "ERR", "err:trec"])
    assert {name: results.query_mean("column", name) for name in expected} == pytest.approx(expected, abs=1e-12)
    for record in results.validations("column"):
        part = next(fold for fold in query_folds(data, 3) if fold.name == record["fold"]).part("validation")
        scores = part.X[:, record["setting"]["column"]]
        assert record["value"] == pytest.approx(
            evaluate(part, scores, measures="err@10:max_grade=4")["err@10:max_grade=4"]
        )


def test_a_parsed_measure_chooses_as_its_name_does(data, rankers):
    column, folds = Method("column", rankers.Column), query_folds(data, 3)
    names = [compare([column], folds, m, workers=1).measures for m in ("ndcg@5:letor4", parse_measure("ndcg@5:letor4"))]
    assert names[0] == names[1]


def test_order_of_looks(data, rankers):
    """Three fits on train with a prediction on validation, then one fit and the only look at test."""
    parts = np.arange(96), np.arange(96, 112), np.arange(112, 136)
    fold = Fold("only", *(SelectedRows(data, rows) for rows in parts))
    compare([Method("c", rankers.Column, {"column": [0, 1, 2]})], [fold], workers=1, measures=MEASURES)
    looks = [(what, n) for what, _, _, n in rankers.Column.log]
    assert looks == [("fit", 96), ("predict", 16)] * 3 + [("fit", 96), ("predict", 24)]


def test_the_first_of_equal_settings_is_chosen(data, rankers):
    method = Method("noise", rankers.Noise, {"scale": [3.0, 1.0, 2.0]})
    results = compare([method], query_folds(data, 3), workers=1, measures=MEASURES)
    assert [r["setting"] for r in results.tests("noise")] == [{"scale": 3.0}] * 3


def test_one_setting_needs_no_validation(data, rankers):
    results = compare(
        [Method("c", rankers.Column, {"column": [1]})], query_folds(data, 3), workers=1, measures=MEASURES
    )
    assert {r["kind"] for r in results.records} == {"test"}
    assert len(results.tests("c")) == 3


def test_paths_are_fitted_together(data, rankers):
    method = Method("path", rankers.Path, {"C": [0.1, 1.0, 10.0], "intercept": [0.0, 1.0]})
    results = compare([method], query_folds(data, 3)[:1], workers=1, measures=MEASURES)
    log = rankers.Path.log
    assert [entry for entry in log if entry[0] == "path"] == [("path", (0.1, 1.0, 10.0))] * 2
    assert len([entry for entry in log if entry[0] == "fit"]) == 6 + 1
    assert len(results.validations("path")) == 6


def test_a_failing_path_costs_only_its_bad_setting(data, rankers):
    class Picky(rankers.Path):
        def fit(self, X, y, qid=None):
            if self.C < 0:
                raise ValueError("C must be positive")
            return super().fit(X, y, qid)

    results = compare([Method("p", Picky, {"C": [1.0, -1.0]})], query_folds(data, 3)[:1], workers=1, measures=MEASURES)
    assert [r["error"] for r in results.validations("p")] == ["ValueError: C must be positive", None]
    assert results.tests("p")[0]["setting"] == {"C": 1.0}


@pytest.mark.parametrize("place, words", [("fit", "cannot fit"), ("predict", "cannot"), ("nan", "nan"), ("shape", "2")])
@pytest.mark.parametrize("search", [{}, {"column": [0, 1]}], ids=["single", "grid"])
def test_failures_are_recorded_and_stop_nobody(data, rankers, place, words, search):
    methods = [Method("broken", rankers.Broken, search, fixed={"place": place}), Method("good", rankers.Column)]
    results = compare(methods, query_folds(data, 3), workers=1, measures=MEASURES)
    assert len(results.tests("good")) == 3
    assert results.tests("broken") == []
    failures = results.failures()
    assert len(failures) == 3 * (2 if search else 1)
    assert all(words in record["error"] for record in failures)


def test_a_setting_that_fails_is_not_chosen(data, rankers):
    method = Method("b", rankers.Broken, {"place": ["fit", "nowhere"]})
    results = compare([method], query_folds(data, 3), workers=1, measures=MEASURES)
    assert [r["setting"]["place"] for r in results.tests("b")] == ["nowhere"] * 3


@pytest.mark.slow
def test_dead_workers_are_found_out(data, rankers, tmp_path):
    methods = [
        Method("dies", rankers.Broken, fixed={"place": "die"}),
        Method("good", rankers.Column, {"column": [0, 1, 2]}),
    ]
    (tmp_path / ".hingerank-killed").mkdir()
    (tmp_path / ".hingerank-killed" / "plan").touch()
    results = compare(methods, query_folds(data, 3)[:1], workers=2, measures=MEASURES, folder=tmp_path)
    assert not list(tmp_path.glob(".*"))
    assert len(results.tests("good")) == 1
    assert all("worker process died" in r["error"] for r in results.failures())
    assert {r["method"] for r in results.failures()} == {"dies"}


def methods_of_all_kinds(rankers):
    space = {"column": Integers(0, 3), "sign": [-1, 1]}
    return [
        Method("grid", rankers.Column, {"column": [0, 1, 2, 3]}),
        Method("random", rankers.Column, RandomSearch(space, 5)),
        Method("path", rankers.Path, {"C": [0.1, 1.0], "intercept": [0.0, 0.5]}),
        Method("optuna", rankers.Path, OptunaSearch({"C": LogUniform(1e-2, 1e2)}, 4)),
        Method("noise", rankers.Noise),
        Method("broken", rankers.Broken, {"place": ["fit", "fine"]}),
    ]


@pytest.mark.slow
def test_the_same_table_in_one_process_and_in_two(data, rankers, tmp_path):
    pytest.importorskip("optuna")
    tables = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        methods = methods_of_all_kinds(rankers)
        results = compare(methods, query_folds(data, 3), workers=workers, measures=MEASURES, folder=folder, seed=5)
        tables.append(without_time(results.records))
        assert without_time(load_results(folder).records) == tables[-1]
        scores = results.arrays("grid", "fold 1")["scores"]
        test = query_folds(data, 3)[0].part("test")
        got = evaluate(test.y, scores, test.qid, ["map"])["map"]
        assert got == pytest.approx(results.fold_means("grid", "map")[0])
    assert tables[0] == tables[1]


def test_a_cut_run_continues_to_the_same_table(data, rankers, tmp_path):
    """Keep only the first k lines of the results and run again: for every k the whole table comes back."""
    pytest.importorskip("optuna")
    folds = query_folds(data, 3)[:2]
    methods = methods_of_all_kinds(rankers)
    whole = compare(methods, folds, workers=1, measures=MEASURES, folder=tmp_path / "run")
    path = tmp_path / "run" / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for keep in range(0, len(lines), 3):
        path.write_bytes(b"".join(lines[:keep]) + lines[keep][: len(lines[keep]) // 2])
        again = compare(methods, folds, workers=1, measures=MEASURES, folder=tmp_path / "run")
        assert without_time(again.records) == without_time(whole.records)
        assert again.records[:keep] == whole.records[:keep]


def test_a_finished_run_computes_nothing(data, rankers, tmp_path):
    def run(*methods):
        return compare(methods, query_folds(data, 3), workers=1, measures=MEASURES, folder=tmp_path)

    grid = Method("grid", rankers.Column, {"column": [0, 1]})
    first = run(grid)
    rankers.Column.log.clear()
    second = run(grid)
    assert rankers.Column.log == []
    assert second.records == first.records
    third = run(Method("more", rankers.Column))
    assert third.methods == ["grid", "more"]
    assert len(rankers.Column.log) == 6  # three fits and three predictions of the new method


def test_failed_settings_can_be_tried_again(data, rankers, tmp_path):
    machine = {"licence": False}

    class Mended(rankers.Broken):
        def fit(self, X, y, qid=None):
            if not machine["licence"]:
                raise RuntimeError("no licence")
            return self

    def run(retry):
        method = Method("m", Mended, {"column": [0, 1]})
        folds = query_folds(data, 3)
        return compare([method], folds, workers=1, measures=MEASURES, folder=tmp_path, retry_failed=retry)

    assert len(run(False).failures()) == 6
    machine["licence"] = True
    assert len(run(False).failures()) == 6
    mended = run(True)
    assert mended.failures() == []
    assert len(mended.tests("m")) == 3
    assert load_results(tmp_path).failures() == []


def test_a_folder_keeps_to_one_experiment(data, rankers, make_toy_data, tmp_path):
    def run(folds, method, **options):
        return compare([method], folds, workers=1, folder=tmp_path, **{"measures": MEASURES, **options})

    method, folds = Method("grid", rankers.Column, {"column": [0, 1]}), query_folds(data, 3)
    run(folds, method)
    for wrong in (
        lambda: run(query_folds(make_toy_data(seed=1), 3), method),
        lambda: run(query_folds(data, 4), method),
        lambda: run(folds, method, seed=1),
        lambda: run(folds, method, measure="map"),
        lambda: run(folds, method, measures=["ndcg@10"]),
    ):
        with pytest.raises(ValueError, match="choose another folder"):
            wrong()
    with pytest.raises(ValueError, match="looked at once only"):
        run(folds, Method("grid", rankers.Column, {"column": [0, 1, 2]}))
    with pytest.raises(ValueError, match="looked at once only"):
        run(folds, Method("grid", rankers.Column, {"column": [0, 1]}, fixed={"sign": -1}))


def test_a_run_goes_on_after_its_ranker_moved_to_another_module(data, tmp_path):
    def run():
        method = Method("svm", RankSVM, {"C": [0.1, 1.0]})
        return compare([method], query_folds(data, 3), workers=1, measures=MEASURES, folder=tmp_path)

    before = run()
    header = json.loads((tmp_path / "run.json").read_text())
    del header["checksum"]  # as version 0.1 wrote it
    header["methods"]["svm"]["ranker"] = "hingerank.rankers.elsewhere:RankSVM"
    (tmp_path / "run.json").write_text(json.dumps(header))
    assert run().records == before.records
    header["methods"]["svm"]["ranker"] = "elsewhere:RankSVM"
    (tmp_path / "run.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match="looked at once only"):
        run()


def test_progress_counts_up_to_the_total(data, rankers):
    seen = []
    methods = [Method("c", rankers.Column, {"column": [0, 1]}), Method("b", rankers.Broken, {"column": [0, 1]})]
    compare(methods, query_folds(data, 3), workers=1, measures=MEASURES, progress=seen.append)
    assert {p.total for p in seen} == {2 * 3 * 3}
    done = [p.done for p in seen]
    assert done == sorted(done) and done[0] == 0 and done[-1] == 18
    assert any(p.running for p in seen) and not seen[-1].running


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda d, r: compare([], query_folds(d, 3)), "different names"),
        (lambda d, r: compare([Method("a", r.Column), Method("a", r.Noise)], query_folds(d, 3)), "different names"),
        (lambda d, r: compare([Method("a", r.Column)], []), "no folds"),
        (lambda d, r: compare([Method("a", r.Column)], query_folds(d, 3), "nonsense@3"), "nonsense"),
        (lambda d, r: Method("a", r.Column, {"column": 3}), "list of values"),
        (lambda d, r: Method("a", r.Column, [1, 2]), "settings of 'a' must be dictionaries by parameter"),
        (lambda d, r: Method("a", r.Column, fixed=["column"]), "settings of 'a' must be dictionaries by parameter"),
        (lambda d, r: method_from_name("rank-svm", {"C": 0.1}), "the grid of 'C' is 0.1: give a list"),
        (
            lambda d, r: compare(Method("a", r.Column), query_folds(d, 3)),
            "methods must be a list of Method, not Method",
        ),
        (lambda d, r: compare([Method("a", r.Column)], 5), "folds must be a list of folds, as query_folds"),
        (lambda d, r: compare([Method("a", r.Column)], [(d.X, d.y, d.qid)]), r"RankingData.from_arrays\(X, y, qid\)"),
        (lambda d, r: query_folds(d.X), r"not ndarray: RankingData.from_arrays\(X, y, qid\) makes them"),
        (lambda d, r: compare([Method("a", r.Column)], query_folds(d, 3), measures=3), "a measure is a name such as"),
        (lambda d, r: compare([Method("a", r.Column)], query_folds(d, 3), seed="a"), "seed must be a whole number of"),
        (
            lambda d, r: compare([Method("a", r.Column)], query_folds(d, 3), sizes=0.3),
            "sizes must be a list of fractions",
        ),
    ],
)
def test_wrong_calls_are_named(data, rankers, call, words):
    with pytest.raises(ValueError, match=words):
        call(data, rankers)


@pytest.mark.slow
def test_processes_start_only_when_a_run_is_long(data, rankers, monkeypatch):
    from hingerank.lab import workers

    class Where(rankers.Column):
        def fit(self, X, y, qid=None):
            import os
            import warnings

            warnings.warn(f"{os.getpid()} {os.environ['HINGERANK_NUM_THREADS']}", UserWarning, stacklevel=2)
            return super().fit(X, y, qid)

    def places(patience):
        monkeypatch.setattr(workers, "PATIENCE", patience)
        results = compare([Method("w", Where)], query_folds(data, 4), measures=MEASURES)
        return [r["warnings"][0].split()[1:] for r in sorted(results.records, key=lambda r: r["fold"])]

    monkeypatch.setenv("HINGERANK_NUM_THREADS", "2")
    here = str(os.getpid())
    assert places(1000.0) == [[here, "1"]] * 4
    first, *later = places(0.0)
    assert first == [here, "1"]
    assert here not in {pid for pid, _ in later} and {threads for _, threads in later} == {"1"}
    assert os.environ["HINGERANK_NUM_THREADS"] == "2"


def test_a_ranker_that_cannot_travel_runs_here(data, rankers):
    import threading

    class Stuck(rankers.Column):
        lock = threading.Lock()

    with pytest.warns(UserWarning, match="the method s cannot run in another process and runs in this one") as said:
        results = compare([Method("s", Stuck)], query_folds(data, 3), workers=2, measures=MEASURES)
    assert len(results.tests("s")) == 3 and len(said) == 1


def test_undefined_values_are_left_out_of_means(data, rankers, tmp_path):
    y = data.y.copy()
    y[data.qid == "q3"] = 1.0
    folds = query_folds(replace(data, y=y), 4)
    results = compare([Method("c", rankers.Column)], folds, "pair_accuracy", [], workers=1, folder=tmp_path)
    for i, fold in enumerate(folds):
        test = fold.part("test")
        expected = evaluate(test.y, test.X[:, 0], test.qid, ["pair_accuracy"])["pair_accuracy"]
        assert results.fold_means("c", "pair_accuracy")[i] == pytest.approx(expected)
    without = sum(len(set(y[data.qid == q])) == 1 for q in set(data.qid))
    assert without > 0
    assert len(results.per_query("c", "pair_accuracy")) == 20 - without
    assert load_results(tmp_path).table()["value"].count(None) == without


@pytest.mark.parametrize("measure", ["ndcg@10:gain=linear", "err@5:max_grade=4", "p@5:trec:precision=list"])
def test_an_option_of_the_choosing_measure_goes_to_the_measures_that_have_it(data, rankers, measure):
    results = compare([Method("column", rankers.Column)], query_folds(data, 3), measure, workers=1)
    assert results.measures.count(measure) == 1 and len(results.measures) >= 22
    settings = measure.split(":")[1:]
    assert all(("gain=linear" in name) == (settings == ["gain=linear"] and "ndcg" in name) for name in results.measures)
    assert all((":trec" in name) == ("trec" in settings) for name in results.measures)


def test_what_is_no_method_or_fold_is_named(data, rankers):
    methods, folds = [Method("column", rankers.Column)], query_folds(data, 3)
    with pytest.raises(ValueError, match="'rank-svm' is no Method: give method_from_name"):
        compare(["rank-svm"], folds)
    with pytest.raises(ValueError, match="the ranker of 'svm' is 'rank-svm': give a class, a function or an estimator"):
        Method("svm", "rank-svm", {"C": [0.1, 1.0]})
    with pytest.raises(ValueError, match="folds are RankingData: give query_folds"):
        compare(methods, data)
    with pytest.raises(ValueError, match="fold 1 has 2 parts: give train, validation and test"):
        compare(methods, [(data, data)])
    assert compare(methods, folds, measures="map", workers=1).measures == ["ndcg@10", "map"]
