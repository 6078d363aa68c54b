"""Statistics of the columns of rows that are never all in memory. The same pass finds values that are not finite."""

from collections.abc import Sequence

import numpy as np

from hingerank.data.blocks import check_finite
from hingerank.data.describe import BlockFigures, block_figures, merge_figures
from hingerank.data.files import DataError
from hingerank.data.rows_view import RowsView, cut_blocks
from hingerank.data.scaling import Figures
from hingerank.kernels.threads import run_shards


def look_through(view: RowsView, weight: np.ndarray | None, names: Sequence[str] | None) -> Figures:
    """The columns' statistics. A value that is not finite is a DataError that names its feature and block of rows."""
    return merge_figures(_of_blocks(view, weight, names))


def figures_of(view: RowsView, weight: np.ndarray | None, names: Sequence[str] | None = None) -> BlockFigures:
    """The statistics of `look_through` as those of a single block, which can be merged with those of other rows."""
    found = _of_blocks(view, weight, names)
    if not found:  # every row has weight 0
        nothing = np.zeros(view.shape[1])
        return BlockFigures(nothing + np.inf, nothing - np.inf, nothing, nothing, nothing, 0, 0)
    low, high, mean, spread, nonzero, missing = merge_figures(found)
    known = np.sum([figures.known for figures in found], axis=0)
    return BlockFigures(low, high, known, mean, spread**2 * known, nonzero, missing)


def _of_blocks(view: RowsView, weight: np.ndarray | None, names: Sequence[str] | None) -> list[BlockFigures]:
    blocks = [block for shard in cut_blocks(len(view), view.height, view.offsets) for block in shard]

    def look(block: tuple[int, int]) -> BlockFigures:
        a, b = block
        return block_figures(view.block(a, b), None if weight is None else weight[a:b])

    found = run_shards(look, blocks)
    for (a, b), part in zip(blocks, found):
        if part.missing or not (np.isfinite(part.low).all() and np.isfinite(part.high).all()):
            try:
                check_finite(view.block(a, b), False, names)
            except DataError as error:
                raise DataError(f"in the block of rows {a}:{b} {error}") from None
    return found
