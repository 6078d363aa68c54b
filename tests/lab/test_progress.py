"""The display says what runs and what is left, on a terminal as a block that is redrawn, elsewhere as lines."""

import io

import pytest
from rich.console import Console

from hingerank.lab import Method, compare, comparison, query_folds, results
from hingerank.lab.comparison import Progress
from hingerank.lab.progress import LiveBoard, describe_settings, describe_time, seconds_left


def progress_with(seconds, counts, workers):
    records = [{"kind": "validation", "method": m, "seconds": s, "setting": {}, "fold": "f"} for m, s in seconds]
    header = {"methods": {}, "folds": [], "measures": [], "measure": "map", "seed": 0}
    return Progress(counts, [], workers, header, records)


def test_time_left_is_work_over_workers():
    counts = {"a": (2, 10), "b": (1, 3), "c": (0, 4)}
    left = seconds_left(progress_with([("a", 1.0), ("a", 3.0), ("b", 10.0), ("b", None)], counts, 2))
    assert left == pytest.approx((8 * 2.0 + 2 * 10.0 + 4 * 6.0) / 2)
    assert seconds_left(progress_with([], counts, 2)) is None


@pytest.mark.parametrize(
    "seconds, words",
    [(0.2, "about 1 s"), (40, "about 40 s"), (600, "about 10 min"), (9000, "about 2 h")],
)
def test_times_in_words(seconds, words):
    assert describe_time(seconds) == words


def test_settings_in_words():
    assert describe_settings([{"C": 0.1}]) == "C = 0.1"
    assert describe_settings([{"C": 10.0**k, "loss": "hinge"} for k in range(5)]) == "C = 1 … 1e+04; loss = hinge"
    assert describe_settings([{}]) == ""
    assert describe_settings([{"context": None, "shared": False}]) == "context = none; shared = False"


def run(data, rankers, terminal, folder):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=90, color_system=None)
    methods = [Method("[b]first", rankers.Column, {"column": [0, 1]}), Method("broken", rankers.Broken)]
    with LiveBoard(console) as board:
        compare(methods, query_folds(data, 3), workers=1, measures=["map"], progress=board, folder=folder)
        if terminal:
            board._live.refresh()
    return console.file.getvalue()


def test_what_is_shown_costs_little_where_there_are_many_settings(data, rankers, monkeypatch):
    """Keys of settings are made once, not again for every line that is shown."""
    made, usual = [], comparison.canonical
    monkeypatch.setattr(comparison, "canonical", lambda value: made.append(value) or usual(value))
    methods, folds = [Method("column", rankers.Column, {"sign": list(range(1, 61))})], query_folds(data, 3)[:1]
    compare(methods, folds, workers=1, measures=[], progress=lambda progress: progress.done)
    assert len(made) < 10 * 60


def test_lines_that_are_printed_read_each_result_once(data, rankers, monkeypatch):
    """Not all results again for every one that comes: with thousands of settings that takes longer than quick fits."""
    read, usual = [], results.current
    monkeypatch.setattr(results, "current", lambda header, records: read.extend(records) or usual(header, records))
    with LiveBoard(Console(file=io.StringIO())) as board:
        methods = [Method("column", rankers.Column, {"sign": list(range(1, 61))})]
        compare(methods, query_folds(data, 3)[:1], workers=1, measures=[], progress=board)
    assert len(read) < 5 * 60


def test_lines_where_there_is_no_terminal(data, rankers, tmp_path):
    said = run(data, rankers, False, tmp_path).splitlines()
    assert len(said) == 6
    assert said[0].startswith("[3/12] [b]first, fold 1: ndcg@10 0.") and "(column = 0)" in said[0]
    assert "broken, fold 1: RuntimeError: cannot fit" in said[1]
    assert "left" in said[0] and "left" not in said[-1]
    assert "\x1b" not in "".join(said)
    again = run(data, rankers, False, tmp_path).splitlines()
    assert again == ["resuming with 12 of 12 results"]


def test_only_results_of_the_methods_that_run_are_there(data, rankers, tmp_path):
    run(data, rankers, False, tmp_path)
    console = Console(file=io.StringIO(), force_terminal=False, width=90)
    with LiveBoard(console) as board:
        more = [Method("another", rankers.Column)]
        compare(more, query_folds(data, 3), workers=1, measures=["map"], progress=board, folder=tmp_path)
    assert "resuming" not in console.file.getvalue()


def test_lines_of_several_seeds_differ(data, rankers):
    console = Console(file=io.StringIO(), width=90)
    with LiveBoard(console) as board:
        methods = [Method("random", rankers.Noise), Method("column", rankers.Column)]
        compare(methods, query_folds(data, 3)[:1], workers=1, measures=["map"], progress=board, seeds=2)
    said = [line.partition("]")[2].partition(":")[0].strip() for line in console.file.getvalue().splitlines()]
    assert said == ["random, fold 1, seed 0", "random, fold 1, seed 1", "column, fold 1"]


def test_nothing_is_left_to_guess_before_the_first_result(data, rankers):
    console = Console(file=io.StringIO(), force_terminal=True, width=90, color_system=None)
    board = LiveBoard(console)
    board(progress_with([], {}, 1))
    console.print(board._shown())
    assert "0 of 0 results, time left not known yet" in console.file.getvalue()


def test_a_block_on_a_terminal(data, rankers, tmp_path):
    said = run(data, rankers, True, tmp_path)
    assert "12 of 12 results" in said and "[b]first" in said and "9/9" in said
