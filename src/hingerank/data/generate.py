"""Generated data like LETOR's, whose true scores are known, also with the sizes of public data sets.

Queries differ in size, low grades are more frequent, features are in [0, 1], and some columns are useless. The same
arguments, seed included, give the same data on any number of threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from hingerank.arrays import Facts, Matrix
from hingerank.data.checks import generator
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.kernels.generate import utilities
from hingerank.kernels.threads import cut_shards, run_shards

FACTORS = 4  # hidden factors that make columns correlated, like the many BM25 and TF-IDF variants of LETOR
BLOCK = 2048  # rows generated at a time, small enough to stay in cache


@dataclass(frozen=True, eq=False)
class Truth:
    """utility(x) = Σ_j w_j x_j + Σ_r c_r (x_a − m_a)(x_b − m_b). Its standard deviation over the data is 1.

    A row's grade is the number of `thresholds` that are at most utility + query effect + noise. `columns` lists the
    features that matter. `pairs`, `pair_weights` (c) and `centre` (m) are empty for a linear signal.
    """

    weights: np.ndarray
    pairs: np.ndarray
    pair_weights: np.ndarray
    centre: np.ndarray
    thresholds: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        used = self.weights != 0
        used[self.pairs.ravel()] = True
        return np.flatnonzero(used)

    def utility(self, X: Matrix) -> np.ndarray:
        """The score of every row without noise: it gives the best ranking that can be learned."""
        u = np.empty(X.shape[0])
        how = (self.weights, self.pairs, self.pair_weights, self.centre, u)
        if sp.issparse(X):
            X = X.tocsr()
            utilities((X.data, X.indices, X.indptr), *how)
        else:
            utilities((np.ascontiguousarray(X, X.dtype if X.dtype.kind == "f" else float),), *how)
        return u


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedData(RankingData):
    """RankingData with the `truth` that it was generated from."""

    truth: Truth | None = None


def make_letor(
    n_queries: int = 100,
    rows_per_query: int | tuple[int, int] | Sequence[int] | np.ndarray = (20, 180),
    n_features: int = 46,
    n_grades: int = 3,
    *,
    skew: float | Sequence[float] = 1.0,
    signal: str = "linear",
    noise: float = 0.5,
    query_effect: float = 0.5,
    useless: int = 0,
    constant: int = 0,
    sparse_density: float | None = None,
    dtype: DTypeLike = np.float32,
    seed: int = 0,
) -> GeneratedData:
    """Generate data: grade = number of thresholds that are at most  utility(x) + query_effect·e_q + noise·e_i.

    e_q and e_i are standard normal. The thresholds are set so that each grade has the wanted fraction of the rows.

    Parameters
    ----------
    n_queries, n_features, n_grades : int
    rows_per_query : int, (int, int) or array
        One size for all queries, a range (least, most) from which sizes are drawn, or one size per query.
    skew : float or sequence of float
        A number makes the fractions of the grades proportional to exp(−skew·grade). A sequence holds the fractions
        themselves, lowest grade first.
    signal : {"linear", "nonlinear"}
        "nonlinear": half of the utility's variance comes from products of two columns.
    noise, query_effect : float
        Standard deviations of the noise and of the query effect; that of the utility is 1. Through the query effect
        some queries have many relevant rows and others few, as in real data.
    useless : int
        Number of columns that are independent noise with weight 0.
    constant : int
        Number of columns that are 0 in every row.
    sparse_density : float, optional
        Makes X a CSR matrix with this fraction of entries, which are uniform in (0, 1]. None makes X dense.
    dtype : float32 or float64
        The type of X.
    seed : int

    Examples
    --------
    >>> data = make_letor(50, (5, 40), n_features=10, n_grades=5, useless=3, seed=1)
    >>> data.n_queries, data.n_features, len(data.truth.columns)
    (50, 10, 7)
    """
    fractions = grade_fractions(n_grades, skew)
    rng, queries, rows = generator(seed, "seed").spawn(3)
    sizes = _query_sizes(n_queries, rows_per_query, rng)
    terms, factors, own, spread = _draw_columns(n_features, useless, constant, signal, sparse_density, rng)
    weights, pairs, pair_weights, centre = terms
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    shards = cut_shards(offsets, 16 * BLOCK)
    jobs = [(int(offsets[a]), int(offsets[b]), s) for (a, b), s in zip(shards, rows.spawn(len(shards)))]
    if sparse_density is None:
        how = [a.astype(dtype) for a in (factors, own, centre, spread)]
        X, utility, eps = _dense_rows((int(offsets[-1]), n_features), how, terms, np.dtype(dtype), jobs)
    else:
        live = np.flatnonzero(spread > 0)  # constant columns stay empty
        X, utility, eps = _csr_rows(n_features, live, sparse_density, terms, np.dtype(dtype), jobs)

    scale = float(utility.std()) or 1.0
    noisy = utility / scale + noise * eps
    noisy += np.repeat(query_effect * queries.standard_normal(n_queries), sizes)
    cuts = np.minimum((np.cumsum(fractions)[:-1] * len(noisy)).round().astype(np.int64), len(noisy) - 1)
    thresholds = np.partition(noisy, cuts)[cuts]
    y = np.searchsorted(thresholds, noisy, side="right").astype(np.float64)
    truth = Truth(weights / scale, pairs, pair_weights / scale, centre, thresholds)
    return GeneratedData(X=X, y=y, qid=np.repeat(np.arange(1, n_queries + 1), sizes), truth=truth)


def _draw_columns(d: int, useless: int, constant: int, signal: str, density: float | None, rng) -> tuple:
    """The terms of the utility (its weights, pairs of columns, their weights, centres), and how columns are generated:
    the hidden factors, and each column's own noise and spread."""
    informative = d - useless - constant
    if useless < 0 or constant < 0 or informative < 1:
        raise DataError(
            f"useless is {useless} and constant is {constant}, which leaves none of the {d} features informative; "
            "make them smaller, and not negative"
        )
    if signal not in ("linear", "nonlinear"):
        raise DataError(f"signal is {signal!r}, expected 'linear' or 'nonlinear'")
    if density is not None and not 0 < density <= 1:
        raise DataError(f"sparse_density is {density}, expected a fraction in (0, 1]")
    shuffled = rng.permutation(d)
    good, zero = shuffled[:informative], shuffled[d - constant :]
    factors = np.zeros((FACTORS, d))
    factors[:, good] = rng.standard_normal((FACTORS, informative)) * rng.uniform(0, 0.6, informative)
    own = np.sqrt(np.maximum(1 - (factors**2).sum(axis=0), 0.1))
    centre, spread = rng.uniform(-0.1, 0.5, d), rng.uniform(0.15, 0.35, d)  # a low centre gives many zeros
    weights = np.zeros(d)
    weights[good] = rng.standard_normal(informative) + 0.5
    n_products = max(2, informative // 4) if signal == "nonlinear" else 0
    pairs = good[rng.integers(0, informative, (n_products, 2))].astype(np.int64)
    pair_weights = rng.choice([-1.0, 1.0], n_products)
    if n_products:  # products with about the variance of the linear part, as if columns were independent
        variance = spread**2 if density is None else np.full_like(spread, density / 12)
        products = (variance[pairs[:, 0]] * variance[pairs[:, 1]]).sum()
        pair_weights *= float(np.sqrt((weights**2 * variance).sum() / products))
    centre[zero] = spread[zero] = 0.0
    return (weights, pairs, pair_weights, centre), factors, own, spread


def _dense_rows(shape: tuple[int, int], how: list[np.ndarray], terms: tuple, dtype: np.dtype, jobs: list) -> tuple:
    """x = clip(centre + spread · (own · ε + Σ_r z_r · factor_r), 0, 1), ε and z normal; their utilities and noise."""
    X, utility, eps = np.empty(shape, dtype), np.empty(shape[0]), np.empty(shape[0])
    factors, own, centre, spread = how

    def fill(job: tuple) -> None:
        first, last, rng = job
        rng.standard_normal(out=eps[first:last])
        for a in range(first, last, BLOCK):
            block = X[a : min(a + BLOCK, last)]
            rng.standard_normal(out=block, dtype=dtype)
            z = rng.standard_normal((len(block), FACTORS), dtype=dtype)
            block *= own
            for r, factor in enumerate(factors):  # no matrix product, whose last bits depend on the machine
                block += z[:, r : r + 1] * factor
            block *= spread
            block += centre
            np.clip(block, 0, 1, out=block)
            utilities((block,), *terms, utility[a : a + len(block)])

    run_shards(fill, jobs)
    return X, utility, eps


def _csr_rows(d: int, live: np.ndarray, density: float, terms: tuple, dtype: np.dtype, jobs: list) -> tuple:
    def fill(job: tuple) -> tuple:
        first, last, rng = job
        eps = rng.standard_normal(last - first)
        places = bernoulli_places((last - first) * len(live), density, rng)
        values = 1 - rng.random(len(places), dtype=dtype)
        indptr = np.searchsorted(places, np.arange(last - first + 1) * len(live))
        indices = live[places % len(live)].astype(np.int32)
        utility = np.empty(last - first)
        utilities((values, indices, indptr), *terms, utility)
        return values, indices, np.diff(indptr), utility, eps

    values, indices, counts, utility, eps = (np.concatenate(part) for part in zip(*run_shards(fill, jobs)))
    X = sp.csr_matrix((values, indices, np.concatenate(([0], np.cumsum(counts)))), shape=(len(eps), d))
    return X, utility, eps


def bernoulli_places(total: int, density: float, rng: np.random.Generator) -> np.ndarray:
    """A random choice from 0..total−1, each with probability `density`. The gaps between them are geometric."""
    places = np.empty(0, np.int64)
    while not len(places) or places[-1] < total:
        start = places[-1] if len(places) else -1
        expected = (total - start) * density
        gaps = rng.geometric(density, int(expected + 4 * np.sqrt(expected) + 16))
        places = np.concatenate((places, start + np.cumsum(gaps)))
    return places[: np.searchsorted(places, total)]


def _query_sizes(n_queries: int, rows: object, rng: np.random.Generator) -> np.ndarray:
    if n_queries < 1:
        raise DataError(f"n_queries is {n_queries}, expected at least 1")
    if isinstance(rows, tuple) and len(rows) == 2:
        least, most = rows
        if not 1 <= least <= most:
            raise DataError(f"rows_per_query is {rows}, expected (least, most) with 1 <= least <= most")
        return rng.integers(least, most + 1, n_queries)
    sizes = np.asarray(rows)
    if sizes.ndim == 0:
        sizes = np.full(n_queries, sizes)
    if sizes.shape != (n_queries,) or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise DataError(
            f"rows_per_query is {rows!r}, expected a number >= 1, a range (least, most), or {n_queries} numbers >= 1"
        )
    return sizes.astype(np.int64)


def grade_fractions(n_grades: int, skew: Any) -> np.ndarray:
    """The fraction of rows with each grade, from the lowest grade to the highest; see `make_letor`."""
    if n_grades < 1:
        raise DataError(f"n_grades is {n_grades}, expected at least 1")
    fractions = np.exp(-float(skew) * np.arange(n_grades)) if np.ndim(skew) == 0 else np.asarray(skew, float)
    if fractions.shape != (n_grades,) or not (fractions > 0).all():
        raise DataError(f"skew is {skew!r}, expected a number, or {n_grades} positive fractions, one for each grade")
    return fractions / fractions.sum()


# Generated data with the sizes of public data sets, and the four sizes that the benchmarks use.


@dataclass(frozen=True)
class Shape:
    """The published numbers of a data set. The query effect is chosen so that the number of pairs is about right."""

    queries: int
    rows: int
    features: int
    fractions: tuple[float, ...]
    sizes: tuple[int, int]  # fewest and most rows of a query
    spread: float  # standard deviation of the logarithm of a query's number of rows
    query_effect: float
    useless: int = 0
    constant: int = 0


_MSLR = (0.5182, 0.3229, 0.1331, 0.0181, 0.0077)

LIKE = {
    "OHSUMED": Shape(106, 16140, 45, (0.7003, 0.1602, 0.1395), (35, 320), 0.43, 0.95, 6, 9),
    "MQ2008": Shape(784, 15211, 46, (0.8073, 0.1315, 0.0612), (5, 121), 0.95, 0.8, 10, 5),
    "MQ2007": Shape(1692, 69623, 46, (0.7416, 0.2029, 0.0555), (6, 147), 0.15, 1.35, 10, 5),
    "HP2004": Shape(75, 74409, 64, (0.99892, 0.00108), (900, 1000), 0.02, 0.0, 20),
    "MSLR-WEB10K": Shape(10000, 1200192, 136, _MSLR, (1, 908), 0.5, 0.5, 30),
    "MSLR-WEB30K": Shape(31531, 3771125, 136, _MSLR, (1, 1251), 0.5, 0.5, 30),
}

BENCHMARK = {
    "S": Shape(700, 70000, 46, (0.75, 0.17, 0.08), (100, 100), 0.0, 0.3, 10),
    "L": Shape(6000, 720000, 136, _MSLR, (120, 120), 0.0, 0.4, 30),
    "XL": LIKE["MSLR-WEB10K"],
    "XXL": LIKE["MSLR-WEB30K"],
}


def make_like(name: str, seed: int = 0, scale: float = 1.0, **options: object) -> GeneratedData:
    """Generate data with the sizes of a public data set.

    The numbers of queries, rows and features and the fractions of the grades are equal, the number of pairs nearly so.
    The values themselves are generated.

    Parameters
    ----------
    name : str
        "OHSUMED", "MQ2007", "MQ2008", "HP2004", "MSLR-WEB10K" or "MSLR-WEB30K".
    seed : int
    scale : float
        Multiplies the number of queries.
    **options
        Parameters of `make_letor`: `signal`, `noise`, `dtype`, ...

    Examples
    --------
    >>> data = make_like("MQ2008")
    >>> data.n_queries, data.n_rows, data.n_features
    (784, 15211, 46)
    """
    if name not in LIKE:
        raise DataError(f"there is no data set {name!r} to imitate; choose from {', '.join(LIKE)}")
    return _make(LIKE[name], seed, scale, options)


def make_benchmark(size: str, seed: int = 0, **options: object) -> GeneratedData:
    """Generate the data of hingerank's benchmarks.

    Parameters
    ----------
    size : {"S", "L", "XL", "XXL"}
        S is 700 queries × 100 rows × 46 features in 3 grades; L is 6,000 × 120 × 136 in 5 grades; XL and XXL have the
        shapes of MSLR-WEB10K and MSLR-WEB30K.
    seed : int
    **options
        Parameters of `make_letor`.

    Examples
    --------
    >>> make_benchmark("S").X.shape
    (70000, 46)
    """
    if size not in BENCHMARK:
        raise DataError(f"there is no benchmark size {size!r}; choose from {', '.join(BENCHMARK)}")
    return _make(BENCHMARK[size], seed, 1.0, options)


def _make(shape: Shape, seed: int, scale: float, options: Facts) -> GeneratedData:
    if not scale > 0:
        raise DataError(f"scale is {scale}, expected a positive number")
    queries = max(1, round(shape.queries * scale))
    rows = round(shape.rows * queries / shape.queries)
    settings = {name: getattr(shape, name) for name in ("query_effect", "useless", "constant")}
    settings |= {"skew": shape.fractions, "seed": seed, **options}
    sizes = ragged_sizes(queries, rows, *shape.sizes, shape.spread, seed)
    return make_letor(queries, sizes, shape.features, len(shape.fractions), **settings)


def ragged_sizes(queries: int, rows: int, least: int, most: int, spread: float, seed: int) -> np.ndarray:
    """`queries` whole numbers in [least, most] that add up to `rows`, log-normal with the given spread."""
    if not least * queries <= rows <= most * queries:
        raise DataError(f"{queries} queries of {least} to {most} rows each cannot have {rows} rows in all")
    shape = np.exp(spread * np.random.default_rng(seed).standard_normal(queries))
    low, high = 0.0, rows / shape.min()
    for _ in range(60):  # the total grows with the scale: bisection
        middle = (low + high) / 2
        if np.clip(middle * shape, least, most).sum() < rows:
            low = middle
        else:
            high = middle
    edges = np.concatenate(([0], np.cumsum(np.clip(high * shape, least, most))))
    return np.diff(np.floor(edges + 0.5).astype(np.int64))
