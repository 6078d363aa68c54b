"""How well a new user is served after 2, 3, 5, 10 and 20 ratings: the mean user, and the two priors of `add_users`.

    python benchmarks/personal_new_users.py [--set ml-100k|ml-1m|yahoo-movies] [--seeds 5] [--write FOLDER]

A part of the users with 25 ratings or more (300 at most) is left out of the fit; a few of their ratings, at random, are
given to ``add_users``, and the fraction of pairs right among all their other ratings is measured. The ranker is
PersonalRankSVM as it comes (rank 10, default C, the strength of the prior learnt), without and with ``shared=True``, on
genres and title words, or the words of Yahoo's titles. On Yahoo's ratings a fit with 50 times the smallest C at which
anything is learnt, the default of earlier versions, stands beside them: it shows that a gain over the mean user says
little without the mean user's own figure. Figures are means over the seeds, each with other users left out, gains over
the mean user with their standard errors. What is done is kept in docs/reproductions/runs: delete it to start afresh.
--write keeps the table as personal-new-users.json there (docs/results), and draws docs/figures/personal-new-users.svg.
"""

import argparse
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hingerank as hr
from hingerank.papers.engine import Place
from hingerank.papers.personal import yahoo
from hingerank.personal.alternating import LocalUsers, first_gradient_norm
from hingerank.personal.item_features import genre_features, join_features, word_features
from hingerank.personal.preferences import from_ratings
from hingerank.personal.rating_sets import plain_titles, read_movielens
from hingerank.personal.ratings import Ratings
from measuring import default_data, keep_table, kept

SETS = {"ml-100k": "MovieLens 100k", "ml-1m": "MovieLens 1M", "yahoo-movies": "Yahoo"}
SIZES = (2, 3, 5, 10, 20)
LEAST, MOST = 25, 300
WAYS = {"mean user": 0.0, "drawn from the fitted users": None, "drawn towards 0": "zero"}
KINDS = {"": (False, None), ", shared": (True, None), ", C as it was": (False, 50.0)}  # shared, multiple of least C


def read(place: Place, name: str) -> tuple[Any, Ratings]:
    """Item features and ratings."""
    folder = place.find(name)
    if name == "yahoo-movies":
        X, parts, _ = yahoo(folder)
        users, items, ratings = (np.concatenate(both) for both in zip(parts["train"], parts["validation"]))
        return X, Ratings(users, items, ratings, np.arange(X.shape[0]))
    ratings = read_movielens(folder)
    return join_features(genre_features(ratings.genres or []), word_features(plain_titles(ratings.titles)))[0], ratings


def curves(X: Any, ratings: Ratings, seed: int, shared: bool, multiple: float | None) -> dict[str, list[float]]:
    """For each way the fractions right after so many ratings; besides, C over the least C, and the strength."""
    rng = np.random.default_rng(seed)
    users, count = np.unique(ratings.users, return_counts=True)
    able = users[count >= LEAST]
    new = np.isin(ratings.users, rng.permutation(able)[: min(MOST, len(able) // 3)])
    train, late = ratings.take(~new), ratings.take(new)
    code = np.unique(late.users, return_inverse=True)[1]
    order = np.lexsort((rng.random(len(late)), code))
    place = np.empty(len(late), np.int64)
    place[order] = np.arange(len(late)) - np.searchsorted(code[order], code[order])
    known = from_ratings(*train.triples, X.shape[0])
    least = 1.0 / first_gradient_norm(X.shape[1], LocalUsers(X, known).power)
    C = None if multiple is None else multiple * least
    ranker = hr.PersonalRankSVM(shared=shared, C=C).fit(X, *train.triples)
    mean, learnt = ranker.prior_mean_, ranker.prior_strength_
    found: dict[str, list[float]] = {way: [] for way in WAYS} | {"strength": [learnt], "multiple": [ranker.C_ / least]}
    for size in SIZES:
        few, rest = late.take(place < size), late.take(place >= size)
        for way, strength in WAYS.items():
            ranker.prior_mean_ = None if strength == "zero" else mean
            ranker.prior_strength_ = learnt if strength is None else strength
            ranker.add_users(few.users, X, few.items, few.ratings, replace=True)
            found[way].append(ranker.score(X, *rest.triples))
    return found


def draw(found: dict[str, dict[str, np.ndarray]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "hingerank"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(3.3 * len(found), 3.1), squeeze=False, layout="constrained")
    for axis, (name, by_way) in zip(axes[0], found.items()):
        for (way, values), style in zip(by_way.items(), ("--", "-", ":")):
            axis.plot(SIZES, values.mean(axis=0), style, marker="." if style != "--" else "", label=way)
        axis.set(title=SETS[name], xlabel="ratings of the new user", xscale="log")
        axis.set_xticks(SIZES, [str(size) for size in SIZES])
        axis.minorticks_off()
    axes[0][0].set_ylabel("pairs right")
    axes[0][0].legend(fontsize=8)
    figure.savefig("docs/figures/personal-new-users.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SETS), action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--data", type=Path, default=default_data())
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    place, found, rows = Place(arguments.data, Path("docs/reproductions/runs")), {}, []
    for name in arguments.set or SETS:
        X, ratings = read(place, name)
        for kind, (shared, multiple) in KINDS.items():
            if multiple is not None and name != "yahoo-movies":
                continue
            work = partial(curves, X, ratings, shared=shared, multiple=multiple)
            runs = [
                kept(place, "personal-new-users", f"{name}{kind}-{s}", partial(work, seed=s))
                for s in range(arguments.seeds)
            ]
            by_way = {way: np.array([run[way] for run in runs]) for way in WAYS}
            mean, drawn, _ = by_way.values()
            chosen = {key: [f"{run[key][0]:.3g}" for run in runs] for key in ("multiple", "strength")}
            print(name + kind, chosen, flush=True)
            for way, values in by_way.items():
                rows.append([SETS[name] + kind, way, *(f"{value:.4f}" for value in values.mean(axis=0))])
                print(" · ".join(rows[-1]), flush=True)
            error = (drawn - mean).std(axis=0, ddof=1) / np.sqrt(len(runs))
            gains = [f"{gain:+.5f} ± {e:.5f}" for gain, e in zip((drawn - mean).mean(axis=0), error)]
            rows.insert(-1, [SETS[name] + kind, "gain over the mean user", *gains])
            print(" · ".join(rows[-2]), flush=True)
            if kind == "":
                found[name] = by_way
    if arguments.write:
        draw(found)
        header = ["ratings", "new users", *(f"{size} ratings" for size in SIZES)]
        keep_table(arguments.write, "personal-new-users", "python benchmarks/personal_new_users.py", header, rows)


if __name__ == "__main__":
    main()
