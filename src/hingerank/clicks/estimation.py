"""Estimates of place bias from counts: P(click) = θ_slot · γ_document, a slot a place (of a context)."""

import numpy as np
from numpy.typing import ArrayLike

from hingerank.clicks.places import PlaceGraph
from hingerank.kernels.clicks import chain_step, product_step
from hingerank.kernels.compiled import with_room

MAX_ITER, TOL = 5000, 1e-8
INSIDE = 0.1  # a leap goes at most nine tenths of the way to 0 or 1, where EM would stay


@with_room
def fit_product(
    slot: ArrayLike, pair: ArrayLike, n: ArrayLike, c: ArrayLike, n_slots: int, n_pairs: int,
    start: tuple[np.ndarray, np.ndarray] | None = None, max_iter: int = MAX_ITER, tol: float = TOL,
    prior: tuple[float, float] = (0.0, 0.0),
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """(θ, γ, steps of EM) of the most likely product; both are NaN where nothing was shown.

    Only ratios of θ between slots that documents join are identified: θ times s and γ over s are as likely. prior:
    clicks and showings that every γ begins with; then it is the most likely product under a beta prior. It ends when a
    step moves no θ by more than tol.

    EM alone takes thousands of steps. Of every two steps a leap is made along their direction (SQUAREM, Varadhan &
    Roland 2008, their third length), and kept where it makes the clicks more likely.
    """
    slot, pair = np.ascontiguousarray(slot, np.int64), np.ascontiguousarray(pair, np.int64)
    n, c = np.ascontiguousarray(n, np.float64), np.ascontiguousarray(c, np.float64)
    x = np.full(n_slots + n_pairs, 0.5) if start is None else np.concatenate(start)
    shown = np.concatenate([np.bincount(slot, n, n_slots), np.bincount(pair, n, n_pairs)])
    hits, least = map(float, prior)

    def step(before: np.ndarray) -> tuple[np.ndarray, float]:
        after = np.empty(len(before))
        return after, product_step(slot, pair, n, c, n_slots, before, shown, hits, least, after)

    turns = 0
    while turns < max_iter:
        first, _ = step(x)
        turns, moved = turns + 1, float(np.abs(first - x)[:n_slots].max(initial=0.0))
        if moved <= tol or turns == max_iter:
            x = first
            break
        second, likelihood = step(first)
        leapt, likelier = step(_leap(x, first, second))
        turns, x = turns + 2, leapt if likelier >= likelihood else second
    x = np.where(shown > 0, x, np.nan)
    return x[:n_slots], x[n_slots:], turns


def _leap(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Where the way from x over two steps seems to lead."""
    way = first - x
    bend = second - first - way
    length = np.sqrt((way @ way) / max(bend @ bend, 1e-300))
    if length <= 1.0:
        return second
    return np.clip(x + 2 * length * way + length**2 * bend, INSIDE * second, 1.0 - INSIDE * (1.0 - second))


def fit_all_pairs(
    graph: PlaceGraph, start: tuple[np.ndarray, np.ndarray] | None = None, max_iter: int = MAX_ITER, tol: float = TOL
) -> tuple[np.ndarray, np.ndarray, int]:
    """(p, r, steps of EM) by intervention harvesting (Agarwal et al. 2019): they maximise

    Σ_{k ≠ k′} C_kk′ log(p_k r_kk′) + (W_kk′ − C_kk′) log(1 − p_k r_kk′),    r_kk′ = r_k′k,

    with W and C the weight and the clicks of the graph. The same product as of places and documents, so the same EM:
    all documents that were seen at k and k′ are one. O(places²) an iteration.
    """
    i, j = np.nonzero(graph.weight)  # both orders of each pair
    size = len(graph.weight)
    low, high = np.minimum(i, j), np.maximum(i, j)
    pair, n_pairs = high * (high - 1) // 2 + low, size * (size - 1) // 2
    return fit_product(i, pair, graph.weight[i, j], graph.clicks[i, j], size, n_pairs, start, max_iter, tol)


def fit_regression(
    slot: np.ndarray, row: np.ndarray, n: np.ndarray, c: np.ndarray, n_slots: int, X: np.ndarray, max_iter: int = 500,
    tol: float = 1e-5, penalty: float = 1.0,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """(θ, γ, iterations) with γ = σ(g(x)), g linear in the features of a row: regression EM (Wang et al. 2018).

    The M-step for g is a Newton step of the weighted logistic regression on expected relevance, with a penalty on the
    weights of standardised features.
    """
    from scipy.special import expit

    shown_slot, shown_row = np.bincount(slot, n, n_slots), np.bincount(row, n, len(X))
    used = shown_row > 0
    spread = X.std(axis=0)
    Z = np.hstack([np.ones((len(X), 1)), (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)])
    ridge = np.diag([1e-8] + [penalty] * X.shape[1])
    theta, w = np.full(n_slots, 0.5), np.zeros(Z.shape[1])
    turns, moved = 0, np.inf
    while turns < max_iter and moved > tol:
        turns += 1
        gamma = expit(Z @ w)
        t, g = theta[slot], gamma[row]
        v = (n - c) / np.maximum(1.0 - t * g, 1e-12)
        examined, relevant = c + v * t * (1.0 - g), np.bincount(row, c + v * g * (1.0 - t), len(X))
        new = np.bincount(slot, examined, n_slots) / np.where(shown_slot > 0, shown_slot, 1.0)
        moved, theta = float(np.abs(new - theta).max()), np.minimum(new, 1.0)
        curvature = (shown_row * gamma * (1.0 - gamma))[used]
        gradient = Z[used].T @ (relevant - shown_row * gamma)[used] - ridge @ w
        w = w + np.linalg.solve((Z[used].T * curvature) @ Z[used] + ridge, gradient)
    return np.where(shown_slot > 0, theta, np.nan), expit(Z @ w), turns


def warm_clicks() -> None:
    """Call the kernels on a cell and on a list, so that later calls find them compiled."""
    fit_product(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 1, 1)
    entry, last, half = np.zeros((1, 1), np.int64), np.array([-1]), np.full(1, 0.5)
    chain_step(entry, entry, last, last + 2, np.ones(1), half, half, 0.9, np.zeros(1), np.zeros(1))
