"""Who should beat whom: grades inside query blocks, or explicit pairs, behind one interface.

A preference set knows rows, queries and weights, never features or models. Both kinds have ``n_items``, ``n_pairs``,
``total_weight`` and ``pairs()``; only dual algorithms call the last.
"""

from hingerank.preferences.explicit import ExplicitPairs
from hingerank.preferences.graded import GradedPreferences

__all__ = ["ExplicitPairs", "GradedPreferences", "Preferences"]

Preferences = GradedPreferences | ExplicitPairs
