"""What goes wrong on a cluster, in words."""


class ClusterError(RuntimeError):
    """A cluster could not answer: its scheduler is lost, it has no workers, or parts kill every worker they come to.

    Such a fit can be resumed: give it ``callback=hingerank.distributed.Checkpoint(path)`` beforehand, and
    ``init=checkpoint.weights()`` to the next fit.
    """
