"""Read ratings together with features of their items: a MovieLens folder, or a file of ratings and a table of items.

MovieLens is read as GroupLens publishes it: 100k (u.data), 1M and 10M (.dat), 20M, 25M and latest (.csv), and the
HetRec 2011 edition (user_ratedmovies.dat, with titles and genres in movies.dat and movie_genres.dat).
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.checks import whole_decimal
from hingerank.data.files import COMPRESSIONS, TABLES, DataError, PathLike, endings
from hingerank.personal.item_features import Features, genre_features, identity_features, join_features, word_features
from hingerank.personal.ratings import Ratings, read_ratings
from hingerank.personal.ratings_files import guess_delimiter, is_number, read_columns, read_rows, text_of

NO_GENRES = "(no genres listed)"
WORDS = r"(?u)\b\w\w+\b|^\w$"  # scikit-learn's words, and cells of a single letter or digit, such as a size S
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip


def read_movielens(folder: PathLike, part: str | None = None) -> Ratings:
    """Read the ratings, titles and genres of a MovieLens folder of any edition; its files may be compressed.

    Films without a rating are kept, so that items have the same numbers in every part.

    Parameters
    ----------
    folder : folder with the files of an edition
    part : file with some of the ratings of the 100k edition, such as "u1.base" or "ua.test"
    """
    found = _files(Path(folder), part)
    if found is None:
        raise DataError(
            f"{Path(folder)}: no MovieLens files here; expected {part or 'u.data'} and u.item (100k), ratings.dat and "
            "movies.dat (1M, 10M), ratings.csv and movies.csv (20M, 25M, latest), or user_ratedmovies.dat and "
            "movies.dat (HetRec 2011)"
        )
    ratings, movies, delimiter = found
    rows = read_rows(movies, delimiter)[1 if delimiter in (",", "\t") else 0 :]
    listed = _listed_genres(movies) if delimiter == "\t" else {}
    item_ids, titles, genres = [], [], []
    for line, row in rows:
        number = whole_decimal(row[0].strip())
        kinds: tuple[str, ...] | None = None
        if delimiter == "\t":
            kinds = listed.get(row[0].strip(), ()) if len(row) > 1 else None
        elif delimiter == "|":
            flags = row[2:][-len(GENRES_100K) :]
            if len(flags) == len(GENRES_100K) and set(flags) <= {"0", "1"}:
                kinds = tuple(name for name, flag in zip(GENRES_100K, flags) if flag == "1")
        elif len(row) > 2:
            kinds = () if row[2] == NO_GENRES else tuple(name for name in row[2].split("|") if name)
        if number is None or kinds is None:
            raise DataError(f"{movies}, line {line}: expected id, title and genres by {delimiter!r}, found {row}")
        item_ids.append(number)
        titles.append(row[1])
        genres.append(kinds)
    time = None if delimiter == "\t" or "no_timestamp" in ratings.name else "timestamp"
    read = read_ratings(ratings, time=time, item_ids=np.array(item_ids, np.int64))
    return replace(read, titles=np.array(titles, object), genres=genres)


def is_movielens(folder: PathLike) -> bool:
    """Return whether the folder has the files of an edition of MovieLens."""
    return Path(folder).is_dir() and _files(Path(folder)) is not None


def _files(folder: Path, part: str | None = None) -> tuple[Path, Path, str] | None:
    """Return the files of ratings and of films, and the separator of their columns."""
    for ratings, movies, delimiter in (
        (part or "u.data", "u.item", "|"),
        ("ratings.dat", "movies.dat", "::"),
        ("ratings_no_timestamp.dat", "movies.dat", "::"),
        ("ratings.csv", "movies.csv", ","),
        ("user_ratedmovies.dat", "movies.dat", "\t"),
        ("user_ratedmovies-timestamps.dat", "movies.dat", "\t"),
    ):
        found, described = _find(folder, ratings), _find(folder, movies)
        if found is not None and described is not None:
            return found, described, delimiter
    return None


def _listed_genres(movies: Path) -> dict[str, tuple[str, ...]]:
    """Return film -> genres, from lines "movieID, genre" of a file next to that of the films."""
    path = _find(movies.parent, "movie_genres.dat")
    if path is None:
        raise DataError(f"{movies.parent}: there is no movie_genres.dat next to {movies.name}: add it")
    found: dict[str, tuple[str, ...]] = {}
    for line, row in read_rows(path, "\t")[1:]:
        if len(row) < 2:
            raise DataError(f"{path}, line {line}: expected a film and a genre, found {row}")
        film = row[0].strip()
        found[film] = (*found.get(film, ()), row[1].strip())
    return found


def _find(folder: Path, name: str) -> Path | None:
    return next((path for packed in ("", *COMPRESSIONS) if (path := folder / (name + packed)).is_file()), None)


def plain_titles(titles: Iterable[str]) -> list[str]:
    """Return titles without their years: "Matrix, The (1999)" becomes "The Matrix"."""
    plain = [re.sub(r"\s*\(\d{4}(-\d{4})?\)\s*$", "", title) for title in titles]
    article = r"^(.*), (The|A|An|Les?|La|Il|El|Der|Die|Das|Los|Las)(\s*\(.*\))?$"
    return [re.sub(article, r"\2 \1\3", title) for title in plain]


def open_ratings(
    path: Path, items: Path | None = None, item_columns: bool = False, **how: Any
) -> tuple[Ratings, Features] | None:
    """Read the ratings and item features in `path`; None if it is a folder without ratings.

    Parameters
    ----------
    path : a MovieLens folder, whose features are genres and words of titles, or what `read_ratings` reads
    items : a table of items, see `read_items`; without it, items of a file have only indicator features
    item_columns : also add an indicator feature for every item
    how : passed to `read_ratings`: columns of a file, and their separator
    """
    if items is not None:
        ids, features = read_items(items, how.get("delimiter"))
        ratings = read_ratings(path, item_ids=ids, **how)
    elif is_movielens(path):
        ratings = read_movielens(path)
        words = word_features(plain_titles(ratings.titles if ratings.titles is not None else []))
        features = join_features(genre_features(ratings.genres or []), words)
    elif Path(path).is_dir():
        return None
    else:
        ratings = read_ratings(path, **how)
        return ratings, identity_features(ratings.item_ids)
    return ratings, join_features(features, identity_features(ratings.item_ids)) if item_columns else features


def read_items(path: Path, delimiter: str | None = None, *, min_items: int = 2) -> tuple[np.ndarray, Features]:
    """Read (item ids, features) from a table with the ids in a column "item", or in its first column.

    Numeric columns are features. The words of text columns become features of 0 and 1: words of two letters or more,
    and cells of a single letter, such as a size S.

    Parameters
    ----------
    path : CSV, Parquet or Feather; or text with another ending, whose columns need no names
    delimiter : separator of the columns of such a text; by default detected from its first line
    min_items : leave out words of fewer items; 1 for items of a fitted model, which chose its words in the fit
    """
    from hingerank.data.tables import pa, read_table

    if endings(path)[0] in TABLES:
        table = read_table(path, ids=["item"])
        key = "item" if "item" in table.column_names else table.column_names[0]
        table = table if key == "item" else read_table(path, ids=[key])
    else:
        table, key = _text_table(Path(path), delimiter)
    ids = table.column(key).to_numpy(zero_copy_only=False)
    if table.column(key).null_count or "" in ids.tolist():
        raise DataError(f"{path}: column {key!r} has empty cells: give every item an id")
    if len(set(ids.tolist())) < len(ids):
        raise DataError(f"{path}: column {key!r} has an item twice: keep one row for each item")
    parts: list[Any] = []
    for name in table.column_names:
        column = table.column(name)
        if name == key:
            continue
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.null_count:
            raise DataError(f"{path}: column {name!r} has {column.null_count} empty cells: fill them")
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            try:
                X, words = word_features(column.to_pylist(), min_items, token_pattern=WORDS)
            except DataError:
                if min_items > 1:
                    raise DataError(f"{path}: column {name!r} has no word that two items share: leave it out") from None
                X, words = np.zeros((len(ids), 0)), []
            parts.append((X, [f"{name}: {word}" for word in words]))
        elif any(kind(column.type) for kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)):
            parts.append((column.to_numpy(zero_copy_only=False).astype(float)[:, None], [name]))
        else:
            raise DataError(f"{path}: column {name!r} of type {column.type} is neither numbers nor text: leave it out")
    if not parts:
        raise DataError(f"{path}: there is no column besides {key!r}: items need features, add some columns")
    return ids, join_features(*parts)


def _text_table(path: Path, delimiter: str | None) -> tuple[Any, str]:
    """Return the columns of a text as a table, and the name of the id column; without names they are numbered."""
    from hingerank.data.tables import pa

    between = delimiter or guess_delimiter(text_of(path))
    first = next(iter(read_rows(path, between)), (1, [""]))[1]
    columns = read_columns(path, list(range(len(first))), between)
    names = [f"column {place + 1}" for place in range(len(first))]
    if not any(map(is_number, first)):
        names = [name.strip() for name in first]
    for name, column in zip(names, columns):
        filled = [text for text in column.tolist() if text not in ("", "NA")] if column.dtype.kind == "U" else []
        if len(filled) < len(column) and filled and all(map(is_number, filled)):
            raise DataError(f"{path}: column {name!r} has {len(column) - len(filled)} empty cells: fill them")
    return pa.table(dict(zip(names, columns))), "item" if "item" in names else names[0]
