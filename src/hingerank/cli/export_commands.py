"""`export`."""

from pathlib import Path
from typing import Any

from hingerank.cli.groups import JSON, Model, Rows
from hingerank.cli.options import REQUIRED, choice, command, completing, option, switch, target
from hingerank.cli.output import print_facts, print_json, print_table, read_setting, working


def known_formats() -> list[str]:
    """What --to takes."""
    from hingerank.export.exporting import FORMATS

    return sorted([*FORMATS, "vectors"])


@command
def export(
    model: Model,
    to: str = option(
        "FORMAT", "Such as onnx or sql; an unknown one lists them.", REQUIRED, autocompletion=completing(known_formats)
    ),
    output: str = target("PATH", "File or folder/ to write.", REQUIRED, short="-o", folder=True),
    check: Path | None = option("DATA", "Score these rows with the export and compare with the model."),
    features: Path | None = option("FILE", "JSON: feature -> its name there, or the engine's own list of features."),
    define: bool = switch("Also write definitions of the features, for search engines that lack them."),
    settings: list[str] | None = option("NAME=VALUE", "Option of the format; repeatable.", flag="--set"),
    missing: str = choice("error|zero|nan", "How to read missing values and NULL.", "error"),
    json: bool = JSON,
) -> None:
    """Write a model for a search engine, a database, ONNX, C, ….

    With --check a program on this machine runs the export. The largest difference from the model's scores is printed,
    with the number of queries ordered differently and of scores below 0. An export with other scores than the model's
    is never written.

    Example: hingerank export model/ --to onnx -o model.onnx --check test.txt
    """
    from hingerank.cli.files import open_for
    from hingerank.export.exporting import export as write
    from hingerank.export.model_file import load

    ranker, options = load(model), dict(read_setting(text) for text in settings or [])
    names = read_features(features) if features is not None else None
    options |= {"define": True} if define else {}
    if to == "vectors":
        options = with_items(model, options)
    rows = None if check is None else open_for(ranker, model, check, Rows(missing=missing))
    with working(f"exporting to {to}"):
        done = write(ranker, output, to, features=names, check=rows, **options)
    found: dict[str, Any] = {"to": to, "files": [str(path) for path in done.files], "notes": done.notes}
    if json:
        print_json(found | {"check": done.check})
        return
    lines = [["written", path] for path in found["files"]] + [["note", text] for text in done.notes]
    print_table("exported", ["", ""], lines)
    if done.check is not None:
        print_facts("check", done.check)


def with_items(model: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Options of an export to vectors, with the features of the items: those named, or those saved with the model."""
    from numpy import load

    from hingerank.cli.files import open_data
    from hingerank.personal.catalogue import load_catalogue

    path = options.get("items")
    if path is None:
        catalogue = load_catalogue(model)
        if catalogue is None:
            raise ValueError(f"no items are saved with {model}: give their features with --set items=items.npy")
        return {"item_ids": catalogue.ids.tolist(), **options, "items": catalogue.X}
    rows = load(path, allow_pickle=False) if str(path).endswith(".npy") else open_data(Path(path)).X
    return {**options, "items": rows}


def read_features(path: Path) -> Any:
    """The JSON of a file: feature -> name or description, or an engine's own list of features."""
    from json import JSONDecodeError, loads

    try:
        found = loads(path.read_text("utf-8"))
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict | list):
        raise ValueError(f'{path} must be an object of feature names, such as {{"f1": "title_bm25"}}, or a list')
    return found
