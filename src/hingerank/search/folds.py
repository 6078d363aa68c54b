"""Folds to try settings on: of queries in memory, in a mapped file or in parts, and of queries with clicks.

Searches save time: they fit many settings by one ``fit_path``, scale rows once for several fits and score several
rankers at once. A user's class that overrides `fit` or `predict` may not agree with what it inherits for this. Each of
its settings is fitted and scored by its own methods instead.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from hingerank.arrays import Ranker, RowsLike
from hingerank.data.checks import WeakFitWarning, whole
from hingerank.data.files import DataError, canonical
from hingerank.data.ranking_data import RankingData, check_columns
from hingerank.data.rows_view import is_mapped
from hingerank.data.scaling import SAMPLED_ROWS, make_scaler
from hingerank.metrics import parse_measure
from hingerank.metrics.evaluator import check_measurable, finite_numbers, query_values
from hingerank.metrics.places import PlaceMeasure, parse_place_measure
from hingerank.rankers.base import BaseRanker
from hingerank.rankers.blending import OutOfFold
from hingerank.rankers.corrections import ClickData, Propensities, click_weights, refuse_parts
from hingerank.rankers.inputs import check_features
from hingerank.rankers.kernel import MappedRanker
from hingerank.rankers.own import follows, given_rows, predict_rows
from hingerank.rankers.sources import RowsInParts
from hingerank.rankers.sparse import SparseRanker
from hingerank.rankers.trees import TreeRanker
from hingerank.rankers.winners import Centre, check_winners
from hingerank.search.settings import AROUND, LIMITS, Setting, Stage, Staged, scales_for, usual_search

FITS = ("fit", "_source", "_learn_from", "_fit")  # methods that a path replaces
SCORES = ("predict", "_predict", "_scores", "_scaled")  # methods that scoring several rankers at once replaces
SCALED = ("fit", "predict", "_learning_rows", "_predict", "_scaled")  # methods that scaling in advance replaces
MOST_TOL = 1e-2  # settings are tried with ten times the tolerance, up to here
Take = Callable[[], RowsLike]  # rows are taken only while a fold is used
PARTS = 5  # of a validation set, for cross-fitting the stack of a blend
Judged = tuple[np.ndarray, np.ndarray | None]  # the value of every held-out query, and the scores if they are here
OF_A_SETTING = (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError, MemoryError, ImportError)


class SettingFit(NamedTuple):
    """A fitted ranker, or the error that stopped it; its seconds; its warnings."""

    setting: Setting
    ranker: Ranker
    seconds: float
    error: Exception | None
    warned: Sequence[warnings.WarningMessage]


def path_batches(settings: Sequence[Setting], paths: tuple[str, ...]) -> list[list[Setting]]:
    """Settings to fit together: those that differ only in the path's parameters; otherwise one at a time.

    >>> path_batches([{"C": 1, "loss": "a"}, {"C": 2, "loss": "a"}, {"C": 1, "loss": "b"}], ("C",))
    [[{'C': 1, 'loss': 'a'}, {'C': 2, 'loss': 'a'}], [{'C': 1, 'loss': 'b'}]]
    """
    groups: dict[str, list[Setting]] = {}
    for number, setting in enumerate(settings):
        own = (*takewhile(setting.__contains__, paths),)
        rest = canonical({n: v for n, v in setting.items() if n not in own}) if own else f"alone {number}"
        groups.setdefault(f"{own} {rest}", []).append(setting)
    return list(groups.values())


def fit_settings(
    make: Callable[[Setting], Ranker],
    settings: Sequence[Setting],
    paths: tuple[str, ...],
    rows: RowsLike,
    learn: Callable[[Ranker], object],
    caught: tuple[type[Exception], ...] = (Exception,),
    stop_on: object = None,
) -> Iterator[SettingFit]:
    """Fit each setting of a batch (`path_batches`): along a path in one call if there are several, else, or if that
    fails, one at a time.

    `make` returns an unfitted ranker for a setting. ``fit_path`` takes `rows` and, for rankers whose paths support it,
    `stop_on`, rows for early stopping. `learn` fits one ranker to the same rows. Errors that are not `caught` are
    raised.
    """
    names = (*takewhile(settings[0].__contains__, paths),)  # all of the path's parameters, or the first ones
    if names and (len(settings) > 1 or stop_on is not None):
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                values = [
                    setting[names[0]] if len(names) == 1 else tuple(map(setting.get, names)) for setting in settings
                ]
                more = {} if stop_on is None else {"eval_set": [stop_on]}
                leader = make(settings[0])
                rankers = list(leader.fit_path(*given_rows(leader, rows, "fit", "fit_path"), values, **more))
            if len(rankers) != len(values):
                raise ValueError(
                    f"fit_path returned {len(rankers)} rankers for {len(values)} values of {', '.join(names)}"
                )
            seconds = (time.perf_counter() - start) / len(settings)
            for setting, ranker in zip(settings, rankers):
                yield SettingFit(setting, ranker, seconds, None, warned)
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
        yield SettingFit(setting, ranker, time.perf_counter() - start, error, warned)


def paths_of(ranker: Ranker) -> tuple[str, ...]:
    """The parameters whose values one call of a ranker's (or class's) ``fit_path`` fits together; empty: none."""
    kind = ranker if isinstance(ranker, type) else type(ranker)
    home = next((place for place in kind.__mro__ if "fit_path" in vars(place)), None)
    if home is None or not follows(kind, home, *FITS):
        return ()
    first, several = getattr(kind, "path_parameter", "C"), getattr(kind, "path_parameters", ())
    return several if first in several else (first,)


class FoldOutcome(NamedTuple):
    """A setting on one fold."""

    setting: Setting
    value: float
    seconds: float
    problem: str | None = None
    scores: np.ndarray | None = None  # of held-out rows, if wanted
    reached: Mapping[str, int] = MappingProxyType({})  # parameter of a fit that stops early -> how far it came
    by_query: np.ndarray | None = None


class Folds(Protocol):
    """What settings are tried on, and the measure that compares them: folds of queries, of clicks or of ratings."""

    measure: str

    def __len__(self) -> int: ...

    def outcomes(self, k: int, ranker: Ranker, settings: Sequence[Setting]) -> Iterator[FoldOutcome]: ...

    def fit(self, ranker: Ranker) -> Ranker: ...

    def search(self, ranker: Ranker, given: Stage) -> Staged: ...


class QueryFolds:
    """Folds of the queries, each held out once, or one validation set.

    Parameters
    ----------
    data, measure, validation, folds : as in `tune`; every part of data in parts is split into folds
    seed : of the folds
    tol_factor : factor of the tolerance for fits that are only tried
    keep_scores : whether outcomes include the scores of held-out rows
    """

    around: Centre = None  # of clicks: the weights that fits stay near
    places: PlaceMeasure | None = None  # of clicks: the measure

    def __init__(
        self, data: object, measure: str, validation: object = None, folds: int = 5, seed: int = 0,
        tol_factor: float = 10.0, keep_scores: bool = False,
    ) -> None:  # fmt: skip
        kind = RowsInParts if isinstance(data, RowsInParts) else RankingData
        if not isinstance(data, kind) or not (validation is None or isinstance(validation, kind)):
            raise ValueError("tune takes RankingData: hingerank.read(path), or RankingData.from_arrays(X, y, qid)")
        self.data, self.measure, self.tol_factor, self.keep_scores = data, measure, tol_factor, keep_scores
        self._wanted = {} if self.places is not None else {measure: parse_measure(measure)}
        judged = data if validation is None else validation
        if isinstance(judged, RankingData):
            y = finite_numbers(judged.y, "y")
            check_measurable(self._wanted, y, lambda row: f"at row {row}")
            self._wanted = {name: wanted.on_scale(y.max()) for name, wanted in self._wanted.items()}
        elif self._wanted:
            self._wanted = {measure: judged.on_scale(measure)}
        self.parts, self.everything = _cut(data, validation, folds, seed)

    def __len__(self) -> int:
        return len(self.parts)

    def search(self, ranker: Ranker, given: Stage) -> Staged:
        """The settings worth trying for a ranker on these rows."""
        data = self.data
        found = usual_search(
            ranker, given, lambda: scales_for(data.sample(SAMPLED_ROWS) if isinstance(data, RowsInParts) else data.X)
        )
        at_once = ("context", "interactions") if isinstance(data, RowsInParts) or is_mapped(data.X) else ()
        stages = [{name: each for name, each in stage.items() if name not in at_once} for stage in found.stages]
        return replace(found, stages=stages, limits={"n_features": (1, data.n_features)})

    def fit(self, ranker: Ranker, rows: RowsLike = None) -> Ranker:
        """The ranker, fitted to rows of a fold; by default to everything."""
        X, y, qid = given_rows(ranker, self.everything if rows is None else rows, "fit")
        return ranker.fit(X, y, qid=qid)

    def outcomes(self, k: int, ranker: Ranker, settings: Sequence[Setting]) -> Iterator[FoldOutcome]:
        """The outcome of every setting on fold k."""
        train, held = (take() for take in self.parts[k])
        known, paths = ranker.get_params(deep=False), paths_of(ranker) if self.places is None else ()
        # rows are scaled once for all fits with the same scale, unless the ranker must do that itself: rows on workers,
        # in a mapped file or filled before scaling, and classes that change how rows are scaled
        scaled = self.around is None and isinstance(train, RankingData) and not is_mapped(train.X)
        scaled &= "scale" in known and known.get("kernel") != "precomputed"
        scaled &= all({**known, **each}.get("missing", "error") == "error" for each in settings)
        scaled &= follows(type(ranker), BaseRanker, *SCALED)
        by_scale: dict[str | None, list[Setting]] = {}
        for setting in settings:
            scale = clone(ranker).set_params(**setting)._scaling() if scaled else None
            by_scale.setdefault(scale, []).append(setting)
        for scale, group in by_scale.items():
            began, here, there = time.perf_counter(), train, held
            if scaled and scale is not None:
                try:
                    scaler = make_scaler(scale).fit(train.X)
                    here = replace(train, X=scaler.transform(train.X, train.qid))
                    there = replace(held, X=scaler.transform(held.X, held.qid))
                except ValueError as error:
                    yield from (FoldOutcome(setting, np.nan, 0.0, str(error)) for setting in group)
                    continue
            spent = (time.perf_counter() - began) / len(group)
            for batch in path_batches(group, paths):
                yield from self._measured(ranker, batch, paths, {"scale": None} if scaled else {}, here, there, spent)

    def _measured(
        self, ranker: Ranker, batch: list[Setting], paths: tuple[str, ...], fixed: Setting, here: RowsLike,
        there: RowsLike, spent: float,
    ) -> Iterator[FoldOutcome]:  # fmt: skip
        """Fit settings that differ only in the path's parameters, and measure them."""

        def make(setting: Setting) -> Ranker:
            made = clone(ranker).set_params(**setting | fixed)
            tol = made.get_params(deep=False).get("tol")
            if tol is not None and "tol" not in setting:
                made.set_params(tol=max(tol, min(self.tol_factor * tol, MOST_TOL)))
            return made

        stops = follows(type(ranker), TreeRanker, *FITS) and isinstance(there, RankingData)
        stop_on, learn = there if stops else None, partial(self.fit, rows=here)
        fits = list(fit_settings(make, batch, paths, here, learn, OF_A_SETTING, stop_on))
        began, fitted = time.perf_counter(), [fit.ranker for fit in fits if fit.error is None]
        judged = iter(self._judge(fitted, there) if fitted else ())
        spent += (time.perf_counter() - began) / len(batch)
        for fit in fits:
            seconds = fit.seconds + spent
            if fit.error is not None:
                yield FoldOutcome(fit.setting, np.nan, seconds, str(fit.error) or type(fit.error).__name__)
                continue
            by_query, scores = next(judged)
            known = by_query[~np.isnan(by_query)]
            value = float(known.mean()) if len(known) else np.nan
            reached = {name: fit.ranker.n_iter_ for name in paths if stops and name in fit.setting}
            kept, values = scores if self.keep_scores else None, by_query if len(known) else None
            yield FoldOutcome(fit.setting, value, seconds, None, kept, reached, values)

    def _judge(self, fitted: list[Ranker], there: RowsLike) -> Sequence[Judged]:
        """Every held-out query's value for each ranker, and the scores if the rows are in this process."""
        if isinstance(there, RowsInParts):
            (wanted,) = self._wanted.values()
            return [(values[str(wanted)], None) for values in there.evaluate(fitted, [wanted])]
        y, judged = np.ascontiguousarray(there.y, np.float64), []
        for scores in path_scores(fitted, there):
            numbers = finite_numbers(scores, "scores", there.n_rows)
            judged.append((query_values(self._wanted, y, numbers, there.blocks, there.docid)[self.measure], scores))
        return judged

    def lists_of(self, held: RowsLike) -> np.ndarray | None:
        """How often each query was shown, for clicks; else None."""
        return None

    def out_of_fold(self, scores: Sequence[Sequence[np.ndarray]]) -> OutOfFold:
        """The held-out scores of a blend's members, fold after fold, with the rows of a query together."""
        columns, grades, sizes, part, lists, docid = [], [], [], [], [], []
        for k, (_, take) in enumerate(self.parts):
            held = take()
            columns.append(held.blocks.gather(np.stack([own[k] for own in scores], axis=1)))
            grades.append(held.blocks.gather(held.y))
            sizes.append(held.blocks.sizes)
            part.append(np.full(held.n_queries, k))
            if (shown := self.lists_of(held)) is not None:
                lists.append(shown)
            if held.docid is not None:
                docid.append(held.blocks.gather(np.asarray(held.docid)))
        offsets = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
        of_query = np.concatenate(part)
        if len(self.parts) == 1:
            of_query = np.arange(len(of_query)) % PARTS
        y = np.concatenate(grades).astype(np.float64)
        more = [np.concatenate(each) if each else None for each in (lists, docid)]
        return OutOfFold(np.concatenate(columns), y, offsets, None, of_query, *more)


def _cut(data: RowsLike, validation: RowsLike, folds: int, seed: int) -> tuple[list[tuple[Take, Take]], RowsLike]:
    """What takes the rows that a fold learns from and those that it holds out, while it is used; and all data."""
    if validation is not None:
        if validation.n_features != data.n_features:
            raise DataError(
                f"validation has {validation.n_features} features but the data have {data.n_features}: use the same"
            )
        if isinstance(data, RowsInParts):
            return [(lambda: data, lambda: validation)], data.joined(validation)
        check_columns({"the data": data, "validation": validation})
        if sp.issparse(validation.X) and isinstance(data.X, np.ndarray):  # else the last fit's rows would be sparse
            validation = replace(validation, X=validation.X.toarray())
        held_out = replace(validation, feature_names=data.feature_names)
        numbers = [part.blocks.scatter(part.blocks.numbers) for part in (data, validation)]
        qids = numbers[0], numbers[1] + data.n_queries  # files often number their queries from 1 again
        renamed = [replace(part, qid=q, docid=None) for part, q in zip((data, validation), qids)]
        return [(lambda: data, lambda: held_out)], RankingData.concatenate(renamed)
    folds = whole("folds", folds, 2)
    if data.n_queries < 2:
        raise DataError("tuning holds out whole queries, but the data have only one: give query ids or validation=")
    folds = min(folds, data.n_queries)
    if isinstance(data, RowsInParts):
        return [(partial(data.fold, k, folds, False), partial(data.fold, k, folds, True)) for k in range(folds)], data
    rows = [(np.delete(np.arange(data.n_rows), held), held) for held in data.part_rows(folds, seed)]
    return [(partial(data.take, learnt), partial(data.take, held)) for learnt, held in rows], data


def path_scores(path: list[Ranker], rows: RankingData) -> list[np.ndarray]:
    """The scores of every ranker of one path; rows are mapped once for rankers that share a feature map."""
    first = path[0]
    apart = not follows(type(first), MappedRanker, "fit", "fit_path", *SCORES) or not all(map(first.shares_map, path))
    if apart or is_mapped(rows.X):
        return [predict_rows(member, rows) for member in path]
    X = first._scaled(check_features(first, rows, reset=False), rows.qid)
    return list(first._map.scores(X, np.stack([member.coef_ for member in path], axis=1)).T)


class ClickFolds(QueryFolds):
    """Folds of queries; the value of a held-out one is  Σ over rows of discount(rank) · weight / lists.

    The weights are those that a fit learns from (`click_weights`), estimated once: a query's weights come from its own
    clicks, and also from other queries if the correction regresses relevance on features.

    Parameters
    ----------
    data, validation : ClickData
    measure : "dcg@10", "average-rank", ... (`hingerank.metrics.places`)
    folds, seed, keep_scores : as in QueryFolds
    propensities, correction, clip, around : as in `fit_clicks`
    """

    places: PlaceMeasure

    def __init__(
        self,
        data: ClickData,
        measure: str,
        validation: object = None,
        folds: int = 5,
        seed: int = 0,
        keep_scores: bool = False,
        *,
        propensities: Propensities = None,
        correction: str = "ips",
        clip: float | None = None,
        around: Centre = None,
    ) -> None:
        given = [part for part in (data, validation) if isinstance(part, ClickData)]
        if len(given) < (1 if validation is None else 2):
            raise ValueError("validation must be clicks joined with features (log.join(data)), like the data")
        for each in given:
            refuse_parts(each, "settings are chosen")
        rows = [replace(p.data, y=click_weights(p, propensities, correction, clip), docid=None) for p in given]
        self.places, self.around = parse_place_measure(measure), around
        super().__init__(rows[0], measure, rows[1] if len(rows) > 1 else None, folds, seed, keep_scores=keep_scores)
        self.shown = dict(zip(given[-1].data.blocks.ids.tolist(), np.asarray(given[-1].lists).tolist()))

    def search(self, ranker: Ranker, given: Stage) -> Staged:
        """The same; grids of a C that multiplies a sum over clicks are scaled to the weight of the pairs here.

        The factor is a power of ten near 1 / the mean weight of winners: it corresponds to 1 for pairs of weight 1.
        """
        found, u = super().search(ranker, given), self.everything.y
        usual = 10.0 ** -round(float(np.log10(u[u > 0].mean())))
        stages = [dict(stage) for stage in found.stages]
        for stage in stages if "C" not in given and not isinstance(ranker, SparseRanker) else ():
            if "C" in stage and stage["C"] is not AROUND:
                stage["C"] = [value * usual for value in stage["C"]]
        low, high = LIMITS["C"]
        return replace(
            found, stages=stages, limits={**found.limits, "C": (low * min(1.0, usual), high * max(1.0, usual))}
        )

    def fit(self, ranker: Ranker, rows: RowsLike = None) -> Ranker:
        return check_winners(ranker).fit_winners(self.everything if rows is None else rows, around=self.around)

    def _judge(self, fitted: list[Ranker], there: RowsLike) -> Sequence[Judged]:
        """For each ranker every query's value, scaled so that its mean over queries is that over lists; its scores."""
        blocks, lists = there.blocks, self.lists_of(there)
        y, scores = blocks.gather(there.y), path_scores(fitted, there)
        return [(self.places.values(blocks.gather(s), y, blocks.offsets, lists), s) for s in scores]

    def lists_of(self, held: RowsLike) -> np.ndarray:
        return np.array([self.shown.get(query, 0.0) for query in held.blocks.ids.tolist()])
