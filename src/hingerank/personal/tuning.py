"""`tune` for ratings: the settings of personal rankers, tried on ratings or items held out of training."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import clone

from hingerank.data.blocks import number_ids
from hingerank.data.files import DataError, canonical
from hingerank.metrics import evaluate
from hingerank.personal.layout import group
from hingerank.personal.preferences import counting
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.search.settings import MOST_WIDENINGS, farther, listed

Setting = dict[str, Any]
Columns = tuple[Any, ...]
STEPS = (0.1, 0.3, 1.0, 3.0, 10.0)  # C, in units of the ranker's natural one
NEAR = (1 / 3, 1.0, 3.0)
RANKS, SHARING = [3, 10, 30], [0.1, 1.0, 10.0]
WAYS = ("ratings", "items")


@runtime_checkable
class RatedItems(Protocol):
    """Ratings with features of their items: `hr.read_ratings(...).with_features(...)`, `hr.make_personal(...)`."""

    users: Any
    items: Any
    ratings: Any
    item_features: Any


@dataclass(frozen=True)
class Parts:
    """Features, and users, items, ratings (and their weights) to learn from and to judge by, of every fold."""

    X: Any
    folds: list[tuple[Columns, Columns]]


def tune_ratings(
    names: Sequence[str], rankers: Sequence[Any], data: Any, *, measure: str, validation: Any, folds: int,
    hold_out: str, params: Mapping[str, Any] | None, random_state: int, one_standard_error: bool, widen: bool,
    sample_weight: Any, progress: Callable[[int, int, str], None] | None,
) -> Any:  # fmt: skip
    """What `hingerank.tune` does for rankers of ratings; arguments as there, `rankers` with their `names`."""
    started = time.perf_counter()
    X, told = _told(data)
    if sample_weight is not None:
        told = counting(told[0], told[1], told[2], sample_weight)
    if validation is None:
        parts = Parts(X, rating_parts(told, folds, hold_out, random_state))
        everything = told
    else:
        other, held = _told(validation)
        if sample_weight is not None:
            held = (*held, np.ones(len(held[2])))
        if other.shape[1] != X.shape[1]:
            raise DataError(f"validation has {other.shape[1]} features but the data have {X.shape[1]}")
        parts = Parts(X, [(told, _known(told, held))])
        everything = tuple(np.concatenate(both) for both in zip(told, held))
    studies = [Study(name, ranker, parts, measure, progress) for name, ranker in zip(names, rankers)]
    for study in studies:
        study.run(params or {}, widen, one_standard_error)
    best = max(studies, key=lambda study: study.best(one_standard_error).mean)  # the first of equals
    chosen = best.best(one_standard_error)
    if np.isnan(chosen.mean):
        raise ValueError(f"no setting of {', '.join(names)} could be fitted; the first error is: {studies[0].problem}")
    found = clone(best.ranker).set_params(**chosen.setting).fit(X, *everything[:3], **_weighing(everything))
    trials = [trial for study in studies for trial in study.trials.values()]
    seconds = time.perf_counter() - started
    found.tuning_ = Tuning(measure, len(parts.folds), best.name, chosen.setting, trials, seconds, best.widened)
    return found


def _weighing(told: Columns) -> dict[str, Any]:
    """The argument of `fit` for the fourth column, if there is one."""
    return {"sample_weight": told[3]} if len(told) > 3 else {}


def _told(data: Any) -> tuple[Any, Columns]:
    if not isinstance(data, RatedItems) or data.item_features is None or data.ratings is None:
        raise ValueError(
            "personal rankers are tuned on ratings with features of their items: "
            "hr.read_ratings(path).with_features(X, names)"
        )
    return data.item_features, (data.users, np.asarray(data.items), np.asarray(data.ratings))


def rating_parts(told: Columns, folds: int, hold_out: str, seed: int) -> list[tuple[Columns, Columns]]:
    """(to learn from, to judge by) of every fold: of every user's ratings, or of the items, a part each.

    Ratings to judge by of users who have none to learn from in a fold are left out.
    """
    if hold_out not in WAYS:
        raise ValueError(f"hold_out is {hold_out!r}, expected {' or '.join(map(repr, WAYS))}")
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise ValueError(f"folds must be a whole number of at least 2, not {folds!r}")
    users, items = told[:2]
    ids, code = number_ids(users, len(items), "users")
    rng = np.random.default_rng(seed)
    if hold_out == "items":
        rated = rng.permutation(np.unique(items))
        part_of = np.zeros(int(items.max()) + 1, np.int64)
        part_of[rated] = np.arange(len(rated)) % folds
        part = part_of[items]
    else:
        shuffled = rng.permutation(len(items))
        start, order = group(code[shuffled], len(ids))
        place = np.arange(len(items)) - np.repeat(start[:-1], np.diff(start))
        part = np.empty(len(items), np.int64)
        part[shuffled[order]] = (place + np.repeat(rng.integers(folds, size=len(ids)), np.diff(start))) % folds
    found = []
    for k in range(folds):
        learn, judge = (tuple(np.asarray(c)[rows] for c in told) for rows in (part != k, part == k))
        found.append((learn, _known(learn, judge)))
    return found


def _known(learn: Columns, judge: Columns) -> Columns:
    """What is to be judged of users that there is something to learn about."""
    known = set(np.asarray(learn[0]).tolist())
    rows = np.fromiter((user in known for user in np.asarray(judge[0]).tolist()), bool, len(judge[0]))
    if not rows.any():
        raise DataError("no user has ratings both to learn from and to judge by: give fewer folds")
    return tuple(np.asarray(column)[rows] for column in judge)


@dataclass
class Study:
    """Settings of one ranker and what they gave."""

    name: str
    ranker: Any
    parts: Parts
    measure: str
    progress: Callable[[int, int, str], None] | None
    trials: dict[str, Trial] = field(default_factory=dict)
    widened: dict[str, list[Any]] = field(default_factory=dict)
    problem: str | None = None

    def run(self, params: Mapping[str, Any], widen: bool, simplest: bool) -> None:
        """C first, then what else the ranker has, each around the best C so far."""
        known = self.ranker.get_params(deep=False)
        unknown = next((name for name in params if name not in known), None)
        if unknown is not None:
            raise ValueError(f"{type(self.ranker).__name__} has no parameter {unknown!r}; it has {', '.join(known)}")
        given = {name: listed(name, values) for name, values in params.items()}
        natural = self._natural()
        stages = [given | ({} if "C" in given else {"C": [float(f"{natural * step:.3g}") for step in STEPS]})]
        more: dict[str, list[Any]] = {"rank": RANKS, "shared": [False, True], "sharing": SHARING}
        if not any(len(values) > 1 for values in given.values()):
            stages += [{name: values} for name, values in more.items() if name in known and name not in given]
        best: Setting = {}
        for stage in stages:
            grid = dict(stage)
            if best and "C" not in given:
                grid["C"] = [float(f"{best['C'] * step:.3g}") for step in NEAR]
            self.attempt([best | dict(zip(grid, values)) for values in product(*grid.values())])
            if widen:
                self._widen("C", "C" not in given)
            best = self.best(simplest).setting

    def _natural(self) -> float:
        return self.ranker.natural_C(self.parts.X, *self.parts.folds[0][0][:3])

    def _widen(self, name: str, free: bool) -> None:
        for _ in range(MOST_WIDENINGS if free else 0):
            best = self.best()
            if np.isnan(best.mean):
                return
            rest = canonical({**best.setting, name: None})
            alike = [t.setting[name] for t in self.trials.values() if canonical({**t.setting, name: None}) == rest]
            added = farther(alike, best.setting[name], None)
            if not added:
                return
            self.widened.setdefault(name, []).extend(added)
            self.attempt([{**best.setting, name: value} for value in added])

    def best(self, simplest: bool = False) -> Trial:
        """The setting with the largest mean, the smaller C and rank of equals; simplest: within a standard error."""

        def size(trial: Trial) -> tuple[int, float]:
            return trial.setting.get("rank") or 0, trial.setting.get("C") or 0.0

        trials = sorted(self.trials.values(), key=size)
        top = max(trials, key=lambda t: -np.inf if np.isnan(t.mean) else t.mean)
        if not simplest or np.isnan(top.mean):
            return top
        return next(t for t in trials if t.mean >= top.mean - top.error)

    def attempt(self, settings: list[Setting]) -> None:
        """Try settings that have not been tried."""
        todo = {canonical(s): s for s in settings if canonical(s) not in self.trials}
        for number, (key, setting) in enumerate(todo.items()):
            began, problem, scores = time.perf_counter(), None, []
            for learn, judge in self.parts.folds:
                try:
                    scores.append(self._score(setting, learn, judge))
                except (ValueError, TypeError) as failure:
                    problem = str(failure)
                    self.problem = self.problem or problem
                    scores.append(np.nan)
            values = np.array(scores)
            error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
            seconds = time.perf_counter() - began
            self.trials[key] = Trial(self.name, setting, scores, float(values.mean()), error, seconds, problem)
            if self.progress is not None:
                done = len(self.trials)
                word = f"{self.name}, {self.measure} {self.best().mean:.4f} so far"
                self.progress(done, done + len(todo) - number - 1, word)

    def _score(self, setting: Setting, learn: Columns, judge: Columns) -> float:
        ranker = clone(self.ranker).set_params(**setting)
        if "prior" in ranker.get_params(deep=False):
            ranker.set_params(prior=0.0)  # nobody is added while trying
        users, items, ratings = judge[:3]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker.fit(self.parts.X, *learn[:3], **_weighing(learn))
            scores = ranker.predict(users, self.parts.X[items])
            return float(evaluate(ratings, scores, users, [self.measure])[self.measure])
