"""One cluster of real worker processes for all tests of this folder."""

import pytest


@pytest.fixture(scope="session")
def client():
    """Two worker processes of 1 GB each, as the nannies start them."""
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": "1GB", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
        yield client
