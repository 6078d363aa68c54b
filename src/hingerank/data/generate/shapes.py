"""Generated data in the shape of public sets, and the four sizes that the benchmarks use."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.generate.letor import GeneratedData, make_letor


@dataclass(frozen=True)
class Shape:
    """Queries, rows, features and grade shares as published; the query effect is set to meet the number of pairs."""

    queries: int
    rows: int
    features: int
    shares: tuple[float, ...]
    sizes: tuple[int, int]  # fewest and most rows of a query
    spread: float  # standard deviation of the logarithm of a query's rows
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


def make_like(name: str, seed: int = 0, scale: float = 1.0, **options: Any) -> GeneratedData:
    """Generated data with the queries, rows, features, grade shares and about the pairs of a public set.

    The values are generated: only the shape is the public set's. `scale` multiplies the number of queries; `options`
    go to :func:`make_letor` (`signal`, `noise`, `dtype`, ...).

    Example
    -------
    >>> data = make_like("MQ2008")
    >>> data.n_queries, data.n_rows, data.n_features
    (784, 15211, 46)
    """
    if name not in LIKE:
        raise DataError(f"no shape is called {name!r}; choose from {', '.join(LIKE)}")
    return _make(LIKE[name], seed, scale, options)


def make_benchmark(size: str, seed: int = 0, **options: Any) -> GeneratedData:
    """The data of the project's benchmarks: "S", "L", "XL" (MSLR-WEB10K's shape) or "XXL" (MSLR-WEB30K's).

    S is 700 queries × 100 rows × 46 features in 3 grades; L is 6,000 × 120 × 136 in 5 grades.

    Example
    -------
    >>> make_benchmark("S").X.shape
    (70000, 46)
    """
    if size not in BENCHMARK:
        raise DataError(f"no benchmark size is called {size!r}; choose from {', '.join(BENCHMARK)}")
    return _make(BENCHMARK[size], seed, 1.0, options)


def _make(shape: Shape, seed: int, scale: float, options: dict[str, Any]) -> GeneratedData:
    if not scale > 0:
        raise DataError(f"scale is {scale}, expected a positive number")
    queries = max(1, round(shape.queries * scale))
    rows = round(shape.rows * queries / shape.queries)
    settings: dict[str, Any] = {
        "skew": shape.shares,
        "query_effect": shape.query_effect,
        "useless": shape.useless,
        "constant": shape.constant,
        "seed": seed,
    }
    sizes = ragged_sizes(queries, rows, *shape.sizes, shape.spread, seed)
    return make_letor(queries, sizes, shape.features, len(shape.shares), **(settings | options))


def ragged_sizes(queries: int, rows: int, least: int, most: int, spread: float, seed: int) -> np.ndarray:
    """`queries` whole numbers in [least, most], log-normal with the given spread, that add up to `rows`."""
    if not least * queries <= rows <= most * queries:
        raise DataError(f"{queries} queries of {least} to {most} rows cannot hold {rows} rows")
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
