"""The squared Euclidean norm."""

import numpy as np

from hingerank.arrays import Floats, Vector


class HalfSquare:
    """½‖w‖², of vectors or anything else with an inner product (problem/kernel_space.py).

    >>> HalfSquare().value(np.array([3.0, 4.0]))
    12.5
    """

    def value(self, w: Vector) -> float:
        return 0.5 * float(w @ w)

    def gradient(self, w: Vector) -> Vector:
        return w

    def curvature(self, v: Vector) -> Vector:
        return v

    def add_hessian(self, H: Floats) -> Floats:
        H[np.diag_indices_from(H)] += 1.0
        return H

    def add_diagonal(self, d: Floats) -> Floats:
        return d + 1.0
