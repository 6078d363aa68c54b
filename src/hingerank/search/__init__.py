"""The one search engine for settings, of `tune`, `compare` and the papers' tables. File by file:

- settings: which settings are worth trying for each ranker, one table of stages; and stages and grids as searches
- proposals: other searches: random draws, Optuna, grids that grow
- folds: how settings are fitted to a fold, along a path if the ranker has one, and measured on what it holds out
- tuning: `tune`, a study for each ranker, which tries what a search proposes over the folds and stops poor settings;
  then the best one, or a blend of all, fitted on everything
- serving: which settings another program can run
- kernel_search: `search_kernel`, gamma and C on validation data
"""
