"""`tune`: the settings worth trying for a ranker, tried over folds; the best one, fitted on everything."""

import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import clone

from hingerank.data.checks import WeakFitWarning
from hingerank.data.files import canonical
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
from hingerank.search.fitting import path_of
from hingerank.search.proposals import Search, Staged, complexity
from hingerank.search.query_folds import FoldOutcome, QueryFolds
from hingerank.search.serving import advice, check_target, stays_here, target_name, why_not
from hingerank.search.settings import Setting, Stage, listed, resolved
from hingerank.watching import describe_time, tell_outlook, tell_task

FEWEST_FOLDS, FEWEST_QUERIES = 2, 30  # that tell enough about a setting to stop it
WORTH = 1e-3  # the part of the best value that a better setting should add
Progress = Callable[[int, int, str], None]


class Folds(Protocol):
    """What settings are tried on: folds of queries, or of ratings."""

    def __len__(self) -> int: ...

    def outcomes(self, k: int, ranker: Any, settings: Sequence[Setting]) -> Iterator[FoldOutcome]: ...

    def fit(self, ranker: Any) -> Any: ...

    def scales(self) -> list[Any]: ...

    def possible(self, stages: Sequence[Stage]) -> list[Stage]: ...

    def natural(self, ranker: Any) -> float: ...

    def limits(self) -> dict[str, tuple[float, float]]: ...


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


@dataclass
class Study:
    """Settings of one ranker and what they gave."""

    name: str
    ranker: Any
    folds: Folds
    measure: str
    progress: Progress | None = None
    target: str | None = None
    blended: bool = False
    trials: dict[str, Trial] = field(default_factory=dict)
    widened: dict[str, list[Any]] = field(default_factory=dict)
    problem: str | None = None
    simplest: bool = False
    scores: dict[str, list[np.ndarray]] = field(default_factory=dict)
    by_query: dict[str, list[np.ndarray]] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def runs(self, setting: Setting) -> bool:
        """Whether the target can run a setting; without a target all are as good."""
        return self.target is None or not why_not(self.ranker, setting, self.target, self.blended)

    def run(self, search: Search, seed: int, widened: dict[str, list[Any]] | None = None) -> None:
        """Try what the search proposes, until it has no more.

        Parameters
        ----------
        search : proposes settings
        seed : of the proposals
        widened : takes the values beyond the edges of grids; by default the study's own
        """
        grown = self.widened if widened is None else widened
        proposals = search.propose(seed, grown) if isinstance(search, Staged) else search.propose(seed)
        batch = next(proposals, None)
        while batch is not None:
            self._attempt(batch)
            values = [self._worth(self.trials[canonical(setting)]) for setting in batch]
            try:
                batch = proposals.send(values)
            except StopIteration:
                batch = None

    def _worth(self, trial: Trial) -> float | None:
        """A setting's value for the search: its mean; as far behind the best as on its folds, if it was stopped."""
        if not np.isnan(trial.mean):
            return trial.mean
        if not self.known or not trial.scores or np.isnan(trial.scores).any():
            return None
        best = self.best()
        behind = float(np.mean(best.scores[: len(trial.scores)])) - float(np.mean(trial.scores))
        return best.mean - max(behind, 1e-9)

    @property
    def known(self) -> list[Trial]:
        """The settings that could be fitted on every fold."""
        return [trial for trial in self.trials.values() if not np.isnan(trial.mean)]

    @property
    def served(self) -> list[Trial]:
        """Those of them that the target can run."""
        return [trial for trial in self.known if trial.served]

    def best(self, simplest: bool = False, free: bool = False) -> Trial:
        """The setting with the largest mean, the simpler of equals.

        Parameters
        ----------
        simplest : take the simplest of all within a standard error
        free : also of those that the target cannot run
        """
        among = self.known if free else self.served
        settings = [trial.setting for trial in among]
        top = max(among, key=lambda t: (t.mean, -complexity(t.setting, settings)))
        if not simplest:
            return top
        within = (t for t in among if t.mean >= top.mean - top.error)
        return min(within, key=lambda t: (complexity(t.setting, settings), -t.mean))

    def _attempt(self, settings: list[Setting]) -> None:
        """Try settings that have not been tried, on every fold."""
        todo = {canonical(s): s for s in settings if canonical(s) not in self.trials}
        if not todo:
            return
        found: dict[str, list[FoldOutcome]] = {key: [] for key in todo}
        for k in range(len(self.folds)):
            tell_task(f"tuning {self.name}, fold {k + 1} of {len(self.folds)}")
            hopeless = self._hopeless(found, k) if k >= FEWEST_FOLDS else ()
            for outcome in self.folds.outcomes(k, self.ranker, [s for key, s in todo.items() if key not in hopeless]):
                found[canonical(outcome.setting)].append(outcome)
                self.problem = self.problem or outcome.problem
                self._tell(found)
        for key, outcomes in found.items():
            values = np.array([outcome.value for outcome in outcomes])
            several = len(values) > 1
            error = float(values.std(ddof=1) / np.sqrt(len(values))) if several else outcomes[0].error
            seconds, problems = sum(o.seconds for o in outcomes), [o.problem for o in outcomes if o.problem]
            mean, count = float(values.mean()), len(self.folds)
            if len(values) < count and not problems:
                problems, mean = [f"stopped after {len(values)} of {count} folds at {mean:.4f}"], np.nan
            self.trials[key] = Trial(
                self.name, self._reached(todo[key], outcomes), values.tolist(), mean, error, seconds,
                problems[-1] if problems else None, self.runs(todo[key]),
            )  # fmt: skip
        self._keep_scores(found)

    def _hopeless(self, found: Mapping[str, list[FoldOutcome]], k: int) -> set[str]:
        """Settings to leave out of the other folds: stopped before, or on the first k folds not worth going on with.

        That is where the values of queries, less those of the best setting so far, are on average below WORTH of it
        even with their error added; and if a simpler setting may win, where it is behind by two errors of its own too.
        """
        here = {key: _all_queries(outcomes) for key, outcomes in found.items() if len(outcomes) == k}
        behind, whole = {key for key, outcomes in found.items() if len(outcomes) < k}, self.by_query or here
        best = max(
            whole, key=lambda key: np.mean([np.nanmean(v) for v in whole[key] or [np.array([-np.inf])]]), default=""
        )
        values = {key: np.concatenate(each[:k]) for key, each in {**self.by_query, **here}.items() if each}
        if best not in values:
            return behind
        for key in (key for key in here if key in values and key != best):
            apart = (values[key] - values[best])[~np.isnan(values[key] - values[best])]
            if len(apart) < FEWEST_QUERIES:
                continue
            gain, error = apart.mean(), apart.std(ddof=1) / np.sqrt(len(apart))
            own = np.nanstd(values[key], ddof=1) / np.sqrt(len(apart)) if self.simplest else 0.0
            enough = WORTH * abs(np.nanmean(values[best]))
            if gain + error < enough and gain <= -2 * own:
                behind.add(key)
        return behind

    def _keep_scores(self, found: Mapping[str, list[FoldOutcome]]) -> None:
        """Keep values of queries, and held-out scores of the best setting so far, where the folds give them."""
        for key, outcomes in found.items():
            if len(outcomes) == len(self.folds) and (values := _all_queries(outcomes)):
                self.by_query[key] = values
            if len(outcomes) == len(self.folds) and all(outcome.scores is not None for outcome in outcomes):
                self.scores[canonical(self.trials[key].setting)] = [
                    outcome.scores for outcome in outcomes if outcome.scores is not None
                ]
        best = canonical(self.best().setting) if self.scores and self.known else ""
        self.scores = {key: scores for key, scores in self.scores.items() if key == best}

    def held_out_scores(self, setting: Setting) -> list[np.ndarray]:
        """The scores of every fold's held-out rows; fits that are not known any more are made again."""
        if canonical(setting) not in self.scores:
            outcomes = [next(iter(self.folds.outcomes(k, self.ranker, [setting]))) for k in range(len(self.folds))]
            return [outcome.scores for outcome in outcomes if outcome.scores is not None]
        return self.scores[canonical(setting)]

    def _reached(self, setting: Setting, outcomes: list[FoldOutcome]) -> Setting:
        """The setting with as many trees as folds that stopped early had on average, for the last fit does not stop."""
        path, grown = path_of(self.ranker), [outcome.reached for outcome in outcomes if outcome.reached is not None]
        if path not in setting or len(grown) < len(outcomes):
            return setting
        return {**setting, path: min(setting[path], round(float(np.mean(grown))))}

    def _tell(self, found: dict[str, list[FoldOutcome]]) -> None:
        means = [t.mean for t in self.trials.values()] + [np.mean([o.value for o in v]) for v in found.values() if v]
        known = [mean for mean in means if not np.isnan(mean)]
        past, done = len(self.trials) * len(self.folds), sum(map(len, found.values()))
        best = f"{self.measure} {max(known):.4f} so far" if known else "nothing fitted so far"
        total = past + len(found) * len(self.folds)
        left = (time.perf_counter() - self.began) / (past + done) * (total - past - done)
        tell_outlook(f"{past + done} of {total} fits, {best}, {describe_time(left)} left")
        if self.progress is not None:
            self.progress(past + done, total, f"{self.name}, {best}" if known else self.name)


def _all_queries(outcomes: Sequence[FoldOutcome]) -> list[np.ndarray]:
    """The value of every query, fold by fold; empty where a fold does not say, or has none."""
    each = [outcome.by_query for outcome in outcomes]
    known = [values for values in each if values is not None and not np.isnan(values).all()]
    return known if len(known) == len(each) else []
