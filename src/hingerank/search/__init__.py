"""One engine for settings: what is worth trying, which settings come next, folds to try them on, and what won."""
