"""Settings worth trying, for every ranker: where searches start, and how far they may go.

A search goes through the stages of a ranker, each around the best setting of the stages before. In a stage SCALES means
the scalings that suit the data, AROUND values around the best one so far.
"""

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from hingerank.data.files import canonical
from hingerank.features.kernels import gamma_rule

SCALES, AROUND = ["the scalings that suit the data"], ["around the best so far"]  # known by identity
MOST_WIDENINGS = 4

CS = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
L1_CS = [1.0, 10.0, 100.0, 1000.0]
GAMMAS = ["0.25*scale", "scale", "4*scale"]

Stage = dict[str, list[Any]]
LINEAR: list[Stage] = [{"scale": SCALES, "C": CS}]
KERNEL: list[Stage] = [{"scale": SCALES, "C": [1e-4, 1e-2, 1.0]}, {"gamma": GAMMAS, "C": AROUND}]

STAGES: dict[str, list[Stage]] = {
    "RankSVM": [
        *LINEAR, {"loss": ["squared_hinge", "hinge"], "C": AROUND}, {"pair_weight": ["uniform", "query"], "C": AROUND},
    ],
    "KernelRankSVM": KERNEL,
    "NystroemRankSVM": KERNEL,
    "FourierRankSVM": KERNEL,
    "AdditiveRankSVM": [{"scale": [None, "query-minmax"], "smoothness": [1.0, 10.0, 100.0], "C": CS}],
    "FactorizedRankSVM": [{"scale": SCALES, "C": [1e-3, 1e-1, 10.0]}, {"rank": [2, 5, 10]}],
    "RegularizedRankSVM": [{"scale": SCALES, "C": [1e-3, 1e-1, 10.0]}, {"lam": [0.1, 1.0, 10.0]}],
    "FenchelRank": [{"scale": SCALES, "radius": [1.0, 3.0, 10.0, 30.0]}],
    "SparseRankSVM": [{"scale": SCALES, "C": L1_CS}],
    "TGRank": [{"scale": SCALES, "C": L1_CS}],
    "RSRank": [{"scale": SCALES, "C": [0.1, 1.0, 10.0]}],
    "FeatureSelectionRanker": [{"scale": SCALES, "k": [5, 10, 20]}, {"C": [1e-3, 1e-2, 1e-1, 1.0]}],
    "ListNet": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0, 10.0]}],
    "RankRLS": [{"scale": SCALES, "C": [1e-6, 1e-4, 1e-2, 1.0]}],
    "CRR": [{"scale": SCALES, "C": [1.0, 10.0, 100.0, 1e3]}, {"alpha": [0.1, 0.5, 0.9]}],
    "PointwiseRegression": [{"scale": SCALES, "C": [1.0, 10.0, 100.0, 1e3]}],
    "PRank": [{"scale": SCALES, "n_passes": [1, 5, 20]}],
    "SVMMAP": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0, 10.0]}],
    "LambdaRank": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0]}],
    "SoftRank": [{"scale": SCALES, "C": [1.0, 10.0, 100.0]}],
    "RankCosine": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0, 10.0]}],
    "AdaRank": [{"n_rounds": [1, 3, 10, 30]}],
    "RankBoost": [{"n_rounds": [10, 30, 100, 300]}],
    "LightGBMRanker": [
        {"num_leaves": [7, 31], "n_estimators": [50, 100, 200]},
        {"learning_rate": [0.05, 0.1], "n_estimators": [100, 200]},
        {"min_child_samples": [5, 20, 100]},
    ],
    "GBRank": [
        {"num_leaves": [7, 31], "n_estimators": [50, 100, 200]},
        {"learning_rate": [0.05, 0.1], "n_estimators": [100, 200]},
        {"min_child_samples": [5, 20, 100]},
    ],
    "McRank": [
        {"num_leaves": [7, 31], "n_estimators": [20, 50, 100]},
        {"learning_rate": [0.05, 0.1], "n_estimators": [50, 100]},
        {"min_child_samples": [5, 20, 100]},
    ],
    "XGBoostRanker": [
        {"max_depth": [3, 6], "n_estimators": [20, 50, 100]},
        {"learning_rate": [0.1, 0.3], "n_estimators": [50, 100]},
    ],
}  # fmt: skip

# how far a grid may grow
LIMITS: dict[str, tuple[float, float]] = {
    "C": (1e-9, 1e6), "radius": (1e-2, 1e5), "lam": (1e-4, 1e4), "gamma": (1e-9, 1e9), "rank": (1, 100),
    "alpha": (0.01, 0.99), "n_rounds": (1, 2000), "n_passes": (1, 1000), "n_estimators": (5, 1000),
    "num_leaves": (3, 255),
    "max_depth": (1, 12), "learning_rate": (0.01, 1.0), "min_child_samples": (1, 1000), "smoothness": (1e-3, 1e5),
    "n_components": (10, 5000), "n_knots": (3, 50), "candidates": (5, 1000), "top": (1, 50),
}  # fmt: skip


def stages_of(class_name: str, known: Any) -> list[Stage]:
    """The stages of a ranker; those of a linear one for any other that has C and scale."""
    usual = STAGES.get(class_name, LINEAR)
    return [{name: values for name, values in stage.items() if name in known} for stage in usual]


def size_of(value: Any) -> float | None:
    """How large a number or a rule of gamma is; None for words.

    >>> [size_of(value) for value in (0.1, "4*scale", "hinge", None)]
    [0.1, 4.0, None, None]
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, Real):
        return float(value)
    try:
        return gamma_rule(value)[0]
    except ValueError:
        return None


def near(value: float) -> list[float]:
    """A value and its neighbours a factor of ten to both sides.

    >>> near(0.01)
    [0.001, 0.01, 0.1]
    """
    return [float(f"{value * factor:.12g}") for factor in (0.1, 1.0, 10.0)]


def farther(values: list[Any], best: Any, limit: tuple[float, float] | None) -> list[Any]:
    """One or two values beyond the edge of a grid, if the best one is its smallest or largest; none beyond the limit.

    >>> farther([0.01, 0.1, 1.0], 1.0, None), farther([5, 10, 20], 5, (1, 100)), farther([1, 2, 4], 2, None)
    ([10.0, 100.0], [2, 1], [])
    >>> farther(["scale", "4*scale"], "4*scale", None)
    ['16*scale', '64*scale']
    """
    sized = sorted((size, value) for value in values if (size := size_of(value)) is not None)
    if len(sized) < 2 or len(sized) < len(values) or best not in (sized[0][1], sized[-1][1]):
        return []
    up = best == sized[-1][1]
    edge, inner = (sized[-1][0], sized[-2][0]) if up else (sized[0][0], sized[1][0])
    if edge <= 0 or inner <= 0 or edge == inner:
        return []
    low, high = limit or (0.0, float("inf"))
    found: list[Any] = []
    for power in (1, 2):
        size = min(max(edge * (edge / inner) ** power, low), high)
        if isinstance(best, str):
            found.append(f"{size:g}*{gamma_rule(best)[1]}")
        else:
            found.append(round(size) if isinstance(best, int) else float(f"{size:.12g}"))
    return [value for value in dict.fromkeys(found) if value not in values and size_of(value) != 0]


def beyond(
    name: str, best: Mapping[str, Any], tried: Iterable[Mapping[str, Any]], limit: tuple[float, float] | None = None
) -> list[Any]:
    """Values of a parameter beyond the edge of those tried with the rest of the best setting, if the best is there.

    >>> beyond("C", {"C": 10.0, "rank": 2}, [{"C": 1.0, "rank": 2}, {"C": 10.0, "rank": 2}, {"C": 99.0, "rank": 5}])
    [100.0, 1000.0]
    """
    rest = canonical({**best, name: None})
    alike = [setting[name] for setting in tried if canonical({**setting, name: None}) == rest]
    return farther(alike, best[name], limit or LIMITS.get(name))


def listed(name: str, values: Any) -> list[Any]:
    """The values of a parameter that a grid gives: one, or several to try."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return [values]
    values = list(values)
    if not values:
        raise ValueError(f"the grid of {name!r} is empty: give a value, or a list of values to try")
    return values
