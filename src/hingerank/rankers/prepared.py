"""What rankers do to rows before they score them: fill missing values, scale columns, compare within queries."""

from collections.abc import Callable

import numpy as np

from hingerank.arrays import Matrix, PerRow
from hingerank.data.blocks import QueryBlocks, evenly
from hingerank.data.files import DataError
from hingerank.data.missing import MissingValues
from hingerank.data.rows_view import RowsView, check_memory, read_ahead
from hingerank.data.scaling import SAMPLED_ROWS, Figures, Scaler, make_scaler
from hingerank.data.view_figures import look_through
from hingerank.features.context import beside_context
from hingerank.rankers.inputs import column_spreads, names_of_features, warn_spreads


class PreparedRows:
    """Preparation in every ranker: `missing_` and `scaler_` are learnt in training and applied to all rows."""

    n_features_in_: int
    missing_: MissingValues | None
    scaler_: Scaler | None
    scale: str | None
    missing: str
    context: str | None
    features: object
    _sees_spreads: bool
    _scaled_type: type | None
    _bytes_a_row: Callable[[], int]

    def _learnt_rows(self, X: Matrix, blocks: QueryBlocks | None, weight: np.ndarray | None = None) -> Matrix:
        """Training rows without missing values and scaled; how that is done is learnt from them."""
        if self.missing != "error":
            self.missing_ = MissingValues.learn(self.missing, X, weight)
            X = self.missing_.filled(X)
        self.scaler_ = self._fitted_scaler(X, weight)
        if self.scaler_ is None and self.context is None:
            return X
        return self._by_scaler(X, None if blocks is None else blocks.numbers)

    @property
    def _n_columns(self) -> int:
        """Of the rows that are learnt from: the features, and marks of missing values."""
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

    def _fitted_scaler(self, X: Matrix, weight: np.ndarray | None = None) -> Scaler | None:
        """The scaler named by the parameter `scale`, fitted on the training rows; None when there is none."""
        name = self._scaling()
        if name is None:
            if self._sees_spreads and self.features is None:
                warn_spreads(self, column_spreads(X))
            return None
        return self._finite_scaler(name, lambda: make_scaler(name).fit(X, sample_weight=weight))

    def _scaler_of_view(self, view: RowsView, longest: int, weight: np.ndarray | None) -> Scaler | None:
        """The scaler of mapped rows, which are checked on the way, in one reading; longest: rows of a query.

        A machine without the memory that a fit takes beside the file is a DataError.
        """
        check_memory(view, longest, self._bytes_a_row())
        read_ahead(view)
        figures = look_through(view, weight, names_of_features(self, view.shape[1]))
        return self._scaler_of_figures(figures, lambda most: view[evenly(len(view), most)])

    def _scaler_of_figures(self, figures: Figures, sample: Callable[[int], Matrix]) -> Scaler | None:
        """The scaler of columns with these figures; sample(n) gives about n of the rows."""
        name = self._scaling()
        if name is None:
            if self._sees_spreads and self.features is None:
                warn_spreads(self, figures[3])
            return None
        rows = sample(SAMPLED_ROWS if make_scaler(name).of_sample else 1)
        return self._finite_scaler(name, lambda: make_scaler(name).fit_figures(figures, rows))

    def _finite_scaler(self, name: str, learn: Callable[[], Scaler]) -> Scaler:
        with np.errstate(over="ignore", invalid="ignore"):
            scaler = learn()
        learnt = (value for value in vars(scaler).values() if isinstance(value, np.ndarray) and value.dtype.kind == "f")
        if not all(np.isfinite(value).all() for value in learnt):
            raise DataError(f"scale={name!r}: squares of the features overflow; divide the features first")
        return scaler

    def _scaling(self) -> str | None:
        """The name of the scaler that a fit uses."""
        return self.scale
