"""The weighted sum of several forms as one: linear models and curves of the same columns become one sum of curves,
trees one ensemble, and the rest is a `Sum` of forms, each with its own scaling."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hingerank.data.scaling import ColumnScaler
from hingerank.export.forest import Forest, first_children
from hingerank.export.forms import (
    Affine,
    Body,
    CosineSum,
    Form,
    KernelSum,
    Outline,
    Shapes,
    Sum,
    Trees,
    folded_body,
    largest_below,
)
from hingerank.features.curves import Curves

SUMMANDS = ("linear", "curves", "surfaces")  # kinds that add up to one of them, the last that occurs


def summed(names: Sequence[str], parts: Sequence[tuple[float, Form]]) -> Form:
    """The form whose score is the sum of a · score over the parts (a, form).

    >>> line, other = Affine(np.array([1.0, 0.0])), Affine(np.array([0.0, 3.0]), 1.0)
    >>> summed(["a", "b"], [(2.0, Form(["a", "b"], line)), (1.0, Form(["a", "b"], other))]).body.weights.tolist()
    [2.0, 3.0]
    """
    forms = [
        Form(names, multiplied(part.body, a), part.scaling, part.filled)
        for a, whole in parts
        for part in whole.folded().parts
    ]
    forms.sort(key=lambda form: not (isinstance(form.body, Affine | Shapes) and isinstance(form.scaling, ColumnScaler)))
    groups: list[list[Form]] = []
    for form in forms:
        for group in groups:
            if joins(group[0], alike := rescaled(form, group[0])):
                group.append(alike)
                break
        else:
            groups.append([form])
    joined = [replace(group[0], body=merged([form.body for form in group])) for group in groups]
    if not joined:
        return Form(names, Affine(np.zeros(len(names))))
    return joined[0] if len(joined) == 1 else Form(names, Sum(tuple(joined)))


def rescaled(form: Form, first: Form) -> Form:
    """The same linear model or curves with the columns as another form scales them, if that is by columns: some are far
    from 0, so that neither scaling was folded."""
    own, scaler = form.scaling, first.scaling
    plain = isinstance(form.body, Affine | Shapes) and (own is None or isinstance(own, ColumnScaler))
    if not plain or not isinstance(scaler, ColumnScaler) or form.width != first.width:
        return form
    centre, width = (0.0, 1.0) if own is None else (own.centre_, own.width_)
    body = folded_body(form.body, (centre - scaler.centre_) / scaler.width_, width / scaler.width_)
    return replace(form, body=body, scaling=scaler)


def joins(first: Form, second: Form) -> bool:
    """Whether two forms become one: both trees, or both linear, curves or surfaces, with columns filled and scaled in
    the same way."""
    kinds = [(Trees,), (Affine, Shapes)]
    alike = any(isinstance(first.body, k) and isinstance(second.body, k) for k in kinds)
    own, other = first.front, second.front
    same = first.scaled == second.scaled and own.keys() == other.keys()
    return alike and same and all(np.array_equal(own[name], other[name]) for name in own)


def joined_parts(parts: Sequence[Outline]) -> list[Outline]:
    """The outlines of parts after summing, as far as known before fitting.

    >>> given = [("linear", "none"), ("trees", "none"), ("curves", "none"), ("linear", "log")]
    >>> [(part.kind, part.scaled) for part in joined_parts([Outline(*each) for each in given])]
    [('curves', 'none'), ('trees', 'none'), ('linear', 'log')]
    """
    found: dict[str, Outline] = {}
    for number, part in enumerate(parts):
        if part.kind in SUMMANDS and part.scaled == "none":
            name = f"curves {part.filled}"
            before = found[name].kind if name in found else "linear"
            found[name] = Outline(max(str(part.kind), str(before), key=SUMMANDS.index), "none", part.filled)
        elif part.kind == "trees" and part.scaled == "none":  # filled missing values fold into trees
            found["trees"] = Outline("trees")
        else:
            found[str(number)] = part
    return list(found.values())


def multiplied(body: Body, a: float) -> Body:
    """The body with a times the scores of this one."""
    if isinstance(body, Affine):
        return Affine(a * body.weights, a * body.offset)
    if isinstance(body, Shapes):
        curves = body.curves._replace(heights=a * body.curves.heights, slopes=a * body.curves.slopes)
        return body._replace(curves=curves, weights=a * body.weights)
    if isinstance(body, Trees):
        return body._replace(number=np.where(body.feature < 0, a * body.number, body.number), start=a * body.start)
    assert isinstance(body, KernelSum | CosineSum)
    return body._replace(weights=a * body.weights)


def merged(bodies: Sequence[Body]) -> Body:
    """The sum of bodies that `joins` accepts."""
    if len(bodies) == 1:
        return bodies[0]
    if isinstance(bodies[0], Trees):
        return ensemble([body for body in bodies if isinstance(body, Trees)])
    lines = [body for body in bodies if isinstance(body, Affine)]
    shapes = [body for body in bodies if isinstance(body, Shapes)]
    line = Affine(sum(body.weights for body in lines) + np.zeros(1), float(sum(body.offset for body in lines)))
    if not shapes:
        return line
    products = (np.concatenate(each) for each in zip(*(body[1:] for body in shapes), strict=True))
    return Shapes(added_curves([body.curves for body in shapes], line), *products)


def added_curves(curves: Sequence[Curves], line: Affine) -> Curves:
    """The exact sum of curves and a linear model: linear between all their knots; the offset goes to column 1."""
    d = len(curves[0].slopes)
    weights = np.broadcast_to(line.weights, d)
    knots = [np.unique(np.concatenate([each.of(c)[0] for each in curves])) for c in range(d)]
    heights = [sum(each.at(c, knots[c]) for each in curves) + weights[c] * knots[c] for c in range(d)]
    heights[0] = heights[0] + line.offset
    starts = np.concatenate(([0], np.cumsum([len(own) for own in knots])))
    slopes = sum(each.slopes for each in curves) + weights
    return Curves(np.concatenate(knots), np.concatenate(heights), starts, slopes)


def ensemble(bodies: Sequence[Trees]) -> Trees:
    """All trees of some ensembles as one."""
    before = np.cumsum([0, *(len(body.feature) for body in bodies)])[:-1]
    moved = [
        body._replace(child=np.where(body.child >= 0, body.child + first, -1), roots=body.roots + first)
        for body, first in zip(bodies, before)
    ]
    names = ("feature", "number", "child", "missing", "roots")
    parts = {name: np.concatenate([getattr(body, name) for body in moved]) for name in names}
    return Trees(**parts, start=float(sum(body.start for body in bodies)))


def trees_of(models: Sequence[Forest]) -> Trees:
    """The mean of tree ensembles as one ensemble, with thresholds for rows in double precision."""
    found = []
    for model in models:
        sizes, feature, number, missing = (model.arrays[name] for name in ("sizes", "feature", "number", "missing"))
        inner = feature >= 0
        roots, children = first_children(sizes, inner)
        share = 1.0 / (len(models) * (len(sizes) if model.average else 1))
        number = np.where(inner, number, number * share)
        if model.single:
            number[inner] = largest_below(number[inner], lambda x: x.astype(np.float32))
        found.append(Trees(feature, number, np.where(inner, children, -1), missing, roots, model.start * share))
    return ensemble(found)
