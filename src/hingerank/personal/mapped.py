"""Personal rankers of mapped item features: φ(x) in the place of x, with φ learnt in the fit and kept in the model."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hingerank.export.attributes import Attribute, Mapped
from hingerank.features.maps import FeatureMap, as_feature_map
from hingerank.personal.rankers import PersonalRanker


class MappedItemsRanker(PersonalRanker):
    """score(u, x) = shared(φ(x)) + <place(φ(x)), own(u)>; φ is a feature map of the scaled features, or none."""

    _saved: ClassVar[Mapping[str, Attribute]] = {"features_": Mapped(none=True, needed=False)}  # version 0.2 had none
    features: Any
    features_: FeatureMap | None = None

    def _rows(self, features: Any, reset: bool = False) -> Any:
        X = super()._rows(features, reset)
        if reset:
            self.features_ = None if self.features is None else as_feature_map(self.features).fit(X)
        return X if self.features_ is None else self.features_.transform(X)

    def _column_names(self, given: Sequence[str] | None = None) -> Sequence[str]:
        names = super()._column_names(given)
        return names if self.features_ is None else self.features_.names(names)
