"""`recommend` and `add-users`, and what `fit`, `tune`, `rank` and `evaluate` do with ratings."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.output import Json, note, print_json, print_table, working, writing

Items = Annotated[
    Path | None,
    typer.Option("--items", metavar="ITEMS", help="DATA is ratings, and this table has the items: ids first."),
]
ItemColumns = Annotated[
    bool, typer.Option("--item-columns", help="Of ratings: a column for each item besides its features.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="What `fit` or `tune` wrote of ratings.")]


def is_ratings(data: Path, items: Path | None) -> bool:
    """Whether `data` is ratings: there is a table of items, or it is a MovieLens folder."""
    from hingerank.personal.rating_sets import is_movielens

    return items is not None or is_movielens(data)


def read_rated(data: Path, items: Path | None, time: str | None = None, item_columns: bool = False) -> tuple[Any, Any]:
    """Ratings with features, and the catalogue of their items; time: the column of moments of a file of ratings."""
    from hingerank.data.files import DataError
    from hingerank.personal.catalogue import Catalogue
    from hingerank.personal.rating_sets import open_ratings

    if items is not None and not items.exists():
        raise DataError(f"{items}: there is no such file")
    opened = open_ratings(data, items, time, item_columns)
    if opened is None:
        raise DataError(f"{data} is no MovieLens folder: of ratings, name the items with --items")
    ratings, (X, names) = opened
    return ratings.with_features(X, names), Catalogue(ratings.item_ids, X, list(names), ratings.titles)


def save_with_items(ranker: Any, output: str, data: Path, catalogue: Any) -> str:
    """Save the model, and its items beside it where it is a folder."""
    saved = ranker.save(output, {"data": data.name, "features": catalogue.names})
    if Path(output).is_dir():
        catalogue.save(output)
    else:
        note("the items are not kept with a single file: give --items to recommend, or -o folder/")
    return saved


@dataclass(frozen=True)
class RatingOptions:
    """How `fit` is to take ratings. clicks: who took what is all that counts; half_life: of their weights, in days."""

    clicks: bool = False
    half_life: float | None = None
    time: str = "timestamp"
    item_columns: bool = False


def fit_ratings(ranker: Any, data: Path, items: Path | None, output: str, how: RatingOptions) -> str:
    """What `fit` does with ratings."""
    from hingerank.personal.factorized import PersonalRankSVM

    if how.clicks and not isinstance(ranker, PersonalRankSVM):
        raise ValueError(f"{type(ranker).__name__} learns from ratings: --clicks is for --model personal-rank-svm")
    rated, catalogue = read_rated(data, items, None if how.half_life is None else how.time, how.item_columns)
    weight = None if how.half_life is None else weights_by_age(rated, how.half_life)
    with working("fitting"):
        if how.clicks:
            ranker.fit_clicks(rated.item_features, rated.users, rated.items, sample_weight=weight)
        else:
            ranker.fit(rated.item_features, *rated.triples, sample_weight=weight)
    return save_with_items(ranker, output, data, catalogue)


def weights_by_age(ratings: Any, days: float) -> Any:
    """2^(-age/days) of each rating, moments being dates, or numbers of seconds."""
    from hingerank.personal.ratings import age_weights

    if ratings.times is None:
        raise ValueError("these ratings have no times, which --half-life needs")
    return age_weights(ratings.times, days if ratings.times.dtype.kind == "M" else 86_400.0 * days)


def open_model(model: Path, items: Path | None = None) -> tuple[Any, Any]:
    """A personal ranker and its items: those given, or those beside it."""
    from hingerank.export.model_file import load, read_header
    from hingerank.personal.catalogue import Catalogue, load_catalogue
    from hingerank.personal.rankers import PersonalRanker
    from hingerank.personal.rating_sets import read_items

    ranker = load(model)
    if not isinstance(ranker, PersonalRanker):
        raise ValueError(f"{model} is a {type(ranker).__name__}, which knows no users: use hingerank rank")
    if items is not None:
        ids, (X, names) = read_items(items)
        catalogue: Any = Catalogue(ids, X, list(names))
        learnt = read_header(model)["metadata"].get("features")
        return ranker, catalogue.aligned(learnt) if learnt else catalogue
    catalogue = load_catalogue(model)
    if catalogue is None:
        raise ValueError(f"there are no items beside {model}: name a table of them with --items")
    return ranker, catalogue


def known_user(ranker: Any, text: str) -> Any:
    """The user of the model whose id is written so."""
    from hingerank.data.checks import whole_decimal

    number = whole_decimal(text)
    for user in (text,) if number is None else (text, number):
        if ranker._users().numbers([user])[0] >= 0:
            return user
    some = ", ".join(map(str, ranker.users_[:5].tolist()))
    raise ValueError(f"there is no user {text!r} in the model; the first ones are {some} (add-users learns new ones)")


def seen_pairs(path: Path | None, ranker: Any, catalogue: Any) -> tuple[Any, Any] | None:
    """(users, rows) of a file of ratings, users as the model knows them; items not in the catalogue do not matter."""
    import numpy as np

    from hingerank.data.blocks import number_ids
    from hingerank.personal.ratings import columns_of

    if path is None:
        return None
    users, items = columns_of(path, ["user", "item"])
    number = {str(value): row for row, value in enumerate(catalogue.ids.tolist())}
    distinct, code = number_ids(items, len(items), "items")
    rows = np.array([number.get(str(value), -1) for value in distinct.tolist()], np.int64)[code]
    return users[rows >= 0], rows[rows >= 0]


def rows_of_items(catalogue: Any, rated: Any, path: Path) -> Any:
    """The row in the catalogue of the item of each rating."""
    from hingerank.data.files import DataError

    try:
        return catalogue.rows(rated.item_ids)[rated.items]
    except DataError as error:
        raise error.at(path) from None


def recommend(
    model: Model,
    user: Annotated[str | None, typer.Option(help="The user to make a list for.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Lists for all users of the model.")] = False,
    exclude: Annotated[
        Path | None, typer.Option(metavar="RATINGS", help="What users have rated already, not to be offered again.")
    ] = None,
    items: Items = None,
    top: Annotated[int, typer.Option(min=1, help="Items in a list.")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write: .csv, .tsv, .parquet or text; default stdout.")
    ] = None,
    json: Json = False,
) -> None:
    """Recommend the items that a user, or every user, should like best.

    Lines are: user, rank, item, score. Users go in blocks, so that any number of them fits in memory.

    Example: hingerank recommend model/ --all --exclude ratings.csv --top 10 -o recs.parquet
    """
    if (user is None) == (not everybody):
        raise ValueError("say for whom: --user ID, or --all")
    ranker, catalogue = open_model(model, items)
    hidden = seen_pairs(exclude, ranker, catalogue)
    users = ranker.users_ if everybody else [known_user(ranker, str(user))]
    blocks = _lists(ranker, catalogue, users, top, hidden)
    if output is not None and output.suffix == ".parquet":
        _write_parquet(output, blocks)
        return
    delimiter = "," if output is not None and output.suffix == ".csv" else "\t"
    with writing(output) as stream:
        if json:
            lists: dict[str, list[Any]] = {}
            for line in (line for block in blocks for line in zip(*block)):
                lists.setdefault(str(line[0]), []).append({"item": line[2], "score": line[3]})
            print_json(lists, stream)
            return
        if output is not None and output.suffix in (".csv", ".tsv"):
            stream.write(delimiter.join(("user", "rank", "item", "score")) + "\n")
        for block in blocks:
            stream.writelines(delimiter.join(_quoted(cell, delimiter) for cell in line) + "\n" for line in zip(*block))


def _lists(ranker: Any, catalogue: Any, users: Any, top: int, hidden: Any) -> Iterator[tuple[list, list, list, list]]:
    """Columns user, rank, item, score, a block of users at a time."""
    import numpy as np

    from hingerank.personal.top_n import top_in_blocks

    for block, rows, scores in top_in_blocks(ranker, users, catalogue.X, top, exclude=hidden):
        line, column = np.nonzero(rows >= 0)
        found = catalogue.ids[rows[line, column]]
        yield block[line].tolist(), (column + 1).tolist(), found.tolist(), scores[line, column].tolist()


def _quoted(cell: Any, delimiter: str) -> str:
    text = str(cell)
    if delimiter == "," and any(mark in text for mark in ',"\n'):
        return '"' + text.replace('"', '""') + '"'
    return text.replace("\t", " ").replace("\n", " ")


def _write_parquet(path: Path, blocks: Iterator[tuple[list, list, list, list]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from hingerank.data.files import draft_of

    with draft_of(path) as draft:
        writer = None
        for block in blocks:
            table = pa.table(dict(zip(("user", "rank", "item", "score"), block)))
            writer = pq.ParquetWriter(draft, table.schema) if writer is None else writer
            writer.write_table(table.cast(writer.schema))
        if writer is not None:
            writer.close()


def add_users(
    model: Model,
    ratings: Annotated[Path, typer.Argument(metavar="RATINGS", help="Ratings of new users: user, item, rating.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PATH", help="Where the model goes; default: in its place.")
    ] = None,
    items: Items = None,
    replace: Annotated[bool, typer.Option("--replace", help="Users known already start afresh.")] = False,
    json: Json = False,
) -> None:
    """Learn new users from a few ratings each, and save the model with them.

    Example: hingerank add-users model/ new.csv
    """
    from hingerank.personal.factorized import PersonalRankSVM
    from hingerank.personal.ratings import read_ratings

    ranker, catalogue = open_model(model, items)
    if not isinstance(ranker, PersonalRankSVM):
        raise ValueError(f"{type(ranker).__name__} cannot add users: it ranks for new ones as for the mean user")
    rated = read_ratings(ratings)
    rows = rows_of_items(catalogue, rated, ratings)
    before = len(ranker.users_)
    if not replace and (ranker._users().numbers(rated.users) >= 0).any():
        user = rated.users[ranker._users().numbers(rated.users) >= 0].tolist()[0]
        raise ValueError(f"user {user!r} is known already: --replace lets such users start afresh from these ratings")
    ranker.add_users(rated.users, catalogue.X, rows, rated.ratings, replace=replace)
    saved = save_with_items(ranker, output or str(model), ratings, catalogue)
    found = {"saved": saved, "users before": before, "users now": len(ranker.users_)}
    if json:
        print_json(found)
    else:
        print_table("added", ["", ""], [[key, value] for key, value in found.items()])


def evaluate_lists(
    data: Path, model: Path, items: Path | None, exclude: Path | None, top: int, relevant: float | None, json: bool
) -> None:
    """What `evaluate TEST MODEL --top` prints."""
    from hingerank.personal.ratings import read_ratings
    from hingerank.personal.top_n import OF_LISTS, evaluate_top

    ranker, catalogue = open_model(model, items)
    rated = read_ratings(data)
    test = rated.users, rows_of_items(catalogue, rated, data), rated.ratings
    known = ranker._users().numbers(rated.users) >= 0
    if not known.all():
        note(f"{(~known).sum()} ratings of users whom the model does not know are left out")
    test = tuple(column[known] for column in test)
    with working("recommending"):
        found = evaluate_top(
            ranker, catalogue.X, test, seen_pairs(exclude, ranker, catalogue), top=top, relevant=relevant
        )
    if json:
        print_json({"top": top, "users": len(found.users), "means": found.means, "groups": found.groups})
        return
    print_table(f"lists of {top} out of {len(catalogue.ids):,} items", *found.table())
    whole = [[name.replace("_", " "), found.means[name]] for name in OF_LISTS if name in found.means]
    print_table("all lists together", ["", ""], whole)


def report_model(
    model: Path, output: Path | None, users: list[str] | None, exclude: Path | None, items: Path | None
) -> Path:
    """The page that `report MODEL` writes; its path."""
    from hingerank.data.files import write_whole
    from hingerank.lab.report.personal import personal_page

    ranker, catalogue = open_model(model, items)
    folder = model if model.is_dir() else model.parent
    chosen = None if not users else [known_user(ranker, user) for user in users]
    hidden = seen_pairs(exclude, ranker, catalogue)
    text = personal_page(ranker, catalogue, users=chosen, exclude=hidden, title=folder.resolve().name)
    path = output or folder / "report.html"
    write_whole(path, text.encode())
    return path


def rank_pairs(model: Path, data: Path, output: Path | None, json: bool) -> None:
    """What `rank` does with a personal model: a score for every line (user, item) of a table."""
    import numpy as np

    from hingerank.personal.ratings import columns_of

    ranker, catalogue = open_model(model)
    users, items = columns_of(data, ["user", "item"])
    rows = catalogue.rows(items)
    scores = ranker.predict(users, catalogue.X[rows])
    with writing(output) as stream:
        if json:
            print_json(np.asarray(scores).tolist(), stream)
        else:
            stream.writelines(f"{score}\n" for score in scores)
