"""docs/measures.md states what the code does: its tables are built here from the registry, the presets and a toy set.

When a table changes, the failing test prints the new one: paste it into the page.
"""

from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.metrics import MEASURES, PRESETS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "measures.md"

# three queries: a short one, one without a relevant item, and one of 11 items already in ranked order
TOY_Y = [2, 0, 1, *[0, 0, 0], *[1, 0, 0, 2, 0, 0, 0, 0, 0, 1, 2]]
TOY_S = [0.5, 0.9, 0.1, *[3, 2, 1], *range(11, 0, -1)]
TOY_Q = [1] * 3 + [2] * 3 + [3] * 11

# NDCG@10, MAP (map@10 for the tools that only have a cut MAP), P@10 as the tools themselves gave them; None: not known
GIVEN = {
    "default": (0.3674, 0.3747, 0.1667),  # ir_measures with exp-log2, ranx ndcg_burges
    "letor3": (0.1309, 0.3747, None),
    "letor4": (0.1309, 0.3747, None),
    "mslr": (0.1309, 0.2386, None),
    "trec": (0.3942, 0.3747, 0.1667),
    "sklearn": (0.3942, None, None),
    "lightgbm": (0.7007, 0.6778, None),
    "xgboost": (0.7007, 0.6778, None),
    "catboost": (0.7275, 0.3444, 0.3222),
    "ranklib": (0.3674, 0.3747, 0.3222),
}
CUT_MAP = ("lightgbm", "xgboost", "catboost")


def toy(preset):
    names = ["ndcg@10", "map@10" if preset in CUT_MAP else "map", "p@10"]
    return list(hr.evaluate(TOY_Y, TOY_S, TOY_Q, names, preset=preset).values())


@pytest.mark.parametrize("preset", PRESETS)
def test_one_ranking_scores_as_each_tool_says(preset):
    for value, given in zip(toy(preset), GIVEN[preset]):
        assert given is None or round(value, 4) == given


def test_one_ranking_scores_from_0131_to_0728():
    values = [toy(preset)[0] for preset in PRESETS]
    assert round(min(values), 3) == 0.131
    assert round(max(values), 3) == 0.728


def rows(*lines):
    return ["| " + " | ".join(line) + " |" for line in lines]


def measures_table():
    head = [("measure", "per query", "cutoff", "options", "also written"), ("---",) * 5]
    body = [
        (f"`{m.name}`", m.formula, m.cutoff, ", ".join(m.options), ", ".join(m.aliases) or "–")
        for m in MEASURES.values()
    ]
    return rows(*head, *body)


def presets_table():
    names = "preset|gain|discount|empty: NDCG, AP|NDCG@k, n < k|P@k, n < k|relevant|AP divisor|ties|"
    head = [(*(names + "toy: NDCG@10, AP, P@10").split("|"),), ("---",) * 10]
    body = []
    for name, c in PRESETS.items():
        strict = c.relevant == np.nextafter(np.floor(c.relevant * 2) / 2, np.inf)
        relevant = f"> {np.floor(c.relevant * 2) / 2:g}" if strict else f"≥ {c.relevant:g}"
        values = ", ".join(f"{value:.4f}" for value in toy(name))
        empty = f"{c.ndcg_empty:g}, {c.map_empty:g}"
        body.append(
            (f"`{name}`", c.gain, c.discount, empty, c.short, c.precision, relevant, c.map_divisor, c.ties, values)
        )
    return rows(*head, *body)


@pytest.mark.parametrize("table", [measures_table, presets_table])
def test_the_page_has_the_tables(table):
    expected = "\n".join(table())
    assert expected in PAGE.read_text(encoding="utf-8"), f"paste this into {PAGE.name}:\n{expected}"


def test_the_examples_on_the_page_run():
    import doctest

    failures, attempted = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert attempted > 0 and failures == 0
