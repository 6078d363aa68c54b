"""One page of a fitted personal model: what it ranks by, in words; its users on a map; lists, and why they are so.

Complete in itself, no scripts; every text of the data is escaped.
"""

from collections.abc import Callable, Sequence
from html import escape

import numpy as np
import scipy.sparse as sp

from hingerank.arrays import Matrix, Ranker
from hingerank.lab.report.plain import drawing, html_table, part, whole_page
from hingerank.personal.catalogue import Catalogue
from hingerank.personal.item_features import same_rows
from hingerank.personal.item_item import EASE
from hingerank.personal.rankers import PersonalRanker

MOST_FUNCTIONS, MOST_WORDS, MOST_POINTS, EXAMPLES, REASONS = 12, 12, 2000, 6, 4
WIDTH, HEIGHT, EDGE = 720, 420, 24
OF_FEATURES = (
    "what its features add, relative to the mean item",
    "A score is the sum over features of value times the user's weight. "
    f"Shown are the {REASONS} features in which an item differs most, in that sum, from the mean item.",
)
OF_ITEMS = (
    "the user's items that raise or lower it most",
    "A score is the sum of the weights that the items of the user have for this item; a ListRanker also adds how well "
    f"its features suit the user. Shown are the {REASONS} items with the largest weights.",
)


def personal_page(
    ranker: PersonalRanker,
    catalogue: Catalogue,
    *,
    users: Sequence[object] | None = None,
    exclude: tuple[object, object] | None = None,
    top: int = 10,
    title: str = "personal model",
) -> str:
    """The page of a fitted ranker and its items.

    users: whose lists to show; default some that are far from each other. exclude: (users, rows) not to be offered, as
    in ``top_k``.
    """
    names = [str(name) for name in ranker._column_names(catalogue.names)]
    points, axes, shares = user_map(ranker)
    chosen = list(users) if users is not None else _far_apart(ranker, points)
    numbers = ranker._index.numbers(chosen)
    parts = [_functions(ranker, names, catalogue.names)]
    if points is not None:
        parts.append(_map(points, shares, [_ends(axis, names) for axis in axes], numbers, chosen))
    parts.append(_lists(ranker, catalogue, names, chosen, exclude, top))
    users_of = f"{len(ranker.users_):,} users"
    learnt = f"what {users_of} took" if isinstance(ranker, EASE) else f"{ranker.n_pairs_:,} pairs of {users_of}"
    certificate = ranker.certificate_
    ending = f"{certificate.status} ({certificate.kind} {certificate.value:.2g}, {certificate.seconds:.2g} s)"
    lead = (
        f"{type(ranker).__name__}, learnt from {learnt}; "
        f"{len(catalogue.ids):,} items with {ranker.n_features_in_:,} features. The fit {ending}."
    )
    parts.insert(0, f'<p class="note">{escape(lead)}</p>')
    return whole_page(f"{title} – hingerank", title, parts)


def user_map(ranker: Ranker) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """(users x 2, 2 x features, 2): the two directions in which users' functions differ most.

    Users' weights less their mean on their first two principal axes; of each axis the change of a user's weight per
    feature along it, and the part of the users' variance. None where users have no weights that differ.
    """
    V = getattr(ranker, "user_weights_", None)
    if V is None or min(V.shape) < 2:
        return None, np.empty((0, 0)), np.empty(0)
    if sp.issparse(V):
        from sklearn.decomposition import TruncatedSVD

        reduced = TruncatedSVD(2, random_state=0).fit(V)
        points, axes = reduced.transform(V), reduced.components_
        points = points - points.mean(axis=0)
        spread = float(V.multiply(V).sum() - len(points) * np.square(V.mean(axis=0)).sum())
    else:
        centred = V - V.mean(axis=0)
        _, vectors = np.linalg.eigh(centred.T @ centred)
        axes = vectors[:, :-3:-1].T
        axes = axes * np.where(axes[np.arange(2), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
        points, spread = centred @ axes.T, float((centred**2).sum())
    if spread <= 0:
        return None, np.empty((0, 0)), np.empty(0)
    basis = getattr(ranker, "basis_", None)
    return points, axes if basis is None else axes @ basis.T, (points**2).sum(axis=0) / spread


def _far_apart(ranker: Ranker, points: np.ndarray | None) -> list[object]:
    """Some users: the one nearest to the middle of the map, then always the one farthest from those chosen."""
    if points is None:
        return ranker.users_[:EXAMPLES].tolist()
    able = np.flatnonzero(getattr(ranker, "has_pairs_", np.ones(len(points), bool)))
    if len(able) == 0:
        return ranker.users_[:1].tolist()
    found = [int(able[np.argmin((points[able] ** 2).sum(axis=1))])]
    distance = ((points[able] - points[found[0]]) ** 2).sum(axis=1)
    while len(found) < min(EXAMPLES, len(able)) and distance.max() > 0:
        found.append(int(able[np.argmax(distance)]))
        distance = np.minimum(distance, ((points[able] - points[found[-1]]) ** 2).sum(axis=1))
    return ranker.users_[found].tolist()


def _functions(ranker: Ranker, names: list[str], given: Sequence[str] | None) -> str:
    """What all users share, and the basic ranking functions, as words sized by weight; given: names of features."""
    rows: list[tuple[str, str, list[tuple[str, float]], list[tuple[str, float]]]] = []
    coef, basis = getattr(ranker, "coef_", None), getattr(ranker, "basis_", None)
    if coef is not None:
        coef = np.asarray(coef)
        order = np.argsort(-coef, kind="stable")
        rising = [(names[j], float(coef[j])) for j in order[:MOST_WORDS] if coef[j] > 0]
        order = np.argsort(coef, kind="stable")
        rows.append(("everybody", "", rising, [(names[j], float(coef[j])) for j in order[:MOST_WORDS] if coef[j] < 0]))
    if basis is not None:
        strength = np.linalg.norm(basis, axis=0) * np.linalg.norm(ranker.user_weights_, axis=0)
        shares = strength / (strength.sum() or 1.0)
        for place, side in enumerate(ranker.basis_table(given, MOST_WORDS)[:MOST_FUNCTIONS]):
            rows.append((str(place + 1), f"{shares[place]:.0%}", side["positive"], side["negative"]))
    if not rows:
        return ""
    cells = [[name, share, _words(up, up + down), _words(down, up + down)] for name, share, up, down in rows]
    left = 0 if basis is None else basis.shape[1] - MOST_FUNCTIONS
    return part(
        "What it ranks by",
        "Every user ranks by a mixture of these functions, some of them perhaps reversed. Features are sized by their "
        "weights.",
        html_table(
            ["function", "part of all", "raises", "lowers"], ["", "number", "words for", "words against"], cells
        ),
        f'<p class="note">{left} weaker functions are not shown.</p>' if left > 0 else "",
    )


def _words(words: list[tuple[str, float]], beside: list[tuple[str, float]]) -> str:
    heaviest = max((abs(weight) for _, weight in beside), default=1.0) or 1.0
    return " ".join(
        f'<span title="{weight:.3g}" style="font-size:{0.75 + 0.75 * abs(weight) / heaviest:.2f}em">'
        f"{escape(name)}</span>"
        for name, weight in words
    )


def _ends(axis: np.ndarray, names: list[str]) -> tuple[str, str]:
    """The features that matter most to users at the low and at the high end of an axis."""
    order = np.argsort(axis, kind="stable")
    low = ", ".join(names[j] for j in order[:3] if axis[j] < 0)
    return low, ", ".join(names[j] for j in order[::-1][:3] if axis[j] > 0)


def _map(points: np.ndarray, shares: np.ndarray, ends: list[tuple[str, str]], numbers: np.ndarray, chosen: list) -> str:
    low, high = np.quantile(points, 0.001, axis=0), np.quantile(points, 0.999, axis=0)
    shown = numbers[numbers >= 0]
    if len(shown):
        low, high = np.minimum(low, points[shown].min(axis=0)), np.maximum(high, points[shown].max(axis=0))
    size = np.array([WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE])
    placed = EDGE + (np.clip(points, low, high) - low) / np.where(high > low, high - low, 1.0) * size
    placed[:, 1] = HEIGHT - placed[:, 1]
    some = np.arange(len(points))
    if len(points) > MOST_POINTS:
        some = np.random.default_rng(0).choice(len(points), MOST_POINTS, replace=False)
    marks = [f'<circle class="user" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in placed[some]]
    for number, user in zip(numbers, chosen):
        if number >= 0:
            x, y = placed[number]
            side = ("end", -7) if x > 0.7 * WIDTH else ("start", 7)
            marks.append(
                f'<circle class="named" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
                f'<text x="{x + side[1]:.1f}" y="{y + 4:.1f}" text-anchor="{side[0]}">{escape(str(user))}</text>'
            )
    few = f" {MOST_POINTS:,} of them are drawn." if len(points) > MOST_POINTS else ""
    across, up = ends
    words = (
        f"Users near each other rank similarly.{few} The features that users like more there, across ({shares[0]:.0%} "
        f"of the differences between users): “{across[0]}” on the left, “{across[1]}” on the right; "
        f"upwards ({shares[1]:.0%}): “{up[0]}” at the bottom, “{up[1]}” at the top. The named users' lists are below."
    )
    return part("Its users", words, drawing("map of users", WIDTH, HEIGHT, marks))


def _lists(
    ranker: Ranker,
    catalogue: Catalogue,
    names: list[str],
    chosen: list,
    exclude: tuple[object, object] | None,
    top: int,
) -> str:
    """For each user the best items, and the features that set each apart from the mean item of the catalogue."""
    rows, scores = ranker.top_k(chosen, catalogue.X, top, exclude=exclude)
    of_items = isinstance(ranker, EASE)
    explain = _by_items(ranker, catalogue) if of_items else _by_features(ranker, catalogue, names)
    title, about = OF_ITEMS if of_items else OF_FEATURES
    parts = []
    for user, best, values in zip(chosen, rows, scores):
        shown = [(row, score) for row, score in zip(best.tolist(), values.tolist()) if row >= 0]
        reasons = explain(user, [row for row, _ in shown])
        lines = [
            [str(place), escape(catalogue.called(row)), f"{score:.3f}", why]
            for place, ((row, score), why) in enumerate(zip(shown, reasons), 1)
        ]
        kinds = ["number", "words", "number", "reasons"]
        parts.append(f"<h3>User {escape(str(user))}</h3>")
        parts.append(html_table(["", "item", "score", f"why: {title}"], kinds, lines))
    return part("Lists, and why", about, *parts)


def _by_features(ranker: Ranker, catalogue: Catalogue, names: list[str]) -> Callable[[object, list[int]], list[str]]:
    """For a user and items, their features that set them apart from the mean item."""
    X = ranker._rows(catalogue.X)
    mean = np.asarray(X.mean(axis=0)).ravel()
    every = sp.identity(len(names), format="csr")

    def explain(user: object, rows: list[int]) -> list[str]:
        weights = ranker._scores(every, ranker._numbers(user, len(names)))
        return [reasons_of(X[row], mean, weights, names) for row in rows]

    return explain


def _by_items(ranker: EASE, catalogue: Catalogue) -> Callable[[object, list[int]], list[str]]:
    """For a user and items, the items that the user took which raise or lower them most."""
    X = ranker._rows(catalogue.X)
    first = same_rows(X)[2]
    called = {number: catalogue.called(row) for number, row in zip(ranker._item_numbers(X[first]).tolist(), first)}
    weights = ranker._item_vectors(X)

    def explain(user: object, rows: list[int]) -> list[str]:
        took = sp.csr_matrix(ranker.history_[ranker._numbers([user])])
        names = [called.get(number, "an item that is not here") for number in took.indices]
        return [_reasons(took.data * weights[row, took.indices], names.__getitem__) for row in rows]

    return explain


def reasons_of(row: Matrix, mean: np.ndarray, weights: np.ndarray, names: list[str], most: int = REASONS) -> str:
    """The features whose (x_j - mean_j) w_j are largest in size, with these numbers; a sparse feature's 0 is "no …"."""
    sparse = sp.issparse(row)
    x = row.toarray().ravel() if sparse else np.asarray(row, np.float64).ravel()
    return _reasons((x - mean) * weights, lambda j: ("no " if sparse and x[j] == 0 else "") + names[j], most)


def _reasons(given: np.ndarray, name_of: Callable[[int], str], most: int = REASONS) -> str:
    """The largest contributions, with their names and signs."""
    return " ".join(
        f'<span class="{"for" if given[j] > 0 else "against"}">{escape(name_of(j))} {given[j]:+.3f}</span>'
        for j in np.argsort(-np.abs(given), kind="stable")[:most].tolist()
        if given[j] != 0.0
    )
