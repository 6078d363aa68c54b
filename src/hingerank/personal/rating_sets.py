"""Ratings together with features of their items, as a command line names them: a MovieLens folder, or a file of ratings
and a table of items."""

from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.table_files import read_table
from hingerank.personal.item_features import Features, genre_features, join_features, word_features
from hingerank.personal.movielens import is_movielens, plain_titles, read_movielens
from hingerank.personal.ratings import Ratings, read_ratings


def open_ratings(path: Path, items: Path | None = None) -> tuple[Ratings, Features] | None:
    """The ratings and item features in `path`, or None if it does not hold ratings.

    A MovieLens folder has genres and words of titles as features. With `items`, `path` is what `read_ratings` reads.
    """
    if items is not None:
        ids, features = read_items(items)
        return read_ratings(path, item_ids=ids), features
    if not is_movielens(path):
        return None
    ratings = read_movielens(path)
    words = word_features(plain_titles(ratings.titles if ratings.titles is not None else []))
    return ratings, join_features(genre_features(ratings.genres or []), words)


def read_items(path: Path) -> tuple[np.ndarray, Features]:
    """(item ids, features) from a table with the ids in a column "item", or in its first one.

    Columns of numbers are features; the words of columns of text are features of 0 and 1.
    """
    import pyarrow.types as kinds

    table = read_table(path, ids=["item"])
    key = "item" if "item" in table.column_names else table.column_names[0]
    table = table if key == "item" else read_table(path, ids=[key])
    ids = table.column(key).to_numpy(zero_copy_only=False)
    if len(set(ids.tolist())) < len(ids):
        raise DataError(f"{path}: an item is there twice in column {key!r}")
    parts: list[Any] = []
    for name in table.column_names:
        column = table.column(name)
        if name == key:
            continue
        if column.null_count:
            raise DataError(f"{path}: column {name!r} has {column.null_count} empty places: fill them")
        if kinds.is_string(column.type) or kinds.is_large_string(column.type):
            X, words = word_features(column.to_pylist())
            parts.append((X, [f"{name}: {word}" for word in words]))
        elif kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_boolean(column.type):
            parts.append((column.to_numpy(zero_copy_only=False).astype(float)[:, None], [name]))
        else:
            raise DataError(f"{path}: column {name!r} of type {column.type} is neither numbers nor text: leave it out")
    if not parts:
        raise DataError(f"{path}: no column besides {key!r}: items need features")
    return ids, join_features(*parts)
