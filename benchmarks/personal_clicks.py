"""Clicks alone: PersonalRankSVM.fit_clicks against implicit's ALS and BPR, recall@10 over the whole catalogue.

    python benchmarks/personal_clicks.py [--folder HETREC] [--only NAME] [--write FOLDER]

Without a folder the data are generated in the shape of Last.fm's set of HetRec 2011 (1,892 users, 17,632 artists, about
49 listens each, popularity with a long tail, tastes of rank 12); with it, user_artists.dat is read. A fifth of every
user's items is tested; the rest trains and is not offered again. Every method's settings are chosen on a tenth of the
training items. Seconds are those of the last fit, of all threads together in the table. `pip install implicit` for the
others. --write keeps the table as personal-clicks.json there (docs/results).
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hingerank as hr
from hingerank.personal.baselines import Popularity
from hingerank.personal.item_features import identity_features
from hingerank.personal.ratings import Ratings, ratings_from, read_ratings, split_by_user
from measuring import keep_table

SHOWN = ("recall", "ndcg", "hit_rate", "coverage")


def generated(n_users: int = 1892, n_items: int = 17632, mean: int = 49, rank: int = 12, seed: int = 0) -> Ratings:
    """Listens by popularity times taste: log-weight of (u, i) = log popularity_i + 5 <v_u, p_i> + noise."""
    rng = np.random.default_rng(seed)
    popularity = rng.permutation(1.0 / np.arange(1, n_items + 1) ** 0.6)
    V, P = rng.standard_normal((n_users, rank)), rng.standard_normal((n_items, rank)) / np.sqrt(rank)
    V *= rng.exponential(1.0, (n_users, rank)) > 1.0  # a user has some of the tastes
    users, items = [], []
    for user in range(n_users):
        weight = np.log(popularity) + 5.0 * (P @ V[user]) + rng.gumbel(size=n_items)
        count = min(n_items // 3, max(5, rng.poisson(mean)))
        items.append(np.argpartition(-weight, count)[:count])
        users.append(np.full(count, user))
    return ratings_from(np.concatenate(users), np.concatenate(items), np.ones(sum(map(len, items))), np.arange(n_items))


class Implicit:
    """implicit's recommenders behind `top_k`."""

    def __init__(self, kind: str, **settings: Any):
        from implicit.als import AlternatingLeastSquares
        from implicit.bpr import BayesianPersonalizedRanking

        cls = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking}[kind]
        self.model, self.alpha = cls(random_state=0, use_gpu=False, **settings), 1.0

    def fit(self, X: Any, train: Ratings) -> "Implicit":
        self.ids, code = np.unique(train.users, return_inverse=True)
        self.table = sp.csr_matrix((np.ones(len(train)), (code, train.items)), shape=(len(self.ids), train.n_items))
        self.model.fit(self.table, show_progress=False)
        return self

    def top_k(self, users: Any, candidates: Any, top: int = 10, *, exclude: Any = None) -> Any:
        number = np.searchsorted(self.ids, users)
        return self.model.recommend(number, self.table[number], N=top, filter_already_liked_items=True)


class Ours:
    def __init__(self, clicks: dict[str, Any], **settings: Any):
        self.ranker, self.clicks = hr.PersonalRankSVM(**settings), clicks

    def fit(self, X: Any, train: Ratings) -> "Ours":
        self.ranker.fit_clicks(X, train.users, train.items, **self.clicks)
        return self

    def top_k(self, *given: Any, **also: Any) -> Any:
        return self.ranker.top_k(*given, **also)


class Popular(Popularity):
    def fit(self, X: Any, train: Ratings) -> Any:
        return super().fit(X, train.users, train.items)


def methods() -> dict[str, list[Any]]:
    ranks = (15, 30)
    clicks = {"per_click": 5, "n_draws": 8}
    return {
        "popularity": [lambda: Popular()],
        "implicit, ALS": [
            (lambda rank=rank, r=r: Implicit("als", factors=rank, regularization=r, iterations=15))
            for rank in ranks
            for r in (0.01, 1.0, 5.0)
        ],
        "implicit, BPR": [
            (lambda rank=rank: Implicit("bpr", factors=rank, regularization=0.01, iterations=100)) for rank in ranks
        ],
        "PersonalRankSVM.fit_clicks": [
            (lambda rank=rank, C=C: Ours(clicks, rank=rank, C=C, prior=0.0, pair_weight="user"))
            for rank in ranks
            for C in (3.0, 8.0)
        ],
    }


def recall(model: Any, X: Any, test: Ratings, train: Ratings) -> dict[str, float]:
    return hr.evaluate_top(model, X, (test.users, test.items), (train.users, train.items)).means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    told = generated()
    if arguments.folder is not None:
        told = read_ratings(arguments.folder / "user_artists.dat", "userID", "artistID", "weight")
    X, _ = identity_features(told.item_ids)
    train, test = split_by_user(told, 0.2, seed=0)
    learn, held = split_by_user(train, 0.1, seed=1)
    print(told)
    rows = []
    for name, makers in methods().items():
        if arguments.only not in name:
            continue
        tried = [recall(make().fit(X, learn), X, held, learn)["recall"] for make in makers]
        best = makers[int(np.argmax(tried))]
        began, cpu = time.perf_counter(), time.process_time()
        model = best().fit(X, train)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        found = recall(model, X, test, train)
        rows.append([name, *(f"{found[key]:.4f}" for key in SHOWN), f"{cpu:.1f}"])
        print(" · ".join(rows[-1]), f"{seconds:.1f} s, tried", [f"{value:.3f}" for value in tried], flush=True)
    if arguments.write:
        header = ["method", *(name.replace("_", " ") + "@10" for name in SHOWN[:-1]), "coverage", "processor seconds"]
        command = "python benchmarks/personal_clicks.py" + (" --folder HETREC" if arguments.folder else "")
        keep_table(arguments.write, "personal-clicks", command, header, rows)


if __name__ == "__main__":
    main()
