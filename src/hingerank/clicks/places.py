"""The graph of places: two are joined by the documents that were shown at both, and only then can be compared."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hingerank.clicks.counting import Cells, group_by


@dataclass(frozen=True)
class PlaceGraph:
    """Places and what joins them.

    Parameters
    ----------
    places : int array
        Those at which anything was shown, rising.
    weight : array, places × places
        Σ over documents d of a query of min(n_dk, n_dk′), n_dk its showings at place k; 0 on the diagonal.
    clicks : array, places × places
        The same sum of min(n_dk, n_dk′) · c_dk / n_dk: clicks at k of documents that were at k′ too, on that weight.

    Attributes
    ----------
    part : int array
        The number of the connected part that each place is in; 0 is that of the first place.
    """

    places: np.ndarray
    weight: np.ndarray
    clicks: np.ndarray

    @cached_property
    def part(self) -> np.ndarray:
        return _parts(self.weight)

    @property
    def n_parts(self) -> int:
        return int(self.part.max(initial=-1)) + 1

    def thinnest(self) -> tuple[int, int, float] | None:
        """Two places and their weight: the weakest edge of the tree of strongest edges; None where there is no edge.

        All that compares the places on its two sides goes through edges of at most this weight.
        """
        tree = _strongest_tree(self.weight)
        if not tree:
            return None
        i, j = min(tree, key=lambda edge: self.weight[edge])
        first, second = sorted((int(self.places[i]), int(self.places[j])))
        return first, second, float(self.weight[i, j])


def place_graph(cells: Cells) -> PlaceGraph:
    """The graph of the places of some cells, contexts taken together. O(cells · places of a document)."""
    places, at = np.unique(cells.place, return_inverse=True)
    columns, group = group_by([cells.query, cells.document, at.ravel()])
    n = np.bincount(group, cells.showings, len(columns[0]))
    c = np.bincount(group, cells.clicks, len(columns[0]))
    return joined_places(places, columns[2], n, c, shared_cells(columns[0], columns[1]))


def shared_cells(query: np.ndarray, document: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(i, j), i < j: all two cells of the same document of a query, of cells that are sorted by both."""
    first, second, lag = [], [], 1
    while lag < len(query):  # those of a document lie together
        same = np.flatnonzero((query[lag:] == query[:-lag]) & (document[lag:] == document[:-lag]))
        if not len(same):
            break
        first.append(same)
        second.append(same + lag)
        lag += 1
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *first]), np.concatenate([none, *second])


def joined_places(
    places: np.ndarray, at: np.ndarray, n: np.ndarray, c: np.ndarray, shared: tuple[np.ndarray, np.ndarray]
) -> PlaceGraph:
    """The graph from the place number, showings and clicks of each cell, and the cells that share a document."""
    i, j = shared
    size = len(places)
    least, rate = np.minimum(n[i], n[j]), c / np.where(n > 0, n, 1.0)

    def total(first: np.ndarray, second: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.bincount(at[first] * size + at[second], values, size * size).reshape(size, size)

    weight = total(i, j, least)
    clicks = total(i, j, least * rate[i]) + total(j, i, least * rate[j])
    weight = weight + weight.T
    return PlaceGraph(np.asarray(places, np.int64), weight, clicks)


def _parts(weight: np.ndarray) -> np.ndarray:
    """Connected parts, numbered by their first place."""
    part = np.full(len(weight), -1)
    for start in range(len(weight)):
        if part[start] < 0:
            number, waiting = part.max() + 1, [start]
            while waiting:
                i = waiting.pop()
                if part[i] < 0:
                    part[i] = number
                    waiting += np.flatnonzero((weight[i] > 0) & (part < 0)).tolist()
    return part


def _strongest_tree(weight: np.ndarray) -> list[tuple[int, int]]:
    """Edges of the spanning forest of greatest weight (Prim's)."""
    inside, tree = np.zeros(len(weight), bool), []
    for start in range(len(weight)):
        if inside[start]:
            continue
        inside[start] = True
        while True:
            edges = np.where(inside[:, None] & ~inside[None, :], weight, 0.0)
            i, j = np.unravel_index(int(np.argmax(edges)), edges.shape)
            if edges[i, j] <= 0:
                break
            inside[j] = True
            tree.append((int(i), int(j)))
    return tree
