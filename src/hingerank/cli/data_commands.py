"""`info`, `convert` and `fetch`."""

from pathlib import Path
from typing import Annotated

import typer

from hingerank.cli.output import (
    Data,
    Features,
    Json,
    Label,
    Missing,
    OneQuery,
    Qid,
    note,
    print_json,
    print_table,
    progress,
    working,
)


def info(
    file: Data,
    missing: Missing = "error",
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    columns: Annotated[bool, typer.Option("--columns", help="Also every column: its range, mean and spread.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only read all of a data set, model or run, and compare its checksums.")
    ] = False,
    json: Json = False,
) -> None:
    """Describe a data set: queries, rows, grades, pairs, ranges and spreads of columns, and what scaling they call for.

    Example: hingerank info train.txt.gz

    Example: hingerank info --verify train.bin/
    """
    from hingerank.cli.files import Columns, open_data, verify_path

    given = Columns(label, qid, features, one_query)
    if verify:
        with working("reading"):
            verified = verify_path(file, missing, given)
        if json:
            print_json({"file": file, "verified": verified})
        else:
            print(f"{file}: {verified}")
        return
    data = open_data(file, missing=missing, columns=given)
    with working("counting"):
        found = data.describe()
    if json:
        print_json({"file": file, **found.to_dict()})
        return
    print_table(str(file), ["", ""], found.facts())
    if columns:
        names = ["name", "min", "max", "mean", "sd", "long_tail"]
        print_table("columns", names, list(zip(*(found.columns[name] for name in names))))


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Data to read, in any form that `info` takes.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="Its ending decides the form: see above.")],
    missing: Missing = "error",
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    dtype: Annotated[str, typer.Option(help="float64, or float32 for half the space.")] = "float64",
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    json: Json = False,
) -> None:
    """Convert data between text, compressed text, tables and the binary folder.

    OUT ending in / (or without an ending) is a binary folder, which later commands open without reading it whole;
    .txt, .svm, .letor or .dat is text; .parquet, .feather, .csv and .tsv are tables. Text, .csv and .tsv are compressed
    by .gz, .xz, .bz2 or .zst after that.

    Example: hingerank convert train.txt train.bin/
    """
    from hingerank.cli.files import Columns, in_command_words, open_data, refusing_one_query
    from hingerank.data.binary import load_binary, save_binary
    from hingerank.data.files import kind_to_read, kind_to_write
    from hingerank.data.letor import read_pieces
    from hingerank.data.read_write import write

    place, kind = Path(target), kind_to_write(target)
    if place.exists() and not force:
        raise ValueError(f"{target} exists: pass --force to replace it, or name another place")
    if not place.absolute().parent.is_dir():
        raise ValueError(f"cannot write {target}: there is no folder {place.parent}")
    if place.exists() and source.exists() and place.samefile(source):
        raise ValueError(f"{target} is the data itself: name another file or folder")
    if kind == "binary" and source.is_file() and kind_to_read(source) == "text":
        about = Columns(label, qid, features, one_query).options("text")
        what = refusing_one_query(source)
        with in_command_words(), what, progress(f"converting {source.name}", share=True) as advance:
            pieces = read_pieces(source, missing=missing, dtype=dtype, progress=advance, **about)
            save_binary(pieces, place, overwrite=force)  # piece by piece: the text may be larger than memory
        data = load_binary(place, verify=False)  # just written
    else:
        data = open_data(source, missing=missing, dtype=dtype, columns=Columns(label, qid, features, one_query))
        with working(f"writing {target}"):
            write(data, target)
    if json:
        print_json({"written": place, "rows": data.n_rows, "queries": data.n_queries, "features": data.n_features})
    else:
        print(f"{place}: {data.n_rows:,} rows, {data.n_queries:,} queries, {data.n_features:,} features")


def fetch(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A public set, for example ml-100k; see --list.")
    ] = None,
    list_sets: Annotated[bool, typer.Option("--list", help="List the known sets and stop.")] = False,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH|URL", help="Take this archive, folder or mirror instead."),
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Where to keep sets (default: $HINGERANK_CACHE).")] = None,
    checksum: Annotated[str | None, typer.Option(metavar="sha256:HEX", help="Insist on this checksum.")] = None,
    json: Json = False,
) -> None:
    """Download a public ranking set once, verify and unpack it, and print its folder.

    An interrupted download goes on where it stopped. Sets whose licence must be accepted on a page say what to do.

    Example: hingerank fetch ml-100k
    """
    from hingerank.data.fetching import PUBLIC_SETS
    from hingerank.data.fetching import fetch as fetch_set

    if list_sets:
        _list_sets(json)
        return
    if name is None:
        raise typer.BadParameter("name a set to fetch, or pass --list")
    if name in PUBLIC_SETS:
        note(f"{PUBLIC_SETS[name].licence} ({PUBLIC_SETS[name].licence_page})")
    with progress(name, bytes_counted=True) as advance:
        folder = fetch_set(name, cache, source=source, checksum=checksum, progress=advance)
    if json:
        print_json({"name": name, "folder": folder})
    else:
        print(folder)


def _list_sets(json: bool) -> None:
    from hingerank.data.fetching import PUBLIC_SETS

    if json:
        print_json([vars(entry) for entry in PUBLIC_SETS.values()])
        return
    rows = [
        [
            entry.name,
            entry.title,
            "automatic" if entry.url else "by hand (licence)",
            f"{entry.size / 1e6:,.0f} MB" if entry.size else "",
            "published" if entry.checksum else "recorded at first use",
        ]
        for entry in PUBLIC_SETS.values()
    ]
    print_table("public sets", ["name", "what", "download", "size", "checksum"], rows)
