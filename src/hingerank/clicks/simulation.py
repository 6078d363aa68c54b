"""Simulated users who click on rankings, and a generated shop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from hingerank.arrays import ArrayLike
from hingerank.clicks.log import ClickLog
from hingerank.data.blocks import real_numbers
from hingerank.data.checks import fraction, generator, one_of, whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.rankers.corrections import PlaceBias


@runtime_checkable
class Predictor(Protocol):
    """What scores rows: a fitted ranker."""

    def predict(self, X: RankingData, /) -> ArrayLike: ...


Ranking: TypeAlias = Predictor | ArrayLike  # a fitted ranker, or a score for each row
Rankings: TypeAlias = Ranking | Sequence[Ranking] | Mapping[str, Ranking]


def are_several(rankings: Rankings, n_rows: int) -> bool:
    """Whether these are several rankings: a mapping, or a list that does not have a score for each row."""
    if isinstance(rankings, list | tuple):
        scores = len(rankings) == n_rows > 0 and np.ndim(rankings[0]) == 0 and not isinstance(rankings[0], Predictor)
        return not scores
    return isinstance(rankings, Mapping)


def named_rankings(rankings: Rankings, n_rows: int) -> dict[str, Ranking]:
    """The rankings by name: as given, or by the rankers' classes, with numbers if two have the same."""
    if isinstance(rankings, Mapping):
        found = {str(name): each for name, each in rankings.items()}
    else:
        several = cast(Sequence[Ranking], rankings if are_several(rankings, n_rows) else [rankings])
        names = [type(each).__name__ if isinstance(each, Predictor) else "ranking" for each in several]
        found = {n if names.count(n) == 1 else f"{n} {k}": each for k, (n, each) in enumerate(zip(names, several), 1)}
    if not found:
        raise DataError("there is no ranker: give a fitted one, a score for each row, or several of these")
    return found


def scores_of(ranking: Ranking, data: RankingData, name: str = "ranking") -> np.ndarray:
    """One finite score for each row. Anything else is a DataError that names the ranking."""
    scores = real_numbers(ranking.predict(data) if isinstance(ranking, Predictor) else ranking, name)
    if scores.shape != (data.n_rows,) or not np.isfinite(scores).all():
        raise DataError(
            f"{name}: expected a finite score for each of the {data.n_rows} rows, got an array of shape {scores.shape}"
            + (" with numbers that are not finite" if scores.shape == (data.n_rows,) else "")
        )
    return scores


Clicks = Callable[[np.random.Generator, np.ndarray], np.ndarray]
UserModel: TypeAlias = str | ArrayLike | PlaceBias | Clicks
MOST_SHOWINGS = 200_000_000
CONTINUE = 0.9  # of the model "dbn": the chance to look further where one was not satisfied


def simulate_clicks(
    data: RankingData,
    ranker: Rankings,
    model: UserModel = "pbm",
    *,
    sessions: int = 10_000,
    seed: int = 0,
    top: int | None = None,
    noise: float = 0.1,
    counted: bool = False,
) -> ClickLog:
    """A click log of simulated users:  P(click | seen) = noise + (1 - noise) (2^y - 1) / (2^m - 1).

    y is the grade of a row and m the best grade of the data. Grades below 0 count as 0. Each session is for a random
    query.

    Parameters
    ----------
    data : RankingData
        Rows with grades. If they have no document ids, the row numbers are the ids.
    ranker : fitted ranker, a score per row, or a list of these
        Ranks the rows that are shown. Each session draws one of several, so that propensities can be estimated.
    model : str, sequence of numbers, propensities, or callable
        "pbm": place k is seen with probability 1 / k. Numbers are other such probabilities, place 1 first; estimated
        `hingerank.propensities` may have trust bias. "cascade": users look at the places from the top to the first
        click. "dbn": a click satisfies a user with P(click | seen), and users who are not satisfied continue with
        probability 0.9. A callable gets a generator and an array (lists, places) of P(click | seen), and returns the
        clicks.
    sessions : int
    seed : int
    top : int, optional
        Number of places shown; by default all.
    noise : float
        P(click | seen) of rows of grade 0.
    counted : bool
        True gives one entry for each row, place and outcome, with the number of showings as its weight, instead of one
        entry per showing. Its size does not depend on `sessions`. It needs places that are seen independently ("pbm",
        or numbers).

    Returns
    -------
    ClickLog
        With session ids, unless `counted`.

    Examples
    --------
    >>> from hingerank import make_letor
    >>> rows = make_letor(20, 10, seed=0)
    >>> log = simulate_clicks(rows, rows.X[:, 0], sessions=1000, seed=1, top=5)
    >>> len(log), log.n_places
    (5000, 5)
    """
    if not isinstance(data, RankingData):
        raise ValueError(f"data must be RankingData, as hingerank.read makes them, not {type(data).__name__}")
    top = None if top is None else whole("top", top)
    rng, n_sessions = generator(seed, "seed"), whole("sessions", sessions)
    named = named_rankings(ranker, data.n_rows)
    lists = [data.blocks.ranked(scores_of(each, data, name), top) for name, each in named.items()]
    fraction("noise", noise)
    y = np.maximum(np.asarray(data.y, np.float64), 0.0)
    best = float(y.max(initial=0.0))
    gain = (np.exp2(y) - 1.0) / (np.exp2(best) - 1.0) if best > 0 else np.zeros(len(y))
    attraction = np.asarray(noise + (1.0 - noise) * gain)
    if not counted:  # before so many sessions are drawn
        _check_size(n_sessions * min(len(row) for each in lists for row in each))
    n_queries = data.n_queries
    which = rng.integers(len(lists), size=n_sessions) if len(lists) > 1 else np.zeros(n_sessions, np.int64)
    counts = np.bincount(which * n_queries + rng.integers(n_queries, size=n_sessions), minlength=len(lists) * n_queries)
    make = _counted if counted else _listed
    rows, columns = make(rng, [rows for each in lists for rows in each], counts, attraction, model)
    documents = np.arange(data.n_rows) if data.docid is None else np.asarray(data.docid)
    return ClickLog(queries=data.qid[rows], documents=documents[rows], **columns)


def _check_size(showings: int) -> None:
    if showings > MOST_SHOWINGS:
        raise DataError(
            f"{showings:,} showings do not fit: simulate fewer sessions, show fewer places (top=), or counted=True"
        )


# Who clicks what.


def _place_bias(model: UserModel, places: int) -> tuple[np.ndarray, np.ndarray] | None:
    """α and β of the first places; None for models whose places are not independent."""
    known: tuple[ArrayLike, ArrayLike]
    if isinstance(model, PlaceBias):
        if model.context_names is not None:
            raise ValueError("simulated users have no contexts: estimate propensities with by_context=False")
        known = model.alpha, model.beta
    elif isinstance(model, str) and model == "pbm":
        known = 1.0 / np.arange(1, places + 1), np.zeros(places)
    elif isinstance(model, str | Mapping) or callable(model):
        return None
    else:
        known = model, np.zeros(places)
    unknown = np.full(places, np.nan)
    alpha, beta = (np.append(np.asarray(values, np.float64), unknown)[:places] for values in known)
    if not (np.isfinite(alpha).all() and (alpha >= 0).all() and (alpha + beta <= 1 + 1e-9).all()):
        raise ValueError(
            f"the model needs a probability for each of the {places} places: give more, or show fewer (top=)"
        )
    return alpha, beta


def _cascade(rng: np.random.Generator, attraction: np.ndarray) -> np.ndarray:
    would = rng.random(attraction.shape) < attraction
    return would & (np.cumsum(would, axis=1) == 1)


def _dbn(rng: np.random.Generator, attraction: np.ndarray) -> np.ndarray:
    would = rng.random(attraction.shape) < attraction
    goes_on = rng.random(attraction.shape) < CONTINUE
    satisfied = would & (rng.random(attraction.shape) < attraction)
    stops = np.cumsum(satisfied | ~goes_on, axis=1)
    seen = np.concatenate([np.zeros((len(stops), 1), np.int64), stops[:, :-1]], axis=1) == 0
    return would & seen


def _user(model: UserModel, places: int) -> Clicks:
    """The clicks of many users on lists of the same length."""
    bias = _place_bias(model, places)
    if bias is not None:
        alpha, beta = bias
        return lambda rng, seen: rng.random(seen.shape) < alpha[: seen.shape[1]] * seen + beta[: seen.shape[1]]
    if callable(model):
        return model
    known: dict[str, Clicks] = {"cascade": _cascade, "dbn": _dbn}
    return known[one_of("model", model, "pbm", *known)]


def _counted(
    rng: np.random.Generator, lists: list[np.ndarray], counts: np.ndarray, attraction: np.ndarray, model: UserModel
) -> tuple[np.ndarray, dict[str, Any]]:
    """The row of each entry and the columns of a log; an entry is a cell and whether it was clicked."""
    sizes = np.array([len(rows) for rows in lists])
    bias = _place_bias(model, int(sizes.max()))
    if bias is None:
        raise ValueError('counted=True needs places that are seen independently: model="pbm", or numbers by place')
    rows, place = np.concatenate(lists), np.concatenate([np.arange(size) for size in sizes])
    shown = np.repeat(counts, sizes)
    clicked = rng.binomial(shown, np.minimum(bias[0][place] * attraction[rows] + bias[1][place], 1.0))
    weights = np.concatenate([clicked, shown - clicked]).astype(np.float64)
    used = weights > 0
    outcome = np.repeat([1.0, 0.0], len(rows))[used]
    return np.tile(rows, 2)[used], {"places": np.tile(place + 1, 2)[used], "clicks": outcome, "weights": weights[used]}


def _listed(
    rng: np.random.Generator, lists: list[np.ndarray], counts: np.ndarray, attraction: np.ndarray, model: UserModel
) -> tuple[np.ndarray, dict[str, Any]]:
    """The row of each showing and the columns of a log, list by list."""
    sizes = np.array([len(rows) for rows in lists])
    _check_size(int((sizes * counts).sum()))
    user = _user(model, int(sizes.max()))
    rows, clicks = [], []
    for row, n in zip(lists, counts.tolist()):
        if n == 0:
            continue
        chances = np.tile(attraction[row], (n, 1))
        found = np.asarray(user(rng, chances))
        if found.shape != chances.shape:
            raise ValueError(f"model returned clicks of shape {found.shape}, expected {chances.shape}")
        rows.append(np.tile(row, n))
        clicks.append(found.ravel().astype(np.float64))
    length = np.repeat(sizes, counts)  # of each list that is shown
    places = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + 1
    sessions = np.repeat(np.arange(len(length)), length)
    return np.concatenate(rows), {"places": places, "clicks": np.concatenate(clicks), "sessions": sessions}


# The shop.

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
    rng = generator(seed, "seed")
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
    liking = (  # what customers think of products: no word about margins
        0.16 * columns["bm25_title"]
        + 0.1 * columns["bm25_text"]
        - 1.6 * np.log(columns["price"] / 60.0) ** 2
        + 0.9 * np.maximum(columns["rating"] - 3.0, 0.0)
        + 0.6 * np.exp(-columns["freshness"] / 60.0)
        - 0.1 * columns["delivery"]
    )
    liking = liking + 0.4 * rng.standard_normal(n)
    y = np.digitize(liking, np.quantile(liking, np.cumsum(SHARES)[:-1])).astype(float)
    qid: np.ndarray = np.repeat(chosen, CANDIDATES)
    docid = np.array([f"p{k + 1}" for k in range(n)])
    rows = RankingData.from_arrays(X, y, qid, docid=docid, feature_names=FEATURES)
    today = columns["bm25_title"] / 5.0 + 4.0 * columns["margin"]
    older = columns["bm25_title"] / 5.0 + 0.5 * np.log1p(columns["reviews"])
    log = simulate_clicks(rows, [today, older], sessions=sessions, seed=seed)
    words = np.repeat([search.split() for search in chosen.tolist()], CANDIDATES, axis=0)
    others = np.column_stack([rng.choice(ADJECTIVES, n), rng.choice(NOUNS, n)])  # where the words do not fit
    brand = rng.choice(BRANDS, n)
    titles = [f"{name} {' '.join(title)}" for name, title in zip(brand, np.where(fits, words, others))]
    return Shop(rows, np.array(titles), today, log)
