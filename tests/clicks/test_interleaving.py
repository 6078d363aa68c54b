"""Interleaving: fair by enumeration, the outcome against SciPy and by hand, and power beside an A/B comparison."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import hingerank as hr
from hingerank.clicks.interleaving import (
    METHODS,
    _balanced,
    _optimised,
    _team_draft,
    interleave,
    interleaving_test,
    result_of,
    sessions_needed,
)

A = list("abcd")
PAIRS = [(A, list(other)) for other in itertools.permutations(A)]
PAIRS += [(A, list("wxyz")), (A, list("abxy")), (A, list("xbcy")), (list("ab"), list("cabd"))]


def outcomes(a, b, method, top):
    """Every list that a method may show, and its probability."""
    a, b = list(a), list(b)
    if method == "optimised":
        return _optimised(tuple(a), tuple(b), top)
    found = {}

    def add(merged, chance):
        key = tuple(merged.documents), tuple(merged.teams)
        found[key] = merged, found.get(key, (merged, 0.0))[1] + chance

    if method == "balanced":
        for first in (True, False):
            add(_balanced(a, b, top, first), 0.5)
    else:
        flips = (top + 1) // 2
        for number in range(1 << flips):
            coins = iter([bool(number >> bit & 1) for bit in range(flips)] + [True] * top)
            add(_team_draft(a, b, top, coins.__next__), 0.5**flips)
    return [merged for merged, _ in found.values()], np.array([chance for _, chance in found.values()])


def credit(merged):
    return np.array([{"A": 1.0, "B": -1.0, "": 0.0}[team] for team in merged.teams]) * merged.credits


@pytest.mark.parametrize("method", ["team-draft", "optimised"])
@pytest.mark.parametrize("top", [1, 2, 3, 4])
def test_random_clicks_favour_no_one(method, top):
    """The expected credit of every place (team draft), or of every beginning (optimised), is 0."""
    for a, b in PAIRS:
        length = min(top, len(a), len(b))
        lists, chance = outcomes(a, b, method, length)
        assert chance.sum() == pytest.approx(1)
        expected = sum(p * credit(merged) for merged, p in zip(lists, chance))
        np.testing.assert_allclose(np.cumsum(expected), 0.0, atol=1e-7, err_msg=f"{a} {b}")


def test_a_document_is_credited_to_the_ranking_that_has_it():
    """In lists longer than a ranking this one was credited with documents that the other has further down."""
    for a, b in [("c", "ecgf"), ("abcd", "x"), ("abcd", "dx")]:
        for merged in _optimised(tuple(a), tuple(b), len({*a, *b}))[0]:
            for document, team in zip(merged.documents, merged.teams):
                assert document in {"A": a, "B": b, "": a}[team]


@pytest.mark.parametrize("method", METHODS)
def test_equal_rankings_get_equal_credit(method):
    lists, chance = outcomes(A, A, method, 4)
    assert all(merged.documents == A for merged in lists)
    np.testing.assert_allclose(sum(p * credit(merged) for merged, p in zip(lists, chance)), 0.0, atol=1e-12)


def test_balanced_lists_are_balanced_and_their_known_flaw():
    for a, b in PAIRS[:24]:
        for merged in outcomes(a, b, "balanced", 4)[0]:
            for k in range(1, 5):
                shown = set(merged.documents[:k])
                depth = [next(n for n in range(5) if n == 4 or ranking[n] not in shown) for ranking in (a, b)]
                assert shown == set(a[: depth[0]]) | set(b[: depth[1]]) and abs(depth[0] - depth[1]) <= 4
    lists, chance = outcomes(A, list("bcda"), "balanced", 4)
    assert sum(p * credit(merged).sum() for merged, p in zip(lists, chance)) == -2  # the shifted ranking always gains


@pytest.mark.parametrize("method", METHODS)
def test_lists_are_drawn_with_their_chances(method):
    a, b = A, list("dbax")
    lists, chance = outcomes(a, b, method, 4)
    rng, drawn = np.random.default_rng(0), {}
    for _ in range(1500):
        merged = interleave(a, b, method, seed=rng)
        assert len(set(merged.documents)) == len(merged.teams) == 4
        key = "".join(merged.documents) + "|" + ",".join(merged.teams)
        drawn[key] = drawn.get(key, 0) + 1
    expected = {"".join(m.documents) + "|" + ",".join(m.teams): p for m, p in zip(lists, chance)}
    assert set(drawn) <= set(expected)
    for key, p in expected.items():
        assert drawn.get(key, 0) / 1500 == pytest.approx(p, abs=0.05)


def test_teams_take_turns_and_place_their_best():
    for merged in outcomes(A, list("wxyz"), "team-draft", 4)[0]:
        assert {merged.teams[0], merged.teams[1]} == {merged.teams[2], merged.teams[3]} == {"A", "B"}
        own = {team: [d for d, t, _ in zip(*merged) if t == team] for team in "AB"}
        assert own == {"A": ["a", "b"], "B": ["w", "x"]}
    assert interleave(["x"], ["x", "y", "z"], top=3, seed=0).documents[0] == "x"


def interleaved_log(wins, losses, ties, silent):
    """Lists of two documents, one of each team."""
    clicks = [(1, 0)] * wins + [(0, 1)] * losses + [(1, 1)] * ties + [(0, 0)] * silent
    n = len(clicks)
    return hr.ClickLog(
        queries=["q"] * 2 * n, documents=["x", "y"] * n, places=[1, 2] * n, clicks=np.ravel(clicks),
        sessions=np.repeat(np.arange(n), 2), teams=["new", "old"] * n,
    )  # fmt: skip


def test_the_outcome():
    found = interleaving_test(interleaved_log(60, 40, 7, 13))
    assert found.teams == ("new", "old") and found.wins == (60, 40)
    assert (found.ties, found.without_clicks) == (7, 13)
    assert found.difference == pytest.approx(0.2) and found.p_value == binomtest(60, 100).pvalue
    low, high = found.interval
    assert low == pytest.approx(0.2 - 1.96 * np.sqrt(0.96 / 100), abs=0.03) and high > 0.3
    assert found.sessions_needed == sessions_needed(0.2, 100 / 120) and "new wins 60 lists" in str(found)
    swapped = interleaving_test(interleaved_log(60, 40, 7, 13), teams=("old", "new"))
    assert swapped.wins == (40, 60) and swapped.difference == -found.difference


@pytest.mark.parametrize("difference", [0.1, 0.3])
def test_the_wanted_power_is_reached(difference):
    n = sessions_needed(difference, power=0.8)
    p = (1 + difference) / 2
    k = np.arange(n + 1)
    found = binom.pmf(k, n, p)[[binomtest(int(i), n).pvalue <= 0.05 for i in k]].sum()
    assert 0.8 <= found <= 0.84


def test_a_team_of_no_one_gets_no_credit():
    log = hr.ClickLog(
        queries=list("qqqq"), documents=list("wxyz"), places=[1, 2, 3, 4], clicks=[5, 1, 0, 1], sessions=[1] * 4,
        teams=[None, "B", "A", "A"],
    )  # fmt: skip
    with pytest.raises(hr.DataError, match="1 ties"):
        interleaving_test(log)
    assert interleaving_test(log, credits=[9, 0.5, 0.2, 0.2]).wins == (0, 1)


def test_interleaving_needs_fewer_sessions_than_an_ab_test():
    """Users who click what they like: the better ranking is found far more often from as many lists."""
    rng = np.random.default_rng(0)
    liked = np.array([0.9, 0.6, 0.3, 0.3, 0.1, 0.1])
    good, bad = [0, 1, 2, 3, 4, 5], [2, 0, 1, 4, 3, 5]
    examined = 1 / np.arange(1, 5)

    def clicks(documents, n):
        return rng.random((n, 4)) < liked[np.array(documents)[:, :4]] * examined

    found_ab = found_interleaved = 0
    for _ in range(40):
        n = 60
        rates = [clicks([ranking] * (n // 2), n // 2).sum(axis=1) for ranking in (good, bad)]
        z = (rates[0].mean() - rates[1].mean()) / np.sqrt(sum(rate.var() / (n // 2) for rate in rates))
        found_ab += z > 1.96
        lists = [interleave(good, bad, top=4, seed=rng) for _ in range(n)]
        clicked = clicks([merged.documents for merged in lists], n)
        sign = np.sign([credit(merged) @ row for merged, row in zip(lists, clicked)])
        result = result_of(("A", "B"), (int((sign > 0).sum()), int((sign < 0).sum())), 0, int((sign == 0).sum()))
        found_interleaved += result.p_value <= 0.05 and result.difference > 0
    assert found_interleaved >= found_ab + 5


def test_mistakes_are_named():
    log = interleaved_log(3, 1, 0, 0)
    for call, words in [
        (lambda: interleave([], A), "ranking a is empty"),
        (lambda: interleave(A, list("aa")), "ranking b has a document twice"),
        (lambda: interleave(range(20), range(20), "optimised"), "at most 12 places, not 20"),
        (lambda: interleaving_test(log, teams=("new", "x")), "between two teams, and the log has 'new', 'old'"),
        (lambda: interleaving_test(interleaved_log(0, 0, 1, 1)), "no list has a winner"),
    ]:
        with pytest.raises(hr.DataError, match=words):
            call()
    with pytest.raises(ValueError, match="level must be a number between 0 and 1, not 3"):
        interleaving_test(log, level=3)
    with pytest.raises(ValueError, match="did you mean 'team-draft'"):
        interleave(A, A, "teamdraft")
    log.session = None
    with pytest.raises(hr.DataError, match="the log has no sessions"):
        interleaving_test(log)
