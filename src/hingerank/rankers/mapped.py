"""Ranking SVMs on mapped features: the part that Nyström's and Fourier's share."""

from typing import Any

from hingerank.features.maps import FeatureMap
from hingerank.problem import RankObjective
from hingerank.problem.mapped import mapped_design
from hingerank.problem.memory import memory_budget
from hingerank.problem.torch_design import TorchDesign, check_device
from hingerank.rankers.pairwise import PairwiseRanker


class MappedRanker(PairwiseRanker):
    """min over w of  ½‖w‖² + C · sum over pairs of  loss(<w, φ(x_i) − φ(x_j)>)  for a feature map φ.

    A ranker defines `_new_map()`, an unfitted FeatureMap, and `_placed_map()`, the map that its fitted attributes mean.
    """

    _fitted: tuple[str, ...] = ("gamma_", "coef_")
    _training_only = ("callback",)
    _map: Any

    def _new_map(self) -> Any:
        raise NotImplementedError

    def _placed_map(self) -> FeatureMap:
        raise NotImplementedError

    def _prepare(self, X, sample_weight):
        check_device(self.device)
        self._map = self._new_map().fit(X, sample_weight=sample_weight)
        self.gamma_ = self._map.gamma_

    def _objective(self, X, loss, preferences, C):
        device = check_device(self.device)
        if device is None or self.solver == "dual":
            design: Any = mapped_design(self._map, X, memory_budget(self.memory_gb), by_rows=self.solver == "dual")
        else:
            design = TorchDesign(self._map, X, device)
        return RankObjective(design, loss, preferences, C)

    def _start(self, dimension):
        return None

    def _keep(self, solution):
        self.coef_ = self._map.unmixed(solution.w)

    def _scores(self, X):
        return self._map.scores(X, self.coef_)

    def _restore(self, state):
        super()._restore(state)
        self._map = self._placed_map()
        if self._map.n_features_in_ != self.n_features_in_ or self.coef_.shape != (self._map.width_,):
            raise ValueError(f"the feature map and coef_ (shape {self.coef_.shape}) do not fit together")
