"""Folds of queries to try settings on: rows in memory, in a mapped file or in parts; rows scaled once for many fits."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from hingerank.arrays import Given, PerRow, Ranker, RowsLike
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import is_mapped
from hingerank.data.scaling import SAMPLED_ROWS, make_scaler
from hingerank.metrics import evaluate
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.inputs import check_features, grades_and_ids
from hingerank.rankers.kernel import MappedRanker
from hingerank.rankers.sources import RowsInParts
from hingerank.rankers.trees import TreeRanker
from hingerank.rankers.winners import Centre
from hingerank.search.fitting import FITS, SCALED, SCORES, SettingFit, fit_settings, follows, path_batches, path_of
from hingerank.search.settings import Setting, Stage, Values, scales_for

MOST_TOL = 1e-2  # settings are tried with ten times the tolerance, up to here
Part = tuple[RowsLike, np.ndarray | tuple[int, int, bool] | None]  # data, and its rows as `_taken` takes them
OF_A_SETTING = (ValueError, ArithmeticError, np.linalg.LinAlgError, MemoryError, ImportError)


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
