"""The settings worth trying for every ranker: one table of stages for `tune`, `compare` and the papers' tables.

A search goes through the stages of a ranker, the cheap ones first. Each stage tries its values with the best setting of
the stages before. Some names in a stage stand for values that depend on the data or on the results so far:

- SCALES: the scalings that suit the data; of listed scalings, those that do not suit the data are left out
- CONTEXTS: none, and ranks within queries if the rows are dense
- NATURAL: values around the default C of a personal ranker
- AROUND: values around the best one so far
- `After`: values that are tried only if a certain other value was the best

A search proposes batches of settings and receives their validation values, through one generator:

    proposals = search.propose(seed)
    batch = next(proposals)                  # settings to try, all at once if you like
    batch = proposals.send(values)           # their values, None if the fit failed; StopIteration when done

The same seed and values give the same settings, so a killed run can simply be run again: what is already in the results
file is not recomputed. For that reason settings do not come from scikit-learn's `ParameterGrid` and `ParameterSampler`:
these sort the parameters (ties go to the first setting, so order matters), and sampling there depends on the library's
version and draws lists without replacement.
"""

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix, Ranker
from hingerank.data.describe import long_tailed
from hingerank.data.files import canonical
from hingerank.data.rows_view import RowsView
from hingerank.data.scaling import SAMPLED_ROWS
from hingerank.features.kernels import RULES, gamma_rule
from hingerank.rankers.inputs import MOST_SPREAD, column_spreads
from hingerank.registry import did_you_mean, registered_as

Setting = dict[str, Any]
Values = list[Any]  # of a parameter, to be tried
Stage = Mapping[str, Sequence[Any]]
Proposals = Generator[list[Setting], list[float | None], None]

SCALES, AROUND = ["the scalings that suit the data"], ["around the best so far"]  # known by identity
CONTEXTS = ["none, and ranks within queries"]
NATURAL = ["around the ranker's default"]
STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)  # factors of NATURAL
MOST_WIDENINGS = 4


class After(Values):
    """Values that are tried only if the value `best` is the best so far."""

    def __init__(self, values: Values, best: object) -> None:
        super().__init__(values)
        self.best = best


CS = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
L1_CS = [1.0, 10.0, 100.0, 1000.0]
GAMMAS = ["0.25*scale", "scale", "4*scale"]

LINEAR: list[Stage] = [{"scale": SCALES, "C": CS}]
KERNEL: list[Stage] = [{"scale": SCALES, "C": [1e-4, 1e-2, 1.0]}, {"gamma": GAMMAS, "C": AROUND}]
TREES = [50, 100, 200, 400, 800]  # of one training, which stops when held-out queries no longer improve
LIGHTGBM: list[Stage] = [
    {"num_leaves": [7, 31], "n_estimators": TREES},
    {"learning_rate": [0.05, 0.1], "n_estimators": TREES[1:]},
    {"min_child_samples": [5, 20, 100]},
]
TRADE_OFF: list[Stage] = [{"lam": [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]}]  # between relevance and diversity

STAGES: dict[str, list[Stage]] = {
    "rank-svm": [
        *LINEAR, {"loss": ["squared_hinge", "hinge"], "C": AROUND}, {"pair_weight": ["uniform", "query"], "C": AROUND},
        {"context": CONTEXTS},
    ],
    "kernel-rank-svm": KERNEL,
    "nystroem-rank-svm": KERNEL,
    "fourier-rank-svm": KERNEL,
    "additive-rank-svm": [
        {"scale": [None, "query-minmax"], "C": CS[:-2]}, {"smoothness": [1.0, 10.0, 100.0], "C": AROUND},
        {"pair_weight": ["uniform", "query"], "C": AROUND}, {"context": CONTEXTS}, {"interactions": [None, 6]},
        {"interactions": After([20], 6)},
    ],
    "factorized": [{"scale": SCALES, "C": [1e-3, 1e-1, 10.0]}, {"rank": [2, 5, 10]}],
    "regularized": [{"scale": SCALES, "C": [1e-3, 1e-1, 10.0]}, {"lam": [0.1, 1.0, 10.0]}],
    "ranking-fm": [{"scale": SCALES, "C": CS}, {"rank": [2, 5, 10], "C": AROUND}],
    "fenchel-rank": [{"scale": SCALES, "radius": [1.0, 3.0, 10.0, 30.0]}],
    "sparse-rank-svm": [{"scale": SCALES, "C": L1_CS}],
    "tg-rank": [{"scale": SCALES, "C": L1_CS}],
    "rs-rank": [{"scale": SCALES, "C": [0.1, 1.0, 10.0]}],
    "feature-selection": [{"scale": SCALES, "n_features": [5, 10, 20]}, {"C": [1e-3, 1e-2, 1e-1, 1.0]}],
    "ranknet": LINEAR,
    "listnet": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0, 10.0]}],
    "listmle": LINEAR,
    "rankrls": [{"scale": SCALES, "C": [1e-6, 1e-4, 1e-2, 1.0]}],
    "frank": LINEAR,
    "crr": [{"scale": SCALES, "C": [1.0, 10.0, 100.0, 1e3]}, {"alpha": [0.1, 0.5, 0.9]}],
    "pointwise-regression": [{"scale": SCALES, "C": [1.0, 10.0, 100.0, 1e3]}],
    "ordinal-svm": [*LINEAR, {"loss": ["squared_hinge", "logistic"], "C": AROUND}],
    "prank": [{"scale": SCALES, "max_iter": [1, 5, 20]}, {"n_bags": [1, 10]}],
    "svm-map": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0, 10.0]}],
    "lambdarank": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0]}],
    "softrank": [{"scale": SCALES, "C": [1.0, 10.0, 100.0]}],
    "rankcosine": [{"scale": SCALES, "C": [1e-2, 1e-1, 1.0, 10.0]}],
    "adarank": [{"max_iter": [1, 3, 10, 30]}],
    "rankboost": [{"max_iter": [10, 30, 100, 300]}],
    "lightgbm": LIGHTGBM,
    "gbrank": [*LIGHTGBM, {"alpha": [0.0, 0.1, 0.5]}],
    "mcrank": [
        {"num_leaves": [7, 31], "n_estimators": [20, 50, 100]},
        {"learning_rate": [0.05, 0.1], "n_estimators": [50, 100]},
        {"min_child_samples": [5, 20, 100]}, {"variant": ["classes", "ordinal"]},
    ],
    "xgboost": [
        {"max_depth": [3, 6], "n_estimators": [20, 50, 100]},
        {"learning_rate": [0.1, 0.3], "n_estimators": [50, 100]},
    ],
    "blend": [{"weights": ["equal", "stack"]}],
    "personal-rank-svm": [
        {"C": NATURAL}, {"rank": [3, 10, 30], "C": AROUND}, {"shared": [False, True], "C": AROUND},
    ],
    "matrix-completion": [{"C": NATURAL}, {"rank": [3, 10, 30], "C": AROUND}],
    "mean-variance": [{"C": NATURAL}, {"shared": [0.1, 1.0, 10.0], "C": AROUND}],
    "separate": [{"C": NATURAL}],
    "joint": [{"C": NATURAL}],
    "list-ranker": [{"ridge": [30.0, 100.0, 300.0, 1000.0]}, {"rank": [3, 10, 30]}],
    "item-knn": [{"neighbours": [20, 100, 400], "shrink": [0.0, 10.0, 100.0]}],
    "als": [{"factors": [16, 32, 64], "regularization": [0.1, 1.0, 10.0]}],
    "bpr": [{"factors": [16, 32, 64], "regularization": [0.001, 0.01, 0.1]}],
    "lightfm": [{"no_components": [16, 32, 64], "taken": ["all", "liked"]}],
    "ease": [{"ridge": [30.0, 100.0, 300.0, 1000.0]}, {"feature_weight": [0.3, 1.0, 3.0, 10.0]}],
    "mmr": TRADE_OFF,
    "xquad": TRADE_OFF,
    "pm2": TRADE_OFF,
    "r-ltr": [{"C": [0.1, 1.0, 10.0], "top": [3, 5, 10]}],
    "pamm": [{"learning_rate": [0.01, 0.03, 0.1, 0.3, 1.0], "top": [5, 10]}],
    "svm-div": [{"C": [1.0, 10.0], "candidates": [20, 50]}],
    "struct-svm-div": [{"C": [1.0, 10.0], "candidates": [20, 50]}],
}  # fmt: skip

# how far a grid may be extended
LIMITS: dict[str, tuple[float, float]] = {
    "C": (1e-9, 1e6), "radius": (1e-2, 1e5), "lam": (1e-4, 1e4), "gamma": (1e-9, 1e9), "rank": (1, 100),
    "alpha": (0.01, 0.99), "max_iter": (1, 2000), "n_estimators": (5, 1000), "num_leaves": (3, 255),
    "max_depth": (1, 12), "learning_rate": (0.01, 1.0), "min_child_samples": (1, 1000), "smoothness": (1e-3, 1e5),
    "n_components": (10, 5000), "n_knots": (3, 50), "candidates": (5, 1000), "top": (1, 50),
}  # fmt: skip


def usual_search(
    ranker: Ranker, given: Stage, scales: Callable[[], Values] = list, natural: Callable[[], float | None] | None = None
) -> "Staged":
    """The settings worth trying for a ranker.

    If a given parameter has several values, the given grid is the only stage. Otherwise these are the ranker's usual
    stages, without the parameters that are given. A class that inherits from a registered one is searched like that
    one, as far as it has the parameters. Any other class is searched like a linear ranker.

    Parameters
    ----------
    ranker : gives parameters their values before their stage
    given : parameter -> values: one to fix it, several to try
    scales, natural : return the values for SCALES and NATURAL, or nothing if these are not to be tried
    """
    kind, known = type(ranker), ranker.get_params(deep=False)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        hint = did_you_mean(unknown, known)
        raise ValueError(f"{kind.__name__} has no parameter {unknown!r}; it has {', '.join(known)}{hint}")
    base, usual = next(filter(None, map(registered_as, kind.__mro__)), ""), list[Stage]()
    one_grid = any(len(values) > 1 for values in given.values())
    for stage in [] if one_grid else STAGES.get(base, LINEAR):
        free = {name: values for name, values in stage.items() if name in known and name not in given}
        if any(values is not AROUND for values in free.values()):
            usual.append(free)
    first = {**{name: list(values) for name, values in given.items()}, **(usual[0] if usual else {})}
    stages: list[Stage] = []
    scales, tried = cache(scales), set[str]()
    for stage in [first, *usual[1:]]:
        found: dict[str, Sequence[object]] = {}
        for name, values in stage.items():
            if values is SCALES:
                values = scales()
            elif name == "scale" and name not in given and scales():
                values = [value for value in values if value is None or value in scales()]
            elif values is CONTEXTS:  # sparse rows get "deviation"
                values = [None, "rank"] if scales() and "deviation" not in scales() else []
            elif values is NATURAL:
                own = None if natural is None else natural()
                values = [] if own is None else [float(f"{own * step:.3g}") for step in STEPS]
            elif values is AROUND and name not in tried:
                values = []
            if values:
                found[name] = values
        stages.append(found)
        tried |= set(found)
    start = {name: known[name] for stage in stages[1:] for name in stage if name not in stages[0]}
    limits = {"lam": (0.0, 1.0)} if base in ("mmr", "xquad", "pm2") else {}  # a trade-off, no penalty
    return Staged(stages, start, limits=limits)


def scales_for(X: Matrix) -> list[str | None]:
    """Scalings worth trying: also none if the columns' spreads are similar, nonlinear ones if columns have long tails.

    >>> scales_for(np.array([[0.0, 1.0], [1.0, 0.0]]))
    [None, 'standard', 'query-minmax']
    """
    spreads = column_spreads(X)
    spreads = spreads[(spreads > 0) & np.isfinite(spreads)]
    raw: list[str | None] = [None] if not len(spreads) or spreads.max() <= MOST_SPREAD * spreads.min() else []
    matrix = X if not isinstance(X, RowsView) else X[:: -(-len(X) // SAMPLED_ROWS)] if X.whole is None else X.whole
    if sp.issparse(matrix):
        return [*raw, "deviation", "log", *(["query-minmax"] if matrix.data.min(initial=0.0) >= 0 else [])]
    return [*raw, "standard", "query-minmax", *(["log", "quantile"] if long_tailed(X).any() else [])]


def size_of(value: object) -> float | None:
    """The size of a number or of a rule of gamma; None for other strings.

    >>> [size_of(value) for value in (0.1, "4*scale", "hinge", None)]
    [0.1, 4.0, None, None]
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or not value.endswith(RULES):
        return None
    try:
        return gamma_rule(value)[0]
    except ValueError:
        return None


def near(value: float, tried: Iterable[object] = ()) -> list[float]:
    """A value and its neighbours on both sides, by the steps of the values tried, at most a factor of ten.

    >>> near(0.01), near(1.0, [0.1, 0.3, 1.0, 3.0, 10.0])
    ([0.001, 0.01, 0.1], [0.316, 1.0, 3.17])
    """
    sizes = sorted({size for each in tried if (size := size_of(each)) is not None and size > 0})
    steps = np.divide(sizes[1:], sizes[:-1])
    step = min(10.0, float(np.median(steps))) if len(steps) else 10.0
    return [float(f"{value / step:.3g}"), value, float(f"{value * step:.3g}")]


def farther(values: Values, best: object, limit: tuple[float, float] | None) -> Values:
    """One or two values beyond the edge of a grid, if the best one is its smallest or largest; none beyond the limit.

    >>> farther([0.01, 0.1, 1.0], 1.0, None), farther([5, 10, 20], 5, (1, 100)), farther([1, 2, 4], 2, None)
    ([10.0, 100.0], [2, 1], [])
    >>> farther([5, 10], 10, (1, 7))
    []
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
    found: Values = []
    for power in (1, 2):
        size = min(max(edge * (edge / inner) ** power, low), high)
        if (size > edge) != up:  # the given grid is already beyond the limit
            continue
        if isinstance(best, str):
            found.append(f"{size:g}*{gamma_rule(best)[1]}")
        else:
            found.append(round(size) if isinstance(best, int) else float(f"{size:.12g}"))
    return [value for value in dict.fromkeys(found) if value not in values and size_of(value) != 0]


def listed(name: str, values: object) -> Values:
    """The values of a parameter in a grid, one or several to try; arrays as lists, which can be compared.

    >>> listed("C", np.array([1, 2])), listed("grade_weight", np.ones((1, 2))), listed("loss", "hinge")
    ([1, 2], [[[1.0, 1.0]]], ['hinge'])
    """
    one = isinstance(values, str | bytes | Mapping) or (isinstance(values, np.ndarray) and values.ndim > 1)
    several = list(values) if isinstance(values, Iterable) and not one else [values]
    if not several:
        raise ValueError(f"the grid of {name!r} is empty: give a value, or a list of values to try")
    return [value.tolist() if isinstance(value, np.ndarray | np.generic) else value for value in several]


def check_several(name: str, values: object) -> None:
    """A ValueError if the values of a parameter are not a list of some."""
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise ValueError(f"the grid of {name!r} is {values!r}: give a list of values to try")


@runtime_checkable
class Search(Protocol):
    """Proposes settings to try. size: how many in all, as far as that is known before the first values."""

    @property
    def size(self) -> int: ...

    def propose(self, seed: int) -> Proposals: ...

    def choose(self, tried: Sequence[tuple[Setting, float]]) -> Setting:
        """The setting with the largest value, the first of ties."""
        return max(tried, key=lambda pair: pair[1])[0]


def follow(proposals: Proposals, value_all: Callable[[list[Setting]], list[float | None]]) -> None:
    """Give a search the values of the settings that it proposes, batch by batch, until it ends."""
    batch = next(proposals, None)
    while batch is not None:
        try:
            batch = proposals.send(value_all(batch))
        except StopIteration:
            batch = None


def combinations(space: Stage) -> list[Setting]:
    """Every combination of the listed values."""
    return [dict(zip(space, values)) for values in itertools.product(*space.values())]


@dataclass(frozen=True)
class Grid(Search):
    """Every combination of the listed values; an empty grid has the one setting {}.

    >>> Grid({"C": [1, 10], "loss": ["hinge"]}).settings()
    [{'C': 1, 'loss': 'hinge'}, {'C': 10, 'loss': 'hinge'}]
    """

    space: Stage

    def __post_init__(self) -> None:
        for name, values in self.space.items():
            check_several(name, values)

    @property
    def size(self) -> int:
        return len(self.settings())

    def settings(self) -> list[Setting]:
        return combinations(self.space)

    def propose(self, seed: int) -> Proposals:
        yield self.settings()


@dataclass(frozen=True)
class Staged(Search):
    """Grids one after another, each around the best setting so far.

    If the best setting has a number at the edge of its grid, the grid is extended, a few times at most, by its own
    steps, with the other parameters of the best setting fixed, one parameter at a time.

    Parameters
    ----------
    stages : parameter -> values, for each stage; AROUND means values around the best one so far
    start : values of later stages' parameters before their stage
    widen : whether grids may be extended
    limits : of parameters whose limits are not the usual ones
    choosing : breaks ties; by default the simpler setting wins
    allowed : which settings may be tried

    Examples
    --------
    >>> proposals = Staged([{"C": [1.0, 2.0]}, {"loss": ["hinge"], "C": AROUND}]).propose(0)
    >>> next(proposals), proposals.send([0.3, 0.5])
    ([{'C': 1.0}, {'C': 2.0}], [{'C': 4.0}, {'C': 8.0}])
    >>> proposals.send([0.4, 0.3])
    [{'C': 1.0, 'loss': 'hinge'}, {'C': 2.0, 'loss': 'hinge'}, {'C': 4.0, 'loss': 'hinge'}]
    """

    stages: Sequence[Stage]
    start: Setting = field(default_factory=dict)
    widen: bool = True
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    choosing: Callable[[Sequence[tuple[Setting, float]]], Setting] | None = None
    allowed: Callable[[Setting], bool] | None = None

    @property
    def size(self) -> int:
        return len(self.first)

    @property
    def first(self) -> list[Setting]:
        """The settings of the first stage."""
        return [{**self.start, **setting} for setting in combinations(self.stages[0])]

    def choose(self, tried: Sequence[tuple[Setting, float]]) -> Setting:
        """The setting with the largest value; ties go to the simpler one, then the first.

        >>> Staged([{}]).choose([({"C": 10.0}, 0.5), ({"C": 0.1}, 0.5), ({"C": 1.0}, 0.4)])
        {'C': 0.1}
        """
        top = max(value for _, value in tried)
        equals = [setting for setting, value in tried if value == top]
        return min(equals, key=lambda setting: complexity(setting, [other for other, _ in tried]))

    def propose(self, seed: int, widened: dict[str, Values] | None = None) -> Proposals:
        """Propose settings; widened: receives the values added beyond the edges, by parameter."""
        tried: list[tuple[Setting, float]] = []
        best = dict(self.start)
        for stage in self.stages:
            grid: dict[str, Sequence[object]] = {}
            limits = {name: self.limits.get(name) or LIMITS.get(name) or (0.0, np.inf) for name in stage}
            for name, values in stage.items():
                if values is AROUND:
                    around = near(best[name], [setting.get(name) for setting, _ in tried])
                    low, high = limits[name]
                    grid[name] = [value for value in around if value == best[name] or low <= value <= high]
                elif not isinstance(values, After) or best[name] == values.best:
                    grid[name] = values
            batch = [{**best, **setting} for setting in combinations(grid)]
            open_names = [name for name, values in grid.items() if len(values) > 1] if self.widen else []
            for growth in range(MOST_WIDENINGS + 1):
                done = [setting for setting, _ in tried]
                batch = [s for s in batch if s not in done and (self.allowed is None or self.allowed(s))]
                if batch:
                    values = yield batch
                    tried += [(setting, value) for setting, value in zip(batch, values) if value is not None]
                if not tried:
                    return
                best = (self.choosing or self.choose)(tried)
                added: dict[str, Values] = {}  # values beyond the edge of those tried with the rest of the best setting
                for name in open_names:
                    rest = canonical({**best, name: None})
                    alike = [s[name] for s, _ in tried if canonical({**s, name: None}) == rest]
                    added[name] = farther(alike, best[name], limits[name])
                batch = [{**best, name: value} for name, values in added.items() for value in values]
                if not batch or growth == MOST_WIDENINGS:
                    break
                for name, values in added.items():
                    if values and widened is not None:
                        widened.setdefault(name, []).extend(values)


def complexity(setting: Setting, tried: Iterable[Setting]) -> float:
    """The complexity of a setting: the sum over its numbers of their ranks among the values tried."""
    total, tried = 0.0, list(tried)
    for name, value in setting.items():
        own = size_of(value)
        if own is not None:
            sizes = sorted({size for other in tried if (size := size_of(other.get(name))) is not None})
            total += sizes.index(own) / max(1, len(sizes) - 1)
    return total
