"""How features are scaled before they are scored, for exports: what they need of the scalers in `EXPORTED`.

A scaler of columns has values and an approximate inverse here, and an expression in `hingerank.export.expressions`.
"""

import numpy as np

from hingerank.data.scaling import (
    ColumnScaler,
    LogScaler,
    QuantileScaler,
    QueryMinMaxScaler,
    QueryStandardScaler,
    Scaler,
    make_scaler,
)
from hingerank.kernels.scaling import columns_dense, log_dense, quantile_dense

EXPORTED = (ColumnScaler, LogScaler, QuantileScaler, QueryMinMaxScaler, QueryStandardScaler)


def scaling_kind(scaler: Scaler | str | None) -> str:
    """The kind of scaling of a scaler, or of one by its name.

    >>> [scaling_kind(name) for name in (None, "standard", "log", "query-minmax")]
    ['none', 'columns', 'log', 'query-minmax']
    """
    scaler = scaler if isinstance(scaler, Scaler) else make_scaler(scaler)
    return "columns" if isinstance(scaler, ColumnScaler) else scaler.name


def scaled_values(scaler: Scaler, x: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Single values scaled, each with its column, to the last bit as rankers compute them."""
    kernels = {"columns": columns_dense, "log": log_dense, "quantile": quantile_dense}
    learnt = (np.ascontiguousarray(array[columns]) for array in scaler.to_state()[1].values())
    out = np.empty((1, len(x)))  # one row of as many columns
    kernels[scaling_kind(scaler)](np.ascontiguousarray(x, np.float64)[None], 0, 1, *learnt, out)
    return out[0]


def unscaled(scaler: Scaler, rows: np.ndarray) -> np.ndarray:
    """Rows that are scaled to these, up to rounding; among quantiles every other row contains some, where the scaled
    value jumps, and some values are beyond the outermost."""
    if isinstance(scaler, ColumnScaler):
        return scaler.centre_ + scaler.width_ * rows
    if isinstance(scaler, LogScaler):
        return np.copysign(np.expm1(np.minimum(np.abs(rows) * scaler.width_, 600.0)), rows)
    if not isinstance(scaler, QuantileScaler):
        return rows
    top, column = scaler.quantiles_.shape[1] - 1, np.arange(rows.shape[1])
    place = np.clip(rows, 0, 1) * top
    place[::2] = np.round(place[::2])
    low = np.floor(place).astype(np.int64)
    part = place - low
    found = (1 - part) * scaler.quantiles_[column, low] + part * scaler.quantiles_[column, np.minimum(low + 1, top)]
    return found + np.where((rows < 0) | (rows > 1), rows - np.clip(rows, 0, 1), 0.0)
