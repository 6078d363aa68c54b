"""The plain forms that rankers pass to exports: the score as arrays, and how features are scaled before.

A form is a sum of weights (`Affine`), of kernel functions (`KernelSum`), of cosines (`CosineSum`), of trees (`Trees`),
of curves and products of ramps (`Shapes`); or a sum of such forms (`Sum`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from hingerank.data.missing import MissingValues
from hingerank.data.scaling import (
    ColumnScaler,
    LogScaler,
    QuantileScaler,
    Scaler,
    make_scaler,
    scaler_from_state,
)
from hingerank.export.forest import LARGEST, MISSING_LEFT, SMALL, ZERO_IS_MISSING
from hingerank.features.curves import Curves, SurfaceGrid
from hingerank.features.fourier import FourierMap
from hingerank.features.kernels import Kernel
from hingerank.features.nystroem import NystroemMap

FAR = 1e6  # a column's centre over its width beyond which folding its scaling loses digits that matter
LARGEST_LOG = 80.0  # logarithm of the largest value made up, which has to fit into single precision too
GAPS = 0.2  # fraction of missing values in made-up rows, if a model handles them


class ExportError(ValueError):
    """A model that a format cannot express, or an export that cannot be written or checked."""


class Affine(NamedTuple):
    """score(x) = offset + <weights, x>."""

    weights: np.ndarray
    offset: float = 0.0


class KernelSum(NamedTuple):
    """score(x) = sum over rows l of weights_l κ(x, l): rbf exp(−γ‖x − l‖²), polynomial (γ<x, l> + coef0)^degree."""

    kernel: str
    gamma: float
    degree: int
    coef0: float
    rows: np.ndarray
    weights: np.ndarray


class CosineSum(NamedTuple):
    """score(x) = sum over waves i of weights_i cos(<frequencies_i, x> + phases_i)."""

    frequencies: np.ndarray
    phases: np.ndarray
    weights: np.ndarray


class Trees(NamedTuple):
    """score(x) = start + sum over trees of the value of the leaf that x reaches.

    Nodes of all trees are numbered consecutively: feature is -1 in a leaf; a row goes to `child` if x[feature] <=
    number, else to child + 1. Missing values go left if `missing` has the bit MISSING_LEFT; zeros go the same way if it
    has ZERO_IS_MISSING.
    """

    feature: np.ndarray
    number: np.ndarray
    child: np.ndarray
    missing: np.ndarray
    roots: np.ndarray
    start: float


class Shapes(NamedTuple):
    """score(x) = curves(x) + sum over k of weights_k · ramp_k(x[columns_k0]) · ramp_k(x[columns_k1]).

    A ramp rises linearly from 0 at begins to 1 at ends, and is constant outside. A bilinear surface is a sum of such
    products and two curves; without surfaces there are no products.
    """

    curves: Curves
    columns: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    weights: np.ndarray


class Sum(NamedTuple):
    """score(x) = sum of the scores of forms, each with its own scaling and treatment of missing values; none of them is
    a sum itself."""

    parts: "tuple[Form, ...]"


Body = Affine | KernelSum | CosineSum | Trees | Shapes | Sum
KINDS = {
    Affine: "linear", KernelSum: "mapped", CosineSum: "mapped", Trees: "trees", Shapes: "curves", Sum: "sum",
}  # fmt: skip
FOLDED: dict[str, tuple[str, ...]] = {  # kind of model -> kinds of scaling that can be folded into its numbers
    "linear": ("columns",), "mapped": ("columns",), "curves": ("columns",), "surfaces": ("columns",),
    "trees": ("columns", "log", "quantile"), "zero-trees": (), "sum": (),
}  # fmt: skip


class Outline(NamedTuple):
    """What is known of a form, or of a part of a sum, before it is fitted.

    kind : as `Form.kind`; None for a ranker that has no form
    scaled : how its features are scaled (see `Form.scaled`); "none" if the scaling folds into the model's numbers
    filled : what missing values become: "none" if there are none, "zero", or other "values"
    """

    kind: str | None
    scaled: str = "none"
    filled: str = "none"

    @classmethod
    def folded(cls, kind: str | None, scaled: str, filled: str) -> "Outline":
        """The outline of a model whose features are scaled in this way, once that is folded (see `Form.folded`)."""
        return cls(kind, "none" if kind is not None and scaled in FOLDED[kind] else scaled, filled)


@dataclass(frozen=True)
class Form:
    """A ranker's score function.

    Parameters
    ----------
    names : of the features
    body : the score as a function of scaled features
    scaling : the scaler of the features, or None
    filled : what missing values become before scaling; None if the model has none or, as trees, handles them itself
        Body and scaling have `width` columns: the features, and then those that mark missing ones.
    """

    names: Sequence[str]
    body: Body
    scaling: Scaler | None = None
    filled: MissingValues | None = None

    @property
    def kind(self) -> str:
        """One of "linear", "mapped", "trees", "zero-trees" (0 is missing there), "curves", "surfaces" and "sum"."""
        body = self.body
        if isinstance(body, Trees) and (body.missing & ZERO_IS_MISSING).any():
            return "zero-trees"
        return "surfaces" if isinstance(body, Shapes) and len(body.weights) else KINDS[type(body)]

    @property
    def parts(self) -> "list[Form]":
        """The forms whose scores add up to this one's, with its names: itself, unless it is a sum."""
        return [replace(p, names=self.names) for p in self.body.parts] if isinstance(self.body, Sum) else [self]

    @property
    def scaled(self) -> str:
        """One of "none", "columns", "log", "quantile", "query-minmax" and "query-standard"."""
        return "none" if self.scaling is None else scaling_kind(self.scaling.name)

    @property
    def within_queries(self) -> list[str]:
        """How parts scale features within each query: "minmax" and "standard"."""
        kinds = dict.fromkeys(part.scaled for part in self.parts)
        return [kind.removeprefix("query-") for kind in kinds if kind.startswith("query-")]

    @property
    def front(self) -> dict[str, np.ndarray]:
        """The arrays by which columns are scaled and filled before the body scores them."""
        scaled = {} if self.scaling is None else self.scaling.to_state()[1]
        return scaled | ({} if self.filled is None else self.filled.to_state())

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def width(self) -> int:
        """Number of columns of the rows that body and scaling apply to."""
        return len(self.names) + (0 if self.filled is None else len(self.filled.marked))

    @property
    def outline(self) -> Outline:
        """What formats need to know of this form to support it."""
        values = self.filled is not None and (self.filled.values.any() or len(self.filled.marked))
        filled = "values" if values else "none" if self.filled is None else "zero"
        return Outline.folded(self.kind, self.scaled, filled)

    def folded(self, always: bool = False) -> "Form":
        """The same scores without scaling, if that is exact: a scaling of columns goes into weights, frequencies, knots
        and thresholds, and any other scaling of single values into thresholds. Filled missing values go into the
        directions that missing values take in trees.

        Kernel functions of scaled rows stay as they are, and so do trees that count zeros as missing values, since
        these are zeros after scaling (`FOLDED` lists what can be folded). So do, unless `always`, columns much farther
        from 0 than they are wide, such as timestamps of one second in milliseconds: products with them would be large
        numbers that cancel, so the centre has to be subtracted first.
        """
        body, scaling = self.body, self.scaling
        if scaling is not None and self.scaled not in FOLDED[self.kind]:
            return self
        if isinstance(body, Trees) and self.kind == "trees":
            if scaling is not None:
                inner, number = body.feature >= 0, body.number.copy()
                number[inner] = largest_below(number[inner], of_columns(scaling, body.feature[inner]))
                body = body._replace(number=number)
            return Form(self.names, body if self.filled is None else _ways_for_missing(body, self.filled))
        if not isinstance(scaling, ColumnScaler) or isinstance(body, KernelSum):
            return self  # kernel functions of scaled rows
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that are not finite are refused later
            away = np.abs(scaling.centre_ * scaling.factor)[self.used()].max(initial=0.0)
            if FAR < away < np.inf and not always:
                return self
            return replace(self, body=folded_body(body, scaling.centre_, scaling.width_), scaling=None)

    def used(self) -> np.ndarray:
        """The columns that the score, which is no sum, depends on; those from n_features on mark missing values."""
        body = self.body
        if isinstance(body, Affine):
            return np.flatnonzero(body.weights)
        if isinstance(body, Shapes):
            sizes = np.add.reduceat(np.abs(body.curves.heights), body.curves.starts[:-1])
            return np.union1d(np.flatnonzero((sizes > 0) | (body.curves.slopes != 0)), body.columns)
        return np.unique(body.feature[body.feature >= 0]) if isinstance(body, Trees) else np.arange(self.width)

    @property
    def missing_is_zero(self) -> bool:
        """Whether a missing value scores as the number 0 does."""
        plain = self.folded()
        if isinstance(plain.body, Trees):
            return plain.scaling is None and not missing_matters(plain.body)
        return self.outline.filled == "zero"

    def features_used(self) -> list[int]:
        """The features that the score depends on, by their values or by being missing."""
        return sorted({part.feature_of(column) for part in self.parts for column in part.used().tolist()})

    def feature_of(self, column: int) -> int:
        """The feature that a column has, or marks the missing values of."""
        d = self.n_features
        return column if column < d or self.filled is None else int(self.filled.marked[column - d])

    def refuse_infinities(self) -> None:
        """Raise an ExportError if a number of the model is not finite."""
        for part in self.parts:
            for name, value in (part.body._asdict() | part.front).items():
                whole = value if isinstance(value, Curves) else (value,)
                if not all(np.isfinite(v).all() for v in whole if not isinstance(v, str)):
                    raise ExportError(f"the model's {name} have numbers that are not finite: rescale the features")

    def sample(self, count: int, gaps: bool) -> np.ndarray:
        """Rows like those the ranker was fitted on, as far as its form shows, for examples beside an export; gaps:
        whether some values are missing."""
        if isinstance(self.body, Sum):  # use the part that shows most about the rows
            return min(self.parts, key=lambda p: (p.scaling is not None, p.kind != "trees")).sample(count, gaps)
        rng, body = np.random.default_rng(0), self.body
        rows = rng.random((count, self.width))
        if isinstance(body, Trees | Shapes):
            for column in self.used():
                if isinstance(body, Shapes):
                    near = body.curves.of(column)[0]
                else:
                    near = body.number[(body.feature == column) & (np.abs(body.number) < LARGEST)]
                near = near if len(near) else np.zeros(1)  # only missing values are told from others
                spread = 0.5 * np.ptp(near) or float(np.abs(near).max())
                spread = spread if spread > SMALL * 2 else 1.0  # LightGBM puts thresholds that close to 0
                rows[:, column] = rng.choice(near, count) + spread * rng.standard_normal(count)
        elif isinstance(body, KernelSum):
            rows = body.rows[rng.integers(0, len(body.rows), count)] + 0.1 * rng.standard_normal(rows.shape)
        elif isinstance(self.scaling, ColumnScaler | LogScaler):
            rows = rng.standard_normal(rows.shape)
        elif isinstance(self.scaling, QuantileScaler):
            rows = 1.2 * rows - 0.1
        rows = rows if self.scaling is None else unscaled(self.scaling, rows)
        rows = np.ascontiguousarray(rows[:, : self.n_features])
        if gaps:
            rows[rng.random(rows.shape) < GAPS] = np.nan
        return rows


def scaling_kind(name: str | None) -> str:
    """The kind of scaling (see `Form.scaled`) of a scaler by its name.

    >>> [scaling_kind(name) for name in (None, "standard", "log", "query-minmax")]
    ['none', 'columns', 'log', 'query-minmax']
    """
    scaler = make_scaler(name)
    return "columns" if isinstance(scaler, ColumnScaler) else scaler.name


def of_columns(scaler: Scaler, columns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function that scales single values, one of each of the columns, to the last bit as rankers compute them."""
    header, arrays = scaler.to_state()
    learnt = {name: array[columns] for name, array in arrays.items()}
    own = scaler_from_state(({**header, "n_features": len(columns)}, learnt))
    return lambda values: own.scale_rows(np.asarray(values, np.float64)[None], None)[0]


def unscaled(scaler: Scaler, rows: np.ndarray) -> np.ndarray:
    """Rows that are scaled to these, up to rounding; among quantiles every other row contains some, where the scaled
    value jumps, and some values are beyond the outermost."""
    if isinstance(scaler, ColumnScaler):
        return scaler.centre_ + scaler.width_ * rows
    if isinstance(scaler, LogScaler):
        return np.copysign(np.expm1(np.minimum(np.abs(rows) * scaler.width_, LARGEST_LOG)), rows)
    if not isinstance(scaler, QuantileScaler):
        return rows
    top = scaler.quantiles_.shape[1] - 1
    place = np.clip(rows, 0, 1) * top
    place[::2] = np.round(place[::2])
    found = [np.interp(at, np.arange(top + 1), own) for at, own in zip(place.T, scaler.quantiles_, strict=True)]
    return np.column_stack(found) + (rows - np.clip(rows, 0, 1))


def missing_matters(body: Trees) -> bool:
    """Whether a missing value goes another way than a zero does, at any node."""
    inner = (body.feature >= 0) & (body.missing & ZERO_IS_MISSING == 0)
    return bool(((body.missing[inner] & MISSING_LEFT > 0) != (body.number[inner] >= 0)).any())


def _ways_for_missing(body: Trees, filled: MissingValues) -> Trees:
    """Trees of the features themselves: a missing value goes where its filled value goes.

    At a node that splits by a mark, which is 0 or 1, all known values go one way.
    """
    inner, d = np.flatnonzero(body.feature >= 0), len(filled.values)
    feature, number, missing = body.feature.copy(), body.number.copy(), body.missing.copy()
    plain, about_marks = inner[feature[inner] < d], inner[feature[inner] >= d]
    missing[plain] = MISSING_LEFT * (filled.values[feature[plain]] <= number[plain])
    missing[about_marks] = MISSING_LEFT * (number[about_marks] >= 1)
    largest = np.finfo(np.float64).max
    number[about_marks] = np.where(number[about_marks] >= 0, largest, -largest)
    feature[about_marks] = filled.marked[feature[about_marks] - d]
    return body._replace(feature=feature, number=number, missing=missing)


def folded_body(body: Body, centre: np.ndarray, width: np.ndarray) -> Body:
    """The body whose score of x equals this body's score of (x - centre) / width."""
    if isinstance(body, Affine):
        weights = body.weights / width
        return Affine(weights, body.offset - float(weights @ centre))
    if isinstance(body, CosineSum):
        frequencies = body.frequencies / width
        return body._replace(frequencies=frequencies, phases=body.phases - frequencies @ centre)
    assert isinstance(body, Shapes)
    curves, column = body.curves, np.repeat(np.arange(len(width)), np.diff(body.curves.starts))
    curves = curves._replace(knots=centre[column] + width[column] * curves.knots, slopes=curves.slopes / width)
    begins, ends = (centre[body.columns] + width[body.columns] * side for side in (body.begins, body.ends))
    return body._replace(curves=curves, begins=begins, ends=ends)


def with_surfaces(curves: Curves, surfaces: Sequence[tuple[SurfaceGrid, np.ndarray]]) -> Shapes:
    """Curves and bilinear surfaces as one form.

    Over a grid a surface is the sum of its height at the lowest knots, a curve along each axis there, which is added to
    the column's own curve (whose knots include the grid's), and products of ramps weighted by mixed differences.
    """
    heights = curves.heights.copy()
    columns, begins, ends, weights = [np.empty((0, 2), int)], [np.empty((0, 2))], [np.empty((0, 2))], [np.empty(0)]
    for grid, own in surfaces:
        for column, knots, along in ((grid.first, grid.x, own[:, 0]), (grid.second, grid.y, own[0] - own[0, 0])):
            at = slice(curves.starts[column], curves.starts[column + 1])
            heights[at] += np.interp(curves.knots[at], knots, along)
        rises = np.diff(np.diff(own, axis=0), axis=1)
        s, t = np.nonzero(rises)
        columns.append(np.column_stack((np.full(len(s), grid.first), np.full(len(s), grid.second))))
        begins.append(np.column_stack((grid.x[s], grid.y[t])))
        ends.append(np.column_stack((grid.x[s + 1], grid.y[t + 1])))
        weights.append(rises[s, t])
    parts = (np.concatenate(each) for each in (columns, begins, ends, weights))
    return Shapes(curves._replace(heights=heights), *parts)


def stumps(features: np.ndarray, thresholds: np.ndarray, steps: np.ndarray) -> Trees:
    """score(x) = sum over k of steps_k [x[features_k] > thresholds_k] as trees of one inner node.

    Such models have no missing values: formats that do treat them as zeros.
    """
    count = len(features)
    nothing, none = np.zeros(count), np.full(count, -1)
    feature = np.column_stack((features, none, none)).ravel()
    number = np.column_stack((thresholds, nothing, steps)).ravel()
    roots = 3 * np.arange(count)
    child = np.column_stack((roots + 1, none, none)).ravel()
    missing = np.column_stack((MISSING_LEFT * (thresholds >= 0), nothing, nothing)).ravel().astype(np.uint8)
    return Trees(feature, number, child, missing, roots, 0.0)


def largest_below(number: np.ndarray, scaled: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The largest doubles x with scaled(x) <= number, for a non-decreasing function.

    By bisection over the bits of x: rows go left of this threshold exactly if scaled rows go left of the given one.
    """

    def of_key(key: np.ndarray) -> np.ndarray:
        return np.where(key >= 0, key, np.int64(-(2**63)) - key).view(np.float64)

    def goes_left(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return scaled(x) <= number

    most = np.float64(np.finfo(np.float64).max).view(np.int64)
    low, high = np.full(len(number), -most), np.full(len(number), most)
    while (low + 1 < high).any():
        middle = (low // 2 + high // 2) + (low % 2 + high % 2) // 2
        left = goes_left(of_key(middle))
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return of_key(np.where(goes_left(of_key(high)), high, low))


def largest_single(number: np.ndarray) -> np.ndarray:
    """The largest single-precision numbers that are not above these."""
    with np.errstate(over="ignore"):
        near = number.astype(np.float32)
        near = np.where(near.astype(np.float64) > number, np.nextafter(near, np.float32(-np.inf)), near)
    return np.clip(near, np.finfo(np.float32).min, np.finfo(np.float32).max)


def body_of_map(feature_map: object, weights: np.ndarray) -> Body:
    """score(x) = <weights, ψ(x)> for a map ψ to kernel values or cosines."""
    if isinstance(feature_map, FourierMap):
        return CosineSum(feature_map.frequencies_.T, feature_map.phases_, weights * np.sqrt(2 / feature_map.width_))
    if not isinstance(feature_map, NystroemMap):
        hint = "use features='nystroem' or 'fourier', or transform the rows yourself and fit with features=None"
        raise ExportError(f"no export supports {feature_map!r}: {hint}")
    if kernel_kind(feature_map.kernel_.name) is None:
        raise ExportError(
            f"no export supports the kernel {feature_map.kernel_.name!r}: use 'rbf', 'polynomial' or 'linear'"
        )
    kernel, rows = feature_map.kernel_, feature_map.landmarks_
    rows = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, np.float64)
    if type(kernel) is Kernel:
        return Affine(weights @ rows)
    return KernelSum(kernel.name, kernel.gamma, int(kernel.degree), kernel.coef0, rows, weights)


def kernel_kind(kernel: object) -> str | None:
    """The kind of form of a sum of this kernel's functions; None if it has none.

    >>> [kernel_kind(kernel) for kernel in ("rbf", "poly", "linear", "chi2")]
    ['mapped', 'mapped', 'linear', None]
    """
    kinds = {"rbf": "mapped", "polynomial": "mapped", "poly": "mapped", "linear": "linear"}
    return kinds.get(kernel) if isinstance(kernel, str) else None


def map_kind(feature_map: object) -> str | None:
    """The kind of form of weights on a feature map, which need not be fitted; None if there is none."""
    if isinstance(feature_map, FourierMap):
        return "mapped"
    return kernel_kind(feature_map.kernel) if isinstance(feature_map, NystroemMap) else None
