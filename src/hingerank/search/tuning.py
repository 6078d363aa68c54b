"""`tune`: try the settings worth trying for rankers over folds, and fit the best one, or a blend, on everything."""

import inspect
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from sklearn.base import clone

from hingerank.arrays import Facts, Given, Ranker, RowsLike
from hingerank.data.checks import WeakFitWarning
from hingerank.features.kernels import choose_gamma
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.blend import Blend
from hingerank.rankers.blending import OutOfFold
from hingerank.rankers.corrections import ClickedRows
from hingerank.rankers.sources import RowsInParts
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.rankers.winners import check_winners
from hingerank.registry import names_of_rankers, ranker_class, registered_name
from hingerank.renaming import present_names
from hingerank.search.folds import ClickFolds, QueryFolds
from hingerank.search.proposals import Staged
from hingerank.search.serving import advice, blend_stays_here, check_target, run_together, stays_here, target_name
from hingerank.search.settings import listed
from hingerank.search.study import Folds, Plan, Progress, Study
from hingerank.watching import tell_task

PARTS = 5  # of a validation set, for cross-fitting the stack
CS = tuple(2.0**k for k in range(-14, 3, 2))
WIDTHS = tuple(4.0**k for k in range(-4, 2))  # multiples of gamma="scale"
RATINGS, CLICKS, ROWS = "ratings", "clicks", "rows"  # kinds of training data


@runtime_checkable
class RatingsRanker(Protocol):
    """A ranker that learns from ratings of many users, and makes its own folds for tuning."""

    def _rating_folds(self, data: object, measure: str, **options: object) -> Folds: ...

    def _usual_measure(self) -> str: ...


def tune(
    ranker_or_name: object,
    data: RowsLike,
    *,
    measure: str | None = None,
    validation: object = None,
    folds: int = 5,
    params: Given | None = None,
    random_state: int = 0,
    one_standard_error: bool = False,
    widen: bool = True,
    hold_out: str = "ratings",
    sample_weight: object = None,
    serve: str | None = None,
    serve_only: bool = False,
    blend: bool = False,
    progress: Progress | None = None,
    propensities: object = None,
    correction: str | None = None,
    clip: float | None = None,
    around: object = None,
) -> Ranker:
    """argmax over settings of the mean over folds of measure(held-out queries), fitted on everything.

    Settings that differ only in the ranker's path parameter are fitted as one path, scaled and mapped rows are shared
    (unless a class of your own overrides `fit` or `predict`), queries are never split, and trial fits have ten times
    the tolerance of the last fit. From two folds on, a setting is left out of the others if its values on the same
    queries, minus those of the best setting so far, are on average below a thousandth of it even with their standard
    error added (with ``one_standard_error`` only if it is far behind). Trees stop growing when the held-out queries no
    longer improve; the last fit has their average number. If the best value of a number is at the edge of its grid, the
    grid is extended that way. Ties go to the simpler setting (smaller C, radius, rank, fewer and smaller trees).

    Parameters
    ----------
    ranker_or_name : a ranker, its class, its name ("rank-svm"), or several of them, of which the best is kept
        Its parameters keep their values, unless they are tried.
    data : RankingData, or data in parts (`hingerank.distributed.read`), of which every part is split into folds
        For personal rankers ratings with features of their items, which are held out by `hold_out`. Clicks joined with
        features (``log.join(data)``): rankers learn by ``fit_clicks``, and held-out queries are judged by their clicks.
    measure : what to maximise; default "ndcg@10", for clicks "dcg@10", for `EASE` and `ListRanker` "list_ndcg@10"
        For ratings, "ndcg@10" and similar measure the order of the items that a user rated; "list_ndcg@10",
        "list_recall@10" and similar measure lists over all items but those trained on (see `hr.evaluate_top`), which
        should find the items rated at least as high as half of all ratings.
        For clicks it is the value of a list, with the same correction as the fit: "dcg@10", "p@5" or "average-rank", of
        which less is better and which is listed with a minus.
    validation : data to choose on instead of folds; the last fit is on both
    folds : number of folds of the queries, each held out once
    params : parameter -> a value to fix, or a list of values to try instead of the usual ones for this ranker
    random_state : seed of the folds, and of rankers given by name
    one_standard_error : take the simplest setting whose mean is within one standard error of the best
    widen : whether grids may be extended
    hold_out : for ratings: "ratings", some of every user's, or "items", some items that training never sees
    sample_weight : for ratings: the weight of each in fits; the measure counts all alike, except those of weight 0
    serve : a format of `export` ("solr", "opensearch", "vespa", "onnx", "sql", "c", …) that the ranker is chosen for
        Scales, maps and forms that it cannot run are never chosen, so that `export` can write the ranker. They are
        tried all the same, to report what the target costs in the measure.
    serve_only : do not try what the target cannot run: fewer fits, but the cost of the target stays unknown
    blend : return a `Blend` of all rankers, each with its best setting, instead of the best one
        Scales and weights come from the scores of the folds: no member is fitted to a fold again.
    progress : called with (settings done, settings known so far, a description of the best so far) after every fit
    propensities, correction, clip, around : for clicks: as in ``fit_clicks``; correction is "ips" by default

    Returns
    -------
    the fitted ranker
        ``tuning_`` has all settings, their scores on each fold and seconds; with a target its ``serve_cost``.

    Examples
    --------
    >>> from hingerank import make_letor
    >>> ranker = tune("rank-svm", make_letor(30, seed=0), folds=3, params={"C": [0.001, 0.1], "scale": "standard"})
    >>> ranker.scale, ranker.C == ranker.tuning_.best["C"], len(ranker.tuning_.chosen.scores)
    ('standard', True, 3)
    """
    started = time.perf_counter()
    clicks = {"propensities": propensities, "correction": correction, "clip": clip, "around": around}
    clicks = {name: value for name, value in clicks.items() if value is not None}
    several = ranker_or_name if isinstance(ranker_or_name, list | tuple) else [ranker_or_name]
    rankers = [_ranker(item, random_state) for item in several]
    names = names_of_rankers(rankers)
    kind = _kind(names, rankers, data, clicks, sample_weight)
    if hold_out != "ratings" and kind != RATINGS:
        raise ValueError(f"hold_out={hold_out!r} is only for ratings, as folds of rows hold out queries: leave it out")
    target = None if serve is None else target_name(serve, kind == RATINGS)
    if serve_only and target is None:
        raise ValueError("serve_only needs a target: pass a format too, as in serve='solr'")
    if blend:
        _check_blend(names, rankers, kind, data)
    how: Facts = {"validation": validation, "folds": folds, "seed": random_state}
    if kind == RATINGS:
        usual = {ranker._usual_measure() for ranker in rankers}
        measure = measure or (usual.pop() if len(usual) == 1 else "ndcg@10")
        parts: Folds = rankers[0]._rating_folds(data, measure, hold_out=hold_out, sample_weight=sample_weight, **how)
    elif kind == CLICKS:
        parts = ClickFolds(data, measure or "dcg@10", keep_scores=blend, **how | {"correction": "ips"} | clicks)
    else:
        parts = QueryFolds(data, measure or "ndcg@10", keep_scores=blend, **how)
    plan = Plan(parts, one_standard_error, target, serve_only, blend, progress)
    tried, studies = {name: listed(name, values) for name, values in (params or {}).items()}, []
    for name, ranker in zip(names, rankers):
        given = present_names(ranker, tried, warn=True)
        studies.append(Study(name, ranker, plan, parts.search(ranker, given, widen)))
    if target is not None:
        begun = {study.name: (study.ranker, study.search.first) for study in studies}
        check_target(target, begun, serve_only or blend, blend)
    for study in studies:
        study.run()
    found = _fitted(studies, plan, random_state)
    found.tuning_ = replace(found.tuning_, seconds=time.perf_counter() - started, serve=target)
    return found


def _fitted(studies: Sequence[Study], plan: Plan, seed: int) -> Ranker:
    """The best ranker with its best setting, or a blend of all, fitted on everything."""
    worked = [study for study in studies if study.served]
    if not worked:
        names, problem = (
            ", ".join(study.name for study in studies),
            next((s.problem for s in studies if s.problem), None),
        )
        raise ValueError(f"no setting of {names} could be fitted; the first error is: {problem}")
    trials = [trial for study in studies for trial in study.trials.values()]
    if plan.blend:
        if len(worked) < 2:
            failed = next(study for study in studies if not study.served)
            raise ValueError(
                f"only {worked[0].name} could be fitted, and a blend needs two rankers or more; the first error of "
                f"{failed.name} is: {failed.problem}"
            )
        return _blended(worked, plan, trials, seed)
    winner, chosen = _winner(worked)
    more: Facts = {}
    if plan.target is None and chosen.setting.get("context") is not None:  # which no export carries
        more = {"advice": stays_here(winner.ranker, chosen, winner.known)}
    if plan.target is not None and not plan.target_only:
        other, free = _winner([study for study in studies if study.known], free=True)
        more = {"free": {"ranker": free.ranker, "setting": free.setting}}
        more |= {"advice": advice(other.ranker, free, chosen)}
    tell_task(f"tuning {winner.name}, the last fit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakFitWarning)  # validation has chosen this setting
        found = plan.folds.fit(clone(winner.ranker).set_params(**chosen.setting))
    found.tuning_ = Tuning(
        plan.folds.measure, len(plan.folds), winner.name, chosen.setting, trials, 0.0, winner.widened, **more
    )
    return found


def _winner(studies: Sequence[Study], free: bool = False) -> tuple[Study, Trial]:
    """The study with the best setting, the first of ties, and that setting; free: ignoring the target."""
    best = [(study, study.best(study.plan.simplest, free)) for study in studies]
    return max(best, key=lambda pair: pair[1].mean)


def _kind(names: Sequence[str], rankers: Sequence[Ranker], data: object, clicks: Given, sample_weight: object) -> str:
    """What the rankers learn from: RATINGS, CLICKS or ROWS; a ValueError if rankers, data and arguments disagree."""
    if not rankers:
        raise ValueError("there is no ranker to tune: name at least one")
    clicked = isinstance(data, ClickedRows)
    rated = [isinstance(ranker, RatingsRanker) for ranker in rankers]
    if clicks and not clicked:
        first = next(iter(clicks))
        raise ValueError(f"{first} is only for clicks joined with features (log.join(data)): leave it out otherwise")
    if any(rated) and not all(rated):
        pair = names[rated.index(True)], names[rated.index(False)]
        raise ValueError(f"{pair[0]} learns from ratings and {pair[1]} from rows: tune one kind at a time")
    if sample_weight is not None and not any(rated):
        raise ValueError("sample_weight is only for ratings, as queries of graded rows count alike: leave it out")
    if any(rated) and clicked:
        raise ValueError(f"{names[0]} learns from ratings of users, but the data are clicks on rows of queries")
    for ranker in rankers if clicked else ():
        check_winners(ranker)
    return RATINGS if any(rated) else CLICKS if clicked else ROWS


def _ranker(item: object, seed: int) -> Ranker:
    """An unfitted ranker for a name, a class or a ranker."""
    if isinstance(item, str):
        item = ranker_class(registered_name(item))
    if not isinstance(item, type):
        return clone(item)
    if not issubclass(item, BaseRanker | RatingsRanker):
        raise ValueError(f"{item.__name__} does not learn from graded rows of queries, as rankers for tune must")
    seeded: Facts = {"random_state": seed} if "random_state" in inspect.signature(item).parameters else {}
    return item(**seeded)


def _check_blend(names: Sequence[str], rankers: Sequence[Ranker], kind: str, data: RowsLike) -> None:
    """Raise a ValueError if rankers cannot be blended."""
    if len(names) < 2:
        raise ValueError(f"a blend needs at least two rankers, and {names[0]} is one: name more, or leave out blend")
    if kind == RATINGS:
        raise ValueError(f"{names[0]} learns from ratings, and only rankers of rows can be blended: leave out blend")
    if isinstance(data, RowsInParts):
        raise ValueError("a blend needs the scores of all rows in one place: read the data with hingerank.read")
    for name, ranker in zip(names, rankers):
        if not isinstance(ranker, BaseRanker):
            raise ValueError(f"{name} cannot be blended: it is not a ranker derived from BaseRanker")


def _blended(studies: Sequence[Study], plan: Plan, trials: Sequence[Trial], seed: int) -> Blend:
    """A blend of the best setting of each ranker, fitted on everything; it takes its weights from held-out scores."""
    parts, target = plan.folds, plan.target
    assert isinstance(parts, QueryFolds)  # `_check_blend` has refused ratings
    chosen = [study.best(plan.simplest) for study in studies]
    tried = [(study.ranker, study.served) for study in studies]
    if target is not None:
        chosen = run_together(target, tried, chosen)
    members = [clone(study.ranker).set_params(**trial.setting) for study, trial in zip(studies, chosen)]
    found = out_of_fold([study.held_out_scores(trial.setting) for study, trial in zip(studies, chosen)], parts)
    tell_task("tuning a blend, the last fits")
    blend = Blend(members, "auto", folds=max(2, len(parts)), measure=parts.measure, random_state=seed)
    blending = blend.fit_members(parts.everything, found, around=parts.around)
    by_query, folds = blending.per_query, [found.part == k for k in range(len(parts))] if len(parts) > 1 else [...]
    values = [found.average(by_query, fold) for fold in folds]
    each = np.array(values) if len(parts) > 1 else by_query[~np.isnan(by_query)]
    error = float(each.std(ddof=1) / np.sqrt(len(each)))
    own = Trial("blend", {"weights": blending.kind}, values, float(np.mean(values)), error, blend.certificate_.seconds)
    settings = {study.name: trial.setting for study, trial in zip(studies, chosen)}
    advice = blend_stays_here(tried, chosen) if target is None else ""
    blend.tuning_ = Tuning(
        parts.measure, len(parts), "blend", own.setting, [*trials, own], 0.0, {}, advice=advice, members=settings
    )
    return blend


def out_of_fold(scores: Sequence[Sequence[np.ndarray]], parts: QueryFolds) -> OutOfFold:
    """The held-out scores of members, fold after fold, with the rows of a query together."""
    columns, grades, sizes, part, lists, docid = [], [], [], [], [], []
    for k in range(len(parts)):
        held = parts.held(k)
        blocks = held.blocks
        columns.append(blocks.gather(np.stack([own[k] for own in scores], axis=1)))
        grades.append(blocks.gather(held.y))
        sizes.append(blocks.sizes)
        part.append(np.full(len(blocks), k))
        if (shown := parts.lists_of(held)) is not None:
            lists.append(shown)
        if held.docid is not None:
            docid.append(blocks.gather(np.asarray(held.docid)))
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
    of_query = np.concatenate(part)
    if len(parts) == 1:
        of_query = np.arange(len(of_query)) % PARTS
    y = np.concatenate(grades).astype(np.float64)
    more = [np.concatenate(each) if each else None for each in (lists, docid)]
    return OutOfFold(np.concatenate(columns), y, offsets, None, of_query, *more)


@dataclass(frozen=True)
class KernelSearch:
    """The result of ``search_kernel``.

    Attributes
    ----------
    best : the fitted ranker with the largest value
    table : one dict of gamma, C, value and seconds for every fit
    """

    best: Ranker
    table: list[dict[str, float]]


def search_kernel(
    ranker: Ranker, train: object, validation: object, *, Cs: Iterable[float] = CS,
    gammas: Iterable[float] | None = None, measure: str = "ndcg@10",
) -> KernelSearch:  # fmt: skip
    """argmax over gamma and C of measure(validation), for KernelRankSVM, NystroemRankSVM or FourierRankSVM.

    For every gamma the rows are mapped (or the kernel matrix is computed) once, and C follows a warm-started path from
    small to large. Validation rows are also mapped once for all values of C. Ties go to the smaller C.
    (`hingerank.tune` does this over folds, and also tries scalings.)

    Parameters
    ----------
    ranker : with the other parameters set
    train, validation : RankingData
    Cs : values of C
    gammas : values of gamma; by default 4^-4, ..., 4 times that of ``gamma="scale"`` for the scaled rows
    measure : what to maximise

    Examples
    --------
    >>> from hingerank import FourierRankSVM
    >>> from hingerank.data.generate import make_letor
    >>> train, validation = make_letor(20, seed=0), make_letor(10, seed=1)
    >>> found = search_kernel(FourierRankSVM(50), train, validation, Cs=[0.01, 1.0], gammas=[0.1, 0.5])
    >>> len(found.table), found.best.gamma in (0.1, 0.5)
    (4, True)
    """
    Cs = sorted({float(C) for C in Cs})
    if gammas is None:
        scale = choose_gamma("scale", clone(ranker)._learning_rows(train, None, None, None, None).X)
        gammas = [scale * width for width in WIDTHS]
    grid = {"gamma": [float(gamma) for gamma in gammas], "C": Cs}
    if not all(grid.values()):
        raise ValueError("there are no settings to try: give at least one value each for Cs and gammas")
    plan = Plan(QueryFolds(train, measure, validation, tol_factor=1.0))
    study = Study(type(ranker).__name__, ranker, plan, Staged([grid], widen=False))
    study.run()
    if not study.known:
        raise ValueError(f"no combination of gamma and C could be fitted; the first error is: {study.problem}")
    table = [t.setting | {"value": t.mean, "seconds": t.seconds} for t in study.trials.values()]
    return KernelSearch(clone(ranker).set_params(**study.best().setting).fit(train), table)
