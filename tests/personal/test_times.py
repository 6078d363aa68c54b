"""Ratings with times: splits, weights by age; repeats."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import hingerank as hr
from hingerank.data.files import DataError


@pytest.fixture
def told():
    return hr.ratings_from(list("aabbbc"), [0, 1, 0, 1, 2, 2], [1, 2, 3, 4, 5, 3], times=[5, 1, 2, 9, 4, 8])


def test_repeats_count_alike_in_files_and_in_fits(tmp_path):
    """The mean of several ratings of an item, whether a file was read or arrays were given."""
    X, rows = np.eye(3), [("a", 0, 5), ("a", 1, 3), ("a", 0, 1), ("a", 2, 2.5), ("b", 1, 2), ("b", 2, 4), ("b", 0, 1)]
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n" + "".join(f"{u},{i},{y}\n" for u, i, y in rows))
    with pytest.warns(UserWarning, match="1 ratings repeat an item of the same user: their mean counts"):
        read = hr.read_ratings(path)
    with pytest.warns(UserWarning, match="1 ratings repeat an item of the same user: their mean counts"):
        given = hr.PersonalRankSVM(rank=1, C=1.0).fit(X, *zip(*rows))
    same = hr.PersonalRankSVM(rank=1, C=1.0).fit(X, *read.triples)
    np.testing.assert_allclose(given.predict("a", X), same.predict("a", X), rtol=1e-6)


def test_the_latest_are_tested(told):
    train, test = hr.split_by_time(told, 0.34)
    assert sorted(train.times.tolist()) == [1, 2, 4, 5] and test.times.tolist() == [9]  # c is not known before
    train, test = hr.split_last(told)
    assert test.times.tolist() == [5, 9] and len(train) == 4 and train.users.tolist().count("c") == 1
    assert hr.split_last(told, 2)[1].users.tolist() == ["b", "b"]
    with pytest.raises(DataError, match="no times"):
        hr.split_last(hr.ratings_from([1], [1], [1]))
    with pytest.raises(ValueError, match="n must be a positive whole number, not -1"):
        hr.split_last(told, -1)
    for split in (partial(hr.split_by_user, told), partial(hr.split_by_item, told), hr.make_personal().split):
        with pytest.raises(ValueError, match="seed must be a whole number of at least 0, or None, not 'x'"):
            split(seed="x")


def test_weights_by_age():
    days = np.array(["2024-01-01", "2024-01-11", "2024-01-21"], "M8[D]")
    np.testing.assert_allclose(hr.age_weights(days, 10), [0.25, 0.5, 1])
    np.testing.assert_allclose(hr.age_weights([1.0, 3.0], 2, now=3), [0.5, 1])
    with pytest.raises(ValueError, match="half_life"):
        hr.age_weights([1.0], 0)
    with pytest.raises(DataError, match="times"):
        hr.age_weights([1.0, np.nan], 1)


def test_repeats_are_averaged_or_refused():
    given = ["a", "b", "a"], ["x", "x", "x"], [1, 3, 4]
    with pytest.warns(UserWarning, match="1 ratings repeat"):
        mean = hr.ratings_from(*given)
    assert len(mean) == 2 and sorted(mean.ratings.tolist()) == [2.5, 3]
    last = hr.ratings_from(*given, times=[9, 1, 2], duplicates="last")
    assert sorted(zip(last.users.tolist(), last.ratings.tolist())) == [("a", 1.0), ("b", 3.0)]
    with pytest.raises(DataError, match=r"user 'a' rated item 'x' 2 times \(first at row 0\)"):
        hr.ratings_from(*given, duplicates="error")
    with pytest.raises(ValueError, match="duplicates"):
        hr.ratings_from(*given, duplicates="first")


def test_frames_and_files_in_the_words_of_public_sets(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"userId": [1, 1], "movieId": [7, 9], "rating": [4.0, 2.5], "timestamp": [100, 200]})
    read = hr.read_ratings(frame, time="timestamp")
    assert read.times.tolist() == [100, 200] and read.item_ids.tolist() == [7, 9]
    frame.to_csv(tmp_path / "r.csv", index=False)
    assert hr.read_ratings(tmp_path / "r.csv", time="timestamp").times.tolist() == [100, 200]
    (tmp_path / "bad.csv").write_text("userId,movieId,rating\n1,7,4\n1,9,\n")
    with pytest.raises(DataError, match=r"bad\.csv, line 3, column 3: found '', expected a finite number"):
        hr.read_ratings(tmp_path / "bad.csv")
    with pytest.raises(DataError, match="ratings_from"):
        hr.JointRanker().fit(np.eye(2), [1, 1], ["x", "y"], [1, 2])


def test_dates_of_iso_8601(tmp_path):
    lines = ["user,item,rating,when", "1,a,5,2024-01-02", "1,b,3,2024-01-03T10:00:00Z", "2,a,4,2024-01-03 10:00+02:00"]
    expected = ["2024-01-02T00", "2024-01-03T10", "2024-01-03T08"]
    (tmp_path / "dated.csv").write_text("\n".join(lines))
    frame = {name: [line.split(",")[place] for line in lines[1:]] for place, name in enumerate(lines[0].split(","))}
    frame["rating"] = [float(value) for value in frame["rating"]]
    for source in (tmp_path / "dated.csv", pa.table(frame)):
        assert (hr.read_ratings(source, time="when").times == np.array(expected, "M8[us]")).all()
    for row, wrong in ((4, "17"), (3, "2024-13-01"), (2, "")):
        (tmp_path / "wrong.csv").write_text("\n".join([*lines[: row - 1], f"3,a,2,{wrong}"]))
        with pytest.raises(DataError, match=f"line {row}, column 4: found '{wrong}', expected a number, or a date"):
            hr.read_ratings(tmp_path / "wrong.csv", time="when")
    with pytest.raises(DataError, match=r"times\[1\] is 'soon', expected a date"):
        hr.ratings_from([1, 1], [1, 2], [3, 4], times=["2024-01-01", "soon"])


def test_ages_count_from_any_moment():
    np.testing.assert_allclose(hr.age_weights([0, 10], 10, now=12.5), 0.5 ** np.array([1.25, 0.25]))
    times = np.array([0, 10], np.uint32)
    np.testing.assert_allclose(hr.age_weights(times, 10, now=5), 0.5 ** np.array([0.5, 0.0]))
    dates = np.array(["2024-01-01", "2024-01-11"], "M8[D]")
    np.testing.assert_allclose(hr.age_weights(dates, 10, now="2024-01-21T12:00:00Z"), 0.5 ** np.array([2.05, 1.05]))
    assert hr.age_weights([], 10).tolist() == []
    with pytest.raises(DataError, match="times are numbers: give the same kind"):
        hr.age_weights([0, 10], 10, now="2024-01-21")
