"""Measures of ranking quality: pure values parsed from names, with the conventions of named tools as presets."""

from hingerank.metrics.evaluator import evaluate, warm_metrics
from hingerank.metrics.measure import MEASURES, PRESETS, Measure, MeasureKind, Preset, parse_measure, register

__all__ = [
    "MEASURES",
    "PRESETS",
    "Measure",
    "MeasureKind",
    "Preset",
    "evaluate",
    "parse_measure",
    "register",
    "warm_metrics",
]
