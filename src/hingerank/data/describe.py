"""What is in a data set, in numbers: as a value, as JSON, as a table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.data.blocks import QueryBlocks
from hingerank.kernels.threads import run_shards

ROWS_AT_A_TIME = 16384


@dataclass(frozen=True)
class Description:
    """Exact counts; `grades` maps a grade to its rows, `constant_columns` are names, `memory` is in bytes.

    `density` is the fraction of values that are not 0. `duplicate_docids` counts rows whose document came before in
    the same query; None without document ids.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; grades become text, as JSON keys are."""
        return asdict(self) | {"grades": {_number(grade): count for grade, count in self.grades.items()}}

    def table(self) -> Any:
        """A rich table; print it with rich's console."""
        from rich.table import Table

        table = Table(show_header=False, title="data")
        for what, value in self.facts():
            table.add_row(what, value)
        return table

    def facts(self) -> list[tuple[str, str]]:
        """The lines of the table: what, and its value for people."""
        per_query = self.rows_per_query
        grades = ", ".join(f"{_number(grade)}: {count:,}" for grade, count in list(self.grades.items())[:12])
        if len(self.grades) > 12:
            grades += f", … ({len(self.grades)} different)"
        lines = [
            ("queries", f"{self.queries:,}"),
            ("rows", f"{self.rows:,}"),
            ("rows per query", f"{per_query['min']:,} – {per_query['max']:,}, median {per_query['median']:,g}"),
            ("features", f"{self.features:,} ({self.layout}, {self.density:.1%} not zero)"),
            ("grades", grades),
            ("pairs", f"{self.pairs:,}"),
            ("queries without pairs", f"{self.queries_without_pairs:,}"),
            ("constant columns", _some(self.constant_columns)),
            ("missing values", f"{self.missing_values:,}"),
            ("memory", f"{self.memory / 1e6:,.1f} MB"),
        ]
        if self.duplicate_docids is not None:
            lines.append(("duplicate documents", f"{self.duplicate_docids:,}"))
        return lines


def describe(
    X: Any, y: np.ndarray, qid: np.ndarray, docid: np.ndarray | None, names: Sequence[str], blocks: QueryBlocks
) -> Description:
    """Count everything worth knowing before a fit; pairs are counted from the grades, never listed."""
    grades, counts = np.unique(y, return_counts=True)
    pairs, sizes = pairs_per_query(y, blocks), blocks.sizes
    constant, nonzero, missing = _columns(X)
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    return Description(
        queries=len(blocks),
        rows=X.shape[0],
        features=X.shape[1],
        grades=dict(zip(grades.tolist(), counts.tolist())),
        pairs=sum(pairs.tolist()),
        queries_without_pairs=int((pairs == 0).sum()),
        rows_per_query={"min": int(sizes.min()), "median": float(np.median(sizes)), "max": int(sizes.max())},
        constant_columns=[names[j] for j in np.flatnonzero(constant).tolist()],
        missing_values=missing,
        density=nonzero / max(1, X.shape[0] * X.shape[1]),
        layout=f"{'CSR' if sp.issparse(X) else 'dense'} {X.dtype}",
        memory=sum(array.nbytes for array in (*arrays, y, qid, docid) if array is not None),
        duplicate_docids=None if docid is None else _duplicates(docid, blocks),
    )


def pairs_per_query(y: np.ndarray, blocks: QueryBlocks) -> np.ndarray:
    """|{(i, j): y_i > y_j}| = (n_q² − Σ_g n_qg²)/2 for every query q, n_qg its rows of grade g; O(n log n) at most."""
    grades, codes = np.unique(y, return_inverse=True)
    keys = blocks.numbers * len(grades) + blocks.gather(codes.ravel())
    cells, counts = np.unique(keys, return_counts=True)
    ties = np.zeros(len(blocks), np.int64)
    np.add.at(ties, cells // max(1, len(grades)), counts.astype(np.int64) ** 2)
    return (blocks.sizes.astype(np.int64) ** 2 - ties) // 2


def _columns(X: Any) -> tuple[np.ndarray, int, int]:
    """Which columns hold one value only (NaN aside), how many values are not 0, how many are NaN."""
    values = X.data if sp.issparse(X) else X
    missing = int(np.isnan(values).sum()) if np.isnan(values.sum()) else 0
    if sp.issparse(X):
        full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
        low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
        np.fmin.at(low, X.indices, X.data)
        np.fmax.at(high, X.indices, X.data)
        low, high = np.where(full, low, np.minimum(low, 0)), np.where(full, high, np.maximum(high, 0))
        return high <= low, int(np.count_nonzero(X.data)), missing

    def look(first: int) -> tuple[np.ndarray, np.ndarray, int]:
        rows = X[first : first + ROWS_AT_A_TIME]
        return np.fmin.reduce(rows), np.fmax.reduce(rows), int(np.count_nonzero(rows))

    seen = run_shards(look, range(0, len(X), ROWS_AT_A_TIME))
    low, high = np.fmin.reduce([s[0] for s in seen]), np.fmax.reduce([s[1] for s in seen])
    return ~(high > low), sum(s[2] for s in seen), missing


def _duplicates(docid: np.ndarray, blocks: QueryBlocks) -> int:
    """Rows whose document came before in their query; "" is no document (a line without comment)."""
    ids, offsets = blocks.gather(docid).tolist(), blocks.offsets.tolist()
    named = ([i for i in ids[a:b] if i != ""] for a, b in pairwise(offsets))
    return sum(len(query) - len(set(query)) for query in named)


def _number(grade: float) -> str:
    return str(int(grade)) if grade.is_integer() else repr(grade)


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    return f"{len(names)}: {', '.join(names[:10])}" + (", …" if len(names) > 10 else "")
