"""What was loaded of parts belongs to the data that it was loaded for, and is what the files hold."""

import gc
import time
import weakref

import numpy as np
import pytest

import hingerank as hr
from hingerank.data import rows_view
from hingerank.distributed import parts as parts_module
from hingerank.distributed import questions
from hingerank.distributed.parts import answers, held


@pytest.fixture
def data():
    return hr.make_letor(24, 6, 4, seed=3)


@pytest.fixture
def folder(data, tmp_path):
    hr.write(data, f"{tmp_path}/data/")
    return str(tmp_path / "data")


def here():
    """Keys of all parts that this process holds."""
    gc.collect()
    return set(parts_module._AT_HAND)


def write(data, form, path):
    hr.write(data, f"{path}/" if form == "folder" else path)


@pytest.mark.parametrize("form", ["folder", "text", "table"])
def test_a_file_written_anew_is_read_anew(data, tmp_path, form):
    path = tmp_path / {"folder": "rows", "text": "rows.txt", "table": "rows.parquet"}[form]
    write(data, form, path)
    old = hr.distributed.read([path])
    before = hr.RankSVM().fit(old).coef_
    turned = hr.RankingData(-data.X, data.y, data.qid)  # the same size, maybe within the same tick of the clock
    time.sleep(0.02)
    write(turned, form, path)
    after = hr.RankSVM().fit(hr.distributed.read([path])).coef_
    np.testing.assert_allclose(after, -before, rtol=1e-6)
    with pytest.raises(hr.DataError, match="replaced after its rows were read; read the data again"):
        hr.RankSVM().fit(old)


def test_a_part_that_was_let_go_is_not_read_from_another_file(data, folder):
    spread = hr.distributed.read([folder])
    spread.close()
    hr.write(hr.RankingData(-data.X, data.y, data.qid), f"{folder}/")
    with pytest.raises(hr.DataError, match="read the data again"):
        hr.RankSVM().fit(spread)


def test_parts_that_are_held_outlive_their_files(folder, tmp_path):
    spread = hr.distributed.read([folder])
    first = hr.RankSVM().fit(spread).coef_
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    assert np.array_equal(hr.RankSVM().fit(spread).coef_, first)


def test_parts_go_with_the_data(folder):
    before = here()
    spread = hr.distributed.read(folder, parts=3)
    rows = weakref.ref(held(spread.parts[0]).data)
    weighted = spread.weighted(np.ones(spread.n_rows))
    assert len(here() - before) == 3
    del spread
    assert len(here() - before) == 3 and rows() is not None  # the weighted copy has the same parts
    del weighted
    assert here() == before and rows() is None


def test_a_fold_keeps_the_parts_that_it_is_of(folder):
    before = here()
    spread = hr.distributed.read(folder, parts=3)
    fold = spread.fold(0, 3, True)
    assert len(here() - before) == 6
    del spread
    assert len(here() - before) == 6
    del fold
    assert here() == before


@pytest.mark.slow
def test_tuning_leaves_the_parts_that_there_were(folder):
    before = here()
    spread = hr.distributed.read(folder, parts=3)
    given, most = here(), []
    found = hr.tune(
        "rank-svm", spread, folds=5, params={"C": [0.1, 1.0], "scale": [None, "standard"]}, widen=False,
        progress=lambda *_: most.append(len(parts_module._AT_HAND) - len(given)),
    )  # fmt: skip
    assert max(most) == 6  # one fold at a time: what is learnt from, and what is chosen on
    assert here() == given
    train, check = spread.fold(0, 4, False), spread.fold(0, 4, True)
    hr.tune("rank-svm", train, validation=check, params={"C": [0.1, 1.0]}, widen=False)
    assert here() - given == {part.key for part in [*train.parts, *check.parts]}
    del spread, train, check, found
    assert here() == before


def test_queries_brought_together_leave_no_copies(data, tmp_path):
    before, half = here(), data.n_rows // 2 + 1
    hr.write(data.take(np.arange(half)), tmp_path / "a" / "")
    hr.write(data.take(np.arange(half, data.n_rows)), tmp_path / "b" / "")
    joined = hr.distributed.read([tmp_path / "a", tmp_path / "b"], spanning="join")
    assert len(here() - before) == 2
    del joined
    assert here() == before


def test_ratings_go_with_their_data(tmp_path):
    before = here()
    (tmp_path / "a.csv").write_text("user,item,rating\nann,0,5\nann,1,2\n")
    ratings = hr.read_rating_parts([tmp_path / "a.csv"])
    assert len(here() - before) == 1
    del ratings
    assert here() == before


class Plain:
    """A runner of a user: a method run, and no more."""

    def run(self, question, parts, arguments):
        return answers(question, parts, arguments)


def test_samples_are_read_from_a_disk_without_what_is_beside_them(data, folder, monkeypatch):
    """Else a sample of a mapped part costs as much as a reading of the whole."""
    told = []
    monkeypatch.setattr(rows_view, "read_ahead", lambda X, much=True: told.append(much))
    spread = hr.distributed.read(folder, parts=2)
    rows, _ = spread.weighted_sample(10)
    assert len(rows) >= 10 and told == [False, True] * 2
    some, _ = spread.ask(questions.queries_of, 4, spread.weights)[0]
    assert some.n_queries == -(-len(spread.facts[0].ids) // 4) and told == [False, True] * 4


def test_any_runner_lets_go(folder):
    before = here()
    spread = hr.distributed.read(folder, Plain(), parts=2)
    assert len(here() - before) == 2
    del spread
    assert here() == before


def test_a_problem_is_made_by_the_first_call_of_it(folder):
    class Counting(Plain):
        rounds = 0

        def run(self, question, parts, arguments):
            self.rounds += 1
            return super().run(question, parts, arguments)

    runner = Counting()
    spread = hr.distributed.read(folder, runner, parts=2)
    before, evaluated = runner.rounds, []
    hr.RankSVM(tol=0.1, callback=evaluated.append).fit(spread)
    look, sizes, curvatures = 1, 1, evaluated[-1]["products"]
    assert runner.rounds - before == look + sizes + len(evaluated) + curvatures


def _keys():
    return set(parts_module._AT_HAND)


@pytest.mark.slow
def test_workers_let_go_too(client, folder):
    def there():
        gc.collect()
        return set().union(*client.run(_keys).values())

    before = there()
    spread = hr.distributed.read(folder, client, parts=3)
    given = {part.key for part in spread.parts}
    assert there() - before == given
    hr.tune("rank-svm", spread, folds=2, params={"C": [0.1, 1.0]}, widen=False)
    assert wait_for(lambda: there() - before == given)
    del spread
    assert wait_for(lambda: not there() - before)


def wait_for(condition):
    until = time.monotonic() + 5
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()
