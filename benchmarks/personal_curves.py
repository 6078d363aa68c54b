"""Accuracy of PersonalRankSVM and its baselines over time, over epochs, and over the comparisons per user.

    python benchmarks/personal_curves.py synthetic|yahoo|movielens      # Fig. 1, 4 and 5 of Cheng et al. 2018
    python benchmarks/personal_curves.py samples                        # low rank against separate users
    python benchmarks/personal_curves.py basis                          # words sized by weight: Fig. 2 and 3

Pictures go to docs/figures. C is what validation chose in `hingerank reproduce cheng2018-table2` and -table4; for
MovieLens (100k, genres and title words) it is set by hand near that. A convex baseline is stopped after 1, 2, 4, ...
Newton steps; the seconds are those that its trace gives, without the judging.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import hingerank as hr
from hingerank.lab.report.figures import plot_basis
from hingerank.papers.engine import Place
from hingerank.papers.personal import Parts, pairs_right, ratings_right, synthetic, yahoo
from hingerank.personal.factorized import PersonalRankSVM
from hingerank.personal.generate import make_personal
from hingerank.personal.item_features import genre_features, join_features, word_features
from hingerank.personal.rating_sets import plain_titles, read_movielens
from measuring import default_data

FIGURES = Path("docs/figures")
STEPS = [1, 2, 4, 8, 16, 32]
Curve = list[list]  # epochs or steps, seconds, test accuracy


def from_movielens(place: Place) -> Parts:
    from personal import split_of

    features, parts = split_of(place.find("ml-100k"), "user")
    return features[0], {name: part.triples for name, part in parts.items()}, False


# data, and for each curve the ranker with its settings
SETS: dict[str, tuple[Callable[[Place], Parts], dict[str, Any]]] = {
    "synthetic": (
        synthetic,
        {
            "joint": hr.JointRanker(C=0.01),
            "separate": hr.SeparateRanker(C=1.0),
            "mean and variance": hr.MeanVarianceRanker(C=1.0),
            "rank 10": hr.PersonalRankSVM(rank=10, C=1.0),
            "rank 20": hr.PersonalRankSVM(rank=20, C=0.1),
            "rank 30": hr.PersonalRankSVM(rank=30, C=0.1),
        },
    ),
    "yahoo": (
        lambda place: yahoo(place.find("yahoo-movies")),
        {
            "joint": hr.JointRanker(C=0.01),
            "separate": hr.SeparateRanker(C=0.1),
            "mean and variance": hr.MeanVarianceRanker(C=0.1),
            "completion, rank 100": hr.InductiveMatrixCompletion(rank=100, C=0.1),
            "rank 30": hr.PersonalRankSVM(rank=30, C=0.001),
            "rank 100": hr.PersonalRankSVM(rank=100, C=0.003),
        },
    ),
    "movielens": (
        from_movielens,
        {
            "joint": hr.JointRanker(C=0.01),
            "separate": hr.SeparateRanker(C=0.01),
            "mean and variance": hr.MeanVarianceRanker(C=0.01),
            "completion, rank 10": hr.InductiveMatrixCompletion(rank=10, C=0.03),
            "rank 10": hr.PersonalRankSVM(rank=10, C=0.001),
            "rank 30": hr.PersonalRankSVM(rank=30, C=0.001),
        },
    ),
}


def curve(ranker: Any, features: Any, parts: dict, compared: bool) -> Curve:
    """Test accuracy after each epoch (low rank), or after 1, 2, 4, ... steps (convex)."""
    fit = type(ranker).fit_pairs if compared else type(ranker).fit
    fit(clone(ranker).set_params(max_iter=1), features, *(column[:50] for column in parts["train"]))  # load kernels
    if isinstance(ranker, PersonalRankSVM):
        entries = fit(ranker, features, *parts["train"], eval_set=parts["test"]).trace_
        figures = [(e["epoch"] + 1, e["seconds"], e["validation_accuracy"]) for e in entries]
        return [list(column) for column in zip(*figures)]
    judge, found = pairs_right if compared else ratings_right, []
    for steps in STEPS:
        fit(ranker.set_params(max_iter=steps), features, *parts["train"])
        found.append((ranker.n_iter_, ranker.certificate_.seconds, judge(ranker, features, parts, "test")))
        if ranker.certificate_.converged:
            break
    return [list(column) for column in zip(*found)]


def over_time(name: str, place: Place) -> None:
    """Draw one set's curves: by seconds, and by epochs or steps."""
    from matplotlib.figure import Figure

    load, rankers = SETS[name]
    features, parts, compared = load(place)
    picture = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = picture.subplots(1, 2, sharey=True)
    for label, ranker in rankers.items():
        epochs, seconds, accuracy = curve(ranker, features, dict(parts), compared)
        style = "-" if isinstance(ranker, PersonalRankSVM) else "--"
        left.semilogx(seconds, accuracy, style, marker=".", label=label)
        right.plot(epochs, accuracy, style, marker=".", label=label)
        print(f"{label:22} {accuracy[-1]:.4f} after {seconds[-1]:.2f} s, {epochs[-1]} epochs", flush=True)
    left.set(xlabel="seconds", ylabel="test accuracy")
    right.set(xlabel="epochs (convex: Newton steps)")
    right.legend(frameon=False, fontsize=8)
    picture.savefig(FIGURES / f"personal-{name}.svg")


def samples() -> None:
    """Accuracy by comparisons per user (400, true rank 10); C chosen on 100 further comparisons, tested on 200."""
    from matplotlib.figure import Figure

    data = make_personal(400, 4000, 64, 10, per_user=700, seed=0)
    train, rest = data.split(300 / 700, seed=0)
    validation, test = rest.split(2 / 3, seed=0)
    order = np.argsort(train.users, kind="stable").reshape(400, 400)  # rows of each user
    counts = [10, 25, 50, 100, 200, 400]
    methods = {"low rank (10)": "PersonalRankSVM", "separate": "SeparateRanker"}
    picture = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = picture.subplots()
    for label, kind in methods.items():
        found = []
        for count in counts:
            rows = order[:, :count].ravel()
            chosen = train.users[rows], train.winners[rows], train.losers[rows]
            settings = {"rank": 10} if kind == "PersonalRankSVM" else {}
            tried = [getattr(hr, kind)(C=C, **settings).fit_pairs(train.item_features, *chosen) for C in (0.01, 0.1, 1)]
            best = max(tried, key=lambda ranker: share(ranker, validation))
            found.append(share(best, test))
            print(f"{label:14} {count:4} comparisons: {found[-1]:.4f} (C = {best.C:g})", flush=True)
        axes.semilogx(counts, found, marker="o", label=label)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set(xlabel="comparisons per user", ylabel="test accuracy")
    axes.legend(frameon=False)
    picture.savefig(FIGURES / "personal-samples.svg")


def basis(place: Place) -> None:
    """Two basic ranking functions of MovieLens 1M's genres and title words."""
    ratings = read_movielens(place.find("ml-1m"))
    words = word_features(plain_titles(ratings.titles), min_items=5, stop_words="english")
    X, names = join_features(genre_features(ratings.genres or []), words)
    ranker = hr.PersonalRankSVM(rank=10, C=1e-4, max_iter=40).fit(X, *ratings.triples)
    plot_basis(ranker, names, functions=(0, 1), file=FIGURES / "personal-basis.svg")


def share(ranker: Any, part: Any) -> float:
    return pairs_right(ranker, part.item_features, {"part": (part.users, part.winners, part.losers)}, "part")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*SETS, "samples", "basis"])
    parser.add_argument("--data", type=Path, default=default_data())
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # fits stopped early say so
    if arguments.what == "samples":
        samples()
    elif arguments.what == "basis":
        basis(Place(arguments.data, FIGURES))
    else:
        over_time(arguments.what, Place(arguments.data, FIGURES))


if __name__ == "__main__":
    main()
