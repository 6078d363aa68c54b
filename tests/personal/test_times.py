"""Ratings with times: splits, weights by age; repeats."""

import numpy as np
import pytest

import hingerank as hr
from hingerank.data.files import DataError


@pytest.fixture
def told():
    return hr.ratings_from(list("aabbbc"), [0, 1, 0, 1, 2, 2], [1, 2, 3, 4, 5, 3], times=[5, 1, 2, 9, 4, 8])


def test_the_latest_are_tested(told):
    train, test = hr.split_by_time(told, 0.34)
    assert sorted(train.times.tolist()) == [1, 2, 4, 5] and test.times.tolist() == [9]  # c is not known before
    train, test = hr.split_last(told)
    assert test.times.tolist() == [5, 9] and len(train) == 4 and train.users.tolist().count("c") == 1
    assert hr.split_last(told, 2)[1].users.tolist() == ["b", "b"]
    with pytest.raises(DataError, match="no times"):
        hr.split_last(hr.ratings_from([1], [1], [1]))


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
