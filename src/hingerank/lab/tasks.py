"""What one worker of a comparison does: fit settings to the rows, lists or topics of a fold, and measure them.

Test rows are touched in `Task._tested` only, and only after the setting was chosen.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from hingerank.arrays import Facts, Ranker
from hingerank.data.files import plain
from hingerank.data.ranking_data import RankingData
from hingerank.lab.folds import Fold, size_text, take_queries
from hingerank.lab.kinds import kind_of
from hingerank.lab.methods import Method
from hingerank.lab.run_folder import Record, plain_id, save_arrays, versions
from hingerank.metrics.evaluator import mean_over_queries
from hingerank.metrics.measure import MeasureLike
from hingerank.search.folds import fit_settings
from hingerank.search.settings import Setting
from hingerank.solvers.run import Certificate

TRACE_POINTS = 200


@dataclass(eq=False)
class ComparisonPlan:
    """What all tasks of a run share."""

    folds: Sequence[Fold]
    measures: Mapping[str, MeasureLike]  # are taken on test, prepared by the data's kind; the first chooses settings
    seed: int
    folder: Path | None  # where scores go; None for nowhere
    seeds: Mapping[str, int] = field(default_factory=dict)  # method -> fits of a chosen setting, if more than one
    sizes: Sequence[float] = (1.0,)  # fractions of the training queries
    _fold: int = -1
    _parts: dict[str, RankingData] = field(default_factory=dict)

    def part(self, fold: int, name: str) -> RankingData:
        """A part of a fold; those of the fold used last are kept."""
        if fold != self._fold:
            self._fold, self._parts = fold, {}
        if name not in self._parts:
            self._parts[name] = self.folds[fold].part(name)
        return self._parts[name]

    def __getstate__(self) -> Facts:
        """Without measures, which a notebook may define: `Workers` sends them with every task."""
        return {**vars(self), "_fold": -1, "_parts": {}, "measures": {}}


@dataclass(frozen=True, eq=False)
class Task:
    """kind "validation" with settings to try, or "test" with the one chosen setting; size: fraction of the queries."""

    kind: str
    method: Method
    fold: int
    settings: list[Setting]
    seed: int
    size: float = 1.0

    def __str__(self) -> str:
        return f"the method {self.method.name}"

    def run(self, plan: ComparisonPlan) -> list[Record]:
        """A record for each setting."""
        records = []
        train = take_queries(plan.part(self.fold, "train"), self.size, plan.seed)
        make = partial(self.method.make, seed=self.seed)
        for fit in fit_settings(make, self.settings, self.method.paths, train, kind_of(train).learn):
            warned = list(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in fit.warned))
            about: Record = {"seconds": fit.seconds, "error": None, "warnings": warned}
            about |= {"measure": next(iter(plan.measures)), "value": None} if self.kind == "validation" else {}
            error, scores = fit.error, None
            try:
                if error is None and self.kind == "validation":
                    about["value"] = self._validated(fit.ranker, plan)
                elif error is None:
                    scores, found = self._tested(fit.ranker, plan)
                    about |= found
            except Exception as problem:
                error = problem
            if error is not None:
                about["error"] = f"{type(error).__name__}: {error}"
            if scores is not None:
                about |= self._kept(fit.ranker, scores, plan)
            records.append(self._record(plan, fit.setting, **about))
        return records

    def _validated(self, ranker: Ranker, plan: ComparisonPlan) -> float:
        """The mean of the choosing measure over the validation queries."""
        part = kind_of(plan.part(self.fold, "validation"))
        name, measure = next(iter(plan.measures.items()))
        value = mean_over_queries(part.values(part.scores(ranker), {name: measure})[name])
        if not np.isfinite(value):
            raise ValueError(f"{name} is {value} on the validation queries: it cannot choose a setting")
        return value

    def _tested(self, ranker: Ranker, plan: ComparisonPlan) -> tuple[np.ndarray, Record]:
        """Scores, and the measures of every test query, NaN where one is not defined for it."""
        part = kind_of(plan.part(self.fold, "test"))
        start = time.perf_counter()
        scores = part.scores(ranker)
        seconds = time.perf_counter() - start
        found = part.values(scores, plan.measures)
        values = {name: of_queries.tolist() for name, of_queries in found.items()}
        queries = [plain_id(query) for query in part.data.blocks.ids.tolist()]
        return scores, {"predict_seconds": seconds, "values": values, "queries": queries}

    def _kept(self, ranker: Ranker, scores: np.ndarray, plan: ComparisonPlan) -> Record:
        """What to keep of the ranker that was tested; scores and weights go to a file of the run's folder."""
        certificate, trace = getattr(ranker, "certificate_", None), getattr(ranker, "trace_", None)
        if not isinstance(trace, (list, tuple)):
            trace = []
        thin = np.unique(np.linspace(0, len(trace) - 1, min(len(trace), TRACE_POINTS)).astype(int))  # with both ends
        about = {
            "certificate": plain(certificate.to_dict() if isinstance(certificate, Certificate) else certificate),
            "trace": [plain(trace[i]) for i in thin],
        }
        if plan.folder is not None:
            name = plan.folds[self.fold].name
            name += "" if self.seed == plan.seed else f" seed {self.seed}"
            name += "" if self.size == 1 else f" {size_text(self.size)}"
            features = plan.part(self.fold, "test").names
            about["arrays"] = save_arrays(plan.folder, self.method.name, name, scores, ranker, features)
        return about

    def failed(self, plan: ComparisonPlan, message: str) -> list[Record]:
        """The records of a task that ended without any."""
        return [self._record(plan, setting, value=None, seconds=None, error=message) for setting in self.settings]

    def _record(self, plan: ComparisonPlan, setting: Setting, **rest: object) -> Record:
        return {
            "kind": self.kind,
            "method": self.method.name,
            "fold": plan.folds[self.fold].name,
            "setting": plain(setting),
            "seed": self.seed,
            **({} if self.size == 1 else {"size": self.size}),
            "versions": versions(),
            **rest,
        }
