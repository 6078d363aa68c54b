"""Query blocks: ids of any type and order against a dictionary, group counts, and errors that read well."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hingerank.data.blocks import blocks_from_group, blocks_from_qid, number_ids, number_values
from hingerank.data.checks import positive, whole
from hingerank.data.files import DataError

NAMES = ["WT04-132", "q1", "", "Ünïcode", "1", "a much longer id than the others"]
KINDS = {
    "int64": lambda c: c.astype(np.int64) * 7 - 3,
    "far apart": lambda c: c.astype(np.int64) * 10**15,
    "uint64": lambda c: c.astype(np.uint64) + np.uint64(2**64 - 10),
    "int8": lambda c: c.astype(np.int8),
    "float": lambda c: c / 4,
    "text": lambda c: np.array([NAMES[i] for i in c], dtype=str),
    "bytes": lambda c: np.array([NAMES[i].encode() for i in c], dtype=bytes),
    "object text": lambda c: np.array([NAMES[i] for i in c], dtype=object),
    "mixed": lambda c: np.array([[1, "l", 2.5, (1, 2), True, None.__class__][i] for i in c] + [()], dtype=object)[:-1],
    "dates": lambda c: np.array([datetime.date(2020, 1, 1 + i) for i in c], dtype="datetime64[D]"),
    "column": lambda c: c[:, None],
    "list of large numbers": lambda c: [2**63 + int(i) if i else 7 for i in c],
    "list of large and negative numbers": lambda c: [2**63 + int(i) if i else -7 for i in c],
    "list of large numbers and others": lambda c: [2**53 + int(i) if i else 0.5 for i in c],
    "list": lambda c: [NAMES[i] for i in c],
}


def by_dictionary(ids):
    groups = {}
    for row, i in enumerate(ids if isinstance(ids, list) else ids.ravel().tolist()):
        groups.setdefault(i, []).append(row)
    return groups


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_any_ids_in_any_order(kind, codes):
    codes = np.array(codes)
    qid = KINDS[kind](codes)
    blocks = blocks_from_qid(qid, len(codes))
    expected = by_dictionary(qid)
    assert blocks.ids.tolist() == list(expected)
    assert blocks.sizes.tolist() == [len(rows) for rows in expected.values()]
    order = np.concatenate(list(expected.values()))
    np.testing.assert_array_equal(np.arange(len(codes)) if blocks.order is None else blocks.order, order)
    assert (blocks.order is None) == bool((order == np.arange(len(codes))).all())
    assert blocks.offsets.dtype == np.int64 and blocks.n_rows == len(codes)
    back = blocks.scatter(blocks.gather(codes))
    np.testing.assert_array_equal(back, codes)


def test_large_shuffled_ids():
    qid = np.random.default_rng(0).integers(0, 500, 20_000)
    blocks = blocks_from_qid(qid, len(qid))
    grouped = qid[blocks.order]
    assert (np.diff(blocks.order)[np.diff(grouped) == 0] > 0).all(), "rows of a query keep their order"
    np.testing.assert_array_equal(np.repeat(blocks.ids, blocks.sizes), grouped)


def test_no_qid_is_one_query():
    blocks = blocks_from_qid(None, 7)
    assert len(blocks) == 1 and blocks.offsets.tolist() == [0, 7] and blocks.order is None


def test_no_rows():
    assert len(blocks_from_qid(np.empty(0, int), 0)) == 0
    assert len(blocks_from_qid(np.empty(0, object), 0)) == 0


@pytest.mark.parametrize(
    ("qid", "words"),
    [
        ([1, 2], "shape (2,), expected one id for each of the 3 rows"),
        (np.zeros((3, 2)), "shape (3, 2)"),
        ([1.0, np.nan, 2.0], "missing (nan) at row 1"),
        (np.array(["a", None, "b"], object), "missing (None) at row 1"),
        (np.array(["a", "b", float("nan")], object), "missing (nan) at row 2"),
        (np.array(["2020-01-01", "NaT", "NaT"], "datetime64[D]"), "missing (NaT) at row 1"),
        (np.array([1, {}, 2], object), "a dict at row 1"),
        (np.zeros(3, [("a", int)]), "give text or numbers"),
    ],
)
def test_bad_ids(qid, words):
    with pytest.raises(DataError) as error:
        blocks_from_qid(qid, 3)
    assert words in str(error.value)


def test_group_counts():
    blocks = blocks_from_group([2, 0, 3.0], 5)
    assert blocks.offsets.tolist() == [0, 2, 5] and blocks.order is None


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ([2, 2], "add up to 4 rows but there are 5"),
        ([2.5, 2.5], "whole numbers"),
        ([6, -1], "non-negative"),
        (["a"], "whole numbers"),
        ([[5]], "whole numbers"),
        ([5, np.nan], "whole numbers"),
        ([5, np.inf], "whole numbers"),
    ],
)
def test_bad_groups(group, words):
    with pytest.raises(DataError, match=words):
        blocks_from_group(group, 5)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_numbers_of_any_ids_by_first_appearance(kind, codes):
    ids = KINDS[kind](np.array(codes))
    distinct, numbers = number_ids(ids, len(codes), "ids")
    expected = by_dictionary(ids)
    assert distinct.tolist() == list(expected) and numbers.dtype == np.int32
    assert [np.flatnonzero(numbers == k).tolist() for k in range(len(distinct))] == list(expected.values())


def test_no_ids_to_number():
    with pytest.raises(DataError, match="users is empty"):
        number_ids([], 0, "users")


def test_numbers_of_values_go_on():
    known = {}
    assert number_values(["b", (1, 2), "b"], known).tolist() == [0, 1, 0]
    assert number_values([(1, 2), "c"], known).tolist() == [1, 2] and list(known) == ["b", (1, 2), "c"]


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "1", None, True, [1]])
def test_numbers_that_are_not_positive(value):
    with pytest.raises(ValueError, match="C must be a positive number, not"):
        positive("C", value)
    with pytest.raises(ValueError, match="rank must be a positive whole number, not"):
        whole("rank", value)


def test_positive_and_whole_numbers():
    assert positive("C", np.float32(0.5)) == 0.5 and isinstance(positive("C", 2), float)
    assert whole("rank", 3.0) == 3 and isinstance(whole("rank", np.int8(3)), int) and whole("rank", 0, least=0) == 0
    with pytest.raises(ValueError, match=r"rank must be a whole number of at least 2, not 1\.5"):
        whole("rank", 1.5, least=2)


def test_missing_ids_among_texts_in_a_list_are_refused():
    """NumPy makes the text "nan" of them, as in df["query"].tolist()."""
    for missing in (float("nan"), np.nan, None):
        with pytest.raises(DataError, match=r"qid is missing .* at row 1"):
            blocks_from_qid(["a", missing, "b", missing], 4)
    assert blocks_from_qid(["a", 1, "a"], 3).sizes.tolist() == [2, 1]


def test_ids_that_look_alike_are_refused():
    with pytest.raises(DataError, match=r"qid has both .* which look alike: give all ids as text"):
        blocks_from_qid(np.array([1, "1"], dtype=object), 2)
