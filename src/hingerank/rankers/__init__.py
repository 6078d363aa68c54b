"""Rankers of graded rows: scikit-learn estimators that order the rows of a query. hingerank.registry lists them all."""
