"""Open data in parts on the Dask cluster that --dask names."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hingerank.cli.files import read_options
from hingerank.cli.groups import Rows
from hingerank.data.files import DataError, is_binary, kind_to_read, no_such_file

if TYPE_CHECKING:
    from hingerank.distributed.parted_data import PartedData


@contextmanager
def open_parts(path: Path, cluster: str, parts: int | None, rows: Rows) -> "Iterator[PartedData]":
    """Yield the data at `path` in parts, on the cluster "tcp://HOST:PORT" or on "local:N" processes of this machine."""
    if not path.exists():
        raise DataError(no_such_file(path))
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ValueError("--dask needs Dask: pip install 'hingerank[dask]'") from None
    from hingerank.data.checks import whole_decimal
    from hingerank.distributed import read
    from hingerank.kernels.threads import thread_count

    kind, _, count = cluster.partition(":")
    with ExitStack() as stack:
        if kind == "local":
            workers = whole_decimal(count) or 0
            if workers < 1:
                raise ValueError(f"--dask {cluster}: expected local:N, such as local:4")
            each = max(1, thread_count() // workers)
            options: dict[str, Any] = {"threads_per_worker": each, "dashboard_address": None, "silence_logs": 40}
            address: Any = stack.enter_context(LocalCluster(n_workers=workers, **options))
        elif "://" in cluster:
            address = cluster
        else:
            raise ValueError(f"--dask {cluster}: expected the scheduler's address, tcp://HOST:PORT, or local:N")
        try:
            client = stack.enter_context(Client(address, timeout=10))
        except OSError as error:
            raise ValueError(f"--dask {cluster}: no scheduler answers there ({error})") from None
        first = path if path.is_file() or is_binary(path) else next(iter(sorted(path.iterdir())), path)
        kind = kind_to_read(first)
        given = read_options(rows, kind) | ({} if kind == "binary" else {"missing": rows.missing})
        if kind == "binary" and parts is None:
            parts = len(client.scheduler_info(n_workers=-1)["workers"])
        yield read(path, client, parts=parts, **given)
