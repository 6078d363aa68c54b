"""What goes into a ranker: checks that bring it to one form (plain dtypes, sorted CSR), and how rows are prepared."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array, column_or_1d, get_tags
from sklearn.utils.validation import validate_data

from hingerank.arrays import Facts, Matrix, PerRow, Ranker, RowsLike
from hingerank.data import blocks as checks
from hingerank.data.blocks import QueryBlocks, blocks_from_group, blocks_from_qid, check_unmasked, evenly
from hingerank.data.checks import ScaleWarning, WeakFitWarning, positive, refuse_negative, warn, whole
from hingerank.data.describe import Figures
from hingerank.data.files import DataError
from hingerank.data.missing import MissingValues
from hingerank.data.ranking_data import RankingData
from hingerank.data.rows_view import BYTES_A_ROW, RowsView, check_memory, is_mapped, look_through, read_ahead
from hingerank.data.scaling import SAMPLED_ROWS, Scaler, make_scaler
from hingerank.data.sparse import plain_csr
from hingerank.features.maps import beside_context
from hingerank.kernels.threads import run_shards
from hingerank.rankers.sources import RowsInParts
from hingerank.solvers.run import Callback, Solution

LARGEST_WEIGHT = 1e100
NUMBERS_PER_SHARD = 1 << 20

GivenRows: TypeAlias = tuple[RowsLike, PerRow, PerRow]  # X, y and qid, as users pass them


def grades_and_ids(X: RowsLike, y: PerRow = None, qid: PerRow = None, group: PerRow = None) -> tuple[PerRow, PerRow]:
    """y and qid as given, or those of RankingData."""
    if group is not None and (qid is not None or isinstance(X, RankingData)):
        raise ValueError("give the queries once: either qid (an id per row) or group (rows per query), not both")
    if not isinstance(X, RankingData):
        return y, qid
    if (y is not None and y is not X.y) or (qid is not None and qid is not X.qid):
        raise ValueError("RankingData already holds y and qid; pass them separately only with a plain X")
    return X.y, X.qid


def check_features(ranker: Ranker, X: RowsLike, *, reset: bool) -> Matrix:
    """X as C-ordered float32/float64 or sorted CSR; its columns are recorded (reset) or compared with those of fit.

    Rows of a mapped file become a RowsView if the ranker reads them block by block. The ranker's scikit-learn tags say
    whether sparse matrices and NaN are allowed.
    """
    given, names = (X.X, X.feature_names) if isinstance(X, RankingData) else (X, None)
    if names is None and _is_plain(ranker, given, reset):
        if reset:
            ranker.n_features_in_ = given.shape[1]
            ranker.__dict__.pop("feature_names_in_", None)
        return given
    if isinstance(X, RowsInParts):
        raise ValueError("expected rows, not data in parts: fit, fit_path, predict and score take these")
    welcome = get_tags(ranker).input_tags
    options: Facts = {
        "accept_sparse": "csr" if welcome.sparse else False,
        "dtype": [np.float64, np.float32],
        "order": "C",
        "ensure_all_finite": "allow-nan" if welcome.allow_nan else True,
    }
    if isinstance(X, RankingData) and names is None and not reset:
        known = list(getattr(ranker, "feature_names_in_", ()))
        if known and known == default_names(len(known)):  # fitted to a table that was made of LETOR text
            names = X.names
    by_blocks = getattr(ranker, "_farthest", "memory") != "memory"  # of a BaseRanker
    by_blocks = by_blocks and getattr(ranker, "missing", "error") == "error"  # all rows are searched for missing values
    if isinstance(given, RowsView) and not by_blocks:
        given = given.copied(type(ranker).__name__)
    if sparse.issparse(given) and welcome.sparse:
        given = plain_csr(given)  # before scikit-learn converts it
    check_unmasked(given, "X")
    if not isinstance(given, np.ndarray) or given.dtype.kind != "f":
        _check_kind(given)
    try:
        if by_blocks and is_mapped(given) and _stays(given):
            if names is None:
                validate_data(ranker, given, reset=reset, skip_check_array=True)
            checked = given if isinstance(given, RowsView) else RowsView(given)
        elif names is None:
            checked = validate_data(ranker, given, reset=reset, **options)
        else:
            checked = check_array(given, estimator=ranker, input_name="X", **options)
    except ValueError:
        _name_not_finite(given, welcome.allow_nan, getattr(given, "columns", names))
        raise
    except (OverflowError, AttributeError) as error:
        raise DataError(f"X is no table of numbers: {error}") from None
    if names is not None:
        _check_names(ranker, np.asarray([str(name) for name in names], object), checked.shape[1], reset)
    return plain_csr(checked) if sparse.issparse(checked) and not sparse.issparse(given) else checked


def _is_plain(ranker: Ranker, X: object, reset: bool) -> bool:
    """Whether X is an array of finite numbers, and not of fewer or more columns than that of fit, which had no names.

    Scikit-learn's checks of it would find nothing. For a few rows they take far longer than their scores, and for many
    one core takes longer than all.
    """
    if type(X) is not np.ndarray or X.dtype not in (np.float64, np.float32) or X.ndim != 2 or not X.flags.c_contiguous:
        return False
    known = vars(ranker)
    if not reset and (X.shape[1] != known.get("n_features_in_") or "feature_names_in_" in known):
        return False
    if not X.size or (X.base is not None and is_mapped(X)):
        return False
    if X.size > NUMBERS_PER_SHARD:
        step = max(1, NUMBERS_PER_SHARD // X.shape[1])
        finite = all(run_shards(lambda at: checks.all_finite(X[at : at + step]), range(0, len(X), step)))
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(X.sum()))
    return finite or (not reset and known.get("missing_") is not None and not np.isinf(X).any())


def _check_kind(X: Matrix) -> None:
    """A DataError about what scikit-learn would take for numbers: dates, and text such as 1_0."""
    columns = [str(kind).lower() for kind in getattr(X, "dtypes", ())]  # of a data frame, of pandas, polars or others
    date = next((kind for kind in columns if kind.startswith(("date", "time", "duration"))), None)
    if date is not None:
        raise DataError(
            f"X has a column of type {date}, expected real numbers: leave it out, or convert it to a number"
        )
    plain = ("float", "int", "uint", "bool", "sparse")  # other columns may hold text
    if isinstance(X, np.ndarray | list | tuple) or not all(kind.startswith(plain) for kind in columns):
        try:
            array = np.asarray(X)
        except ValueError:
            return  # rows of different lengths, for which scikit-learn has a clear error
        if array.dtype.kind in "MmV":
            raise DataError(f"X has type {array.dtype}, expected real numbers")
        try:
            if array.dtype.kind in "OUS":
                checks.check_spelling(array)
        except ValueError as error:
            raise DataError(f"X is no table of numbers: {error}") from None


def _stays(X: Matrix) -> bool:
    """Whether mapped rows have the form that kernels take and can stay in their file as a RowsView. The first pass over
    the rows then checks the values."""
    if X.dtype not in (np.float32, np.float64):
        return False
    return sparse.issparse(X) or isinstance(X, RowsView) or bool(X.ndim == 2 and X.flags.c_contiguous)


def _name_not_finite(X: Matrix, allow_nan: bool, names: Sequence[str] | None) -> None:
    """A DataError about the first feature that is not finite, if there is one, instead of scikit-learn's advice."""
    try:
        matrix = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X)
        matrix = matrix.astype(np.float64) if matrix.dtype.kind == "O" else matrix
    except (ValueError, TypeError):
        return
    if matrix.ndim == 2 and matrix.dtype.kind == "f":
        checks.check_finite(matrix, allow_nan, names)


def _check_names(ranker: Ranker, names: np.ndarray, n_features: int, reset: bool) -> None:
    """Record or compare the feature names of RankingData, as scikit-learn does for data frames."""
    if len(names) != n_features:
        raise DataError(f"there are {len(names)} feature names for {n_features} features")
    if reset:
        ranker.n_features_in_, ranker.feature_names_in_ = n_features, names
        return
    known = getattr(ranker, "feature_names_in_", None)
    if known is None:
        if n_features != ranker.n_features_in_:
            raise ValueError(f"X has {n_features} features, but the ranker was fitted with {ranker.n_features_in_}")
        if list(names) != default_names(n_features):
            warn("X has feature names, but the ranker was fitted without feature names")
        return
    missing, extra = set(known) - set(names), set(names) - set(known)
    if missing or extra:
        raise ValueError(
            "the features differ from those seen in fit"
            + (f"; missing: {_listed(missing)}" if missing else "")
            + (f"; not seen in fit: {_listed(extra)}" if extra else "")
        )
    if len(names) != len(known) or (names != known).any():
        first = int(np.flatnonzero(names != known)[0])
        raise ValueError(
            "the features are those seen in fit but in another order: put the columns in the order of "
            f"feature_names_in_ (column {first} is {names[first]!r} where {known[first]!r} was expected)"
        )


def default_names(count: int) -> list[str]:
    """ "f1", "f2", ... as LETOR files count."""
    return [f"f{j + 1}" for j in range(count)]


def _listed(names: set[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:10]) + (f" and {len(ordered) - 10} more" if len(ordered) > 10 else "")


def check_grades(ranker: Ranker, y: PerRow, n_rows: int) -> np.ndarray:
    """y as one finite float64 per row; errors in scikit-learn's words if it has a check for them."""
    if y is None:
        raise ValueError(f"{type(ranker).__name__} requires y to be passed, but the target y is None")
    check_unmasked(y, "y")
    grades = column_or_1d(y, warn=True)
    assert_all_finite(grades, input_name="y", estimator_name=type(ranker).__name__)
    return checks.check_grades(grades, n_rows)


def check_weight(sample_weight: PerRow, n_rows: int) -> np.ndarray | None:
    """sample_weight as one finite non-negative float64 per row, or None."""
    if sample_weight is None:
        return None
    weight = checks.real_numbers(sample_weight, "sample_weight")
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({n_rows},): one weight per row")
    refuse_negative("sample_weight", weight)
    if weight.max(initial=0.0) > LARGEST_WEIGHT:
        raise ValueError(f"sample_weight of {weight.max():g}: sums over pairs would overflow; divide all weights by it")
    if n_rows and not weight.any():
        raise ValueError("all sample_weight are zero: no row is left to learn from or to score")
    return weight


def evaluation_sets(eval_set: Sequence[object] | None, eval_group: Iterable[PerRow] | None) -> list[GivenRows]:
    """(X, y, qid) of each validation set, its counts of rows per query checked."""
    if eval_set is None:
        if eval_group is not None:
            raise ValueError("eval_group was given without eval_set")
        return []
    if isinstance(eval_set, RankingData) or not isinstance(eval_set, Sequence):
        raise ValueError("eval_set must be a list of (X, y) pairs or RankingData: put a single one into a list")
    groups = [None] * len(eval_set) if eval_group is None else list(eval_group)
    if len(groups) != len(eval_set):
        raise ValueError(
            f"eval_group must be as long as eval_set: {len(groups)} lists of counts for {len(eval_set)} sets"
        )
    return [_evaluation_set(number, *pair) for number, pair in enumerate(zip(eval_set, groups))]


def _evaluation_set(number: int, item: object, group: PerRow) -> GivenRows:
    if isinstance(item, RankingData):
        if group is not None:
            raise ValueError(
                f"eval_set[{number}] is RankingData, which has query ids: eval_group[{number}] must be None"
            )
        return item, item.y, item.qid
    if not isinstance(item, Sequence) or len(item) not in (2, 3):
        raise ValueError(f"eval_set[{number}] must be RankingData, (X, y) or (X, y, qid)")
    X, y, qid = (*item, None)[:3]
    if group is None:
        return X, y, qid
    if qid is not None:
        raise ValueError(f"eval_set[{number}] has query ids, and eval_group[{number}] counts rows: give one of them")
    try:
        blocks = blocks_from_group(group, len(y))
    except DataError as error:
        raise DataError(f"eval_group[{number}] does not fit eval_set[{number}]: {error.problem}") from None
    return X, y, np.repeat(blocks.ids, blocks.sizes)


ROWS_OF_SPREADS, MOST_SPREAD = 4096, 1e4


def column_spreads(X: Matrix) -> np.ndarray:
    """Standard deviations of the columns over at most ROWS_OF_SPREADS evenly spaced rows."""
    rows = X[evenly(X.shape[0], ROWS_OF_SPREADS)]
    if sparse.issparse(rows):
        mean, square = rows.mean(axis=0), rows.multiply(rows).mean(axis=0)
        return np.sqrt(np.maximum(np.asarray(square).ravel() - np.asarray(mean).ravel() ** 2, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(rows.std(axis=0, dtype=np.float64))


def warn_spreads(ranker: Ranker, spreads: np.ndarray) -> None:
    """A ScaleWarning if the spreads of columns that vary differ by a factor of more than MOST_SPREAD."""
    varying = np.flatnonzero((spreads > 0) & np.isfinite(spreads))
    if len(varying) < 2:
        return
    low, high = varying[np.argmin(spreads[varying])], varying[np.argmax(spreads[varying])]
    if spreads[high] > MOST_SPREAD * spreads[low]:
        names = names_of_features(ranker, len(spreads))
        problem = (
            f"the features differ in scale: {names[high]} has standard deviation {spreads[high]:.3g} and {names[low]} "
            f"{spreads[low]:.3g}"
        )
        remedy = (
            'set scale="standard", "query-minmax", "log" or "quantile", or let hingerank.tune choose '
            "(RankingData.describe says more)"
        )
        warn(ScaleWarning(problem, remedy))


def warn_weak(ranker: Ranker, parameter: str, solution: Solution) -> None:
    """A WeakFitWarning that the penalty keeps the weights so near 0 that the fit gains next to nothing."""
    if solution.certificate.status == "overflow":  # which is an error
        return
    value = getattr(ranker, f"{parameter}_", getattr(ranker, parameter))
    gain = max(0.0, solution.origin - solution.value) / abs(solution.origin)
    follow = " (C=None follows the data)" if parameter == "C" and ranker.C is not None else ""
    rescale = 'rescale the features (scale="standard")' if "scale" in ranker.get_params() else "rescale the features"
    problem = (
        f"{parameter}={value!r} is small for features of this scale: the fit is only {100 * gain:.2g} % better than "
        "weights that are all 0"
    )
    warn(WeakFitWarning(problem, f"raise {parameter}{follow}, {rescale}, or let hingerank.tune choose", parameter))


def gather_rows(values: Matrix, rows: np.ndarray | None) -> Matrix:
    """`values[rows]`, or `values` itself when all rows stay as they are."""
    return values if rows is None else values[rows]


def names_of_features(ranker: Ranker, count: int, given: Sequence[str] | None = None) -> list[str]:
    """The `count` names given, else those seen in fit, else "f1", "f2", ... as LETOR files count.

    Columns that mark missing values come after the features, and columns of a context after both. Both are named after
    their features.
    """
    missing, context = (getattr(ranker, name, None) for name in ("missing_", "context"))
    columns = ranker.n_features_in_ if missing is None else missing.width
    whole = given is not None and len(given) == count
    if context is not None and not whole and count == 2 * columns:
        names = names_of_features(ranker, columns, given)
        return [*names, *(f"{name}, {context} in its query" for name in names)]
    if missing is not None and not whole and count == missing.width > len(missing.values):
        return missing.names(names_of_features(ranker, len(missing.values), given))
    found = getattr(ranker, "feature_names_in_", default_names(count)) if given is None else given
    if len(found) != count:
        raise ValueError(f"{len(found)} names were given for {count} features")
    return list(map(str, found))


def block_scores(ranker: Ranker, view: RowsView, qid: PerRow) -> np.ndarray:
    """The scores of mapped rows, a block at a time, in the order given; what is not finite is a DataError."""
    scaler, names = ranker._scaler_for(qid), names_of_features(ranker, view.shape[1])
    per_query = scaler is not None and scaler.per_query
    blocks = blocks_from_qid(qid if per_query else None, view.shape[0])
    view = view if blocks.order is None else view.take(blocks.order)
    view = view if scaler is None else view.scaled(scaler, blocks.offsets)
    raw, out = RowsView(view.X, view.rows), np.empty(len(view))

    def work(block: tuple[int, int]) -> None:
        a, b = block
        checks.check_finite(raw.block(a, b), False, names)
        out[a:b] = ranker._scores(view.block(a, b))

    run_shards(work, [block for shard in view.shards() for block in shard])
    return blocks.scatter(out)


def finite_scores(scores: np.ndarray) -> np.ndarray:
    """The scores; one that is not finite is a DataError: it can be ranked nowhere."""
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(
            f"the score of row {row} is {scores[row]}: its features are too large for this model; leave it out, or "
            "rescale the features (scale=...) and fit again"
        )
    return scores


class HasLimits:
    """The parameters that say when a solver stops."""

    tol: Any
    max_iter: Any
    max_seconds: float | None
    callback: Callback

    def _limits(self, max_iter: int | None = None) -> Facts:
        """tol, max_iter, max_seconds and callback as solvers take them; max_iter: if the ranker's parameter is None."""
        endless = self.max_seconds is None or self.max_seconds == np.inf
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a function of an entry of the trace, not {self.callback!r}")
        return {
            "tol": positive("tol", self.tol),
            "max_iter": whole("max_iter", max_iter if self.max_iter is None else self.max_iter, least=0),
            "max_seconds": np.inf if endless else positive("max_seconds", self.max_seconds, least=0),
            "callback": self.callback,
        }


class PreparedRows:
    """Preparation in every ranker: `missing_` and `scaler_` are learnt in training and applied to all rows."""

    n_features_in_: int
    # what fits learn of the rows, if anything
    scaler_: Scaler | None = None
    missing_: MissingValues | None = None
    # parameters, in rankers without them
    scale: str | None = None
    missing: str = "error"
    context: str | None = None
    features: object = None
    # what classes differ in
    _bytes_a_row = BYTES_A_ROW  # most memory that a fit takes for each mapped row, beside the file
    _scaled_type: type | None = None  # of scaled rows; None: that of the rows
    _sees_spreads: bool = False  # whether a column with a wide spread dominates the others, unless a map changes them

    def _learnt_rows(self, X: Matrix, blocks: QueryBlocks | None, weight: np.ndarray | None = None) -> Matrix:
        """Training rows without missing values and scaled; how that is done is learnt from them.

        The values of mapped rows are checked in the same pass. A DataError is raised if the machine has too little
        memory for a fit, beside the file.
        """
        if isinstance(X, RowsView):
            check_memory(X, X.shape[0] if blocks is None else int(blocks.sizes.max(initial=0)), self._bytes_a_row)
            read_ahead(X)
            figures = look_through(X, weight, names_of_features(self, X.shape[1]))
            self._learn_scaler_of_figures(figures, lambda most: X[evenly(len(X), most)])
            return X if self.scaler_ is None else X.scaled(self.scaler_, None if blocks is None else blocks.offsets)
        if self.missing != "error":
            self.missing_ = MissingValues.learn(self.missing, X, weight)
            X = self.missing_.filled(X)
        self._learn_scaler(lambda scaler: scaler.fit(X, sample_weight=weight), lambda: column_spreads(X))
        if self.scaler_ is None and self.context is None:
            return X
        return self._by_scaler(X, None if blocks is None else blocks.numbers)

    @property
    def _n_columns(self) -> int:
        """Number of columns of training rows: the features, and marks of missing values."""
        return self.n_features_in_ if self.missing_ is None else self.missing_.width

    def _scaled(self, X: Matrix, qid: PerRow) -> Matrix:
        """Checked rows as `_scores` takes them: without missing values, and scaled."""
        return self._by_scaler(X if self.missing_ is None else self.missing_.filled(X), qid)

    def _by_scaler(self, X: Matrix, qid: PerRow) -> Matrix:
        scaler = self._scaler_for(qid)
        rows = X if scaler is None else scaler.scale_rows(X.astype(self._scaled_type or X.dtype, copy=False), qid)
        if self.context is None:
            return rows
        if qid is None:
            raise ValueError(
                f"this ranker ranks values within each query (context={self.context!r}), so predict needs qid: one "
                "query id per row (for the rows of a single query a list of zeros will do)"
            )
        return beside_context(rows, qid, self.context)

    def _scaler_for(self, qid: PerRow) -> Scaler | None:
        """The scaler of the fit, or None; one that works within queries needs their ids."""
        if self.scaler_ is not None and qid is None and self.scaler_.per_query:
            raise ValueError(
                f"this ranker scales features within each query (scale={self.scale!r}), so predict "
                "needs qid: one query id per row (for the rows of a single query a list of zeros will do)"
            )
        return self.scaler_

    def _learn_scaler_of_figures(self, figures: Figures, sample: Callable[[int], Matrix]) -> None:
        """Learn the scaler of columns with these figures; sample(n) gives about n of the rows."""

        def fit(scaler: Scaler) -> Scaler:
            return scaler.fit_figures(figures, sample(SAMPLED_ROWS if scaler.learns_from == "rows" else 1))

        self._learn_scaler(fit, lambda: figures.spread)

    def _learn_scaler(self, fit: Callable[[Scaler], Scaler], spreads: Callable[[], np.ndarray]) -> None:
        """Set `scaler_`; without a scaler, a warning if the spreads of the columns matter and differ."""
        name, self.scaler_ = self._scaling(), None
        if name is None:
            if self._sees_spreads and self.features is None:
                warn_spreads(self, spreads())
            return
        with np.errstate(over="ignore", invalid="ignore"):
            self.scaler_ = fit(make_scaler(name))
        learnt = (v for v in vars(self.scaler_).values() if isinstance(v, np.ndarray) and v.dtype.kind == "f")
        if not all(np.isfinite(v).all() for v in learnt):
            raise DataError(f"scale={name!r}: squares of the features overflow; divide the features first")

    def _scaling(self) -> str | None:
        """The name of the scaler that a fit uses."""
        return self.scale
