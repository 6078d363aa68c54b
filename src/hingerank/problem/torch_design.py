"""Gram matrices and mapped rows on a GPU through PyTorch (optional: `pip install torch`).

Only the matrices of n rows live there, in float32; vectors cross over once per product, and the sweeps over preference
pairs, a small part of the work, stay with the compiled kernels here. Sums are float32, so relative gradients below
about 1e-5 are out of reach; on the CPU they are float64.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.features.kernels import Kernel
from hingerank.problem.gram import GramMatrix, computed_product, sizes_of
from hingerank.problem.problem import Design

ROWS = 4096  # mapped at a time


def check_device(device: str) -> Any:
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


class TorchGram(GramMatrix):
    """K = κ(X, X) whole, on the device."""

    cost = 0.0  # products there take no longer than vectors here
    single = True

    def __init__(self, kernel: Kernel, X: Any, device: Any):
        self.kernel, self.X, self.n = kernel.centred(X), X, X.shape[0]
        self.tensor, self.size = evaluate(self.kernel, X, self.kernel.right(X, np.float32), device), sizes_of(kernel, X)

    def exact(self, V: np.ndarray) -> np.ndarray:
        return computed_product(self.kernel, self.X, V)

    def product(self, v: np.ndarray) -> np.ndarray:
        """K v."""
        return _home(self.tensor @ _away(v, self.tensor))

    def matrix(self) -> np.ndarray:
        """K here, in double precision: for small n."""
        return self.kernel.matrix(self.X, self.X)


class TorchDesign(Design):
    """Φ = ψ(X) T with ψ(X) on the device."""

    def __init__(self, feature_map: Any, X: Any, device: Any):
        self.tensor = evaluate(feature_map.kernel_, X, feature_map.right_[np.float32], device)
        mixing = feature_map.mixing_
        self.mixing = None if mixing is None else _away(mixing, self.tensor)
        self.shape = (X.shape[0], self.tensor.shape[1] if mixing is None else mixing.shape[1])
        self.numbers = self.tensor.numel()

    def scores(self, w: np.ndarray) -> np.ndarray:
        w = _away(w, self.tensor)
        return _home(self.tensor @ (w if self.mixing is None else self.mixing @ w))

    def back(self, z: np.ndarray) -> np.ndarray:
        g = _away(z, self.tensor) @ self.tensor
        return _home(g if self.mixing is None else g @ self.mixing)


def evaluate(kernel: Kernel, X: Any, right: Any, device: Any) -> Any:
    """κ between all rows of X and those that gave `right`, as a float32 tensor on the device.

    Dense kernels that are one product are computed there, others here, block by block.
    """
    import torch

    out = torch.empty((X.shape[0], right.shape[0]), dtype=torch.float32, device=device)
    there = kernel.by_product and not sp.issparse(X) and not sp.issparse(right)
    B: Any = torch.as_tensor(right, device=device).T if there else None
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


def _away(v: np.ndarray, like: Any) -> Any:
    import torch

    return torch.as_tensor(np.ascontiguousarray(v, np.float64), device=like.device).float()


def _home(t: Any) -> np.ndarray:
    return np.asarray(t.double().cpu())
