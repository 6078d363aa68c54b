"""Where features, loss, preferences and structure are combined: designs, and problems that solvers minimise."""

from hingerank.problem.problem import Design, Objective, Point, Problem, RowsDesign

__all__ = ["Design", "Objective", "Point", "Problem", "RowsDesign"]
