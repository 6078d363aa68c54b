"""Results of code that changed are computed again; results of code that did not are kept, from process to process."""

import functools
import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer

import hingerank as hr
from hingerank.lab import own
from hingerank.lab.comparison import compare
from hingerank.lab.folds import query_folds
from hingerank.lab.methods import Method
from hingerank.lab.own import code_mark, installed
from hingerank.lab.results import load_results

RANKER = """
import numpy as np

STEP = 1.0


def direction(column):
    return {sign} * STEP * (column == 0)


class Mine:
    log = []

    def __init__(self, column=0, step=None):
        self.column, self.step = column, step

    def fit(self, X, y, qid=None):
        self.log.append(self.column)
        self.coef_ = np.eye(X.shape[1])[self.column]
        return self

    def predict(self, X):
        return direction(self.column) * (X @ self.coef_){more}
"""


def written(folder: Path, sign=1, more=""):
    """A module of a user's, imported from a file."""
    path = folder / "mine.py"
    path.write_text(RANKER.format(sign=sign, more=more), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(data, folder, *methods, columns=(0, 1)):
    made = [Method(name, ranker, {"column": list(columns)}) for name, ranker in methods]
    return compare(made, query_folds(data, 3), workers=1, measures=["ndcg@10"], folder=folder)


def test_a_changed_ranker_is_computed_again_and_an_unchanged_one_is_not(data, rankers, tmp_path):
    first = written(tmp_path)
    before = run(data, tmp_path / "run", ("mine", first.Mine), ("other", rankers.Column))
    fits = len(rankers.Column.log)

    same = written(tmp_path, more="  # a comment")
    again = run(data, tmp_path / "run", ("mine", same.Mine), ("other", rankers.Column))
    assert same.Mine.log == [] and again.records == before.records

    changed = written(tmp_path, sign=-1)  # a function that predict calls
    after = run(data, tmp_path / "run", ("mine", changed.Mine), ("other", rankers.Column))
    assert len(changed.Mine.log) == len(first.Mine.log) == 9 and len(rankers.Column.log) == fits
    assert after.fold_means("mine", "ndcg@10").mean() < before.fold_means("mine", "ndcg@10").mean() - 0.1
    assert (after.fold_means("other", "ndcg@10") == before.fold_means("other", "ndcg@10")).all()
    assert load_results(tmp_path / "run").records == after.records  # the old ones are mixed in nowhere
    assert not {r["code"] for r in after.records if r["method"] == "mine"} & {r["code"] for r in before.records}

    alone = run(data, tmp_path / "alone", ("mine", written(tmp_path, sign=-1).Mine))
    assert (alone.fold_means("mine", "ndcg@10") == after.fold_means("mine", "ndcg@10")).all()


def test_a_changed_measure_is_taken_again(data, rankers, tmp_path):
    def measured(worth):
        def own(y, scores):
            return worth * float(y[scores.argmax()])

        methods = [Method("column", rankers.Column, {"column": [0, 1]})]
        results = compare(methods, query_folds(data, 3), workers=1, measures=["ndcg@10", own], folder=tmp_path / "run")
        return sum(results.per_query("column", "own").values())

    first = measured(1.0)
    assert first > 0 and measured(2.0) == pytest.approx(2 * first) and measured(2.0) == pytest.approx(2 * first)


def test_a_killed_recomputation_shows_nothing_of_the_old_code(data, tmp_path):
    run(data, tmp_path / "run", ("mine", written(tmp_path).Mine))

    def stop(progress):
        if progress.done > 2:
            raise KeyboardInterrupt

    changed = Method("mine", written(tmp_path, sign=-1).Mine, {"column": [0, 1]})
    with pytest.raises(KeyboardInterrupt):
        compare(
            [changed], query_folds(data, 3), workers=1, measures=["ndcg@10"], folder=tmp_path / "run", progress=stop
        )
    assert 0 < len(load_results(tmp_path / "run").records) < 9


def test_a_folder_without_marks_opens_and_its_results_count_until_the_code_changes(data, tmp_path):
    before = run(data, tmp_path / "run", ("mine", written(tmp_path).Mine))
    header = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    del header["checksum"], header["methods"]["mine"]["code"]  # as version 0.2 wrote them
    (tmp_path / "run" / "run.json").write_text(json.dumps(header), encoding="utf-8")
    bare = [{k: v for k, v in record.items() if k != "code"} for record in before.records]
    (tmp_path / "run" / "results.jsonl").unlink()
    from hingerank.lab.run_folder import ResultsFile

    with ResultsFile(tmp_path / "run" / "results.jsonl") as file:
        file.append(bare)
    assert load_results(tmp_path / "run").records == bare
    for _ in range(2):
        same = written(tmp_path)
        assert run(data, tmp_path / "run", ("mine", same.Mine)).records == bare and same.Mine.log == []
    changed = written(tmp_path, sign=-1)
    after = run(data, tmp_path / "run", ("mine", changed.Mine))
    assert len(changed.Mine.log) == 9 and all("code" in record for record in after.records)


def test_another_version_of_what_is_installed_is_another_code(monkeypatch):
    marks = {name: code_mark(kind) for name, kind in (("own", hr.RankSVM), ("sklearn", Ridge))}
    assert installed("sklearn.linear_model").startswith("scikit-learn ")
    installed.cache_clear()
    monkeypatch.setattr(own, "version", lambda name: "0")
    assert code_mark(Ridge) != marks["sklearn"] and code_mark(hr.RankSVM) == marks["own"]
    installed.cache_clear()
    monkeypatch.setattr(hr, "__version__", "0")
    assert code_mark(hr.RankSVM) != marks["own"]
    installed.cache_clear()


def variants():
    """Pairs of things that differ in one respect each."""

    def scaled(by):
        return lambda x: by * x

    def within(names):
        return lambda x: x in names

    class Loss:
        def __init__(self, power):
            self.power = power

        def __call__(self, x):
            return x**self.power

    def child(constant):
        return type("Child", (hr.RankSVM,), {"margin": constant, "fit": scaled(1)})

    yield "a constant in a function", lambda x: 2 * x, lambda x: 3 * x
    yield "a constant around a function", scaled(2), scaled(3)
    yield "a function around a function", scaled(scaled(2)), scaled(scaled(3))
    yield "a default", lambda x=1: x, lambda x=2: x
    yield "a constant of a class", child(1), child(2)
    yield "a partial", functools.partial(scaled, 1), functools.partial(scaled, 2)
    yield "an estimator's function", FunctionTransformer(scaled(1)), FunctionTransformer(scaled(2))
    yield "an object's number", Loss(1), Loss(2)
    yield "a function among settings", {"kernel": [scaled(1)]}, {"kernel": [scaled(2)]}
    yield "a set", within(frozenset("ab")), within(frozenset("ac"))


@pytest.mark.parametrize(("one", "other"), [v[1:] for v in variants()], ids=[v[0] for v in variants()])
def test_a_mark_follows_what_code_does(one, other):
    assert code_mark(one) == code_mark(one) != code_mark(other)


@pytest.mark.slow
def test_a_mark_is_the_same_in_another_process(tmp_path):
    text = textwrap.dedent("""
        from hingerank.lab.own import code_mark
        from hingerank.lab.methods import Method
        import hingerank as hr

        def kernel(A, B):
            return {"a": 1}["a"] * (A @ B.T) if "x" in {"x", "y", "z"} else None

        class Mine(hr.KernelRankSVM):
            def fit(self, X, y=None, qid=None, **more):
                return super().fit(X, y, qid, **more)

        method = Method("mine", Mine(kernel=kernel), {"C": [1, 2]}, {"callback": kernel})
        print(method.code(), method.definition())
    """)
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    call = [sys.executable, str(tmp_path / "script.py")]
    first, second = (subprocess.run(call, capture_output=True, encoding="utf-8", check=True).stdout for _ in range(2))
    assert first == second and " at 0x" not in first
