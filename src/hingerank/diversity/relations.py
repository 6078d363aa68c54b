"""Distances between two candidates of a query (relations), built from vectors, text, URLs or categories.

A relation is 0 for the same thing, larger for more different things, usually at most 1. It is computed one row at a
time (one candidate against all), so nothing of size candidates² is stored unless you give it as a tensor.
Aspects of a query, P(d | a) for every candidate, come from known subtopics, scores of query suggestions, or clusters.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from math import isfinite
from urllib.parse import urlsplit

import numpy as np
from scipy import sparse

from hingerank.arrays import ArrayLike, Matrix
from hingerank.data.blocks import number_values
from hingerank.data.checks import fraction, generator, one_of, positive, whole
from hingerank.data.files import DataError
from hingerank.data.sparse import plain_csr


@dataclass(frozen=True, eq=False)
class Relation:
    """One named distance between n candidates; row(i) returns the n distances from candidate i.

    Relations of this module are module-level functions with bound arrays, so that other processes can unpickle them.
    """

    name: str
    n: int
    row: Callable[[int], np.ndarray]


class Relations:
    """Several relations together: row(i) is (r, n), the r distances between candidate i and each of the n candidates.

    Parameters
    ----------
    parts : a tensor of shape (n, n, r) or (n, n), one `Relation`, or a list of them
    names : of a tensor's relations, default r1, r2, ...

    Examples
    --------
    >>> relations = Relations([cosine_relation(np.eye(3))])
    >>> relations.row(0).tolist()
    [[0.0, 1.0, 1.0]]
    """

    def __init__(self, parts: np.ndarray | Relation | Iterable[Relation], names: Sequence[str] | None = None) -> None:
        if isinstance(parts, np.ndarray):
            stored = _stored_rows(parts)
            self._row: Callable[[int], np.ndarray] = stored.__getitem__
            self.n, self.names = len(stored), tuple(names or (f"r{j + 1}" for j in range(stored.shape[1])))
            if len(self.names) != stored.shape[1]:
                raise DataError(f"{len(self.names)} names for {stored.shape[1]} relations: give one for each")
            return
        given = [parts] if isinstance(parts, Relation) or not isinstance(parts, Iterable) else list(parts)
        if not given or not all(isinstance(part, Relation) for part in given):
            raise DataError(
                "relations must be a tensor (n, n, r), or a list of at least one Relation, such as cosine_relation(X)"
            )
        if len({part.n for part in given}) > 1:
            sizes = ", ".join(f"{part.name} {part.n}" for part in given)
            raise DataError(f"the relations have different numbers of candidates: {sizes}; build all for the same ones")
        self.n, self.names = given[0].n, tuple(part.name for part in given)
        self._row = partial(_computed_row, given)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, i: int) -> np.ndarray:
        """Return (r, n): all distances from candidate i."""
        return self._row(i)

    def rows(self, indices: Iterable[int]) -> np.ndarray:
        """Return (k, r, n): the rows of k candidates."""
        chosen = [self._row(int(i)) for i in indices]
        return np.stack(chosen) if chosen else np.empty((0, len(self), self.n))

    def materialize(self) -> "Relations":
        """Return the same relations with all n · r · n numbers stored: faster for repeated access."""
        return Relations(self.rows(range(self.n)).transpose(0, 2, 1), self.names)

    def subset(self, candidates: np.ndarray) -> "Relations":
        """Return the relations between some of the candidates only."""
        part = copy(self)
        part.n, part._row = len(candidates), partial(_subset_row, self._row, candidates)
        return part


def _stored_rows(tensor: np.ndarray) -> np.ndarray:
    """Return (n, r, n), the row of every candidate, from a tensor (n, n, r) or (n, n)."""
    tensor = tensor[:, :, None] if tensor.ndim == 2 else tensor
    if tensor.ndim != 3 or tensor.shape[0] != tensor.shape[1]:
        raise DataError(f"a relation tensor has shape {tensor.shape}, expected (candidates, candidates, relations)")
    if not np.isfinite(tensor).all():
        i, j, r = np.argwhere(~np.isfinite(tensor))[0]
        raise DataError(f"relation {r} between candidates {i} and {j} is {tensor[i, j, r]}: give finite distances")
    return np.ascontiguousarray(tensor.transpose(0, 2, 1), np.float64)


def _computed_row(parts: list[Relation], i: int) -> np.ndarray:
    out = np.empty((len(parts), parts[0].n))
    for part, line in zip(parts, out):
        values = part.row(i)
        # a finite sum has finite terms, so only an infinite one needs the slower check
        if values.shape != line.shape or not (isfinite(values.sum()) or np.isfinite(values).all()):
            raise DataError(
                f"relation {part.name!r} of candidate {i} has shape {values.shape} or contains NaN or infinity; "
                f"expected {part.n} finite numbers"
            )
        line[:] = values
    return out


def _subset_row(row: Callable[[int], np.ndarray], candidates: np.ndarray, i: int) -> np.ndarray:
    return row(int(candidates[i])).take(candidates, axis=1)


def cosine_relation(vectors: Matrix, name: str = "cosine", clip: bool = True) -> Relation:
    """1 − max(0, cos(v_i, v_j)) of rows of a dense array or CSR matrix; a zero vector is at distance 1 from all others.

    Parameters
    ----------
    vectors : one row per candidate
    name : of the relation
    clip : count vectors at obtuse angles as unrelated, at distance 1, as pyversity does; False gives 1 − cos, up to 2
    """
    V, squares = _checked_vectors(vectors, name)
    norms = np.sqrt(squares)
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    return Relation(name, V.shape[0], partial(_cosine_row, V, scale, clip))


def _cosine_row(V: Matrix, scale: np.ndarray, clip: bool, i: int) -> np.ndarray:
    near = V @ (V[i].toarray().ravel() if sparse.issparse(V) else V[i])
    near *= scale * scale[i]
    if clip:
        np.maximum(near, 0, out=near)
    np.subtract(1, near, out=near)
    near[i] = 0
    return near


def euclidean_relation(vectors: Matrix, name: str = "euclidean", scale: float | None = None) -> Relation:
    """‖v_i − v_j‖ / scale; scale None is √d, so that vectors with entries in [0, 1] are at most 1 apart."""
    scale = None if scale is None else positive("scale", scale)
    V, _ = _checked_vectors(vectors, name)
    V = (V.toarray() if sparse.issparse(V) else V).astype(np.float64)
    V = V - V.sum(axis=0) / max(1, len(V))  # centred, so that the squares below lose fewer digits
    V /= scale or max(1.0, np.sqrt(V.shape[1]))
    squares = np.einsum("ij,ij->i", V, V)
    return Relation(name, len(V), partial(_euclidean_row, V, squares))


def _euclidean_row(V: np.ndarray, squares: np.ndarray, i: int) -> np.ndarray:
    squared = squares + squares[i] - 2 * (V @ V[i])
    np.maximum(squared, 0, out=squared)
    squared[i] = 0
    return np.sqrt(squared, out=squared)


def _checked_vectors(vectors: Matrix, name: str) -> tuple[Matrix, np.ndarray]:
    """Return float vectors, dense or CSR, and their squared lengths."""
    V: Matrix = plain_csr(vectors) if sparse.issparse(vectors) else np.asarray(vectors)
    if V.ndim != 2:
        raise DataError(f"vectors for relation {name!r} have shape {V.shape}, expected one row per candidate")
    V = V if V.dtype in (np.float32, np.float64) else V.astype(np.float64)
    squares = V.multiply(V).sum(axis=1).A1 if sparse.issparse(V) else np.einsum("ij,ij->i", V, V)
    if not isfinite(squares.sum()):
        row = int(np.flatnonzero(~np.isfinite(squares))[0]) if not np.isfinite(squares).all() else 0
        raise DataError(f"relation {name!r}: the vector of candidate {row} is NaN, infinite or too long: rescale it")
    return V, squares


def text_relations(
    texts: Sequence[str], topics: int | None = None, model: str = "nmf", seed: int = 0, stop_words: object = "english"
) -> list[Relation]:
    """Return relations of texts: the TF-IDF cosine distance, and with `topics` the distance of their topic mixtures.

    A topic mixture is a distribution over topics found by scikit-learn; two mixtures are √½·‖p − q‖ apart, at most 1.

    Parameters
    ----------
    texts : of the candidates
    topics : number of topics; None leaves the mixtures out
    model : "nmf" of TF-IDF, or "lda" of counts
    seed : of the model
    stop_words : passed to scikit-learn's vectorisers
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    one_of("model", model, "nmf", "lda")
    tfidf = TfidfVectorizer(sublinear_tf=True, stop_words=stop_words).fit_transform(texts)
    parts = [cosine_relation(tfidf, "tfidf")]
    if topics is not None:
        counts = CountVectorizer(stop_words=stop_words).fit_transform(texts) if model == "lda" else tfidf
        parts.append(mixture_relation(topic_mixture(counts, topics, model, seed), f"{model}{topics}"))
    return parts


def topic_mixture(counts: Matrix, topics: int, model: str = "nmf", seed: int = 0) -> np.ndarray:
    """Return P(topic | document) from word weights (documents × words), by scikit-learn's NMF or LDA."""
    from sklearn.decomposition import NMF, LatentDirichletAllocation

    topics = max(1, min(topics, *counts.shape))
    if model == "lda":
        return LatentDirichletAllocation(topics, random_state=seed).fit_transform(counts)
    weights = NMF(topics, init="nndsvda", random_state=seed, max_iter=400, tol=1e-3).fit_transform(counts)
    total = weights.sum(axis=1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1), 1 / topics)


def mixture_relation(mixtures: np.ndarray, name: str = "mixture") -> Relation:
    """√½·‖p_i − p_j‖ of distributions: 0 for equal, 1 for disjoint pure ones."""
    return euclidean_relation(mixtures, name, scale=float(np.sqrt(2)))


def url_relation(urls: Sequence[str], name: str = "url") -> Relation:
    """0 if one URL is a prefix of the other on the same host, ½ on the same host, 1 otherwise.

    Scheme, www., the query, a trailing slash and the case of hosts are ignored.
    """
    split = [urlsplit(url if "//" in url else f"//{url}") for url in urls]
    hosts = number_values([(parts.hostname or "").removeprefix("www.") for parts in split])
    paths = [parts.path.rstrip("/") + "/" for parts in split]
    return Relation(name, len(urls), partial(_url_row, hosts, paths))


def _url_row(hosts: np.ndarray, paths: list[str], i: int) -> np.ndarray:
    distances = np.where(hosts == hosts[i], 0.5, 1.0)
    for j in np.flatnonzero(hosts == hosts[i]):
        if paths[j].startswith(paths[i]) or paths[i].startswith(paths[j]):
            distances[j] = 0.0
    return distances


def category_relation(categories: Sequence[str], name: str = "category", separator: str = "/") -> Relation:
    """1 − (shared leading levels) / (levels of the deeper path) of paths like "Arts/Music/Jazz"; 1 to an empty path."""
    paths = [[level for level in str(path).split(separator) if level] for path in categories]
    depth = np.array([len(path) for path in paths])
    prefixes = np.full((len(paths), max([1, *depth])), -1, np.int64)
    for level in range(prefixes.shape[1]):
        deep = [i for i, path in enumerate(paths) if len(path) > level]
        prefixes[deep, level] = number_values([tuple(paths[i][: level + 1]) for i in deep])
    return Relation(name, len(paths), partial(_category_row, prefixes, depth))


def _category_row(prefixes: np.ndarray, depth: np.ndarray, i: int) -> np.ndarray:
    shared = ((prefixes == prefixes[i]) & (prefixes[i] >= 0)).sum(axis=1)
    distances = 1 - shared / np.maximum(1, np.maximum(depth, depth[i]))
    distances[i] = 0
    return distances


def unit_scores(scores: ArrayLike, how: str = "minmax") -> np.ndarray:
    """(s − min) / (max − min): retrieval scores of one query scaled to [0, 1], all 0 if all are equal.

    Parameters
    ----------
    scores : of the candidates
    how : "minmax", or "softmax", e^s / Σ e^s, for log likelihoods

    Examples
    --------
    >>> unit_scores([-5.0, -4.0, -3.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    s = np.asarray(scores, np.float64)
    if s.ndim != 1 or not np.isfinite(s).all():
        raise DataError(f"scores have shape {s.shape} or contain NaN or infinity: give one finite number per candidate")
    if one_of("how", how, "minmax", "softmax") == "minmax":
        low, span = s.min(initial=np.inf), np.ptp(s) if len(s) else 0.0
        return (s - low) / span if span > 0 else np.zeros(len(s))
    e = np.exp(s - s.max(initial=-np.inf))
    return e / e.sum() if len(s) else e


def aspects_from_subtopics(judgments: ArrayLike, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Return P(d | a) = 1 if d is relevant to subtopic a: the aspects of a perfect guess of the subtopics.

    Parameters
    ----------
    judgments : candidates × subtopics, above 0 if relevant
    noise : mixes in uniform random numbers, (1 − noise)·J + noise·U, to study how much the guess matters
    seed : of the noise
    """
    J, noise = (np.asarray(judgments) > 0).astype(np.float64), fraction("noise", noise)
    return (1 - noise) * J + noise * generator(seed, "seed").random(J.shape)


def aspects_from_scores(scores: ArrayLike, how: str = "minmax", temperature: float = 1.0) -> np.ndarray:
    """Return P(d | a) from the scores of every candidate (row) for every query suggestion (column).

    Parameters
    ----------
    scores : candidates × suggestions
    how : each column is scaled to [0, 1] by `unit_scores`
    temperature : the scores are divided by it first
    """
    S = np.asarray(scores, np.float64)
    positive("temperature", temperature)
    if S.ndim != 2:
        raise DataError(f"scores have shape {S.shape}, expected candidates × suggestions")
    return np.column_stack([unit_scores(column / temperature, how) for column in S.T]) if S.shape[1] else S


def aspects_from_clusters(vectors: Matrix, clusters: int = 8, softness: float = 0.5, seed: int = 0) -> np.ndarray:
    """P(d | a) ∝ exp(−‖v_d − centre_a‖² / (2·softness²·s²)) over k-means clusters, s² the mean squared distance.

    Parameters
    ----------
    vectors : one row per candidate, dense or sparse
    clusters : their number; fewer if there are fewer distinct candidates
    softness : near 0 every candidate belongs only to its own cluster
    seed : of k-means
    """
    from sklearn.cluster import KMeans

    clusters = max(1, min(whole("clusters", clusters), vectors.shape[0]))
    positive("softness", softness)
    model = KMeans(clusters, n_init=4, random_state=seed).fit(vectors)
    squared = model.transform(vectors) ** 2
    scale = 2 * softness**2 * max(float(squared.min(axis=1).mean()), 1e-12)
    weights = np.exp(-(squared - squared.min(axis=1, keepdims=True)) / scale)
    return weights / weights.sum(axis=1, keepdims=True)
