"""From a comparison to a model: the winner with its best setting on validation, fitted on all rows."""

from collections.abc import Iterable

import numpy as np

from hingerank.arrays import Facts, Ranker
from hingerank.data.files import canonical
from hingerank.data.ranking_data import RankingData
from hingerank.lab.leaderboard import ranked_methods
from hingerank.lab.methods import Method
from hingerank.lab.rating_folds import PersonalRows
from hingerank.lab.results import Results


def best_setting(results: Results, method: str) -> Facts:
    """The setting of a method with the largest mean over folds of its validation values, among those most folds tried.

    If nothing was searched it is the one that was tested.
    """
    values: dict[str, list[float]] = {}
    settings: dict[str, Facts] = {}
    for record in results.validations(method):
        if record["value"] is not None:
            values.setdefault(canonical(record["setting"]), []).append(record["value"])
            settings[canonical(record["setting"])] = record["setting"]
    if not values:
        tested = results.tests(method)
        if not tested:
            raise ValueError(f"{method} has no result: there is nothing to keep")
        return tested[0]["setting"]
    most = max(map(len, values.values()))
    return settings[max((key for key in values if len(values[key]) == most), key=lambda key: np.mean(values[key]))]


def winner(results: Results) -> tuple[str, Facts]:
    """The method at the top of the leaderboard, and its best setting."""
    name = ranked_methods(results)[0]
    return name, best_setting(results, name)


def refit(results: Results, methods: Iterable[Method], data: RankingData) -> tuple[str, Ranker]:
    """The name of the winner, and the winner fitted on all of `data`."""
    name, setting = winner(results)
    chosen = next((method for method in methods if method.name == name), None)
    if chosen is None:
        raise ValueError(f"{name} won, and it is not among the methods given: give it too")
    if chosen.ranker is PersonalRows:
        raise ValueError(f"{name} learns a function for each user: fit it from Python and save it there")
    return name, chosen.make(setting, results.header["seed"]).fit(data)
