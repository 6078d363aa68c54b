"""The settings of one ranker, tried over folds until the search ends; poor ones are stopped early."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from hingerank.arrays import Ranker
from hingerank.data.files import canonical
from hingerank.rankers.tuned import Trial
from hingerank.search.folds import FoldOutcome, path_of
from hingerank.search.proposals import Staged, best_setting, complexity, follow
from hingerank.search.serving import why_not
from hingerank.search.settings import Setting, Stage, Values
from hingerank.watching import describe_time, is_watched, tell_outlook, tell_task

FEWEST_FOLDS, FEWEST_QUERIES = 2, 30  # evidence needed to stop a setting
WORTH = 1e-3  # fraction of the best value that a better setting should add
Progress = Callable[[int, int, str], None]


class Folds(Protocol):
    """What settings are tried on, and the measure that compares them: folds of queries, of clicks or of ratings."""

    measure: str

    def __len__(self) -> int: ...

    def outcomes(self, k: int, ranker: Ranker, settings: Sequence[Setting]) -> Iterator[FoldOutcome]: ...

    def fit(self, ranker: Ranker) -> Ranker: ...

    def search(self, ranker: Ranker, given: Stage, widen: bool = True) -> Staged: ...


@dataclass(frozen=True)
class Plan:
    """What the studies of all rankers share.

    Attributes
    ----------
    folds : what settings are tried on
    simplest : take the simplest setting within one standard error of the best
    target : the format that must run the best setting, or None
    target_only : do not try what the target cannot run
    blend : the scores of all rankers are added up, so the target must run the sum
    progress : called after every fit
    """

    folds: Folds
    simplest: bool = False
    target: str | None = None
    target_only: bool = False
    blend: bool = False
    progress: Progress | None = None


@dataclass
class Study:
    """Settings of one ranker and their results; by default only the ranker's own setting is tried."""

    name: str
    ranker: Ranker
    plan: Plan
    search: Staged = field(default_factory=lambda: Staged([{}]))
    trials: dict[str, Trial] = field(default_factory=dict)
    widened: dict[str, Values] = field(default_factory=dict)
    problem: str | None = None
    scores: dict[str, list[np.ndarray]] = field(default_factory=dict)
    by_query: dict[str, list[np.ndarray]] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def runs(self, setting: Setting) -> bool:
        """Whether the target can run a setting; always True without a target."""
        target = self.plan.target
        return target is None or not why_not(self.ranker, setting, target, self.plan.blend)

    def run(self) -> None:
        """Try what the search proposes: first what the target can run, then the rest, to know what the target costs."""
        self.began = time.perf_counter()  # studies of other rankers may have run since this one was made
        if self.plan.target is None:
            follow(self.search.propose(0, self.widened), self.attempt)
            return
        follow(replace(self.search, allowed=self.runs).propose(0, self.widened), self.attempt)
        if not self.plan.target_only and not self.plan.blend:
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
                self.problem = self.problem or outcome.problem
                self._tell(found)
        for key, outcomes in found.items():
            self.trials[key] = trial = self._trial(todo[key], outcomes)
            if len(outcomes) == len(folds):
                values = [outcome.by_query for outcome in outcomes if outcome.by_query is not None]
                if len(values) == len(folds):
                    self.by_query[key] = values
                scores = [outcome.scores for outcome in outcomes if outcome.scores is not None]
                if len(scores) == len(folds):
                    self.scores[canonical(trial.setting)] = scores
        best = canonical(self.best().setting) if self.scores and self.served else ""
        self.scores = {key: scores for key, scores in self.scores.items() if key == best}  # a blend needs no others
        return [self._worth(self.trials[canonical(setting)]) for setting in settings]

    def _worth(self, trial: Trial) -> float | None:
        """A setting's value for the search: its mean; if it was stopped, the best mean minus its lag on its folds."""
        if not np.isnan(trial.mean):
            return trial.mean
        if not self.known or not trial.scores or np.isnan(trial.scores).any():
            return None
        best = self.best(free=True)
        behind = float(np.mean(best.scores[: len(trial.scores)])) - float(np.mean(trial.scores))
        return best.mean - max(behind, 1e-9)

    @property
    def known(self) -> list[Trial]:
        """The settings that could be fitted on every fold."""
        return [trial for trial in self.trials.values() if not np.isnan(trial.mean)]

    @property
    def served(self) -> list[Trial]:
        """Those of `known` that the target can run."""
        return [trial for trial in self.known if trial.served]

    def best(self, simplest: bool = False, free: bool = False) -> Trial:
        """The setting with the largest mean, ties going to the simpler one.

        Parameters
        ----------
        simplest : take the simplest of all within a standard error
        free : include settings that the target cannot run
        """
        among = self.known if free else self.served
        chosen = best_setting([(trial.setting, trial.mean) for trial in among])
        top = next(trial for trial in among if trial.setting is chosen)
        if not simplest:
            return top
        settings = [trial.setting for trial in among]
        within = (t for t in among if t.mean >= top.mean - top.error)
        return min(within, key=lambda t: (complexity(t.setting, settings), -t.mean))

    def _trial(self, setting: Setting, outcomes: list[FoldOutcome]) -> Trial:
        """What a setting reached on its folds; its mean is NaN if it was stopped."""
        values, count = np.array([outcome.value for outcome in outcomes]), len(self.plan.folds)
        error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else outcomes[0].error
        seconds, problems = sum(o.seconds for o in outcomes), [o.problem for o in outcomes if o.problem]
        mean, problem = float(values.mean()), problems[-1] if problems else None
        if len(values) < count and problem is None:
            problem, mean = f"stopped after {len(values)} of {count} folds at {mean:.4f}", np.nan
        path, grown = path_of(self.ranker), [o.reached for o in outcomes if o.reached is not None]
        reached = setting
        if path in setting and len(grown) == len(outcomes):  # the last fit does not stop early: it has the average
            reached = {**setting, path: min(setting[path], round(float(np.mean(grown))))}
        return Trial(self.name, reached, values.tolist(), mean, error, seconds, problem, self.runs(setting))

    def _hopeless(self, found: Mapping[str, list[FoldOutcome]], k: int) -> set[str]:
        """Settings to leave out of the remaining folds: stopped before, or not promising on the first k folds.

        That is if the values of queries, minus those of the best setting so far, are on average below WORTH of it even
        with their error added; and, if a simpler setting may win, also if it is behind by two of its own errors.
        """
        behind = {key for key, outcomes in found.items() if len(outcomes) < k}
        each = {key: [o.by_query for o in outcomes if o.by_query is not None] for key, outcomes in found.items()}
        here = {key: values for key, values in each.items() if len(values) == k}
        whole = self.by_query or here
        if not whole:
            return behind
        best = max(whole, key=lambda key: np.mean([np.nanmean(v) for v in whole[key]]))
        values = {key: np.concatenate(by_fold[:k]) for key, by_fold in {**self.by_query, **here}.items()}
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

    def held_out_scores(self, setting: Setting) -> list[np.ndarray]:
        """The scores of every fold's held-out rows; fits that are no longer stored are repeated."""
        if canonical(setting) not in self.scores:
            folds = self.plan.folds
            outcomes = [next(iter(folds.outcomes(k, self.ranker, [setting]))) for k in range(len(folds))]
            return [outcome.scores for outcome in outcomes if outcome.scores is not None]
        return self.scores[canonical(setting)]

    def _tell(self, found: dict[str, list[FoldOutcome]]) -> None:
        """Say how far the search is, if anyone listens."""
        if self.plan.progress is None and not is_watched():
            return
        means = [t.mean for t in self.trials.values()] + [np.mean([o.value for o in v]) for v in found.values() if v]
        known = [mean for mean in means if not np.isnan(mean)]
        past, done = len(self.trials) * len(self.plan.folds), sum(map(len, found.values()))
        best = f"{self.plan.folds.measure} {max(known):.4f} so far" if known else "nothing fitted so far"
        total = past + len(found) * len(self.plan.folds)
        left = (time.perf_counter() - self.began) / (past + done) * (total - past - done)
        tell_outlook(f"{past + done} of {total} fits, {best}, {describe_time(left)} left")
        if self.plan.progress is not None:
            self.plan.progress(past + done, total, f"{self.name}, {best}" if known else self.name)
