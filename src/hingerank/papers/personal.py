"""Personal rankers as in Cheng et al. (2018): one C for each row, chosen by the accuracy on validation pairs."""

import lzma
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from io import BytesIO
from pathlib import Path

import numpy as np

from hingerank.arrays import Given, Matrix, Ranker
from hingerank.data.files import DataError
from hingerank.papers.engine import Ours, Place, Recipe, Section, kept
from hingerank.papers.outcome import TIME
from hingerank.search.settings import Setting

FEW = 1000  # rows of a first fit that only loads compiled kernels
# item features, {"train", "validation", "test": triples}, whether the triples are comparisons (else they are ratings)
Parts = tuple[Matrix, Mapping[str, Sequence[np.ndarray]], bool]


def personal(section: Section, place: Place) -> dict[str, Ours]:
    """Processor seconds per epoch and pairs in the right order, for every row with the setting best on validation."""
    return {row: _row(row, recipe, section, place) for row, recipe in section.methods.items()}


def _row(row: str, recipe: Recipe, section: Section, place: Place) -> Ours:
    def result(setting: Setting) -> dict[str, float]:
        name = "-".join([row, *(f"{parameter}={value:g}" for parameter, value in setting.items())])
        return kept(place, section.study.run, name, partial(_fit, recipe, setting, section, place))

    # nothing is held out if there is nothing to choose
    tried = recipe.explore(lambda setting: result(setting).get("validation", 0.0))
    setting = max(tried, key=lambda pair: pair[1])[0]
    found = result(setting)
    shown = {TIME: found[TIME], "train accuracy": found["train"], "test accuracy": found["test"]}
    widened = recipe.grown(setting for setting, _ in tried)
    return Ours(shown, chosen=[setting] if setting else (), seconds=found["fit seconds"], widened=widened)


def _fit(recipe: Recipe, setting: Setting, section: Section, place: Place) -> dict[str, float]:
    """Accuracies and times of one fit. The test accuracy is used only for the setting that validation chose."""
    from hingerank.registry import ranker_class

    features, parts, compared = SETS[section.study.data](place)

    def fitted(rows: Sequence[np.ndarray], **more: object) -> Ranker:
        ranker = ranker_class(recipe.ranker)(**setting, **recipe.fixed, scale=None, **more)  # features as in the paper
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the certificate says the same
            return (ranker.fit_pairs if compared else ranker.fit)(features, *rows)

    fitted([column[:FEW] for column in parts["train"]], max_iter=2)  # loads compiled kernels, which is not timed
    began = time.process_time()
    ranker = fitted(parts["train"])
    seconds = time.process_time() - began
    accuracy = pairs_right if compared else ratings_right
    found = {part: accuracy(ranker, features, parts, part) for part in parts}
    return found | {TIME: seconds / max(1, ranker.n_iter_), "fit seconds": seconds}


def pairs_right(ranker: Ranker, features: Matrix, parts: Given, part: str) -> float:
    """Fraction of comparisons whose winner has the higher score."""
    users, winners, losers = parts[part]
    return float((ranker.predict(users, features[winners]) > ranker.predict(users, features[losers])).mean())


def ratings_right(ranker: Ranker, features: Matrix, parts: Given, part: str) -> float:
    """Fraction of a user's pairs in the right order: training pairs, or pairs with at least one rating of `part`.

    These are all pairs of the training ratings and this part's, minus those among the training ratings.
    """
    from hingerank.metrics import evaluate
    from hingerank.preferences import GradedPreferences

    def counts(names: Sequence[str]) -> tuple[float, float]:
        """Pairs of different ratings in the right order (equal scores count one half), and all such pairs."""
        users, items, ratings = (np.concatenate([parts[name][k] for name in names]) for k in range(3))
        order = np.argsort(users, kind="stable")
        users, items, ratings = users[order], items[order], ratings[order]
        offsets = np.flatnonzero(np.r_[True, users[1:] != users[:-1], True])
        pairs = GradedPreferences(ratings, offsets).pairs_per_query.astype(float)
        scores, sizes = ranker.predict(users, features[items]), np.diff(offsets)
        right = evaluate(ratings, scores, measures="pair_accuracy", group=sizes, per_query=True)["pair_accuracy"]
        return float(np.nansum(right * pairs)), float(pairs.sum())

    right, total = counts(["train"])
    if part == "train":
        return right / total
    both_right, both = counts(["train", part])
    return (both_right - right) / (both - total)


def basis_functions(section: Section, place: Place) -> dict[str, Ours]:
    """The features with the most positive and the most negative weights in one of the basis functions of all users.

    Options rank and C: of `PersonalRankSVM`, fitted to all ratings; function: its number, 1 for the strongest.
    """
    options, run = section.options, section.study.run
    fit = partial(_basis, place.find(section.study.data), options["rank"], options["C"])
    found = kept(place, run, f"basis rank={options['rank']} C={options['C']:g}", fit)[options["function"] - 1]
    return {name: Ours({"weight": weight}) for name, weight in [*found["positive"], *found["negative"][::-1]]}


def _basis(folder: Path, rank: int, C: float) -> list[dict[str, list[tuple[str, float]]]]:
    from hingerank.personal.factorized import PersonalRankSVM
    from hingerank.personal.rating_sets import open_ratings

    opened = open_ratings(folder)
    if opened is None:
        raise DataError(f"{folder}: no ratings here, expected a folder of MovieLens")
    ratings, (features, names) = opened
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the certificate says the same
        ranker = PersonalRankSVM(rank=rank, C=C, scale=None).fit(features, *ratings.triples)
    return ranker.basis_table(names)


def synthetic(place: Place, used: int = 800) -> Parts:
    """800 comparisons per user for training, or the first `used` of them, 100 for validation, 200 for test."""
    from hingerank.personal.generate import make_personal

    data = make_personal(1000, 10_000, 64, 20, per_user=1100, seed=0)
    train, rest = data.split(300 / 1100, seed=0)
    validation, test = rest.split(2 / 3, seed=0)
    if used < 800:
        order = np.argsort(train.users, kind="stable")
        first = np.searchsorted(train.users[order], np.arange(1000))
        train = train.take(order[np.arange(len(order)) - first[train.users[order]] < used])
    parts = {"train": train, "validation": validation, "test": test}
    return (
        data.item_features,
        {name: tuple(map(np.asarray, (p.users, p.winners, p.losers))) for name, p in parts.items()},
        True,
    )


@cache
def yahoo(folder: Path) -> Parts:
    """The split that comes with the data; a tenth of every user's training ratings is for validation."""
    from scipy.io import loadmat

    from hingerank.personal.ratings import Ratings, read_ratings, split_by_user

    with lzma.open(folder / "title.mat.xz") as file:
        features = loadmat(BytesIO(file.read()))["b"].tocsr().astype(np.float64)
    found = {}
    for part in ("train", "test"):
        table = read_ratings(folder / f"after{part}.txt.xz")
        rows = table.item_ids[table.items].astype(np.int64) - 1  # movies are counted from 1
        found[part] = Ratings(table.users, rows, table.ratings, np.arange(features.shape[0]))
    train, validation = split_by_user(found["train"], 0.1, seed=0)
    test = found["test"].take(np.isin(found["test"].users, train.users))
    return features, {"train": train.triples, "validation": validation.triples, "test": test.triples}, False


@cache
def movielens(folder: Path) -> Parts:
    """Any edition of MovieLens: a fifth of every user's films is for test, a tenth of the rest for validation; the
    features are genres."""
    from hingerank.personal.item_features import genre_features
    from hingerank.personal.rating_sets import read_movielens
    from hingerank.personal.ratings import split_by_user

    ratings = read_movielens(folder)
    features, _ = genre_features(ratings.genres or [])
    rest, test = split_by_user(ratings, 0.2, seed=0)
    train, validation = split_by_user(rest, 0.1, seed=0)
    return features, {"train": train.triples, "validation": validation.triples, "test": test.triples}, False


def all_training(parts: Parts) -> Parts:
    """The same with the validation ratings added to the training ratings."""
    features, split, compared = parts
    together = tuple(np.concatenate(columns) for columns in zip(split["train"], split["validation"]))
    return features, {"train": together, "test": split["test"]}, compared


# data of a study -> how they are read and split
SETS: dict[str, Callable[[Place], Parts]] = {
    "synthetic": synthetic,
    "synthetic, 120 comparisons": partial(synthetic, used=120),
    "yahoo-movies": lambda place: yahoo(place.find("yahoo-movies")),
    "yahoo-movies, all training ratings": lambda place: all_training(yahoo(place.find("yahoo-movies"))),
    "ml-1m": lambda place: movielens(place.find("ml-1m")),
    "ml-1m, all training ratings": lambda place: all_training(movielens(place.find("ml-1m"))),
    "ml-20m": lambda place: movielens(place.find("ml-20m")),
    "hetrec2011": lambda place: movielens(place.find("hetrec2011")),
}
