"""`tune`: the settings worth trying for a ranker, tried over folds of queries; the best one, fitted on everything."""

import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from hingerank.data.files import DataError, canonical
from hingerank.data.parts import PartedData
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import RowsView, is_mapped
from hingerank.data.scaling import SAMPLED_ROWS, make_scaler
from hingerank.metrics import evaluate, parse_measure
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.parted import evaluate_parts
from hingerank.rankers.tuned import Trial, Tuning
from hingerank.registry import RANKERS, ranker_class, ranker_name, registered_name
from hingerank.search.kernel_search import path_scores
from hingerank.search.settings import AROUND, MOST_WIDENINGS, SCALES, beyond, listed, near, size_of, stages_of
from hingerank.search.shortcuts import SCALED, follows, path_of
from hingerank.watching import tell_task

Setting = dict[str, Any]
MOST_TOL = 1e-2  # settings are tried with ten times the tolerance, up to here
Progress = Callable[[int, int, str], None]
Outcome = tuple[str, float, float, float, str | None]  # setting, value, its error over queries, seconds, problem


@runtime_checkable
class RatingsRanker(Protocol):
    """A ranker that learns from ratings of many users and knows how it is tuned."""

    def _tune(self, names: list[str], rankers: list[Any], data: Any, **options: Any) -> Any: ...


def tune(
    ranker_or_name: Any,
    data: Any,
    *,
    measure: str = "ndcg@10",
    validation: RankingData | PartedData | None = None,
    folds: int = 5,
    params: Mapping[str, Any] | None = None,
    random_state: int = 0,
    one_standard_error: bool = False,
    widen: bool = True,
    hold_out: str = "ratings",
    sample_weight: Any = None,
    progress: Progress | None = None,
) -> Any:
    """argmax over settings of the mean over folds of measure(held-out queries), fitted on everything.

    Settings that differ in the ranker's path parameter alone are fitted as one path, scaled and mapped rows are
    shared (unless a class of your own overrides `fit` or `predict`), queries are never cut, and tries may stop ten
    times as far from the optimum as the last fit. Where the best value of a number is at the edge of its grid the grid
    grows that way. Of equal settings the simpler one is taken (smaller C, radius, rank, fewer and smaller trees).

    Parameters
    ----------
    ranker_or_name : a ranker, its class, its name ("rank-svm"), or several of them, of which the best is kept
        What its parameters are set to stays, unless it is tried.
    data : RankingData, or data in parts (`hingerank.distributed.read`), of which every part is cut into folds
        For personal rankers ratings with features of their items, which are held out by `hold_out`.
    measure : what to maximise
    validation : data to choose on instead of folds; the last fit is on both
    folds : parts of the queries, each held out once
    params : parameter -> a value to fix, or a list of values to try instead of what is usual for this ranker
    random_state : seed of the folds, and of rankers given by name
    one_standard_error : take the simplest setting whose mean is within one standard error of the best
    widen : whether grids may grow
    hold_out : of ratings: "ratings", a part of every user's, or "items", a part of them that training never sees
    sample_weight : of ratings: how much each counts in fits; judging counts all alike, but those of weight 0
    progress : called with (settings done, settings known so far, the best so far in words) after every fit

    Returns
    -------
    the fitted ranker
        ``tuning_`` has all settings, their scores on each fold and seconds.

    Examples
    --------
    >>> from hingerank import make_letor
    >>> ranker = tune("rank-svm", make_letor(30, seed=0), folds=3, params={"C": [0.001, 0.1], "scale": "standard"})
    >>> ranker.scale, ranker.C == ranker.tuning_.best["C"], len(ranker.tuning_.chosen.scores)
    ('standard', True, 3)
    """
    started = time.perf_counter()
    parse_measure(measure)
    given = ranker_or_name if isinstance(ranker_or_name, list | tuple) else [ranker_or_name]
    rankers = [_ranker(item, random_state) for item in given]
    names = _names(rankers)
    if rankers and isinstance(rankers[0], RatingsRanker):
        other = next((name for name, ranker in zip(names, rankers) if not isinstance(ranker, RatingsRanker)), None)
        if other is not None:
            raise ValueError(f"{names[0]} learns from ratings and {other} from rows: tune one kind at a time")
        return rankers[0]._tune(
            names, rankers, data, measure=measure, validation=validation, folds=folds, hold_out=hold_out,
            params=params, random_state=random_state, one_standard_error=one_standard_error, widen=widen,
            sample_weight=sample_weight, progress=progress,
        )  # fmt: skip
    if sample_weight is not None:
        raise ValueError("sample_weight is for ratings; queries of graded rows count alike")
    kind = PartedData if isinstance(data, PartedData) else RankingData
    if not isinstance(data, kind) or not (validation is None or isinstance(validation, kind)):
        raise ValueError("tune takes RankingData: hingerank.read(path), or RankingData.from_arrays(X, y, qid)")
    parts, everything = _parts(data, validation, folds, random_state)
    studies = []
    for name, ranker in zip(names, rankers):
        study = Study(name, ranker, parts, measure, progress)
        study.run(_stages(ranker, params, data), widen, one_standard_error)
        studies.append(study)
    worked = [study for study in studies if study.trials and not np.isnan(study.best(one_standard_error).mean)]
    if not worked:
        raise ValueError(f"no setting of {', '.join(names)} could be fitted; the first error is: {studies[0].problem}")
    winner = max(worked, key=lambda study: study.best(one_standard_error).mean)  # the first of equals
    chosen = winner.best(one_standard_error)
    found = clone(winner.ranker).set_params(**chosen.setting)
    tell_task(f"tuning {winner.name}, the last fit")
    found.fit(everything) if isinstance(found, BaseRanker) else found.fit(everything.X, everything.y, everything.qid)
    trials = [trial for study in studies for trial in study.trials.values()]
    seconds = time.perf_counter() - started
    found.tuning_ = Tuning(measure, len(parts), winner.name, chosen.setting, trials, seconds, winner.widened)
    return found


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


def _names(rankers: Sequence[Any]) -> list[str]:
    names = [
        ranker_name(type(r)) if isinstance(r, BaseRanker | RatingsRanker) and _registered(r) else type(r).__name__
        for r in rankers
    ]
    return [name if names.count(name) == 1 else f"{name} {i + 1}" for i, name in enumerate(names)]


def _registered(ranker: Any) -> bool:
    return any(place.endswith(f":{type(ranker).__name__}") for place in RANKERS.values())


def _parts(data: Any, validation: Any, folds: int, seed: int) -> tuple[list[tuple[Any, Any, Any, Any]], Any]:
    """(data, rows to learn from, data, rows to choose on) of every fold, None for all rows; and everything."""
    if validation is not None:
        if validation.n_features != data.n_features:
            raise DataError(f"validation has {validation.n_features} features but the data have {data.n_features}")
        if isinstance(data, PartedData):
            both = PartedData([*data.parts, *validation.parts], data.runner, [*data.facts, *validation.facts])
            return [(data, None, validation, None)], both
        numbers = [part.blocks.scatter(part.blocks.numbers) for part in (data, validation)]
        qids = numbers[0], numbers[1] + data.n_queries  # files often count their queries anew
        renamed = [replace(part, qid=q, docid=None) for part, q in zip((data, validation), qids)]
        return [(data, None, validation, None)], RankingData.concatenate(renamed)
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise ValueError(f"folds must be a whole number of at least 2, not {folds!r}")
    if data.n_queries < 2:
        raise DataError(
            "tuning holds out whole queries, and the data have one query only: give query ids or validation="
        )
    if isinstance(data, PartedData):
        folds = min(folds, data.n_queries)
        return [(data.fold(k, folds, False), None, data.fold(k, folds, True), None) for k in range(folds)], data
    order = np.random.default_rng(seed).permutation(data.n_queries)
    number = data.blocks.scatter(data.blocks.numbers)
    part_of = np.empty(data.n_queries, np.int64)
    for k, queries in enumerate(np.array_split(order, min(folds, data.n_queries))):
        part_of[queries] = k
    of_row = part_of[number]
    rows = [(np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in range(min(folds, data.n_queries))]
    return [(data, learn, data, choose) for learn, choose in rows], data


def _stages(ranker: Any, params: Mapping[str, Any] | None, data: Any) -> list[dict[str, list[Any]]]:
    """The grids to go through: those given as one stage, else the ranker's usual ones without what is fixed."""
    known = ranker.get_params(deep=False)
    given = {name: listed(name, values) for name, values in (params or {}).items()}
    for name in given:
        if name not in known:
            raise ValueError(f"{type(ranker).__name__} has no parameter {name!r}; it has {', '.join(known)}")
    usual = stages_of(type(ranker).__name__, known)
    if any(len(values) > 1 for values in given.values()):
        usual = [{}]
    free = [{name: values for name, values in stage.items() if name not in given} for stage in usual]
    stages = [{**given, **free[0]}, *free[1:]]
    scales = scales_for(data.sample(SAMPLED_ROWS) if isinstance(data, PartedData) else data.X)
    stages = [{name: scales if values is SCALES else values for name, values in stage.items()} for stage in stages]
    return [stages[0], *(stage for stage in stages[1:] if any(values is not AROUND for values in stage.values()))]


def scales_for(X: Any) -> list[str | None]:
    """Scalings worth a try: none at all where the columns' spreads are alike, bent ones where columns have long tails.

    >>> scales_for(np.array([[0.0, 1.0], [1.0, 0.0]]))
    [None, 'standard', 'query-minmax']
    """
    from hingerank.data.describe import long_tailed
    from hingerank.rankers.inputs import MOST_SPREAD, column_spreads

    spreads = column_spreads(X)
    spreads = spreads[(spreads > 0) & np.isfinite(spreads)]
    raw: list[str | None] = [None] if not len(spreads) or spreads.max() <= MOST_SPREAD * spreads.min() else []
    matrix = X if not isinstance(X, RowsView) else X[:: -(-len(X) // SAMPLED_ROWS)] if X.whole is None else X.whole
    if sp.issparse(matrix):
        return [*raw, "deviation", "log", *(["query-minmax"] if matrix.data.min(initial=0.0) >= 0 else [])]
    return [*raw, "standard", "query-minmax", *(["log", "quantile"] if long_tailed(X).any() else [])]


@dataclass
class Study:
    """Settings of one ranker and what they gave."""

    name: str
    ranker: Any
    parts: list[tuple[Any, Any, Any, Any]]
    measure: str
    progress: Progress | None
    trials: dict[str, Trial] = field(default_factory=dict)
    widened: dict[str, list[Any]] = field(default_factory=dict)
    problem: str | None = None

    def run(self, stages: list[dict[str, list[Any]]], widen: bool, simplest: bool) -> None:
        """Go through the stages, each around the best setting of those before."""
        best: Setting = {name: self._own(name) for stage in stages[1:] for name in stage if name not in stages[0]}
        for stage in stages:
            grid = {name: near(best[name]) if values is AROUND else values for name, values in stage.items()}
            self.attempt([{**best, **setting} for setting in product(grid)])
            if widen:
                self._widen([name for name, values in grid.items() if len(values) > 1])
            if np.isnan(self.best().mean):
                return
            best = self.best(simplest).setting

    def _own(self, name: str) -> Any:
        return self.ranker.get_params(deep=False)[name]

    def _widen(self, names: list[str]) -> None:
        for _ in range(MOST_WIDENINGS):
            best = self.best()
            more = [s for name in names for s in self._beyond(name, best.setting)] if not np.isnan(best.mean) else []
            if not more:
                return
            self.attempt(more)

    def _beyond(self, name: str, best: Setting) -> list[Setting]:
        """Settings beyond the edge of the grid, if the best value is there."""
        limit = (1, self.parts[0][0].n_features) if name == "k" else None
        added = beyond(name, best, [trial.setting for trial in self.trials.values()], limit)
        if added:
            self.widened.setdefault(name, []).extend(added)
        return [{**best, name: value} for value in added]

    def best(self, simplest: bool = False) -> Trial:
        """The setting with the largest mean, the simpler of equals; simplest: of all within a standard error."""
        trials = list(self.trials.values())
        top = max(trials, key=lambda t: (-np.inf if np.isnan(t.mean) else t.mean, -self._size(t)))
        if not simplest or np.isnan(top.mean):
            return top
        return min((t for t in trials if t.mean >= top.mean - top.error), key=lambda t: (self._size(t), -t.mean))

    def _size(self, trial: Trial) -> float:
        """How complicated a setting is: the sum over its numbers of their places among the values tried."""
        total = 0.0
        for name, value in trial.setting.items():
            sizes = sorted({s for t in self.trials.values() if (s := size_of(t.setting.get(name))) is not None})
            own = size_of(value)
            total += sizes.index(own) / max(1, len(sizes) - 1) if own is not None else 0.0
        return total

    def attempt(self, settings: list[Setting]) -> None:
        """Try settings that have not been tried."""
        todo = {canonical(s): s for s in settings if canonical(s) not in self.trials}
        scores: dict[str, list[float]] = {key: [] for key in todo}
        seconds, problems, errors = dict.fromkeys(todo, 0.0), dict[str, str](), dict[str, float]()
        done = 0
        for k, part in enumerate(self.parts):
            for key, value, error, spent, problem in self._fold(k, part, list(todo.values())):
                scores[key].append(value)
                seconds[key] += spent
                errors[key] = error
                if problem is not None:
                    problems[key] = problem
                    self.problem = self.problem or problem
                done += 1
                if self.progress is not None:
                    self._tell(done, len(todo) * len(self.parts), scores)
        for key, setting in todo.items():
            values = np.array(scores[key])
            error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else errors[key]
            self.trials[key] = Trial(
                self.name, setting, values.tolist(), float(values.mean()), error, seconds[key], problems.get(key)
            )

    def _tell(self, done: int, total: int, scores: dict[str, list[float]]) -> None:
        means = [t.mean for t in self.trials.values()] + [float(np.mean(v)) for v in scores.values() if v]
        known = [m for m in means if not np.isnan(m)]
        past = len(self.trials) * len(self.parts)
        word = f"{self.name}, {self.measure} {max(known):.4f} so far" if known else self.name
        self.progress(past + done, past + total, word)  # type: ignore[misc]

    def _fold(self, k: int, part: Any, settings: list[Setting]) -> Iterator[Outcome]:
        """(setting, value, its standard error over queries, seconds, problem) of every setting on one fold."""
        data, learn, other, choose = part
        train = data if learn is None else data.take(learn)
        held = other if choose is None else other.take(choose)
        # rows that stay where they are, in a mapped file or with their workers, are scaled by the ranker itself
        stay = isinstance(train, PartedData) or is_mapped(train.X)
        known = "scale" in self.ranker.get_params(deep=False) and follows(type(self.ranker), BaseRanker, SCALED)
        scaled = known and not stay
        by_scale: dict[Any, list[Setting]] = {}
        for setting in settings:
            by_scale.setdefault(self._scaling(setting) if scaled else None, []).append(setting)
        for scale, group in by_scale.items():
            began, here, there, problem = time.perf_counter(), train, held, None
            if scaled and not self._precomputed:
                try:
                    scaler = make_scaler(scale).fit(train.X)
                    here = replace(train, X=scaler.transform(train.X, train.qid))
                    there = replace(held, X=scaler.transform(held.X, held.qid))
                except ValueError as error:
                    problem = str(error)
            spent = (time.perf_counter() - began) / len(group)
            for batch in self._batches(group):
                tell_task(f"tuning {self.name}, fold {k + 1} of {len(self.parts)}, {_words(batch)}")
                yield from self._fits(batch, here, there, scaled, spent, problem)

    @property
    def _precomputed(self) -> bool:
        return self.ranker.get_params(deep=False).get("kernel") == "precomputed"

    def _scaling(self, setting: Setting) -> str | None:
        return clone(self.ranker).set_params(**setting)._scaling()

    def _batches(self, settings: list[Setting]) -> list[list[Setting]]:
        """Settings that one path fits."""
        path = path_of(self.ranker)
        groups: dict[str, list[Setting]] = {}
        for setting in settings:
            rest = canonical({n: v for n, v in setting.items() if n != path} if path in setting else setting)
            groups.setdefault(rest, []).append(setting)
        return list(groups.values())

    def _fits(self, batch: list[Setting], here: Any, there: Any, scaled: bool, spent: float, problem: Any):
        """Fit settings that differ in the path parameter alone, and measure them."""
        began = time.perf_counter()
        fixed = batch[0] | ({"scale": None} if scaled else {})
        tol = self.ranker.get_params(deep=False).get("tol")
        if tol is not None and "tol" not in fixed:
            fixed["tol"] = max(tol, min(10 * tol, MOST_TOL))
        ranker, path = clone(self.ranker), path_of(self.ranker)
        values: list[np.ndarray] = []
        if problem is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about settings that are only tried
                    ranker.set_params(**fixed)
                    rows = (here, None, None) if isinstance(here, PartedData) else (here.X, here.y, here.qid)
                    if len(batch) > 1 and path is not None:
                        found = ranker.fit_path(*rows, [setting[path] for setting in batch])
                    else:
                        found = [ranker.fit(*rows)]
                    values = held_out(found, there, self.measure)
            except (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError, ImportError) as error:
                problem = str(error) or type(error).__name__
        if problem is not None and len(batch) > 1:  # find out which of them it was
            for setting in batch:
                yield from self._fits([setting], here, there, scaled, spent, None)
            return
        seconds = spent + (time.perf_counter() - began) / len(batch)
        for setting, each in zip(batch, values if problem is None else [np.array([np.nan])]):
            known = each[~np.isnan(each)]
            mean = float(known.mean()) if len(known) else np.nan
            spread = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else 0.0
            yield canonical(setting), mean, spread, seconds, problem


def held_out(found: list[Any], data: Any, measure: str) -> list[np.ndarray]:
    """Every query's value for each ranker."""
    if isinstance(data, PartedData):
        return [values[measure] for values in evaluate_parts(found, data, [measure])]
    path = path_scores(found, data.X, data.qid)
    return [evaluate(data.y, scores, data.qid, measure, per_query=True)[measure] for scores in path]


def product(grid: Mapping[str, Sequence[Any]]) -> list[Setting]:
    """Every combination; the first parameter varies slowest."""
    settings: list[Setting] = [{}]
    for name, values in grid.items():
        settings = [{**setting, name: value} for setting in settings for value in values]
    return settings


def _words(batch: list[Setting]) -> str:
    changing = {n: [s[n] for s in batch] for n in batch[0]}
    return ", ".join(
        f"{n}={v[0]}" if len(set(map(str, v))) == 1 else f"{n}={v[0]}…{v[-1]}" for n, v in changing.items()
    )
