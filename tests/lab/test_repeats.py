"""Several seeds and several sizes of training data: fitted, kept, continued and averaged as they should be."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.lab import Method, compare, leaderboard, load_results, query_folds
from hingerank.lab.folds import Fold, SelectedRows, check_sizes, parse_sizes, take_queries
from hingerank.lab.leaderboard import learning_curves
from hingerank.metrics import evaluate
from hingerank.search.proposals import LogUniform, RandomSearch

MEASURES = ["ndcg@10", "map"]


@pytest.fixture
def methods(rankers):
    return [Method("column", rankers.Column, {"column": [0, 1]}), Method("noise", rankers.Noise, {"scale": [1.0, 2.0]})]


def test_seeds_are_fits_of_the_chosen_setting(data, methods, tmp_path):
    folds = query_folds(data, 3)
    results = compare(methods, folds, measures=MEASURES, workers=1, seed=4, seeds=3, folder=tmp_path)
    assert results.seeds("column") == [4] and results.seeds("noise") == [4, 5, 6]
    assert len(results.all_tests("column")) == 3 and len(results.all_tests("noise")) == 9
    assert len(results.validations("noise")) == 6  # settings are chosen once
    for fold in folds:
        test, found = fold.part("test"), {}
        for seed in (4, 5, 6):
            record = results.test("noise", fold.name, seed)
            scores = record["setting"]["scale"] * np.random.default_rng(seed).standard_normal(test.n_rows)
            assert results.arrays("noise", fold.name, seed)["scores"] == pytest.approx(scores)
            for query, value in zip(test.blocks.ids.tolist(), evaluate(test.y, scores, test.qid, ["map"], True)["map"]):
                found.setdefault(query, []).append(value)
        pooled = results.per_query("noise", "map")
        assert {query: pooled[query] for query in found} == pytest.approx({q: np.mean(v) for q, v in found.items()})
    line = next(line for line in leaderboard(results).lines if line.method == "noise")
    assert line.seed_spread > 0 and line.missing == [] and line.tried == 2


def test_fewer_seeds_complete_what_more_began(data, methods, tmp_path):
    """A method of the folder keeps its number of seeds, so that new sizes have a result of each."""
    folds, options = query_folds(data, 3), {"measures": MEASURES, "workers": 1, "folder": tmp_path}

    def stop(progress):
        if progress.done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(methods, folds, seeds=3, progress=stop, **options)
    results = compare(methods, folds, sizes=[0.5], **options)
    assert results.seeds("noise") == [0, 1, 2]
    assert not results.missing("noise") and not results.at(0.5).missing("noise")


def test_more_seeds_continue_a_run_and_fewer_forget_none(data, methods, tmp_path):
    folds, options = query_folds(data, 3), {"measures": MEASURES, "workers": 1, "folder": tmp_path}
    first = compare(methods, folds, **options)
    assert first.seeds("noise") == [0]
    more = compare(methods, folds, seeds=3, **options)
    assert len(more.records) == len(first.records) + 6 and more.records[: len(first.records)] == first.records
    fewer = compare(methods, folds, **options)
    assert fewer.seeds("noise") == [0, 1, 2] and len(fewer.records) == len(more.records)
    straight = compare(methods, folds, seeds=3, measures=MEASURES, workers=1)
    assert straight.per_query("noise", "map") == more.per_query("noise", "map")


def test_what_is_random():
    assert Method("a", hr.FourierRankSVM, {"C": [1.0, 2.0]}).is_random
    assert not Method("a", hr.RankSVM, {"C": [1.0, 2.0]}).is_random
    assert not Method("a", hr.FourierRankSVM, fixed={"random_state": 3}).is_random
    assert not Method("a", hr.FourierRankSVM, {"random_state": [1, 2]}).is_random
    assert Method("a", hr.FourierRankSVM, RandomSearch({"C": LogUniform(0.1, 1)}, 2)).is_random
    personal = hr.lab.methods.method_from_name
    assert personal("personal-rank-svm").is_random and not personal("joint").is_random
    assert not personal("item-mean").is_random


def test_sizes_are_nested_whole_queries_and_choose_their_own_settings(data, methods, tmp_path):
    small, large = take_queries(data, 0.1, 3), take_queries(data, 0.45, 3)
    assert small.n_queries == 2 and large.n_queries == 9 and take_queries(data, 1.0, 3) is data
    assert set(small.blocks.ids) < set(large.blocks.ids) and set(small.blocks.sizes) == {8}
    assert set(large.blocks.ids) != set(take_queries(data, 0.45, 4).blocks.ids)  # drawn, not the first ones
    results = compare(methods, query_folds(data, 4), measures=MEASURES, workers=1, sizes=[0.2, 0.5], folder=tmp_path)
    assert results.sizes == [0.2, 0.5, 1.0] == load_results(tmp_path).sizes
    whole = compare(methods, query_folds(data, 4), measures=MEASURES, workers=1)
    assert results.per_query("column", "map") == whole.per_query("column", "map")
    for size in results.sizes:
        at = results.at(size)
        assert len(at.validations("column")) == 8 and len(at.tests("column")) == 4
    rows = results.table()
    assert len(rows["value"]) == 3 * len(whole.table()["value"]) and sorted(set(rows["size"])) == results.sizes
    curves = learning_curves(results)
    assert curves["methods"]["column"][-1]["mean"] == leaderboard(results).lines[0].mean
    assert all(point["low"] <= point["mean"] <= point["high"] for point in curves["methods"]["noise"])
    assert learning_curves(whole)["methods"] == {}


class Counting:
    """Scores by the first feature; remembers how many queries it saw."""

    seen: list = []  # noqa: RUF012 (shared on purpose)

    def fit(self, X, y, qid=None):
        type(self).seen.append(len(set(qid)))
        return self

    def predict(self, X):
        return X[:, 0]


def test_a_size_is_learnt_from_so_many_queries(data):
    Counting.seen.clear()
    compare([Method("c", Counting)], query_folds(data, 4), measures=MEASURES, workers=1, sizes=[0.15])
    assert Counting.seen == [10] * 4 + [2] * 4


def test_sizes_are_read_and_checked(data, methods):
    assert parse_sizes("10%,.3, 100 %") == [0.1, 0.3, 1.0]
    assert check_sizes([0.3, 0.1, 0.3]) == [0.1, 0.3, 1.0]
    with pytest.raises(ValueError, match="10%,30%,100%"):
        parse_sizes("small")
    with pytest.raises(ValueError, match="at most 1, not"):
        parse_sizes("30%,150%")
    for sizes in ([0.0], [1.5], [-1]):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            compare(methods, query_folds(data, 3), sizes=sizes)
    with pytest.raises(ValueError, match="seeds must be a positive whole number, not 0"):
        compare(methods, query_folds(data, 3), seeds=0)
    with pytest.raises(ValueError, match="workers must be a positive whole number, not -1"):
        compare(methods, query_folds(data, 3), workers=-1)
    rows = [SelectedRows(data, np.arange(k, 160, 3)) for k in range(3)]
    with pytest.raises(ValueError, match="sizes cannot be used with ratings"):
        compare(methods, [Fold("one", *rows, shared_queries=True)], sizes=[0.5])


def test_a_size_that_the_run_lacks_is_an_error(data, methods):
    results = compare(methods[:1], query_folds(data, 3), workers=1, measures=["map"], sizes=[1 / 3])
    assert results.at(1 / 3).tests(methods[0].name)  # sizes are stored in six digits
    with pytest.raises(ValueError, match=r"there is no size 0.5 in this run; it has 0.333333, 1.0"):
        results.at(0.5)
