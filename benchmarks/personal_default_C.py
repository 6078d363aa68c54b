"""The evidence for PersonalRankSVM's default C: `python benchmarks/personal.py --default-C`.

The rule was made before these splits and generated sets were looked at, and their test pairs chose nothing. On each,
the default is set beside fits with C given, as multiples of the smallest C at which anything is learnt. Cost is the
processor time of the default over that of a fit with the same C given, in the same run. For Yahoo's ratings there are
random splits of its training ratings, and the test ratings that come with it.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import hingerank as hr
from hingerank.papers.engine import Place, kept
from hingerank.papers.personal import yahoo
from hingerank.personal.item_features import genre_features, identity_features, join_features, word_features
from hingerank.personal.preferences import from_comparisons, from_ratings
from hingerank.personal.problem import FirstGradient, first_gradient_norm
from hingerank.personal.rating_sets import plain_titles, read_movielens
from hingerank.personal.ratings import Ratings, split_by_user
from measuring import keep_table

SEEDS = (31, 32, 33)  # of splits and of generated data
GRID = (1.0, 5.0, 25.0, 125.0, 625.0, 3125.0, 15625.0)
Triples = tuple[Any, Any, Any]
Split = tuple[Any, Triples, Triples]  # item features, what is learnt from, what is tested


@dataclass(frozen=True)
class Study:
    """A set of data, and how it is cut for a seed; compared: triples are comparisons."""

    name: str
    make: Callable[[int], Split]
    rank: int
    compared: bool = False
    seeds: tuple[int, ...] = SEEDS


def studies(place: Place) -> Iterator[Study]:
    pairs = partial(_generated, kind="pairs")
    yield Study("comparisons, rank 5, no noise", pairs(300, 1000, 32, 5, per_user=133), 5, True)
    yield Study("comparisons, rank 5, noise 1", pairs(300, 1000, 32, 5, per_user=133, noise=1.0), 5, True)
    yield Study("comparisons, rank 5, noise 3", pairs(300, 1000, 32, 5, per_user=133, noise=3.0), 5, True)
    yield Study("comparisons, rank 3 fitted as 10", pairs(300, 1000, 32, 3, per_user=80, noise=0.5), 10, True)
    yield Study("comparisons, 100 users, 20 each", pairs(100, 500, 16, 3, per_user=27, noise=0.5), 3, True)
    sparse = pairs(2000, 1000, 200, 10, per_user=40, noise=0.5, sparse_density=0.1)
    yield Study("comparisons, 2000 users, 30 each, sparse", sparse, 10, True)
    cheng = pairs(1000, 10_000, 64, 20, per_user=1067)
    yield Study("comparisons, rank 20, no noise (Cheng et al.)", cheng, 20, True, SEEDS[:1])
    rated = partial(_generated, kind="ratings")
    yield Study("ratings, rank 5, noise 0.3", rated(500, 1000, 32, 5, per_user=53, noise=0.3), 5)
    yield Study("ratings, rank 5, noise 1.5", rated(500, 1000, 32, 5, per_user=(13, 80), noise=1.5), 5)
    skewed = rated(1000, 2000, 300, 8, per_user=40, noise=1.0, skew=-0.6, sparse_density=0.05)
    yield Study("ratings, rank 8, noise 1, sparse, skewed", skewed, 10)
    yield Study("MovieLens 100k", partial(_films, place, "ml-100k", False), 10)
    yield Study("MovieLens 100k, a column per film", partial(_films, place, "ml-100k", True), 10)
    yield Study("MovieLens 1M", partial(_films, place, "ml-1m", False), 10, seeds=SEEDS[:1])
    yield Study("MovieLens 1M, a column per film", partial(_films, place, "ml-1m", True), 10, seeds=SEEDS[:1])
    yield Study("Yahoo! Movies, random splits", partial(_yahoo, place), 10)
    yield Study("Yahoo! Movies, its own test ratings", partial(_yahoo, place, own=True), 10, seeds=(0,))


def _generated(*sizes: int, kind: str, **settings: Any) -> Callable[[int], Split]:
    def make(seed: int) -> Split:
        data = hr.make_personal(*sizes, kind=kind, seed=seed, **settings)
        a, b = ((p.users, p.items if kind == "ratings" else p.winners, p.ratings if kind == "ratings" else p.losers)
                for p in data.split(0.25, seed=seed))  # fmt: skip
        return data.item_features, a, b

    return make


@cache
def _read_films(folder: Path) -> tuple[Ratings, Any, Any]:
    ratings = read_movielens(folder)
    words = join_features(genre_features(ratings.genres or []), word_features(plain_titles(ratings.titles)))
    return ratings, words[0], join_features(words, identity_features(ratings.item_ids))[0]


def _films(place: Place, name: str, columns: bool, seed: int) -> Split:
    ratings, words, films = _read_films(place.find(name))
    train, test = split_by_user(ratings, 0.2, seed=seed)
    return films if columns else words, train.triples, test.triples


def _yahoo(place: Place, seed: int, own: bool = False) -> Split:
    X, parts, _ = yahoo(place.find("yahoo-movies"))
    given = tuple(np.concatenate(both) for both in zip(parts["train"], parts["validation"]))
    if own:
        return X, given, parts["test"]
    train, test = split_by_user(Ratings(*given, np.arange(X.shape[0])), 0.2, seed=seed)
    return X, train.triples, test.triples


def measure(study: Study, seed: int) -> dict[str, Any]:
    """Pairs right at the default and on the grid, and processor seconds."""
    X, train, test = study.make(seed)
    make = from_comparisons if study.compared else from_ratings
    least = 1.0 / first_gradient_norm(X.shape[1], FirstGradient(X, make(*train, X.shape[0])).power)

    def fit(C: float | None) -> tuple[float, float, float]:
        """(pairs right, C, processor seconds)."""
        ranker = hr.PersonalRankSVM(rank=study.rank, C=C, prior="zero")
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the certificate says the same
            (ranker.fit_pairs if study.compared else ranker.fit)(X, *train)
        return right(ranker, X, train, test, study.compared), ranker.C_, time.process_time() - began

    fit(least)  # loads what is compiled
    here, C, seconds = fit(None)
    given = fit(C)
    grid = [fit(multiple * least)[0] for multiple in GRID]
    return {"right": here, "multiple": C / least, "seconds": seconds, "given": given[2], "grid": grid}


def right(ranker: Any, X: Any, train: Triples, test: Triples, compared: bool) -> float:
    """The fraction of test comparisons in the right order, or of pairs with at least one test rating."""
    if not compared:
        return float(ranker.score(X, *test, against=train))
    users, winners, losers = test
    return float((ranker.predict(users, X[winners]) > ranker.predict(users, X[losers])).mean())


def default_C(place: Place, write: Path | None, only: str | None = None) -> None:
    """The table of --default-C; what is done is kept and not done again."""
    header = ["data", "splits", "multiple", "pairs right", *(f"at {m:g}" for m in GRID), "below the best", "cost"]
    rows = []
    for study in studies(place):
        if only and only not in study.name:
            continue
        found = [
            kept(place, "personal-default-C", f"{study.name}-{s}", partial(measure, study, s)) for s in study.seeds
        ]
        here, grid = np.array([f["right"] for f in found]), np.array([f["grid"] for f in found])
        lost = np.maximum(0.0, grid.max(axis=1) - here)
        error = f" ± {lost.std(ddof=1) / np.sqrt(len(lost)):.4f}" if len(lost) > 1 else ""
        chosen = ", ".join(f"{m:.0f}" for m in sorted({round(f["multiple"]) for f in found}))
        cost = np.median([f["seconds"] / f["given"] for f in found])
        rows.append(
            [study.name, str(len(found)), chosen, f"{here.mean():.4f}", *(f"{v:.4f}" for v in grid.mean(axis=0)),
             f"{lost.mean():.4f}{error}", f"{cost:.1f} ×"]
        )  # fmt: skip
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    if write:
        keep_table(write, "personal-default-C", "python benchmarks/personal.py --default-C", header, rows)
