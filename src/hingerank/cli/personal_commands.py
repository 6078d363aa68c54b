"""`recommend` and `add-users`, and what `fit`, `tune`, `rank`, `evaluate` and `report` do with ratings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.groups import JSON, PersonalModel, RatingOptions
from hingerank.cli.options import command, option, switch, target
from hingerank.cli.output import note, print_facts, print_json, print_table, working, writing


def is_ratings(data: Path, items: Path | None) -> bool:
    """Whether `data` is ratings: there is a table of items, or it is a MovieLens folder."""
    from hingerank.personal.rating_sets import is_movielens

    return items is not None or is_movielens(data)


def read_rated(data: Path, how: RatingOptions, time: str | None = None) -> tuple[Any, Any]:
    """Ratings with features, and the catalogue of their items; time: the column of times of a file of ratings."""
    from hingerank.data.files import DataError
    from hingerank.personal.catalogue import Catalogue
    from hingerank.personal.rating_sets import open_ratings

    if how.items is not None and not how.items.exists():
        raise DataError(f"{how.items}: there is no such file")
    opened = open_ratings(data, how.items, time, how.item_columns)
    if opened is None:
        raise DataError(f"{data} is not a MovieLens folder: name the items of ratings with --items")
    ratings, (X, names) = opened
    return ratings.with_features(X, names), Catalogue(ratings.item_ids, X, list(names), ratings.titles)


def save_with_items(ranker: Any, output: str, data: Path, catalogue: Any) -> str:
    """Save the model, and in a folder its items too."""
    saved = ranker.save(output, {"data": data.name, "features": catalogue.names})
    if Path(output).is_dir():
        catalogue.save(output)
    else:
        note("a single file does not hold the items: give --items to recommend, or -o folder/")
    return saved


def weights_by_age(ratings: Any, days: float) -> Any:
    """2^(-age/days) of each rating; its time is a date, or a number of seconds."""
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
        raise ValueError(f"{model} is a {type(ranker).__name__}, which is not a personal model: use hingerank rank")
    if items is not None:
        ids, (X, names) = read_items(items)
        catalogue: Any = Catalogue(ids, X, list(names))
        learned = read_header(model)["metadata"].get("features")
        return ranker, catalogue.aligned(learned) if learned else catalogue
    catalogue = load_catalogue(model)
    if catalogue is None:
        raise ValueError(f"no items are saved with {model}: name a table of them with --items")
    return ranker, catalogue


def known_user(ranker: Any, text: str) -> Any:
    """The user of the model with this id."""
    from hingerank.data.checks import whole_decimal

    number = whole_decimal(text)
    for user in (text,) if number is None else (text, number):
        if ranker._users().numbers([user])[0] >= 0:
            return user
    some = ", ".join(map(str, ranker.users_[:5].tolist()))
    raise ValueError(f"there is no user {text!r} in the model; the first ones are {some} (add-users adds new ones)")


def seen_pairs(path: Path | None, ranker: Any, catalogue: Any) -> tuple[Any, Any] | None:
    """(users, rows) of a file of ratings, without the items that are not in the catalogue."""
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


def warn_ratings_alone(ranker: Any) -> None:
    """Say so where lists are asked of a model that learned from ratings alone what is liked."""
    import warnings

    from hingerank.personal.item_item import EASE

    if not isinstance(ranker, EASE) and "clicks" not in getattr(ranker, "notes_", {}):
        warnings.warn(
            f"{type(ranker).__name__} learned which of the items that users rated they like better, not what they "
            "choose: for lists over all items fit --model list-ranker",
            stacklevel=2,
        )


@command
def recommend(
    model: PersonalModel,
    user: str | None = option("ID", "User to recommend for."),
    everybody: bool = switch("Recommend for every user of the model.", flag="--all"),
    exclude: Path | None = option("RATINGS", "Ratings whose items are not recommended again."),
    items: Path | None = option("TABLE", "Table of items: ids first, then features."),
    top: int = option("N", "Items per user.", 10, min=1),
    output: Path | None = target("FILE", "A .csv, .tsv, .parquet or text file. Default: stdout.", short="-o"),
    json: bool = JSON,
) -> None:
    """Recommend the best items for a user, or for every user.

    Each line holds user, rank, item and score. Users are processed in blocks, so any number of them fits in memory.

    Example: hingerank recommend model/ --user 17 --exclude ratings.csv

    Example: hingerank recommend model/ --all --exclude ratings.csv --top 10 -o recs.parquet
    """
    if (user is None) == (not everybody):
        raise ValueError("name the users: --user ID, or --all")
    if json and output is not None and output.suffix == ".parquet":
        raise ValueError(f"--json writes text: {output} would be Parquet")
    ranker, catalogue = open_model(model, items)
    hidden = seen_pairs(exclude, ranker, catalogue)
    users = ranker.users_ if everybody else [known_user(ranker, str(user))]
    warn_ratings_alone(ranker)
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


@command
def add_users(
    model: PersonalModel,
    ratings: Annotated[Path, typer.Argument(metavar="RATINGS", help="Ratings of new users: user, item, rating.")],
    items: Path | None = option("TABLE", "Table of items: ids first, then features."),
    replace: bool = switch("Learn known users again from these ratings."),
    output: str | None = target("PATH", "Where to save the model. Default: MODEL.", short="-o", folder=True),
    json: bool = JSON,
) -> None:
    """Add new users to a personal model from a few ratings each.

    MODEL and RATINGS may be given in either order.

    Example: hingerank add-users model/ new.csv
    """
    from hingerank.cli.files import data_and_model
    from hingerank.personal.factorized import PersonalRankSVM
    from hingerank.personal.ratings import read_ratings

    ratings, model = data_and_model(ratings, model)
    ranker, catalogue = open_model(model, items)
    if not isinstance(ranker, PersonalRankSVM):
        raise ValueError(f"{type(ranker).__name__} cannot add users: it gives every new user the mean ranking")
    rated = read_ratings(ratings)
    rows = rows_of_items(catalogue, rated, ratings)
    before = len(ranker.users_)
    if not replace and (ranker._users().numbers(rated.users) >= 0).any():
        user = rated.users[ranker._users().numbers(rated.users) >= 0].tolist()[0]
        raise ValueError(f"user {user!r} is known already: --replace learns such users again from these ratings")
    ranker.add_users(rated.users, catalogue.X, rows, rated.ratings, replace=replace)
    saved = save_with_items(ranker, output or str(model), ratings, catalogue)
    print_facts("added", {"saved": saved, "users before": before, "users now": len(ranker.users_)}, json)


def evaluate_lists(data: Path, model: Path, how: Any, json: bool) -> None:
    """What `evaluate TEST MODEL --top` prints."""
    from hingerank.personal.ratings import read_ratings
    from hingerank.personal.top_n import OF_LISTS, evaluate_top

    ranker, catalogue = open_model(model, how.items)
    rated = read_ratings(data)
    test = rated.users, rows_of_items(catalogue, rated, data), rated.ratings
    known = ranker._users().numbers(rated.users) >= 0
    if not known.all():
        note(f"{(~known).sum()} ratings of users who are not in the model are left out")
    test = tuple(column[known] for column in test)
    with working("recommending"):
        hidden = seen_pairs(how.exclude, ranker, catalogue)
        found = evaluate_top(ranker, catalogue.X, test, hidden, top=how.top, relevant=how.relevant)
        beside = _baselines(catalogue.X, test, hidden, how)
    if json:
        figures = {"top": how.top, "users": len(found.users), "means": found.means, "groups": found.groups}
        print_json({**figures, "baselines": {name: other.means for name, other in beside.items()}})
        return
    warn_ratings_alone(ranker)
    print_table(f"lists of {how.top} out of {len(catalogue.ids):,} items", *found.table())
    if beside:
        lines = [[name, *other.table()[1][0][2:]] for name, other in {"the model": found, **beside}.items()]
        print_table("beside simple lists", ["", *found.table()[0][2:]], lines)
    else:
        note("name the training ratings with --exclude to see popularity and similar items beside the model")
    print_facts("all lists together", {name: found.means[name] for name in OF_LISTS if name in found.means})


def _baselines(X: Any, test: Any, hidden: Any, how: Any) -> dict[str, Any]:
    """Lists of the most popular items, and of items similar to those a user took, where training ratings are known."""
    from hingerank.personal.baselines import Popularity
    from hingerank.personal.item_item import MOST_ITEMS
    from hingerank.personal.lists import ItemKNN
    from hingerank.personal.top_n import evaluate_top

    if hidden is None:
        return {}
    makers = {"popularity": Popularity, **({"similar items": ItemKNN} if X.shape[0] <= MOST_ITEMS else {})}
    return {
        name: evaluate_top(make().fit(X, *hidden), X, test, hidden, top=how.top, relevant=how.relevant)
        for name, make in makers.items()
    }


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
