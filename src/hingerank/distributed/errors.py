"""Errors of a cluster."""


class ClusterError(RuntimeError):
    """A cluster failed: its scheduler is lost, it has no workers, or parts kill every worker they are sent to.

    Such a fit can be resumed if it was given ``callback=hingerank.distributed.Checkpoint(path)``: pass
    ``init=checkpoint.weights()`` to the next fit.
    """
