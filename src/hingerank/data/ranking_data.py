"""RankingData: feature rows, grades and queries in one value; rows stay in the order they came in."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hingerank.data.blocks import QueryBlocks, blocks_from_qid


@dataclass(frozen=True, eq=False)
class RankingData:
    """Rows of features X (dense C-ordered float32/float64 or CSR), grades y, query ids, document ids, feature names.

    Rows are in file order; `blocks` groups them by query without touching them.
    """

    X: Any
    y: np.ndarray
    qid: np.ndarray
    docid: np.ndarray | None = None
    feature_names: Sequence[str] | None = None

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

    def __len__(self) -> int:
        return self.n_rows
