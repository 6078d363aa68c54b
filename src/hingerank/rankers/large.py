"""Rows that do not fit in memory: checked, and their scaler learnt, in one reading; never copied."""

from typing import Any

import numpy as np

from hingerank.data.blocks import QueryBlocks, blocks_from_qid, check_finite, evenly, fingerprint
from hingerank.data.describe import block_figures, merge_figures
from hingerank.data.files import DataError
from hingerank.data.rows_view import RowsView, check_memory, cut_blocks, is_mapped, read_ahead
from hingerank.data.scaling import SAMPLED_ROWS, Figures, make_scaler
from hingerank.kernels.threads import run_shards
from hingerank.rankers.inputs import names_of_features, warn_spreads

ROWS_FOR_A_MAP = 50_000  # from which a feature map is learnt where the rows are not in memory


def view_rows(
    ranker: Any, X: Any, taken: np.ndarray | None, y: np.ndarray, blocks: QueryBlocks, weight: np.ndarray | None
) -> Any:
    """What a ranker learns from where X lies in a mapped file: no copy of it, checked and looked through in one pass.

    The ranker's scaler is learnt on the way. taken: the rows in block order, None for all as they are. A machine
    without the memory that a fit takes beside the file is a DataError.
    """
    names, name = names_of_features(ranker, X.shape[1]), ranker._scaling()
    view = X if isinstance(X, RowsView) else RowsView(X)
    view = view if taken is None else view.take(taken)
    check_memory(view, int(blocks.sizes.max(initial=0)), ranker._bytes_a_row)
    read_ahead(view)
    ranker.fingerprint_ = fingerprint(view, y, blocks)
    figures = look_through(view, weight, names)
    ranker.scaler_ = None
    if name is not None:
        sample = view[evenly(len(view), SAMPLED_ROWS if make_scaler(name).of_sample else 1)]
        ranker.scaler_ = ranker._finite_scaler(name, lambda: make_scaler(name).fit_figures(figures, sample))
        return view.scaled(ranker.scaler_, blocks.offsets)
    if ranker._sees_spreads and getattr(ranker, "features", None) is None:
        warn_spreads(figures[3], names, stacklevel=5)
    return view if view.whole is None else view.whole


def look_through(view: RowsView, weight: np.ndarray | None, names: Any) -> Figures:
    """The columns' figures, in one reading that also finds what is not finite, which is a DataError."""
    blocks = [block for shard in cut_blocks(len(view), view.height) for block in shard]

    def look(block: tuple[int, int]) -> Any:
        a, b = block
        return block_figures(view.block(a, b), None if weight is None else weight[a:b])

    figures = merge_figures(run_shards(look, blocks))
    if figures[5] or not (np.isfinite(figures[0]).all() and np.isfinite(figures[1]).all()):
        for a, b in blocks:
            try:
                check_finite(view.block(a, b), False, names)
            except DataError as error:
                raise DataError(f"among rows {a}:{b} {error}") from None
    return figures


def rows_for_map(X: Any, weight: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
    """The rows, and their weights, that a feature map learns from: all, or evenly spaced ones of mapped data."""
    if not is_mapped(X):
        return X, weight
    rows = evenly(X.shape[0], ROWS_FOR_A_MAP)
    return X[rows], None if weight is None else weight[rows]


def block_scores(ranker: Any, X: Any, qid: Any) -> np.ndarray:
    """The scores of mapped rows, a block at a time, in the order given; what is not finite is a DataError."""
    scaler, names = ranker._scaler_for(qid), names_of_features(ranker, X.shape[1])
    per_query = scaler is not None and scaler.per_query
    blocks = blocks_from_qid(qid if per_query else None, X.shape[0])
    view = X if isinstance(X, RowsView) else RowsView(X)
    view = view if blocks.order is None else view.take(blocks.order)
    view = view if scaler is None else view.scaled(scaler, blocks.offsets)
    raw, out = RowsView(view.X, view.rows), np.empty(len(view))

    def work(block: tuple[int, int]) -> None:
        a, b = block
        check_finite(raw.block(a, b), False, names)
        out[a:b] = ranker._scores(view.block(a, b))

    run_shards(work, [block for shard in view.shards() for block in shard])
    return blocks.scatter(out)
