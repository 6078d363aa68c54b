"""The commands `info`, `convert` and `fetch`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hingerank.cli.groups import Data, Rows
from hingerank.cli.options import Group, choice, command, completing, option, switch
from hingerank.cli.output import Answer, Table, note, progress, working

if TYPE_CHECKING:
    from hingerank.data.ranking_data import RankingData


@command
def info(
    data: Data,
    rows: Rows,
    columns: bool = switch("Also print range, mean and spread of every column.", excludes="--verify"),
    verify: bool = switch("Only read all of a data set, model or run and verify its checksums."),
) -> Answer:
    """Describe a data set: queries, rows, grades, pairs, ranges.

    The description also suggests a scaling.

    Example: hingerank info train.txt.gz

    Example: hingerank info --verify train.bin/
    """
    from hingerank.cli.files import open_data

    if verify:
        with working("reading"):
            verified = _verify(data, rows)
        return {"file": data, "verified": verified}, f"{data}: {verified}"
    opened = open_data(data, rows)
    with working("counting"):
        found = opened.describe()
    names = ["name", "min", "max", "mean", "sd", "long_tail"]
    each: list[Table] = [("columns", names, list(zip(*(found.columns[name] for name in names))))] if columns else []
    return {"file": data, **found.to_dict()}, (str(data), ["", ""], found.facts()), *each


def _verify(path: Path, rows: Rows) -> str:
    """Read all of a data set, model or run folder and return what was verified; an error names what is damaged."""
    from hingerank.cli.files import open_data
    from hingerank.data.files import TABLES, endings, kind_to_read
    from hingerank.data.streams import TextSource
    from hingerank.data.tables import has_checksums
    from hingerank.export.model_file import FILE_NAME, is_model, load
    from hingerank.lab.results import load_arrays, load_results

    model = path.suffix == Path(FILE_NAME).suffix or (path / FILE_NAME).is_file() or is_model(path)
    run = not model and (path / "run.json").is_file()
    if (model or run) and rows.given():
        what = "a model" if model else "the folder of a comparison"
        raise ValueError(f"{next(iter(rows.given()))} says how to read rows, and {path} is {what}: leave it out")
    if model:
        load(path)
        return "a complete model, its digest is right"
    if run:
        results = load_results(path)
        for arrays in sorted(path.rglob("*.npz")):
            load_arrays(arrays)
        return f"a complete run, the checksums of {len(results.records)} results and of their arrays are right"
    data, kind = open_data(path, rows), kind_to_read(path)
    if kind == "binary":
        return f"{data.n_rows:,} rows, all checksums are right"
    carried = False
    if kind == "table" and TABLES[endings(path)[0]] in ("parquet", "feather"):
        carried = has_checksums(path)
    elif path.is_file():  # all compressed text has a checksum
        with (source := TextSource(path)).open():
            carried = source.kind != "plain"
    return f"{data.n_rows:,} rows read without an error" + (
        ", all checksums are right" if carried else "; this kind of file carries no checksum"
    )


JOINED = "--judgments or --clicks"


class LogOptions(Group, panel="Feature log"):
    """Judgments or clicks for features that a search engine has logged."""

    judgments: Path | None = option("FILE", "IN is a feature log: join it with these judgments (TREC qrels).")
    clicks: Path | None = option("FILE", "IN is a feature log: join it with these clicks, lines of query and document.")
    query: str = option("NAME", "Field of the log with the query ids.", "qid", needs=JOINED)
    document: str = option("FIELD", "Field of Solr's document ids.", "id", needs=JOINED)


@command
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Data in any form that info reads.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="Where to write; its ending chooses the format.")],
    rows: Rows,
    log: LogOptions,
    dtype: str = choice("float64|float32", "float64, or float32 for half the space.", "float64"),
    force: bool = switch("Replace what is there."),
) -> Answer:
    """Convert data between text, tables and the binary folder.

    OUT that ends in / (or has no ending) is a binary folder, which later commands memory-map. The endings .txt, .svm,
    .letor and .dat write text; .parquet, .feather, .csv and .tsv write tables. A further .gz, .xz, .bz2 or .zst
    compresses text, CSV and TSV.

    Example: hingerank convert train.txt train.bin/

    Example: hingerank convert log.json train.bin/ --judgments qrels.txt --missing zero
    """
    from hingerank.cli.files import open_data, read_options, with_query_ids
    from hingerank.data.binary import load_binary, save_binary
    from hingerank.data.files import kind_to_read, kind_to_write
    from hingerank.data.letor import read_pieces
    from hingerank.data.read_write import write

    place, kind = Path(target), kind_to_write(target)
    if place.exists() and not force:
        raise ValueError(f"{target} exists: pass --force to replace it, or name another file or folder")
    if place.exists() and source.exists() and place.samefile(source):
        raise ValueError(f"{target} is the data itself: name another file or folder")
    logged = log.judgments is not None or log.clicks is not None
    if kind == "binary" and source.is_file() and kind_to_read(source) == "text" and not logged:
        about = read_options(rows, "text")
        with with_query_ids(source), progress(f"converting {source.name}", share=True) as advance:
            pieces = read_pieces(source, missing=rows.missing, dtype=dtype, progress=advance, **about)
            save_binary(pieces, place, overwrite=force)  # in pieces, because the text may be larger than memory
        data = load_binary(place, verify=False)  # it was just written, so it needs no check
    else:
        data = _joined(source, log, rows) if logged else open_data(source, rows, dtype=dtype)
        if dtype == "float32":  # also of binary folders and logs, which are read as they are
            data = replace(data, X=data.X.astype(dtype, copy=False))
        with working(f"writing {target}"):
            write(data, target)
    sizes = {"rows": data.n_rows, "queries": data.n_queries, "features": data.n_features}
    said = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    return {"written": place, **sizes}, f"{place}: {said}"


def known_sets() -> list[str]:
    """Return the names that `fetch` takes."""
    from hingerank.data.fetching import PUBLIC_SETS

    return sorted(PUBLIC_SETS)


def _joined(source: Path, log: LogOptions, rows: Rows) -> "RankingData":
    from hingerank.cli.files import read_options
    from hingerank.data.feature_logs import read_feature_log

    read_options(rows, "text")  # columns of tables cannot be named
    with working(f"reading {source}"):
        return read_feature_log(
            source, log.judgments, clicks=log.clicks, query=log.query, document=log.document, missing=rows.missing
        )


@command
def fetch(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A public data set, such as ml-100k; see --list.",
            autocompletion=completing(known_sets),
        ),
    ] = None,
    list_sets: bool = switch("List the public data sets.", flag="--list"),
    source: str | None = option(
        "PATH|URL", "Use this archive, folder or mirror instead.", flag="--from", excludes="--list"
    ),
    cache: Path | None = option("FOLDER", "Where to keep data sets. Default: $HINGERANK_CACHE.", excludes="--list"),
    checksum: str | None = option("sha256:HEX", "Require this checksum.", excludes="--list"),
) -> Answer:
    """Download a public data set, verify it, print its folder.

    An interrupted download resumes. For data sets whose licence must be accepted on a web page, the command prints what
    to do.

    Example: hingerank fetch ml-100k
    """
    from hingerank.data.fetching import PUBLIC_SETS
    from hingerank.data.fetching import fetch as fetch_set
    from hingerank.registry import did_you_mean

    if list_sets and name is not None:
        raise ValueError(f"--list lists every set: leave out {name}, or leave out --list")
    if list_sets:
        sets = PUBLIC_SETS.values()
        rows = [
            [one.name, one.title, "automatic" if one.url else "by hand (licence)",
             f"{one.size / 1e6:,.0f} MB" if one.size else "",
             "published" if one.checksum else "recorded at first use"]
            for one in sets
        ]  # fmt: skip
        return [vars(one) for one in sets], ("public sets", ["name", "what", "download", "size", "checksum"], rows)
    if name is None:
        raise typer.BadParameter("name a set to fetch, or pass --list")
    if name not in PUBLIC_SETS:
        hint = did_you_mean(name, PUBLIC_SETS)
        raise ValueError(f"unknown set {name!r}; the known ones are: {', '.join(PUBLIC_SETS)}{hint}")
    note(f"{PUBLIC_SETS[name].licence} ({PUBLIC_SETS[name].licence_page})")
    with progress(name, bytes_counted=True) as advance:
        folder = fetch_set(name, cache, source=source, checksum=checksum, progress=advance)
    return {"name": name, "folder": folder}, str(folder)
