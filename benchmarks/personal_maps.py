"""Item features of PersonalRankSVM as they are and through feature maps, on items that nobody has rated.

    python benchmarks/personal_maps.py [--write FOLDER]

Generated: 300 users rate 40 of 500 items with 4 features. They like what is near to a place of their own; or products
of two features; or, as a control, the features themselves. MovieLens 100k: features are the genres alone. A fifth of
the items is tested, with all their ratings. All settings are defaults, C is chosen by the fit. The maps have 200
outputs, of products as many as there are. The figures are fractions of the pairs of a user's test ratings that are in
the right order: means over three seeds (of the data and the split; of MovieLens of the split) with standard errors, and
for the maps the gain over the features as they are, seed by seed. Seconds are processor seconds of a fit with one
thread. --write keeps the table as personal-maps.json there (docs/results).
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import PolynomialFeatures

import hingerank as hr
from hingerank.features.fourier import FourierMap
from hingerank.features.nystroem import NystroemMap
from hingerank.papers.engine import Place
from hingerank.personal.item_features import genre_features
from hingerank.personal.rating_sets import read_movielens
from hingerank.personal.ratings import Ratings, ratings_from, split_by_item
from measuring import default_data, keep_table

SEEDS = (51, 52, 53)
MAPS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "`NystroemMap(200)`": lambda: NystroemMap(200),
    "`FourierMap(200)`": lambda: FourierMap(200),
    "`PolynomialFeatures(2)`": lambda: PolynomialFeatures(2, include_bias=False),
}


def generated(kind: str, seed: int, n_users: int = 300, n_items: int = 500, per_user: int = 40) -> tuple[Any, Ratings]:
    """Ratings from 1 to 5 by a score with noise of half its standard deviation."""
    rng = np.random.default_rng(seed)
    X, tastes = rng.standard_normal((n_items, 4)), rng.standard_normal((n_users, 4))
    users = np.repeat(np.arange(n_users), per_user)
    items = np.concatenate([rng.choice(n_items, per_user, replace=False) for _ in range(n_users)])
    x, own = X[items], tastes[users]
    if kind == "near":
        scores = -np.sqrt(np.square(x - own).sum(axis=1))
    elif kind == "products":
        scores = own[:, 0] * x[:, 0] * x[:, 1] + own[:, 1] * x[:, 2] * x[:, 3]
    else:
        scores = (x * own).sum(axis=1)
    scores = scores + 0.5 * scores.std() * rng.standard_normal(len(scores))
    ratings = 1.0 + np.searchsorted(np.quantile(scores, [0.2, 0.4, 0.6, 0.8]), scores)
    return X, ratings_from(users, items, ratings, item_ids=np.arange(n_items))


def genres(folder: Path) -> tuple[Any, Ratings]:
    ratings = read_movielens(folder)
    return genre_features(ratings.genres or [])[0], ratings


def judge(features: Any, X: Any, train: Ratings, test: Ratings) -> tuple[float, float]:
    """(fraction of pairs right, processor seconds of the fit)."""
    ranker = hr.PersonalRankSVM(features=features, n_jobs=1)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(X, *train.triples)
    seconds = time.process_time() - began
    known = np.isin(test.users, ranker.users_)
    return ranker.score(X, *test.take(known).triples), seconds


def shown(values: np.ndarray, sign: str = "") -> str:
    return f"{values.mean():{sign}.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    place = Place(arguments.data, Path("docs/reproductions/runs"))
    sets: dict[str, Callable[[int], tuple[Any, Ratings]]] = {
        "generated, by distance": lambda seed: generated("near", seed),
        "generated, by products of two features": lambda seed: generated("products", seed),
        "generated, linear in the features": lambda seed: generated("linear", seed),
        "MovieLens 100k, genres": lambda seed: genres(place.find("ml-100k")),
    }
    header, rows = ["data", "map", "pairs right", "gain", "processor seconds"], []
    X, ratings = generated("linear", 0, 20, 50, 10)
    judge(NystroemMap(10), X, ratings, ratings)  # compiles
    for name, make in sets.items():
        found: dict[str, list[tuple[float, float]]] = {key: [] for key in MAPS}
        for seed in SEEDS:
            X, ratings = make(seed)
            train, test = split_by_item(ratings, 0.2, seed=seed)
            for key, features in MAPS.items():
                found[key].append(judge(features(), X, train, test))
        plain = np.array(found["none"])[:, 0]
        for key, figures in found.items():
            right, seconds = np.array(figures).T
            gain = "" if key == "none" else shown(right - plain, "+")
            rows.append([name, key, shown(right), gain, f"{seconds.mean():.2f}"])
            print(" · ".join(rows[-1]), flush=True)
    if arguments.write:
        keep_table(arguments.write, "personal-maps", "python benchmarks/personal_maps.py", header, rows)


if __name__ == "__main__":
    main()
