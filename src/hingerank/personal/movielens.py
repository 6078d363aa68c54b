"""MovieLens as GroupLens publishes it: 100k (u.data), 1M and 10M (.dat), 20M, 25M and latest (.csv)."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.personal.ratings import Ratings, ratings_from
from hingerank.personal.ratings_files import read_columns, read_rows

PACKED = ("", ".xz", ".gz", ".bz2", ".zst")
NO_GENRES = "(no genres listed)"


def read_movielens(folder: Any, part: str | None = None) -> Ratings:
    """The ratings, titles and genres of a MovieLens folder of any edition; its files may be compressed.

    part: of the 100k edition a file with some of the ratings, such as "u1.base" or "ua.test". Films without a rating
    stay, so that items have the same numbers in every part.
    """
    folder = Path(folder)
    found = _files(folder, part)
    if found is not None:
        return _read(*found)
    raise DataError(
        f"{folder}: no MovieLens files here; expected {part or 'u.data'} and u.item (100k), ratings.dat and movies.dat "
        "(1M, 10M), or ratings.csv and movies.csv (20M, 25M, latest)"
    )


def is_movielens(folder: Any) -> bool:
    """Whether the folder has the files of an edition of MovieLens."""
    return Path(folder).is_dir() and _files(Path(folder)) is not None


def _files(folder: Path, part: str | None = None) -> tuple[Path, Path, str] | None:
    """The files of ratings and of films, and what is between their columns."""
    for ratings, movies, delimiter in (
        (part or "u.data", "u.item", "|"),
        ("ratings.dat", "movies.dat", "::"),
        ("ratings_no_timestamp.dat", "movies.dat", "::"),
        ("ratings.csv", "movies.csv", ","),
    ):
        found, described = _find(folder, ratings), _find(folder, movies)
        if found is not None and described is not None:
            return found, described, delimiter
    return None


def _read(ratings: Path, movies: Path, delimiter: str) -> Ratings:
    rows = read_rows(movies, delimiter)
    if delimiter == ",":
        rows = rows[1:]
    try:
        item_ids = np.array([int(row[0]) for row in rows])
        titles = np.array([row[1] for row in rows], object)
        genres = [_genres_100k(row) if delimiter == "|" else _genres(row[2]) for row in rows]
    except (IndexError, ValueError):
        raise DataError(f"{movies}: expected lines of id, title and genres apart by {delimiter!r}") from None
    users, items, values = read_columns(ratings, [0, 1, 2] if delimiter != "," else ["userId", "movieId", "rating"])
    return replace(ratings_from(users, items, values, item_ids), titles=titles, genres=genres)


GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip


def _genres_100k(row: list[str]) -> tuple[str, ...]:
    flags = row[-len(GENRES_100K) :]
    return tuple(name for name, flag in zip(GENRES_100K, flags, strict=True) if int(flag))


def _genres(text: str) -> tuple[str, ...]:
    return () if text == NO_GENRES else tuple(name for name in text.split("|") if name)


def _find(folder: Path, name: str) -> Path | None:
    return next((path for packed in PACKED if (path := folder / (name + packed)).is_file()), None)


def words_of_title(title: str) -> str:
    """A title without its year, "Matrix, The (1999)" as "The Matrix"."""
    plain = re.sub(r"\s*\(\d{4}(-\d{4})?\)\s*$", "", title)
    return re.sub(r"^(.*), (The|A|An|Les?|La|Il|El|Der|Die|Das|Los|Las)(\s*\(.*\))?$", r"\2 \1\3", plain)


def plain_titles(titles: Iterable[str]) -> list[str]:
    """`words_of_title` of each."""
    return [words_of_title(title) for title in titles]
