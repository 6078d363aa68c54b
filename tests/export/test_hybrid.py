"""The weights of the page on hybrid search, in the arithmetic of OpenSearch's normalization processor.

Its rules, from the source of the neural-search plugin: MinMaxScoreNormalizationTechnique with LowerBound (mode apply),
ArithmeticMeanScoreCombinationTechnique and ScoreCombinationUtil. Everything is in single precision.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "hybrid.md").read_text("utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What the code of the page has made."""
    names, folder = {"__name__": "page"}, tmp_path_factory.mktemp("hybrid")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
            exec(compile(block, "hybrid.md", "exec"), names)
    return names | {"folder": folder}


def normalized(scores, bound):
    """Scores of a subquery, None where it did not return the document."""
    known = np.float32([score for score in scores if score is not None])
    low, high = known.min(), known.max()
    found = []
    for score in scores:
        if score is None:
            found.append(np.float32(0))
            continue
        score = np.float32(score)
        if low == high == score:
            found.append(np.float32(1))
            continue
        least = np.float32(bound["min_score"]) if high > bound["min_score"] and score > bound["min_score"] else low
        value = np.float32(1) if high == least else (score - least) / (high - least)
        found.append(np.float32(0.001) if value == 0 else value)
    return found


def combined(pipeline, rows):
    """The documents' scores: rows of the subqueries' scores, None where one did not return the document."""
    (processor,) = (entry["normalization-processor"] for entry in pipeline["phase_results_processors"])
    assert processor["normalization"]["technique"] == "min_max"
    assert processor["combination"]["technique"] == "arithmetic_mean"
    weights = np.float32(processor["combination"]["parameters"]["weights"])
    bounds = processor["normalization"]["parameters"]["lower_bounds"]
    assert len(weights) == len(bounds) == len(rows[0]) <= 5 and all(bound["mode"] == "apply" for bound in bounds)
    assert (weights >= 0).all() and (weights <= 1).all() and abs(weights.sum() - 1) < 0.01
    columns = [normalized(column, bound) for column, bound in zip(zip(*rows), bounds)]
    return [sum((w * s for w, s in zip(weights, row)), np.float32(0)) / weights.sum() for row in zip(*columns)]


def test_the_pipeline_orders_documents_as_the_ranker_does(page):
    pipeline = json.loads((page["folder"] / "pipeline.json").read_text())
    data, ranker = page["test"], page["ranker"]
    expected = ranker.predict(page["by_largest"](data)) / ranker.coef_.sum()
    for query in np.unique(data.qid):
        mine = data.qid == query
        rows = [[None if value == 0 else value for value in row] for row in data.X[mine].tolist()]
        found = np.array(combined(pipeline, rows), float)
        assert np.abs(found - expected[mine]).max() < 2e-6
        order = np.argsort(-found, kind="stable")
        assert (np.diff(expected[mine][order]) < 2e-6).all()


def test_learnt_weights_are_better_than_equal_ones(page):
    rows = page["by_largest"](page["test"])
    equal = hr.evaluate(rows.y, rows.X.mean(axis=1), rows.qid, "ndcg@10")["ndcg@10"]
    assert page["ranker"].score(rows) > equal + 0.01


def test_the_profiles_say_how_vespa_computes_the_features(page):
    for folder in ("vespa", "global"):
        text = (page["folder"] / folder / "model.profile").read_text()
        for feature in page["features"].values():
            assert f"expression: {feature['expression']}\n" in text
    assert "normalize_linear" in text
