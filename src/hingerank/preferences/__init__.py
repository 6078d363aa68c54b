"""Preferences between rows: grades or weights of winners inside query blocks, or explicit pairs, in one interface.

A preference set knows rows, queries and weights, never features or models. All kinds have ``n_items``, ``n_pairs``,
``total_weight`` and ``pairs()``; only dual algorithms call the last. `QueryPreferences` is what sweeps query by query
take: they see its tree, not where it comes from.
"""

from hingerank.preferences.explicit import ExplicitPairs
from hingerank.preferences.graded import GradedPreferences, QueryPreferences
from hingerank.preferences.winners import WeightedWinners

__all__ = ["ExplicitPairs", "GradedPreferences", "Preferences", "QueryPreferences", "WeightedWinners"]

Preferences = QueryPreferences | ExplicitPairs
