"""Feature maps by name, for the command line and for files of settings."""

from collections.abc import Callable

from sklearn.base import clone

from hingerank.data.checks import whole_decimal
from hingerank.features.fourier import FourierMap
from hingerank.features.maps import FeatureMap, TransformerMap
from hingerank.features.nystroem import NystroemMap
from hingerank.registry import did_you_mean


def _polynomial(degree: int = 2) -> FeatureMap:
    from sklearn.preprocessing import PolynomialFeatures

    return TransformerMap(PolynomialFeatures(degree))


MAPS: dict[str, Callable[..., FeatureMap]] = {"nystroem": NystroemMap, "fourier": FourierMap, "polynomial": _polynomial}


def feature_map(features: object) -> FeatureMap:
    """An unfitted feature map, from a name or from a transformer.

    After the name there may be a colon and a number: the number of outputs, or the degree for "polynomial".

    >>> feature_map("nystroem:200"), feature_map("fourier")
    (NystroemMap(n_components=200), FourierMap())
    """
    if not isinstance(features, str):
        return clone(features) if isinstance(features, FeatureMap) else TransformerMap(features)
    name, colon, text = features.partition(":")
    number = whole_decimal(text) if colon else None
    if name not in MAPS or (colon and (number is None or number < 1)):
        raise ValueError(
            f"features is {features!r}, expected one of {', '.join(MAPS)}, also with a number such as "
            f"nystroem:200; in Python a transformer with fit and transform works too{did_you_mean(name, MAPS)}"
        )
    return MAPS[name]() if number is None else MAPS[name](number)
