"""From a ranker's plain form to its scorer: the step for each scaling and each body."""

from collections.abc import Callable
from typing import Any

from hingerank.arrays import Ranker
from hingerank.export import scorer as steps
from hingerank.export.forest import MISSING_LEFT, SMALL, ZERO_IS_MISSING
from hingerank.export.forms import Affine, CosineSum, ExportError, Form, KernelSum, Surfaces, Trees
from hingerank.export.scalings import Logs, Places, ScaledColumns, ScaledWithinQueries
from hingerank.export.scorer import Scorer, ScoringStep
from hingerank.features.curves import Curves


def _kernel_sum(body: KernelSum) -> ScoringStep:
    if body.kernel == "polynomial":
        return steps.Powers(body.gamma, body.degree, body.coef0, body.rows, body.weights)
    return steps.Gaussians(body.gamma, body.rows, body.weights)


SCALED: dict[type, Callable[..., ScoringStep]] = {
    ScaledColumns: steps.Shifted,
    Logs: steps.Logarithms,
    Places: steps.AmongQuantiles,
    ScaledWithinQueries: steps.WithinQuery,
}
BODIES: dict[type, Callable[[Any], ScoringStep]] = {
    Affine: lambda body: steps.WeightedSum(*body),
    KernelSum: _kernel_sum,
    CosineSum: lambda body: steps.CosineWaves(*body),
    Curves: steps.CurveLookup,
    Surfaces: steps.WithRamps,
    Trees: lambda body: steps.TreeWalk(body, MISSING_LEFT, ZERO_IS_MISSING, SMALL),
}


def make_scorer(ranker: Ranker) -> Scorer:
    """The scorer of a fitted ranker; an ExportError if its score has no plain form."""
    try:
        form: Form = ranker._form()
    except ExportError as error:
        raise ExportError(f"{type(ranker).__name__} has no scorer, use predict: {error}") from None
    parts = form.folded().parts
    by_query = any(isinstance(part.scaling, ScaledWithinQueries) for part in parts)
    made = [_steps(part) for part in parts]
    return Scorer(form.names, made[0] if len(made) == 1 else [steps.AddedScores(made)], by_query)


def _steps(form: Form) -> list[ScoringStep]:
    """The steps applied to rows, one after another, up to their scores."""
    filling: list[ScoringStep] = [] if form.filled is None else [steps.GapsFilled(*form.filled)]
    scaling = [] if form.scaling is None else [SCALED[type(form.scaling)](*form.scaling)]
    return [*filling, *scaling, BODIES[type(form.body)](form.body)]
