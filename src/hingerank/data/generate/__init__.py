"""Generated data with known truth, seeded: the same arguments give the same data on any number of threads."""

from hingerank.data.generate.letor import GeneratedData, Truth, make_letor
from hingerank.data.generate.personal import PersonalData, PersonalTruth, make_personal
from hingerank.data.generate.shapes import make_benchmark, make_like

__all__ = [
    "GeneratedData",
    "PersonalData",
    "PersonalTruth",
    "Truth",
    "make_benchmark",
    "make_letor",
    "make_like",
    "make_personal",
]
