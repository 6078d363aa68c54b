"""Every measure under every preset against formulas written plainly: ties, one item, one grade, long cutoffs.

Where ties are averaged the plain answer is the mean over all orders of the tied rows, listed one by one.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hingerank as hr
from hingerank.metrics import MEASURES, PRESETS, parse_measure

CUTOFFS = {"optional": ("", "@1", "@3", "@10", "@100"), "required": ("@1", "@3", "@10"), "none": ("",)}
NAMES = [name + cut for name, kind in MEASURES.items() for cut in CUTOFFS[kind.cutoff]]


# ---- plain formulas: a ranking is a list of grades, best-scored first --------------------------------------------


def gain(g, c):
    return max(g, 0) if c.gain == "linear" else 2 ** max(g, 0) - 1


def discount(r, c):
    if c.discount == "letor":
        return 1 if r <= 2 else 1 / math.log2(r)
    return 1 / math.log2(r + 1)


def dcg(ranking, k, c):
    return sum(gain(g, c) * discount(r, c) for r, g in enumerate(ranking[:k], 1))


def best(ranking, k, c):
    return dcg(sorted(ranking, reverse=True), k, c)


def ndcg(ranking, k, c):
    if c.short == "zero" and len(ranking) < k:
        return 0
    return dcg(ranking, k, c) / best(ranking, k, c)


def mean_ndcg(ranking, k, c):
    n = len(ranking)
    return sum(dcg(ranking, r, c) / best(ranking, r, c) for r in range(1, n + 1)) / n


def err(ranking, k, c):
    value, going = 0, 1
    for r, g in enumerate(ranking[:k], 1):
        stop = (2 ** max(g, 0) - 1) / 2**c.max_grade
        value += going * stop / r
        going *= 1 - stop
    return value


def hits(ranking, k, c):
    return sum(g >= c.relevant for g in ranking[:k])


def p(ranking, k, c):
    if c.precision == "zero" and k > len(ranking):
        return 0
    return hits(ranking, k, c) / (min(k, len(ranking)) if c.precision == "list" else k)


def recall(ranking, k, c):
    return hits(ranking, k, c) / hits(ranking, len(ranking), c)


def average_precision(ranking, k, c):
    k = len(ranking) if c.map_divisor == "whole" else k
    total = sum(hits(ranking, r, c) / r for r, g in enumerate(ranking[:k], 1) if g >= c.relevant)
    relevant = hits(ranking, len(ranking), c)
    return total / (min(relevant, k) if c.map_divisor == "cutoff" else relevant)


def mrr(ranking, k, c):
    return next((1 / r for r, g in enumerate(ranking[:k], 1) if g >= c.relevant), 0)


PLAIN = {"dcg": dcg, "ndcg": ndcg, "mean_ndcg": mean_ndcg, "err": err}
PLAIN |= {"p": p, "recall": recall, "map": average_precision, "mrr": mrr}


def sign(x):
    return (x > 0) - (x < 0)


def pairs(kind, y, s):
    both = [(sign(a - b), sign(u - v)) for (a, u), (b, v) in itertools.combinations(list(zip(y, s)), 2)]
    graded, scored = [pair for pair in both if pair[0]], [pair for pair in both if pair[1]]
    if not graded or (kind == "kendall_tau" and not scored):
        return math.nan
    if kind == "kendall_tau":
        return sum(a * b for a, b in both) / math.sqrt(len(graded) * len(scored))
    return sum((1 + a * b) / 2 for a, b in graded) / len(graded)


def plain_value(measure, y, s, docid=None):
    """One query's value."""
    c, k = measure.conventions, measure.k or len(y)
    if measure.kind in ("pair_accuracy", "kendall_tau"):
        return pairs(measure.kind, y, s)
    graded = measure.kind in ("dcg", "ndcg", "mean_ndcg", "err")
    if not any(g > 0 if graded else g >= c.relevant for g in y):
        if measure.kind == "ndcg" and c.short == "zero" and len(y) < k:
            return 0
        by_kind = {"ndcg": c.ndcg_empty, "mean_ndcg": c.ndcg_empty, "map": c.map_empty, "recall": c.recall_empty}
        return by_kind.get(measure.kind, 0)
    rows = range(len(y))
    if c.ties == "worst":
        rows = sorted(rows, key=lambda i: y[i])
    if c.ties == "docid":
        if docid is not None:
            rows = sorted(rows, key=lambda i: docid[i], reverse=True)
        s = [float(np.float32(x)) for x in s]
    order = sorted(rows, key=lambda i: -s[i])
    if c.ties != "average":
        return PLAIN[measure.kind]([y[i] for i in order], k, c)
    tied = [list(itertools.permutations(group)) for _, group in itertools.groupby(order, key=lambda i: s[i])]
    orders = [list(itertools.chain(*choice)) for choice in itertools.product(*tied)]
    return sum(PLAIN[measure.kind]([y[i] for i in one], k, c) for one in orders) / len(orders)


# ---- the checks ---------------------------------------------------------------------------------------------------

WHOLE = st.integers(0, 4)
REAL = st.floats(-3, 6).map(lambda x: round(x, 3))
SCORE = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e6, 1e6))


def queries(grade, longest):
    row = st.tuples(grade, SCORE)
    return st.lists(st.lists(row, min_size=1, max_size=longest), min_size=1, max_size=4)


def check(lists, names, preset, docids=False):
    y = [g for rows in lists for g, _ in rows]
    s = [x for rows in lists for _, x in rows]
    qid = [f"q{i}" for i, rows in enumerate(lists) for _ in rows]
    docid = [f"d{(7 * i) % len(y)}" for i in range(len(y))] if docids else None
    top = f":max_grade={max(max(y), 0):g}" if PRESETS[preset].max_grade is None else ":max_grade=6"
    names = [name + top if name.startswith("err") else name for name in names]
    each = hr.evaluate(y, s, qid, names, per_query=True, preset=preset, docid=docid)
    for name in names:
        measure = parse_measure(name).with_preset(preset)
        start, expected = 0, []
        for rows in lists:
            ids = docid[start : start + len(rows)] if docids else None
            expected.append(plain_value(measure, [g for g, _ in rows], [x for _, x in rows], ids))
            start += len(rows)
        np.testing.assert_allclose(each[name], expected, rtol=1e-10, atol=1e-12, err_msg=f"{name}:{preset}")
    return each


@pytest.mark.parametrize("preset", [name for name, chosen in PRESETS.items() if chosen.ties != "average"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(lists=queries(WHOLE, 40), docids=st.booleans())
def test_whole_grades(preset, lists, docids):
    check(lists, NAMES, preset, docids)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(lists=queries(REAL, 12))
def test_real_and_negative_grades(lists):
    check(lists, NAMES, "ranklib")
    check(lists, NAMES, "trec")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(lists=queries(REAL, 5))
def test_averaged_ties_of_real_and_negative_grades(lists):
    check(lists, NAMES, "default")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(lists=queries(WHOLE, 5))
def test_averaged_ties(lists):
    check(lists, NAMES, "sklearn")


@pytest.mark.parametrize("names", [[name] for name in NAMES if "@" in name], ids=lambda names: names[0])
def test_averaged_ties_across_the_cutoff(names):
    """Lists so long that only the first places are picked out, with few groups of tied rows, at best across the cut."""
    random = np.random.default_rng(6)
    lists = []
    for n in (45, 60, 13, 30):
        s = random.permutation(n).astype(float)
        best = np.argsort(-s)
        for start in random.permutation([0, 2, 8])[:2]:
            s[best[start : start + 4]] = s[best[start]] * (start != 8)  # one group may have score 0
        lists.append(list(zip(random.integers(0, 3, n).tolist(), s.tolist())))
    check(lists, names, "default")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(lists=queries(st.integers(0, 2), 5), preset=st.sampled_from(["letor3", "mslr", "lightgbm", "ranklib"]))
def test_averaged_ties_under_other_presets(lists, preset):
    names = [name + ":ties=average" for name in NAMES if "ties" in MEASURES[parse_measure(name).kind].options]
    check(lists, names, preset)


def test_without_ties_averaging_is_row_order_to_the_bit():
    random = np.random.default_rng(7)
    y, s, qid = random.integers(0, 4, 3000), random.normal(size=3000), np.repeat(np.arange(20), 150)
    for name in NAMES:
        stable = name + (":ties=stable" if "ties" in MEASURES[parse_measure(name).kind].options else "")
        each = hr.evaluate(y, s, qid, [name, stable], per_query=True)
        np.testing.assert_array_equal(each[name], each[stable])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(lists=queries(WHOLE, 200))
def test_first_places_alone_and_whole_orders_agree(lists):
    """A call that reads few places picks them out, a call that also wants MAP sorts: the values are the same bits."""
    y = [g for rows in lists for g, _ in rows]
    s = [x for rows in lists for _, x in rows]
    qid = [i for i, rows in enumerate(lists) for _ in rows]
    tops = ["ndcg@3", "dcg@2", "p@3", "recall@3", "map@3", "mrr@2", "err@3"]
    alone = hr.evaluate(y, s, qid, tops, per_query=True)
    together = hr.evaluate(y, s, qid, [*tops, "map"], per_query=True)
    for name in tops:
        np.testing.assert_array_equal(alone[name], together[name])


def test_long_lists_with_many_ties():
    """Long enough for every merge width, and tied groups longer than the cutoff."""
    random = np.random.default_rng(3)
    sizes = [1, 15, 16, 17, 33, 500, 2, 64, 129]
    lists = [list(zip(random.integers(0, 4, n).tolist(), random.integers(-20, 20, n).tolist())) for n in sizes]
    check(lists, [name for name in NAMES if name != "mean_ndcg"], "ranklib")
    check(lists, [name for name in NAMES if name != "mean_ndcg"], "lightgbm")


def test_long_tied_groups_have_the_mean_of_random_orders():
    random = np.random.default_rng(8)
    n, times = 120, 1500
    y, s = random.choice(4, p=[0.7, 0.15, 0.1, 0.05], size=n), random.integers(0, 3, n).astype(float)
    names = [f"{name}:max_grade=4" if name.startswith("err") else name for name in NAMES]
    stable = [f"{name}:ties=stable" for name in names if "ties" in MEASURES[parse_measure(name).kind].options]
    orders = np.concatenate([random.permutation(n) for _ in range(times)])
    each = hr.evaluate(y[orders], s[orders], np.repeat(np.arange(times), n), stable, per_query=True)
    for name, values in each.items():
        plain = name.removesuffix(":ties=stable")
        within = 4.5 * values.std() / np.sqrt(times) + 1e-12
        assert hr.evaluate(y, s, 0, plain)[plain] == pytest.approx(values.mean(), abs=within), plain


@pytest.mark.parametrize("threads", ["1", "5"])
def test_shards_and_threads_change_no_bit(threads, monkeypatch):
    random = np.random.default_rng(4)
    qid = np.repeat(np.arange(700), random.integers(1, 200, 700))
    y, s = random.integers(0, 5, len(qid)), random.integers(0, 50, len(qid)).astype(float)
    whole = hr.evaluate(y, s, qid, NAMES, per_query=True, preset="sklearn")
    monkeypatch.setenv("HINGERANK_NUM_THREADS", threads)
    again = hr.evaluate(y, s, qid, NAMES, per_query=True, preset="sklearn")
    some = np.isin(qid, range(300, 310))  # few rows: one shard
    part = hr.evaluate(y[some], s[some], qid[some], NAMES, per_query=True, preset="sklearn")
    for name in NAMES:
        np.testing.assert_array_equal(again[name], whole[name])
        np.testing.assert_array_equal(part[name], whole[name][300:310])


@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_kendall_tau_is_scipys():
    from scipy.stats import kendalltau

    random = np.random.default_rng(5)
    for n in (2, 9, 120):
        y, s = np.arange(n) % 3, random.integers(0, 9, n).astype(float)
        assert hr.evaluate(y, s, None, "kendall_tau")["kendall_tau"] == pytest.approx(kendalltau(y, s).statistic)
