"""Interleaving: two rankings in one list, whose clicks say which is better."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hingerank.arrays import PerRow
from hingerank.clicks.log import ClickLog, check_log, per_showing
from hingerank.data.checks import fraction, generator, one_of, whole
from hingerank.data.files import DataError

METHODS = ("team-draft", "balanced", "optimised")
MOST_OPTIMISED = 12  # places: there are up to 2 to that power of lists


class Interleaved(NamedTuple):
    """A list to show, and which ranking each place is credited to.

    Parameters
    ----------
    documents : list
    teams : list of str
        "A", "B", or "" if both rankings agree and neither gets the credit.
    credits : list of float
        What a click at each place counts for its team; 1 except in optimised lists.
    """

    documents: list[Hashable]
    teams: list[str]
    credits: list[float]


def interleave(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    method: str = "team-draft",
    *,
    top: int | None = None,
    seed: int | np.random.Generator | None = None,
) -> Interleaved:
    """Merge two rankings of the same query into one list.

    Parameters
    ----------
    a, b : sequences of documents, best first
    method : {"team-draft", "balanced", "optimised"}
        "team-draft": the rankings take turns in random order, and each adds its best document that is not in the list
        yet (Radlinski et al. 2008). "balanced": a ranking chosen at random begins, and the first k documents have
        equally many of both (Joachims 2003). Random clicks favour a ranking that has the other's documents one place
        further up. "optimised": the first k documents are always top documents of the two rankings, and the lists have
        probabilities for which random clicks favour neither (Radlinski & Craswell 2013).
    top : int, optional
        Length of the list; by default that of the shorter ranking. A longer list favours the longer ranking.
    seed : int or numpy Generator, optional
        Seed of the draw; None gives another list in every call, as is needed for serving.

    Examples
    --------
    >>> interleave(["x", "y", "z"], ["y", "x", "z"], seed=0)
    Interleaved(documents=['x', 'y', 'z'], teams=['A', 'B', 'A'], credits=[1.0, 1.0, 1.0])
    """
    a, b = _ranking(a, "a"), _ranking(b, "b")
    one_of("method", method, *METHODS)
    length = min(len(a), len(b)) if top is None else whole("top", top)
    length = min(length, len(set(a) | set(b)))
    rng = generator(seed, "seed")
    if method == "optimised":
        lists, chance = _optimised(tuple(a), tuple(b), length)
        return lists[int(rng.choice(len(lists), p=chance))]
    if method == "balanced":
        return _balanced(a, b, length, bool(rng.integers(2)))
    return _team_draft(a, b, length, lambda: bool(rng.integers(2)))


def _ranking(documents: Sequence[Hashable], name: str) -> list[Hashable]:
    ranking = list(documents)
    if not ranking:
        raise DataError(f"ranking {name} is empty")
    if len(set(ranking)) < len(ranking):
        raise DataError(f"ranking {name} has a document twice")
    return ranking


def _team_draft(a: list[Hashable], b: list[Hashable], length: int, coin: Callable[[], bool]) -> Interleaved:
    """coin() says whether A goes first when both teams have placed equally many documents."""
    documents: list[Hashable] = []
    teams: list[str] = []
    taken: set[Hashable] = set()
    left = {"A": list(a), "B": list(b)}
    while len(documents) < length:
        count = teams.count("A") - teams.count("B")
        team = "A" if count < 0 or (count == 0 and coin()) else "B"
        for turn in (team, "B" if team == "A" else "A"):  # a ranking that has nothing left passes
            best = next((document for document in left[turn] if document not in taken), None)
            if best is not None:
                documents.append(best)
                teams.append(turn)
                taken.add(best)
                break
    return Interleaved(documents, teams, [1.0] * len(documents))


def _balanced(a: list[Hashable], b: list[Hashable], length: int, a_first: bool) -> Interleaved:
    """Take the next document of the ranking that is behind, on a tie of the one that goes first. The ranking that has a
    document further up gets its credit."""
    documents: list[Hashable] = []
    i = j = 0
    while len(documents) < length and (i < len(a) or j < len(b)):
        from_a = i < len(a) and (j >= len(b) or i < j or (i == j and a_first))
        document = a[i] if from_a else b[j]
        i, j = i + from_a, j + (not from_a)
        if document not in documents:
            documents.append(document)
    at_a, at_b = ({document: place for place, document in enumerate(ranking)} for ranking in (a, b))
    last = len(a) + len(b)
    behind = [at_a.get(document, last) - at_b.get(document, last) for document in documents]
    teams = ["A" if gap < 0 else "B" if gap > 0 else "" for gap in behind]
    return Interleaved(documents, teams, [1.0] * len(documents))


@lru_cache(maxsize=256)
def _optimised(a: tuple[Hashable, ...], b: tuple[Hashable, ...], top: int) -> tuple[list[Interleaved], np.ndarray]:
    """All lists whose first k documents are top documents of a and b for every k, and fair probabilities.

    The credit of a document is 1/(its place in a) − 1/(its place in b), for A where that is above 0, else for B. Fair:
    for every k the expected credit of the first k places is 0, so that a user who clicks at random down to any place
    prefers no one. Of these probabilities, those are chosen whose lists are the most even.
    """
    if top > MOST_OPTIMISED:
        raise DataError(f"optimised interleaving goes through every list: at most {MOST_OPTIMISED} places, not {top}")
    lists: list[list[Hashable]] = [[]]
    for _ in range(top):
        longer = []
        for beginning in lists:
            options = dict.fromkeys(
                next((document for document in ranking if document not in beginning), None) for ranking in (a, b)
            )
            longer += [[*beginning, document] for document in options if document is not None]
        lists = longer
    place_a, place_b = ({document: k for k, document in enumerate(ranking, 1)} for ranking in (a, b))
    below_a, below_b = (max(len(ranking), top) + 1 for ranking in (a, b))  # where a ranking has what it does not list
    gain = {d: 1 / place_a.get(d, below_a) - 1 / place_b.get(d, below_b) for d in (*a, *b)}
    credit = np.array([[gain[document] for document in merged] for merged in lists])
    chance = _fair(np.cumsum(credit, axis=1))
    kept = np.flatnonzero(chance > 1e-9)
    teams = {document: "A" if value > 0 else "B" if value < 0 else "" for document, value in gain.items()}
    found = [Interleaved(lists[m], [teams[d] for d in lists[m]], np.abs(credit[m]).tolist()) for m in kept]
    return found, chance[kept] / chance[kept].sum()


def _fair(sums: np.ndarray) -> np.ndarray:
    """Probabilities p with p @ sums = 0, or as close to it as possible. A linear program."""
    from scipy.optimize import linprog

    count, places = sums.shape
    cost = np.concatenate([np.abs(sums[:, -1]), np.full(2 * places, 1e4)])  # the last ones: how unfair each place is
    fair = np.hstack([sums.T, np.eye(places), -np.eye(places)])
    whole_chance = np.concatenate([np.ones(count), np.zeros(2 * places)])
    found = linprog(cost, A_eq=np.vstack([fair, whole_chance]), b_eq=np.append(np.zeros(places), 1.0))
    return np.clip(found.x[:count], 0.0, None)


# The outcome.


@dataclass(frozen=True)
class InterleavingResult:
    """The outcome of an interleaving test.

    Parameters
    ----------
    teams : tuple of two names
    wins : tuple of two ints
        Lists in which a team got more credit than the other.
    ties : int
        Lists with equal credit above 0.
    without_clicks : int
        Lists without a credited click.
    difference : float
        (wins of the first − wins of the second) / (wins of both).
    interval : tuple of two floats
        Interval of the difference, by bootstrap over lists.
    level : float
        Confidence of the interval.
    p_value : float
        Of a two-sided sign test.
    sessions_needed : int or None
        Number of lists after which the test has the wanted power for this difference, at this rate of wins; None if
        the difference is 0.
    power : float
    """

    teams: tuple[str, str]
    wins: tuple[int, int]
    ties: int
    without_clicks: int
    difference: float
    interval: tuple[float, float]
    level: float
    p_value: float
    sessions_needed: int | None
    power: float

    def __str__(self) -> str:
        a, b = self.teams
        low, high = self.interval
        return (
            f"{a} wins {self.wins[0]:,} lists and {b} {self.wins[1]:,}, {self.ties:,} ties; difference "
            f"{self.difference:+.3f} [{low:+.3f}, {high:+.3f}], p = {self.p_value:.3g}"
        )


def interleaving_test(
    log: ClickLog, *, teams: tuple[str, str] | None = None, credits: PerRow = None, level: float = 0.95,
    power: float = 0.8, rounds: int = 2000, seed: int = 0,
) -> InterleavingResult:  # fmt: skip
    """Which of two interleaved rankings users prefer.

    The team with more credit wins a list. Credit is the sum of clicks on a team's documents. Documents without a team
    do not count.

    Parameters
    ----------
    log : ClickLog with sessions and teams
        In UBI, the teams are read from ``event_attributes.object.search_config``.
    teams : two names, optional
        The first and the second team; by default the log's two teams in the order of their names.
    credits : array, optional
        What a click on each showing counts, as returned by `interleave`; default 1. Optimised lists need it.
    level : float
        Confidence of the interval.
    power : float
        For `sessions_needed`: the probability that a test at 5 % finds the difference.
    rounds : int
        Number of logs drawn for the interval.
    seed : int

    Examples
    --------
    >>> log = ClickLog(queries=["q"] * 4, documents=list("xyxy"), places=[1, 2, 1, 2], clicks=[1, 0, 1, 0],
    ...                sessions=[1, 1, 2, 2], teams=list("ABAB"))
    >>> interleaving_test(log).wins
    (2, 0)
    """
    check_log(log)
    lists, weight = log.by_list()
    if log.team is None or log.team_names is None:
        raise DataError("the log has no teams: an interleaving test needs the team of each showing")
    if not len(log):
        raise DataError("the log has no showings")
    known = {str(log.team_names[team]): team for team in np.unique(log.team[log.team >= 0])}
    wanted = sorted(known) if teams is None else [str(name) for name in teams]
    if len(wanted) != 2 or len(set(wanted)) != 2 or not set(wanted) <= set(known):
        found = ", ".join(map(repr, sorted(known)[:6])) or "none"
        raise DataError(f"a test is between two teams, and the log has {found}: name two with teams=")
    clicks = log.clicks
    if credits is not None:
        clicks = clicks * per_showing(credits, len(log), "credits", "numbers that are not negative")
    credit = [lists.sums(clicks * (log.team == known[team])) for team in wanted]
    sign = np.sign(credit[0] - credit[1])
    any_click = credit[0] + credit[1] > 0
    wins = tuple(round(float(weight[sign == side].sum())) for side in (1, -1))
    ties = round(float(weight[(sign == 0) & any_click].sum()))
    silent = round(float(weight[~any_click].sum()))
    return result_of((wanted[0], wanted[1]), (wins[0], wins[1]), ties, silent, level, power, rounds, seed)


def result_of(
    names: tuple[str, str], wins: tuple[int, int], ties: int, silent: int, level: float = 0.95, power: float = 0.8,
    rounds: int = 2000, seed: int = 0,
) -> InterleavingResult:  # fmt: skip
    """The result of a test with these wins, ties and lists without a credited click."""
    from scipy.stats import binomtest

    fraction("level", level, inside=True)
    fraction("power", power, inside=True)
    decided, lists = sum(wins), sum(wins) + ties + silent
    if not decided:
        raise DataError(f"no list has a winner: {ties:,} ties, and {silent:,} without a click on a document of a team")
    difference = (wins[0] - wins[1]) / decided
    drawn = generator(seed, "seed").multinomial(
        lists, np.array([*wins, ties + silent]) / lists, whole("rounds", rounds, 2)
    )
    deltas = (drawn[:, 0] - drawn[:, 1]) / np.maximum(1, drawn[:, 0] + drawn[:, 1])
    low, high = np.quantile(deltas, [(1 - level) / 2, (1 + level) / 2])
    p_value = float(binomtest(wins[0], decided).pvalue)
    needed = sessions_needed(difference, decided / lists, power)
    return InterleavingResult(
        names, wins, ties, silent, difference, (float(low), float(high)), level, p_value, needed, power
    )


def sessions_needed(difference: float, decided: float = 1.0, power: float = 0.8, size: float = 0.05) -> int | None:
    """Lists until a two-sided sign test of this size finds a difference with this power; None for a difference of 0.

    decided: the fraction of lists that have a winner. The search begins at the number for the normal distribution and
    goes up until the binomial distribution has the power.

    >>> sessions_needed(0.2), sessions_needed(0.2, decided=0.5), sessions_needed(0.0)
    (199, 398, None)
    """
    from scipy.stats import binom, norm

    if difference == 0 or decided <= 0:
        return None
    p = min(0.5 + abs(difference) / 2, 1.0)
    normal = ((norm.ppf(1 - size / 2) / 2 + norm.ppf(power) * math.sqrt(p * (1 - p))) / (p - 0.5)) ** 2
    n = max(1, math.ceil(normal))
    while True:
        least = n - int(binom.ppf(size / 2, n, 0.5)) + 1  # wins from which on the test is significant
        if binom.sf(least - 1, n, p) >= power:
            return math.ceil(n / decided)
        n += max(1, n // 100)
