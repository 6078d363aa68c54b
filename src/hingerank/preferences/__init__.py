"""Preferences between rows: grades or weighted winners inside query blocks, or explicit pairs, in one interface.

A preference set has rows, queries and weights, but no features or models. All kinds have ``n_items``, ``n_pairs``,
``total_weight`` and ``pairs()``; only dual algorithms call the last. Sweeps over queries take `QueryPreferences`: they
use its tree, whatever it was made from.
"""

from hingerank.preferences.explicit import ExplicitPairs
from hingerank.preferences.graded import GradedPreferences, QueryPreferences
from hingerank.preferences.winners import WeightedWinners

__all__ = ["ExplicitPairs", "GradedPreferences", "Preferences", "QueryPreferences", "WeightedWinners"]

Preferences = QueryPreferences | ExplicitPairs
