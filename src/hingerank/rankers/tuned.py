"""What tuning found, kept with the ranker that it gave."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hingerank.notebook import html_table, shown


@dataclass(frozen=True)
class Trial:
    """One setting: its value on every fold, their mean and standard error, the seconds of its fits, what went wrong."""

    ranker: str
    setting: dict[str, Any]
    scores: list[float]
    mean: float
    error: float
    seconds: float
    problem: str | None = None


@dataclass(frozen=True)
class Tuning:
    """What `hingerank.tune` tried.

    Attributes
    ----------
    measure : what was maximised
    folds : over how many folds of queries; 1 for a validation set
    ranker, best : the name and the setting chosen
    trials : every setting tried, with its score on each fold and its seconds
    seconds : of the whole search, the last fit on everything included
    widened : parameter -> values that were added because the best one was at the edge of the grid
    """

    measure: str
    folds: int
    ranker: str
    best: dict[str, Any]
    trials: list[Trial]
    seconds: float
    widened: dict[str, list[Any]]

    @property
    def chosen(self) -> Trial:
        """The trial of the chosen setting."""
        return next(t for t in self.trials if t.ranker == self.ranker and t.setting == self.best)

    @property
    def score(self) -> float:
        """The mean over folds of the chosen setting."""
        return self.chosen.mean

    def table(self, top: int | None = None) -> tuple[list[str], list[list[Any]]]:
        """Names of columns, and rows: the best settings first."""
        several = len({t.ranker for t in self.trials}) > 1
        names = list(dict.fromkeys(name for t in self.trials for name in t.setting))
        order = sorted(self.trials, key=lambda t: (np.isnan(t.mean), -np.nan_to_num(t.mean)))[:top]
        rows = [
            [
                *([t.ranker] if several else []),
                *(_word(t.setting[n]) if n in t.setting else "" for n in names),
                t.mean,
                t.error,
                t.seconds,
                ("chosen" if t is self.chosen else "") if t.problem is None else t.problem,
            ]
            for t in order
        ]
        return [*(["ranker"] if several else []), *names, self.measure, "± error", "seconds", ""], rows

    def __str__(self) -> str:
        chosen = self.chosen
        words = ", ".join(f"{name}={_word(value)}" for name, value in self.best.items()) or "no setting to choose"
        return (
            f"{self.ranker}: {words}; {self.measure} {chosen.mean:.4f} ± {chosen.error:.4f} over {self.folds} "
            f"fold{'s' * (self.folds > 1)}, {len(self.trials)} settings in {self.seconds:.1f} s"
        )

    def _repr_html_(self) -> str:
        return html_table(str(self), *self.table(20))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Tuning":
        """The inverse of `to_dict`; entries that do not belong there are a ValueError."""
        try:
            found = cls(**{**values, "trials": [Trial(**trial) for trial in values["trials"]]})
            found.chosen.mean  # noqa: B018  (it has one)
        except (TypeError, KeyError, StopIteration, AttributeError) as error:
            raise ValueError(f"tuning_ is not what tune found: {error!r}") from None
        return found


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else shown(value)
