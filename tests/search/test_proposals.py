"""Searches propose settings inside their space, the same ones for the same seed and values."""

import numpy as np
import pytest

from hingerank.lab.methods import Method
from hingerank.search.proposals import (
    Choice,
    Grid,
    Integers,
    LogUniform,
    OptunaSearch,
    RandomSearch,
    Uniform,
    WideningGrid,
)

SPACE = {"C": LogUniform(1e-3, 1e3), "a": Uniform(-1, 1), "k": Integers(2, 4), "loss": ["hinge", "logistic"]}


def play(search, seed, value):
    """All settings a search proposes when `value(setting)` is what it is told."""
    proposals, seen = search.propose(seed), []
    batch = next(proposals)
    while True:
        seen.extend(batch)
        try:
            batch = proposals.send([value(setting) for setting in batch])
        except StopIteration:
            return seen


def test_grid_is_every_combination():
    settings = play(Grid({"a": [1, 2], "b": ["x", "y"]}), 0, lambda s: 0.0)
    assert settings == [{"a": a, "b": b} for a in (1, 2) for b in "xy"]
    assert Grid({}).settings() == [{}]
    assert Grid({"a": np.logspace(-1, 1, 3)}).size == 3


def test_a_search_without_trials_is_refused():
    with pytest.raises(ValueError, match="trials must be a positive whole number, not 0"):
        RandomSearch({"C": LogUniform(0.1, 1.0)}, 0)
    for values in ("hinge", [], 3.0):  # letters are no values
        for make in (Grid, lambda space: RandomSearch(space, 3)):
            with pytest.raises(ValueError, match=r"the grid of 'loss' is .*: give a list of values to try"):
                make({"loss": values})


@pytest.mark.parametrize("kind", [RandomSearch, OptunaSearch])
def test_random_and_optuna_stay_in_the_space_and_repeat(kind):
    if kind is OptunaSearch:
        pytest.importorskip("optuna")
    search = kind(SPACE, 12)
    assert search.size == 12

    def value(setting):
        return None if setting["loss"] == "hinge" else -abs(np.log10(setting["C"]))

    first = play(search, 1, value)
    assert len(first) == 12
    for s in first:
        assert 1e-3 <= s["C"] <= 1e3 and -1 <= s["a"] <= 1 and s["k"] in (2, 3, 4) and s["loss"] in SPACE["loss"]
    assert first == play(search, 1, value)
    assert first != play(search, 2, value)


def test_optuna_learns_from_what_it_is_told():
    pytest.importorskip("optuna")
    search = OptunaSearch({"x": Uniform(0, 10)}, 40)
    tried = [s["x"] for s in play(search, 0, lambda s: -((s["x"] - 7) ** 2))]
    assert np.abs(np.array(tried[20:]) - 7).mean() < 0.6 * np.abs(np.array(tried[:10]) - 7).mean()


def test_log_uniform_needs_positive_bounds():
    with pytest.raises(ValueError, match="0 < low < high"):
        LogUniform(0, 1)


def test_choice_draws_all():
    rng = np.random.default_rng(0)
    assert {Choice(("a", "b", None)).draw(rng) for _ in range(50)} == {"a", "b", None}


def test_an_estimator_is_copied_not_changed():
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_estimators=3)
    method = Method("forest", forest, {"max_depth": [2, 3]})
    made = method.make({"max_depth": 2}, seed=8)
    assert (made.max_depth, made.n_estimators, made.random_state) == (2, 3, 8)
    assert forest.max_depth is None
    assert (
        method.definition()
        != Method("forest", RandomForestRegressor(n_estimators=4), {"max_depth": [2, 3]}).definition()
    )


def test_a_grid_grows_until_the_best_value_has_one_on_either_side():
    grid = WideningGrid({"C": [1.0, 4.0], "loss": ["hinge", "logistic"]})
    tried = play(grid, 0, lambda s: -abs(s["C"] - 64.0) - (s["loss"] == "hinge"))
    assert tried[:4] == Grid(grid.space).settings()
    assert [s["C"] for s in tried[4:]] == [16.0, 64.0, 256.0, 1024.0]
    assert {s["loss"] for s in tried[4:]} == {"logistic"}
    inside = WideningGrid({"C": [1.0, 4.0, 16.0]})
    assert play(inside, 0, lambda s: -abs(s["C"] - 4.0)) == inside.settings()


def test_a_grid_does_not_grow_for_ever_nor_where_everything_failed():
    grid = WideningGrid({"C": [1.0, 10.0]})
    assert len(play(grid, 0, lambda s: s["C"])) <= 2 + 2 * 4
    assert max(s["C"] for s in play(grid, 0, lambda s: s["C"])) <= 1e6
    assert play(grid, 0, lambda s: None) == grid.settings()
