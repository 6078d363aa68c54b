"""Results of a comparison as values: one long table with the few views of it that summaries need.

A query that was tested several times, by several seeds or in several folds, is one query: `Results.per_query` has it
once, with the mean of its values.
"""

import csv
import io
import zipfile
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hingerank.data.checks import decimal
from hingerank.data.files import canonical, no_such_file, write_whole
from hingerank.lab.folds import Fold
from hingerank.lab.run_folder import Record, current, file_name, read_header, read_results, write_arrays
from hingerank.rankers.inputs import default_names

COLUMNS = ("method", "fold", "query", "measure", "value", "seconds", "setting", "versions", "seed", "size")
DAMAGE = (  # errors of numpy, zip and deflate for damaged files
    OSError, ValueError, EOFError, KeyError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """The results of a comparison.

    Attributes
    ----------
    header : what was compared (run.json)
    records : results of the methods' present code (results.jsonl), of two kinds
        "validation" has a setting's ``value``; "test" has the chosen setting's ``values``, lists by measure in the
        order of ``queries`` (None where a measure is not defined). Both have ``seconds`` (to fit) and ``error`` (None
        without an error).
    folder : where both are stored
    size : the fraction of the training queries that was learnt from; `at` gives the results of another one
    """

    header: Record
    records: list[Record]
    folder: Path | None = None
    size: float = 1.0
    _tests: dict[tuple[str, str, int], Record] = field(init=False, repr=False)  # the latest by method, fold and seed

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", current(self.header, self.records))
        tests = [r for r in self.records if r["kind"] == "test" and size_of(r) == self.size]
        found = {(r["method"], r["fold"], r.get("seed", self.header["seed"])): r for r in tests}
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

    @property
    def sizes(self) -> list[float]:
        """Fractions of the training queries that methods learnt from, smallest first; the last is 1."""
        return list(self.header.get("sizes", [1.0]))

    def at(self, size: float) -> "Results":
        """The results of learning from this fraction of the training queries, one of `sizes`."""
        check_known("size", round(size, 6), self.sizes)
        return replace(self, size=round(size, 6))

    def seeds(self, method: str) -> list[int]:
        """The seeds that a method is fitted with, the run's own first; one for a method without randomness."""
        first = self.header["seed"]
        return list(range(first, first + self.header.get("seeds", {}).get(method, 1)))

    def test(self, method: str, fold: str, seed: int | None = None) -> Record | None:
        """The test record of a method on a fold under a seed, default the run's own; None where there is none yet, or
        it failed."""
        record = self._tests.get((method, fold, self.header["seed"] if seed is None else seed))
        return None if record is None or record["error"] else record

    def tests(self, method: str, seed: int | None = None) -> list[Record]:
        """The test records of a method under a seed, default the run's own, by fold; without failures."""
        return [record for fold in self.folds if (record := self.test(method, fold, seed)) is not None]

    def all_tests(self, method: str) -> list[Record]:
        """The test records of a method under all its seeds, by fold, then by seed; without failures."""
        found = (self.test(method, fold, seed) for fold in self.folds for seed in self.seeds(method))
        return [record for record in found if record is not None]

    def missing(self, method: str) -> list[str]:
        """The folds on which a method has no result, or not of every seed: still to come, or failed."""
        return [f for f in self.folds if any(self.test(method, f, seed) is None for seed in self.seeds(method))]

    @property
    def complete(self) -> list[str]:
        """The methods with a result on every fold, for every seed."""
        return [method for method in self.methods if not self.missing(method)]

    def fold_means(self, method: str, measure: str) -> np.ndarray:
        """The test mean over queries in each fold that has one; over the seeds, too, where there are several."""
        by_fold: dict[str, list[float]] = {}
        for record in self.all_tests(method):
            by_fold.setdefault(record["fold"], []).append(mean_value(record, measure))
        return np.array([np.mean(values) for values in by_fold.values()])

    def seed_means(self, method: str, measure: str) -> np.ndarray:
        """The mean over all test queries under each seed that has every fold."""
        complete = [s for s in self.seeds(method) if len(self.tests(method, s)) == len(self.folds)]
        return np.array([mean_of(_per_query(self.tests(method, s), measure).values()) for s in complete])

    def query_mean(self, method: str, measure: str) -> float:
        """The mean over all test queries that there are; NaN without any."""
        return mean_of(self.per_query(method, measure).values())

    def per_query(self, method: str, measure: str) -> dict[Hashable, float]:
        """{query: value} over the test queries of all folds for which the measure is defined.

        A query in the test parts of several folds (repeated cross-validation, users of ratings) or fitted under
        several seeds has the mean of its values: it is one query, however often it was tested.
        """
        check_known("method", method, self.methods)
        check_known("measure", measure, self.measures)
        return _per_query(self.all_tests(method), measure)

    def gaps(self) -> dict[Hashable, float]:
        """{query: max − min of the choosing measure over the methods that have it}."""
        values: dict[Hashable, list[float]] = {}
        for method in self.methods:
            for query, value in self.per_query(method, self.header["measure"]).items():
                values.setdefault(query, []).append(value)
        return {query: max(known) - min(known) for query, known in values.items()}

    def first_folds(self) -> dict[Hashable, str]:
        """{query: the first fold that tests it}."""
        found: dict[Hashable, str] = {}
        for fold in self.folds:
            for method in self.methods:
                for record in filter(None, (self.test(method, fold, seed) for seed in self.seeds(method))):
                    found.update((query, fold) for query in record["queries"] if query not in found)
        return found

    def validations(self, method: str) -> list[Record]:
        """The latest validation record of each fold and setting, sorted by fold, then setting."""
        found = {
            (self.folds.index(r["fold"]), canonical(r["setting"])): r
            for r in self.records
            if r["kind"] == "validation" and size_of(r) == self.size
            if r["method"] == method and r["fold"] in self.folds
        }
        return [found[key] for key in sorted(found)]

    def failures(self) -> list[Record]:
        """Latest records with an error: methods in order, folds in order, settings sorted, validation before test."""
        last = [*self._tests.values(), *(r for method in self.methods for r in self.validations(method))]
        place = {name: i for i, name in enumerate(self.methods)}
        known = [r for r in last if r["error"] and r["method"] in place and r["fold"] in self.folds]

        def order(r: Record) -> tuple[object, ...]:
            return place[r["method"]], self.folds.index(r["fold"]), r["kind"] == "test", canonical(r["setting"])

        return sorted(known, key=order)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The long table, COLUMNS wide: a row for each size, method, fold, seed, measure and query, in that order."""
        for results in map(self.at, self.sizes):
            for method in self.methods:
                for record in results.all_tests(method):
                    rest = (*(record[name] for name in ("seconds", "setting", "versions", "seed")), results.size)
                    for measure in self.measures:
                        for query, value in zip(record["queries"], record["values"][measure]):
                            yield method, record["fold"], query, measure, value, *rest

    def table(self) -> dict[str, list[object]]:
        """The long table by column: `pandas.DataFrame(results.table())` takes it as it is."""
        columns = list(zip(*self.rows())) or [()] * len(COLUMNS)
        return {name: list(column) for name, column in zip(COLUMNS, columns)}

    def write_csv(self, path: Path | str) -> None:
        """The long table as CSV; settings and versions as JSON in their cells."""
        write_whole(Path(path), csv_text(COLUMNS, self.rows()).encode())

    @property
    def feature_names(self) -> list[str]:
        """The names of the data's features."""
        given = self.header["summary"]["feature_names"] or default_names(self.header["summary"]["features"])
        return list(map(str, given))

    def weights(self, method: str, fold: str) -> dict[str, float]:
        """{column: weight} of a linear ranker; none for others, and for the weights of a map's outputs."""
        arrays = self.arrays(method, fold)
        names, weights = self._names(arrays, "weight_names"), arrays.get("weights", np.empty(0))
        return dict(zip(names, weights.tolist())) if len(names) == len(weights) else {}

    def curves(self, method: str, fold: str) -> dict[str, tuple[float, np.ndarray, np.ndarray]]:
        """{column: (weight, knots, heights)} of an additive ranker; none for others."""
        arrays = self.arrays(method, fold)
        names, weights = self._names(arrays, "curve_names"), arrays.get("curve_weights", np.empty(0))
        if len(names) != len(weights):
            return {}
        cuts = arrays["curve_starts"][1:-1]
        points = (np.split(arrays[f"curve_{part}"], cuts) for part in ("knots", "heights"))
        return dict(zip(names, zip(weights.tolist(), *points)))

    def _names(self, arrays: dict[str, np.ndarray], what: str) -> list[str]:
        """Names of weights or curves; those of the features in runs of 0.2 and before, which stored none."""
        return arrays[what].tolist() if what in arrays else self.feature_names

    def arrays(self, method: str, fold: str, seed: int | None = None) -> dict[str, np.ndarray]:
        """Test scores ("scores", rows in the order of the test part), and "weights", curves or a "basis" if there are
        any."""
        record = self.test(method, fold, seed)
        if record is None or self.folder is None or "arrays" not in record:
            return {}
        return load_arrays(self.folder / record["arrays"])


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file of a run; none where there is no such file."""
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


def csv_text(names: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, dicts as JSON; text that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> csv_text(["setting", "value"], [[{"C": 1}, -0.5], ["=1+1", "-0.5"]]).split()
    ['setting,value', '"{""C"":1}",-0.5', "'=1+1,-0.5"]
    """

    def cell(value: object) -> object:
        if not isinstance(value, str):
            return canonical(value) if isinstance(value, dict) else value
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) and decimal(value) is None else value

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(map(cell, row) for row in rows)
    return text.getvalue()


def check_known(kind: str, name: object, known: Iterable[object]) -> None:
    """A ValueError for a name that a run does not have."""
    if name not in (known := list(known)):
        raise ValueError(f"there is no {kind} {name!r} in this run; it has {', '.join(map(str, known))}")


def size_of(record: Record) -> float:
    """The fraction of the training queries that a result was learnt from."""
    return record.get("size", 1.0)


def _per_query(records: Sequence[Record], measure: str) -> dict[Hashable, float]:
    found: dict[Hashable, list[float]] = {}
    for record in records:
        for query, value in zip(record["queries"], record["values"][measure]):
            if value is not None:
                found.setdefault(query, []).append(value)
    return {query: values[0] if len(values) == 1 else float(np.mean(values)) for query, values in found.items()}


def mean_of(values: Iterable[float]) -> float:
    """The mean; NaN without any values."""
    known = np.fromiter(values, float)
    return float(known.mean()) if len(known) else float("nan")


def mean_value(record: Record, measure: str) -> float:
    """The mean of a test record's values, without queries for which the measure is not defined."""
    return mean_of(value for value in record["values"][measure] if value is not None)


def load_results(folder: Path | str) -> Results:
    """The results of a run folder, finished or still running."""
    folder = Path(folder)
    header = read_header(folder)
    if header is None and not folder.exists():
        raise ValueError(no_such_file(folder))
    if header is None:
        raise ValueError(f"{folder} holds no run: expected a file run.json there, as `hingerank compare -o` writes it")
    path = folder / "results.jsonl"
    return Results(header, read_results(path) if path.exists() else [], folder)


def save_rows(folder: Path, folds: Sequence[Fold]) -> None:
    """Store which query and document every test row is about, so that scores can be read without the data."""
    for fold in folds:
        path = folder / rows_file(fold.name)
        if not path.exists():
            part = fold.selected("test")
            data, index = part.data, slice(None) if part.index is None else part.index
            arrays = {"queries": np.asarray(data.qid)[index].astype(str)}
            if data.docid is not None:
                arrays["documents"] = np.asarray(data.docid)[index].astype(str)
            write_arrays(path, arrays)


def rows_file(fold: str) -> str:
    """Where a run folder keeps the queries and documents of a fold's test rows."""
    return f"rows/{file_name(fold)}.npz"
