"""Results of a comparison as values: one long table with the few views of it that summaries need."""

import csv
import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.checks import decimal
from hingerank.data.files import canonical, write_whole
from hingerank.lab.run_folder import Record, current, read_header, read_results

COLUMNS = ("method", "fold", "query", "measure", "value", "seconds", "setting", "versions", "seed")
DAMAGE = (  # what numpy, zip and deflate answer to bytes that are not theirs
    OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """What came out of a comparison.

    Attributes
    ----------
    header : what was compared (run.json)
    records : what the methods' present code gave (results.jsonl), of two kinds
        "validation" has a setting's ``value``; "test" has the chosen setting's ``values``, lists by measure in the
        order of ``queries`` (None where a measure is not defined); both have ``seconds`` (to fit) and ``error`` (None
        where all went well).
    folder : where both are
    """

    header: Record
    records: list[Record]
    folder: Path | None = None
    _tests: dict[tuple[str, str], Record] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", current(self.header, self.records))
        found = {(r["method"], r["fold"]): r for r in self.records if r["kind"] == "test"}
        object.__setattr__(self, "_tests", found)

    @property
    def methods(self) -> list[str]:
        return list(self.header["methods"])

    @property
    def folds(self) -> list[str]:
        return [fold["name"] for fold in self.header["folds"]]

    @property
    def measures(self) -> list[str]:
        return list(self.header["measures"])

    def test(self, method: str, fold: str) -> Record | None:
        """The test record of a method on a fold; None while there is none or where it failed."""
        record = self._tests.get((method, fold))
        return None if record is None or record["error"] else record

    def tests(self, method: str) -> list[Record]:
        """The good test records of a method, in the order of the folds."""
        return [record for fold in self.folds if (record := self.test(method, fold)) is not None]

    def fold_means(self, method: str, measure: str) -> np.ndarray:
        """The test mean over queries in each fold that has one."""
        return np.array([mean_value(record, measure) for record in self.tests(method)])

    def per_query(self, method: str, measure: str) -> dict[tuple[str, Any], float]:
        """{(fold, query): value} over the test queries of all folds for which the measure is defined."""
        return {
            (record["fold"], query): value
            for record in self.tests(method)
            for query, value in zip(record["queries"], record["values"][measure])
            if value is not None
        }

    def validations(self, method: str) -> list[Record]:
        """The latest validation record of each fold and setting, sorted by fold, then setting."""
        found = {
            (self.folds.index(r["fold"]), canonical(r["setting"])): r
            for r in self.records
            if r["kind"] == "validation" and r["method"] == method and r["fold"] in self.folds
        }
        return [found[key] for key in sorted(found)]

    def failures(self) -> list[Record]:
        """Latest records with an error: methods in order, folds in order, settings sorted, validation before test."""
        last = [*self._tests.values(), *(r for method in self.methods for r in self.validations(method))]
        place = {name: i for i, name in enumerate(self.methods)}
        known = [r for r in last if r["error"] and r["method"] in place and r["fold"] in self.folds]

        def order(r: Record) -> tuple[Any, ...]:
            return place[r["method"]], self.folds.index(r["fold"]), r["kind"] == "test", canonical(r["setting"])

        return sorted(known, key=order)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The long table, COLUMNS wide: a row for each method, fold, test query and measure, in that order."""
        for method in self.methods:
            for record in self.tests(method):
                rest = record["seconds"], record["setting"], record["versions"], record["seed"]
                for measure in self.measures:
                    for query, value in zip(record["queries"], record["values"][measure]):
                        yield method, record["fold"], query, measure, value, *rest

    def table(self) -> dict[str, list[Any]]:
        """The long table by column: `pandas.DataFrame(results.table())` and its like take it as it is."""
        columns = list(zip(*self.rows())) or [()] * len(COLUMNS)
        return {name: list(column) for name, column in zip(COLUMNS, columns)}

    def write_csv(self, path: Path | str) -> None:
        """The long table as CSV; settings and versions as JSON in their cells."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for *head, setting, made_with, seed in self.rows():
            writer.writerow(map(no_formula, [*head, canonical(setting), canonical(made_with), seed]))
        write_whole(Path(path), text.getvalue().encode())

    def arrays(self, method: str, fold: str) -> dict[str, np.ndarray]:
        """Test scores ("scores", rows in the order of the test part), and "weights" or a "basis" if there are any."""
        record = self.test(method, fold)
        if record is None or self.folder is None or "arrays" not in record:
            return {}
        path = self.folder / record["arrays"]
        if not path.exists():
            return {}
        content = path.read_bytes()
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            if len(found) != int.from_bytes(content[-12:-10], "little"):  # how many there are, by the zip file's end
                raise ValueError("arrays are missing")
            return found
        except DAMAGE as error:
            raise ValueError(f"{path} is damaged: delete it, and do without these scores and weights") from error


def no_formula(cell: Any) -> Any:
    """A cell of CSV, text that a spreadsheet would run beginning with an apostrophe.

    >>> no_formula("=1+1"), no_formula("-0.5"), no_formula(-0.5)
    ("'=1+1", '-0.5', -0.5)
    """
    runs = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) and decimal(cell) is None
    return f"'{cell}" if runs else cell


def mean_value(record: Record, measure: str) -> float:
    """The mean of a test record's values, without queries for which the measure is not defined."""
    known = [value for value in record["values"][measure] if value is not None]
    return float(np.mean(known)) if known else float("nan")


def load_results(folder: Path | str) -> Results:
    """The results of a run folder, finished or still running."""
    folder = Path(folder)
    header = read_header(folder)
    if header is None:
        raise ValueError(f"{folder} holds no run: expected a file run.json there, as `hingerank compare -o` writes it")
    path = folder / "results.jsonl"
    return Results(header, read_results(path) if path.exists() else [], folder)
