"""Dask data frames as parts. Rows are shuffled so that each partition has whole queries, and written to files once."""

import tempfile
from pathlib import Path

from hingerank.arrays import Facts, Frame
from hingerank.data.binary import save_binary
from hingerank.data.files import DataError, PathLike
from hingerank.data.ranking_data import RankingData


def write_partitions(frame: Frame, folder: PathLike | None, options: Facts) -> list[str]:
    """Write the partitions of a Dask data frame as binary folders of whole queries. Returns those that have rows."""
    try:
        import dask
        from dask.dataframe import DataFrame
    except ImportError:
        raise DataError("reading a Dask data frame needs Dask: pip install 'hingerank[dask]'") from None
    if not isinstance(frame, DataFrame):
        raise DataError(f"paths must be files, folders, or a Dask data frame, not {type(frame).__name__}")
    query = options.get("qid", "qid")
    if query not in frame.columns:
        raise DataError(f"the data frame has no column {query!r} of query ids; name it with qid=")
    place = Path(tempfile.mkdtemp(prefix="hingerank-parts-") if folder is None else folder)
    place.mkdir(parents=True, exist_ok=True)
    together = frame.shuffle(query, npartitions=frame.npartitions)
    writes = [
        dask.delayed(_write)(partition, str(place / f"part{k:05}"), options)
        for k, partition in enumerate(together.to_delayed())
    ]
    return [path for path in dask.compute(*writes) if path is not None]


def _write(partition: Frame, path: str, options: Facts) -> str | None:
    if len(partition) == 0:
        return None
    ordered = partition.sort_values(options.get("qid", "qid"), kind="stable").reset_index(drop=True)
    save_binary(RankingData.from_frame(ordered, **options), path, overwrite=True)
    return path
