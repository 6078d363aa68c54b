"""The results of tuning, kept with the chosen ranker."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from hingerank.arrays import Facts, Given
from hingerank.metrics.evaluator import standard_error
from hingerank.notebook import html_table, shown


@dataclass(frozen=True)
class Trial:
    """One setting: its value on every fold, their mean and standard error, the seconds of its fits, what went wrong.

    `served` is False if the target of `tune(..., serve=...)` cannot run it.
    """

    ranker: str
    setting: Facts
    scores: list[float]
    mean: float
    error: float
    seconds: float
    problem: str | None = None
    served: bool = True


@dataclass(frozen=True)
class Tuning:
    """What `hingerank.tune` tried.

    Attributes
    ----------
    measure : what was maximised
    folds : number of folds of queries; 1 for a validation set
    ranker, best : the name and the setting chosen
    trials : every setting tried, with its score on each fold and its seconds
    seconds : duration of the whole search, including the last fit on all rows
    widened : parameter -> values that were added because the best one was at the edge of the grid
    serve : the target that the setting was chosen for, or None
    free : "ranker" and "setting" that would have been chosen without the target, if that was tried
    advice : where the setting in ``free`` can run, if the target costs much; without a target, a note if no export
        supports the chosen setting
    members : for a blend, the setting of each member
    """

    measure: str
    folds: int
    ranker: str
    best: Facts
    trials: list[Trial]
    seconds: float
    widened: dict[str, list[object]]
    serve: str | None = None
    free: Facts | None = None
    advice: str = ""
    members: dict[str, Facts] = field(default_factory=dict)

    @property
    def chosen(self) -> Trial:
        """The trial of the chosen setting."""
        return self._trial(self.ranker, self.best)

    def _trial(self, ranker: str, setting: Facts) -> Trial:
        return next(t for t in self.trials if t.ranker == ranker and t.setting == setting)

    @property
    def serve_cost(self) -> tuple[float, float] | None:
        """What the target costs in the measure: the mean over folds of the free choice's value minus the chosen one's,
        and its standard error (nan for one fold). None without a target, or if only what it runs was tried.
        """
        if self.free is None:
            return None
        return difference(self._trial(**self.free).scores, self.chosen.scores)

    @property
    def score(self) -> float:
        """The mean over folds of the chosen setting."""
        return self.chosen.mean

    def table(self, top: int | None = None) -> tuple[list[str], list[list[object]]]:
        """Names of columns, and rows: the best settings first, of equal ones the chosen; it is always among the top."""
        several = len({t.ranker for t in self.trials}) > 1
        names = list(dict.fromkeys(name for t in self.trials for name in t.setting))
        order = sorted(self.trials, key=lambda t: (np.isnan(t.mean), -np.nan_to_num(t.mean), t is not self.chosen))
        if top is not None and order.index(self.chosen) >= top > 0:
            order[top - 1] = self.chosen
        rows = [
            [
                *([t.ranker] if several else []),
                *(_word(t.setting[n]) if n in t.setting else "" for n in names),
                t.mean,
                t.error,
                t.seconds,
                self._remark(t),
            ]
            for t in order[:top]
        ]
        return [*(["ranker"] if several else []), *names, self.measure, "± error", "seconds", ""], rows

    def _remark(self, trial: Trial) -> str:
        if trial.problem is not None:
            return trial.problem
        return "chosen" if trial is self.chosen else "" if trial.served else f"not in {self.serve}"

    def __str__(self) -> str:
        chosen = self.chosen
        words = (
            f"{self.ranker}: {_words(self.best)}; {self.measure} {chosen.mean:.4f} ± {chosen.error:.4f} over "
            f"{self.folds} fold{'s' * (self.folds > 1)}, {len(self.trials)} settings in {self.seconds:.1f} s"
        )
        remark = self._cost() if self.serve is not None else self.advice
        return f"{words}; {remark}" if remark else words

    def _cost(self) -> str:
        """What the target costs, in words."""
        if self.free is None or self.serve_cost is None:
            return f"only settings that {self.serve} can run were tried, so the cost of this limit is not known"
        cost, error = self.serve_cost
        if self.free == {"ranker": self.ranker, "setting": self.best}:
            return f"{self.serve} can run the best setting of all, so it costs nothing"
        free = self._trial(**self.free)
        spread = "" if np.isnan(error) else f" ± {error:.4f}"
        words = f"running in {self.serve} costs {cost:.4f}{spread} against {free.ranker} with {_words(free.setting)}"
        return f"{words}; {self.advice}" if self.advice else words

    def _repr_html_(self) -> str:
        return html_table(str(self), *self.table(20))

    def to_dict(self) -> Facts:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Given) -> "Tuning":
        """The inverse of `to_dict`; entries that do not belong there are a ValueError."""
        try:
            found = cls(**{**values, "trials": [Trial(**trial) for trial in values["trials"]]})
            found.chosen.mean, found.serve_cost  # noqa: B018  (it has them)
        except (TypeError, KeyError, StopIteration, AttributeError) as error:
            raise ValueError(f"tuning_ is not what tune found: {error!r}") from None
        return found


def difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Mean of first - second over folds, and its standard error; nan for one fold."""
    each = np.subtract(first, second)
    return float(each.mean()), standard_error(each) if len(each) > 1 else np.nan


def _words(setting: Given) -> str:
    return ", ".join(f"{name}={_word(value)}" for name, value in setting.items()) or "no setting to choose"


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else shown(value)
