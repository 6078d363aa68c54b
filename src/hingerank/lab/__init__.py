"""Experiments: folds, the protocol that chooses on validation and tests once, results, significance, leaderboards."""

from hingerank.lab.comparison import Progress, compare
from hingerank.lab.fitting import default_measures
from hingerank.lab.folds import Fold, part_folds, query_folds
from hingerank.lab.leaderboard import Leaderboard, leaderboard
from hingerank.lab.methods import Method
from hingerank.lab.results import Results, load_results
from hingerank.lab.statistics import (
    bootstrap_interval,
    effect_size,
    holm,
    paired_t,
    queries_needed,
    randomisation,
    wilcoxon,
    win_tie_loss,
)
from hingerank.lab.topics import TopicRows, topic_rows
from hingerank.search.proposals import Choice, Grid, Integers, LogUniform, OptunaSearch, RandomSearch, Uniform

__all__ = [
    "Choice",
    "Fold",
    "Grid",
    "Integers",
    "Leaderboard",
    "LogUniform",
    "Method",
    "OptunaSearch",
    "Progress",
    "RandomSearch",
    "Results",
    "TopicRows",
    "Uniform",
    "bootstrap_interval",
    "compare",
    "default_measures",
    "effect_size",
    "holm",
    "leaderboard",
    "load_results",
    "paired_t",
    "part_folds",
    "queries_needed",
    "query_folds",
    "randomisation",
    "topic_rows",
    "wilcoxon",
    "win_tie_loss",
]
