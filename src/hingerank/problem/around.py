"""Problems around given weights: ½‖w - centre‖² instead of ½‖w‖², as the same kind of problem in v = w - centre.

½‖v‖² + C · loss(Φ (v + centre)) has the same structure, the same start, v = 0, and the same certificate. So solvers
need no code for a centre.
"""

import numpy as np

from hingerank.losses import Loss
from hingerank.preferences import Preferences
from hingerank.problem.mapped import WrappedPass
from hingerank.problem.problem import Design, LossPoint, Pass, Problem


class AroundProblem(Problem):
    """f(v) = ½‖v‖² + C · loss(Φ (v + centre); preferences).

    Parameters
    ----------
    problem : ½‖w‖² + C · loss(Φ w; preferences)
    centre : the weights from which the norm is measured
    """

    def __init__(self, problem: Problem, centre: np.ndarray):
        self.centre = np.asarray(centre, np.float64)
        design = AroundDesign(problem.design, self.centre)
        super().__init__(design, problem.loss, problem.preferences, C=problem.C)

    def origin(self) -> float:
        return self.at(np.zeros(self.dimension)).value


class AroundDesign(Design):
    """Φ with scores that start from those of a centre: its passes are those of Φ at v + centre, in v."""

    def __init__(self, inner: Design, centre: np.ndarray):
        self.inner, self.centre, self.shape, self.numbers = inner, centre, inner.shape, inner.numbers

    @property
    def breadth(self) -> int:
        return self.inner.breadth

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.inner.scores(w)

    def back(self, z: np.ndarray) -> np.ndarray:
        return self.inner.back(z)

    def sweep(self, loss: Loss, preferences: Preferences) -> Pass:
        """The pass of the inner design, at v + centre."""
        return AroundPass(self.inner.sweep(loss, preferences), self.centre)


class AroundPass(WrappedPass):
    """A pass at v + centre, in v."""

    def __init__(self, inner: Pass, centre: np.ndarray):
        super().__init__(inner)
        self.centre = centre

    def _inner_weights(self, w: np.ndarray) -> np.ndarray:
        return np.asarray(w + self.centre)

    def at(self, w: np.ndarray) -> LossPoint:
        return self.inner.at(self._within(w))

    def hessian(self, w: np.ndarray, stride: int = 1) -> np.ndarray:
        return self.inner.hessian(self._within(w), stride)

    def diagonal(self, w: np.ndarray) -> np.ndarray | None:
        return self.inner.diagonal(self._within(w))

    def degrees(self, w: np.ndarray) -> np.ndarray | None:
        return self.inner.degrees(self._within(w))
