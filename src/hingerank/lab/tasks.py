"""What one worker does: fit a ranker and measure it on validation, or fit the chosen one and measure it on test.

Test rows are touched in `test_task` only, and only after the setting was chosen.
"""

import inspect
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.files import plain
from hingerank.data.ranking_data import RankingData
from hingerank.lab.folds import Fold
from hingerank.lab.methods import Method
from hingerank.lab.run_folder import Record, versions
from hingerank.lab.search import Setting

TRACE_POINTS = 200


@dataclass(frozen=True, eq=False)
class Plan:
    """What all tasks of a run share. measure chooses settings; measures are taken on test; folder: where scores go."""

    folds: Sequence[Fold]
    measure: str
    measures: Sequence[str]
    seed: int
    folder: Path | None

    _last: Any = None

    def part(self, fold: int, name: str) -> RankingData:
        """A part of a fold; those of the fold used last are kept."""
        if self._last is None or self._last[0] != fold:
            object.__setattr__(self, "_last", (fold, {}))
        parts = self._last[1]
        if name not in parts:
            parts[name] = self.folds[fold].part(name)
        return parts[name]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": None}


@dataclass(frozen=True, eq=False)
class Task:
    """kind "validation" with settings to try, or "test" with the one chosen setting."""

    kind: str
    method: Method
    fold: int
    settings: list[Setting]

    def run(self, plan: Plan) -> list[Record]:
        return validation_task(self, plan) if self.kind == "validation" else [test_task(self, plan)]

    def failed(self, plan: Plan, message: str) -> list[Record]:
        """The records of a task that ended without any."""
        return [self.record(plan, setting, value=None, seconds=None, error=message) for setting in self.settings]

    def record(self, plan: Plan, setting: Setting, **rest: Any) -> Record:
        return {
            "kind": self.kind,
            "method": self.method.name,
            "fold": plan.folds[self.fold].name,
            "setting": plain(setting),
            "seed": plan.seed,
            "versions": versions(),
            **rest,
        }


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted ranker, or the error that stopped it; seconds it took; warnings it gave."""

    setting: Setting
    ranker: Any
    seconds: float
    error: str | None = None
    warned: tuple[str, ...] = ()


def validation_task(task: Task, plan: Plan) -> list[Record]:
    """One record for each setting: the mean of the choosing measure over the validation queries."""
    train, validation = plan.part(task.fold, "train"), plan.part(task.fold, "validation")
    records = []
    for fit in fits(task.method, task.settings, train, plan.seed):
        value, error = None, fit.error
        if error is None:
            try:
                value = _measure(validation, _scores(fit.ranker, validation), plan.measure)
            except Exception as problem:
                error = _name(problem)
        about = {"measure": plan.measure, "value": value, "seconds": fit.seconds, "error": error}
        records.append(task.record(plan, fit.setting, **about, warnings=list(fit.warned)))
    return records


def test_task(task: Task, plan: Plan) -> Record:
    """Fit the chosen setting on the training rows and measure it, once, on the test rows."""
    setting = task.settings[0]
    fit = next(fits(task.method, [setting], plan.part(task.fold, "train"), plan.seed))
    about: Record = {"seconds": fit.seconds, "error": fit.error, "warnings": list(fit.warned)}
    if fit.error is not None:
        return task.record(plan, setting, **about)
    test = plan.part(task.fold, "test")
    try:
        start = time.perf_counter()
        scores = _scores(fit.ranker, test)
        about["predict_seconds"] = time.perf_counter() - start
        about["values"] = _measure_queries(test, scores, plan.measures)
        about["queries"] = [q if isinstance(q, (int, str)) else str(q) for q in test.blocks.ids.tolist()]
    except Exception as problem:
        return task.record(plan, setting, **{**about, "error": _name(problem)})
    about["certificate"] = _plain_certificate(fit.ranker)
    about["trace"] = _thin(getattr(fit.ranker, "trace_", None))
    if plan.folder is not None:
        about["arrays"] = save_arrays(plan.folder, task.method.name, plan.folds[task.fold].name, scores, fit.ranker)
    return task.record(plan, setting, **about)


def fits(method: Method, settings: list[Setting], train: RankingData, seed: int) -> Iterator[Fit]:
    """Fit each setting; along a path in one go where the ranker can, else, or if that fails, one at a time."""
    path = method.path
    if len(settings) > 1 and path is not None:
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                values = [setting[path] for setting in settings]
                rankers = list(method.make(settings[0], seed).fit_path(train.X, train.y, train.qid, values))
            if len(rankers) != len(values):
                raise ValueError(f"fit_path gave {len(rankers)} rankers for {len(values)} values of {path}")
            share = (time.perf_counter() - start) / len(settings)
            for setting, ranker in zip(settings, rankers):
                yield Fit(setting, ranker, share, None, _texts(warned))
            return
        except Exception:  # find out below which of the settings it was
            pass
    for setting in settings:
        start, ranker, error = time.perf_counter(), None, None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                ranker = method.make(setting, seed)
                ranker.fit(train.X, train.y, qid=train.qid)
            except Exception as problem:
                error = _name(problem)
        yield Fit(setting, ranker, time.perf_counter() - start, error, _texts(warned))


def save_arrays(folder: Path, method: str, fold: str, scores: np.ndarray, ranker: Any) -> str:
    """Keep the test scores, and any weights or basis, beside the results; answers the file's name in the folder."""
    import io

    from hingerank.lab.run_folder import write_whole

    arrays = {"scores": scores}
    weights = getattr(ranker, "coef_", None)
    if isinstance(weights, np.ndarray) and weights.ndim == 1:
        arrays["weights"] = weights
    basis = getattr(ranker, "basis_", None)
    if isinstance(basis, np.ndarray) and basis.ndim == 2:
        arrays["basis"] = (basis * np.where(ranker.user_weights_.mean(axis=0) < 0, -1, 1)).astype(np.float32)
    name = f"arrays/{_file_name(method)}.{_file_name(fold)}.npz"
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_whole(folder / name, buffer.getvalue())
    return name


def _file_name(text: str) -> str:
    """A safe file name that differs whenever the text does."""
    import re
    import zlib

    safe = re.sub(r"[^A-Za-z0-9-]+", "-", text)[:60]
    return safe if safe == text else f"{safe}-{zlib.crc32(text.encode()):08x}"


def _scores(ranker: Any, data: RankingData) -> np.ndarray:
    asks_qid = "qid" in inspect.signature(ranker.predict).parameters
    scores = np.asarray(ranker.predict(data.X, qid=data.qid) if asks_qid else ranker.predict(data.X), float)
    if scores.shape != (data.n_rows,):
        raise ValueError(f"predict gave an array of shape {scores.shape} for {data.n_rows} rows")
    if not np.isfinite(scores).all():
        raise ValueError(f"predict gave {scores[~np.isfinite(scores)][0]} as a score")
    return scores


def _measure(data: RankingData, scores: np.ndarray, measure: str) -> float:
    from hingerank.metrics import evaluate

    value = float(evaluate(data.y, scores, data.qid, [measure], docid=data.docid)[measure])
    if not np.isfinite(value):
        raise ValueError(f"{measure} is {value} on the validation queries: it cannot choose a setting")
    return value


def _measure_queries(data: RankingData, scores: np.ndarray, measures: Sequence[str]) -> dict[str, list[float]]:
    """{measure: a value per query}, NaN where a measure is not defined for a query."""
    from hingerank.metrics import evaluate

    values = evaluate(data.y, scores, data.qid, list(measures), per_query=True, docid=data.docid)
    return {name: np.asarray(values[name], float).tolist() for name in measures}


def _plain_certificate(ranker: Any) -> Any:
    certificate: Any = getattr(ranker, "certificate_", None)
    return plain(certificate.to_dict() if hasattr(certificate, "to_dict") else certificate)


def _thin(trace: Any) -> list[Any]:
    """At most TRACE_POINTS entries of a trace, the first and the last among them."""
    if not isinstance(trace, (list, tuple)) or not trace:
        return []
    places = np.unique(np.linspace(0, len(trace) - 1, min(len(trace), TRACE_POINTS)).astype(int))
    return [plain(trace[i]) for i in places]


def _texts(warned: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in warned))


def _name(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"
