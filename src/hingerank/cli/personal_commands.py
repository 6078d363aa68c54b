"""The commands `recommend`, `similar` and `add-users`, and what other commands do with ratings and personal models."""

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from hingerank.cli.groups import ITEMS, ExcludedColumns, ListedItems, PersonalModel, RatingColumns
from hingerank.cli.options import JSON, REQUIRED, check_kind, command, option, switch, target
from hingerank.cli.output import Answer, facts, print_json, writing
from hingerank.cli.rating_files import (
    open_model,
    read_rating_file,
    rows_of_items,
    save_with_items,
    seen_pairs,
    user_of,
)
from hingerank.data.files import TABLES, endings

BINARY = ("parquet", "feather")
TABLE_PLACE = target("FILE", "A .csv, .tsv, .parquet, .feather or text file. Default: standard output.", short="-o")


def warn_ratings_alone(ranker: Any) -> None:
    """Warn if a model makes lists but learned only preferences among rated items."""
    from hingerank.personal.item_item import EASE

    if not isinstance(ranker, EASE) and "clicks" not in getattr(ranker, "notes_", {}):
        warnings.warn(
            f"{type(ranker).__name__} learned which rated items users like better, not which items they "
            "choose: for lists over all items fit --model list-ranker",
            stacklevel=2,
        )


@command
def recommend(
    model: PersonalModel,
    columns: ExcludedColumns,
    listed: ListedItems,
    user: str | None = option("ID", "User to recommend for; an unknown one gets the mean user's list."),
    everybody: bool = switch("Recommend for every user of the model.", flag="--all"),
    top: int = option("N", "Items per user.", 10, min=1),
    output: Path | None = TABLE_PLACE,
    json: bool = JSON,
) -> None:
    """Recommend the best items for a user, or for every user.

    Each line holds user, rank, item and score. Ids are written as they are, even if a spreadsheet would run them as
    formulas. Items that a user rated or took in the data of fit, tune or add-users are left out. Users are processed in
    blocks, so any number of them fits in memory.

    Example: hingerank recommend model/ --user 17

    Example: hingerank recommend model/ --all --exclude today.csv --top 10 -o recs.parquet
    """
    if (user is None) == (not everybody):
        raise ValueError("name the users: --user ID, or --all")
    check_kind("lists", columns, listed)
    _check_text(output, json)
    ranker, catalogue = open_model(model, listed.items)
    users = ranker.users_ if everybody else [_wanted(ranker, str(user))]
    hidden = seen_pairs(ranker, catalogue, users, listed, columns)
    silent = int(ranker._without_pairs().sum())
    if everybody and silent:
        warnings.warn(f"{silent} users rated no two items differently: they get {ranker._cold}", stacklevel=2)
    warn_ratings_alone(ranker)
    blocks = _lists(ranker, catalogue, users, top, hidden)
    if not json:
        _write_blocks(output, ("user", "rank", "item", "score"), blocks)
        return
    lists: dict[str, list[Any]] = {str(user): [] for user in users}
    for line in (line for block in blocks for line in zip(*block)):
        lists[str(line[0])].append({"item": line[2], "score": line[3]})
    with writing(output) as stream:
        print_json(lists, stream)


@command
def similar(
    model: PersonalModel,
    item: str = option("ID", "Item to find similar ones to.", REQUIRED),
    items: Path | None = ITEMS,
    top: int = option("N", "Number of items.", 10, min=1),
    output: Path | None = TABLE_PLACE,
    json: bool = JSON,
) -> None:
    """List items that are liked by the same users as an item.

    Each line holds rank, item and the cosine of the two items' vectors.

    Example: hingerank similar model/ --item 17 --top 5
    """
    _check_text(output, json)
    ranker, catalogue = open_model(model, items)
    rows, values = ranker.similar_items(catalogue.rows([item]), catalogue.X, top)
    there = rows[0] >= 0
    if not values[0][there].any():
        warnings.warn(
            f"{type(ranker).__name__} compares items by their features, and no item shares one with {item!r}: for "
            "items that the same users like fit --model list-ranker",
            stacklevel=2,
        )
    others, cosines = catalogue.ids[rows[0][there]].tolist(), values[0][there].tolist()
    if not json:
        ranks = list(range(1, len(others) + 1))
        _write_blocks(output, ("rank", "item", "similarity"), iter([(ranks, others, cosines)]))
        return
    with writing(output) as stream:
        print_json([{"item": other, "similarity": value} for other, value in zip(others, cosines)], stream)


def _wanted(ranker: Any, text: str) -> Any:
    """Return the user with this id; warn if the list will be that of the mean user."""
    user, known = user_of(ranker, text)
    if not known:
        why = f"there is no user {text!r} in the model (add-users adds new ones): this is the list of the mean user"
        warnings.warn(why, stacklevel=2)
    elif ranker._without_pairs()[ranker._index.numbers([user])[0]]:
        warnings.warn(f"user {text!r} rated no two items differently: this is {ranker._cold}", stacklevel=2)
    return user


def _lists(ranker: Any, catalogue: Any, users: Any, top: int, hidden: Any) -> Iterator[tuple[list, list, list, list]]:
    """Yield columns of users, ranks, items and scores, for one block of users at a time."""
    import numpy as np

    from hingerank.personal.top_n import top_in_blocks

    empty = 0
    for block, rows, scores in top_in_blocks(ranker, users, catalogue.X, top, exclude=hidden, unknown="mean"):
        line, column = np.nonzero(rows >= 0)
        found, empty = catalogue.ids[rows[line, column]], empty + int((rows[:, 0] < 0).sum())
        yield block[line].tolist(), (column + 1).tolist(), found.tolist(), scores[line, column].tolist()
    if empty:
        warnings.warn(
            f"no item is left for {empty} of {len(users)} users: they have rated them all (--include-rated)",
            stacklevel=2,
        )


def _kind_of(output: Path | None) -> str | None:
    """Return the kind of table that a file is by its name, if any."""
    return None if output is None else TABLES.get(endings(output)[0])


def _check_text(output: Path | None, json: bool) -> None:
    """Raise a ValueError if JSON would be written to a file of another kind."""
    kind = _kind_of(output)
    if json and kind in BINARY:
        raise ValueError(f"--json writes text: {output} would be {kind.title()}")


def _write_blocks(output: Path | None, names: Sequence[str], blocks: Iterator[tuple[list, ...]]) -> None:
    """Write blocks of columns as the name of the file says; text has a line of names in .csv and .tsv files."""
    kind = _kind_of(output)
    if output is not None and kind in BINARY:
        _write_columns(output, kind, names, blocks)
        return
    with writing(output) as stream:
        delimiter = "," if kind == "csv" else "\t"
        if kind is not None:
            stream.write(delimiter.join(names) + "\n")
        for block in blocks:
            stream.writelines(delimiter.join(_cell(cell, delimiter) for cell in line) + "\n" for line in zip(*block))


def _cell(value: object, delimiter: str) -> str:
    """Return a value as text: in CSV quoted if it must be, otherwise with spaces for tabs and line breaks."""
    text = str(value)
    if delimiter == "\t":
        return re.sub(r"[\t\r\n]", " ", text)
    return '"' + text.replace('"', '""') + '"' if re.search(r'[,"\r\n]', text) else text


def _write_columns(path: Path, kind: str, names: Sequence[str], blocks: Iterator[tuple[list, ...]]) -> None:
    """Write a Parquet or Feather file."""
    from hingerank.data.files import draft_of
    from hingerank.data.tables import pa, parquet

    tables = (pa.table(dict(zip(names, block))) for block in blocks)
    first = next(tables)
    with (
        draft_of(path) as draft,
        (parquet.ParquetWriter if kind == "parquet" else pa.ipc.new_file)(str(draft), first.schema) as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(table.cast(first.schema))


@command
def add_users(
    model: PersonalModel,
    ratings: Annotated[Path, typer.Argument(metavar="RATINGS", help="Ratings of new users: user, item, rating.")],
    columns: RatingColumns,
    items: Path | None = ITEMS,
    replace: bool = switch("Learn known users again from these ratings."),
    output: str | None = target("PATH", "Where to save the model. Default: MODEL.", short="-o", writes="folder"),
) -> Answer:
    """Add new users to a personal model from a few ratings each.

    MODEL and RATINGS may be given in either order.

    Example: hingerank add-users model/ new.csv
    """
    from hingerank.cli.files import data_and_model
    from hingerank.personal.catalogue import history_of
    from hingerank.personal.factorized import PersonalRankSVM

    ratings, model = data_and_model(ratings, model)
    ranker, catalogue = open_model(model, items)
    if not isinstance(ranker, PersonalRankSVM):
        name = type(ranker).__name__
        raise ValueError(f"{name} cannot add users, whom it gives the mean ranking: fit --model personal-rank-svm")
    rated = read_rating_file(ratings, columns, ranker)
    rows = rows_of_items(catalogue, rated, ratings)
    before = len(ranker.users_)
    if not replace and (ranker._index.numbers(rated.users) >= 0).any():
        user = rated.users[ranker._index.numbers(rated.users) >= 0].tolist()[0]
        raise ValueError(f"user {user!r} is already in the model: pass --replace to learn such users again")
    ranker.add_users(rated.users, catalogue.X, rows, rated.ratings, replace=replace)
    history = history_of(rated.users, rows, len(catalogue.ids))
    history = history if catalogue.history is None else catalogue.history.replaced(history)
    saved = save_with_items(ranker, output or str(model), ratings, catalogue, history)
    found = {"saved": saved, "users before": before, "users now": len(ranker.users_)}
    return found, facts("added", found)


def report_model(model: Path, output: Path | None, users: list[str] | None, listed: ListedItems) -> Path:
    """Write the page of `report MODEL` and return its path."""
    from hingerank.data.files import write_whole
    from hingerank.export.model_file import FILE_NAME
    from hingerank.lab.report.personal import personal_page

    ranker, catalogue = open_model(model, listed.items)
    folder = model if model.is_dir() else model.parent
    named = folder.resolve() if model.is_dir() or model.name == FILE_NAME else model
    chosen = [_known_user(ranker, user) for user in users] if users else None
    shown = ranker.users_ if chosen is None else chosen
    hidden = seen_pairs(ranker, catalogue, shown, listed, RatingColumns())
    text = personal_page(ranker, catalogue, users=chosen, exclude=hidden, title=named.name)
    path = output or folder / "report.html"
    write_whole(path, text.encode())
    return path


def _known_user(ranker: Any, text: str) -> Any:
    """Return the user of the model with this id; an unknown id is a ValueError."""
    user, known = user_of(ranker, text)
    if known:
        return user
    some = ", ".join(map(str, ranker.users_[:5].tolist()))
    raise ValueError(f"there is no user {text!r} in the model; the first ones are {some} (add-users adds new ones)")
