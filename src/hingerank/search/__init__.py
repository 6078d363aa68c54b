"""The one search engine for settings: grids worth trying, proposals, folds to try them on, and the best setting."""
