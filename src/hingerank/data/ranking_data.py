"""RankingData: feature rows, grades and queries in one object. Rows stay in their original order."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from hingerank.arrays import ArrayLike, Frame, Matrix
from hingerank.data import rows_view
from hingerank.data.blocks import (
    QueryBlocks,
    blocks_from_group,
    blocks_from_qid,
    check_grades,
    check_ids,
    check_matrix,
    check_names,
    single_id,
)
from hingerank.data.checks import GIVE_IDS, fraction, generator, warn_one_query, whole
from hingerank.data.files import DataError
from hingerank.data.rows_view import RowsView, StackedRows, is_mapped
from hingerank.data.sparse import plain_csr

if TYPE_CHECKING:
    from hingerank.data.describe import Description

Part = TypeVar("Part")


class FoldParts(NamedTuple):
    """One fold of cross-validation over queries."""

    train: "RankingData"
    validation: "RankingData"
    test: "RankingData"


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    """Ranking data: feature rows, grades, query ids, document ids and feature names.

    Rows stay in file order; `blocks` has the rows of each query. The constructor takes arrays and does not check their
    values: use `from_arrays` or `from_frame` for data that were not checked before.

    Parameters
    ----------
    X : feature rows, as a dense C-ordered float32/float64 array or as CSR
    y : a grade per row
    qid : a query id per row
    docid : a document id per row, or None
    feature_names : one per column, or None
    index_base : the index of the first feature, 0 or 1, in the text from which the data were read; else None
    notes : counts of what was left out when files were joined, or None

    Examples
    --------
    >>> data = RankingData.from_arrays([[0.1, 2], [0.3, 1], [0.2, 5]], y=[0, 2, 1], qid=["a", "b", "a"])
    >>> data
    RankingData(2 queries, 3 rows, 2 features, float64)
    >>> data.subset(["a"]).y
    array([0., 1.])
    """

    X: Matrix
    y: np.ndarray
    qid: np.ndarray
    docid: np.ndarray | None = None
    feature_names: Sequence[str] | None = None
    index_base: int | None = None
    notes: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        plain = isinstance(self.X, np.ndarray | RowsView | StackedRows) or sp.issparse(self.X)
        if not (plain and isinstance(self.y, np.ndarray) and isinstance(self.qid, np.ndarray)):
            raise DataError(
                "RankingData(X, y, qid) takes NumPy arrays or CSR matrices: use RankingData.from_arrays(X, y, qid) for "
                "lists, series and frames, or RankingData.from_frame(frame) for a table with a column of grades"
            )
        for name, column in (("y", self.y), ("qid", self.qid), ("docid", self.docid)):
            if column is not None and np.shape(column) != (self.n_rows,):
                found = f"{name} has shape {np.shape(column)}"
                raise DataError(f"{found}, expected an entry for each of the {self.n_rows} rows of X")
        if sp.issparse(self.X) and self.X.format != "csr":
            object.__setattr__(self, "X", plain_csr(self.X))

    @classmethod
    def from_arrays(
        cls,
        X: Matrix,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        docid: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        missing: str = "error",
    ) -> "RankingData":
        """Ranking data from arrays, which are checked. They are copied only if they need another form.

        Parameters
        ----------
        X : array, list of rows, or SciPy matrix
            Sparse matrices of any format become CSR. float32 stays float32, other types become float64.
        y : array
            One grade per row.
        qid : array, optional
            One query id per row, in any order and of any type. A single id makes all rows one query. So does None,
            with a warning.
        group : array, optional
            The number of rows of each query, in row order, instead of `qid`.
        docid : array, optional
            One document id per row.
        feature_names : sequence of str, optional
            One name per column.
        missing : {"error", "zero", "nan"}
            What NaN in X becomes: "error" raises an error, "zero" replaces it by 0, "nan" keeps it.
        """
        if qid is not None and group is not None:
            raise DataError("give qid or group, not both: group is the number of rows of each query, in row order")
        matrix = check_matrix(X, missing, feature_names)
        n_rows, n_features = matrix.shape
        if n_rows == 0:
            raise DataError("X has no rows: give at least one")
        if group is not None:
            blocks = blocks_from_group(group, n_rows)
            ids = np.repeat(blocks.ids, blocks.sizes)
        elif qid is None or np.ndim(qid) == 0:
            ids = np.full(n_rows, single_id(qid))
        else:
            ids = check_ids(qid, n_rows, "qid")
        documents, grades = None if docid is None else check_ids(docid, n_rows, "docid"), check_grades(y, n_rows)
        if qid is None and group is None:
            warn_one_query(grades, GIVE_IDS)
        return cls(matrix, grades, ids, documents, check_names(feature_names, n_features))

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        label: str | None = "label",
        qid: str | None = "qid",
        docid: str | None = None,
        features: str | Sequence[str] | None = None,
        *,
        missing: str = "error",
        dtype: DTypeLike | None = None,
    ) -> "RankingData":
        """Ranking data from the columns of a pandas, polars or pyarrow table. Rows keep their order.

        Parameters
        ----------
        frame : table of pandas, polars or pyarrow
        label : str, optional
            The column of grades. None makes all grades 0, for rows with clicks instead of judgments.
        qid : str, optional
            The column of query ids. If there is no column "qid", one called "query_id" or "query" is used. None makes
            all rows one query.
        docid : str, optional
            The column of document ids. None uses one called "docid", "docno" or "document", if there is one.
        features : str or sequence of str, optional
            Numeric columns, or one column that holds a list of numbers per row. None uses a column of lists called
            "features" if there is one, else all columns that are not label, qid or docid.
        missing : {"error", "zero", "nan"}
            What null and NaN in features become: "error" raises an error, "zero" replaces them by 0, "nan" keeps them.
        dtype : float32 or float64, optional
            The type of X. None keeps float32 if all feature columns fit it.

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"qid": ["a", "a", "b"], "label": [1, 0, 2], "bm25": [0.5, 0.1, 0.3]})
        >>> RankingData.from_frame(table).feature_names
        ('bm25',)
        """
        from hingerank.data.frames import columns_from_frame

        return cls(*columns_from_frame(frame, label, qid, docid, features, missing, dtype))

    def to_frame(self, backend: str = "pandas", layout: str = "wide") -> Frame:
        """A table with the columns qid, docid (if any), label, and the features. CSR becomes dense.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}
        layout : {"wide", "list"}
            "wide" has one column for each feature, "list" has all features of a row in one column.
        """
        from hingerank.data.frames import frame_from_columns

        return frame_from_columns(self.X, self.y, self.qid, self.docid, self.names, backend, layout)

    def describe(self) -> "Description":
        """Summary statistics of the data. The number of pairs is computed from the grades; pairs are never listed.

        Examples
        --------
        >>> from hingerank.data.generate import make_like
        >>> description = make_like("MQ2008").describe()
        >>> description.queries, description.rows, len(description.constant_columns)
        (784, 15211, 5)
        """
        from hingerank.data.describe import describe

        return describe(self.X, self.y, self.qid, self.docid, self.names, self.blocks)

    @cached_property
    def blocks(self) -> QueryBlocks:
        return blocks_from_qid(self.qid, self.n_rows)

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def n_queries(self) -> int:
        return len(self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """The feature names. If none were given, they are "f1", "f2", ..., counted as in LETOR files."""
        return tuple(self.feature_names or (f"f{j + 1}" for j in range(self.n_features)))

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        sparse = f", CSR {self.X.nnz / max(1, self.n_rows * self.n_features):.2%} full" if sp.issparse(self.X) else ""
        return (
            f"{type(self).__name__}({self.n_queries} queries, {self.n_rows} rows, {self.n_features} features, "
            f"{self.X.dtype}{sparse})"
        )

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()

    def __eq__(self, other: object) -> bool:
        """Whether both have the same rows bit for bit, with the same ids and names. NaN equals NaN."""
        if not isinstance(other, RankingData):
            return NotImplemented
        return (
            list(self.feature_names or ()) == list(other.feature_names or ())
            and _same_matrix(self.X, other.X)
            and np.array_equal(self.y, other.y, equal_nan=True)
            and np.array_equal(self.qid, other.qid)
            and np.array_equal(self.docid, other.docid)  # type: ignore[arg-type]  # None equals None alone
        )

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: ArrayLike) -> "RankingData":
        """The rows at these positions, in this order. If they are consecutive, the result is a view."""
        rows = np.asarray(rows)
        if len(rows) == 0:
            raise DataError("no rows are left: choose at least one row")
        if rows.dtype.kind not in "iu":
            raise DataError(f"rows are {rows.dtype}, expected row numbers; subset(rows=) takes a boolean mask")
        rows = rows.astype(np.int64, copy=False)
        wrong = (rows < -self.n_rows) | (rows >= self.n_rows)
        if wrong.any():
            raise DataError(f"there is no row {rows[np.argmax(wrong)]}: the data have {self.n_rows} rows")
        rows = np.where(rows < 0, rows + self.n_rows, rows)
        if (np.diff(rows) == 1).all():
            part: slice | np.ndarray = slice(int(rows[0]), int(rows[-1]) + 1)
        else:
            part = rows
        docid = None if self.docid is None else self.docid[part]
        if isinstance(self.X, RowsView):
            X: Matrix = self.X.take(rows)
        else:
            view = RowsView(self.X, rows) if part is rows and is_mapped(self.X) else None
            X = self.X[part] if view is None or view.nbytes <= rows_view.MOST_COPIED else view  # no large copies
        return replace(self, X=X, y=self.y[part], qid=self.qid[part], docid=docid)

    def subset(self, queries: Any = None, *, rows: ArrayLike | None = None) -> "RankingData":
        """The rows of some queries (a list of their ids), or the rows at which a boolean mask is true, in row order."""
        if (queries is None) == (rows is None):
            raise DataError("subset needs either queries (a list of ids) or rows (a boolean mask)")
        chosen = np.asarray(rows if queries is None else queries)
        if rows is not None or (chosen.dtype == bool and chosen.shape == (self.n_rows,)):
            if chosen.dtype != bool or chosen.shape != (self.n_rows,):
                raise DataError(f"rows is {chosen.dtype} of shape {chosen.shape}, expected {self.n_rows} booleans")
            return self.take(np.flatnonzero(chosen))
        known = {value: q for q, value in enumerate(self.blocks.ids.tolist())}
        wanted = queries.tolist() if isinstance(queries, np.ndarray) else list(queries)
        unknown = [i for i in wanted if i not in known]
        if unknown:
            raise DataError(
                f"query {unknown[0]!r} is not in the data ({len(unknown)} unknown); its {self.n_queries} queries start "
                f"with {', '.join(map(repr, self.blocks.ids[:3].tolist()))}"
            )
        return self.take(self._rows_of([known[i] for i in wanted]))

    def split(self, test_size: float = 0.2, seed: int = 0) -> tuple["RankingData", "RankingData"]:
        """Split into (train, test). A random fraction `test_size` of the queries goes to test. Queries stay whole."""
        count = round(fraction("test_size", test_size) * self.n_queries)
        if not 0 < count < self.n_queries:
            raise DataError(
                f"test_size is {test_size}, which leaves train or test without any of the {self.n_queries} queries; "
                "give another fraction between 0 and 1"
            )
        shuffled = generator(seed, "seed").permutation(self.n_queries)
        return self.take(self._rows_of(shuffled[count:])), self.take(self._rows_of(shuffled[:count]))

    def folds(self, k: int = 5, seed: int | None = 0) -> Iterator[FoldParts]:
        """An iterator over k folds (train, validation, test) by LETOR's rule; see `fold_rows`."""
        return (FoldParts(*map(self.take, turn)) for turn in self.fold_rows(k, seed))

    def fold_rows(self, k: int = 5, seed: int | None = 0) -> list[list[np.ndarray]]:
        """The row numbers of train, validation and test for each fold.

        The queries are shuffled and split into k parts S_1 ... S_k; seed=None keeps them in order of appearance. Fold i
        trains on S_i ... S_{i+k−3}, validates on S_{i+k−2} and tests on S_{i+k−1}. Indices wrap around.
        """
        if not 3 <= whole("k", k) <= self.n_queries:
            raise DataError(f"{k} folds of {self.n_queries} queries: give at least 3 folds and at most one per query")
        return rotate(self.part_rows(k, seed))

    def part_rows(self, k: int, seed: int | None = 0) -> list[np.ndarray]:
        """The row numbers of k parts of the shuffled queries; seed=None keeps them in order of appearance."""
        order = np.arange(self.n_queries) if seed is None else generator(seed, "seed").permutation(self.n_queries)
        return [self._rows_of(queries) for queries in np.array_split(order, k)]

    @staticmethod
    def concatenate(parts: Sequence["RankingData"], *, join_queries: bool = False) -> "RankingData":
        """All rows, one part after the other. If some parts are CSR, so is the result.

        Parts must have the same number of features and the same feature names, if they have any. Either all parts or
        none must have document ids. Large memory-mapped data are not copied.

        Parameters
        ----------
        parts : sequence of RankingData
        join_queries : bool
            False: a query id in two parts is an error, since ids often start again in every file. True: the same id
            means the same query.

        Examples
        --------
        >>> from hingerank.data.generate import make_letor
        >>> train, test = make_letor(10, 5).split(0.3)
        >>> RankingData.concatenate([train, test]).n_queries
        10
        """
        parts = list(parts)
        if not parts:
            raise DataError("there is nothing to concatenate: the list is empty")
        _check_agreement(parts)
        if not join_queries:
            _check_queries(parts)
        docids = [part.docid for part in parts if part.docid is not None]  # of all parts, or of none
        docid = _join(docids, "docid") if docids else None
        names = next((part.feature_names for part in parts if part.feature_names is not None), None)
        y = np.concatenate([part.y for part in parts])
        qid = _join([part.qid for part in parts], "qid")
        base = next((part.index_base for part in parts if part.index_base is not None), None)
        return RankingData(_stack([part.X for part in parts]), y, qid, docid, names, base)

    def _rows_of(self, numbers: np.ndarray | list[int]) -> np.ndarray:
        """The ascending row numbers of whole queries, which are given by their numbers in `blocks`."""
        kept = np.zeros(self.n_queries, bool)
        kept[numbers] = True
        return np.flatnonzero(self.blocks.scatter(np.repeat(kept, self.blocks.sizes)))


def turns(parts: Sequence[Part]) -> list[tuple[list[Part], Part, Part]]:
    """(training parts, validation part, test part) of each fold, by LETOR's rule.

    >>> turns(["S1", "S2", "S3", "S4", "S5"])[1]
    (['S2', 'S3', 'S4'], 'S5', 'S1')
    """
    turned = ([*parts[i:], *parts[:i]] for i in range(len(parts)))
    return [(train, validation, test) for *train, validation, test in turned]


def rotate(parts: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """[training rows, validation rows, test rows] of each fold, by LETOR's rule. `parts` are the rows of each part."""
    return [[np.sort(np.concatenate(train)), validation, test] for train, validation, test in turns(parts)]


def _same_matrix(A: Matrix, B: Matrix) -> bool:
    if A.shape != B.shape or A.dtype != B.dtype or sp.issparse(A) != sp.issparse(B):
        return False
    if not sp.issparse(A):
        return np.array_equal(A, B, equal_nan=True)
    same_places = np.array_equal(A.indptr, B.indptr) and np.array_equal(A.indices, B.indices)
    return same_places and np.array_equal(A.data, B.data, equal_nan=True)


def check_columns(parts: Mapping[str, RankingData]) -> None:
    """A DataError if parts, by what they are called, do not have the same features in the same columns."""
    (name, first), *others = parts.items()
    for other, part in others:
        if part.n_features != first.n_features:
            raise DataError(
                f"{name} has {first.n_features} features but {other} has {part.n_features}; "
                "read the files with the same n_features"
            )
        if {first.index_base, part.index_base} == {0, 1}:
            raise DataError(
                f"{name} counts features from {first.index_base} and {other} from {part.index_base}, so column 0 "
                "is not the same feature; read the files together, or each with the same index_base"
            )
        if part.feature_names is not None and first.feature_names is not None and part.names != first.names:
            raise DataError(f"{name} and {other} have different feature names: rename the features of one of them")


def _check_agreement(parts: list[RankingData]) -> None:
    check_columns({f"part {i}": part for i, part in enumerate(parts)})
    for i, part in enumerate(parts):
        if (part.docid is None) != (parts[0].docid is None):
            raise DataError(f"part 0 and part {i}: one has document ids and the other has none; give both or none")


def _check_queries(parts: list[RankingData]) -> None:
    seen: dict[Hashable, int] = {}
    for i, part in enumerate(parts):
        for query in part.blocks.ids.tolist():
            if query in seen:
                raise DataError(
                    f"query {query!r} is in part {seen[query]} and in part {i}: if both are one, pass join_queries=True"
                )
            seen[query] = i


def _join(arrays: list[np.ndarray], name: str) -> np.ndarray:
    """One array of ids. Different types are an error, because NumPy would silently turn numbers into text."""
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) == 1 or kinds <= set("iu"):
        return np.concatenate(arrays)
    if not kinds <= set("UOT"):
        raise DataError(f"{name} has different types ({', '.join(str(a.dtype) for a in arrays)}): convert them to one")
    return np.concatenate([array.astype(object) for array in arrays])


def _stack(matrices: list[Matrix]) -> Matrix:
    """All rows in one matrix. If some are memory-mapped and a copy would be large, the result is a view."""
    if any(is_mapped(X) for X in matrices):
        stacked = StackedRows(matrices)
        if stacked.nbytes > rows_view.MOST_COPIED:
            return RowsView(stacked)
        matrices = [X[:] if isinstance(X, RowsView) else X for X in matrices]
    if not any(sp.issparse(X) for X in matrices):
        return np.concatenate(matrices)
    return sp.vstack([sp.csr_matrix(X) for X in matrices], format="csr")
