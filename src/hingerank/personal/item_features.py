"""Features of items, each a (matrix with a row per item, names), from genres, words and embeddings; and their scales.

Items with the same features can be counted as one: rows are numbered by their bits (`same_rows`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Column, Matrix
from hingerank.data.blocks import check_ids, places_of
from hingerank.data.checks import one_of
from hingerank.data.files import DataError

Features = tuple[np.ndarray | sp.csr_matrix, list[str]]


def genre_features(genres: Sequence[Sequence[str]]) -> Features:
    """Return one column per label, 1 if an item has it (CSR).

    Examples
    --------
    >>> X, names = genre_features([("Drama", "War"), (), ("War",)])
    >>> names, X.toarray().tolist()
    (['Drama', 'War'], [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    """
    from sklearn.preprocessing import MultiLabelBinarizer

    text = next((row for row, labels in enumerate(genres) if isinstance(labels, str)), None)
    if text is not None:
        raise DataError(f"genres[{text}] is the text {genres[text]!r}, expected a list of labels: split it first")
    encoder = MultiLabelBinarizer(sparse_output=True)
    X = sp.csr_matrix(encoder.fit_transform(genres), dtype=np.float64)
    return X, [str(name) for name in encoder.classes_]


def word_features(texts: Sequence[str], min_items: int = 2, weighting: str = "binary", **options: Any) -> Features:
    """Return one column per word (CSR): "binary" 0 or 1, "count", or "tfidf" (rows of norm 1), as in scikit-learn.

    Parameters
    ----------
    texts : one for each item
    min_items : leave out words of fewer items, since they do not help to rank other items
    weighting : "binary", "count" or "tfidf"
    options : passed to the vectoriser (ngram_range, stop_words, ...)

    Examples
    --------
    >>> X, names = word_features(["The Matrix", "The Mask", "Mask of Zorro"])
    >>> names
    ['mask', 'the']
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    one_of("weighting", weighting, "binary", "count", "tfidf")
    settings = {"min_df": min_items, "dtype": np.float64} | options
    if weighting == "tfidf":
        vectoriser: Any = TfidfVectorizer(**settings)
    else:
        vectoriser = CountVectorizer(binary=weighting == "binary", **settings)
    try:
        X = vectoriser.fit_transform(texts)
    except ValueError as error:
        why = f"no word is in the texts of {min_items} or more items: lower min_items, or leave these texts out"
        raise DataError(why) from error
    return sp.csr_matrix(X), [str(name) for name in vectoriser.get_feature_names_out()]


def embedding_features(
    item_ids: Column, ids: Column, matrix: Matrix, missing: str = "error", name: str = "e"
) -> Features:
    """Return the rows of any embedding matrix in the order of the items.

    Parameters
    ----------
    item_ids : ids of the items
    ids : ids of the rows of the matrix
    matrix : one embedding per row
    missing : "error" refuses items without an embedding, "zero" gives them zeros
    name : prefix of the column names
    """
    matrix = np.asarray(matrix)
    ids = check_ids(ids, matrix.shape[0], "ids")
    if len(set(ids.tolist())) < len(ids):
        raise DataError("ids has an id twice: give every item one embedding")
    wanted = check_ids(item_ids, len(item_ids), "item_ids")
    rows = places_of(wanted.tolist(), ids.tolist())
    if one_of("missing", missing, "error", "zero") == "error" and len(rows) and rows.min() < 0:
        absent = int((rows < 0).sum())
        example = wanted[rows < 0].tolist()[0]
        raise DataError(f"{absent} items have no embedding, such as {example!r}: give them one, or missing='zero'")
    X = np.zeros((len(rows), matrix.shape[1]), matrix.dtype if matrix.dtype.kind == "f" else np.float64)
    X[rows >= 0] = matrix[rows[rows >= 0]]
    return X, [f"{name}{column + 1}" for column in range(matrix.shape[1])]


def identity_features(item_ids: Column) -> Features:
    """Return an indicator column for every item (CSR): it learns from the item's ratings what other features lack.

    Joined to other features it makes PersonalRankSVM a collaborative filter too. It does not help to rank unseen items.

    Examples
    --------
    >>> X, names = identity_features(["Heat", "Alien"])
    >>> names, X.toarray().tolist()
    (['item Heat', 'item Alien'], [[1.0, 0.0], [0.0, 1.0]])
    """
    ids = check_ids(item_ids, len(item_ids), "item_ids")
    return sp.csr_matrix(sp.identity(len(ids))), [f"item {value}" for value in ids.tolist()]


def join_features(*parts: Features) -> Features:
    """Put columns of several features side by side; the result is CSR if any part is."""
    if not parts:
        raise DataError("there are no features to join: give at least one part")
    rows = {X.shape[0] for X, _ in parts}
    if len(rows) > 1:
        raise DataError(f"features have different numbers of items: {sorted(rows)}; build all for the same items")
    names = [name for _, part in parts for name in part]
    matrices = [X for X, _ in parts]
    if any(sp.issparse(X) for X in matrices):
        return sp.csr_matrix(sp.hstack(matrices)), names
    return np.hstack(matrices), names


def column_scales(X: Matrix) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the centre and the scale of each column; None if all columns stay as they are.

    A numeric column, with any value that is neither 0 nor 1, becomes (x - mean) / standard deviation, so that a raw
    year or price does not outweigh indicators of 0 and 1, which stay. A column that is mostly 0 keeps its zeros, which
    mean "not there": it is divided by its standard deviation if that is above 1, and stays otherwise (words, tf-idf).

    Examples
    --------
    >>> centre, scale = column_scales(np.array([[1990.0, 0.0], [2010.0, 1.0]]))
    >>> centre.tolist(), scale.tolist()
    ([2000.0, 0.0], [10.0, 1.0])
    """
    n = max(1, X.shape[0])
    if sp.issparse(X):
        column, values = X.indices, X.data.astype(np.float64)
        numbers = np.bincount(column, (values != 0) & (values != 1), X.shape[1]) > 0
        present = np.bincount(column, values != 0, X.shape[1])
        mean = np.bincount(column, values, X.shape[1]) / n
        stored = np.bincount(column, minlength=X.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.bincount(column, (values - mean[column]) ** 2, X.shape[1]) + (n - stored) * mean**2
        spread = np.sqrt(squares / n)
    else:
        numbers = ~((X == 0) | (X == 1)).all(axis=0)
        present = np.count_nonzero(X, axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    if not np.isfinite(spread).all():
        column = int(np.argmin(np.isfinite(spread)))
        raise DataError(f"scale='standard': squares of feature {column} overflow; divide it first, or leave it out")
    mostly = 2 * present > n
    numbers &= mostly | (spread > 1.0)
    mean = np.where(mostly, mean, 0.0)
    if not numbers.any():
        return None
    flat = ~(spread > 1e-12 * np.abs(mean))  # all items have the same value
    return np.where(numbers, mean, 0.0), np.where(numbers & ~flat, spread, 1.0)


def scaled(X: Matrix, centre: np.ndarray, scale: np.ndarray) -> Matrix:
    """Return (X - centre) / scale in the type of X; in a CSR matrix only columns with a centre are filled."""
    if not sp.issparse(X):
        return ((X - centre) / scale).astype(X.dtype, copy=False)
    out = sp.csr_matrix((X.data / scale[X.indices], X.indices, X.indptr), shape=X.shape)
    moved = np.flatnonzero(centre)
    if len(moved):
        n, k = X.shape[0], len(moved)
        shift = np.tile(-centre[moved] / scale[moved], n), np.tile(moved, n), np.arange(n + 1) * k
        out = sp.csr_matrix(out + sp.csr_matrix(shift, shape=X.shape))
    return out.astype(X.dtype, copy=False)


def row_keys(X: Matrix) -> list[bytes]:
    """Return bytes for each row that are the same for equal rows, dense or CSR."""
    X = sp.csr_matrix(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    columns, cuts = X.indices.astype(np.int32, copy=False), zip(X.indptr[:-1], X.indptr[1:])
    return [columns[a:b].tobytes() + X.data[a:b].tobytes() for a, b in cuts]


def row_numbers(number: dict[bytes, int], X: Matrix) -> np.ndarray:
    """Return the number of each row of X, -1 for rows without one."""
    return np.array([number.get(key, -1) for key in row_keys(X)], np.int64)


def same_rows(X: Matrix) -> tuple[dict[bytes, int], np.ndarray, np.ndarray]:
    """Number the distinct rows of X: the number of each key, the number of each row, the first row of each number."""
    number: dict[bytes, int] = {}
    place = np.array([number.setdefault(key, len(number)) for key in row_keys(X)], np.int64)
    return number, place, np.unique(place, return_index=True)[1]
