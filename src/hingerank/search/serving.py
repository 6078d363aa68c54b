"""Settings for a target: which ones another program can run, by the rules of `export` itself.

What is chosen is a sum: the settings of the members of a blend, or of one ranker alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from sklearn.base import clone

from hingerank.arrays import Ranker
from hingerank.export.formats import FORMATS, carriers, carries, refusal
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
    return _refused(to, [ranker] * (1 + blended), [setting] * (1 + blended))


def _refused(to: str, rankers: Sequence[Ranker], settings: Sequence[Setting]) -> str:
    """Why a format cannot express a ranker with a setting, or the sum of several; empty if it can."""
    return refusal(to, _outlines(rankers, settings), "Blend" if len(rankers) > 1 else type(rankers[0]).__name__)


def _outlines(rankers: Sequence[Ranker], settings: Sequence[Setting]) -> list[Outline]:
    """The parts whose sum a ranker with a setting will be, or several together."""
    parts = [part for ranker, setting in zip(rankers, settings) for part in _parts(ranker, setting)]
    return joined_parts(parts) if len(rankers) > 1 else parts


def _parts(ranker: Ranker, setting: Setting) -> list[Outline]:
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
        rankers = [ranker for ranker, _ in tried.values()]
        able = [[s for s, why in zip(tried[name][1], reasons[name]) if not why] for name in tried]
        kinds = [{tuple(_parts(ranker, s)): s for s in each}.values() for ranker, each in zip(rankers, able)]
        whys = [_refused(to, rankers, settings) for settings in product(*kinds)]
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
        where = [f"{to} ({FORMATS[to].within})" for to in where]
    return f"formats that run it: {', '.join(where)}" if where else ""


def run_together(to: str, tried: Sequence[Tried], chosen: list[Trial]) -> list[Trial]:
    """The chosen settings if the target can run the sum of these rankers, else the best that it can.

    Members may each run there and not together: linear models that fill missing values differently are not one.
    """
    rankers = [ranker for ranker, _ in tried]
    if not (why := _refused(to, rankers, _settings(chosen))):
        return chosen
    able = [trials for trials in _kinds_of_sums(tried) if not _refused(to, rankers, _settings(trials))]
    if not able:
        raise ValueError(f"serve={to!r}: no settings of these rankers that could be fitted run there together: {why}")
    return max(able, key=lambda trials: sum(trial.mean for trial in trials))


def stays_here(tried: Sequence[Tried], chosen: Sequence[Trial]) -> str:
    """A hint that no format supports what was chosen, if one supports other settings that were tried; else empty."""
    rankers = [ranker for ranker, _ in tried]
    if carriers(_outlines(rankers, _settings(chosen))):
        return ""
    sums = {tuple(_outlines(rankers, _settings(trials))): trials for trials in _kinds_of_sums(tried)}
    targets = [to for to in FORMATS if any(carries(to, parts) for parts in sums)]
    if not targets:
        return ""
    alone = len(rankers) == 1
    words = f"no export supports this {'setting' if alone else 'blend'}: to run it elsewhere, tune with serve= one of "
    words += ", ".join(targets)
    if alone:
        best = max(trial.mean for parts, [trial] in sums.items() if carriers(parts))
        words += f" (the best setting that one of them can run has {best:.4f})"
    return words


def _settings(trials: Iterable[Trial]) -> list[Setting]:
    return [trial.setting for trial in trials]


def _kinds_of_sums(tried: Sequence[Tried]) -> list[list[Trial]]:
    """One setting of each ranker, the best of those that are the same kind of model, in all combinations."""
    best = []
    for ranker, trials in tried:
        rising = sorted(trials, key=lambda trial: trial.mean)
        best.append(list({tuple(_parts(ranker, trial.setting)): trial for trial in rising}.values()))
    return [list(each) for each in product(*best)]
