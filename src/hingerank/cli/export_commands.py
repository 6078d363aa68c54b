"""The commands `export` and `upload`."""

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from hingerank.cli.groups import Model, Rows
from hingerank.cli.options import REQUIRED, Group, choice, command, completing, option, switch, target
from hingerank.cli.output import Answer, Table, facts, working
from hingerank.cli.settings import named_values, read_settings


def known_formats() -> list[str]:
    """Return the formats that --to takes."""
    from hingerank.export.exporting import FORMATS

    return sorted([*FORMATS, "vectors"])


@command
def export(
    model: Model,
    to: str = option(
        "FORMAT",
        "solr, elasticsearch, opensearch, vespa, onnx, pmml, sql, c, javascript, python; of a personal model, vectors.",
        REQUIRED,
        autocompletion=completing(known_formats),
    ),
    output: str = target("PATH", "File or folder/ to write.", REQUIRED, short="-o", writes="folder"),
    check: Path | None = option("DATA", "Score these rows with the export and compare with the model."),
    features: Path | None = option("FILE", "JSON: feature -> its name in the engine, or the engine's feature list."),
    define: bool = switch("Also write definitions of the features, for search engines that lack them."),
    settings: list[str] | None = option("NAME=VALUE", "Option of the format; repeatable.", flag="--set"),
    missing: str = choice("error|zero|nan", "How to read missing values and NULL of DATA.", "error", needs="--check"),
    label: str | None = option(
        "COLUMN", "Column of grades of DATA (CSV/Parquet only). Default: label.", needs="--check"
    ),
    qid: str | None = option(
        "COLUMN", "Column of query ids of DATA (CSV/Parquet only). Default: qid.", needs="--check"
    ),
) -> Answer:
    """Write a model for a search engine, a database, ONNX, C, ….

    With --check, a program on this machine runs the export. The command prints the largest difference from the model's
    scores, the number of queries that are ordered differently, and the number of scores below 0. An export whose scores
    differ from the model's is never written.

    Example: hingerank export model/ --to onnx -o model.onnx --check test.txt
    """
    from hingerank.cli.files import open_for
    from hingerank.export.exporting import export as write
    from hingerank.export.model_file import load

    ranker, options = load(model), read_options(settings, write)
    names = read_features(features) if features is not None else None
    options |= {"define": True} if define else {}
    if to == "vectors":
        options = with_items(ranker, model, options)
    rows = None if check is None else open_for(ranker, model, check, Rows(missing=missing, label=label, qid=qid))
    with working(f"exporting to {to}"):
        done = write(ranker, output, to, features=names, check=rows, **options)
    found: dict[str, Any] = {"to": to, "files": [str(path) for path in done.files], "notes": done.notes}
    lines = [["written", path] for path in found["files"]] + [["note", text] for text in done.notes]
    checked = [] if done.check is None else [facts("check", done.check)]
    return found | {"check": done.check}, ("exported", ["", ""], lines), *checked


class Checked(Group, panel="Check"):
    """Which rows to score in the engine."""

    log: Path | None = option("FILE", "Feature log of the engine: score rows of its first queries again.")
    params: list[str] | None = option(
        "NAME=VALUE", "External value that features use, such as text=lamp; repeatable.", flag="--param"
    )
    rows: int = option("N", "Largest number of rows to score per query.", 10, min=1)
    document: str = option("FIELD", "Field of Solr's document ids.", "id")
    query: str = option("NAME", "Field of the log with the query ids.", "qid", needs="--log")


@command
def upload(
    model: Model,
    checked: Checked,
    to: str = option("ENGINE", "solr, opensearch or elasticsearch (es).", REQUIRED),
    url: str = option("URL", "Collection or index, as in http://localhost:8983/solr/products.", REQUIRED),
    name: str = option("NAME", "Name of the model in the engine.", "hingerank"),
    store: str | None = option("NAME", "Solr's feature store (_DEFAULT_), or the plugins' feature set."),
    features: Path | None = option("FILE", "JSON: feature -> its name in the engine, or its definition."),
    define: bool = switch("Define the features that the engine lacks."),
    settings: list[str] | None = option(
        "NAME=VALUE", "Option of the format, such as shift=5; repeatable.", flag="--set"
    ),
    replace: bool = switch("Replace a model of this name, after the new one has passed the check."),
    headers: list[str] | None = option("'NAME: VALUE'", "Header of every call; repeatable.", flag="--header"),
    dry_run: bool = switch("Print the calls without making them.", panel="Output"),
) -> Answer:
    """Put a model into a search engine and compare its scores there.

    The model is read back, and the engine scores a few rows with it. These scores must equal the scores that the model
    computes from the features that the engine reports. If anything fails, everything that was sent is removed. The
    features that the engine already had are never changed.

    Example: hingerank upload model/ --to solr --url http://localhost:8983/solr/products --log log.jsonl

    Example: hingerank upload model/ --to es --url http://localhost:9200/products --store shop --param keywords=lamp
    """
    from hingerank.export.model_file import load
    from hingerank.export.uploading import upload as send

    done = send(
        load(model), to, url, name=name, store=store, features=None if features is None else read_features(features),
        define=define, log=checked.log, params=named_values(checked.params, "--param"), rows=checked.rows,
        document=checked.document, query=checked.query, replace=replace, headers=named_values(headers, "--header", ":"),
        dry_run=dry_run, **read_options(settings, send),
    )  # fmt: skip
    found = {"to": done.to, "name": done.name, "calls": [call._asdict() for call in done.calls], "notes": done.notes}
    shown: list[Table | str] = [*map(str, done.calls)]
    if not dry_run:
        lines = [["model", done.name], *(["note", text] for text in done.notes)]
        shown = [("uploaded", ["", ""], lines), facts("check", done.check or {})]
    return found | {"check": done.check}, *shown


def read_options(settings: list[str] | None, function: Callable[..., object]) -> dict[str, Any]:
    """Read the options of a format, none of which may be a parameter of the function that takes them."""
    options = read_settings(settings)
    for name in options.keys() & signature(function).parameters.keys():
        raise ValueError(f"--set {name}: use --{name.replace('_', '-')}")
    return options


def with_items(ranker: Any, model: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Add the features of items to the options of an export to vectors: those named, or those saved with the model."""
    from numpy import load

    from hingerank.cli.files import open_data
    from hingerank.personal.catalogue import load_catalogue
    from hingerank.personal.rankers import PersonalRanker

    path = options.get("items")
    if path is None and not isinstance(ranker, PersonalRanker):
        return options  # the export names the formats that take this ranker
    if path is None:
        catalogue = load_catalogue(model)
        if catalogue is None:
            raise ValueError(f"no items are saved with {model}: give their features with --set items=items.npy")
        return {"item_ids": catalogue.ids.tolist(), **options, "items": catalogue.X}
    rows = load(path, allow_pickle=False) if str(path).endswith(".npy") else open_data(Path(path)).X
    return {**options, "items": rows}


def read_features(path: Path) -> Any:
    """Read a JSON file: a mapping from features to names or definitions, or an engine's own list of features."""
    from json import JSONDecodeError, loads

    try:
        found = loads(path.read_text("utf-8"))
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict | list):
        raise ValueError(f'{path} must be an object of feature names, such as {{"f1": "title_bm25"}}, or a list')
    return found
