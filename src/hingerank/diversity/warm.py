"""Compile the kernels of the diversifying rerankers: `hingerank warmup` calls this."""

import warnings

import numpy as np

from hingerank.diversity.queries import DiverseQuery
from hingerank.diversity.selection import DiverseRanker
from hingerank.registry import RANKERS, ranker_class


def warm_diverse() -> None:
    """Fit and use every diversifying reranker on one tiny query."""
    rng = np.random.default_rng(0)
    query = DiverseQuery(
        rng.random((6, 2)),
        relations=rng.random((6, 6, 2)),
        judgments=np.eye(6)[:, :3],
        relevance=rng.random(6),
        aspects=rng.random((6, 3)),
        words=rng.integers(0, 3, (6, 8)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in RANKERS:
            if RANKERS[name].startswith("hingerank.diversity."):
                ranker: DiverseRanker = ranker_class(name)()
                ranker.fit([query]).rerank(query)
