"""Sweeps over preference pairs on a GPU through PyTorch: hinge-type losses of graded rows, without listing pairs.

The rows of each node of the grade tree are side by side in `Slots`, losers before winners. If the losers' scores are
raised by the margin and all are sorted within nodes, a winner's active losers are those after it, and a loser's active
winners those before it; cumulative sums give their totals. O(n log G) numbers are sorted and summed, in double
precision, and only the moments are copied to the CPU. Cumulative sums on a GPU differ in the last bits from run to run.
"""

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from hingerank.arrays import Device, Tensor
from hingerank.losses import Loss, WindowLoss
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.problem.problem import Design, Pass, PlainPass, Point


class Slots:
    """A graded preference set on the device: one slot for each row of each node, and an empty one at the end."""

    def __init__(self, preferences: QueryPreferences, device: Device):
        import torch
        from torch.nn.functional import pad

        def away(values: Tensor, dtype: DTypeLike = np.int64) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(values, dtype), device=device)

        tree, n = preferences.tree, preferences.n_items
        size = tree.node[:, 1] - tree.node[:, 0] + tree.node[:, 3] - tree.node[:, 2]
        total, size, borders = int(size.sum()), away(size), away(tree.node)
        node = torch.arange(len(size), device=device).repeat_interleave(size, output_size=total)
        begin = (size.cumsum(0) - size)[node]
        place = torch.arange(total, device=device) - begin  # position within its node
        first, losers = borders[:, ::2][node].T, (borders[:, 1] - borders[:, 0])[node]
        loses = place < losers
        position = torch.where(loses, first[0] + place, first[1] + place - losers)
        row = away(preferences.row_at)[position]
        weight = torch.where(loses, away(tree.loser, np.float64)[position], away(tree.winner, np.float64)[position])
        by_row, count = row.argsort(stable=True), row.bincount(minlength=n)
        of_row = torch.full((n, max(1, int(count.max()))), total, device=device)  # padded with the empty slot
        earlier = (count.cumsum(0) - count).repeat_interleave(count, output_size=total)
        of_row[row[by_row], torch.arange(total, device=device) - earlier] = by_row
        offsets = away(preferences.offsets)
        self.n, self.device, self.of_row = n, device, of_row
        self.first = offsets[:-1].repeat_interleave(offsets.diff(), output_size=n)
        self.row, self.node, self.loses = pad(row, (0, 1)), pad(node, (0, 1), value=len(size)).int(), pad(loses, (0, 1))
        self.begin, self.end = pad(begin, (0, 1), value=total), pad(begin + size[node], (0, 1), value=total + 1)
        self.lost, self.won = pad(weight * loses, (0, 1)), pad(weight * ~loses, (0, 1))
        self.scaled = pad(weight * away(tree.scale, np.float64)[node], (0, 1))
        own, self.own = preferences.own_pairs, None  # rows paired with themselves, which do not count
        if own is not None:
            self.own = torch.empty(n, dtype=torch.float64, device=device)
            self.own[away(preferences.row_at)] = away(own, np.float64)

    def window(self, s: Tensor, term: np.ndarray) -> "MarginWindow":
        """The active pairs of one term (m, a, b) at scores s."""
        import torch

        margin = float(term[0])
        mine = s[self.row]
        keys = torch.where(self.loses, mine + margin, mine)
        order = torch.argsort(keys, stable=True)
        order = order[torch.argsort(self.node[order], stable=True)]
        return MarginWindow(self, order, mine[order], term)


class MarginWindow:
    """One term's active pairs: slots in the order of their raised scores, and the sums after or before each.

    Few, large operations, since starting one costs a GPU more than reading some thousand numbers: what a product with
    the Hessian needs is laid out here once. Numbers of all slots come twice, those of losers and then those of winners,
    preceded by a 0, so that cumulative sums begin with it.
    """

    def __init__(self, slots: Slots, order: Tensor, s: Tensor, term: np.ndarray):
        import torch

        margin, self.a, self.b = map(float, term)
        loses, size, at = slots.loses[order], len(order), torch.arange(len(order), device=slots.device)
        # for winners: the losers from the next slot to the node's end; for losers: the winners from its begin to here
        ends = torch.stack((torch.where(loses, at, slots.end), torch.where(loses, slots.begin, at + 1)))
        self.ends = (ends + size * loses).reshape(-1)
        self.weights = torch.cat((slots.lost[-1:], slots.lost[order], slots.won[order]))
        row, wins = slots.row[order], ~loses
        self.rows_twice, self.slots = torch.cat((row[-1:], row, row)), slice(1, size + 1)
        # in whole numbers, which are exact; the empty slot, which beats nobody, has no pairs
        self.scaled = slots.scaled[order] * (self.between(torch.cat((loses[-1:], loses, wins)).long()) > 0)
        place = torch.empty_like(order)
        place[order] = at
        self.place, self.shape = place[slots.of_row].reshape(-1), slots.of_row.shape
        self.count, side = self.between(self.weights), torch.where(loses, -1.0, 1.0)
        weighted = self.weights * torch.cat((s[-1:], s, s))
        sums, squares = self.between(weighted), self.between(weighted * torch.cat((s[-1:], s, s)))
        apart = margin - side * s
        self.gap, self.side, self.factor = apart * self.count + side * sums, side, -2 * self.b * self.scaled
        left = self.scaled * wins
        self.moments = torch.stack(
            (left @ self.count, left @ self.gap, left @ (apart * apart * self.count + 2 * apart * sums + squares))
        )
        self.own = slots.own if margin > 0 else None
        if self.own is not None:
            self.moments -= self.own.sum() * torch.tensor(
                [1.0, margin, margin * margin], dtype=torch.float64, device=slots.device
            )

    def between(self, values: Tensor) -> Tensor:
        """For each slot, the sum over those it forms active pairs with."""
        import torch

        sums = torch.cumsum(values, dim=0).index_select(0, self.ends)  # a single cumulative sum is fast on a GPU
        return sums[: len(sums) // 2] - sums[len(sums) // 2 :]

    def rows(self, of_slots: Tensor) -> Tensor:
        """The sums of the slots of each row."""
        return of_slots.index_select(0, self.place).view(self.shape).sum(dim=1)

    def gradient(self) -> Tensor:
        return self.rows(-self.side * self.scaled * (self.a * self.count + 2 * self.b * self.gap))

    def diagonal(self) -> Tensor:
        found = self.rows(2 * self.b * self.scaled * self.count)
        return found if self.own is None else found - 4 * self.b * self.own

    def curvature(self, v: Tensor) -> Tensor:
        import torch

        mine = v.index_select(0, self.rows_twice)
        others = self.between(self.weights * mine)
        return self.rows(torch.addcmul(others, mine[self.slots], self.count, value=-1) * self.factor)


added = partial(reduce, add)  # like sum, but without adding to 0 first


class Swept(NamedTuple):
    """A loss at scores on the device: as LossAt, with tensors."""

    value: float
    gradient: Any
    curvature: Callable[[Any], Any]
    diagonal: Callable[[], Any]
    moments: np.ndarray


def sweep(loss: WindowLoss, slots: Slots, s: Tensor) -> Swept:
    """The loss at scores s, a tensor of doubles, one per row."""
    s = s - s[slots.first]  # pairs only depend on differences within queries
    windows = [slots.window(s, term) for term in loss.terms]
    curved = [window for window in windows if window.b] or windows[:1]
    moments = np.stack([window.moments.cpu().numpy() for window in windows])
    return Swept(
        loss.value(moments),
        added(window.gradient() for window in windows),
        lambda v: added(window.curvature(v) for window in curved),
        lambda: added(window.diagonal() for window in curved),
        moments,
    )


class OnDevice(Protocol):
    """An object with preference pairs on the device, laid out once for all losses and values of C."""

    device: Device
    _laid_out: tuple[QueryPreferences, Slots] | None = None

    def slots(self, preferences: QueryPreferences) -> Slots:
        """The pairs' slots."""
        if self._laid_out is None or self._laid_out[0] is not preferences:
            self._laid_out = preferences, Slots(preferences, self.device)
        return self._laid_out[1]


class DeviceDesign(OnDevice, Design, Protocol):
    """A design whose scores can stay on the device."""

    def away(self, w: np.ndarray) -> Tensor:
        """Φ w on the device, in doubles."""
        ...

    def home(self, z: Tensor) -> np.ndarray:
        """Φᵀ z on the CPU, for z on the device, in doubles."""
        ...

    def scores(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(self.away(w).cpu())

    def back(self, z: np.ndarray) -> np.ndarray:
        import torch

        return self.home(torch.as_tensor(np.ascontiguousarray(z, np.float64), device=self.device))

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        if isinstance(loss, WindowLoss) and isinstance(preferences, QueryPreferences):
            return TorchPass(self, loss, preferences, self.slots(preferences))
        return PlainPass(self, loss, preferences)


class TorchPass(PlainPass):
    """A pair loss over a design on the device: weights are sent; value, gradient and Hessian products are returned."""

    def __init__(self, design: DeviceDesign, loss: WindowLoss, preferences: QueryPreferences, slots: Slots):
        super().__init__(design, loss, preferences)
        self.there, self.windows, self.slots = design, loss, slots

    def at(self, w: np.ndarray) -> Point:
        design, here = self.there, sweep(self.windows, self.slots, self.there.away(w))
        gradient = design.home(here.gradient)
        return Point(w, here.value, gradient, lambda v: design.home(here.curvature(design.away(v))), here.moments)

    def degrees(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(sweep(self.windows, self.slots, self.there.away(w)).diagonal().cpu())
