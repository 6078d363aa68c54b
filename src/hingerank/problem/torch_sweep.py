"""Sweeps over preference pairs on a GPU through PyTorch: hinge-type losses of graded rows, without listing pairs.

The rows below each node of the grade tree stand side by side in `Slots`, losers before winners. Sorted within nodes by
the score, a loser's raised by the margin, the losers that a winner has not yet left behind are those after it, and the
winners that threaten a loser those before it; cumulative sums give what they add up to. O(n log G) numbers are sorted
and summed, in double precision, and nothing but the moments crosses over. Cumulative sums of a GPU differ in the last
bits from run to run.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from hingerank.losses import WindowLoss
from hingerank.preferences import GradedPreferences
from hingerank.problem.problem import Design, LossPoint, PlainPass


class Slots:
    """A graded preference set on the device: one slot for each row below each node.

    Parameters
    ----------
    preferences : who should beat whom
    device : a PyTorch device
    """

    def __init__(self, preferences: GradedPreferences, device: Any):
        tree, n = preferences.tree, preferences.n_items
        losers, winners = tree.node[:, 1] - tree.node[:, 0], tree.node[:, 3] - tree.node[:, 2]
        size = losers + winners
        node = np.repeat(np.arange(len(size)), size)
        begin = np.cumsum(size) - size
        place = np.arange(len(node)) - begin[node]  # within its node
        loses = place < losers[node]
        position = np.where(loses, tree.node[node, 0] + place, tree.node[node, 2] + place - losers[node])
        row = preferences.row_at[position]
        weight = np.where(loses, tree.loser[position], tree.winner[position])
        by_row = np.argsort(row, kind="stable")
        count = np.bincount(row, minlength=n)
        of_row = np.full((n, max(1, count.max(initial=0))), len(node))  # the last slot, always 0, where there are fewer
        of_row[row[by_row], np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)] = by_row
        query = np.repeat(np.arange(preferences.n_queries), np.diff(preferences.offsets))

        def away(values: Any, dtype: Any = np.int64) -> Any:
            import torch

            return torch.as_tensor(np.ascontiguousarray(values, dtype), device=device)

        self.n, self.device = n, device
        self.row, self.node, self.loses = away(row), away(node, np.int32), away(loses, bool)
        self.begin, self.end = away(begin[node]), away((begin + size)[node])
        self.weight, self.scaled = away(weight, np.float64), away(weight * tree.scale[node], np.float64)
        self.of_row, self.first = away(of_row), away(preferences.offsets[:-1][query])

    def window(self, s: Any, term: np.ndarray) -> "Window":
        """The active pairs of one term (m, a, b) at scores s."""
        import torch

        margin = float(term[0])
        mine = s[self.row]
        keys = torch.where(self.loses, mine + margin, mine)
        order = torch.argsort(keys, stable=True)
        order = order[torch.argsort(self.node[order], stable=True)]
        return Window(self, order, mine[order], term)


class Window:
    """One term's active pairs: slots in the order of their raised scores, and what stands after or before each.

    Few, large operations: what a product with the Hessian needs is laid out here once.
    """

    def __init__(self, slots: Slots, order: Any, s: Any, term: np.ndarray):
        import torch

        margin, self.a, self.b = map(float, term)
        loses, weight, at = slots.loses[order], slots.weight[order], torch.arange(len(order), device=slots.device)
        # of winners: the losers from the next slot to the node's end; of losers: the winners from its begin to here;
        # sums over winners come after those over losers
        half, zero = loses * len(order), torch.zeros_like(weight)
        self.start, self.stop = half + torch.where(loses, slots.begin, at + 1), half + torch.where(loses, at, slots.end)
        self.weights = torch.cat((torch.where(loses, weight, zero), torch.where(loses, zero, weight)))
        self.active = self.between(torch.cat((loses, ~loses)).long()) > 0  # in whole numbers, which are exact
        row = slots.row[order]
        self.row, self.twice, self.scaled = row, torch.cat((row, row)), slots.scaled[order] * self.active
        place = torch.empty_like(order)
        place[order] = at
        self.place = torch.nn.functional.pad(place, (0, 1), value=len(order))[slots.of_row]
        self.count, side = self.between(self.weights), torch.where(loses, -1.0, 1.0)
        both = torch.cat((s, s))
        sums, squares = self.between(self.weights * both), self.between(self.weights * both * both)
        apart = margin - side * s
        self.gap, self.side = apart * self.count + side * sums, side
        left = torch.where(loses, zero, self.scaled)
        self.moments = torch.stack(
            (left @ self.count, left @ self.gap, left @ (apart * apart * self.count + 2 * apart * sums + squares))
        )

    def between(self, values: Any) -> Any:
        """Of each slot, the sum over those it forms active pairs with; of losers first, of winners after them."""
        import torch

        sums = torch.nn.functional.pad(torch.cumsum(values, dim=0), (1, 0))  # one row: that is fast on a GPU
        return sums[self.stop] - sums[self.start]

    def rows(self, of_slots: Any) -> Any:
        """The sums of the slots of each row."""
        import torch

        return torch.nn.functional.pad(of_slots, (0, 1))[self.place].sum(dim=1)

    def gradient(self) -> Any:
        return self.rows(-self.side * self.scaled * (self.a * self.count + 2 * self.b * self.gap))

    def diagonal(self) -> Any:
        return self.rows(2 * self.b * self.scaled * self.count)

    def curvature(self, v: Any) -> Any:
        others = self.between(self.weights * v[self.twice])
        return self.rows(2 * self.b * self.scaled * (v[self.row] * self.count - others))


class Swept(NamedTuple):
    """A loss at scores on the device: as LossAt, with tensors."""

    value: float
    gradient: Any
    curvature: Callable[[Any], Any]
    diagonal: Callable[[], Any]
    moments: np.ndarray


def sweep(loss: WindowLoss, slots: Slots, s: Any) -> Swept:
    """The loss at scores s, a tensor of doubles, one per row."""
    s = s - s[slots.first]  # pairs see differences within queries alone
    windows = [slots.window(s, term) for term in loss.terms]
    bent = [window for window in windows if window.b] or windows[:1]
    moments = np.stack([window.moments.cpu().numpy() for window in windows])
    return Swept(
        loss.value(moments),
        sum(window.gradient() for window in windows),
        lambda v: sum(window.curvature(v) for window in bent),
        lambda: sum(window.diagonal() for window in bent),
        moments,
    )


class DeviceDesign(Design, Protocol):
    """A design whose scores can stay on the device."""

    def away(self, w: np.ndarray) -> Any:
        """Φ w there, in doubles."""
        ...

    def home(self, z: Any) -> np.ndarray:
        """Φᵀ z here, z being there."""
        ...


class TorchPass(PlainPass):
    """A loss of pairs over a design on the device: weights go there, value, gradient and Hessian products come back."""

    def __init__(self, design: DeviceDesign, loss: WindowLoss, preferences: GradedPreferences, slots: Slots):
        super().__init__(design, loss, preferences)
        self.there, self.windows, self.slots = design, loss, slots

    def at(self, w: np.ndarray) -> LossPoint:
        design, here = self.there, sweep(self.windows, self.slots, self.there.away(w))
        return LossPoint(
            here.value,
            design.home(here.gradient),
            lambda v: design.home(here.curvature(design.away(v))),
            here.moments,
        )
