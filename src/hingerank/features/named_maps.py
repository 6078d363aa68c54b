"""Feature maps by name, as the command line and files of settings have them."""

from collections.abc import Callable

from hingerank.data.checks import whole_decimal
from hingerank.features.fourier import FourierMap
from hingerank.features.maps import FeatureMap, TransformerMap, as_feature_map
from hingerank.features.nystroem import NystroemMap
from hingerank.registry import did_you_mean


def _polynomial(degree: int = 2) -> FeatureMap:
    from sklearn.preprocessing import PolynomialFeatures

    return TransformerMap(PolynomialFeatures(degree))


MAPS: dict[str, Callable[..., FeatureMap]] = {"nystroem": NystroemMap, "fourier": FourierMap, "polynomial": _polynomial}


def feature_map(features: object) -> FeatureMap:
    """An unfitted feature map: that of a name, alone or with its number of outputs (its degree), or of a transformer.

    >>> feature_map("nystroem:200"), feature_map("fourier")
    (NystroemMap(n_components=200), FourierMap())
    """
    if not isinstance(features, str):
        return as_feature_map(features)
    name, colon, text = features.partition(":")
    number = whole_decimal(text) if colon else None
    if name not in MAPS or (colon and (number is None or number < 1)):
        raise ValueError(
            f"features is {features!r}, expected one of {', '.join(MAPS)}, or with a number as in "
            f"nystroem:200; in Python also a transformer with fit and transform{did_you_mean(name, MAPS)}"
        )
    return MAPS[name]() if number is None else MAPS[name](number)
