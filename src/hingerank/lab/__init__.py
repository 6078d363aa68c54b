"""Experiments: folds, the protocol that chooses on validation and tests once, results, significance, leaderboards."""

from hingerank.lab.comparison import Progress, compare, scored_folds
from hingerank.lab.folds import Fold, part_folds, query_folds
from hingerank.lab.kinds import default_measures
from hingerank.lab.leaderboard import Leaderboard, leaderboard
from hingerank.lab.methods import Method, method_from_name
from hingerank.lab.rating_folds import list_folds, rating_folds
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
from hingerank.search.proposals import Choice, Integers, LogUniform, OptunaSearch, RandomSearch, Uniform
from hingerank.search.settings import Grid

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
    "list_folds",
    "load_results",
    "method_from_name",
    "paired_t",
    "part_folds",
    "queries_needed",
    "query_folds",
    "randomisation",
    "rating_folds",
    "scored_folds",
    "topic_rows",
    "wilcoxon",
    "win_tie_loss",
]
