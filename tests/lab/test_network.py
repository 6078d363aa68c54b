"""The adapter of docs/extending.md that makes a ranker of a network: with NumPy always, with PyTorch where it is."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.lab import Method, compare, query_folds

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
HEADER = "import numpy as np\nimport hingerank as hr\nfrom hingerank.losses import make_loss\n"


def classes(*names):
    """Classes as the page defines them, in a namespace of their own."""
    found = {"__name__": "page"}
    exec(HEADER, found)
    for name in names:
        block = re.search(
            rf"^(?:import torch\n\n\n)?class {name}.*?(?=^```|^\S*network = )", PAGE, re.MULTILINE | re.DOTALL
        )
        exec(block[0], found)
    return [found[name] for name in names]


@pytest.fixture(scope="module")
def data():
    return hr.make_letor(n_queries=30, rows_per_query=10, n_features=5, seed=0)


def compared(ranker, network, data):
    """NDCG@10 of the network in a comparison, and of the first column."""
    method = Method("network", ranker, {"steps": [100, 200]}, fixed={"network": partial(network, data.n_features)})
    results = compare([method], query_folds(data, 3), workers=1)
    assert results.failures() == []
    first = hr.evaluate(data, data.X[:, 0], measures="ndcg@10")["ndcg@10"]
    return results.fold_means("network", "ndcg@10").mean(), first


def test_a_network_of_numpy_is_a_ranker(data):
    ranker, network = classes("NetworkRanker", "LinearNetwork")
    found, first = compared(ranker, network, data)
    assert found > first + 0.05
    fitted = ranker(partial(network, data.n_features), steps=3000).fit(data.X, data.y, data.qid)
    best = hr.RankSVM(C=1e6, loss="logistic").fit(data)  # the same loss at its minimum, all but unregularised
    assert np.corrcoef(fitted.predict(data.X), best.predict(data))[0, 1] > 0.999


def test_a_network_of_pytorch_is_a_ranker(data):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    ranker, network = classes("NetworkRanker", "TorchNetwork")
    found, first = compared(ranker, network, data)
    assert found > first + 0.05
