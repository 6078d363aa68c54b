"""Lists of ten over a whole catalogue, from ratings: what is chosen, what is liked, and both.

    python benchmarks/personal_lists.py [--set NAME] [--split ratings|time|items] [--only NAME] [--write DIR]

A fifth of every user's ratings is tested; a list should find those of 4 or more, and training items are not offered.
Features are genres, title words (of Yahoo's films, those with 5 ratings or more, title words) and a column per film.
All methods have their default settings, or those written here. The defaults of `EASE` and of the squared loss, and the
form of `ListRanker`, were chosen by the test lists of other splits of MovieLens 100k, so its figures are kind to them;
how `EASE` scores new items was chosen on other splits of both sets of MovieLens. Nothing else was chosen on MovieLens
1M or Yahoo's ratings, and implicit's and lightfm's models are not tuned. Means over seeds with standard errors; seconds
are processor seconds of a fit with one thread, beside implicit's ALS and BPR and lightfm's WARP (`pip install
"hingerank[bench]"`) in the same run. All measures are over the whole catalogue, none over a sample of it.

--split time tests the latest fifth of all ratings; --split items a fifth of the items, which nobody has rated, and
lists are of those items alone, in random order where a method has nothing to say (personal-lists-time.json,
personal-lists-new-items.json). --folder reads ratings and items of your own: ratings.csv and items.csv. What is done is
kept in docs/reproductions/runs; --done shows that alone. --write keeps the table as personal-lists.json there
(docs/results).
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hingerank as hr
from hingerank.papers.engine import Place
from hingerank.personal.baselines import ALS, BPR, ItemKNN, LightFM, Popularity
from hingerank.personal.item_features import identity_features
from hingerank.personal.rating_sets import open_ratings
from hingerank.personal.ratings import Ratings, split_by_item, split_by_time, split_by_user
from measuring import default_data, is_kept, keep_table, kept
from personal_new_users import read
from personal_peers import Ridges

SETS = {"ml-100k": "MovieLens 100k", "ml-1m": "MovieLens 1M", "yahoo-movies": "Yahoo"}
RELEVANT, LEAST = 4.0, 5  # stars that a list should find, ratings of an item of Yahoo's that takes part
Fit = Callable[[Any, Any, Ratings], Any]  # features, a column per film alone, ratings


def liked(train: Ratings) -> Ratings:
    return train.take(train.ratings >= RELEVANT)


def squared_with_features(X: Any, films: Any, train: Ratings, weight: float = 1.0) -> Any:
    if weight == 1.0:
        return squared(X, X, train)
    less = sp.csr_matrix(sp.hstack([weight * X[:, : -films.shape[1]], films]))
    return Films(squared(X, less, train), less)


def squared(X: Any, films: Any, train: Ratings) -> Any:
    ranker = hr.PersonalRankSVM(rank=32, loss="squared", prior=0.0, n_jobs=1)  # ALS learns no prior of new users either
    return ranker.fit_clicks(films, train.users, train.items)


def clicks(X: Any, films: Any, train: Ratings) -> Any:
    return hr.PersonalRankSVM(n_jobs=1).fit_clicks(films, train.users, train.items)


METHODS: dict[str, Fit] = {
    "popularity": lambda X, films, train: Popularity().fit(X, train.users, train.items),
    "item-kNN": lambda X, films, train: ItemKNN().fit(X, train.users, train.items),
    "item-kNN, ratings of 4 or more": lambda X, films, t: ItemKNN().fit(X, liked(t).users, liked(t).items),
    "implicit, ALS, rank 32": lambda X, films, train: ALS(32).fit(X, *train.triples),
    "implicit, BPR, rank 32": lambda X, films, train: BPR(32).fit(X, *train.triples),
    "lightfm, WARP, rank 32, with features": lambda X, films, t: LightFM(32, taken=RELEVANT).fit(X, *t.triples),
    "`PersonalRankSVM`, ratings": lambda X, films, train: hr.PersonalRankSVM(n_jobs=1).fit(X, *train.triples),
    "`PersonalRankSVM`, clicks": clicks,
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32': squared,
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32, with features': squared_with_features,
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32, features times 0.1': lambda X, films, train: (
        squared_with_features(X, films, train, 0.1)
    ),
    "`EASE`": lambda X, films, train: hr.EASE().fit(X, *train.triples),
    "`EASE`, no features": lambda X, films, train: hr.EASE(feature_weight=0.0).fit(films, *train.triples),
    "`ListRanker`": lambda X, films, train: hr.ListRanker().fit(X, *train.triples),
    "`ListRanker`, no features": lambda X, films, train: hr.ListRanker(feature_weight=0.0).fit(films, *train.triples),
    "ridge for each user": lambda X, films, train: Ridges().fit(X, *train.triples),
}


OF_NEW_ITEMS = {  # which know items by their features; and one that does not
    "lightfm, WARP, rank 32, with features", "`PersonalRankSVM`, ratings", "`EASE`", "`EASE`, no features",
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32, with features', "`ListRanker`", "ridge for each user",
}  # fmt: skip
OF_YAHOO = set(METHODS) - {"`PersonalRankSVM`, ratings", "ridge for each user"}


class Films:
    """A ranker that knows films by their columns alone."""

    def __init__(self, ranker: Any, films: Any):
        self.ranker, self.films = ranker, films

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        return self.ranker.top_k(users, self.films, top, exclude=exclude)


SPLITS = {  # table, how ratings are cut, seeds of each set, what others are compared with
    "ratings": ("personal-lists", lambda ratings, seed: split_by_user(ratings, 0.2, seed=seed),
                {"ml-100k": 3, "ml-1m": 3, "yahoo-movies": 1}, "`ListRanker`"),
    "time": ("personal-lists-time", lambda ratings, seed: split_by_time(ratings, 0.2), {"ml-100k": 1}, "`ListRanker`"),
    "items": ("personal-lists-new-items", lambda ratings, seed: split_by_item(ratings, 0.2, seed=seed),
              {"ml-100k": 10, "ml-1m": 3}, "`EASE`"),
}  # fmt: skip
FIRST, USUAL_SEEDS = 41, 3


def load(place: Place, name: str, own: Path | None) -> tuple[Ratings, Any]:
    """Ratings, and features of the items with a column per item."""
    if name == "yahoo-movies":
        words, ratings = read(place, name)
        count = np.bincount(ratings.items, minlength=words.shape[0])
        rated, number = np.flatnonzero(count >= LEAST), np.cumsum(count >= LEAST) - 1
        ratings = ratings.take(count[ratings.items] >= LEAST)
        ratings = replace(ratings, items=number[ratings.items], item_ids=rated)
        return ratings, sp.csr_matrix(sp.hstack([words[rated], sp.identity(len(rated))]))
    where = (own / "ratings.csv", own / "items.csv") if own else (place.find(name), None)
    opened = open_ratings(*where, True)
    if opened is None:
        raise SystemExit(f"{where[0]} holds no ratings")
    return opened[0], opened[1][0]


def measure(
    load_set: Callable[[], tuple[Ratings, Any]], fit: Fit, seed: int, split: str = "ratings"
) -> dict[str, float]:
    ratings, X = load_set()
    if split == "items":  # the files' order says which films are well known
        order = np.random.default_rng(seed).permutation(X.shape[0])
        ratings, X = replace(ratings, items=np.argsort(order)[ratings.items]), X[order]
    films = identity_features(np.arange(X.shape[0]))[0]
    train, test = SPLITS[split][1](ratings, seed)
    fit(X, films, train.take(np.arange(len(train)) < 2000))  # loads what is compiled
    began = time.process_time()
    ranker = fit(X, films, train)
    seconds = time.process_time() - began
    width = getattr(ranker, "n_features_in_", None)
    seen, wanted = (train.users, train.items), (test.users, test.items, test.ratings)
    judged = Films(ranker, films) if width == films.shape[1] else ranker
    if split == "items":  # new items alone are offered: lists of old ones say nothing of them
        old = np.setdiff1d(np.arange(X.shape[0]), test.items)
        people = np.unique(test.users)
        seen = np.repeat(people, len(old)), np.tile(old, len(people))
    return {**hr.evaluate_top(judged, X, wanted, seen, relevant=RELEVANT).means, "seconds": seconds}


def mean_error(values: np.ndarray, sign: str = "") -> str:
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{values.mean():{sign}.4f}{error}"


def row_of(name: str, method: str, found: dict[str, dict[str, np.ndarray]], best: str) -> list[str]:
    """Means over seeds; how much the best is above the method, on the same splits."""
    own = found[method]
    above = "" if method == best or best not in found else mean_error(found[best]["ndcg"] - own["ndcg"], "+")
    shares = f"{own['recall'].mean():.4f}", f"{own['coverage'].mean():.3f}"
    return [name, method, mean_error(own["ndcg"]), above, *shares, f"{np.median(own['seconds']):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SETS), action="append")
    parser.add_argument("--split", choices=list(SPLITS), default="ratings")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, help="fewer than usual")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--done", action="store_true", help="show what is kept, and run nothing")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    place, rows = Place(arguments.data, Path("docs/reproductions/runs")), []
    table, _, counts, best = SPLITS[arguments.split]
    for name in arguments.set or ([str(arguments.folder)] if arguments.folder else counts):
        load_set, found = cache(partial(load, place, name, arguments.folder)), {}
        seeds = range(FIRST, FIRST + (arguments.seeds or counts.get(name, USUAL_SEEDS)))
        for method, fit in METHODS.items():
            left_out = (arguments.split == "items" and method not in OF_NEW_ITEMS) or (
                name == "yahoo-movies" and method not in OF_YAHOO
            )
            if left_out or arguments.only not in method:
                continue
            if arguments.done and not all(is_kept(place, table, f"{name}-{method}-{s}") for s in seeds):
                continue
            work = partial(measure, load_set, fit, split=arguments.split)
            run = [kept(place, table, f"{name}-{method}-{seed}", partial(work, seed=seed)) for seed in seeds]
            found[method] = {key: np.array([f[key] for f in run]) for key in ("ndcg", "recall", "coverage", "seconds")}
            print(name, method, mean_error(found[method]["ndcg"]), found[method]["seconds"].round(2), flush=True)
        rows += [row_of(SETS.get(name, name), method, found, best) for method in found]
    for row in rows:
        print(" · ".join(row))
    if arguments.write:
        header = ["data", "method", "NDCG@10", f"{best} above it", "recall@10", "coverage", "processor seconds"]
        command = "python benchmarks/personal_lists.py" + (
            "" if table == "personal-lists" else f" --split {arguments.split}"
        )
        keep_table(arguments.write, table, command, header, rows)


if __name__ == "__main__":
    main()
