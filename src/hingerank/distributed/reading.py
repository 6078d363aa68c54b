"""Reading files, or a Dask data frame, as data in parts of whole queries."""

import os
import sys
import tempfile
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.arrays import Facts, Frame, Ranker
from hingerank.data.binary import load_binary, save_binary
from hingerank.data.files import DataError, PathLike, is_binary, kind_to_read
from hingerank.data.ranking_data import RankingData
from hingerank.distributed.parted_data import PartedData
from hingerank.distributed.parts import (
    Answers,
    Arguments,
    Lease,
    LoadedPart,
    Part,
    PartFacts,
    Question,
    Runner,
    facts_of,
    forget,
)
from hingerank.metrics.measure import several

SPANNING = ("error", "join")
ROWS_A_PART = 1 << 20  # default size of the parts of a single binary folder


def read(
    paths: PathLike | Iterable[PathLike],
    client: object = None,
    *,
    parts: int | None = None,
    spanning: str = "error",
    folder: PathLike | None = None,
    **options: Any,
) -> PartedData:
    """Read data in parts of whole queries, for ``ranker.fit(data)``.

    Parameters
    ----------
    paths : path, sequence of paths, or Dask data frame
        Files and folders with the same path on every worker (LETOR text, Parquet and other tables, binary folders), or
        one folder of such files. Each is a part. A binary folder may be split into several. The rows of a data frame
        are shuffled so that each partition has whole queries, and written to `folder` as parts.
    client : dask.distributed.Client, or None
        The cluster whose workers hold the parts. None: this process handles one part after the other. Any object with a
        method ``run(question, parts, arguments)`` works as well.
    parts : int, optional
        Number of parts into which a binary folder is split. By default each has about a million rows. A folder in which
        the rows of a query are not next to each other is one part.
    spanning : {"error", "join"}
        "error": a query id in several parts is an error, since ids often start again in every file. "join": the same id
        is the same query, and all of its rows go to the first of these parts.
    folder : path, optional
        The folder in which the parts of a data frame are written. If workers are on other machines, it is required and
        must be on a disk that all of them share.
    **options
        Options of `hingerank.read`, or of `RankingData.from_frame` for a data frame.

    Returns
    -------
    PartedData

    Examples
    --------
    >>> import hingerank as hr
    >>> for k in range(3):
    ...     data = hr.make_letor(10, 5, seed=k)
    ...     hr.write(hr.RankingData(data.X, data.y, data.qid + 100 * k), f"part{k}/")
    >>> data = hr.distributed.read([f"part{k}" for k in range(3)])
    >>> data
    PartedData(3 parts, 30 queries, 150 rows, 46 features, float32)
    >>> hr.RankSVM().fit(data).certificate_.converged
    True
    """
    if spanning not in SPANNING:
        raise ValueError(f"spanning must be one of {', '.join(map(repr, SPANNING))}, not {spanning!r}")
    if parts is not None and (not isinstance(parts, int) or parts < 1):
        raise ValueError(f"parts is {parts!r}, expected a whole number of at least 1")
    runner = runner_of(client)
    if not isinstance(paths, str | os.PathLike | Sequence):
        paths, options = write_partitions(paths, folder, options), {}
    given = tuple(sorted(options.items()))
    found = [Part(str(path), given, rows) for path in listed(paths) for rows in _cut(path, parts)]
    if not found:
        raise DataError("there are no parts to learn from: name files or folders")
    leases = [Lease(runner, found)]
    facts: list[PartFacts] = runner.run(facts_of, found, ())
    _check_spelling(found, facts)
    spread = spanning_ids([part.ids for part in facts])
    if spread:
        if spanning == "error":
            query, places = next(iter(spread.items()))
            raise DataError(
                f"query {query!r} is in several parts ({', '.join(found[k].path for k in places[:3])}), and so are "
                f"{len(spread) - 1} others; a part must have whole queries: pass spanning='join' if the same id means "
                "the same query, or number the queries of every file differently"
            )
        return PartedData(_joined(found, facts, spread), runner)
    return PartedData(found, runner, facts, leases)


def evaluate(
    ranker: Ranker, data: PartedData, measures: str | Iterable[str] = "ndcg@10", per_query: bool = False
) -> Facts:
    """Measures of a fitted ranker on data in parts. The workers that hold the parts compute them.

    Parameters
    ----------
    ranker : a fitted ranker
    data : PartedData
    measures : a name such as "ndcg@10", or several; functions of your own need rows in memory (`hingerank.evaluate`)
    per_query : return the values of every query, part after part, instead of means
    """
    if not isinstance(data, PartedData):
        what = f"data must be rows in parts (hingerank.distributed.read), not {type(data).__name__}"
        raise ValueError(f"{what}; hingerank.evaluate measures rows in memory")
    values = data.evaluate([ranker], several(measures))[0]
    return values if per_query else {name: float(np.nanmean(found)) for name, found in values.items()}


def runner_of(client: object) -> Runner:
    """The runner for a Dask client, for any object with a method run, or for this process (None)."""
    if client is None:
        return Runner()
    dask = sys.modules.get("distributed")  # imported already if there is a client
    if dask is not None and isinstance(client, dask.Client):
        from hingerank.distributed.dask_runner import DaskRunner

        return DaskRunner(client)
    if isinstance(client, Runner):
        return client
    if not callable(getattr(client, "run", None)):
        raise ValueError(
            f"client must be a dask.distributed.Client, an object with a run method, or None, not {client!r}"
        )
    return _Other(client)


class _Other(Runner):
    """A runner that uses any object with a method run."""

    def __init__(self, client: Any):
        self.client = client

    def run(self, question: Question, parts: Sequence[Part], arguments: Arguments) -> Answers:
        return list(self.client.run(question, parts, arguments))

    def forget(self, parts: Sequence[Part]) -> None:
        self.client.run(_let_go, parts, ())


def _let_go(part: LoadedPart) -> None:
    forget([part.part])


def listed(paths: PathLike | Iterable[PathLike]) -> list[str]:
    """The absolute paths of the parts. For a folder these are all of its files, sorted by name."""
    if not isinstance(paths, str | os.PathLike):
        paths = list(paths)
        other = [type(path).__name__ for path in paths if not isinstance(path, str | os.PathLike)]
        if other:
            raise DataError(f"a part must be a file or a folder, not {other[0]}: write it with hr.write, and name it")
        return [os.path.abspath(path) for path in paths]
    top = Path(os.path.abspath(paths))
    if not top.is_dir() or is_binary(top):
        return [str(top)]
    inside = [
        path for path in sorted(top.iterdir()) if is_binary(path) or (path.is_file() and path.name[0] not in "._")
    ]
    return [str(path) for path in inside if is_binary(path) or kind_to_read(path) in ("text", "table")]


def _cut(path: str, parts: int | None) -> Iterable[tuple[int, int] | None]:
    """The row ranges of the parts of one path; None means all rows. Only binary folders are split, between queries."""
    if not os.path.exists(path) or not is_binary(Path(path)):
        return [None]
    data = load_binary(path, verify=False)
    count = -(-data.n_rows // ROWS_A_PART) if parts is None else parts
    if count == 1 or data.blocks.order is not None:
        return [None]
    offsets = data.blocks.offsets
    edges = np.unique(offsets[np.searchsorted(offsets, np.linspace(0, data.n_rows, count + 1))])
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def spanning_ids(ids: Sequence[np.ndarray]) -> dict[Hashable, list[int]]:
    """The ids that are in several parts, of which each has these, and the numbers of these parts."""
    seen: dict[Hashable, int] = {}
    found: dict[Hashable, list[int]] = {}
    for k, own in enumerate(ids):
        for query in own.tolist():
            first = seen.setdefault(query, k)
            if first != k:
                found.setdefault(query, [first]).append(k)
    return found


def _check_spelling(parts: Sequence[Part], facts: Sequence[PartFacts]) -> None:
    """Raise a DataError about an id that is a number in one part and text in another, as 7 and "7" in text files."""
    numbers = {str(query): k for k, own in enumerate(facts) if own.ids.dtype.kind in "iu" for query in own.ids.tolist()}
    for k, own in enumerate(facts if len(numbers) else ()):
        both = next((query for query in own.ids.tolist() if isinstance(query, str) and query in numbers), None)
        if both is not None:
            raise DataError(
                f"the query ids of {parts[numbers[both]].path} are numbers and those of {parts[k].path} are text, but "
                f"both have {both}: write the ids of all parts alike"
            )


def _joined(parts: list[Part], facts: list[PartFacts], spread: dict[Hashable, list[int]]) -> list[Part]:
    """The parts after joining: every query that is in several parts belongs to the first of them.

    Parts without queries of their own are left out.
    """
    taken: dict[int, dict[int, list[Hashable]]] = {}
    lost: dict[int, list[Hashable]] = {}
    for query, (first, *others) in spread.items():
        for k in others:
            taken.setdefault(first, {}).setdefault(k, []).append(query)
            lost.setdefault(k, []).append(query)
    return [
        replace(
            part,
            without=tuple(lost.get(k, ())),
            more=tuple((parts[other], tuple(ids)) for other, ids in taken.get(k, {}).items()),
        )
        for k, part in enumerate(parts)
        if len(lost.get(k, ())) < len(facts[k].ids)
    ]


# Dask data frames.


def write_partitions(frame: Frame, folder: PathLike | None, options: Facts) -> list[str]:
    """Shuffle the rows of a Dask data frame so that each partition has whole queries, and write the partitions once.

    Returns the binary folders of those that have rows.
    """
    try:
        import dask
        from dask.dataframe import DataFrame
    except ImportError:
        raise DataError("reading a Dask data frame needs Dask: pip install 'hingerank[dask]'") from None
    if not isinstance(frame, DataFrame):
        raise DataError(f"paths must be files, folders, or a Dask data frame, not {type(frame).__name__}")
    from hingerank.data.frames import query_column  # fits of arrays need no frames

    options = {**options, "qid": (query := query_column(frame.columns, options.get("qid", "qid")))}
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
    ordered = partition.sort_values(options["qid"], kind="stable").reset_index(drop=True)
    save_binary(RankingData.from_frame(ordered, **options), path, overwrite=True)
    return path
