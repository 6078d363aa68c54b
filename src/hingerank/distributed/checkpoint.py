"""Failures of a cluster, and the weights of a fit in a file, from which it can be resumed."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hingerank.arrays import Facts
from hingerank.data.binary import write_npy
from hingerank.data.files import DataError, PathLike, draft_of


class ClusterError(RuntimeError):
    """A cluster failed: its scheduler is lost, it has no workers, or parts kill every worker they are sent to.

    Such a fit can be resumed if it was given ``callback=hingerank.distributed.Checkpoint(path)``: pass
    ``init=checkpoint.weights()`` to the next fit.
    """


class Checkpoint:
    """A callback that stores the weights of every iteration in a file. The file is always complete.

    Parameters
    ----------
    path : the file, .npy
    also : another callback, which is called with each entry too

    Examples
    --------
    >>> import hingerank as hr
    >>> data, checkpoint = hr.make_letor(20), Checkpoint("weights.npy")
    >>> ranker = hr.RankSVM(callback=checkpoint).fit(data)
    >>> hr.RankSVM(init=checkpoint.weights()).fit(data).certificate_.n_iter
    0
    """

    def __init__(self, path: PathLike, also: Callable[[Facts], object] | None = None):
        self.path, self.also = Path(os.fspath(path)), also

    def __call__(self, entry: Facts) -> object:
        if "w" in entry:
            with draft_of(self.path) as draft:
                write_npy(draft, np.asarray(entry["w"], np.float64))
        return self.also(entry) if self.also is not None else False

    def weights(self) -> np.ndarray:
        """The weights stored last."""
        try:
            return np.asarray(np.load(self.path, allow_pickle=False), np.float64)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self.path}: no weights are stored here ({error}); fit with callback= this checkpoint first"
            ) from None
