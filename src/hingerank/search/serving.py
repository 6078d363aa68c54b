"""Settings for a target: which ones another program can run, by the rules of `export` itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from sklearn.base import clone

from hingerank.arrays import Ranker
from hingerank.export.formats import FORMATS, WITHIN_QUERIES, carriers, refusal
from hingerank.export.forms import Outline
from hingerank.export.sums import joined_parts
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.tuned import Trial, difference
from hingerank.search.settings import Setting

Tried = tuple[Ranker, Sequence[Trial]]  # a ranker, and settings of it that could be fitted


def why_not(ranker: Ranker, setting: Setting, to: str, blended: bool = False) -> str:
    """Why a format cannot express a ranker fitted with a setting; empty if it can.

    blended: as one of several rankers of its kind whose scores are added.

    >>> from hingerank import RankSVM
    >>> why_not(RankSVM(), {"scale": "standard"}, "solr")
    ''
    >>> why_not(RankSVM(), {"scale": "log"}, "solr").partition(";")[0]
    "solr cannot carry a linear model on features that are scaled by 'log'"
    """
    parts = _parts(ranker, setting)
    name = "Blend" if blended else type(ranker).__name__
    return refusal(to, joined_parts(parts * 2) if blended else parts, name)


def _parts(ranker: Ranker, setting: Setting) -> list[Outline]:
    """The parts whose sum a ranker with a setting will be."""
    own = isinstance(ranker, BaseRanker)
    return list(clone(ranker).set_params(**setting)._form_parts()) if own else [Outline(None)]


def check_target(to: str, tried: Mapping[str, tuple[Ranker, list[Setting]]], only: bool, blended: bool = False) -> None:
    """Raise a ValueError before any fit if the target can run none of the rankers' first settings.

    only: every ranker needs a setting that runs there, as the members of a blend do; blended: so does their sum.
    """
    reasons = {
        name: [why_not(ranker, setting, to, blended) for setting in settings]
        for name, (ranker, settings) in tried.items()
    }
    nowhere = [name for name, each in reasons.items() if all(each)]
    if len(nowhere) == len(reasons) or (only and nowhere):
        raise ValueError(f"serve={to!r} leaves nothing to try for {nowhere[0]}: {reasons[nowhere[0]][0]}")
    if blended:
        able = {name: [s for s, why in zip(tried[name][1], reasons[name]) if not why] for name in tried}
        outlines = [dict.fromkeys(tuple(_parts(tried[name][0], s)) for s in able[name]) for name in tried]
        sums = [joined_parts([part for parts in each for part in parts]) for each in product(*outlines)]
        whys = [refusal(to, parts, "Blend") for parts in sums]
        if all(whys):
            raise ValueError(f"serve={to!r} leaves no blend of {', '.join(tried)} to try: {whys[0]}")


def advice(ranker: Ranker, free: Trial, chosen: Trial) -> str:
    """Formats that can run the unrestricted choice, if it beats the chosen setting by more than twice the error."""
    cost, error = difference(free.scores, chosen.scores)
    if free.served or not cost > 2 * np.nan_to_num(error):
        return ""
    parts = _parts(ranker, free.setting)
    where = carriers(parts)
    if any(part.scaled.startswith("query-") for part in parts):
        where = [f"{to} ({WITHIN_QUERIES[to]})" for to in where]
    return f"formats that run it: {', '.join(where)}" if where else ""


def stays_here(ranker: Ranker, chosen: Trial, tried: Iterable[Trial]) -> str:
    """A hint that no format supports the chosen setting, if one supports another that was tried; else empty."""
    able = max((t for t in tried if carriers(_parts(ranker, t.setting))), key=lambda t: t.mean, default=None)
    if able is None or carriers(_parts(ranker, chosen.setting)):
        return ""
    targets = ", ".join(carriers(_parts(ranker, able.setting)))
    return (
        f"no export supports this setting: to run it elsewhere, tune with serve= one of {targets} "
        f"(the best setting that one of them can run has {able.mean:.4f})"
    )


def run_together(to: str, tried: Sequence[Tried], chosen: list[Trial]) -> list[Trial]:
    """The chosen settings if the target can run the sum of these rankers, else the best that it can.

    Members may each run there and not together: linear models that fill missing values differently are not one.
    """
    if not (why := _refused_sum(to, tried, chosen)):
        return chosen
    able = [each for each in _kinds_of_sums(tried) if not _refused_sum(to, tried, each)]
    if not able:
        raise ValueError(f"serve={to!r}: no settings of these rankers that could be fitted run there together: {why}")
    return max(able, key=lambda trials: sum(trial.mean for trial in trials))


def blend_stays_here(tried: Sequence[Tried], chosen: list[Trial]) -> str:
    """A hint that no format supports a blend, if one supports it with other settings that were tried; else empty."""
    if all(trial.setting.get("context") is None for trial in chosen) or _carriers_of_sums(tried, [chosen]):
        return ""
    targets = ", ".join(_carriers_of_sums(tried, list(_kinds_of_sums(tried))))
    return f"no export carries this blend: to run it elsewhere, tune with serve= one of {targets}" if targets else ""


def _carriers_of_sums(tried: Sequence[Tried], sums: Sequence[list[Trial]]) -> list[str]:
    """The formats that support at least one of these sums."""
    return [to for to in FORMATS if not all(_refused_sum(to, tried, each) for each in sums)]


def _refused_sum(to: str, tried: Sequence[Tried], trials: Sequence[Trial]) -> str:
    """Why a format cannot run the sum of rankers with these settings; empty if it can."""
    parts = [part for (ranker, _), trial in zip(tried, trials) for part in _parts(ranker, trial.setting)]
    return refusal(to, joined_parts(parts), "Blend")


def _kinds_of_sums(tried: Sequence[Tried]) -> Iterator[list[Trial]]:
    """One setting of each ranker, the best of those that are the same kind of model, in all combinations."""
    best = []
    for ranker, trials in tried:
        rising = sorted(trials, key=lambda trial: trial.mean)
        best.append(list({tuple(_parts(ranker, trial.setting)): trial for trial in rising}.values()))
    return (list(each) for each in product(*best))
