"""Rankers whose dual multipliers are low-rank matrices, one for each query."""
