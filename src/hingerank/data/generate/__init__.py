"""Generated data with known truth, seeded: the same arguments give the same data on any number of threads."""

from importlib import import_module
from typing import Any

from hingerank.data.generate.letor import GeneratedData, Truth, make_letor
from hingerank.data.generate.personal import PersonalData, PersonalTruth, make_personal
from hingerank.data.generate.shapes import make_benchmark, make_like

__all__ = [
    "GeneratedData",
    "PersonalData",
    "PersonalTruth",
    "Truth",
    "make_benchmark",
    "make_diverse",
    "make_letor",
    "make_like",
    "make_personal",
]


def __getattr__(name: str) -> Any:
    if name == "make_diverse":  # imported when used: it needs the relations between documents
        return import_module("hingerank.data.diverse_generator").make_diverse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
