"""`tune`: try the settings worth trying for rankers over folds, and fit the best one, or a blend, on everything."""

import inspect
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, clone

from hingerank.arrays import Facts, Given, Ranker, RowsLike
from hingerank.data.checks import WeakFitWarning, generator
from hingerank.data.files import canonical
from hingerank.export.formats import format_name
from hingerank.metrics.evaluator import standard_error
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.blend import Blend
from hingerank.rankers.corrections import ClickData
from hingerank.rankers.sources import RowsInParts
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.rankers.winners import check_winners
from hingerank.registry import names_of_rankers, ranker_class, registered_name
from hingerank.renaming import present_names
from hingerank.search.folds import ClickFolds, FoldOutcome, Folds, QueryFolds
from hingerank.search.serving import advice, check_target, run_together, stays_here, why_not
from hingerank.search.settings import Setting, Staged, Values, complexity, follow, listed
from hingerank.watching import describe_time, is_watched, tell_outlook, tell_task

RATINGS, CLICKS, ROWS = "ratings", "clicks", "rows"  # kinds of training data
FEWEST_FOLDS, FEWEST_QUERIES = 2, 30  # evidence needed to stop a setting
WORTH = 1e-3  # fraction of the best value that a better setting should add
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Plan:
    """What the studies of all rankers share."""

    folds: Folds
    simplest: bool = False  # take the simplest setting within one standard error of the best
    target: str | None = None  # the format that must run the best setting
    target_only: bool = False  # do not try what the target cannot run
    blend: bool = False  # the scores of all rankers are added up, so the target must run the sum
    progress: Progress | None = None  # called after every fit


@dataclass
class Study:
    """Settings of one ranker and their results; by default only the ranker's own setting is tried."""

    name: str
    ranker: Ranker
    plan: Plan
    search: Staged = field(default_factory=lambda: Staged([{}]))
    trials: dict[str, Trial] = field(default_factory=dict)
    outcomes: dict[str, list[FoldOutcome]] = field(default_factory=dict)  # of each trial, by fold
    widened: dict[str, Values] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def runs(self, setting: Setting) -> bool:
        """Whether the target can run a setting; always True without a target."""
        target = self.plan.target
        return target is None or not why_not(self.ranker, setting, target, self.plan.blend)

    def run(self) -> None:
        """Try what the search proposes: first what the target can run, then the rest, to know what the target costs."""
        self.began = time.perf_counter()  # studies of other rankers may have run since this one was made
        follow(replace(self.search, allowed=self.runs).propose(0, self.widened), self.attempt)
        if self.plan.target is not None and not self.plan.target_only and not self.plan.blend:
            follow(self.search.propose(0), self.attempt)

    def attempt(self, settings: list[Setting]) -> list[float | None]:
        """Try new settings on every fold, and return what each setting is worth to the search."""
        folds = self.plan.folds
        todo = {key: setting for setting in settings if (key := canonical(setting)) not in self.trials}
        found: dict[str, list[FoldOutcome]] = {key: [] for key in todo}
        for k in range(len(folds)) if todo else ():
            tell_task(f"tuning {self.name}, fold {k + 1} of {len(folds)}")
            hopeless = self._hopeless(found, k) if k >= FEWEST_FOLDS else ()
            for outcome in folds.outcomes(k, self.ranker, [s for key, s in todo.items() if key not in hopeless]):
                if outcome.problem is None and np.isnan(outcome.value):
                    held = f"fold {k + 1} holds out: give fewer folds" if len(folds) > 1 else "the validation data have"
                    outcome = outcome._replace(problem=f"{folds.measure} is not defined for anything that {held}")
                found[canonical(outcome.setting)].append(outcome)
                if self.plan.progress is not None or is_watched():
                    self._tell(found)
        for key, outcomes in found.items():
            self.trials[key] = self._trial(todo[key], outcomes)
        self.outcomes |= found
        if self.plan.blend and self.fitted():
            best = self.best()
            for key, outcomes in self.outcomes.items():  # the scores of others take memory, and a blend needs few
                if self.trials[key] is not best:
                    self.outcomes[key] = [outcome._replace(scores=None) for outcome in outcomes]
        return [self._worth(self.trials[canonical(setting)]) for setting in settings]

    @property
    def problem(self) -> str | None:
        """The first error of a fit."""
        return next((each.problem for tried in self.outcomes.values() for each in tried if each.problem), None)

    def _worth(self, trial: Trial) -> float | None:
        """A setting's value for the search: its mean; if it was stopped, the best mean minus its lag on its folds."""
        if not np.isnan(trial.mean):
            return trial.mean
        if not self.fitted(free=True) or not trial.scores or np.isnan(trial.scores).any():
            return None
        best = self.best(free=True)
        behind = float(np.mean(best.scores[: len(trial.scores)])) - float(np.mean(trial.scores))
        return best.mean - max(behind, 1e-9)

    def fitted(self, free: bool = False) -> list[Trial]:
        """The settings that could be fitted on every fold and that the target can run; free: any program."""
        return [trial for trial in self.trials.values() if not np.isnan(trial.mean) and (free or trial.served)]

    def best(self, simplest: bool = False, free: bool = False) -> Trial:
        """The setting with the largest mean, ties going to the simpler one; or the simplest within a standard error."""
        among = self.fitted(free)
        settings = [trial.setting for trial in among]
        rank = {id(trial): (complexity(trial.setting, settings), -trial.mean) for trial in among}
        top = min(among, key=lambda trial: (-trial.mean, rank[id(trial)]))
        within = [trial for trial in among if trial.mean >= top.mean - top.error]
        return min(within, key=lambda trial: rank[id(trial)]) if simplest else top

    def _trial(self, setting: Setting, outcomes: list[FoldOutcome]) -> Trial:
        """What a setting reached on its folds; its mean is NaN if it was stopped."""
        values, count = np.array([outcome.value for outcome in outcomes]), len(self.plan.folds)
        by_query = outcomes[0].by_query if len(values) == 1 else None  # of one fold: its queries tell the error
        error = standard_error(values if by_query is None else by_query[~np.isnan(by_query)])
        seconds, problems = sum(o.seconds for o in outcomes), [o.problem for o in outcomes if o.problem]
        mean, problem = float(values.mean()), problems[-1] if problems else None
        if len(values) < count and problem is None:
            problem, mean = f"stopped after {len(values)} of {count} folds at {mean:.4f}", np.nan
        reached = dict(setting)
        if all(outcome.reached for outcome in outcomes):  # the last fit does not stop early: it has the average
            for name in outcomes[0].reached:
                grown = np.mean([outcome.reached[name] for outcome in outcomes])
                reached[name] = min(setting[name], round(float(grown)))
        return Trial(self.name, reached, values.tolist(), mean, error, seconds, problem, self.runs(setting))

    def _hopeless(self, found: Mapping[str, list[FoldOutcome]], k: int) -> set[str]:
        """Settings to leave out of the remaining folds: stopped before, or not promising on the first k folds.

        That is if the values of queries, minus those of the best setting so far, are on average below WORTH of it even
        with their error added; and, if a simpler setting may win, also if it is behind by two of its own errors.
        """
        behind = {key for key, outcomes in found.items() if len(outcomes) < k}
        known = {**self.outcomes, **found}
        each = {key: [o.by_query for o in outcomes if o.by_query is not None] for key, outcomes in known.items()}
        here = [key for key in found if len(each[key]) == k]
        whole = [key for key in self.outcomes if len(each[key]) == len(self.plan.folds)] or here
        if not whole:
            return behind
        best = max(whole, key=lambda key: np.mean([np.nanmean(v) for v in each[key]]))
        values = {key: np.concatenate(each[key][:k]) for key in {best, *here}}
        for key in here:
            if key == best:
                continue
            apart = (values[key] - values[best])[~np.isnan(values[key] - values[best])]
            if len(apart) < FEWEST_QUERIES:
                continue
            gain, error = apart.mean(), apart.std(ddof=1) / np.sqrt(len(apart))
            own = np.nanstd(values[key], ddof=1) / np.sqrt(len(apart)) if self.plan.simplest else 0.0
            enough = WORTH * abs(np.nanmean(values[best]))
            if gain + error < enough and gain <= -2 * own:
                behind.add(key)
        return behind

    def held_out_scores(self, trial: Trial) -> list[np.ndarray]:
        """The scores of every fold's held-out rows; only the best setting's are stored, and others are fitted again."""
        folds, outcomes = self.plan.folds, next(self.outcomes[key] for key, t in self.trials.items() if t is trial)
        if outcomes[0].scores is None:
            outcomes = [next(iter(folds.outcomes(k, self.ranker, [trial.setting]))) for k in range(len(folds))]
        return [outcome.scores for outcome in outcomes if outcome.scores is not None]

    def _tell(self, found: dict[str, list[FoldOutcome]]) -> None:
        """Say how far the search is."""
        means = [t.mean for t in self.trials.values()] + [np.mean([o.value for o in v]) for v in found.values() if v]
        known = [mean for mean in means if not np.isnan(mean)]
        past, done = len(self.trials) * len(self.plan.folds), sum(map(len, found.values()))
        best = f"{self.plan.folds.measure} {max(known):.4f} so far" if known else "nothing fitted so far"
        total = past + len(found) * len(self.plan.folds)
        left = (time.perf_counter() - self.began) / (past + done) * (total - past - done)
        tell_outlook(f"{past + done} of {total} fits, {best}, {describe_time(left)} left")
        if self.plan.progress is not None:
            self.plan.progress(past + done, total, f"{self.name}, {best}" if known else self.name)


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

    Queries are never split. If the best value of a number is at the edge of its grid, the grid is extended that way.
    Ties go to the simpler setting (smaller C, radius, rank, fewer and smaller trees). To save time:

    - Settings that differ only in the ranker's path parameter are fitted as one path, and scaled and mapped rows are
      shared, unless a class of your own overrides `fit` or `predict`.
    - Fits to folds have ten times the tolerance of the last fit.
    - A setting is not tried on further folds if two or more show that it is behind: its values on the same queries,
      minus those of the best setting so far, are on average below a thousandth of the best value even with their
      standard error added (with ``one_standard_error`` only if it is far behind).
    - Trees stop growing when the measure of the held-out queries no longer improves. The last fit has as many trees as
      the folds on average.

    Parameters
    ----------
    ranker_or_name : a ranker, its class, its name ("rank-svm"), or several of them, of which the best is kept
        Its parameters keep their values, unless they are tried.
    data : RankingData, or data in parts (`hingerank.distributed.read`), of which every part is split into folds
        For personal rankers ratings with features of their items, which are held out by `hold_out`. Clicks joined with
        features (``log.join(data)``): rankers learn by ``fit_clicks``, and held-out queries are judged by their clicks.
    measure : what to maximise; default "ndcg@10", for clicks "dcg@10", for `EASE` and `ListRanker` "list_ndcg@10"
        For ratings, "ndcg@10" and others measure the order of the items that a user rated. "list_ndcg@10",
        "list_recall@10" and others measure lists of all items except those trained on (see `hr.evaluate_top`). These
        should contain the items rated at least as high as half of all ratings.
        For clicks it is the value of a list, with the same correction as the fit: "dcg@10", "p@5" or "average-rank". A
        smaller average rank is better, so it is listed with a minus.
    validation : data to choose on instead of folds; the last fit is on both
    folds : number of folds of the queries, each held out once
    params : parameter -> a value to fix, or a list of values
        With a list, all combinations of the given values are tried, and nothing else.
    random_state : seed of the folds, and of rankers given by name
    one_standard_error : take the simplest setting whose mean is within one standard error of the best
    widen : whether grids may be extended
    hold_out : for ratings: "ratings", some of every user's, or "items", some items that training never sees
    sample_weight : for ratings: the weight of each in fits
        The measure gives all ratings the same weight, except those of weight 0, which it leaves out.
    serve : a format of `export` ("solr", "opensearch", "vespa", "onnx", "sql", "c", …) that the ranker is chosen for
        Settings that the format cannot express are never chosen, so `export` can write the ranker. They are tried
        all the same, to report what the target costs in the measure.
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
    generator(random_state)  # a wrong one is named here as users call it
    clicks = {"propensities": propensities, "correction": correction, "clip": clip, "around": around}
    clicks = {name: value for name, value in clicks.items() if value is not None}
    several = ranker_or_name if isinstance(ranker_or_name, list | tuple) else [ranker_or_name]
    rankers = [_ranker(item, random_state) for item in several]
    names = names_of_rankers(rankers)
    if params is not None and not isinstance(params, Mapping):
        raise ValueError(f"params is {params!r}, expected a mapping, such as {{'C': [0.01, 0.1, 1]}}")
    kind = _kind(names, rankers, data, clicks, sample_weight)
    if hold_out != "ratings" and kind != RATINGS:
        raise ValueError(f"hold_out={hold_out!r} is only for ratings, as folds of rows hold out queries: leave it out")
    if serve is not None and (kind == RATINGS or serve == "vectors"):
        raise ValueError("serve is for rankers of rows: personal rankers are exported as vectors, whatever the setting")
    target = None if serve is None else format_name(serve)
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
        given = present_names(ranker, tried, warn=True) if tried else {}
        studies.append(Study(name, ranker, plan, replace(parts.search(ranker, given), widen=widen)))
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
    worked = [study for study in studies if study.fitted()]
    if not worked:
        names = ", ".join(study.name for study in studies)
        problem = next((study.problem for study in studies if study.problem), None)
        raise ValueError(f"no setting of {names} could be fitted; the first error is: {problem}")
    trials = [trial for study in studies for trial in study.trials.values()]
    if plan.blend:
        if len(worked) < 2:
            failed = next(study for study in studies if not study.fitted())
            raise ValueError(
                f"only {worked[0].name} could be fitted, and a blend needs two rankers or more; the first error of "
                f"{failed.name} is: {failed.problem}"
            )
        return _blended(worked, plan, trials, seed)
    winner, chosen = _winner(worked)
    more: Facts = {}
    if plan.target is None and chosen.setting.get("context") is not None:  # which no export carries
        more = {"advice": stays_here([(winner.ranker, winner.fitted())], [chosen])}
    if plan.target is not None and not plan.target_only:
        other, free = _winner([study for study in studies if study.fitted(free=True)], free=True)
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
    clicked = isinstance(data, ClickData)
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
        if not isinstance(item, BaseEstimator):
            raise ValueError(f"got {item!r} as a ranker: pass its name, such as 'rank-svm', its class, or a ranker")
        return clone(item)
    if not issubclass(item, BaseRanker | RatingsRanker):
        raise ValueError(f"{item.__name__} does not learn from graded rows of queries, as rankers for tune must")
    seeded: Facts = {"random_state": seed} if "random_state" in inspect.signature(item).parameters else {}
    return item(**seeded)


def _check_blend(names: Sequence[str], rankers: Sequence[Ranker], kind: str, data: RowsLike) -> None:
    """Raise a ValueError if rankers cannot be blended."""
    if len(names) < 2:
        raise ValueError(
            f"a blend needs at least two rankers, and {names[0]} is one: name more, or leave out blend=True"
        )
    if kind == RATINGS:
        raise ValueError(
            f"{names[0]} learns from ratings, and only rankers of rows can be blended: leave out blend=True"
        )
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
    tried = [(study.ranker, study.fitted()) for study in studies]
    if target is not None:
        chosen = run_together(target, tried, chosen)
    members = [clone(study.ranker).set_params(**trial.setting) for study, trial in zip(studies, chosen)]
    found = parts.out_of_fold([study.held_out_scores(trial) for study, trial in zip(studies, chosen)])
    tell_task("tuning a blend, the last fits")
    blend = Blend(members, "auto", folds=max(2, len(parts)), measure=parts.measure, random_state=seed)
    blending = blend.fit_members(parts.everything, found, around=parts.around)
    by_query, folds = blending.per_query, [found.part == k for k in range(len(parts))] if len(parts) > 1 else [...]
    values = [found.average(by_query, fold) for fold in folds]
    error = standard_error(np.array(values) if len(parts) > 1 else by_query[~np.isnan(by_query)])
    own = Trial("blend", {"weights": blending.kind}, values, float(np.mean(values)), error, blend.certificate_.seconds)
    settings = {study.name: trial.setting for study, trial in zip(studies, chosen)}
    in_context = any(trial.setting.get("context") is not None for trial in chosen)
    advice = stays_here(tried, chosen) if target is None and in_context else ""
    blend.tuning_ = Tuning(
        parts.measure, len(parts), "blend", own.setting, [*trials, own], 0.0, {}, advice=advice, members=settings
    )
    return blend
