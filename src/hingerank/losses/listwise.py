"""Losses of whole lists: ListNet's top-one cross entropy and ListMLE's Plackett-Luce likelihood."""

from abc import ABC, abstractmethod

import numpy as np

from hingerank.kernels.listwise_losses import (
    listmle_curvature_pass,
    listmle_pass,
    listnet_curvature_pass,
    listnet_pass,
)
from hingerank.kernels.threads import run_shards
from hingerank.losses.base import LossAt
from hingerank.preferences import GradedPreferences, Preferences


class ListLoss(ABC):
    """sum over queries of a function of the query's scores and grades.

    A row of weight 2 counts as two rows; a query's own weight multiplies its term.
    """

    name: str
    convex = True
    takes_pair_weights = False  # whether weights of single pairs mean something

    @abstractmethod
    def lists(self, s: np.ndarray, preferences: GradedPreferences) -> LossAt:
        """The loss over the lists of graded rows."""

    def at(self, s: np.ndarray, preferences: Preferences) -> LossAt:
        """The loss at scores s (one per row, in block order)."""
        if not isinstance(preferences, GradedPreferences):
            raise ValueError(f"the loss {self.name!r} is one of graded lists: it cannot learn from single comparisons")
        if preferences.pairs_differ and not self.takes_pair_weights:
            raise ValueError(
                f"the loss {self.name!r} is one of whole lists and takes no weights of pairs: leave out "
                "pair_weight='query', grade_weight and winner_weight"
            )
        return self.lists(np.ascontiguousarray(s, np.float64), preferences)


def list_weights(preferences: GradedPreferences) -> tuple[np.ndarray, np.ndarray]:
    """A weight for each row and one for each query."""
    m, c = preferences.item_weight, preferences.query_weight
    return (
        np.ones(preferences.n_items) if m is None else m,
        np.ones(preferences.n_queries) if c is None else c,
    )


class TopOne(ListLoss):
    """-sum_i P_y(i) log P_s(i),  P_s(i) = exp(s_i) / sum_j exp(s_j),  P_y(i) = exp(y_i) / sum_j exp(y_j)  (ListNet).

    P(i) is the Plackett-Luce probability that row i comes first. O(n).
    """

    name = "listnet"

    def lists(self, s, preferences) -> LossAt:
        (m, c), y = list_weights(preferences), preferences.y
        offsets, shards = preferences.offsets, preferences.shards
        z, p = np.empty_like(s), np.empty_like(s)
        values = run_shards(lambda ab: listnet_pass(s, y, m, c, offsets, *ab, z, p), shards)

        def curvature(v):
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: listnet_curvature_pass(p, v, c, offsets, *ab, out), shards)
            return out

        return LossAt(float(sum(values)), z, curvature, np.repeat(c, np.diff(offsets)) * p * (1.0 - p))


class PlackettLuce(ListLoss):
    """sum over rows i of  -log( exp(s_i) / (exp(s_i) + sum over j of lower grade of exp(s_j)) )  (ListMLE).

    For grades without ties this is minus the log-likelihood of the graded order under Plackett and Luce's model. Rows
    of equal grade do not compete: their order is unknown, so none is made up (drawing one, as is common, would make the
    answer depend on the order of the file). The sum is an upper bound on minus the log-probability that every better
    row precedes every worse one. The rows of a query's lowest grade cost nothing. O(n), the rows lying by grade.
    """

    name = "listmle"

    def lists(self, s, preferences) -> LossAt:
        (m, c), tree, shards = list_weights(preferences), preferences.tree, preferences.shards
        z, diagonal = np.empty_like(s), np.empty_like(s)
        values = run_shards(lambda ab: listmle_pass(s, m, c, *ab, tree, z, diagonal), shards)

        def curvature(v):
            v, out = np.ascontiguousarray(v, np.float64), np.empty_like(s)
            run_shards(lambda ab: listmle_curvature_pass(s, v, m, c, *ab, tree, out), shards)
            return out

        return LossAt(float(sum(values)), z, curvature, diagonal)
