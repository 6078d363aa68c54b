"""Summary statistics of a data set, as an object, as JSON and as a table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Facts, Matrix
from hingerank.data.blocks import QueryBlocks, evenly
from hingerank.kernels.threads import run_shards
from hingerank.notebook import html_table

ROWS_AT_A_TIME = 16384

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Description:
    """Summary statistics of a data set. All counts are exact.

    - `grades` maps each grade to its number of rows.
    - `constant_columns` are names of features.
    - `density` is the fraction of values that are not 0.
    - `memory` is in bytes.
    - `duplicate_docids` counts the rows whose document is already in an earlier row of the same query. It is None
      without document ids.
    - `columns` has the names, smallest and largest values, means, standard deviations and long tails of the features.
    - `scaling` says in words which scaling they need.
    """

    queries: int
    rows: int
    features: int
    grades: dict[float, int]
    pairs: int
    queries_without_pairs: int
    rows_per_query: dict[str, float]
    constant_columns: list[str]
    missing_values: int
    density: float
    layout: str
    memory: int
    duplicate_docids: int | None
    columns: dict[str, list[Any]]
    scaling: str

    def to_dict(self) -> Facts:
        """Plain values for JSON. Grades become text, because JSON keys are text."""
        return asdict(self) | {"grades": {_number(grade): count for grade, count in self.grades.items()}}

    def table(self) -> "Table":
        """A rich table; print it with rich's console."""
        from rich.table import Table

        table = Table(show_header=False, title="data")
        for what, value in self.facts():
            table.add_row(what, value)
        return table

    def facts(self) -> list[tuple[str, str]]:
        """The rows of the table: a name, and its value as text."""
        per_query = self.rows_per_query
        grades = ", ".join(f"{_number(grade)}: {count:,}" for grade, count in list(self.grades.items())[:12])
        if len(self.grades) > 12:
            grades += f", … ({len(self.grades)} different)"
        lines = [
            ("queries", f"{self.queries:,}"),
            ("rows", f"{self.rows:,}"),
            ("rows per query", f"{per_query['min']:,} – {per_query['max']:,}, median {per_query['median']:,.12g}"),
            ("features", f"{self.features:,} ({self.layout}, {self.density:.1%} not zero)"),
            ("grades", grades),
            ("pairs", f"{self.pairs:,}"),
            ("queries without pairs", f"{self.queries_without_pairs:,}"),
            ("constant columns", _some(self.constant_columns)),
            *self._spreads(),
            ("missing values", f"{self.missing_values:,}"),
            ("memory", f"{self.memory / 1e6:,.1f} MB"),
        ]
        if self.duplicate_docids is not None:
            lines.append(("duplicate documents", f"{self.duplicate_docids:,}"))
        return lines

    def _spreads(self) -> list[tuple[str, str]]:
        """The rows of the table about ranges and standard deviations."""
        names, low, high, spread, tails = (self.columns[k] for k in ("name", "min", "max", "sd", "long_tail"))
        varying = [j for j in range(len(names)) if spread[j] > 0]
        if not varying:
            return [("scaling", self.scaling)]
        first, last = min(varying, key=lambda j: spread[j]), max(varying, key=lambda j: spread[j])
        ends = f"{spread[first]:.3g} ({names[first]}) – {spread[last]:.3g} ({names[last]})"
        return [
            ("values", f"{min(low[j] for j in varying):.4g} – {max(high[j] for j in varying):.4g}"),
            ("standard deviations", ends),
            ("long tails", _some([names[j] for j in varying if tails[j]])),
            ("scaling", self.scaling),
        ]

    def _repr_html_(self) -> str:
        return html_table("data", ["", ""], self.facts())


def describe(
    X: Matrix, y: np.ndarray, qid: np.ndarray, docid: np.ndarray | None, names: Sequence[str], blocks: QueryBlocks
) -> Description:
    """Summary statistics of a data set. The number of pairs is computed from the grades; pairs are never listed."""
    grades, counts = np.unique(y, return_counts=True)
    pairs, sizes = pairs_per_query(y, blocks), blocks.sizes
    figures, tails = column_figures(X), long_tailed(X)
    low, high, spread = figures.low, figures.high, figures.spread
    sparse = sp.issparse(X[:1])  # also of a view, which is no matrix itself
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    return Description(
        queries=len(blocks),
        rows=X.shape[0],
        features=X.shape[1],
        grades=dict(zip(grades.tolist(), counts.tolist())),
        pairs=sum(pairs.tolist()),
        queries_without_pairs=int((pairs == 0).sum()),
        rows_per_query={"min": int(sizes.min()), "median": float(np.median(sizes)), "max": int(sizes.max())},
        constant_columns=[names[j] for j in np.flatnonzero(~(high > low)).tolist()],
        missing_values=figures.missing,
        density=figures.nonzero / max(1, X.shape[0] * X.shape[1]),
        layout=f"{'CSR' if sparse else 'dense'} {X.dtype}",
        memory=sum(array.nbytes for array in (*arrays, y, qid, docid) if array is not None),
        duplicate_docids=None if docid is None else _duplicates(docid, blocks),
        columns={
            "name": list(names), "min": low.tolist(), "max": high.tolist(), "mean": figures.mean.tolist(),
            "sd": spread.tolist(), "long_tail": tails.tolist(),
        },
        scaling=scaling_advice(low, high, spread, tails, sparse),
    )  # fmt: skip


def pairs_per_query(y: np.ndarray, blocks: QueryBlocks) -> np.ndarray:
    """|{(i, j): y_i > y_j}| = (n_q² − Σ_g n_qg²)/2 for every query q with n_qg rows of grade g; at most O(n log n)."""
    grades, codes = np.unique(y, return_inverse=True)
    keys = blocks.numbers * len(grades) + blocks.gather(codes.ravel())
    cells, counts = np.unique(keys, return_counts=True)
    ties = np.zeros(len(blocks), np.int64)
    np.add.at(ties, cells // max(1, len(grades)), counts.astype(np.int64) ** 2)
    return (blocks.sizes.astype(np.int64) ** 2 - ties) // 2


MOST_SPREAD, FAR = 1e2, 10.0


def scaling_advice(low: np.ndarray, high: np.ndarray, spread: np.ndarray, tails: np.ndarray, sparse: bool) -> str:
    """Advice on scaling, in words, from the columns' ranges and standard deviations."""
    varying = (spread > 0) & np.isfinite(spread)
    if not varying.any():
        return "no column varies"
    ratio = float(spread[varying].max() / spread[varying].min())
    long = int((tails & varying).sum())
    if long:
        return (
            f"{long} of {int(varying.sum())} columns have long tails: "
            + ("scale=log" if sparse else "scale=quantile or scale=log")
            + " (hingerank tune can choose one)"
        )
    if (low[varying] >= 0).all() and (high[varying] <= 1).all() and (high[varying] == 1).mean() > 0.5:
        return "columns are between 0 and 1 already: none is needed"
    if ratio > MOST_SPREAD:
        how = "scale=deviation" if sparse else "scale=standard or scale=query-minmax"
        return f"standard deviations differ {ratio:.2g}-fold: {how} (hingerank tune can choose one)"
    return "columns have similar scales: none is needed"


def long_tailed(X: Matrix) -> np.ndarray:
    """Whether each column has a value beyond FAR standard deviations from the mean, in 4,096 evenly spaced rows."""
    rows = X[evenly(X.shape[0], 4096)]
    figures = column_figures(rows)
    with np.errstate(invalid="ignore"):
        farthest = np.maximum(figures.high - figures.mean, figures.mean - figures.low)
        return farthest > FAR * np.where(figures.spread > 0, figures.spread, np.inf)


class Figures(NamedTuple):
    """Statistics of each column of some rows, without NaN: the extremes, the number of known values (or the sum of
    their rows' weights), their mean, and their sum of squared differences from it; for all columns the number of values
    that are not 0, and of NaN.
    """

    low: np.ndarray
    high: np.ndarray
    known: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    nonzero: int
    missing: int

    @property
    def spread(self) -> np.ndarray:
        """The standard deviations; 0 for columns that do not vary."""
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.sqrt(self.square / np.where(self.known > 0, self.known, 1))
        return np.where(self.high > self.low, spread, 0.0)


def column_figures(X: Matrix, weight: np.ndarray | None = None) -> Figures:
    """The statistics of all rows in memory. A row of weight 2 counts as two rows."""
    if sp.issparse(X):
        return block_figures(X, weight)
    blocks = [slice(a, a + ROWS_AT_A_TIME) for a in range(0, len(X), ROWS_AT_A_TIME)]
    return merge_figures(run_shards(lambda at: block_figures(X[at], None if weight is None else weight[at]), blocks))


def block_figures(rows: Matrix, weight: np.ndarray | None = None) -> Figures:
    """The statistics of some rows, dense or CSR, from one pass over them."""
    if sp.issparse(rows):
        return _sparse_figures(rows, weight)
    nonzero = int(np.count_nonzero(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        if weight is None:
            mean = rows.mean(axis=0, dtype=np.float64)
            if not np.isnan(mean).any():
                apart, known = rows - mean, np.full(rows.shape[1], len(rows))
                square = np.einsum("ij,ij->j", apart, apart)
                return Figures(rows.min(axis=0), rows.max(axis=0), known, mean, square, nonzero, 0)
        mass = ~np.isnan(rows)
        missing = int(mass.size - mass.sum())
        mass = mass if weight is None else mass * weight[:, None]
        known = mass.sum(axis=0)
        mean = np.nansum(mass * rows, axis=0, dtype=np.float64) / np.where(known > 0, known, 1)
        square = np.nansum(mass * np.square(rows - mean, dtype=np.float64), axis=0)
    return Figures(np.fmin.reduce(rows), np.fmax.reduce(rows), known, mean, square, nonzero, missing)


def merge_figures(parts: Sequence[Figures]) -> Figures:
    """The statistics of all rows, from those of their blocks. Sums are in the order given."""
    low, high, known, means, squares, nonzero, missing = zip(*parts)
    total = np.sum(known, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.sum([n * m for n, m in zip(known, means)], axis=0) / np.where(total > 0, total, 1)
        between = np.sum([n * (m - mean) ** 2 for n, m in zip(known, means)], axis=0)
        square = np.sum(squares, axis=0) + between
    return Figures(np.fmin.reduce(low), np.fmax.reduce(high), total, mean, square, sum(nonzero), sum(missing))


def _sparse_figures(rows: Matrix, weight: np.ndarray | None) -> Figures:
    """`block_figures` of CSR: an absent entry is a 0."""
    (n_rows, width), at, given = rows.shape, rows.indices, ~np.isnan(rows.data)
    weight = np.ones(n_rows) if weight is None else weight
    share = np.repeat(weight, np.diff(rows.indptr))
    mass, values = share * given, np.where(given, rows.data, 0.0)
    full = np.bincount(at, minlength=width) == n_rows
    low, high = np.full(width, np.nan), np.full(width, np.nan)
    np.fmin.at(low, at, rows.data)
    np.fmax.at(high, at, rows.data)
    low, high = np.where(full, low, np.fmin(low, 0)), np.where(full, high, np.fmax(high, 0))
    known = weight.sum() - np.bincount(at, share - mass, width)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.bincount(at, mass * values, width) / np.where(known > 0, known, 1)
        absent = known - np.bincount(at, mass, width)
        square = np.bincount(at, mass * (values - mean[at]) ** 2, width) + absent * mean**2
    return Figures(low, high, known, mean, square, int(np.count_nonzero(rows.data)), int((~given).sum()))


def column_quantiles(X: Matrix, weight: np.ndarray | None, asked: np.ndarray) -> np.ndarray:
    """The least known value of each column that at least a fraction `asked` of the known values does not exceed, for
    several fractions; 0 if no value is known.

    A row of weight 2 counts as two rows. O(rows · log rows) a column.
    """
    if weight is None and not sp.issparse(X):
        ordered, counts = np.sort(np.ascontiguousarray(X.T)), len(X) - np.isnan(X).sum(axis=0)
        at = np.ceil(asked * (1 - 1e-12) * counts[:, None]).astype(np.int64) - 1
        return np.nan_to_num(np.take_along_axis(ordered, np.maximum(at, 0), axis=1)).astype(np.float64)
    mass = np.ones(X.shape[0]) if weight is None else weight
    by_column: Any = X.tocsc() if sp.issparse(X) else np.ascontiguousarray(X.T)
    found = np.zeros((X.shape[1], len(asked)))
    for c in range(len(found)):
        if sp.issparse(X):
            entries, absent = slice(*by_column.indptr[c : c + 2]), np.ones(len(mass), bool)
            absent[rows := by_column.indices[entries]] = False
            values = np.append(by_column.data[entries], 0.0)  # a single 0 has the weight of all absent entries
            own = np.append(mass[rows], mass[absent].sum())
        else:
            values, own = by_column[c], mass
        known = ~np.isnan(values) & (own > 0)
        order = np.flatnonzero(known)[np.argsort(values[known])]
        if len(order):
            sums = np.cumsum(own[order])
            wanted = asked * sums[-1] * (1 - 1e-12)  # rounding cannot skip a fraction that is a whole number of rows
            found[c] = values[order[np.searchsorted(sums, wanted)]]
    return found


def _duplicates(docid: np.ndarray, blocks: QueryBlocks) -> int:
    """The number of rows whose document is in an earlier row of their query. "" is not an id: the line has none."""
    ids, offsets = blocks.gather(docid).tolist(), blocks.offsets.tolist()
    named = ([i for i in ids[a:b] if i != ""] for a, b in pairwise(offsets))
    return sum(len(query) - len(set(query)) for query in named)


def _number(grade: float) -> str:
    return str(int(grade)) if grade.is_integer() else repr(grade)


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    return f"{len(names)}: {', '.join(names[:10])}" + (", …" if len(names) > 10 else "")
