"""Gram matrices, rows, mapped rows and bins of curves on a GPU through PyTorch (optional: `pip install torch`).

Matrices of n rows are on the GPU, in float32, and the pairs of hinge-type losses are swept there too; weights,
gradients and a solver's own vectors are on the CPU. (Losses that visit each pair, and explicit pairs, are swept on the
CPU.) Products are float32, so relative gradients below about 1e-5 cannot be reached; on the CPU they are float64.

For curves (problem/curves.py) the cell of every value, which is a bin of a column, and its position stay on the GPU,
and once more sorted by cell. Scores look up heights and slopes by cell; the way back sums pieces of each cell's rows
and then the pieces, always in the same order, so results have the same bits in every run. Sums are double precision, as
on the CPU. 16 bytes a value.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Device, Matrix, Tensor
from hingerank.data.rows_view import RowsView
from hingerank.features.curves import Knots
from hingerank.features.kernels import Kernel
from hingerank.features.maps import FeatureMap
from hingerank.losses import Loss, LossAt, WindowLoss
from hingerank.preferences import Preferences, QueryPreferences
from hingerank.problem.kernel_space import GramMatrix, computed_product, sizes_of
from hingerank.problem.torch_sweep import DeviceDesign, OnDevice, Swept, sweep

ROWS = 4096  # rows mapped at a time
COMPUTED = 1 << 26  # numbers of K in double precision that are computed at a time
AT_ONCE = 1 << 25  # values that are looked up, sorted or summed at a time
PIECE = 1 << 12  # values that are summed as one piece
BYTES_A_VALUE, BYTES_AT_ONCE = 16, 64 * AT_ONCE


def check_device(device: str) -> Device:
    """The PyTorch device of that name, or None for the CPU without PyTorch; a ValueError says what is missing.

    "cpu" does not use PyTorch at all; "torch-cpu" runs the GPU's code on the CPU, to test it.
    """
    if device == "cpu":
        return None
    try:
        import torch
    except ImportError:
        raise ValueError(f"device={device!r} needs PyTorch, which is not installed: pip install torch") from None
    if device == "torch-cpu":
        return torch.device("cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be 'cpu' or 'cuda', not {device!r} ({error})") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}: PyTorch {torch.__version__} sees no NVIDIA GPU on this machine")
    return found


def check_room(device: Device, size: float, what: str) -> None:
    """Raise a ValueError, which says what needs the memory, unless this many bytes are free on the device."""
    free = free_bytes(device)
    if size > free:
        raise ValueError(
            f"{what} take {size / 1e9:.1f} GB on device {str(device)!r}, which has {free / 1e9:.1f} GB left: fit with "
            "device='cpu', or a part of the rows"
        )


def free_bytes(device: Device) -> float:
    """Bytes that are free on the device, or cached by PyTorch for later use."""
    import torch

    if device.type != "cuda":
        return float("inf")
    return float(
        torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    )


class TorchGram(OnDevice, GramMatrix):
    """The whole K = κ(X, X), on the device."""

    cost = 0.0  # products there take no longer than vector operations here
    single = True

    def __init__(self, kernel: Kernel, X: Matrix, device: Device):
        import torch

        kernel = self.kernel = kernel.centred(X)
        self.X, self.n, self.device, self.factors = X, X.shape[0], device, None
        check_room(device, 4.0 * self.n**2, f"kernel values of {self.n} rows with each other")
        if not _by_product(kernel, X):
            self.tensor = evaluate(kernel, X, kernel.right(X, np.float32), device)
            self.size = self.away(sizes_of(kernel, X))
            return
        left, right = (torch.as_tensor(factor(X, np.float64), device=device) for factor in (kernel.left, kernel.right))
        self.factors, size = (left, right), (left * right).sum(dim=1)
        kernel.finish(size)
        self.size = size.clamp(min=0.0).sqrt()
        self.tensor = torch.empty((self.n, self.n), dtype=torch.float32, device=device)
        for block, rows in zip(self.tensor.split(ROWS), left.float().split(ROWS)):
            torch.matmul(rows, right.float().T, out=block)
            kernel.finish(block)

    def exact(self, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        import torch

        if self.factors is None:
            found = computed_product(self.kernel, self.X, np.stack([self.home(v) for v in vectors]))
            return [self.away(v) for v in found]
        left, right = self.factors
        used = torch.stack([v != 0 for v in vectors]).any(dim=0).nonzero()[:, 0]
        right, weights, height = right[used].T, [v[used] for v in vectors], max(16, COMPUTED // max(1, len(used)))
        products = [torch.empty_like(v) for v in vectors]
        for a in range(0, self.n, height):
            block = left[a : a + height] @ right
            self.kernel.finish(block)
            for product, weight in zip(products, weights):  # one by one: two columns at once are slower
                torch.mv(block, weight, out=product[a : a + height])
        return products

    def inner(self, a: Tensor, b: Tensor) -> float:
        return float(a @ b)

    def add(self, a: Tensor, b: Tensor, factor: float) -> Tensor:
        return a.add(b, alpha=factor)

    def away(self, v: Tensor) -> Tensor:
        import torch

        if isinstance(v, torch.Tensor):
            return v.clone()
        return torch.as_tensor(np.array(v, np.float64), device=self.device)

    def home(self, v: Tensor) -> np.ndarray:
        return np.asarray(v.cpu())

    def product(self, v: Tensor) -> Tensor:
        """K v."""
        return (self.tensor @ v.float()).double()

    def sweep(self, loss: Loss, preferences: Preferences) -> Callable[[Tensor], LossAt | Swept]:
        if isinstance(loss, WindowLoss) and isinstance(preferences, QueryPreferences):
            return partial(sweep, loss, self.slots(preferences))

        def at(s: Tensor) -> LossAt:
            found = loss.at(self.home(s), preferences)
            there: Tensor = {name: self.away(getattr(found, name)) for name in ("gradient", "diagonal")}
            return replace(found, curvature=lambda v: self.away(found.curvature(self.home(v))), **there)

        return at

    def matrix(self) -> np.ndarray:
        """K on the CPU, in double precision: for small n."""
        return self.kernel.matrix(self.X, self.X)


class TorchDesign(DeviceDesign):
    """Φ = A T with A, a matrix of all rows, on the device; T is optional."""

    def __init__(self, tensor: Tensor, mixing: np.ndarray | None = None):
        self.tensor, self.device, self.mixing = tensor, tensor.device, None if mixing is None else _away(mixing, tensor)
        self.shape = (tensor.shape[0], tensor.shape[1] if mixing is None else mixing.shape[1])
        self.numbers = tensor.numel()

    @classmethod
    def of_map(cls, feature_map: FeatureMap, X: Matrix, device: Device) -> "TorchDesign":
        """Mapped rows."""
        right = feature_map.right_[np.float32]
        return cls(evaluate(feature_map.kernel_, X, right, device), feature_map.mixing_)

    @classmethod
    def of_rows(cls, X: Matrix, device: Device) -> "TorchDesign":
        """The rows themselves, sparse ones made dense."""
        import torch

        check_room(device, 4.0 * X.shape[0] * X.shape[1], f"{X.shape[0]} rows of {X.shape[1]} features")
        out = torch.empty(tuple(X.shape), dtype=torch.float32, device=device)
        for a, b, block in dense_blocks(X, ROWS):
            out[a:b].copy_(torch.as_tensor(np.ascontiguousarray(block, np.float32)))
        return cls(out)

    def away(self, w: np.ndarray) -> Tensor:
        w = _away(w, self.tensor)
        return (self.tensor @ (w if self.mixing is None else self.mixing @ w)).double()

    def home(self, z: Tensor) -> np.ndarray:
        g = z.float() @ self.tensor
        return np.asarray((g if self.mixing is None else g @ self.mixing).double().cpu())


def evaluate(kernel: Kernel, X: Matrix, right: Tensor, device: Device) -> Tensor:
    """κ between all rows of X and those of the factor `right`, as a float32 tensor on the device.

    Kernels of dense rows that are one product are computed there, others on the CPU, block by block.
    """
    import torch

    check_room(device, 4.0 * X.shape[0] * right.shape[0], f"{X.shape[0]} rows of {right.shape[0]} kernel values")
    out = torch.empty((X.shape[0], right.shape[0]), dtype=torch.float32, device=device)
    there = _by_product(kernel, X, right)
    B: Tensor = torch.as_tensor(right, device=device).T if there else None
    for a in range(0, X.shape[0], ROWS):
        block, A = out[a : a + ROWS], kernel.left(X[a : a + ROWS], np.float32)
        if there:
            torch.matmul(torch.as_tensor(A, device=device), B, out=block)
            kernel.finish(block)
        else:
            here = np.empty(tuple(block.shape), np.float32)
            kernel.between(A, right, here)
            block.copy_(torch.as_tensor(here))
    return out


def dense_blocks(X: Matrix, height: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """(a, b, rows a:b, made dense if sparse) for blocks that cover X, a matrix or a view."""
    if isinstance(X, RowsView):
        blocks = ((a, b, X.block(a, b)) for shard in X.shards() for a, b in shard)
    else:
        blocks = ((a, min(a + height, X.shape[0]), X[a : a + height]) for a in range(0, X.shape[0], height))
    for a, b, block in blocks:
        yield a, b, block.toarray() if sp.issparse(block) else block


def _by_product(kernel: Kernel, *rows: Matrix) -> bool:
    return kernel.by_product and not any(map(sp.issparse, rows))


def _away(v: np.ndarray, like: Tensor) -> Tensor:
    import torch

    return torch.as_tensor(np.ascontiguousarray(v, np.float64), device=like.device).float()


class TorchBins(DeviceDesign):
    """Ψ: the row of a value has a 1 at its bin's height and its position at the bin's slope; positions are float32.

    X: rows, a matrix or a view; CSR is made dense.
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
