"""A blend of tuned rankers: its scales and weights come from the held-out scores of the tuning."""

from collections.abc import Sequence

import numpy as np
from sklearn.base import clone

from hingerank.arrays import RowsLike
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.blend import Blend
from hingerank.rankers.blending import OutOfFold
from hingerank.rankers.sources import RowsInParts
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.search.query_folds import QueryFolds
from hingerank.search.serving import blend_stays_here, run_together
from hingerank.search.study import Plan, Study
from hingerank.watching import tell_task

PARTS = 5  # of a validation set, for cross-fitting the stack


def check_blend(names: Sequence[str], rated: bool, data: RowsLike) -> None:
    """Raise a ValueError if rankers cannot be blended."""
    if len(names) < 2:
        raise ValueError(f"a blend needs at least two rankers, and {names[0]} is one: name more, or leave out blend")
    if rated:
        raise ValueError(f"{names[0]} learns from ratings, and only rankers of rows can be blended: leave out blend")
    if isinstance(data, RowsInParts):
        raise ValueError("a blend needs the scores of all rows in one place: read the data with hingerank.read")


def blended(studies: Sequence[Study], plan: Plan, seed: int) -> Blend:
    """A blend of the best setting of each ranker, fitted on everything.

    Parameters
    ----------
    studies : the rankers with the settings tried; at least two
    plan : what the studies share; its folds are of rows
    seed : of the blend's own folds, if it is fitted again
    """
    parts, target = plan.folds, plan.target
    assert isinstance(parts, QueryFolds)  # `check_blend` has refused ratings
    chosen = [study.best(plan.simplest) for study in studies]
    tried = [(study.ranker, study.served) for study in studies]
    if target is not None:
        chosen = run_together(target, tried, chosen)
    members = [clone(study.ranker).set_params(**trial.setting) for study, trial in zip(studies, chosen)]
    for study, member in zip(studies, members):
        if not isinstance(member, BaseRanker):
            raise ValueError(f"{study.name} cannot be blended: it is not a ranker derived from BaseRanker")
    found = out_of_fold([study.held_out_scores(trial.setting) for study, trial in zip(studies, chosen)], parts)
    tell_task("tuning a blend, the last fits")
    blend = Blend(members, "auto", folds=max(2, len(parts)), measure=parts.measure, random_state=seed)
    blending = blend.fit_members(parts.everything, found, around=parts.around)
    by_query, folds = blending.per_query, [found.part == k for k in range(len(parts))] if len(parts) > 1 else [...]
    values = [found.average(by_query, fold) for fold in folds]
    each = np.array(values) if len(parts) > 1 else by_query[~np.isnan(by_query)]
    error = float(each.std(ddof=1) / np.sqrt(len(each)))
    own = Trial("blend", {"weights": blending.kind}, values, float(np.mean(values)), error, blend.certificate_.seconds)
    trials = [trial for study in studies for trial in study.trials.values()]
    settings = {study.name: trial.setting for study, trial in zip(studies, chosen)}
    advice = blend_stays_here(tried, chosen) if target is None else ""
    blend.tuning_ = Tuning(
        parts.measure, len(parts), "blend", own.setting, [*trials, own], 0.0, {}, advice=advice, members=settings
    )
    return blend


def out_of_fold(scores: Sequence[Sequence[np.ndarray]], parts: QueryFolds) -> OutOfFold:
    """The held-out scores of members, fold after fold, with the rows of a query together."""
    columns, grades, sizes, part, lists = [], [], [], [], []
    for k in range(len(parts)):
        held = parts.held(k)
        blocks = held.blocks
        columns.append(blocks.gather(np.stack([own[k] for own in scores], axis=1)))
        grades.append(blocks.gather(held.y))
        sizes.append(blocks.sizes)
        part.append(np.full(len(blocks), k))
        if (shown := parts.lists(k)) is not None:
            lists.append(shown)
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
    of_query = np.concatenate(part)
    if len(parts) == 1:
        of_query = np.arange(len(of_query)) % PARTS
    y = np.concatenate(grades).astype(np.float64)
    return OutOfFold(np.concatenate(columns), y, offsets, None, of_query, np.concatenate(lists) if lists else None)
