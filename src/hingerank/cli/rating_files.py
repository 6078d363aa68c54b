"""Open ratings, personal models and their items for commands."""

import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hingerank.cli.files import load_ranker
from hingerank.cli.groups import ListedItems, RatingColumns, RatingOptions, column_of


def is_ratings(data: Path, how: RatingOptions, models: str | None = None) -> bool:
    """Whether `data` is ratings: it is a MovieLens folder, or an option or a named ranker is for ratings."""
    from hingerank.personal.baselines import BASELINES
    from hingerank.personal.rating_sets import is_movielens
    from hingerank.registry import RANKERS, learns_from, registered_name

    about = {"--items", *(one.flag for one in RatingColumns.options)}
    if about & how.given().keys() or is_movielens(data):
        return True
    names = [name.rpartition("=")[2].strip() for name in (models or "").split(",") if name.strip()]
    named = [name if name in BASELINES else registered_name(name) for name in names]
    known = [name in BASELINES or (name in RANKERS and learns_from(name) == "ratings") for name in named]
    return bool(known) and all(known)


def read_rated(data: Path, how: RatingOptions, models: Iterable[str] = (), time: str | None = None) -> tuple[Any, Any]:
    """Return ratings with item features, and the catalogue of their items.

    Parameters
    ----------
    data : Path
    how : RatingOptions
    models : names of rankers; rankers of lists get an indicator feature for each item
    time : the column of times in a file of ratings
    """
    from hingerank.data.files import DataError, no_such_file
    from hingerank.personal.catalogue import Catalogue
    from hingerank.personal.item_item import EASE
    from hingerank.personal.rating_sets import is_movielens, open_ratings
    from hingerank.registry import ranker_class

    if how.items is not None and not how.items.exists():
        raise DataError(no_such_file(how.items))
    if how.items is not None and data.is_dir():
        raise DataError(f"{data} is a folder: name a file of ratings (a MovieLens folder takes no --items)")
    columns = how.item_columns or any(issubclass(ranker_class(name), EASE) for name in models)
    moments = {} if time is None else {"time": column_of(time)}
    try:
        opened = open_ratings(data, how.items, columns, **how.reading(), **moments)
    except DataError as error:
        if data.exists() and error.args[0].startswith(str(data)) and not is_movielens(data):
            how_to = "--user-column, --item-column, --rating-column and --separator say how"
            raise DataError(f"{error} ({data.name} is read as ratings of users: {how_to})") from error
        raise
    if opened is None:
        raise DataError(f"{data} is not a MovieLens folder: name a file of ratings")
    ratings, (X, names) = opened
    return with_rows(ratings, data).with_features(X, names), Catalogue(ratings.item_ids, X, list(names), ratings.titles)


def with_rows(ratings: Any, path: Path) -> Any:
    """Return the ratings of a file; a file without any is a DataError."""
    from hingerank.data.files import DataError

    if not len(ratings):
        raise DataError(f"{path}: there are no ratings below the names of the columns")
    return ratings


def save_with_items(ranker: Any, output: str, data: Path, catalogue: Any, history: Any) -> str:
    """Save the model, and next to it its items and who rated them: both, or none of them."""
    from hingerank.data.files import draft_of
    from hingerank.export.model_file import FILE_NAME
    from hingerank.personal.catalogue import items_file

    model = Path(output) / FILE_NAME if output.endswith(("/", os.sep)) else output
    with draft_of(items_file(model)) as draft:
        replace(catalogue, history=history).write(draft)
        return str(ranker.save(output, {"data": data.name, "features": catalogue.names}))


def open_model(model: Path, items: Path | None = None) -> tuple[Any, Any]:
    """Load a personal ranker and its items: those in `items`, or those saved with the model."""
    from hingerank.export.model_file import read_header
    from hingerank.personal.catalogue import history_of, load_catalogue
    from hingerank.personal.item_item import EASE

    ranker, _ = load_ranker(model, "ratings")
    catalogue = load_catalogue(model)
    if items is not None:
        catalogue = _read_catalogue(items, read_header(model)["metadata"].get("features"), catalogue)
    if catalogue is None:
        raise ValueError(f"no items are saved with {model}: name a table of them with --items")
    if catalogue.history is None and isinstance(ranker, EASE):  # the model itself has who took what
        catalogue = replace(catalogue, history=history_of(*ranker._taken(catalogue.X), len(catalogue.ids)))
    return ranker, catalogue


def _read_catalogue(items: Path, learned: list[str] | None, saved: Any) -> Any:
    """Read a table of items; learned: the features of the model, if known; saved: the items saved with it, or None."""
    from hingerank.personal.catalogue import Catalogue
    from hingerank.personal.rating_sets import read_items

    ids, (X, names) = read_items(items, min_items=1 if learned else 2)  # a word of one item may be one of the model's
    found = Catalogue(ids, X, list(names))
    found = found if saved is None else found.with_history_of(saved)
    absent = [name for name in set(learned or ()) - set(names) if not name.startswith("item ") and ": " not in name]
    if absent:
        warnings.warn(
            f"{items} has no column {', '.join(sorted(absent))}, which the model learned from: its items count as "
            "having 0 there; add it",
            stacklevel=2,
        )
    return found.aligned(learned) if learned else found


def user_of(ranker: Any, text: str) -> tuple[Any, bool]:
    """Return the id that is typed as `text`, and whether it is in the model."""
    from hingerank.data.checks import whole_decimal

    number = whole_decimal(text)
    for user in (text,) if number is None else (text, number):
        if ranker._index.numbers([user])[0] >= 0:
            return user, True
    return (number if number is not None and ranker.users_.dtype.kind in "iu" else text), False


def read_rating_file(path: Path, how: RatingColumns, ranker: Any) -> Any:
    """Read ratings of any users and items; ids of users get the type that they have in the model."""
    from hingerank.personal.ratings import read_ratings

    rated = with_rows(read_ratings(path, **how.reading()), path)
    return replace(rated, users=ids_of_model(ranker, rated.users))


def ids_of_model(ranker: Any, users: Any) -> Any:
    """Convert user ids of a file to the type of the model's ids: a model of users 1 and x has texts, not numbers."""
    import numpy as np

    from hingerank.data.blocks import number_ids, places_of
    from hingerank.personal.catalogue import ids_like

    known = ranker.users_
    if users.dtype.kind == known.dtype.kind != "O" or not len(users):
        return users
    distinct, code = number_ids(users, len(users), "users")
    place, ids = places_of([str(user) for user in distinct.tolist()], map(str, known.tolist())), known.tolist()
    found = np.empty(len(distinct), object)
    found[:] = [own if row < 0 else ids[row] for own, row in zip(distinct.tolist(), place.tolist())]
    return ids_like(known, found)[code]


def read_pairs(path: Path, how: RatingColumns, ranker: Any) -> tuple[Any, Any]:
    """Read the users and items of a file; ids of users get the type that they have in the model."""
    from hingerank.personal.ratings import columns_of

    named = how.reading()
    users, items = columns_of(path, [named["user"], named["item"]], named["delimiter"])
    return ids_of_model(ranker, users), items


def seen_pairs(
    ranker: Any, catalogue: Any, users: Any, listed: ListedItems, columns: RatingColumns
) -> tuple[Any, Any] | None:
    """Return the (users, rows) that lists leave out: what these users rated in training, and the pairs of a file."""
    import numpy as np

    from hingerank.personal.catalogue import history_of

    stored = None if listed.include_rated or catalogue.history is None else catalogue.history.of(users)
    parts = [] if stored is None else [stored.pairs]
    if listed.exclude is not None:
        parts.append(_pairs_to_exclude(listed.exclude, columns, ranker, catalogue))
    elif not listed.include_rated:
        _warn_of_unstored(ranker, users, np.empty(0, ranker.users_.dtype) if stored is None else stored.users)
    if len(parts) < 2:
        return parts[0] if parts else None
    kinds = {ids.dtype.kind for ids, _ in parts}
    ids = np.concatenate([ids if len(kinds) == 1 else ids.astype(object) for ids, _ in parts])
    return history_of(ids, np.concatenate([rows for _, rows in parts]), len(catalogue.ids)).pairs if len(ids) else None


def _warn_of_unstored(ranker: Any, users: Any, stored: Any) -> None:
    """Warn if some of these users are in the model, but not among those whose ratings are stored with it."""
    from hingerank.personal.catalogue import UserIndex

    missing = (ranker._index.numbers(users) >= 0) & (UserIndex(stored).numbers(users) < 0)
    if missing.any():
        warnings.warn(
            f"the model does not store what {missing.sum()} of these users rated, so their lists may offer it "
            "again: name their ratings with --exclude",
            stacklevel=2,
        )


def _pairs_to_exclude(path: Path, columns: RatingColumns, ranker: Any, catalogue: Any) -> tuple[Any, Any]:
    """Return the (users, rows) of a file; items outside the catalogue cannot be in a list and are left out."""
    import numpy as np

    from hingerank.data.blocks import number_ids

    users, items = read_pairs(path, columns, ranker)
    distinct, code = number_ids(items, len(items), "items") if len(items) else (items, np.empty(0, np.int64))
    rows = catalogue.places(distinct)[code]
    if len(rows) and rows.max() < 0:
        some = items[:1].tolist()[0]
        warnings.warn(
            f"no item of {path} is in the catalogue of the model, such as {some!r}: nothing is left out by it",
            stacklevel=2,
        )
    return users[rows >= 0], rows[rows >= 0]


def rows_of_items(catalogue: Any, rated: Any, path: Path) -> Any:
    """Return the row of the catalogue for the item of each rating."""
    from hingerank.data.files import DataError

    try:
        return catalogue.rows(rated.item_ids)[rated.items]
    except DataError as error:
        raise error.at(path) from None
