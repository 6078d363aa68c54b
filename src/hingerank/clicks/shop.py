"""A small shop of outdoor gear, generated: products with named features, judgments, and a log of clicks."""

from dataclasses import dataclass

import numpy as np

from hingerank.clicks.log import ClickLog
from hingerank.clicks.simulation import simulate_clicks
from hingerank.data.checks import whole
from hingerank.data.ranking_data import RankingData

FEATURES = ("bm25_title", "bm25_text", "price", "rating", "reviews", "freshness", "margin", "delivery")
ADJECTIVES = ("light", "warm", "waterproof", "winter", "red", "kids", "folding", "compact", "vintage", "trail")
NOUNS = ("tent", "boots", "jacket", "stove", "backpack", "lamp", "mat", "bottle", "gloves", "rope", "hammock", "poles")
BRANDS = ("Alder", "Birch", "Cedar", "Dune", "Ember", "Fjord", "Gale", "Heath", "Iris", "Juniper")
CANDIDATES = 15  # products that a search finds and shows
SHARES = (0.5, 0.25, 0.15, 0.1)  # of the grades 0 to 3


@dataclass(frozen=True, eq=False)
class Shop:
    """What `make_shop` makes.

    Attributes
    ----------
    rows : RankingData
        A row for each product that a search finds, with named features. The grades, 0 to 3, say how well customers like
        it there. A real shop does not know them.
    titles : numpy array of str
        The title of each row's product.
    today : numpy array
        The score of each row in the shop as it is. It likes products of high margin.
    log : ClickLog
        What customers were shown and clicked.
    """

    rows: RankingData
    titles: np.ndarray
    today: np.ndarray
    log: ClickLog


def make_shop(n_queries: int = 120, sessions: int = 20_000, seed: int = 0) -> Shop:
    """A shop of outdoor gear whose customers look at the top of the page most:  P(position k is seen) = 1 / k.

    A search finds 15 products and shows all of them. Half of the sessions see today's ranking, by title and margin. The
    others see an older one, by title and number of reviews. Customers like products whose title fits, with a good
    rating and a price near 60. They do not know margins. So clicks on today's ranking seem to say that margin matters.

    Parameters
    ----------
    n_queries : int
        Different searches, at most 120.
    sessions : int
        Searches in the log.
    seed : int

    Returns
    -------
    Shop

    Examples
    --------
    >>> shop = make_shop(n_queries=20, sessions=500)
    >>> shop.rows.names[:4], len(shop.log), shop.log.n_places
    (('bm25_title', 'bm25_text', 'price', 'rating'), 7500, 15)
    """
    searches = [f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
    if whole("n_queries", n_queries) > len(searches):
        raise ValueError(f"the shop has {len(searches)} searches, not {n_queries}: ask for fewer")
    rng = np.random.default_rng(seed)
    chosen = np.array(searches)[np.sort(rng.permutation(len(searches))[:n_queries])]
    n = n_queries * CANDIDATES
    fits = rng.random((n, 2)) < (0.45, 0.85)  # the adjective and the noun are in the title
    columns = {
        "bm25_title": fits @ (4.0, 6.0) * rng.uniform(0.8, 1.2, n),
        "bm25_text": rng.gamma(2.0, 1.5, n) + 2.0 * fits[:, 0],
        "price": np.round(60.0 * np.exp(0.6 * np.clip(rng.standard_normal(n), -2.0, 2.0)), 2),
        "rating": np.round(np.clip(5.0 - rng.gamma(2.0, 0.5, n), 1.0, 5.0), 1),
        "reviews": np.floor(np.exp(np.clip(rng.normal(3.0, 1.3, n), 0.0, 5.5))),
        "freshness": np.floor(rng.uniform(0.0, 365.0, n)),  # days since the product was added
        "margin": np.round(rng.uniform(0.05, 0.6, n), 2),
        "delivery": rng.integers(1, 8, n).astype(float),  # days
    }
    X = np.column_stack([columns[name] for name in FEATURES])
    y = _grades(_liking(columns) + 0.4 * rng.standard_normal(n))
    qid: np.ndarray = np.repeat(chosen, CANDIDATES)
    docid = np.array([f"p{k + 1}" for k in range(n)])
    rows = RankingData.from_arrays(X, y, qid, docid=docid, feature_names=FEATURES)
    today = columns["bm25_title"] / 5.0 + 4.0 * columns["margin"]
    older = columns["bm25_title"] / 5.0 + 0.5 * np.log1p(columns["reviews"])
    log = simulate_clicks(rows, [today, older], sessions=sessions, seed=seed)
    return Shop(rows, _titles(chosen, fits, rng), today, log)


def _liking(columns: dict[str, np.ndarray]) -> np.ndarray:
    """What customers think of products: no word about margins."""
    return (
        0.16 * columns["bm25_title"]
        + 0.1 * columns["bm25_text"]
        - 1.6 * np.log(columns["price"] / 60.0) ** 2
        + 0.9 * np.maximum(columns["rating"] - 3.0, 0.0)
        + 0.6 * np.exp(-columns["freshness"] / 60.0)
        - 0.1 * columns["delivery"]
    )


def _grades(liking: np.ndarray) -> np.ndarray:
    return np.digitize(liking, np.quantile(liking, np.cumsum(SHARES)[:-1])).astype(float)


def _titles(searches: np.ndarray, fits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The words of a search that fit, others where they do not, after a brand."""
    words = np.repeat([search.split() for search in searches.tolist()], CANDIDATES, axis=0)
    others = np.column_stack([rng.choice(ADJECTIVES, len(words)), rng.choice(NOUNS, len(words))])
    brand = rng.choice(BRANDS, len(words))
    return np.array([f"{name} {' '.join(title)}" for name, title in zip(brand, np.where(fits, words, others))])
