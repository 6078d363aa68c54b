"""Lists of ten over a whole catalogue, from ratings: what is chosen, what is liked, and both.

    python benchmarks/personal_lists.py [--set ml-100k|ml-1m] [--split ratings|time|items] [--only NAME] [--write DIR]

A fifth of every user's ratings is tested; a list should find those of 4 or more, and training items are not offered.
Features are genres, title words and a column per film. All methods have their default settings, or those written here.
The defaults of `EASE` and of the squared loss, and the form of `ListRanker`, were chosen by the test lists of other
splits of MovieLens 100k, so its figures are kind to them; nothing was chosen on MovieLens 1M. implicit's ALS is not
tuned either. Means over seeds with standard errors; seconds are processor seconds of a fit with one
thread, beside implicit's ALS and BPR and lightfm's WARP (`pip install "hingerank[bench]"`) in the same run. All
measures are over the whole catalogue, none over a sample of it. --split time tests the latest fifth of all ratings;
--split items a fifth of the items that nobody has rated, and lists are of those items alone (personal-lists-time.json,
personal-lists-new-items.json). --folder reads ratings and items of your own:
ratings.csv and items.csv. What is done is kept in docs/reproductions/runs. --write keeps the table as
personal-lists.json there (docs/results).
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hingerank as hr
from hingerank.papers.engine import Place, default_data, kept
from hingerank.personal.baselines import Popularity
from hingerank.personal.item_features import identity_features
from hingerank.personal.lists import ItemKNN
from hingerank.personal.rating_sets import open_ratings
from hingerank.personal.ratings import Ratings, split_by_item, split_by_time, split_by_user
from measuring import is_kept, keep_table
from personal_clicks import Implicit

SEEDS, SETS, RELEVANT = (41, 42, 43), {"ml-100k": "MovieLens 100k", "ml-1m": "MovieLens 1M"}, 4.0
ALS = {"factors": 32, "regularization": 1.0, "iterations": 15}
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


def best_of(S: np.ndarray, users: Any, top: int, exclude: Any) -> tuple[np.ndarray, np.ndarray]:
    """The items of the highest scores S of each user, without the excluded (users, items), and these scores."""
    if exclude is not None:
        line = {user: place for place, user in enumerate(np.asarray(users).tolist())}
        here = np.array([line.get(user, -1) for user in np.asarray(exclude[0]).tolist()])
        S[here[here >= 0], np.asarray(exclude[1])[here >= 0]] = -np.inf
    order = np.argsort(-S, axis=1, kind="stable")[:, :top]
    return order, np.take_along_axis(S, order, axis=1)


class LightFMLists:
    """lightfm-next's WARP on ratings of 4 or more, as lists over the catalogue."""

    def __init__(self, rank: int = 32, epochs: int = 20):
        from lightfm import LightFM

        self.model, self.epochs = LightFM(no_components=rank, loss="warp", random_state=0), epochs

    def fit(self, X: Any, train: Ratings) -> "LightFMLists":
        self.ids, code = np.unique(train.users, return_inverse=True)
        kept, self.X = train.ratings >= RELEVANT, sp.csr_matrix(X, dtype=np.float32)
        told = np.ones(int(kept.sum()), np.float32), (code[kept], train.items[kept])
        self.model.fit(sp.coo_matrix(told, (len(self.ids), X.shape[0])), item_features=self.X, epochs=self.epochs)
        return self

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        bias, vectors = self.model.get_item_representations(self.X)
        number = np.searchsorted(self.ids, users)
        S = (self.model.user_embeddings[number] @ vectors.T + bias).astype(np.float64)
        return best_of(S, users, top, exclude)


class Ridges:
    """For each user a ridge regression of the ratings, less their mean, on the features: (K + I)⁻¹ over the items."""

    def fit(self, X: Any, train: Ratings) -> "Ridges":
        self.ids, code = np.unique(train.users, return_inverse=True)
        order = np.argsort(code, kind="stable")
        self.W = np.zeros((len(self.ids), X.shape[1]))
        for u, rows in enumerate(np.split(order, np.flatnonzero(np.diff(code[order])) + 1)):
            F, y = X[train.items[rows]], train.ratings[rows] - train.ratings[rows].mean()
            self.W[u] = F.T @ np.linalg.solve((F @ F.T).toarray() + np.eye(len(rows)), y)
        return self

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        S = np.asarray((candidates @ self.W[np.searchsorted(self.ids, users)].T).T, np.float64)
        return best_of(S, users, top, exclude)


METHODS: dict[str, Fit] = {
    "popularity": lambda X, films, train: Popularity().fit(films, train.users, train.items),
    "item-kNN": lambda X, films, train: ItemKNN().fit(X, train.users, train.items),
    "item-kNN, ratings of 4 or more": lambda X, films, t: ItemKNN().fit(X, liked(t).users, liked(t).items),
    "implicit, ALS, rank 32": lambda X, films, t: Implicit("als", factors=32, regularization=1.0, iterations=15).fit(
        X, t
    ),
    "implicit, BPR, rank 32": lambda X, films, t: Implicit("bpr", factors=32, regularization=0.01, iterations=100).fit(
        X, t
    ),
    "lightfm, WARP, rank 32, with features": lambda X, films, train: LightFMLists().fit(X, train),
    "`PersonalRankSVM`, ratings": lambda X, films, train: hr.PersonalRankSVM(n_jobs=1).fit(X, *train.triples),
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32': squared,
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32, with features': squared_with_features,
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32, features times 0.1': lambda X, films, train: (
        squared_with_features(X, films, train, 0.1)
    ),
    "`EASE`": lambda X, films, train: hr.EASE().fit(X, *train.triples),
    "`EASE`, no features": lambda X, films, train: hr.EASE(feature_weight=0.0).fit(films, *train.triples),
    "`ListRanker`": lambda X, films, train: hr.ListRanker().fit(X, *train.triples),
    "ridge for each user": lambda X, films, train: Ridges().fit(X, train),
}


OF_NEW_ITEMS = {  # which know items by their features
    "popularity", "lightfm, WARP, rank 32, with features", "`PersonalRankSVM`, ratings", "`EASE`",
    "`EASE`, no features",
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32, with features', "`ListRanker`", "ridge for each user",
}  # fmt: skip


class Films:
    """A ranker that knows films by their columns alone."""

    def __init__(self, ranker: Any, films: Any):
        self.ranker, self.films = ranker, films

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        return self.ranker.top_k(users, self.films, top, exclude=exclude)


SPLITS = {  # of seeds; the latest ratings are always the same
    "ratings": ("personal-lists", lambda told, seed: split_by_user(told, 0.2, seed=seed)),
    "time": ("personal-lists-time", lambda told, seed: split_by_time(told, 0.2)),
    "items": ("personal-lists-new-items", lambda told, seed: split_by_item(told, 0.2, seed=seed)),
}


def measure(folder: Path, items: Path | None, fit: Fit, seed: int, split: str = "ratings") -> dict[str, float]:
    opened = open_ratings(folder, items, True)
    if opened is None:
        raise SystemExit(f"{folder} holds no ratings")
    ratings, (X, _) = opened
    films = identity_features(ratings.item_ids)[0]
    train, test = SPLITS[split][1](ratings, seed)
    fit(X, films, train.take(np.arange(len(train)) < 2000))  # loads what is compiled
    began = time.process_time()
    ranker = fit(X, films, train)
    seconds = time.process_time() - began
    width = getattr(ranker, "n_features_in_", None)
    seen, wanted = (train.users, train.items), (test.users, test.items, test.ratings)
    judged = Films(ranker, films) if width == films.shape[1] or isinstance(ranker, Popularity) else ranker
    if split == "items":  # new items alone are offered: lists of old ones say nothing of them
        old = np.setdiff1d(np.arange(ratings.n_items), test.items)
        people = np.unique(test.users)
        seen = np.repeat(people, len(old)), np.tile(old, len(people))
    return {**hr.evaluate_top(judged, X, wanted, seen, relevant=RELEVANT).means, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SETS), action="append")
    parser.add_argument("--split", choices=list(SPLITS), default="ratings")
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--done", action="store_true", help="show what is kept, and run nothing")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    place, rows = Place(arguments.data, Path("docs/reproductions/runs")), []
    table, seeds = SPLITS[arguments.split][0], SEEDS[:1] if arguments.split == "time" else SEEDS
    for name in arguments.set or ([str(arguments.folder)] if arguments.folder else SETS):
        own = arguments.folder
        folder, items = (own / "ratings.csv", own / "items.csv") if own else (place.find(name), None)
        for method, fit in METHODS.items():
            if arguments.only not in method:
                continue
            if arguments.split == "items" and method not in OF_NEW_ITEMS:
                continue
            if arguments.done and not all(is_kept(place, table, f"{name}-{method}-{s}") for s in seeds):
                continue
            work = partial(measure, folder, items, fit, split=arguments.split)
            run = [kept(place, table, f"{name}-{method}-{seed}", partial(work, seed=seed)) for seed in seeds]
            figures = {
                key: np.array([found[key] for found in run]) for key in ("ndcg", "recall", "coverage", "seconds")
            }
            error = f" ± {figures['ndcg'].std(ddof=1) / np.sqrt(len(run)):.4f}" if len(run) > 1 else ""
            rows.append([SETS.get(name, name), method, f"{figures['ndcg'].mean():.4f}{error}",
                         f"{figures['recall'].mean():.4f}", f"{figures['coverage'].mean():.3f}",
                         f"{np.median(figures['seconds']):.2f}"])  # fmt: skip
            print(" · ".join(rows[-1]), flush=True)
    if arguments.write:
        header = ["data", "method", "NDCG@10", "recall@10", "coverage", "processor seconds"]
        command = "python benchmarks/personal_lists.py" + (
            "" if table == "personal-lists" else f" --split {arguments.split}"
        )
        keep_table(arguments.write, table, command, header, rows)


if __name__ == "__main__":
    main()
