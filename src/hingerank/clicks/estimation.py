"""Estimates of place bias from counts: the graph of places that share documents, and EM."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy import sparse

from hingerank.arrays import ArrayLike
from hingerank.clicks.counting import group_by
from hingerank.data.memory import check_room
from hingerank.kernels.clicks import chain_step, product_step
from hingerank.kernels.compiled import with_room

FAR = "leave out showings far down, as in log.take(log.place <= 50)"


@dataclass(frozen=True)
class PlaceGraph:
    """Slots (places, or places of contexts), and an edge between any two that documents were shown at.

    Parameters
    ----------
    size : int
        The number of slots.
    first, second : int arrays, an entry an edge
        Its slots, the lower one first.
    weight : float array
        Σ over documents d of a query of min(n_dk, n_dk′), n_dk its showings at slot k.
    clicks : float array, 2 × edges
        The same sum of min(n_dk, n_dk′) · c_dk / n_dk: clicks at `first`, then at `second`, on that weight.
    """

    size: int
    first: np.ndarray
    second: np.ndarray
    weight: np.ndarray
    clicks: np.ndarray

    @cached_property
    def part(self) -> np.ndarray:
        """The number of the connected part that each slot is in."""
        from scipy.sparse.csgraph import connected_components

        return np.asarray(connected_components(self._matrix(self.weight), directed=False)[1])

    def compared_with(self, slot: int) -> np.ndarray:
        """Which slots all-pairs can compare with this one.

        Those reached by a path of edges that each have clicks at their start. The ratio of the two propensities is
        above 0 if a path leads back too, else it is 0. For other slots the clicks do not determine the ratio.
        """
        from scipy.sparse.csgraph import breadth_first_order

        ways = self._matrix(self.clicks[0]) + self._matrix(self.clicks[1]).T
        found = np.zeros(self.size, bool)
        found[breadth_first_order(ways.tocsr(), slot, return_predecessors=False)] = True
        return found

    def _matrix(self, values: np.ndarray) -> sparse.csr_matrix:
        edges = np.flatnonzero(values)
        return sparse.csr_matrix((values[edges], (self.first[edges], self.second[edges])), (self.size, self.size))

    def thinnest(self) -> tuple[int, int, float] | None:
        """Two slots and their weight: the weakest edge of the tree of strongest edges; None if there is no edge.

        Every path between the slots on its two sides has an edge of at most this weight.
        """
        from scipy.sparse.csgraph import minimum_spanning_tree

        tree = minimum_spanning_tree(self._matrix(-self.weight)).tocoo()
        if not tree.nnz:
            return None
        weakest = int(np.argmax(tree.data))
        return int(tree.row[weakest]), int(tree.col[weakest]), -float(tree.data[weakest])


class SharedCells:
    """All pairs of cells of the same document of a query, and the edge of slots that each pair belongs to.

    Parameters
    ----------
    query, document, slot : int arrays, an entry a cell
        Sorted by query, then document, then slot.
    size : int
        The number of slots.
    """

    def __init__(self, query: np.ndarray, document: np.ndarray, slot: np.ndarray, size: int) -> None:
        places = group_by([query, document]).sums()
        pairs = int(places @ (places - 1)) // 2
        check_room(72 * pairs, f"{pairs:,} pairs of places that share a document", FAR)
        none = np.zeros(0, np.int64)
        first, second, lag = [none], [none], 1
        while lag < len(query):  # cells of a document lie together
            same = np.flatnonzero((query[lag:] == query[:-lag]) & (document[lag:] == document[:-lag]))
            if not len(same):
                break
            first.append(same)
            second.append(same + lag)
            lag += 1
        self.size, self.cells = size, (np.concatenate(first), np.concatenate(second))
        self.edges = group_by([slot[cells] for cells in self.cells])

    @property
    def ends(self) -> list[np.ndarray]:
        """The two slots of each edge."""
        return self.edges.columns

    def graph(self, n: np.ndarray, c: np.ndarray) -> PlaceGraph:
        """The graph for these showings and clicks of the cells."""
        i, j = self.cells
        least, rate = np.minimum(n[i], n[j]), c / np.where(n > 0, n, 1.0)
        (first, second), clicks = self.ends, [self.edges.sums(least * rate[cells]) for cells in (i, j)]
        return PlaceGraph(self.size, first, second, self.edges.sums(least), np.array(clicks))


MAX_ITER, TOL = 5000, 1e-8
Start: TypeAlias = tuple[np.ndarray, np.ndarray] | None  # where EM begins: θ, and γ or the weights of γ
INSIDE = 0.1  # a leap goes at most nine tenths of the way to 0 or 1, where EM would stay


def _climb(
    step: Callable[[np.ndarray], tuple[np.ndarray, float]], x: np.ndarray, n_slots: int, chances: int, max_iter: int,
    tol: float,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """(x, steps) after EM, which ends when a step moves none of the first `n_slots` numbers by more than tol.

    step(x) is the next x and the logarithm of the likelihood at x. The first `chances` numbers of x are from 0 to 1. EM
    alone takes thousands of steps. Every two steps are followed by a leap in their direction (SQUAREM, Varadhan &
    Roland 2008, their third length), which is kept if it makes the clicks more likely.
    """
    turns = 0
    while turns < max_iter:
        first, _ = step(x)
        turns, moved = turns + 1, float(np.abs(first - x)[:n_slots].max(initial=0.0))
        if moved <= tol or turns == max_iter:
            return first, turns
        second, likelihood = step(first)
        leapt, likelier = step(_leap(x, first, second, chances))
        turns, x = turns + 2, leapt if likelier >= likelihood else second
    return x, turns


def _leap(x: np.ndarray, first: np.ndarray, second: np.ndarray, chances: int) -> np.ndarray:
    """The extrapolation of two steps from x."""
    way = first - x
    bend = second - first - way
    length = np.sqrt((way @ way) / max(bend @ bend, 1e-300))
    if length <= 1.0:
        return second
    leapt, near = x + 2 * length * way + length**2 * bend, second[:chances]
    leapt[:chances] = np.clip(leapt[:chances], INSIDE * near, 1.0 - INSIDE * (1.0 - near))
    return leapt


@with_room
def fit_product(
    slot: ArrayLike, pair: ArrayLike, n: ArrayLike, c: ArrayLike, n_slots: int, n_pairs: int,
    start: Start = None, max_iter: int = MAX_ITER, tol: float = TOL,
    prior: tuple[float, float] = (0.0, 0.0),
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """(θ, γ, steps of EM) of the most likely product; both are NaN where nothing was shown.

    Only ratios of θ between slots that documents join are identified: θ times s and γ over s are as likely. prior:
    clicks and showings that every γ begins with; then it is the most likely product under a beta prior.
    """
    slot, pair = np.ascontiguousarray(slot, np.int64), np.ascontiguousarray(pair, np.int64)
    n, c = np.ascontiguousarray(n, np.float64), np.ascontiguousarray(c, np.float64)
    x = np.full(n_slots + n_pairs, 0.5) if start is None else np.concatenate(start)
    shown = np.concatenate([np.bincount(slot, n, n_slots), np.bincount(pair, n, n_pairs)])
    hits, least = map(float, prior)

    def step(before: np.ndarray) -> tuple[np.ndarray, float]:
        after = np.empty(len(before))
        return after, product_step(slot, pair, n, c, n_slots, before, shown, hits, least, after)

    x, turns = _climb(step, x, n_slots, len(x), max_iter, tol)
    x = np.where(shown > 0, x, np.nan)
    return x[:n_slots], x[n_slots:], turns


def fit_all_pairs(
    graph: PlaceGraph, start: Start = None, max_iter: int = MAX_ITER, tol: float = TOL
) -> tuple[np.ndarray, np.ndarray, int]:
    """(p, r, steps of EM) by intervention harvesting (Agarwal et al. 2019): they maximise

    Σ_{k ≠ k′} C_kk′ log(p_k r_kk′) + (W_kk′ − C_kk′) log(1 − p_k r_kk′),    r_kk′ = r_k′k,

    with W and C the weight and the clicks of the graph. The same product as of places and documents, so the same EM:
    all documents that were seen at k and k′ are one. O(edges) an iteration.
    """
    slot, edge = np.concatenate([graph.first, graph.second]), np.tile(np.arange(len(graph.weight)), 2)
    n, c = np.tile(graph.weight, 2), graph.clicks.ravel()
    return fit_product(slot, edge, n, c, graph.size, len(graph.weight), start, max_iter, tol)


def fit_regression(
    slot: np.ndarray, row: np.ndarray, n: np.ndarray, c: np.ndarray, n_slots: int, X: np.ndarray, start: Start,
    max_iter: int, tol: float,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """(θ, w, steps of EM) with γ = σ(g(x)), g linear in the features of a row: regression EM (Wang et al. 2018).

    The M-step for g is a Newton step of the weighted logistic regression on expected relevance, with the penalty
    ½‖w‖² on the weights of standardised features.
    """
    from scipy.special import expit

    shown_slot, shown_row = np.bincount(slot, n, n_slots), np.bincount(row, n, len(X))
    used = shown_row > 0
    spread = X.std(axis=0)
    Z = np.hstack([np.ones((len(X), 1)), (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)])
    ridge = np.array([1e-8] + [1.0] * X.shape[1])

    def step(x: np.ndarray) -> tuple[np.ndarray, float]:
        theta, w = x[:n_slots], x[n_slots:]
        gamma = expit(Z @ w)
        t, g = theta[slot], gamma[row]
        seen, unseen = np.maximum(t * g, 1e-300), np.maximum(1.0 - t * g, 1e-12)
        v = (n - c) / unseen
        examined, relevant = c + v * t * (1.0 - g), np.bincount(row, c + v * g * (1.0 - t), len(X))
        new = np.minimum(np.bincount(slot, examined, n_slots) / np.where(shown_slot > 0, shown_slot, 1.0), 1.0)
        curvature = (shown_row * gamma * (1.0 - gamma))[used]
        gradient = Z[used].T @ (relevant - shown_row * gamma)[used] - ridge * w
        moved = np.linalg.solve((Z[used].T * curvature) @ Z[used] + np.diag(ridge), gradient)
        likelihood = c @ np.log(seen) + (n - c) @ np.log(unseen) - 0.5 * ridge @ (w * w)
        return np.concatenate([new, w + moved]), float(likelihood)

    begin = np.concatenate([np.full(n_slots, 0.5), np.zeros(Z.shape[1])] if start is None else start)
    x, turns = _climb(step, begin, n_slots, n_slots, max_iter, tol)
    return np.where(shown_slot > 0, x[:n_slots], np.nan), x[n_slots:], turns


def warm_clicks() -> None:
    """Call the kernels on a cell and on a list, so that later calls find them compiled."""
    fit_product(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 1, 1)
    entry, last, half = np.zeros((1, 1), np.int64), np.array([-1]), np.full(1, 0.5)
    chain_step(entry, entry, last, last + 2, np.ones(1), half, half, 0.9, np.zeros(1), np.zeros(1))
