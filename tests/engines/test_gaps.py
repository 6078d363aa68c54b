"""Missing values in the programs that exports are for: what a ranker has learnt of them is what the program does."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.export.exporting import compare

MODELS = {
    "linear": lambda how: hr.RankSVM(C=0.1, scale="standard", missing=how),
    "curves": lambda how: hr.AdditiveRankSVM(n_knots=8, C=0.1, missing=how),
    "steps": lambda how: hr.RankBoost(max_iter=40, missing=how),
}


@pytest.fixture(scope="module")
def gaps(rows):
    """The rows of the other tests with a sixth of the values missing."""
    X = np.array(rows.X)
    X[np.random.default_rng(3).random(X.shape) < 1 / 6] = np.nan
    return hr.RankingData.from_arrays(X, rows.y, rows.qid, missing="nan")


@pytest.mark.parametrize("how", ["zero", "median", "indicator"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("to", ["pmml", "vespa"])
def test_gaps(java, scored, gaps, tmp_path, to, name, how):
    ranker = MODELS[name](how).fit(gaps)
    path = (
        ranker.export(tmp_path / "v", to).files[0] if to == "vespa" else ranker.export(tmp_path / "m.pmml", to).files[0]
    )
    names = [f"f{j + 1}" for j in range(gaps.n_features)]
    if to == "pmml":
        scores = scored([*java("pmml", "PmmlScores"), path], names, gaps.X)
    else:
        names = ["query", *(f"attribute({n})" for n in names)]
        scores = scored([*java("vespa", "VespaScores"), path], names, np.column_stack((gaps.qid, gaps.X)))
    found = compare(ranker.predict(gaps), scores, np.asarray(gaps.qid))
    assert found["relative_to_largest_score"] < 1e-12 and found["reordered_queries"] == 0, found
