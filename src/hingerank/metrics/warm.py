"""Compile every kernel behind the measures."""

import numpy as np

from hingerank.metrics.evaluator import evaluate
from hingerank.metrics.measure import MEASURES


def warm_metrics() -> None:
    """Run every measure, both gains and all tie rules on a tiny sample, so that later calls find compiled kernels."""
    y = np.array([0.0, 1.0, 2.0, 1.0, 0.5, 0.0] * 3)
    scores = np.array([0.5, 0.5, 1.0, 2.0, 3.0, 3.0] * 3)
    names = [name + ("@1" if kind.cutoff == "required" else "") for name, kind in MEASURES.items()]
    for preset in ("default", "trec", "sklearn"):
        evaluate(y, scores, group=[6, 12], measures=names, preset=preset)
    evaluate(y, scores, measures="ndcg@1")
