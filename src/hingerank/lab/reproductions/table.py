"""A table of a paper: its figures, and how to compute ours."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hingerank.data.errors import DataError


@dataclass(frozen=True)
class Ours:
    """What we found for one row of a table.

    values: by column. marks: signs of significance by column. spread: the standard deviation over folds, where there
    are several. chosen: what validation chose in each fold. seconds: median time of a fit.
    """

    values: Mapping[str, float]
    marks: Mapping[str, str] | None = None
    spread: Mapping[str, float] | None = None
    chosen: Sequence[Mapping[str, Any]] = ()
    seconds: float | None = None


@dataclass(frozen=True)
class Place:
    """Where data are and results go, and how much of it to run.

    data: the folder of real sets. runs: the folder where runs are kept and continued. folds: the numbers of the folds
    to run, None for all of the table's. progress: a callback for `compare`. workers: processes.
    """

    data: Path
    runs: Path
    folds: Sequence[int] | None = None
    progress: Callable[[Any], None] | None = None
    workers: int | None = None

    def find(self, name: str) -> Path:
        """A data set's folder; a DataError that says what to do where it is not there."""
        path = self.data / name
        if not path.exists():
            raise DataError(
                f"there is no {name} in {self.data}: set $HINGERANK_DATA, or give --data, to the folder that holds it; "
                "`hingerank fetch --list` says where public sets come from"
            )
        return path


@dataclass(frozen=True)
class Section:
    """Part of a table that one data set fills: figures of the paper by row, one for each column (None: not given).

    compute answers {row: Ours}; a row there that the paper does not have is shown beside the others. close: a
    difference up to this counts as the same figure. digits: to show. note: what the marks mean. after: what the paper
    prints after the figures of a row, such as marks and standard deviations; such a row shows ours too.
    """

    title: str
    columns: Sequence[str]
    figures: Mapping[str, Sequence[float | None]]
    compute: Callable[[Place], Mapping[str, Ours]]
    close: float = 0.01
    digits: int = 4
    note: str = ""
    after: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperTable:
    """name: as on the command line. paper, title: what it is a table of. setup: how ours is made and how that differs
    from the paper's way. finding: what matches and what does not, written when the results were in."""

    name: str
    paper: str
    title: str
    setup: str
    sections: Sequence[Section]
    finding: str = ""

    @property
    def cited(self) -> str:
        """Authors and year."""
        return self.paper.partition(",")[0]


TIME = "seconds"  # a column of this name is shown but not compared: machines differ


def default_data() -> Path:
    """$HINGERANK_DATA, else ../shared/data."""
    return Path(os.environ.get("HINGERANK_DATA", "../shared/data"))
