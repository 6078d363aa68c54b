"""Clicks of simulated users on graded rows, for tests, papers and teaching."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from hingerank.clicks.log import ClickLog
from hingerank.clicks.rankings import Rankings, named_rankings, scores_of
from hingerank.data.checks import whole
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.rankers.corrections import PlaceBias
from hingerank.registry import did_you_mean

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
    """Sessions of users who see rankings and click:  P(click | seen) = noise + (1 - noise) (2^y - 1) / (2^m - 1).

    y is the grade of a row and m the best grade of the data; grades below 0 count as 0. A session draws one of the
    queries at random.

    Parameters
    ----------
    data : RankingData
        Rows with grades. Where they have no document ids, the numbers of the rows are the ids.
    ranker : fitted ranker, a score per row, or a list of these
        What ranks the rows that are shown. Of several, every session draws one, which lets propensities be learnt.
    model : str, sequence of numbers, propensities, or callable
        "pbm": place k is looked at with probability 1 / k. Numbers: with these, that of place 1 first; estimated
        `hingerank.propensities`: with theirs, trust bias included. "cascade": users look from the top to the first
        click. "dbn": a click satisfies with the probability of a click, others look on with .9. A callable gets a
        generator and an array (lists, places) of P(click | seen), and answers the clicks.
    sessions : int
    seed : int
    top : int, optional
        Places shown; all if not given.
    noise : float
        P(click | seen) of rows of grade 0.
    counted : bool
        True gives an entry for each cell and outcome, weighing as many showings, instead of an entry a showing: for
        places that are looked at independently ("pbm"), whatever the number of sessions.

    Returns
    -------
    ClickLog
        With session ids, unless it is counted.

    Examples
    --------
    >>> from hingerank import make_letor
    >>> rows = make_letor(20, 10, seed=0)
    >>> log = simulate_clicks(rows, rows.X[:, 0], sessions=1000, seed=1, top=5)
    >>> len(log), log.n_places
    (5000, 5)
    """
    top = None if top is None else whole("top", top)
    rng, n_sessions = np.random.default_rng(seed), whole("sessions", sessions)
    named = named_rankings(ranker, data.n_rows)
    lists = [_ranked(data, scores_of(each, data, name), top) for name, each in named.items()]
    attraction = _attraction(data, noise)
    if not counted:  # before so many sessions are drawn
        _check_size(n_sessions * min(len(row) for each in lists for row in each))
    blocks = data.blocks
    which = rng.integers(len(lists), size=n_sessions) if len(lists) > 1 else np.zeros(n_sessions, np.int64)
    drawn = rng.integers(len(blocks), size=n_sessions)
    counts = np.bincount(which * len(blocks) + drawn, minlength=len(lists) * len(blocks)).reshape(len(lists), -1)
    documents = np.arange(data.n_rows) if data.docid is None else np.asarray(data.docid)
    make = _counted if counted else _listed
    return make(rng, lists, counts, attraction, model, data, documents)


def _check_size(showings: int) -> None:
    if showings > MOST_SHOWINGS:
        raise DataError(
            f"{showings:,} showings do not fit: simulate fewer sessions, show fewer places (top=), or counted=True"
        )


def _ranked(data: RankingData, scores: np.ndarray, top: int | None) -> list[np.ndarray]:
    """The rows of every query in the order in which they are shown."""
    blocks = data.blocks
    order = np.lexsort((-blocks.gather(scores), blocks.numbers))
    rows = order if blocks.order is None else blocks.order[order]
    return [rows[a:b][:top] for a, b in zip(blocks.offsets[:-1], blocks.offsets[1:])]


def _attraction(data: RankingData, noise: float) -> np.ndarray:
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must be a probability, not {noise!r}")
    y = np.maximum(np.asarray(data.y, np.float64), 0.0)
    best = float(y.max(initial=0.0))
    gain = (np.exp2(y) - 1.0) / (np.exp2(best) - 1.0) if best > 0 else np.zeros(len(y))
    return np.asarray(noise + (1.0 - noise) * gain)


# Who clicks what.


def _place_bias(model: UserModel, places: int) -> tuple[np.ndarray, np.ndarray] | None:
    """α and β of the first places, of models under which places are independent; else None."""
    if isinstance(model, PlaceBias):
        if model.context_names is not None:
            raise ValueError("simulated users have no contexts: give propensities by place alone")
        known = (np.asarray(values, np.float64)[:places] for values in (model.alpha, model.beta))
        alpha, beta = (np.append(values, np.full(places - len(values), np.nan)) for values in known)
    elif isinstance(model, str):
        if model != "pbm":
            return None
        alpha, beta = 1.0 / np.arange(1, places + 1), np.zeros(places)
    elif callable(model) or isinstance(model, Mapping):
        return None
    else:
        alpha = np.asarray(model, np.float64)[:places]
        alpha, beta = np.append(alpha, np.full(places - len(alpha), np.nan)), np.zeros(places)
    if not (np.isfinite(alpha).all() and (alpha >= 0).all() and (alpha + beta <= 1 + 1e-9).all()):
        raise ValueError(
            f"the model needs a probability for each of the {places} places: give more, or show fewer (top=)"
        )
    return alpha, beta


def _user(model: UserModel) -> Clicks:
    """The clicks of many users on lists of the same length."""
    if callable(model):
        return model
    known: dict[str, Clicks] = {"cascade": _cascade, "dbn": _dbn}
    if not isinstance(model, str) or model not in known:
        names = ["pbm", *known]
        raise ValueError(
            f"there is no model {model!r}; use one of: {', '.join(names)}{did_you_mean(str(model), names)}"
        )
    return known[model]


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


def _counted(
    rng: np.random.Generator, lists: Sequence[list[np.ndarray]], counts: np.ndarray, attraction: np.ndarray,
    model: UserModel,
    data: RankingData, documents: np.ndarray,
) -> ClickLog:  # fmt: skip
    longest = max(len(rows) for each in lists for rows in each)
    bias = _place_bias(model, longest)
    if bias is None:
        raise ValueError(
            'counted=True needs places that are looked at independently (model="pbm", or numbers by place)'
        )
    rows = np.concatenate([row for each in lists for row in each])
    place = np.concatenate([np.arange(len(row)) for each in lists for row in each])
    sizes = np.array([[len(row) for row in each] for each in lists])
    shown = np.repeat(counts.ravel(), sizes.ravel())
    clicked = rng.binomial(shown, np.minimum(bias[0][place] * attraction[rows] + bias[1][place], 1.0))
    kept = shown > 0
    rows, place, shown, clicked = rows[kept], place[kept], shown[kept], clicked[kept]
    weights = np.concatenate([clicked, shown - clicked]).astype(np.float64)
    used = weights > 0
    twice = np.concatenate([rows, rows])[used]
    outcome = np.repeat([1.0, 0.0], len(rows))[used]
    return ClickLog(
        queries=data.qid[twice], documents=documents[twice], places=np.concatenate([place, place])[used] + 1,
        clicks=outcome, weights=weights[used],
    )  # fmt: skip


def _listed(
    rng: np.random.Generator, lists: Sequence[list[np.ndarray]], counts: np.ndarray, attraction: np.ndarray,
    model: UserModel,
    data: RankingData, documents: np.ndarray,
) -> ClickLog:  # fmt: skip
    sizes = np.array([[len(row) for row in each] for each in lists])
    total = int((sizes * counts).sum())
    _check_size(total)
    bias = _place_bias(model, int(sizes.max()))
    rows, places, clicks, sessions, first = [], [], [], [], 0
    for which, each in enumerate(lists):
        for row, n in zip(each, counts[which].tolist()):
            if n == 0:
                continue
            chances = np.tile(attraction[row], (n, 1))
            if bias is None:
                found = np.asarray(_user(model)(rng, chances))
            else:
                found = rng.random(chances.shape) < bias[0][: len(row)] * chances + bias[1][: len(row)]
            rows.append(np.tile(row, n))
            places.append(np.tile(np.arange(1, len(row) + 1), n))
            clicks.append(found.ravel())
            sessions.append(np.repeat(np.arange(first, first + n), len(row)))
            first += n
    shown = np.concatenate(rows)
    return ClickLog(
        queries=data.qid[shown], documents=documents[shown], places=np.concatenate(places),
        clicks=np.concatenate(clicks).astype(np.float64), sessions=np.concatenate(sessions),
    )  # fmt: skip
