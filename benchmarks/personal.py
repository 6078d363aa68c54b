"""PersonalRankSVM, its baselines and other recommenders on MovieLens.

    python benchmarks/personal.py [--set ml-100k|ml-1m] [--split user|item] [--only NAME] [--write FOLDER]
    python benchmarks/personal.py --default-C [--write FOLDER]    # PersonalRankSVM at its default C

Features are genres and title words. Split "user": of every user's films a fifth is tested, as in the paper. Split
"item": a fifth of the films, with all their ratings, is tested: nobody's rating of them was seen (cold items). A tenth
of the rest, split alike, chooses every method's settings by the accuracy over its own pairs (grids were widened where a
choice lay at their edge). Results are kept in docs/reproductions/runs: delete them to start afresh. --write keeps the
table of a set and a split, such as personal-ml-100k-new.json, there (docs/results).

--default-C shows the fraction of test pairs right at the default C and on a grid around it, on splits and generated
sets that the rule was not made with, and what choosing costs (personal_default_C.py). --write keeps the table as
personal-default-C.json there (docs/results).
"""

import argparse
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import hingerank as hr
from hingerank.papers.engine import Place
from hingerank.personal.baselines import ALS, BPR, ItemMean, LightFM
from hingerank.personal.item_features import genre_features, identity_features, join_features, word_features
from hingerank.personal.rating_sets import plain_titles, read_movielens
from hingerank.personal.ratings import Ratings, split_by_item, split_by_user
from hingerank.preferences import GradedPreferences
from measuring import default_data, keep_table, kept
from personal_default_C import default_C
from personal_peers import CornacMF

THREADS = 2  # of other libraries


@dataclass(frozen=True)
class Row:
    """A method: make(**settings) for every setting of the grid; films: with a column per film beside its features, by
    which methods without features tell films apart."""

    name: str
    make: Callable[..., Any]
    grid: dict[str, list[Any]]
    films: bool = False

    def tries(self) -> Iterator[dict[str, Any]]:
        for values in product(*self.grid.values()):
            yield dict(zip(self.grid, values))


WITH_TRAIN, AMONG = "test–any pairs", "test–test pairs"
TABLES = {  # where a set and a split are kept
    ("ml-100k", "user"): "personal-ml-100k-known", ("ml-100k", "item"): "personal-ml-100k-new",
    ("ml-1m", "user"): "personal-ml-1m-known", ("ml-1m", "item"): "personal-ml-1m-new",
}  # fmt: skip


def ours(name: str, kind: str, Cs: list[float], films: bool = False, **settings: Any) -> Row:
    return Row(name, lambda C: getattr(hr, kind)(C=C, **settings), {"C": Cs}, films)


def rows(name: str, split: str) -> list[Row]:
    low, own = [3e-5, 1e-4, 3e-4, 1e-3, 3e-3], [1e-6, 1e-5, 1e-4, 1e-3]
    if name == "ml-1m":
        low, own = [1e-5, 3e-5, 1e-4, 3e-4], own[1:3]
    epochs = {"epochs": [5, 20]}
    found = [
        ours("JointRanker", "JointRanker", [1e-6, 1e-5, 1e-4, 1e-3]),
        ours("SeparateRanker", "SeparateRanker", own),
        ours("MeanVarianceRanker", "MeanVarianceRanker", own),
        ours("InductiveMatrixCompletion, rank 10", "InductiveMatrixCompletion", [0.01, 0.03, 0.1], rank=10),
        ours("PersonalRankSVM, rank 10", "PersonalRankSVM", low, rank=10),
        ours("PersonalRankSVM, rank 30", "PersonalRankSVM", low, rank=30),
        ours("PersonalRankSVM, rank 10, shared", "PersonalRankSVM", low, rank=10, shared=True),
        Row("lightfm, logistic", partial(LightFM, 30, loss="logistic", n_jobs=THREADS), epochs),
        Row("lightfm, WARP", partial(LightFM, 30, loss="warp", n_jobs=THREADS), epochs),
    ]
    if split == "item":
        return found
    return [
        *found,
        Row("mean rating of the film", ItemMean, {}, True),
        ours("PersonalRankSVM, rank 10, column per film", "PersonalRankSVM", low, True, rank=10),
        ours("PersonalRankSVM, rank 30, column per film", "PersonalRankSVM", low, True, rank=30),
        ours("PersonalRankSVM, rank 10, shared, column per film", "PersonalRankSVM", low, True, rank=10, shared=True),
        Row("lightfm, logistic, column per film", partial(LightFM, 30, loss="logistic", n_jobs=THREADS), epochs, True),
        Row("implicit, ALS", partial(ALS, 30, by_rating=True, n_jobs=THREADS), {"regularization": [0.1, 1, 10]}, True),
        Row("implicit, BPR", partial(BPR, 30, taken="liked"), {"regularization": [0.01, 0.1]}, True),
        Row("cornac, MF", partial(CornacMF, 30, epochs=40), {"lambda_reg": [0.01, 0.03, 0.1]}, True),
    ]


def judge(model: Any, X: Any, train: Ratings, part: Ratings) -> dict[str, float]:
    """Accuracy over pairs with at least one rating of `part`, over pairs of two of them, and NDCG@10."""
    users, items, ratings = (np.concatenate(both) for both in zip(train.triples, part.triples))
    scores = model.predict(users, X[items])
    n = len(train)
    right, pairs = right_pairs(users, ratings, scores)
    known, settled = right_pairs(users[:n], ratings[:n], scores[:n])
    new, among = right_pairs(users[n:], ratings[n:], scores[n:])
    ndcg = hr.evaluate(ratings[n:], scores[n:], users[n:], "ndcg@10")["ndcg@10"]
    return {WITH_TRAIN: (right - known) / (pairs - settled), AMONG: new / among, "NDCG@10": ndcg}


def right_pairs(users: np.ndarray, ratings: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """(pairs of a user's different ratings in the right order, all of them)."""
    order = np.argsort(users, kind="stable")
    offsets = np.flatnonzero(np.r_[True, np.diff(users[order]) > 0, True])
    y, s, pairs = ratings[order], scores[order], GradedPreferences(ratings[order], offsets).pairs_per_query
    found = hr.evaluate(y, s, measures="pair_accuracy", group=np.diff(offsets), per_query=True)["pair_accuracy"]
    return float(np.nansum(found * pairs)), float(pairs.sum())


def movielens(place: Place, name: str, split: str, only: str | None, write: Path | None) -> None:
    """A table of all methods; what is done is kept and not done again."""
    features, parts = split_of(place.find(name), split)
    run = f"personal-{name}-{split}"
    lines = []
    for row in rows(name, split):
        if only and only not in row.name:
            continue
        X = features[row.films]
        try:
            chosen = kept(
                place, run, f"{row.name}-chosen", partial(choose, row, X, parts["train"], parts["validation"])
            )
            found = kept(
                place, run, f"{row.name}-found", partial(measure, row, X, parts["train"], parts["test"], chosen)
            )
        except ImportError as error:
            print(f"{row.name}: left out, {error}")
            continue
        words = ", ".join(f"{key} = {value:g}" for key, value in chosen.items())
        lines.append(
            [row.name, *(f"{found[c]:.4f}" for c in (WITH_TRAIN, AMONG, "NDCG@10")), f"{found['s']:.2f}", words]
        )
        print(" · ".join(lines[-1]), flush=True)
    sizes = " / ".join(f"{len(part):,}" for part in parts.values())
    print(f"\n{name}, {split} split, {sizes} ratings to train / validate / test, {features[0].shape[1]} features\n")
    header = ["method", WITH_TRAIN, AMONG, "NDCG@10", "seconds", "chosen"]
    for line in [header, ["---"] * 6, *lines]:
        print("| " + " | ".join(line) + " |")
    if write:
        which = "" if name == "ml-100k" else f" --set {name}"
        command = f"python benchmarks/personal.py{which} --split {split}"
        shown = [[re.sub(r"^[A-Z]\w+", r"`\g<0>`", line[0]), *line[1:-1]] for line in lines]
        keep_table(write, TABLES[name, split], command, header[:-1], shown)


def split_of(folder: Path, split: str) -> tuple[list[Any], dict[str, Ratings]]:
    """(item features without and with a column per film, the parts)."""
    ratings = read_movielens(folder)
    ratings = replace(ratings, users=np.unique(ratings.users, return_inverse=True)[1])
    described = join_features(genre_features(ratings.genres or []), word_features(plain_titles(ratings.titles)))
    cut = {"user": split_by_user, "item": split_by_item}[split]
    rest, test = cut(ratings, 0.2, seed=0)
    train, validation = cut(rest, 0.1, seed=0)
    films = join_features(described, identity_features(ratings.item_ids))
    return [described[0], films[0]], {"train": train, "validation": validation, "test": test}


def choose(row: Row, X: Any, train: Ratings, validation: Ratings) -> dict[str, Any]:
    """The settings with the best accuracy over pairs of validation ratings."""
    tries = list(row.tries())
    return max(tries, key=lambda s: measure(row, X, train, validation, s)[AMONG]) if len(tries) > 1 else tries[0]


def measure(row: Row, X: Any, train: Ratings, part: Ratings, settings: dict[str, Any]) -> dict[str, float]:
    """Figures of one fit, and its seconds s."""
    model = row.make(**settings)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, *train.triples)
    seconds = time.perf_counter() - began
    return judge(model, X, train, part) | {"s": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=["ml-100k", "ml-1m"], default="ml-100k")
    parser.add_argument("--split", choices=["user", "item"], default="user")
    parser.add_argument("--only", help="methods (or data of --default-C) whose name has this in it")
    parser.add_argument("--data", type=Path, default=default_data())
    parser.add_argument("--default-C", action="store_true")
    parser.add_argument("--done", action="store_true", help="of --default-C what is kept, and run nothing")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    place = Place(arguments.data, Path("docs/reproductions/runs"))
    if arguments.default_C:
        default_C(place, arguments.write, arguments.only, arguments.done)
        return
    movielens(place, arguments.set, arguments.split, arguments.only, arguments.write)


if __name__ == "__main__":
    main()
