"""Parts of the user's own in a comparison: rankers, measures and losses, from files, notebooks and with workers."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.lab import Grid, Method, compare, query_folds
from hingerank.lab.methods import method_from_name
from hingerank.lab.own import describe_part, import_own
from hingerank.lab.report.page import make_payload
from hingerank.lab.run_folder import read_header
from hingerank.losses import PairLoss


class Column:
    """Ranks by one column."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y, qid):
        return self

    def predict(self, X):
        return np.asarray(X)[:, self.column]


class Lead(PairLoss):
    """½ max(0, m - t)²."""

    name = "lead"

    def __init__(self, margin=1.0):
        self.margin = margin

    def pointwise(self, t):
        gap = np.maximum(self.margin - t, 0.0)
        return 0.5 * gap**2, -gap, (gap > 0).astype(float)


def top_grade(y, scores):
    """The grade of the first row."""
    return float(y[scores.argmax()])


class Silent:
    def fit(self, X, y, qid):
        return self


def half():
    return Column(1)


PARTS = "import numpy as np\n\nfrom hingerank.losses import PairLoss\n\n\n"
PARTS += "\n\n".join(inspect.getsource(part) for part in (Column, Lead, top_grade, Silent, half))


@pytest.fixture
def data():
    return hr.make_letor(n_queries=12, rows_per_query=6, n_features=3, seed=0)


@pytest.fixture
def folder(tmp_path, monkeypatch, data):
    """The current folder, with data and a file of parts under a name of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    hr.write(data, tmp_path / "data.txt")
    (tmp_path / "own_parts.py").write_text(PARTS)
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "more_parts.py").write_text(PARTS)
    yield tmp_path
    for name in ("own_parts", "more_parts", "broken_parts"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_own_rankers_and_losses_on_the_command_line(folder, capsys):
    """From a module of the current folder and from a path, in worker processes too, under the names given."""
    methods = "rank-svm,mine=own_parts:Column,other=deeper/more_parts.py:Column,own_parts.py:half,lead=rank-svm"
    line = ["compare", "data.txt", "--methods", methods, "--folds", "3", "--workers", "2", "-o", "run"]
    line += ["--set", "mine.column=0,1,2", "--set", "lead.loss=own_parts:Lead", "--set", "rank-svm.C=0.1", "--json"]
    status = main([*line, "--set", "lead.C=0.1"])
    written = capsys.readouterr()
    assert status == 0 and "warning" not in written.err, written.err
    found = read_header(folder / "run")["methods"]
    assert list(found) == ["rank-svm", "mine", "other", "half", "lead"]
    assert found["mine"]["ranker"] == "own_parts:Column"
    assert found["mine"]["search"]["space"] == {"column": [0, 1, 2]}
    assert found["lead"]["fixed"] == {"loss": 'own_parts:Lead {"margin":1.0}', "C": 0.1}


@pytest.mark.parametrize(
    "place, problem",
    [
        ("nowhere.py:Column", "there is no file nowhere.py"),
        ("nowhere_at_all:Column", "nowhere_at_all cannot be imported .*ModuleNotFoundError"),
        ("broken_parts:Column", "broken_parts cannot be imported .*ZeroDivisionError"),
        ("own_parts:Row", "own_parts has no 'Row'; it defines Column, Lead, top_grade, Silent, half"),
        ("own_parts:Silent", r"own_parts:Silent has fit: a method needs fit\(X, y, qid=…\) and predict\(X\), or"),
        ("json.py:Column", "another module is called json"),
    ],
)
def test_mistakes_in_naming_parts(folder, place, problem):
    (folder / "broken_parts.py").write_text("1 / 0\n")
    (folder / "json.py").write_text(PARTS)
    with pytest.raises(ValueError, match=problem):
        method_from_name(f"mine={place}")


def test_a_function_measures_and_chooses(data, tmp_path):
    method = Method("column", Column, {"column": [0, 1, 2]})
    results = compare([method], query_folds(data, 3), top_grade, ["ndcg@5"], folder=tmp_path, workers=1)
    assert results.failures() == [] and results.measures == ["top_grade", "ndcg@5"]
    for fold in query_folds(data, 3):
        test, record = fold.part("test"), results.test("column", fold.name)
        expected = hr.evaluate(test.y, test.X[:, record["setting"]["column"]], test.qid, top_grade, per_query=True)
        assert record["values"]["top_grade"] == expected["top_grade"].tolist()
    assert make_payload(results)["more"] == ["top_grade"]
    default = compare([method], query_folds(data, 3), top_grade, workers=1)
    assert default.measures[:2] == ["top_grade", "ndcg@1"]
    with pytest.raises(ValueError, match="has no name: define it with def"):
        compare([method], query_folds(data, 3), lambda y, scores: 0.0)


def test_a_run_with_a_loss_object_goes_on(data, tmp_path):
    """An equal object in another process is the same method; another value of it is another method."""

    def run(loss):
        method = Method("own", hr.RankSVM, {"C": [0.1, 1.0]}, fixed={"loss": loss})
        return compare([method], query_folds(data, 3), folder=tmp_path, workers=1)

    first = run(Lead())
    assert first.failures() == [] and len(run(Lead()).records) == len(first.records)
    with pytest.raises(ValueError, match="'own' that was defined or searched differently"):
        run(Lead(margin=2.0))
    assert describe_part(Lead()) != describe_part(Lead(margin=2.0))


def test_objects_are_no_values_to_try():
    with pytest.raises(ValueError, match="the values of 'loss' to try hold Lead, an object: give each its own method"):
        Method("own", hr.RankSVM, {"loss": [Lead(), "hinge"]})
    with pytest.raises(ValueError, match="hold Lead"):
        Method("own", hr.RankSVM, Grid({"loss": [Lead()]}))


@pytest.mark.slow
def test_a_script_or_notebook_defines_its_own_parts(tmp_path):
    """In __main__, with workers and without a guard: ranker, loss and measure go along, and nothing falls back."""
    script = (
        PARTS
        + """
import hingerank as hr
from hingerank.lab import Method, compare, query_folds

data = hr.make_letor(n_queries=9, rows_per_query=5, n_features=3, seed=0)
methods = [Method("own", Column, {"column": [0, 1]}), Method("lead", hr.RankSVM, fixed={"loss": Lead()})]
found = [compare(methods, query_folds(data, 3), top_grade, [], workers=count) for count in (1, 2)]
values = [[r["values"] for m in ("own", "lead") for r in results.tests(m)] for results in found]
print(values[0] == values[1], len(found[1].tests("own")), found[1].failures(), found[1].measures)
"""
    )
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "-W", "error::UserWarning", str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True 3 [] ['top_grade']", done.stderr


def test_a_file_is_imported_once(folder):
    """As a module of its name, so that workers find it by reference."""
    assert import_own("own_parts.py:Column") is import_own("own_parts:Column")
    assert import_own("own_parts:Column").__module__ == "own_parts"
    assert np.asarray(import_own("deeper/more_parts.py:half")().predict([[1.0, 2.0]])).tolist() == [2.0]
