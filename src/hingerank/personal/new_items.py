"""Score items that nobody took by their features, with weights that reproduce the scores of the known items.

    score(u, x) = <w_u, x>,  w_u = argmin over w of  ‖s_u - F w‖² + strength · m · ‖w‖²

with s_u the user's scores of the known items, F their features and m the mean of ‖f_i‖² over items. A feature that only
one item has (an indicator column, a rare word) does not help with others and is left out. Of the other features the
strongest directions are used (`MOST` singular vectors). The best strength depends on how informative the features are.
Some items are held out as if they were new, and the strength is chosen whose lists find most of what users took.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from hingerank.personal.products import part_found

STRENGTHS, USUAL = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), 3.0  # the default if too little can be held out
MOST = 200  # largest number of directions
PART_HELD, MOST_HELD, LEAST_HELD = 0.2, 1000, 20  # items held out
USERS, LEAST_USERS, TOP = 500, 20, 10  # users whose lists are judged, and the length of a list


@dataclass(frozen=True)
class Directions:
    """F[:, shared] = left · diag(size) · rightᵀ, for features that several items have; m is the mean of ‖f_i‖²."""

    shared: np.ndarray
    left: np.ndarray
    size: np.ndarray
    right: np.ndarray
    m: float

    def shrunk(self, strength: float) -> np.ndarray:
        """Return the factor of each direction of scores in w_u: w_u = right · (shrunk * leftᵀ s_u)."""
        return self.size / (self.size**2 + strength * self.m)


def directions(F: Any) -> Directions:
    """Return the strongest directions of the features that several items have."""
    n, shared = F.shape[0], np.flatnonzero(np.asarray((F != 0).sum(axis=0)).ravel() > 1)
    if len(shared) == 0:
        return Directions(shared, np.zeros((n, 0)), np.zeros(0), np.zeros((0, 0)), 1.0)
    part = sp.csr_matrix(F)[:, shared]
    left, size, right = randomized_svd(part, min(MOST, *part.shape), random_state=0)
    return Directions(shared, left, size, np.ascontiguousarray(right.T), float(part.multiply(part).sum()) / n)


def choose_strength(T: sp.csr_matrix, P: np.ndarray, F: Any, seed: int = 0) -> float:
    """Return the strength with the best lists of held-out items.

    Parameters
    ----------
    T : users x items, what they took
    P : the inverse that gives the weights of EASE
    F : items x features
    """
    rng, n = np.random.default_rng(seed), T.shape[1]
    held = np.sort(rng.permutation(n)[: min(MOST_HELD, int(PART_HELD * n))])
    known = np.setdiff1d(np.arange(n), held)
    took = np.asarray(T[:, held].sum(axis=1)).ravel()
    some = rng.permutation(np.flatnonzero(took > 0))[:USERS]
    if len(held) < LEAST_HELD or len(some) < LEAST_USERS:
        return USUAL
    found = directions(F[known])
    of_users = scores_without(T[some], P, known, held) @ found.left
    of_items = np.asarray(F[held][:, found.shared] @ found.right)
    wanted = (T[some][:, held].toarray() > 0).astype(np.float64)
    right = [part_found((of_users * found.shrunk(s)) @ of_items.T, wanted, TOP) for s in STRENGTHS]
    return STRENGTHS[int(np.argmax(right))]


def scores_without(T: sp.csr_matrix, P: np.ndarray, known: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return users' scores of the known items by an EASE without the held-out items, from the P of one with them.

    The inverse of a block of a matrix is P_kk - P_kh P_hh⁻¹ P_hk.
    """
    kept = np.zeros(T.shape[1])
    kept[known] = 1.0
    own = sp.csr_matrix(T.multiply(kept))
    product = own @ P
    across = np.linalg.solve(P[np.ix_(held, held)], P[held])
    product = product - product[:, held] @ across
    diagonal = np.diag(P) - np.einsum("hi,hi->i", P[held], across)
    return (own.toarray() - product / np.where(kept > 0, diagonal, 1.0))[:, known]
