"""Context within queries: the ranks or z-scores of columns among the rows of a query, as further columns."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from hingerank.arrays import Floats, Matrix
from hingerank.data.blocks import blocks_from_qid
from hingerank.data.scaling import make_scaler

CONTEXTS = ("rank", "standard")
SPREAD = np.sqrt(12.0)  # 1 / the standard deviation of evenly spaced ranks from 0 to 1


def check_context(context: object) -> None:
    """Raise a ValueError unless `context` is None or a known name."""
    if context is not None and (not isinstance(context, str) or context not in CONTEXTS):
        raise ValueError(f"context must be None, {' or '.join(map(repr, CONTEXTS))}, not {context!r}")


def beside_context(X: Matrix, qid: ArrayLike | None, context: str) -> Floats:
    """The columns of dense rows, followed by each column's ranks or z-scores within the queries.

    Ranks go from -√3 to √3, so that their standard deviation is about 1; equal values share the mean of their ranks.

    >>> beside_context(np.array([[5.0], [7.0], [5.0]]), [0, 0, 0], "rank").round(2).tolist()
    [[5.0, -0.87], [7.0, 1.73], [5.0, -0.87]]
    """
    check_context(context)
    if sparse.issparse(X):
        raise ValueError(f"context={context!r} would fill a sparse matrix: pass dense rows, or context=None")
    if context == "standard":
        return np.hstack((X, make_scaler("query-standard").fit(X).transform(X, qid).astype(X.dtype, copy=False)))
    blocks = blocks_from_qid(qid, X.shape[0])
    rows, sizes = blocks.gather(X), blocks.sizes
    query, last = blocks.numbers, np.repeat(np.maximum(sizes - 1, 1), sizes)
    start = np.repeat(blocks.offsets[:-1], sizes)
    ranks = np.empty(X.shape, X.dtype)
    for column in range(X.shape[1]):
        values = rows[:, column]
        order = np.lexsort((values, query))
        ordered, of = values[order], query[order]
        new = np.concatenate(([True], (np.diff(ordered) != 0) | (np.diff(of) != 0)))
        run = np.cumsum(new) - 1
        first = np.flatnonzero(new)
        middle = (first + np.append(first[1:], len(order)) - 1) / 2  # the mean position of equal values
        ranks[order, column] = middle[run] - start[order]
    ranks = (SPREAD * (ranks / last[:, None] - 0.5) * (np.repeat(sizes, sizes) > 1)[:, None]).astype(X.dtype)
    return np.hstack((X, blocks.scatter(ranks)))
