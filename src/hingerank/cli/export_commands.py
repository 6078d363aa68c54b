"""`export`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.output import Json, Missing, print_json, print_table, read_setting, working


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `fit` wrote: a folder or a .safetensors file.")],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="Such as onnx or sql; an unknown one lists them.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="PATH", help="Where it goes: a file or folder/.")],
    check: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Score these rows by the export and compare with the model.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="JSON: feature -> the other program's name, or what it takes to compute it.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the format; may be repeated.")
    ] = None,
    missing: Missing = "error",
    json: Json = False,
) -> None:
    """Write a saved model for another program: a search engine, a database, ONNX, C, ….

    With --check the export is run by a program that is at hand, and its largest difference from the model's own scores
    is printed, with the queries that it orders otherwise and the scores below 0. An export whose scores are not the
    model's is not written, with or without --check.

    Example: hingerank export model/ --to onnx -o model.onnx --check test.txt
    """
    from hingerank.cli.files import open_data
    from hingerank.export.exporting import export as write
    from hingerank.export.model_file import load, read_header

    ranker, options = load(model), dict(read_setting(text) for text in settings or [])
    names = read_mapping(features) if features is not None else None
    if to == "vectors":
        options = with_items(model, options)
    rows = None
    if check is not None:
        base = read_header(model)["metadata"].get("index_base")
        rows = open_data(check, missing, ranker.n_features_in_, index_base=base)
    with working(f"exporting to {to}"):
        done = write(ranker, output, to, features=names, check=rows, **options)
    found: dict[str, Any] = {"to": to, "files": [str(path) for path in done.files], "notes": done.notes}
    if json:
        print_json(found | {"check": done.check})
        return
    lines = [["written", path] for path in found["files"]] + [["note", text] for text in done.notes]
    print_table("exported", ["", ""], lines)
    if done.check is not None:
        print_table("check", ["", ""], [[name.replace("_", " "), value] for name, value in done.check.items()])


def with_items(model: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Options of an export to vectors, with the features of the items: those named, or those beside the model."""
    from numpy import load

    from hingerank.cli.files import open_data
    from hingerank.personal.catalogue import load_catalogue

    path = options.get("items")
    if path is None:
        catalogue = load_catalogue(model)
        if catalogue is None:
            raise ValueError(f"there are no items beside {model}: give their features with --set items=items.npy")
        return {"item_ids": catalogue.ids.tolist(), **options, "items": catalogue.X}
    rows = load(path, allow_pickle=False) if str(path).endswith(".npy") else open_data(Path(path)).X
    return {**options, "items": rows}


def read_mapping(path: Path) -> dict[str, Any]:
    """The JSON object of a file: feature -> name or description."""
    from json import JSONDecodeError, loads

    try:
        found = loads(path.read_text("utf-8"))
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f'{path} must be an object of feature names, such as {{"f1": "title_bm25"}}')
    return found
