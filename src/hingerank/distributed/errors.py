"""What goes wrong on a cluster, in words."""


class ClusterError(RuntimeError):
    """A cluster could not answer: its scheduler is lost, it has no workers, or parts kill every worker they come to.

    A fit that ends so can be taken up again where it was: give ``callback=hingerank.distributed.Checkpoint(path)``
    beforehand, and ``init=checkpoint.weights()`` afterwards.
    """
