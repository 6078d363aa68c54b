"""Measures of ranking quality: pure values parsed from names, with the conventions of named tools as presets."""

from hingerank.metrics import kinds  # noqa: F401  (it registers the measures)
from hingerank.metrics.evaluator import evaluate, warm_metrics
from hingerank.metrics.measure import MEASURES, Measure, MeasureKind, parse_measure, register
from hingerank.metrics.presets import PRESETS, Preset

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
