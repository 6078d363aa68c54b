"""Data over many machines: parts of whole queries, each held by a worker, and rankers that learn from sums over parts.

`read` returns data for ``ranker.fit(data)``, ``ranker.predict(data)``, ``hingerank.tune(ranker, data)`` and `evaluate`.
"""

from hingerank.distributed.checkpoint import Checkpoint
from hingerank.distributed.errors import ClusterError
from hingerank.distributed.parted_data import PartedData
from hingerank.distributed.reading import evaluate, read

__all__ = ["Checkpoint", "ClusterError", "PartedData", "evaluate", "read"]
