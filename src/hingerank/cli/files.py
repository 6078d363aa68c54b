"""Open a data set in any format, here or on a Dask cluster, with a progress bar and errors that name options."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hingerank.cli.groups import ModelRows, Rows
from hingerank.cli.options import KINDS
from hingerank.cli.output import progress
from hingerank.data.files import DataError, kind_to_read, no_such_file

if TYPE_CHECKING:
    from hingerank.data.ranking_data import RankingData
    from hingerank.distributed.parted_data import PartedData
    from hingerank.rankers.base import BaseRanker

PLAIN = Rows()
Rowed = TypeVar("Rowed", bound=Rows)
NO_COLUMNS: Mapping[str, object] = {}
USES = {  # kind of data that a model learned from -> the commands that take the model
    "rows": "rank, evaluate or explain",
    "ratings": "recommend, rank, evaluate or report, which shows what made its lists",
    "topics": "rerank",
}


def read_options(rows: Rows, kind: str) -> dict[str, Any]:
    """Return the arguments of `read` for data of this kind: columns of tables, and `one_query`."""
    named = [name for name in ("label", "qid", "docid", "features") if getattr(rows, name) is not None]
    if isinstance(rows, ModelRows) and rows.pad and kind in ("table", "binary"):
        called = {"table": "table", "binary": "binary folder"}[kind]
        raise DataError(f"--pad fills the last features of text, and this is a {called}: leave it out")
    if kind == "table":
        found = {name: getattr(rows, name) or None for name in named}
        if rows.features is not None:
            found["features"] = [name.strip() for name in rows.features.split(",")]
        return found | ({"qid": rows.qid} if rows.one_query else {})
    if named:
        words = "is text" if kind == "text" else "is a binary folder" if kind == "binary" else "is a folder of text"
        absent = rows.features is not None and not Path(rows.features).exists()
        raise DataError(
            f"--{named[0]} names a column of a table (.csv, .tsv, .parquet, .feather), and this {words}: leave it out"
            + (f" (and there is no file {rows.features!r})" if absent else "")
        )
    return {"one_query": True} if rows.one_query and kind != "binary" else {}


def open_data(
    path: Path,
    rows: Rows = PLAIN,
    n_features: int | None = None,
    dtype: str = "float64",
    index_base: int | None = None,
    columns: Mapping[str, object] = NO_COLUMNS,
) -> "RankingData":
    """Read the data at `path`.

    Parameters
    ----------
    path : Path
    rows : Rows, optional
        Options of the command. If they include --pad, text without the last features of a model is an error unless
        --pad is given. Commands without --pad only warn.
    n_features : int, optional
        The number of features of the model. Text with fewer features is read again, with the missing ones as zeros.
    dtype : str
        Passed to `hingerank.read`.
    index_base : {0, 1}, optional
        The number of the first feature in the text that the model learned from, which this text should share.
    columns : mapping, optional
        Which columns of a table to read if no options name them: further arguments of `read_table_file`.
    """
    from hingerank.data.blocks import check_matrix
    from hingerank.data.read_write import read

    if not path.exists():
        raise DataError(no_such_file(path))
    if path.is_file() or path.is_dir():  # what a pipe holds can be read once only
        _refuse_other_files(path)
    with with_query_ids(path):
        kind = kind_to_read(path)
        options = read_options(rows, kind)
        if kind == "table":
            data = read(path, **columns, **options, missing=rows.missing, dtype=dtype)
        elif kind == "binary":
            data = read(path)
            data = replace(data, X=check_matrix(data.X, "zero")) if rows.missing == "zero" else data
        else:
            options |= {"missing": rows.missing, "dtype": dtype}
            data = _open_text(path, rows, n_features, index_base, options)
    if n_features not in (None, data.n_features):
        raise DataError(f"{path} has {data.n_features} features, but the model has {n_features}")
    return data


def _refuse_other_files(path: Path) -> None:
    """Raise an error for a model or the folder of a comparison in place of data."""
    from hingerank.export.model_file import is_model

    if is_model(path):
        raise DataError(f"{path} holds a model, not data (hingerank info --verify checks it)")
    if (path / "run.json").is_file():
        raise DataError(f"{path} holds results of hingerank compare, not data (hingerank report shows them)")


def _open_text(
    path: Path, rows: Rows, n_features: int | None, index_base: int | None, options: dict[str, Any]
) -> "RankingData":
    """Read text, or a folder of text; once more if it has other features than the model at first sight."""
    from hingerank.data.read_write import read

    def open_text(**more: Any) -> "RankingData":
        if not path.is_file():
            return read(path, **options, **more)
        with progress(f"reading {path.name}", share=True) as advance:
            return read(path, **options, **more, progress=advance)

    data = open_text(index_base=index_base)
    if n_features is None or not (path.is_file() or path.is_dir()):  # a pipe cannot be read twice
        return data
    if index_base == 0 and data.n_features > n_features:
        data = open_text(index_base=None)  # too many features if the text counts from 0: it counts from 1
    if data.n_features < n_features:
        short = f"{path} has features up to {data.n_features}, but the model has {n_features}"
        if not isinstance(rows, ModelRows):
            warnings.warn(f"{short}: the missing ones are read as 0", stacklevel=2)
        elif not rows.pad:
            raise DataError(f"{short}: is it the same data? Pass --pad to read the missing features as 0")
        data = open_text(index_base=index_base, n_features=n_features)
    return data


@contextmanager
def with_query_ids(path: Path) -> Iterator[None]:
    """Turn the warning about data without query ids, at `path`, into an error; --one-query accepts such data."""
    from hingerank.data.checks import OneQueryWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", OneQueryWarning)
        try:
            yield
        except OneQueryWarning as problem:
            said = str(problem).removeprefix(f"{path}: ").partition(";")[0]
            counts = "a file beside each, such as S1.txt.query" if path.is_dir() else f"{path.name}.query"
            raise DataError(
                f"{path}: {said}; write qid:ID into every line, or the number of rows of each query into {counts}, or "
                "pass --one-query if all rows belong to one query"
            ) from None


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
    from hingerank.distributed.reading import listed, read
    from hingerank.kernels.threads import thread_count

    kind, _, count = cluster.partition(":")
    with ExitStack() as stack:
        if kind == "local":
            workers = whole_decimal(count) or 0
            if workers < 1:
                raise ValueError(f"--dask {cluster}: expected local:N, such as local:4")
            each = max(1, thread_count() // workers)
            options: dict[str, Any] = {"threads_per_worker": each, "dashboard_address": None, "silence_logs": 40}
            options["scheduler_kwargs"] = {"dashboard_address": ":0"}  # any port: 8787 may be in use, with a warning
            address: Any = stack.enter_context(LocalCluster(n_workers=workers, **options))
        elif "://" in cluster:
            address = cluster
        else:
            raise ValueError(f"--dask {cluster}: expected the scheduler's address, tcp://HOST:PORT, or local:N")
        try:
            client = stack.enter_context(Client(address, timeout=10))
        except OSError as error:
            raise ValueError(f"--dask {cluster}: no scheduler answers there ({error})") from None
        kind = kind_to_read(next(iter(listed(path)), path))
        given = read_options(rows, kind) | ({} if kind == "binary" else {"missing": rows.missing})
        if kind == "binary" and parts is None:
            parts = len(client.scheduler_info(n_workers=-1)["workers"])
        yield read(path, client, parts=parts, **given)


def data_and_model(data: Path, model: Path) -> tuple[Path, Path]:
    """Return (data, model), whichever of the two was given first."""
    from hingerank.export.model_file import is_model

    return (model, data) if is_model(data) and not is_model(model) else (data, model)


def load_ranker(model: Path, *kinds: str) -> tuple[Any, str]:
    """Load a model that learned from one of these kinds of data, and return the kind too: rows, ratings or topics."""
    from hingerank.export.model_file import load
    from hingerank.registry import learns_from, ranker_name

    ranker = load(model)
    kind = learns_from(ranker_name(type(ranker)))
    if kind not in kinds:
        name, data = type(ranker).__name__, KINDS[kind].name
        raise ValueError(f"{model} has the ranker {name}, which learns from {data}: use hingerank {USES[kind]}")
    return ranker, kind


def keeping_missing(rows: Rowed, imputes: bool) -> Rowed:
    """Return the options with --missing nan instead of its default, if the ranker imputes missing values."""
    return replace(rows, missing="nan") if imputes and rows.missing == "error" else rows


def open_like(learned: "RankingData", data: Path, rows: Rows) -> "RankingData":
    """Read graded rows with the features of those that a ranker learns from; a table has them by their names."""
    columns = {"expected": list(learned.feature_names or ()), "graded": True}
    return open_data(data, rows, learned.n_features, index_base=learned.index_base, columns=columns)


def open_for(
    ranker: "BaseRanker", model: Path, data: Path, rows: Rows = PLAIN, *, graded: bool = False
) -> "RankingData":
    """Read the data with the features of the model, which a table has by their names; graded: it must have grades."""
    from hingerank.export.model_file import read_header

    rows, base = keeping_missing(rows, ranker.missing != "error"), read_header(model)["metadata"].get("index_base")
    columns = {"expected": list(getattr(ranker, "feature_names_in_", ())), "graded": graded}
    return open_data(data, rows, ranker.n_features_in_, index_base=base, columns=columns)
