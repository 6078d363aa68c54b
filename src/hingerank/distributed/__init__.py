"""Training on several machines: each worker has parts of the data, and rankers learn from sums over the parts.

A part has whole queries. `read` returns data for ``ranker.fit(data)``, ``ranker.predict(data)``,
``hingerank.tune(ranker, data)`` and `evaluate`.
"""

from hingerank.distributed.checkpoint import Checkpoint, ClusterError
from hingerank.distributed.parted_data import PartedData
from hingerank.distributed.reading import evaluate, read

__all__ = ["Checkpoint", "ClusterError", "PartedData", "evaluate", "read"]
