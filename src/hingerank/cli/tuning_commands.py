"""`tune`: the best settings of one or several rankers, fitted and saved; `explain`: what made a score."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.output import (
    Data,
    Features,
    Json,
    Label,
    Missing,
    OneQuery,
    Pad,
    Qid,
    note,
    print_json,
    print_table,
    progress,
    working,
    writing,
)
from hingerank.cli.personal_commands import ItemColumns, Items, is_ratings, read_rated, save_with_items


def tune(
    data: Data,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PATH", help="Where the model goes: folder/ or file.safetensors.")
    ],
    model: Annotated[
        str, typer.Option("--model", metavar="A,B,…", help="Rankers to try; the best one is kept.")
    ] = "rank-svm",
    measure: Annotated[str, typer.Option(help="What to maximise.")] = "ndcg@10",
    folds: Annotated[int, typer.Option(min=2, help="Parts of the queries, each held out once.")] = 5,
    validation: Annotated[Path | None, typer.Option(help="Data to choose on instead of folds.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=V,…", help="Values of a parameter: one to fix it, more to try them."),
    ] = None,
    one_standard_error: Annotated[
        bool,
        typer.Option("--one-standard-error", help="Take the simplest setting within one error of the best."),
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="Settings to show in the table.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of folds and rankers.")] = 0,
    missing: Missing = "error",
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    items: Items = None,
    hold_out: Annotated[
        str, typer.Option("--hold-out", help="Of ratings: hold out ratings of every user, or items.")
    ] = "ratings",
    item_columns: ItemColumns = False,
    json: Json = False,
) -> None:
    """Find the settings of a ranker, or the best of several, over folds of queries; fit it on all rows and save it.

    What is worth trying is known for every ranker; --set says otherwise. Grids whose best value is at an edge grow.

    Example: hingerank tune train.txt --model rank-svm,lightgbm -o model/

    Example: hingerank tune ratings.csv --items items.csv --model personal-rank-svm --measure pair_accuracy -o model/
    """
    from hingerank.cli.files import Columns, check_target, open_data
    from hingerank.lab.methods import not_from_rows, parse_settings
    from hingerank.rankers.base import BaseRanker
    from hingerank.registry import ranker_class, registered_name
    from hingerank.search.tuning import tune as search

    names = [registered_name(name.strip()) for name in model.split(",") if name.strip()]
    personal = is_ratings(data, items)
    for name in names:
        if not personal and not issubclass(ranker_class(name), BaseRanker):
            raise ValueError(not_from_rows(name, ranker_class(name)))
    if not names:
        raise ValueError(f"--model {model!r} names no ranker: give one, as in --model rank-svm")
    given = parse_settings(settings or [])
    if set(given) - {""}:
        raise ValueError("--set takes NAME=VALUE,… here: tune one ranker at a time to give it values of its own")
    check_target(output, data)
    columns = Columns(label, qid, features, one_query)
    if personal:
        rows, catalogue = read_rated(data, items, item_columns=item_columns)
    else:
        rows, catalogue = open_data(data, missing=missing, columns=columns), None
    held = None
    if validation is not None and personal:
        raise ValueError("--validation is for graded rows: of ratings a part is held out, see --hold-out")
    if validation is not None:
        held = open_data(validation, missing, rows.n_features, index_base=rows.index_base, columns=columns)
    with progress("tuning") as advance:
        ranker = search(
            names, rows, measure=measure, folds=folds, validation=held, params=given.get("", {}), random_state=seed,
            one_standard_error=one_standard_error, hold_out=hold_out, progress=advance,
        )  # fmt: skip
    if catalogue is not None:
        saved = save_with_items(ranker, output, data, catalogue)
    else:
        saved = ranker.save(output, {"data": data.name, "index_base": rows.index_base})
    found = ranker.tuning_
    if json:
        print_json({"saved": saved, **found.to_dict()})
        return
    shown = min(top, len(found.trials))
    print_table(f"the best {shown} of {len(found.trials)} settings", *found.table(top))
    print(found)
    for name, values in found.widened.items():
        note(f"the best {name} was at the edge of its grid: also tried {', '.join(map(str, values))}")
    print(saved)


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `fit` or `tune` wrote.")],
    data: Data,
    query: Annotated[str, typer.Option(help="The query to explain.")],
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Why document A stands above document B (ids, or row numbers from 1)."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Features to show of each document.")] = 8,
    documents: Annotated[int, typer.Option(min=1, help="Documents to show, best first.")] = 3,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with the picture of it: explained.html.")
    ] = None,
    pad: Pad = False,
    missing: Missing = "error",
    label: Label = None,
    qid: Qid = None,
    features: Features = None,
    one_query: OneQuery = False,
    json: Json = False,
) -> None:
    """Say what each feature gave to the scores of a query, or why one document stands above another.

    Exact for linear, sparse and boosted models and for trees; for others by the gradient of the score, which it says.

    Example: hingerank explain model/ test.txt --query 17 --pair 3 5
    """
    import numpy as np

    from hingerank.cli.files import Columns, open_data
    from hingerank.export.model_file import load, read_header
    from hingerank.lab.report.explained import explained_page
    from hingerank.rankers.base import BaseRanker

    ranker, about = load(model), read_header(model)["metadata"]
    if not isinstance(ranker, BaseRanker):
        raise ValueError(f"{model} is a {type(ranker).__name__}, which does not score rows of features")
    base, columns = about.get("index_base"), Columns(label, qid, features, one_query)
    rows = open_data(data, missing, ranker.n_features_in_, index_base=base, columns=columns, pad=pad)
    mine = np.flatnonzero(np.array([str(q) == query for q in rows.qid.tolist()]))
    if not len(mine):
        some = ", ".join(map(str, rows.blocks.ids[:5].tolist()))
        raise ValueError(f"there is no query {query!r} in {data}; the first ones are {some}")
    with working("explaining"):
        found = ranker.explain(rows.take(mine))
    if rows.docid is None:
        found = found.renamed(mine + 1)
    found = found.query(query)
    if page is not None:
        with writing(page) as stream:
            stream.write(explained_page(found, str(query), pair, top))
    if json:
        answer: dict[str, Any] = {"query": query, **found.to_dict(top)}
        print_json(answer | ({} if pair is None else {"pair": found.pair_dict(*pair)}))
        return
    print(f"query {query}: {found.how}")
    if pair is not None:
        print_table(f"why {pair[0]} and {pair[1]} stand apart", *found.pair(*pair, top=top))
    else:
        for place in range(min(documents, len(found))):
            print_table(f"{place + 1}. document {found.documents[place]}", *found.table(place, top))
    if page is not None:
        note(f"wrote {page}")
