"""Open a data set in any form, with a progress bar and errors in the command line's words."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hingerank.cli.output import progress
from hingerank.data.files import TABLES, DataError, endings, kind_to_read

if TYPE_CHECKING:
    from hingerank.data.ranking_data import RankingData


class Columns(NamedTuple):
    """What the command line says about a table's columns, and about rows without query ids."""

    label: str | None = None
    qid: str | None = None
    features: str | None = None
    one_query: bool = False

    def options(self, kind: str) -> dict[str, Any]:
        """What `read` takes for data of this kind."""
        if kind == "table":
            found: dict[str, Any] = {} if self.label is None else {"label": self.label}
            if self.qid is not None or self.one_query:
                found["qid"] = self.qid
            names = None if self.features is None else [name.strip() for name in self.features.split(",")]
            return found | ({} if names is None else {"features": names})
        named = [f"--{name}" for name in ("label", "qid", "features") if getattr(self, name) is not None]
        if named:
            raise DataError(
                f"{', '.join(named)} name columns of a table (.csv, .tsv, .parquet, .feather), this is {kind}"
            )
        return {"one_query": True} if self.one_query and kind != "binary" else {}


_REMEDIES = {  # the library's parameter -> what the command line says instead of naming it
    "columns": "or name the columns with --label, --qid and --features",
    "missing": "or --missing zero or --missing nan",
    "index_base": "as in the text that the model learnt from",
    "incomplete": "so add them, or pass --incomplete keep or --incomplete skip",
}


def open_data(
    path: Path,
    missing: str = "error",
    n_features: int | None = None,
    dtype: str = "float64",
    index_base: int | None = None,
    columns: Columns | None = None,
    pad: bool | None = None,
) -> "RankingData":
    """The data at `path`.

    Parameters
    ----------
    path : Path
    missing, dtype
        As `hingerank.read` takes them.
    n_features : int, optional
        How many features a model expects; a text file whose rows never reach the last ones is read again with them as
        zeros, as `pad` has it.
    index_base : {0, 1}, optional
        The number that the text which the model learnt from gives its first feature, and so this text too.
    columns : Columns, optional
    pad : bool, optional
        True: features that the rows never reach are zeros. False: they are a mistake. None: a warning.
    """
    columns = columns or Columns()
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    with in_command_words():
        data, may_widen = _open(path, missing, dtype, index_base, columns)
        if index_base == 0 and n_features is not None and data.n_features > n_features and may_widen:
            data, _ = _open(path, missing, dtype, None, columns)  # a number too many to count from 0: converted
        if may_widen and n_features is not None and data.n_features < n_features:
            short = f"{path} reaches feature {data.n_features} of the model's {n_features}"
            if pad is False:
                raise DataError(f"{short}: is it the same data? Pass --pad if the features that are absent are zeros")
            if pad is None:
                warnings.warn(f"{short}: the others count as 0", stacklevel=2)
            data, _ = _open(path, missing, dtype, index_base, columns, n_features=n_features)
        return data


@contextmanager
def in_command_words() -> Iterator[None]:
    """Errors of the library that name a parameter of it, with the command line's words for it."""
    try:
        yield
    except DataError as error:
        if error.option not in _REMEDIES:
            raise
        raise DataError(error.problem, _REMEDIES[error.option], error.option) from error


def _open(
    path: Path, missing: str, dtype: str, index_base: int | None, columns: Columns, **options: Any
) -> tuple["RankingData", bool]:
    """The data, and whether it is text, whose number of features is only a guess."""
    with refusing_one_query(path):
        return _read(path, missing, dtype, index_base, columns, options)


@contextmanager
def refusing_one_query(path: Path) -> Iterator[None]:
    """Data without query ids are an error, unless --one-query says that it is meant."""
    from hingerank.data.checks import OneQueryWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", OneQueryWarning)
        try:
            yield
        except OneQueryWarning as problem:
            said = str(problem).removeprefix(f"{path}: ").partition(";")[0]
            raise DataError(
                f"{path}: {said}; write qid:ID into every line, or the number of rows of each query into "
                f"{path.name}.query, or pass --one-query if it is meant"
            ) from None


def _read(
    path: Path, missing: str, dtype: str, index_base: int | None, columns: Columns, options: dict[str, Any]
) -> tuple["RankingData", bool]:
    from hingerank.data.read_write import read

    kind = kind_to_read(path)
    options |= columns.options(kind)
    if kind == "binary":
        return read(path), False
    options |= {"missing": missing, "dtype": dtype}
    if kind == "table":
        return read(path, **options), False
    options["index_base"] = index_base
    if kind != "text":
        return read(path, **options), True
    if not path.is_file():  # a pipe, which cannot be read twice
        return read(path, **options), False
    with progress(f"reading {path.name}", share=True) as advance:
        return read(path, **options, progress=advance), True


def verify_path(path: Path, missing: str, columns: Columns) -> str:
    """Read all of a data set, model file or run folder; what was compared, or an error that names what is damaged."""
    from hingerank.export.model_file import FILE_NAME, load
    from hingerank.lab.results import load_arrays, load_results

    if path.suffix == Path(FILE_NAME).suffix or (path / FILE_NAME).is_file():
        load(path)
        return "a whole model, its digest is right"
    if (path / "run.json").is_file():
        results = load_results(path)
        for arrays in sorted(path.rglob("*.npz")):
            load_arrays(arrays)
        return f"a whole run, the checksums of {len(results.records)} results and of their arrays are right"
    data = open_data(path, missing, columns=columns)
    if kind_to_read(path) == "binary":
        return f"{data.n_rows:,} rows, all checksums are right"
    carried = path.is_file() and _carries_checksum(path)
    return f"{data.n_rows:,} rows read without an error" + (
        ", all checksums are right" if carried else "; this kind of file carries no checksum"
    )


def _carries_checksum(path: Path) -> bool:
    """Whether damage to the file would be noticed: compressed text, and tables that say so in their schema."""
    from hingerank.data.streams import TextSource
    from hingerank.data.tables import has_checksums

    if kind_to_read(path) == "table" and TABLES[endings(path)[0]] in ("parquet", "feather"):
        return has_checksums(path)
    with TextSource(path).open() as stream:
        return stream.kind != "plain"


def check_target(output: str, data: Path) -> None:
    """Find out before the fit, not after it, that its model could not be saved."""
    target = Path(output)
    if target.exists() and data.exists() and target.samefile(data):
        raise ValueError(f"--output {output} is the data itself: name another file or a folder")
    if output.endswith("/"):
        target.mkdir(parents=True, exist_ok=True)
    elif not target.parent.is_dir():
        raise ValueError(f"cannot write {output}: there is no folder {target.parent}")
