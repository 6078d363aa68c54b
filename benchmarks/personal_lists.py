"""Lists of ten over a whole catalogue, from ratings: what is chosen, what is liked, and both.

    python benchmarks/personal_lists.py [--set ml-100k|ml-1m] [--only NAME] [--write FOLDER]

A fifth of every user's ratings is tested; a list should find those of 4 or more, and training items are not offered.
Features are genres, title words and a column per film. All methods have their default settings, or those written here.
The defaults of `EASE` and of the squared loss, and the form of `ListRanker`, were chosen by the test lists of other
splits of MovieLens 100k, so its figures are kind to them; nothing was chosen on MovieLens 1M. implicit's ALS is not
tuned either. Means over seeds with standard errors; seconds are processor seconds of a fit with one
thread, beside implicit's ALS (`pip install implicit`) in the same run. --folder reads ratings and items of your own:
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

import hingerank as hr
from hingerank.papers.engine import Place, default_data, kept
from hingerank.personal.baselines import Popularity
from hingerank.personal.item_features import identity_features
from hingerank.personal.lists import ItemKNN
from hingerank.personal.rating_sets import open_ratings
from hingerank.personal.ratings import Ratings, split_by_user
from measuring import is_kept, keep_table
from personal_clicks import Implicit

SEEDS, SETS, RELEVANT = (41, 42, 43), {"ml-100k": "MovieLens 100k", "ml-1m": "MovieLens 1M"}, 4.0
ALS = {"factors": 32, "regularization": 1.0, "iterations": 15}
Fit = Callable[[Any, Any, Ratings], Any]  # features, a column per film alone, ratings


def liked(train: Ratings) -> Ratings:
    return train.take(train.ratings >= RELEVANT)


def squared_with_features(X: Any, films: Any, train: Ratings) -> Any:
    return squared(X, X, train)


def squared(X: Any, films: Any, train: Ratings) -> Any:
    ranker = hr.PersonalRankSVM(rank=32, loss="squared", prior=0.0, n_jobs=1)  # ALS learns no prior of new users either
    return ranker.fit_clicks(films, train.users, train.items)


METHODS: dict[str, Fit] = {
    "popularity": lambda X, films, train: Popularity().fit(films, train.users, train.items),
    "item-kNN": lambda X, films, train: ItemKNN().fit(X, train.users, train.items),
    "item-kNN, ratings of 4 or more": lambda X, films, t: ItemKNN().fit(X, liked(t).users, liked(t).items),
    "implicit, ALS, rank 32": lambda X, films, t: Implicit("als", factors=32, regularization=1.0, iterations=15).fit(
        X, t
    ),
    "`PersonalRankSVM`, ratings": lambda X, films, train: hr.PersonalRankSVM(n_jobs=1).fit(X, *train.triples),
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32': squared,
    '`PersonalRankSVM(loss="squared")`, clicks, rank 32, with features': squared_with_features,
    "`EASE`": lambda X, films, train: hr.EASE().fit(X, *train.triples),
    "`EASE`, no features": lambda X, films, train: hr.EASE(feature_weight=0.0).fit(films, *train.triples),
    "`ListRanker`": lambda X, films, train: hr.ListRanker().fit(X, *train.triples),
}


class Films:
    """A ranker that knows films by their columns alone."""

    def __init__(self, ranker: Any, films: Any):
        self.ranker, self.films = ranker, films

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        return self.ranker.top_k(users, self.films, top, exclude=exclude)


def measure(folder: Path, items: Path | None, fit: Fit, seed: int) -> dict[str, float]:
    opened = open_ratings(folder, items, True)
    if opened is None:
        raise SystemExit(f"{folder} holds no ratings")
    ratings, (X, _) = opened
    films = identity_features(ratings.item_ids)[0]
    train, test = split_by_user(ratings, 0.2, seed=seed)
    fit(X, films, train.take(np.arange(len(train)) < 2000))  # loads what is compiled
    began = time.process_time()
    ranker = fit(X, films, train)
    seconds = time.process_time() - began
    width = getattr(ranker, "n_features_in_", None)
    seen, wanted = (train.users, train.items), (test.users, test.items, test.ratings)
    judged = Films(ranker, films) if width == films.shape[1] or isinstance(ranker, Popularity) else ranker
    return {**hr.evaluate_top(judged, X, wanted, seen, relevant=RELEVANT).means, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SETS), action="append")
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--done", action="store_true", help="show what is kept, and run nothing")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    place, rows = Place(arguments.data, Path("docs/reproductions/runs")), []
    for name in arguments.set or ([str(arguments.folder)] if arguments.folder else SETS):
        own = arguments.folder
        folder, items = (own / "ratings.csv", own / "items.csv") if own else (place.find(name), None)
        for method, fit in METHODS.items():
            if arguments.only not in method:
                continue
            if arguments.done and not all(is_kept(place, "personal-lists", f"{name}-{method}-{s}") for s in SEEDS):
                continue
            run = [kept(place, "personal-lists", f"{name}-{method}-{seed}", partial(measure, folder, items, fit, seed))
                   for seed in SEEDS]  # fmt: skip
            figures = {
                key: np.array([found[key] for found in run]) for key in ("ndcg", "recall", "coverage", "seconds")
            }
            error = figures["ndcg"].std(ddof=1) / np.sqrt(len(run))
            rows.append([SETS.get(name, name), method, f"{figures['ndcg'].mean():.4f} ± {error:.4f}",
                         f"{figures['recall'].mean():.4f}", f"{figures['coverage'].mean():.3f}",
                         f"{np.median(figures['seconds']):.2f}"])  # fmt: skip
            print(" · ".join(rows[-1]), flush=True)
    if arguments.write:
        header = ["data", "method", "NDCG@10", "recall@10", "coverage", "processor seconds"]
        keep_table(arguments.write, "personal-lists", "python benchmarks/personal_lists.py", header, rows)


if __name__ == "__main__":
    main()
