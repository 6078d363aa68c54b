"""Where features, losses and preferences meet: designs and objectives."""

from hingerank.problem.design import RowsDesign
from hingerank.problem.objective import Point, RankObjective

__all__ = ["Point", "RankObjective", "RowsDesign"]
