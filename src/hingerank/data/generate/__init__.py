"""Generated data with known truth, seeded: the same arguments give the same data on any number of threads."""

from hingerank.data.generate.letor import GeneratedData, Truth, make_letor
from hingerank.data.generate.shapes import make_benchmark, make_like

__all__ = ["GeneratedData", "Truth", "make_benchmark", "make_letor", "make_like"]
