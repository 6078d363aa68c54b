"""Bins and positions of values on a GPU through PyTorch, for curves (problem/binned.py).

The cell of every value, which is a bin of a column, and its position stay on the GPU, and once more sorted by cell.
Scores look up heights and slopes by cell; the way back sums pieces of each cell's rows and then the pieces, always in
the same order, so results have the same bits in every run. Sums are double precision, as on the CPU. 16 bytes a value.
"""

import numpy as np

from hingerank.arrays import Device, Matrix, Tensor
from hingerank.features.curves import Knots
from hingerank.problem.torch_design import check_room, dense_blocks
from hingerank.problem.torch_sweep import DeviceDesign

AT_ONCE = 1 << 25  # values that are looked up, sorted or summed at a time
PIECE = 1 << 12  # values that are summed as one piece
BYTES_A_VALUE, BYTES_AT_ONCE = 16, 64 * AT_ONCE


class TorchBins(DeviceDesign):
    """Ψ: the row of a value has a 1 at its bin's height and its position at the bin's slope; positions are float32.

    Parameters
    ----------
    X : rows, a matrix or a view; CSR is made dense
    knots : of every column
    device : a PyTorch device
    """

    def __init__(self, X: Matrix, knots: Knots, device: Device):
        import torch

        n, d = X.shape
        check_room(device, BYTES_A_VALUE * n * d + BYTES_AT_ONCE, f"bins and places of {n} rows of {d} features")
        most = int(knots.counts.max())
        self.device, self.shape, self.numbers = device, (n, d * 2 * (most + 1)), n * d
        tables = [torch.as_tensor(part, device=device) for part in _lines(knots, most)]
        self.cells = torch.empty((n, d), dtype=torch.int32, device=device)
        self.places = torch.empty((n, d), dtype=torch.float32, device=device)
        for a, b, block in dense_blocks(X, max(1, AT_ONCE // d)):
            values = torch.as_tensor(np.ascontiguousarray(block), device=device).double()
            self.cells[a:b], self.places[a:b] = _placed(values, *tables)
        count = torch.bincount(self.cells.reshape(-1), minlength=d * (most + 1)).reshape(d, most + 1)
        self.rows = torch.empty((d, n), dtype=torch.int32, device=device)  # the rows of each cell, cell after cell
        self.sorted = torch.empty((d, n), dtype=torch.float32, device=device)  # their positions
        self.stretches = []
        for a in range(0, d, max(1, AT_ONCE // n)):
            b = min(a + max(1, AT_ONCE // n), d)
            self.stretches.append((a, b, *_pieces(count[a:b].reshape(-1))))
            order = torch.argsort(self.cells[:, a:b].T.reshape(-1), stable=True)
            self.rows[a:b] = (order % n).reshape(b - a, n)
            self.sorted[a:b] = self.places[:, a:b].T.reshape(-1)[order].reshape(b - a, n)

    def away(self, w: np.ndarray) -> Tensor:
        import torch

        table = torch.as_tensor(np.ascontiguousarray(w.reshape(-1, 2).T, np.float64), device=self.device)
        (n, d), out = self.cells.shape, torch.empty(self.shape[0], dtype=torch.float64, device=self.device)
        height = max(1, AT_ONCE // d)
        for a in range(0, n, height):
            cells, places = self.cells[a : a + height].view(-1), self.places[a : a + height].view(-1)
            heights, slopes = (part.index_select(0, cells) for part in table)  # two look-ups: one of pairs is slower
            torch.sum(torch.addcmul(heights, slopes, places).view(-1, d), dim=1, out=out[a : a + height])
        return out

    def home(self, z: Tensor) -> np.ndarray:
        return np.asarray(self._sums(z, 2).cpu()).ravel()

    def moments(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Σ weight, Σ weight · position, Σ weight · position² over some rows, of every bin of every column."""
        import torch

        z = torch.zeros(self.shape[0], dtype=torch.float64, device=self.device)
        z[torch.as_tensor(rows, device=self.device)] = torch.as_tensor(weight, device=self.device)
        return np.asarray(self._sums(z, 3).cpu())

    def _sums(self, z: Tensor, powers: int) -> Tensor:
        """Σ z, Σ z · position, … over the rows of every bin of every column: columns × bins × powers."""
        import torch

        d = len(self.rows)
        out = torch.empty((d, self.shape[1] // (2 * d), powers), dtype=torch.float64, device=self.device)
        for a, b, lengths, pieces in self.stretches:
            terms = z.index_select(0, self.rows[a:b].view(-1))
            for k in range(powers):
                terms = terms * self.sorted[a:b].view(-1) if k else terms
                sums = torch.segment_reduce(terms, "sum", lengths=lengths, unsafe=True)
                out[a:b, :, k] = torch.segment_reduce(sums, "sum", lengths=pieces, unsafe=True).view(b - a, -1)
        return out


def _lines(knots: Knots, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The knots of every column, padded with ∞, and for every bin the origin and unit of positions."""
    counts, d = knots.counts, len(knots.width)
    padded = np.full((d, most), np.inf)
    mine = np.arange(most) < counts[:, None]
    padded[mine] = knots.values
    origin = np.concatenate((padded[:, :1], padded), axis=1)
    unit = np.repeat(knots.width[:, None], most + 1, axis=1)
    unit[:, 1:-1] = np.where(mine[:, 1:], padded[:, 1:] - np.where(mine, padded, 0.0)[:, :-1], unit[:, 1:-1])
    return padded, origin.ravel(), unit.ravel()


def _pieces(count: Tensor) -> tuple[Tensor, Tensor]:
    """The lengths of the pieces into which the rows of cells are cut, and the number of pieces of each cell."""
    import torch

    pieces = (count + PIECE - 1) // PIECE
    earlier = (pieces.cumsum(0) - pieces).repeat_interleave(pieces)
    number = torch.arange(len(earlier), device=count.device) - earlier  # within its cell
    return (count.repeat_interleave(pieces) - number * PIECE).clamp(max=PIECE), pieces


def _placed(values: Tensor, padded: Tensor, origin: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    """The cells and positions of a block of rows."""
    import torch

    first = torch.arange(len(padded), device=values.device) * (padded.shape[1] + 1)
    bins = torch.searchsorted(padded, values.T.contiguous(), right=True).T  # knots that are not above a value
    cells = (bins + first).contiguous()
    return cells, (values - origin[cells]) / unit[cells]
