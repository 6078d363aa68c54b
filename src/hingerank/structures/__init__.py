"""Structures: what is asked of the weights. A structure knows w and gradients, never features or grades."""

from hingerank.structures.l1 import L1Ball, L1Norm

__all__ = ["L1Ball", "L1Norm"]
