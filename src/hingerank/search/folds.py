"""Folds to try settings on: of queries in memory, in a mapped file or in parts, and of queries with clicks.

Searches fit many settings by one ``fit_path``, scale rows once for several fits and score several rankers at once. A
user's class that overrides only `fit` or `predict` inherits these shortcuts from a class that does not know it. They
are then not used: every setting is fitted and scored by the class's own methods.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from hingerank.arrays import Given, PerRow, Ranker, RowsLike
from hingerank.data.checks import WeakFitWarning
from hingerank.data.files import DataError, canonical
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import is_mapped
from hingerank.data.scaling import SAMPLED_ROWS, make_scaler
from hingerank.metrics import evaluate
from hingerank.metrics.places import parse_place_measure
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.corrections import ClickedRows, Propensities, click_weights, refuse_parts
from hingerank.rankers.inputs import check_features, grades_and_ids
from hingerank.rankers.kernel import MappedRanker
from hingerank.rankers.sources import RowsInParts
from hingerank.rankers.sparse import SparseRanker
from hingerank.rankers.trees import TreeRanker
from hingerank.rankers.winners import Centre, check_winners
from hingerank.search.settings import AROUND, LIMITS, Setting, Stage, Values, scales_for

FITS = ("fit", "_fit", "_fit_parts")  # methods that a path replaces
SCORES = ("predict", "_predict", "_scores", "_scaled")  # methods that scoring several rankers at once replaces
SCALED = ("fit", "predict", "_learning_rows", "_predict", "_scaled")  # methods that scaling in advance replaces
MOST_TOL = 1e-2  # settings are tried with ten times the tolerance, up to here
Part = tuple[RowsLike, np.ndarray | tuple[int, int, bool] | None]  # data, and its rows as `_taken` takes them
OF_A_SETTING = (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError, ImportError)


class SettingFit(NamedTuple):
    """A fitted ranker, or the error that stopped it; its seconds; its warnings."""

    setting: Setting
    ranker: Ranker
    seconds: float
    error: Exception | None = None
    warned: tuple[str, ...] = ()


def path_batches(settings: Sequence[Setting], paths: tuple[str, ...]) -> list[list[Setting]]:
    """Settings to fit together: those that differ only in the path's parameters; otherwise one at a time.

    >>> path_batches([{"C": 1, "loss": "a"}, {"C": 2, "loss": "a"}, {"C": 1, "loss": "b"}], ("C",))
    [[{'C': 1, 'loss': 'a'}, {'C': 2, 'loss': 'a'}], [{'C': 1, 'loss': 'b'}]]
    """
    groups: dict[str, list[Setting]] = {}
    for number, setting in enumerate(settings):
        own = _of_path(setting, paths)
        rest = canonical({n: v for n, v in setting.items() if n not in own}) if own else f"alone {number}"
        groups.setdefault(f"{own} {rest}", []).append(setting)
    return list(groups.values())


def _of_path(setting: Setting, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The path's parameters that a setting has: all of them, or only the first."""
    return paths if all(name in setting for name in paths) else tuple(name for name in paths[:1] if name in setting)


def fit_settings(
    make: Callable[[Setting], Ranker],
    settings: Sequence[Setting],
    paths: tuple[str, ...],
    rows: tuple[RowsLike, PerRow, PerRow],
    learn: Callable[[Ranker], object],
    caught: tuple[type[Exception], ...] = (Exception,),
    stop_on: object = None,
) -> Iterator[SettingFit]:
    """Fit each setting; along a path in one call if there are several, else, or if that fails, one at a time.

    Parameters
    ----------
    make : returns an unfitted ranker for a setting
    settings : a batch from `path_batches`
    paths : the parameter whose values ``fit_path`` fits in one call; or several, whose values it takes together
    rows : what ``fit_path`` takes: X, y and qid; or data in parts, None and None
    learn : fits one ranker to the same rows
    caught : errors that belong to a setting; all others are raised
    stop_on : rows for early stopping, for rankers whose paths support it
    """
    names = _of_path(settings[0], paths)
    if names and (len(settings) > 1 or stop_on is not None):
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                values = [
                    setting[names[0]] if len(names) == 1 else tuple(map(setting.get, names)) for setting in settings
                ]
                more = {} if stop_on is None else {"eval_set": [stop_on]}
                rankers = list(make(settings[0]).fit_path(*rows, values, **more))
            if len(rankers) != len(values):
                raise ValueError(
                    f"fit_path returned {len(rankers)} rankers for {len(values)} values of {', '.join(names)}"
                )
            seconds = (time.perf_counter() - start) / len(settings)
            for setting, ranker in zip(settings, rankers):
                yield SettingFit(setting, ranker, seconds, None, _texts(warned))
            return
        except caught:  # the loop below finds out which setting failed
            pass
    for setting in settings:
        start, ranker, error = time.perf_counter(), None, None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            if len(settings) > 1:  # only the best will be used, so weak fits of others need no warning
                warnings.simplefilter("ignore", WeakFitWarning)
            try:
                ranker = make(setting)
                learn(ranker)
            except caught as problem:
                error = problem
        yield SettingFit(setting, ranker, time.perf_counter() - start, error, _texts(warned))


def _texts(warned: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in warned))


def follows(kind: type, home: type, methods: tuple[str, ...]) -> bool:
    """Whether a shortcut of the class `home` is valid for `kind`: no user's class overrides `methods`.

    Classes of this package override methods and keep the shortcuts valid, which their tests check.

    >>> from hingerank import RankSVM
    >>> Mine = type("Mine", (RankSVM,), {"fit": lambda self, X: self, "__module__": "mine"})
    >>> follows(RankSVM, RankSVM, FITS), follows(Mine, RankSVM, FITS), follows(Mine, RankSVM, SCORES)
    (True, False, True)
    """
    order = kind.__mro__
    if home not in order:
        return False
    users = [place for place in order[: order.index(home)] if place.__module__.partition(".")[0] != "hingerank"]
    return not any(name in vars(place) for place in users for name in methods)


def path_of(ranker: Ranker) -> str | None:
    """The parameter whose values one call of a ranker's (or class's) ``fit_path`` fits; None: fit them one by one."""
    kind = ranker if isinstance(ranker, type) else type(ranker)
    home = next((place for place in kind.__mro__ if "fit_path" in vars(place)), None)
    return getattr(kind, "path_parameter", "C") if home is not None and follows(kind, home, FITS) else None


class FoldOutcome(NamedTuple):
    """A setting on one fold: its value, the standard error of that over queries, seconds, the error, the scores of
    held-out rows if wanted, how far a fit that may stop early went along the path, and the value of every query."""

    setting: Setting
    value: float
    error: float
    seconds: float
    problem: str | None = None
    scores: np.ndarray | None = None
    reached: int | None = None
    by_query: np.ndarray | None = None


class QueryFolds:
    """Folds of the queries, each held out once, or one validation set.

    Parameters
    ----------
    data : RankingData, or data in parts, of which every part is split into folds
    measure : to compare by
    validation : data to choose on instead of folds
    folds : their number
    seed : of the folds
    tol_factor : factor of the tolerance for fits that are only tried
    keep_scores : whether outcomes include the scores of held-out rows
    """

    around: Centre = None  # of clicks: the weights that fits stay near

    def __init__(
        self, data: object, measure: str, validation: object = None, folds: int = 5, seed: int = 0,
        tol_factor: float = 10.0, keep_scores: bool = False,
    ) -> None:  # fmt: skip
        kind = RowsInParts if isinstance(data, RowsInParts) else RankingData
        if not isinstance(data, kind) or not (validation is None or isinstance(validation, kind)):
            raise ValueError("tune takes RankingData: hingerank.read(path), or RankingData.from_arrays(X, y, qid)")
        self.data, self.measure, self.tol_factor, self.keep_scores = data, measure, tol_factor, keep_scores
        self.parts, self.everything = _cut(data, validation, folds, seed)
        self.separate = False  # whether every ranker scales rows by itself

    def __len__(self) -> int:
        return len(self.parts)

    def scales(self) -> Values:
        """The scalings that suit the data."""
        return scales_for(self.data.sample(SAMPLED_ROWS) if isinstance(self.data, RowsInParts) else self.data.X)

    def possible(self, stages: Sequence[Stage], ranker: Ranker, given: Given) -> list[Stage]:
        """The stages without settings that need all rows at once, if rows are in a mapped file or in parts."""
        stay = isinstance(self.data, RowsInParts) or is_mapped(self.data.X)
        left = {"context", "interactions"} if stay else set()
        return [{name: values for name, values in stage.items() if name not in left} for stage in stages]

    def natural(self, ranker: Ranker) -> float:
        raise ValueError(f"{type(ranker).__name__} has no C of its own for rows of queries")

    def limits(self) -> dict[str, tuple[float, float]]:
        """Limits of grids other than the usual ones."""
        return {"n_features": (1, self.data.n_features)}

    def fit(self, ranker: Ranker) -> Ranker:
        """The ranker, fitted on everything."""
        whole = self.everything
        return ranker.fit(whole) if isinstance(ranker, BaseRanker) else ranker.fit(whole.X, whole.y, qid=whole.qid)

    def held(self, k: int) -> RowsLike:
        """The rows held out in fold k."""
        return _taken(*self.parts[k][1])

    def lists(self, k: int) -> np.ndarray | None:
        """For clicks: how often each held-out query of fold k was shown."""
        return None

    def outcomes(self, k: int, ranker: Ranker, settings: Sequence[Setting]) -> Iterator[FoldOutcome]:
        """The outcome of every setting on fold k."""
        train, held = _taken(*self.parts[k][0]), self.held(k)
        scaled = self._can_scale(train, ranker, settings)
        by_scale: dict[str | None, list[Setting]] = {}
        for setting in settings:
            scale = clone(ranker).set_params(**setting)._scaling() if scaled else None
            by_scale.setdefault(scale, []).append(setting)
        for scale, group in by_scale.items():
            began, here, there = time.perf_counter(), train, held
            if scaled:
                try:
                    scaler = make_scaler(scale).fit(train.X)
                    here = replace(train, X=scaler.transform(train.X, train.qid))
                    there = replace(held, X=scaler.transform(held.X, held.qid))
                except ValueError as error:
                    yield from (FoldOutcome(setting, np.nan, 0.0, 0.0, str(error)) for setting in group)
                    continue
            spent = (time.perf_counter() - began) / len(group)
            fixed = {"scale": None} if scaled else {}
            for batch in path_batches(group, self._paths(ranker)):
                yield from self._measured(ranker, batch, fixed, here, there, spent)

    def _can_scale(self, train: RowsLike, ranker: Ranker, settings: Sequence[Setting]) -> bool:
        """Whether rows can be scaled once, in advance, for all fits with the same scale."""
        if self.separate or isinstance(train, RowsInParts) or is_mapped(train.X):
            return False  # rows in a mapped file or on workers are scaled by the ranker itself
        known = ranker.get_params(deep=False)
        if (
            "scale" not in known
            or known.get("kernel") == "precomputed"
            or not follows(type(ranker), BaseRanker, SCALED)
        ):
            return False
        return all({**known, **each}.get("missing", "error") == "error" for each in settings)  # filled before scaling

    def _measured(
        self, ranker: Ranker, batch: list[Setting], fixed: Setting, here: RowsLike, there: RowsLike, spent: float
    ) -> Iterator[FoldOutcome]:
        """Fit settings that differ only in the path parameter, and measure them."""

        def make(setting: Setting) -> Ranker:
            made = clone(ranker).set_params(**setting | fixed)
            tol = made.get_params(deep=False).get("tol")
            if tol is not None and "tol" not in setting:
                made.set_params(tol=max(tol, min(self.tol_factor * tol, MOST_TOL)))
            return made

        rows = (here, None, None) if isinstance(here, RowsInParts) else (here.X, here.y, here.qid)
        stops = follows(type(ranker), TreeRanker, FITS) and isinstance(there, RankingData)
        held = (there.X, there.y, there.qid) if stops else None
        learn = partial(self._learn, rows=here)
        fits = list(fit_settings(make, batch, self._paths(ranker), rows, learn, caught=OF_A_SETTING, stop_on=held))
        began = time.perf_counter()
        values = self._judge([fit.ranker for fit in fits if fit.error is None], there)
        spent += (time.perf_counter() - began) / len(batch)
        for fit in fits:
            found, scores = next(values) if fit.error is None else (np.array([]), None)
            outcome = _outcome(fit, found, scores if self.keep_scores else None, spent)
            yield outcome if held is None or fit.error is not None else outcome._replace(reached=fit.ranker.n_iter_)

    def _paths(self, ranker: Ranker) -> tuple[str, ...]:
        """The parameters whose values one call of ``fit_path`` fits together; empty: fit settings one by one."""
        path = path_of(ranker)
        return () if path is None else getattr(ranker, "path_parameters", (path,))

    def _learn(self, ranker: Ranker, rows: RowsLike) -> None:
        """Fit a ranker to rows of a fold."""
        if isinstance(rows, RowsInParts):
            ranker.fit(rows, None, qid=None)
        else:
            ranker.fit(rows.X, rows.y, qid=rows.qid)

    def _judge(self, found: list[Ranker], there: RowsLike) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Every held-out query's value for each ranker, and the scores if the rows are in this process."""
        if not found:
            return
        if isinstance(there, RowsInParts):
            yield from ((values[self.measure], None) for values in there.evaluate(found, [self.measure]))
            return
        for scores in path_scores(found, there.X, there.qid):
            yield evaluate(there.y, scores, there.qid, self.measure, per_query=True)[self.measure], scores


def _outcome(fit: SettingFit, values: np.ndarray, scores: np.ndarray | None, spent: float) -> FoldOutcome:
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if len(known) else np.nan
    spread = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else 0.0
    problem = None if fit.error is None else str(fit.error) or type(fit.error).__name__
    return FoldOutcome(fit.setting, mean, spread, fit.seconds + spent, problem, scores, by_query=values)


def _cut(data: RowsLike, validation: RowsLike, folds: int, seed: int) -> tuple[list[tuple[Part, Part]], RowsLike]:
    """What every fold learns from and what it holds out; and all data. Rows are taken only while a fold is used."""
    if validation is not None:
        if validation.n_features != data.n_features:
            raise DataError(
                f"validation has {validation.n_features} features but the data have {data.n_features}: use the same"
            )
        if isinstance(data, RowsInParts):
            return [((data, None), (validation, None))], data.joined(validation)
        numbers = [part.blocks.scatter(part.blocks.numbers) for part in (data, validation)]
        qids = numbers[0], numbers[1] + data.n_queries  # files often number their queries from 1 again
        renamed = [replace(part, qid=q, docid=None) for part, q in zip((data, validation), qids)]
        return [((data, None), (validation, None))], RankingData.concatenate(renamed)
    check_count(folds)
    if data.n_queries < 2:
        raise DataError("tuning holds out whole queries, but the data have only one: give query ids or validation=")
    folds = min(folds, data.n_queries)
    if isinstance(data, RowsInParts):
        return [((data, (k, folds, False)), (data, (k, folds, True))) for k in range(folds)], data
    order = np.random.default_rng(seed).permutation(data.n_queries)
    part_of = np.empty(data.n_queries, np.int64)
    for k, queries in enumerate(np.array_split(order, folds)):
        part_of[queries] = k
    of_row = part_of[data.blocks.scatter(data.blocks.numbers)]
    return [((data, np.flatnonzero(of_row != k)), (data, np.flatnonzero(of_row == k))) for k in range(folds)], data


def _taken(data: RowsLike, rows: np.ndarray | tuple[int, int, bool] | None) -> RowsLike:
    """Some rows, by their numbers; for data in parts by the arguments of `RowsInParts.fold`; None for all."""
    if rows is None:
        return data
    return data.fold(*rows) if isinstance(data, RowsInParts) else data.take(rows)


def check_count(folds: object) -> None:
    """Raise a ValueError unless the number of folds is a whole number of at least 2."""
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise ValueError(f"folds must be a whole number of at least 2, not {folds!r}")


def path_scores(path: list[Ranker], X: RowsLike, qid: PerRow = None) -> list[np.ndarray]:
    """The scores of every ranker of one path; rows are mapped once for rankers that share a feature map."""
    first = path[0]
    apart = not follows(type(first), MappedRanker, SCORES) or not all(map(first.shares_map, path))
    if apart or is_mapped(X.X if isinstance(X, RankingData) else X):
        return [member.predict(X, qid) for member in path]
    _, qid = grades_and_ids(X, None, qid)
    rows = first._scaled(check_features(first, X, reset=False), qid)
    return list(first._map.scores(rows, np.stack([member.coef_ for member in path], axis=1)).T)


class ClickFolds(QueryFolds):
    """Folds of queries; the value of a held-out one is  Σ over rows of discount(rank) · weight / lists.

    The weights are those that a fit learns from (`click_weights`), estimated once: a query's weights come from its own
    clicks, and also from other queries if the correction regresses relevance on features.

    Parameters
    ----------
    data : ClickData
    measure : "dcg@10", "average-rank", ... (`hingerank.metrics.places`)
    validation : clicks to choose on instead of folds
    folds, seed, tol_factor : as in QueryFolds
    propensities, correction, clip, around : as in `fit_clicks`
    """

    def __init__(
        self,
        data: ClickedRows,
        measure: str,
        validation: object = None,
        folds: int = 5,
        seed: int = 0,
        tol_factor: float = 10.0,
        keep_scores: bool = False,
        *,
        propensities: Propensities = None,
        correction: str = "ips",
        clip: float | None = None,
        around: Centre = None,
    ) -> None:
        given = [part for part in (data, validation) if isinstance(part, ClickedRows)]
        if len(given) < (1 if validation is None else 2):
            raise ValueError("validation must be clicks joined with features (log.join(data)), like the data")
        for each in given:
            refuse_parts(each, "settings are chosen")
        rows = [replace(p.data, y=click_weights(p, propensities, correction, clip), docid=None) for p in given]
        held = rows[1] if validation is not None else None
        super().__init__(rows[0], measure, held, folds, seed, tol_factor, keep_scores)
        self.places, self.around = parse_place_measure(measure), around
        self.shown = [dict(zip(p.data.blocks.ids.tolist(), np.asarray(p.lists).tolist())) for p in given]
        self.separate = self.separate or around is not None

    def fit(self, ranker: Ranker) -> Ranker:
        return check_winners(ranker).fit_winners(self.everything, around=self.around)

    def _paths(self, ranker: Ranker) -> tuple[str, ...]:
        return ()  # settings are fitted one by one

    def _learn(self, ranker: Ranker, rows: RowsLike) -> None:
        check_winners(ranker).fit_winners(rows, around=self.around)

    def _judge(self, found: list[Ranker], there: RowsLike) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """For each ranker every query's value, scaled so that its mean over queries is that over lists; its scores."""
        if not found:
            return
        blocks = there.blocks
        share = self._lists_of(there).mean() or 1.0
        for scores in path_scores(found, there):
            worth = self.places.of_scores(blocks.gather(scores), blocks.offsets) * blocks.gather(there.y)
            yield self.places.sign * np.add.reduceat(worth, blocks.offsets[:-1]) / share, scores

    def lists(self, k: int) -> np.ndarray:
        return self._lists_of(self.held(k))

    def _lists_of(self, there: RowsLike) -> np.ndarray:
        return np.array([self.shown[-1].get(q, 0.0) for q in there.blocks.ids.tolist()])

    def possible(self, stages: Sequence[Stage], ranker: Ranker, given: Given) -> list[Stage]:
        """The same; grids of a C that multiplies a sum over clicks are scaled to the weight of the pairs here."""
        found = [dict(stage) for stage in super().possible(stages, ranker, given)]
        fixed = "C" in given or isinstance(ranker, SparseRanker)
        for stage in found if not fixed else ():
            if "C" in stage and stage["C"] is not AROUND:
                stage["C"] = [value * self.usual_C for value in stage["C"]]
        return [*found]

    @property
    def usual_C(self) -> float:
        """A power of ten near 1 / the mean weight of winners: it corresponds to 1 for pairs of weight 1."""
        u: np.ndarray = self.everything.y
        return 10.0 ** -round(float(np.log10(u[u > 0].mean()))) if (u > 0).any() else 1.0

    def limits(self) -> dict[str, tuple[float, float]]:
        low, high = LIMITS["C"]
        return super().limits() | {"C": (low * min(1.0, self.usual_C), high * max(1.0, self.usual_C))}
