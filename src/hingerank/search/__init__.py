"""The one search engine for settings, of `tune`, `compare` and the papers' tables. File by file:

- settings: which settings are worth trying for each ranker, one table of stages
- proposals: which of them to try next, given the values of those before: stages, a grid, random draws, Optuna
- folds: how settings are fitted to a fold, along a path if the ranker has one, and measured on what it holds out
- study: one ranker; what is proposed is tried over the folds, poor settings are stopped, the best one is chosen
- serving: which settings another program can run
- tuning: `tune`, a study for each ranker, then the best one, or a blend of all, fitted on everything
"""
