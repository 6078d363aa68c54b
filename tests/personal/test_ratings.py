"""Ratings and comparisons from files and frames, MovieLens in its editions, item features and splits."""

import gzip
import lzma
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from hingerank.data.files import DataError
from hingerank.personal.factorized import PersonalRankSVM
from hingerank.personal.item_features import (
    embedding_features,
    genre_features,
    identity_features,
    join_features,
    word_features,
)
from hingerank.personal.rating_sets import open_ratings, plain_titles, read_items, read_movielens
from hingerank.personal.ratings import (
    ratings_from,
    read_ratings,
    split_by_item,
    split_by_user,
)

SHARED = Path(os.environ.get("HINGERANK_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def real(name):
    if not (SHARED / name).is_dir():
        pytest.skip(f"{name} is not in $HINGERANK_DATA or ../shared/data")
    return SHARED / name


class TestFiles:
    @pytest.mark.parametrize("delimiter", ["\t", ",", ";", "::", " ", "|"])
    @pytest.mark.parametrize("names", [False, True])
    def test_delimiters_and_names(self, tmp_path, delimiter, names):
        rows = [["user", "item", "rating"]] * names + [["7", "30", "4.5"], ["7", "10", "1"], ["-2", "30", "3"]]
        path = tmp_path / "ratings.txt"
        path.write_text("\n".join(delimiter.join(row) for row in rows) + "\n")
        made = read_ratings(path)
        assert made.users.tolist() == [7, 7, -2] and made.users.dtype.kind == "i"
        assert made.item_ids.tolist() == [10, 30] and made.items.tolist() == [1, 0, 1]
        assert made.ratings.tolist() == [4.5, 1.0, 3.0]

    def test_columns_by_name_and_number(self, tmp_path):
        path = tmp_path / "log.csv"
        path.write_text('stars,when,film,who\n5,x,Alien,ann\n2,y,"Good, the Bad",bob\n')
        named = read_ratings(path, user="who", item="film", rating="stars")
        assert named.users.tolist() == ["ann", "bob"] and named.item_ids.tolist() == ["Alien", "Good, the Bad"]
        numbered = read_ratings(path, user=3, item=2, rating=0)
        assert numbered.users.tolist() == ["ann", "bob"] and numbered.ratings.tolist() == [5.0, 2.0]
        with pytest.raises(DataError, match="no column 'score'; the first line has: stars, when, film, who"):
            read_ratings(path, user="who", item="film", rating="score")

    def test_compressed_and_odd_text(self, tmp_path):
        (tmp_path / "a.gz").write_bytes(gzip.compress(b"1\t2\t3\r\n4\t5\t6\r\n"))
        assert read_ratings(tmp_path / "a.gz").ratings.tolist() == [3.0, 6.0]
        (tmp_path / "b.txt").write_bytes("\ufeffuser,item,rating\nJos\u00e9,caf\u00e9,3\n".encode())
        assert read_ratings(tmp_path / "b.txt").users.tolist() == ["Jos\u00e9"]
        (tmp_path / "c.txt").write_bytes("Jos\u00e9,caf\u00e9,3\n".encode("latin-1"))
        assert read_ratings(tmp_path / "c.txt").item_ids.tolist() == ["caf\u00e9"]
        (tmp_path / "d.txt").write_text("007,x1,3\n08,x2,4\n")
        assert read_ratings(tmp_path / "d.txt").users.tolist() == ["007", "08"]

    def test_errors_name_the_place(self, tmp_path):
        path = tmp_path / "r.csv"
        path.write_text("ann,x,5\nbob,y\n")
        with pytest.raises(DataError, match=r"r.csv, line 2: 2 columns, expected at least 3"):
            read_ratings(path)
        path.write_text("ann,x,5\nbob,y,good\n")
        with pytest.raises(DataError, match=r"r.csv, line 2, column 3: found 'good', expected a finite number"):
            read_ratings(path)
        for word in ("1_0", "٣", "1e999", "0x10", "nan", ""):
            path.write_text(f"1,2,5\n1,3,{word}\n")
            with pytest.raises(DataError, match=f"r.csv, line 2, column 3: found '{word}', expected a finite number"):
                read_ratings(path)
        path.write_text("1,2\n")
        with pytest.raises(DataError, match="line 1 has 2 columns, expected at least 3"):
            read_ratings(path)
        for swallowed in ('"y,4\ncy,"z",3', '"y,4\ncy,z,3', 'y,4,"5\ncy,z,3', 'y,4,"5\ncy,z,3,5"'):
            path.write_text(f"ann,x,5\nbob,{swallowed}\n")
            with pytest.raises(DataError, match=r"r.csv, line 2: a quote .* is opened and not closed on this line"):
                read_ratings(path)
        path.write_text("user,item,rating,rating\n1,2,3,4\n")
        with pytest.raises(DataError, match="line 1 has two columns 'rating'"):
            read_ratings(path)
        path.write_bytes(b"ann,x,5\rbob,y,4\r")  # as very old programs end lines
        assert read_ratings(path).ratings.tolist() == [5, 4]
        path.write_text("")
        with pytest.raises(DataError, match="first line is empty"):
            read_ratings(path)
        with pytest.raises(DataError, match="no such file"):
            read_ratings(tmp_path / "none.csv")


class TestFrames:
    @pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
    def test_frames(self, library, tmp_path):
        module = pytest.importorskip(library)
        columns = {"user": ["a", "b"], "item": [10, 20], "rating": [1.0, 2.0]}
        table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
        made = read_ratings(table)
        assert made.users.tolist() == ["a", "b"] and made.item_ids.tolist() == [10, 20]
        with pytest.raises(DataError, match="no column 'stars'; the columns are: user, item, rating"):
            read_ratings(table, rating="stars")

    def test_parquet(self, tmp_path):
        pq = pytest.importorskip("pyarrow.parquet")
        pa = pytest.importorskip("pyarrow")
        pq.write_table(pa.table({"user": [1], "item": ["x"], "rating": [3], "more": [0]}), tmp_path / "r.parquet")
        assert read_ratings(tmp_path / "r.parquet").ratings.tolist() == [3.0]

    def test_not_a_frame(self):
        with pytest.raises(DataError, match="expected a data frame or the path"):
            read_ratings(42)


class TestItemIds:
    def test_items_follow_the_features(self):
        made = ratings_from([1, 2], ["b", "c"], [1, 2], item_ids=["c", "a", "b"])
        assert made.items.tolist() == [2, 0] and made.n_items == 3
        with pytest.raises(DataError, match=r"items has 'd' at row 1, which is not in item_ids, .*\['"):
            ratings_from([1, 2], ["b", "d"], [1, 2], item_ids=["c", "a", "b"])
        with pytest.raises(DataError, match="twice"):
            ratings_from([1], ["b"], [1], item_ids=["b", "b"])

    def test_ids_of_two_files_are_compared_as_text(self):
        """A file of 1 and 2 has numbers, and one of 1, 2 and x has texts."""
        for ids in (["x", "2", "1"], np.array(["x", "2", "1"], object)):
            assert ratings_from(["ann", "bob"], [1, 2], [1, 2], item_ids=ids).items.tolist() == [2, 1]
        assert ratings_from(["ann", "bob"], ["1", "2"], [1, 2], item_ids=[2, 1]).items.tolist() == [1, 0]
        with pytest.raises(DataError, match=r"items has 1 at row 0, .*\['001'"):
            ratings_from(["ann"], [1], [1], item_ids=["001"])
        with pytest.raises(DataError, match="the first are"):
            ratings_from(["ann"], [1], [1], item_ids=[])

    def test_mixed_ids(self):
        made = ratings_from([1, 2, 1], np.array(["x", 3, 3], object), [1, 2, 3])
        assert len(made.item_ids) == 2 and made.items[1] == made.items[2]

    @pytest.mark.parametrize("ids", [[1, "1", 2], np.array([1, "1", 2], object), ("1", 2, 1, "x")])
    def test_ids_that_look_alike_are_an_error(self, ids):
        """A file holds the same text for both, so that one user (or item) would be two."""
        with pytest.raises(DataError, match="items has both '1' and 1"):
            ratings_from(["a"] * len(ids), ids, range(len(ids)))
        with pytest.raises(DataError, match="users has both '1' and 1"):
            PersonalRankSVM(rank=1).fit(np.eye(4), ids, np.arange(len(ids)), np.arange(len(ids)))

    def test_bad_ratings(self):
        with pytest.raises(DataError, match="finite"):
            ratings_from([1], [2], [np.nan])
        with pytest.raises(DataError, match="users has shape"):
            ratings_from([1, 2], [2], [1])


class TestMovieLens:
    def test_100k(self, tmp_path):
        genres = "|".join(["0"] * 5 + ["1"] + ["0"] * 13)
        (tmp_path / "u.item").write_bytes(
            f"1|Caf\u00e9 Soci\u00e9t\u00e9 (1995)|01-Jan-1995||http://x|{genres}\n".encode("latin-1")
        )
        (tmp_path / "u.data").write_text("196\t1\t3\t881250949\n")
        (tmp_path / "u1.base").write_text("5\t1\t2\t881250949\n")
        made = read_movielens(tmp_path)
        assert made.titles.tolist() == ["Caf\u00e9 Soci\u00e9t\u00e9 (1995)"] and made.genres == [("Comedy",)]
        assert made.users.tolist() == [196] and read_movielens(tmp_path, "u1.base").users.tolist() == [5]

    def test_1m_compressed(self, tmp_path):
        (tmp_path / "movies.dat.xz").write_bytes(lzma.compress(b"3::Heat (1995)::Action|Crime\n5::X::Drama\n"))
        (tmp_path / "ratings.dat.xz").write_bytes(lzma.compress(b"1::5::4::978300760\n2::3::1::978300761\n"))
        made = read_movielens(tmp_path)
        assert (
            made.items.tolist() == [1, 0] and made.genres[0] == ("Action", "Crime") and made.item_ids.tolist() == [3, 5]
        )

    def test_latest(self, tmp_path):
        (tmp_path / "movies.csv").write_text(
            'movieId,title,genres\n3,"Heat, The (1995)",Action\n5,Y,(no genres listed)\n'
        )
        (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,5,4.5,978300760\n")
        made = read_movielens(tmp_path)
        assert made.titles[0] == "Heat, The (1995)" and made.genres == [("Action",), ()]
        assert made.ratings.tolist() == [4.5] and plain_titles(made.titles)[0] == "The Heat"

    def test_unusual_characters_end_no_line(self, tmp_path):
        """U+0085 and U+2028 count as line ends for str.splitlines only."""
        (tmp_path / "movies.dat").write_bytes("3::Heat\x85 (1995)::Action\n5::\u2028X::Drama\n".encode())
        (tmp_path / "ratings.dat").write_bytes(b"1::5::4::978300760\r\n2::3::1::978300761\r\n")
        made = read_movielens(tmp_path)
        assert made.titles.tolist() == ["Heat\x85 (1995)", "\u2028X"] and made.ratings.tolist() == [4.0, 1.0]

    def test_missing(self, tmp_path):
        with pytest.raises(DataError, match="no MovieLens files here"):
            read_movielens(tmp_path)

    def test_the_real_100k(self):
        made = read_movielens(real("ml-100k"))
        assert repr(made) == "Ratings(100000 ratings of 1682 items by 943 users)"
        assert (len(read_movielens(real("ml-100k"), "u1.base")), len(read_movielens(real("ml-100k"), "u1.test"))) == (
            80000,
            20000,
        )
        assert made.titles[0] == "Toy Story (1995)" and made.genres[0] == ("Animation", "Children's", "Comedy")


class TestFeatures:
    def test_words(self):
        X, names = word_features(["red fish", "blue fish", "red red"], min_items=2, weighting="count")
        assert names == ["fish", "red"] and X.toarray().tolist() == [[1, 1], [1, 0], [0, 2]]
        X, _ = word_features(["red fish", "blue fish", "red red"])
        assert X.max() == 1 and sp.issparse(X)
        X, _ = word_features(["red fish", "blue fish", "red red"], weighting="tfidf")
        np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(axis=1)), 1)
        with pytest.raises(DataError, match="no word is in the texts of 2 or more items"):
            word_features(["a b", "c d"])
        with pytest.raises(ValueError, match="weighting"):
            word_features(["a b"], weighting="x")

    def test_embeddings(self):
        matrix = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
        X, names = embedding_features(["b", "a"], ["a", "b"], matrix)
        assert X.tolist() == [[3, 4], [1, 2]] and X.dtype == np.float32 and names == ["e1", "e2"]
        with pytest.raises(DataError, match="1 items have no embedding, such as 'z'"):
            embedding_features(["z", "a"], ["a", "b"], matrix)
        assert embedding_features(["z", "a"], ["a", "b"], matrix, missing="zero")[0].tolist() == [[0, 0], [1, 2]]
        with pytest.raises(DataError, match="ids has an id twice"):
            embedding_features(["a"], ["a", "a"], matrix)

    def test_identity(self):
        X, names = join_features(genre_features([("War",), ()]), identity_features([7, 8]))
        assert names == ["War", "item 7", "item 8"]
        assert X.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]

    def test_genres_in_one_text_are_not_its_letters(self):
        with pytest.raises(DataError, match=r"genres\[1\] is the text 'Drama\|War', expected a list"):
            genre_features([("War",), "Drama|War"])

    def test_join(self):
        genres, dense = genre_features([("x",), ("y",)]), (np.ones((2, 1)), ["one"])
        X, names = join_features(genres, dense)
        assert sp.issparse(X) and X.toarray().tolist() == [[1, 0, 1], [0, 1, 1]] and names == ["x", "y", "one"]
        assert not sp.issparse(join_features(dense, dense)[0])
        with pytest.raises(DataError, match="different numbers of items"):
            join_features(genres, (np.ones((3, 1)), ["one"]))


@pytest.mark.parametrize("name", ["items", "ratings", "times"])
def test_masked_values_are_refused(name):
    columns = {"users": [1, 2, 3], "items": [0, 1, 2], "ratings": [3, 4, 5], "times": [6, 7, 8]}
    columns[name] = np.ma.masked_array(columns[name], [False, True, False])
    with pytest.raises(DataError, match=f"{name} is a masked array with 1 masked values"):
        ratings_from(**columns)
    if name != "times":
        del columns["times"]
        with pytest.raises(DataError, match=f"{name} is a masked array with 1 masked values"):
            PersonalRankSVM().fit(np.eye(3), **columns)


class TestSplits:
    @pytest.fixture
    def made(self):
        rng = np.random.default_rng(0)
        counts = rng.integers(1, 30, 50)
        users = np.repeat([f"u{u}" for u in range(50)], counts)
        items = np.concatenate([rng.choice(40, count, replace=False) for count in counts])
        order = rng.permutation(len(users))
        return ratings_from(users[order], items[order], rng.integers(1, 6, len(users)))

    def test_by_user(self, made):
        train, test = split_by_user(made, 0.3, seed=4)
        assert len(train) + len(test) == len(made)
        for user in np.unique(made.users):
            mine, held = (made.users == user).sum(), (test.users == user).sum()
            assert held == min(round(0.3 * mine), mine - 1)
            assert not set(train.items[train.users == user]) & set(test.items[test.users == user])
        again = split_by_user(made, 0.3, seed=4)[1]
        assert np.array_equal(again.items, test.items)
        assert not np.array_equal(split_by_user(made, 0.3, seed=5)[1].items, test.items)

    def test_by_item(self, made):
        train, test = split_by_item(made, 0.25, seed=1)
        assert not set(train.items) & set(test.items) and len(set(test.items)) == 10
        assert set(test.users) <= set(train.users) and test.n_items == made.n_items
        everyone = split_by_item(made, 0.25, seed=1, known_users=False)[1]
        assert len(everyone) + len(train) == len(made) and len(everyone) >= len(test)

    @pytest.mark.parametrize("share", [0, 1, -0.5, "x"])
    def test_bad_share(self, made, share):
        with pytest.raises(ValueError, match="test_size must be a number between 0 and 1, not"):
            split_by_user(made, share)


@pytest.mark.parametrize(
    "ids, expected",
    [
        (["76561197970982479", "76561197970982480"], [76561197970982479, 76561197970982480]),
        (["18446744073709551615", "18446744073709551614"], ["18446744073709551615", "18446744073709551614"]),
        (["007", "7"], ["007", "7"]),
        (["7", "-12"], [7, -12]),
    ],
)
def test_ids_of_digits_stay_apart(tmp_path, ids, expected):
    """float64 cannot tell two neighbours among 17 digits apart, and as a number 007 is 7."""
    path, items = tmp_path / "ratings.csv", tmp_path / "items.csv"
    path.write_text("user,item,rating\n" + "".join(f"{user},{user},{place}\n" for place, user in enumerate(ids)))
    items.write_text("item,size\n" + "".join(f"{item},1.5\n" for item in ids))
    assert read_ratings(path).users.tolist() == expected
    ratings, _ = open_ratings(path, items)
    assert ratings.item_ids.tolist() == expected and ratings.items.tolist() == [0, 1]


@pytest.mark.parametrize("text", ["user,item,rating\n1,5,3\n,6,4\n", "user;item;rating\nann;a;3\n ;b;4\n"])
def test_a_rating_without_a_user_is_refused(tmp_path, text):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(DataError, match="line 3, column 1: found '', expected an id"):
        read_ratings(tmp_path / "r.csv")


def test_ids_with_decimals_stay_different(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\n1,1.1,3.50\n1,1.10,4\n2,2,1\n")
    rated = read_ratings(tmp_path / "r.csv")
    assert rated.item_ids.tolist() == ["1.1", "1.10", "2"] and rated.ratings.tolist() == [3.5, 4, 1]
    (tmp_path / "r.csv").write_text("user,item,rating\n1,1.5,3\n1,2.5,4\n")
    assert read_ratings(tmp_path / "r.csv").item_ids.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("name, text, problem", [
    ("i.csv", "item,year\n,1990\n2,1991\n", "column 'item' has empty cells: give every item an id"),
    ("i.txt", "|1990|car\n2|1991|car\n", "column 'column 1' has 1 empty cells: fill them"),
    ("i.txt", "|1990|car\nb|1991|car\n", "column 'column 1' has empty cells: give every item an id"),
    ("i.txt", "1|1990|car\n2||car\n3|1990|car\n", "column 'column 2' has 1 empty cells: fill them"),
    ("i.txt", "1|1990|car\n2|NA|car\n3|1990|car\n", "column 'column 2' has 1 empty cells: fill them"),
    ("i.csv", "item,name\n1,car\n2,bus\n", "i.csv: column 'name' has no word that two items share: leave it out"),
])  # fmt: skip
def test_tables_of_items_with_gaps_are_refused(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=problem):
        read_items(tmp_path / name)


@pytest.mark.parametrize("name", ["i.csv", "i.txt"])
def test_without_pyarrow_tables_of_items_name_the_extra(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("item,kind\n1,car\n2,car\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "hingerank.data.tables", raising=False)
    with pytest.raises(DataError, match=r"hingerank\[frames\]"):
        read_items(tmp_path / name)


def test_categories_of_items_are_words(tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"item": [3, 5], "kind": pd.Categorical(["car", "car"])})
    table.to_parquet(tmp_path / "i.parquet")
    assert read_items(tmp_path / "i.parquet")[1][1] == ["kind: car"]


def test_cells_of_one_letter_are_words(tmp_path):
    sizes = ["S", "M", "L", "XL", "S", "M", "L", "XL"]
    lines = [f"{item},{size},plan {size}\n" for item, size in enumerate(sizes)]
    (tmp_path / "i.csv").write_text("item,size,title\n" + "".join(lines))
    X, names = read_items(tmp_path / "i.csv")[1]
    assert names == ["size: l", "size: m", "size: s", "size: xl", "title: plan", "title: xl"]
    assert (X.sum(axis=0) == [2, 2, 2, 2, 8, 2]).all()


def test_ids_of_tables_are_those_of_texts(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"user": [1.0, 2.0], "item": [7.0, 8.0], "rating": [3.0, 4.0]})
    frame.to_csv(tmp_path / "r.csv", index=False)
    frame.to_parquet(tmp_path / "r.parquet")
    for source in (tmp_path / "r.csv", tmp_path / "r.parquet", frame):
        read = read_ratings(source)
        assert read.users.dtype == read.item_ids.dtype == np.int64 and read.item_ids.tolist() == [7, 8]
    assert read_ratings(frame / 2).item_ids.tolist() == [3.5, 4.0]
    with pytest.raises(DataError, match="users is missing"):
        read_ratings(frame.replace({"user": {2.0: np.nan}}))
