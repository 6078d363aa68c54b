"""`tune`: the settings worth trying for a ranker, tried over folds; the best one, fitted on everything."""

import inspect
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

from sklearn.base import clone

from hingerank.data.checks import WeakFitWarning
from hingerank.metrics import parse_measure
from hingerank.metrics.places import parse_place_measure
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.corrections import ClickedRows
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.rankers.winners import check_winners
from hingerank.registry import names_of_rankers, ranker_class, registered_name
from hingerank.renaming import present_names
from hingerank.search.blended import blended, check_blend
from hingerank.search.click_folds import ClickFolds
from hingerank.search.proposals import Staged
from hingerank.search.query_folds import QueryFolds
from hingerank.search.serving import advice, check_target, stays_here, target_name
from hingerank.search.settings import listed, resolved
from hingerank.search.study import Folds, Progress, Study
from hingerank.watching import tell_task


@runtime_checkable
class RatingsRanker(Protocol):
    """A ranker that learns from ratings of many users, and makes the folds that it is tried on."""

    def _rating_folds(self, data: Any, measure: str, **options: Any) -> Folds: ...

    def _usual_measure(self) -> str: ...


def tune(
    ranker_or_name: Any,
    data: Any,
    *,
    measure: str | None = None,
    validation: Any = None,
    folds: int = 5,
    params: Mapping[str, Any] | None = None,
    random_state: int = 0,
    one_standard_error: bool = False,
    widen: bool = True,
    hold_out: str = "ratings",
    sample_weight: Any = None,
    serve: str | None = None,
    serve_only: bool = False,
    blend: bool = False,
    progress: Progress | None = None,
    propensities: Any = None,
    correction: str | None = None,
    clip: float | None = None,
    around: Any = None,
) -> Any:
    """argmax over settings of the mean over folds of measure(held-out queries), fitted on everything.

    Settings that differ in the ranker's path parameter alone are fitted as one path, scaled and mapped rows are
    shared (unless a class of your own overrides `fit` or `predict`), queries are never cut, and tries may stop ten
    times as far from the optimum as the last fit. From two folds on, a setting is left out of the others if its values
    of the same queries, less those of the best setting so far, are on average below a thousandth of it even with their
    standard error added (with ``one_standard_error`` only if it is far behind). Trees stop growing where the held-out
    queries are no longer ranked better; the last fit has as many as the folds had on average. Where the best value of a
    number is at the edge of its grid the grid grows that way. Of equal settings the simpler one is taken (smaller C,
    radius, rank, fewer and smaller trees).

    Parameters
    ----------
    ranker_or_name : a ranker, its class, its name ("rank-svm"), or several of them, of which the best is kept
        What its parameters are set to stays, unless it is tried.
    data : RankingData, or data in parts (`hingerank.distributed.read`), of which every part is cut into folds
        For personal rankers ratings with features of their items, which are held out by `hold_out`. Clicks joined with
        features (``log.join(data)``): rankers learn by ``fit_clicks``, and held-out queries are judged by their clicks.
    measure : what to maximise; "ndcg@10" if not given, of clicks "dcg@10", of `EASE` and `ListRanker` "list_ndcg@10"
        Of ratings "ndcg@10" and the like are about the order of the items that a user rated, and "list_ndcg@10",
        "list_recall@10" and the like about lists over all items but those learnt from (see `hr.evaluate_top`), which
        should find the items rated at least as high as half of all ratings.
        Of clicks it is what a list is worth, corrected as the fit is: "dcg@10", "p@5" or "average-rank", of which less
        is better and which is listed with a minus.
    validation : data to choose on instead of folds; the last fit is on both
    folds : parts of the queries, each held out once
    params : parameter -> a value to fix, or a list of values to try instead of what is usual for this ranker
    random_state : seed of the folds, and of rankers given by name
    one_standard_error : take the simplest setting whose mean is within one standard error of the best
    widen : whether grids may grow
    hold_out : of ratings: "ratings", a part of every user's, or "items", a part of them that training never sees
    sample_weight : of ratings: how much each counts in fits; judging counts all alike, but those of weight 0
    serve : a format of `export` ("solr", "opensearch", "vespa", "onnx", "sql", "c", …) that the ranker is chosen for
        Scales, maps and forms that it cannot run are never chosen, so that `export` can write the ranker. They are
        tried all the same, to say what the target costs in the measure.
    serve_only : do not try what the target cannot run: fewer fits, but what it costs stays unknown
    blend : answer a `Blend` of all rankers, each with its best setting, instead of the best one
        Scales and weights come from the scores that the folds have made anyway: no member is fitted to a fold again.
    progress : called with (settings done, settings known so far, the best so far in words) after every fit
    propensities, correction, clip, around : of clicks: as ``fit_clicks`` takes them; correction is "ips" if not given

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
    clicked = isinstance(data, ClickedRows)
    if not clicked and any(value is not None for value in clicks.values()):
        first = next(name for name, value in clicks.items() if value is not None)
        raise ValueError(f"{first} is for clicks joined with features (log.join(data)), which the data are not")
    several = ranker_or_name if isinstance(ranker_or_name, list | tuple) else [ranker_or_name]
    rankers = [_ranker(item, random_state) for item in several]
    if not rankers:
        raise ValueError("there is no ranker to tune: name at least one")
    names = names_of_rankers(rankers)
    rated = [isinstance(ranker, RatingsRanker) for ranker in rankers]
    measure = measure or _usual_measure(rankers, clicked)
    if not all(rated):  # folds of ratings know measures of lists besides
        (parse_place_measure if clicked else parse_measure)(measure)
    if any(rated) and not all(rated):
        pair = names[rated.index(True)], names[rated.index(False)]
        raise ValueError(f"{pair[0]} learns from ratings and {pair[1]} from rows: tune one kind at a time")
    if sample_weight is not None and not all(rated):
        raise ValueError("sample_weight is for ratings; queries of graded rows count alike")
    if any(rated) and clicked:
        raise ValueError(f"{names[0]} learns from ratings of users, and the data are clicks on rows of queries")
    target = None if serve is None else target_name(serve, any(rated))
    if serve_only and target is None:
        raise ValueError("serve_only needs a target: name it by serve, as in serve='solr'")
    make: Any = QueryFolds
    how: dict[str, Any] = {"validation": validation, "folds": folds, "seed": random_state}
    if all(rated):
        make, how = rankers[0]._rating_folds, how | {"hold_out": hold_out, "sample_weight": sample_weight}
    if clicked:
        make, how = ClickFolds, how | clicks | {"correction": correction or "ips"}
        for ranker in rankers:
            check_winners(ranker)
    if blend:
        check_blend(names, rated, data)
        how["keep_scores"] = True
    parts: Folds = make(data, measure, **how)
    tried = {name: listed(name, values) for name, values in (params or {}).items()}
    studies = [
        Study(name, ranker, parts, measure, progress, target, blend, simplest=one_standard_error)
        for name, ranker in zip(names, rankers)
    ]
    searches = []
    for study in studies:
        given = present_names(study.ranker, tried, warn=True)
        stages, start = resolved(study.ranker, given, parts.scales, partial(parts.natural, study.ranker))
        if isinstance(parts, ClickFolds):
            stages = parts.rescaled(study.ranker, stages, given)
        searches.append(Staged(parts.possible(stages), start, widen, parts.limits()))
    if target is not None:
        begun = {s.name: (s.ranker, search.first) for s, search in zip(studies, searches)}
        check_target(target, begun, serve_only or blend, blend)
    for study, search in zip(studies, searches):
        study.run(replace(search, allowed=None if target is None else study.runs), random_state)
        if target is not None and not serve_only and not blend:
            study.run(search, random_state, {})
    worked = [study for study in studies if study.served]
    if not worked:
        raise ValueError(f"no setting of {', '.join(names)} could be fitted; the first error is: {studies[0].problem}")
    if blend:
        found = blended(worked, parts, measure, random_state, one_standard_error)
        found.tuning_ = replace(found.tuning_, seconds=time.perf_counter() - started, serve=target)
        return found
    winner, chosen = _winner(worked, one_standard_error)
    more: dict[str, Any] = {} if target is None else {"serve": target}
    if target is None and chosen.setting.get("context") is not None:  # which no export carries
        more = {"advice": stays_here(winner.ranker, chosen, winner.known)}
    if target is not None and not serve_only:
        other, free = _winner([study for study in studies if study.known], one_standard_error, free=True)
        more |= {"free": {"ranker": free.ranker, "setting": free.setting}}
        more |= {"advice": advice(other.ranker, free, chosen)}
    tell_task(f"tuning {winner.name}, the last fit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakFitWarning)  # the validation has chosen
        found = parts.fit(clone(winner.ranker).set_params(**chosen.setting))
    trials = [trial for study in studies for trial in study.trials.values()]
    seconds = time.perf_counter() - started
    found.tuning_ = Tuning(measure, len(parts), winner.name, chosen.setting, trials, seconds, winner.widened, **more)
    return found


def _usual_measure(rankers: Sequence[Any], clicked: bool) -> str:
    """What all rankers are usually judged by, else "ndcg@10"."""
    usual = {ranker._usual_measure() if isinstance(ranker, RatingsRanker) else "ndcg@10" for ranker in rankers}
    return "dcg@10" if clicked else usual.pop() if len(usual) == 1 else "ndcg@10"


def _winner(studies: Sequence["Study"], simplest: bool, free: bool = False) -> tuple["Study", Trial]:
    """The study with the best setting, the first of equals, and that setting; free: whatever a target can run."""
    winner = max(studies, key=lambda study: study.best(simplest, free).mean)
    return winner, winner.best(simplest, free)


def _ranker(item: Any, seed: int) -> Any:
    """An unfitted ranker for a name, a class or a ranker."""
    if isinstance(item, str):
        item = ranker_class(registered_name(item))
    if not inspect.isclass(item):
        return clone(item)
    if not issubclass(item, BaseRanker | RatingsRanker):
        raise ValueError(f"{item.__name__} does not learn from graded rows of queries: tune tunes rankers that do")
    make: Any = item
    return make(random_state=seed) if "random_state" in inspect.signature(make).parameters else make()
