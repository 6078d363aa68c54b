"""Aspects of a query, P(d | a) for every candidate: from known subtopics, scores of query suggestions, or clusters."""

from typing import Any

import numpy as np

from hingerank.data.errors import DataError


def unit_scores(scores: Any, how: str = "minmax") -> np.ndarray:
    """Retrieval scores of one query brought to [0, 1].

    "minmax": (s − min) / (max − min), all 0 if all are equal. "softmax": e^s / Σ e^s, for log likelihoods.

    >>> unit_scores([-5.0, -4.0, -3.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    s = np.asarray(scores, np.float64)
    if s.ndim != 1 or not np.isfinite(s).all():
        raise DataError("scores must be one finite number for each candidate")
    if how == "minmax":
        low, span = s.min(initial=np.inf), np.ptp(s) if len(s) else 0.0
        return (s - low) / span if span > 0 else np.zeros(len(s))
    if how == "softmax":
        e = np.exp(s - s.max(initial=-np.inf))
        return e / e.sum() if len(s) else e
    raise ValueError(f"how is {how!r}, expected 'minmax' or 'softmax'")


def aspects_from_subtopics(judgments: Any, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """P(d | a) = 1 where d is relevant to subtopic a: what a perfect guess of the subtopics would give.

    noise: mixes in uniform random numbers, (1 − noise)·J + noise·U, for studies of how much the guess matters.
    """
    J = (np.asarray(judgments) > 0).astype(np.float64)
    return (1 - noise) * J + noise * np.random.default_rng(seed).random(J.shape)


def aspects_from_scores(scores: Any, how: str = "minmax", temperature: float = 1.0) -> np.ndarray:
    """P(d | a) from the scores of every candidate (row) for every query suggestion (column).

    Each column is brought to [0, 1] by `unit_scores` after division by the temperature.
    """
    S = np.asarray(scores, np.float64)
    if S.ndim != 2:
        raise DataError(f"scores have shape {S.shape}, expected candidates × suggestions")
    return np.column_stack([unit_scores(column / temperature, how) for column in S.T]) if S.shape[1] else S


def aspects_from_clusters(vectors: Any, clusters: int = 8, softness: float = 0.5, seed: int = 0) -> np.ndarray:
    """P(d | a) ∝ exp(−‖v_d − centre_a‖² / (2·softness²·s²)) over k-means clusters, s² the mean squared distance.

    vectors: one row per candidate, dense or sparse; with fewer distinct candidates than clusters there are fewer.
    """
    from sklearn.cluster import KMeans

    n = vectors.shape[0]
    clusters = max(1, min(clusters, n))
    model = KMeans(clusters, n_init=4, random_state=seed).fit(vectors)
    squared = model.transform(vectors) ** 2
    scale = 2 * softness**2 * max(float(squared.min(axis=1).mean()), 1e-12)
    weights = np.exp(-(squared - squared.min(axis=1, keepdims=True)) / scale)
    return weights / weights.sum(axis=1, keepdims=True)
