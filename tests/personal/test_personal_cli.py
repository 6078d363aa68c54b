"""Ratings on the command line, from fit to lists."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.data.tables import read_table


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    data = hr.make_personal(20, 30, 4, 2, kind="ratings", per_user=12, seed=0)
    lines = [f"u{u},i{i},{y:g}" for u, i, y in zip(data.users, data.items, data.ratings)]
    Path("train.csv").write_text("user,item,rating\n" + "\n".join(lines[: 12 * 15]) + "\n")
    Path("new.csv").write_text("user,item,rating\n" + "\n".join(lines[12 * 15 :]) + "\n")
    rows = [f"i{i}," + ",".join(f"{x:.6f}" for x in row) for i, row in enumerate(data.item_features)]
    Path("items.csv").write_text("item,a,b,c,d\n" + "\n".join(rows) + "\n")

    def run(*arguments):
        capsys.readouterr()
        status = main([str(word) for word in arguments])
        written = capsys.readouterr()
        assert "Traceback" not in written.err
        return status, written.out, written.err

    return run


FIT = [
    "fit",
    "train.csv",
    "--items",
    "items.csv",
    "--model",
    "personal-rank-svm",
    "-o",
    "model/",
    "--force",
    "--set",
    "rank=2",
]


def test_the_whole_road(call):
    import pyarrow.parquet as pq
    from pyarrow import feather

    assert call(*FIT)[0] == 0
    status, out, _ = call("recommend", "model/", "--user", "u3", "--top", "4", "--exclude", "train.csv")
    lines = [line.split("\t") for line in out.splitlines()]
    assert status == 0 and [line[1] for line in lines] == list("1234") and {line[0] for line in lines} == {"u3"}
    ranker, seen = hr.load("model/"), {r.split(",")[1] for r in Path("train.csv").read_text().split() if "u3," in r}
    X = np.loadtxt("items.csv", delimiter=",", skiprows=1, usecols=range(1, 5))
    scores = ranker.predict("u3", X)
    best = [f"i{i}" for i in np.argsort(-scores) if f"i{i}" not in seen][:4]
    assert [line[2] for line in lines] == best
    assert call("recommend", "model/", "--all", "--top", "3", "-o", "recs.parquet")[0] == 0
    table = pq.read_table("recs.parquet")
    assert table.column_names == ["user", "rank", "item", "score"] and table.num_rows == 15 * 3
    assert call("recommend", "model/", "--all", "--top", "3", "-o", "recs.csv")[0] == 0
    assert Path("recs.csv").read_text().startswith("user,rank,item,score\nu0,1,")
    for name in ("recs.pq", "recs.feather", "recs.tsv.gz"):
        assert call("recommend", "model/", "--all", "--top", "3", "-o", name)[0] == 0
    assert pq.read_table("recs.pq").equals(table) and feather.read_table("recs.feather").equals(table)
    assert gzip.decompress(Path("recs.tsv.gz").read_bytes()).decode() == Path("recs.csv").read_text().replace(",", "\t")
    assert call("recommend", "model/", "--all", "-o", "all.feather", "--json")[0] == 1
    assert len(json.loads(call("recommend", "model/", "--user", "u3", "--json")[1])["u3"]) == 10
    Path("pairs.csv").write_text("user,item\nu3,i5\nu4,i7\n")
    status, out, _ = call("rank", "model/", "pairs.csv")
    assert [float(x) for x in out.split()] == pytest.approx([ranker.predict("u3", X)[5], ranker.predict("u4", X)[7]])
    status, out, _ = call("add-users", "model/", "new.csv", "--json")
    assert status == 0 and json.loads(out)["users now"] == 20
    assert call("recommend", "model/", "--user", "u19")[0] == 0
    found = json.loads(call("evaluate", "new.csv", "model/", "--top", "5", "--exclude", "train.csv", "--json")[1])
    assert found["users"] == 5 and 0 <= found["means"]["recall"] <= 1
    assert "recall@5" in call("evaluate", "new.csv", "model/", "--top", "5", "--relevant", "4")[1]


@pytest.mark.parametrize("at_once", [4, 20_000])
def test_nobody_is_offered_what_they_have_rated(call, monkeypatch, at_once):
    """Also beyond the first block of users."""
    monkeypatch.setattr("hingerank.personal.top_n.USERS_AT_ONCE", at_once)
    assert call(*FIT)[0] == 0
    status, out, _ = call("recommend", "model/", "--all", "--top", "30")
    assert out == call("recommend", "model/", "--all", "--top", "30", "--exclude", "train.csv")[1]
    offered = {tuple(line.split("\t")[::2]) for line in out.splitlines()}
    rated = {tuple(line.split(",")[:2]) for line in Path("train.csv").read_text().split()[1:]}
    assert status == 0 and not offered & rated and len(offered | rated) == 15 * 30


def test_new_items_are_aligned_by_their_columns(call):
    assert call(*FIT)[0] == 0
    same = call("recommend", "model/", "--user", "u1")[1]
    turned = ["item,d,c,extra,b,a"]
    for line in Path("items.csv").read_text().split()[1:]:
        i, a, b, c, d = line.split(",")
        turned.append(f"{i},{d},{c},9,{b},{a}")
    Path("turned.csv").write_text("\n".join(turned) + "\n")
    assert call("recommend", "model/", "--user", "u1", "--items", "turned.csv")[1] == same


def test_tune_and_clicks(call):
    status, out, err = call(
        "tune", "train.csv", "--items", "items.csv", "--model", "personal-rank-svm,joint", "--folds", "2",
        "--measure", "pair_accuracy", "--set", "C=0.01,0.1", "-o", "model/", "--json",
    )  # fmt: skip
    assert status == 0, err
    assert json.loads(out)["measure"] == "pair_accuracy" and call("recommend", "model/", "--user", "u1")[0] == 0
    assert call(*FIT, "--clicks")[0] == 0


def test_old_ratings_count_less(call):
    lines = Path("train.csv").read_text().split()
    days = [7.0 * (n % 50) for n in range(len(lines) - 1)]
    dated = ["user,item,rating,timestamp", *(f"{line},{86400 * day:.0f}" for line, day in zip(lines[1:], days))]
    Path("dated.csv").write_text("\n".join(dated) + "\n")
    status, _, err = call("fit", "dated.csv", *FIT[2:], "--half-life", "30")
    assert status == 0, err
    X = np.loadtxt("items.csv", delimiter=",", skiprows=1, usecols=range(1, 5))
    told = hr.read_ratings("dated.csv", time="timestamp", item_ids=[f"i{i}" for i in range(30)])
    weight = 0.5 ** ((max(days) - np.array(days)) / 30)
    order = [f"{u},i{i}" for u, i in zip(told.users, told.items)]
    by_line = {line.rpartition(",")[0]: w for line, w in zip(lines[1:], weight)}
    same = hr.PersonalRankSVM(rank=2).fit(X, *told.triples, sample_weight=[by_line[key] for key in order])
    np.testing.assert_allclose(hr.load("model/").predict("u3", X), same.predict("u3", X), rtol=1e-6)
    assert "no column 'timestamp'" in call(*FIT, "--half-life", "30")[2]
    assert call("fit", "dated.csv", *FIT[2:], "--half-life", "30", "--clicks")[0] == 0


def test_a_column_per_item(call):
    assert call(*FIT, "--item-columns")[0] == 0
    ranker = hr.load("model/")
    assert ranker.n_features_in_ == 4 + 30
    lists = call("recommend", "model/", "--user", "u1", "--include-rated")[1]
    lines = Path("items.csv").read_text().split()
    Path("fewer.csv").write_text("\n".join([lines[0], *reversed(lines[1:20]), "i99,1,0,0,0"]) + "\n")
    fewer = call("recommend", "model/", "--user", "u1", "--top", "50", "--items", "fewer.csv", "--include-rated")[1]
    found = {line.split("\t")[2]: float(line.split("\t")[3]) for line in fewer.splitlines()}
    assert len(found) == 20
    for line in lists.splitlines():
        _, _, item, score = line.split("\t")
        assert item not in found or found[item] == pytest.approx(float(score))


def test_baselines_and_rankers_are_compared_unless_told(call):
    status, out, err = call(
        "compare", "train.csv", "--items", "items.csv", "--hold-out", "ratings", "--item-columns", "--folds", "3",
        "--workers", "1", "--set", "joint.C=0.01", "--set", "mean-variance.C=0.01", "--set", "shared.C=0.01",
        "--set", "personal-rank-svm.C=0.01", "--set", "shared.rank=2", "--set", "personal-rank-svm.rank=2",
        "-o", "run", "--json",
    )  # fmt: skip
    assert status == 0, err
    names = {line["method"] for line in json.loads(out)}
    assert names == {
        "popularity",
        "item-mean",
        "item-knn",
        "ease",
        "joint",
        "mean-variance",
        "personal-rank-svm",
        "shared",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["recommend", "model/"], "--user ID, or --all"),
        (["report", "model/", "--user", "zed"], "there is no user 'zed' in the model"),
        (["add-users", "model/", "train.csv"], "already in the model: pass --replace"),
        (["add-users", "model/", "odd.csv"], "odd.csv: item 'i99' is not in the catalogue of the model; leave it out"),
        (["evaluate", "new.csv", "model/"], "new.csv has no user of the model"),
        (["evaluate", "train.csv", "model/", "--relevant", "4"], "--relevant is for the lists of a personal model"),
        (
            ["tune", "train.csv", "--items", "items.csv", "--measure", "list_map", "-o", "m/"],
            "'list_map' is no measure",
        ),
        (["fit", "train.csv", "--user-column", "customer", "-o", "m/"], "there is no column 'customer'"),
        (["fit", "train.csv", "--user-column", "0", "-o", "m/"], "columns are counted from 1"),
        (["fit", "train.csv", "--items", "items.csv", "--model", "joint", "--clicks", "-o", "m/"], "--clicks is for"),
        (["fit", "train.csv", "--items", "none.csv", "--model", "joint", "-o", "m/"], "there is no such file"),
        (["fit", "train.csv", "--items", "items.csv", "--model", "rank-svm", "-o", "m/"], "--model personal-rank-svm"),
        (
            ["fit", "train.csv", "--half-life", "3", "-o", "m/"],
            "--half-life is for ratings of users, not for graded rows: name their items",
        ),
    ],
)
def test_mistakes_are_one_line(call, arguments, words):
    assert call(*FIT)[0] == 0
    Path("odd.csv").write_text("user,item,rating\nx,i99,3\n")
    status, _, err = call(*arguments)
    assert status == 1 and words in err and err.count("\n") == 1


def test_vectors_of_the_items_beside_the_model(call):
    assert call(*FIT)[0] == 0 and call("export", "model/", "--to", "vectors", "-o", "vectors/")[0] == 0
    about, ranker = json.loads(Path("vectors/ids.json").read_text()), hr.load("model/")
    users, items = np.load("vectors/users.npy"), np.load("vectors/items.npy")
    best = about["items"][int(np.argmax(items @ users[about["users"].index("u3")]))]
    assert about["items"] == [f"i{i}" for i in range(30)] and len(users) == len(ranker.users_)
    assert call("recommend", "model/", "--user", "u3", "--top", "1", "--include-rated")[1].split("\t")[2] == best
    Path("model/items.npz").unlink()
    hr.RankSVM().fit(np.eye(2), [0, 1], [0, 0]).save("plain/")
    assert "RankSVM has no user vectors; formats" in call("export", "plain/", "--to", "vectors", "-o", "others/")[2]
    assert "no items are saved with model" in call("export", "model/", "--to", "vectors", "-o", "others/")[2]


def test_a_wide_column_of_numbers_changes_no_list(call):
    assert call(*FIT)[0] == 0
    plain = call("recommend", "model/", "--user", "u3")[1]
    lines = Path("items.csv").read_text().split()
    wide = [line.split(",") for line in lines[1:]]
    wide = [[*line[:-1], f"{1e6 * float(line[-1]) + 5e7}"] for line in wide]
    Path("items.csv").write_text("\n".join([lines[0], *map(",".join, wide)]) + "\n")
    assert call(*FIT)[::2] == (0, "")
    found = call("recommend", "model/", "--user", "u3")[1]
    assert [line.split("\t")[2] for line in found.split("\n")[:5]] == [x.split("\t")[2] for x in plain.split("\n")[:5]]


def test_lists_of_ratings_alone_are_told_and_stand_beside_simple_ones(call, monkeypatch):
    assert call(*FIT)[0] == 0
    assert "not which items they choose: for lists over all items fit --model list-ranker" in call(
        "recommend", "model/", "--user", "u3"
    )[2].replace("\n", " ")
    status, out, err = call("evaluate", "train.csv", "model/", "--top", "5")
    assert status == 0 and "popularity" in out and "similar items" in out and "list-ranker" in err
    assert "not shown" not in err
    lists = [word if word != "personal-rank-svm" else "list-ranker" for word in FIT]
    assert call(*lists)[::2] == (0, "")
    assert call("recommend", "model/", "--user", "u3")[2] == ""
    status, out, err = call("evaluate", "train.csv", "model/", "--top", "5", "--include-rated")
    assert status == 0 and "popularity" in out and "similar items" in out and err == ""  # it keeps who rated what
    assert call(*FIT, "--clicks")[0] == 0
    assert call("recommend", "model/", "--user", "u3")[2] == ""
    given = ("evaluate", "train.csv", "model/", "--top", "5", "--exclude", "new.csv")
    status, out, _ = call(*given)
    assert status == 0 and "popularity" in out and "similar items" in out
    found = json.loads(call(*given, "--json")[1])
    assert set(found["baselines"]) == {"popularity", "similar items"}
    monkeypatch.setattr("hingerank.personal.item_item.MOST_ITEMS", 3)
    assert call(*given)[1] == out  # any number of items will do


def test_ids_that_look_like_formulas_are_written_as_they_are(call):
    ids = ["=1+1", "+b", "-c", "@d", "'=e"]
    lines = [f"u{u},{item},{1 + (u + k) % 5}" for u in range(6) for k, item in enumerate(ids)]
    Path("odd.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    assert call("fit", "odd.csv", "--model", "personal-rank-svm", "--rank", "1", "-o", "odd/")[0] == 0
    assert call("recommend", "odd/", "--user", "u1", "--include-rated", "-o", "odd-lists.csv")[0] == 0
    listed = [line.split(",")[2] for line in Path("odd-lists.csv").read_text().split()[1:]]
    assert sorted(listed) == sorted(ids)
    Path("some.csv").write_text("\n".join(Path("odd-lists.csv").read_text().split()[:4]))
    found = call("recommend", "odd/", "--user", "u1", "--include-rated", "--exclude", "some.csv")[1]
    assert [line.split("\t")[2] for line in found.splitlines()] == listed[3:]


def scores_of(text):
    return {line.split("\t")[2]: float(line.split("\t")[3]) for line in text.splitlines()}


def test_columns_of_any_name_and_separator_and_ids_alone(call):
    """A shop's own header, a .dat table with a separator of its own, and items of which nothing is known but ids."""
    lines = Path("train.csv").read_text().split()[1:]
    shop = ["customer,stars,sku", *(",".join((u, y, i)) for u, i, y in (line.split(",") for line in lines))]
    Path("shop.csv").write_text("\n".join(shop) + "\n")
    Path("plain.dat").write_text("\n".join(line.replace(",", "^^") for line in lines) + "\n")
    named = ["--user-column", "customer", "--item-column", "sku", "--rating-column", "stars"]
    fit = ["--model", "personal-rank-svm", "--rank", "2", "--force", "-o"]
    assert call("fit", "shop.csv", *named, *fit, "a/")[::2] == (0, "")
    assert (
        call("fit", "shop.csv", "--user-column", "1", "--item-column", "3", "--rating-column", "2", *fit, "b/")[0] == 0
    )
    assert call("fit", "plain.dat", "--separator", "^^", *fit, "c/")[::2] == (0, "")
    assert call("fit", "train.csv", "--user-column", "user", "-o", "d/")[0] == 0  # named, though by the usual name
    ranker = hr.load("a/")
    assert ranker.rank == 2 and ranker.n_features_in_ == len({line.split(",")[1] for line in lines})
    asked = ["--user", "u3", "--top", "5", "--exclude"]
    found = scores_of(call("recommend", "a/", *asked, "shop.csv", *named)[1])
    assert found == scores_of(call("recommend", "b/", *asked, "train.csv")[1]) and len(found) == 5
    assert found == scores_of(call("recommend", "c/", *asked, "plain.dat", "--separator", "^^")[1])
    alike = json.loads(call("evaluate", "shop.csv", "a/", *named, "--json")[1])["means"]
    assert alike == json.loads(call("evaluate", "train.csv", "c/", "--json")[1])["means"]
    rated = hr.read_ratings("train.csv")
    X = np.eye(rated.n_items)
    assert alike["pair_accuracy"] == pytest.approx(
        hr.evaluate(rated.ratings, ranker.predict(rated.users, X[rated.items]), rated.users, "pair_accuracy")[
            "pair_accuracy"
        ]
    )
    Path("few.csv").write_text("customer,stars,sku\nx,5,i1\nx,1,i2\n")
    assert call("add-users", "a/", "few.csv", *named)[0] == 0
    assert len(call("rank", "a/", "few.csv", *named)[1].split()) == 2


def test_items_in_a_table_of_text_without_names(call):
    Path("items.dat").write_text("".join(f"i{i}::{i / 7:.3f}::{'red' if i % 2 else 'blue'} fish\n" for i in range(30)))
    assert call(*FIT[:2], "--items", "items.dat", *FIT[4:], "--separator", "::")[0] == 1  # commas in the ratings
    assert call(*FIT[:2], "--items", "items.dat", *FIT[4:])[0] == 0
    assert hr.load("model/").n_features_in_ == 4
    names = np.load("model/items.npz")["names"].tolist()
    assert names == ["column 2", "column 3: blue", "column 3: fish", "column 3: red"]


def test_lists_are_what_ratings_are_for_unless_told(call):
    """Without --model the ranker of lists is fitted and tuned, by lists over all items that were not learnt from."""
    assert call("fit", "train.csv", "--items", "items.csv", "-o", "model/")[0] == 0
    ranker = hr.load("model/")
    assert isinstance(ranker, hr.ListRanker) and ranker.n_features_in_ == 4 + 30
    status, out, err = call(
        "tune", "train.csv", "--items", "items.csv", "--rank", "2", "--set", "ridge=10,100", "--folds", "2", "-o", "t/",
        "--json",
    )  # fmt: skip
    assert status == 0, err
    found = json.loads(out)
    assert found["ranker"] == "list-ranker" and found["measure"] == "list_ndcg@10"
    assert [trial["setting"]["ridge"] for trial in found["trials"][:2]] and hr.load("t/").rank == 2
    assert call("fit", "train.csv", "--items", "items.csv", "--clicks", "-o", "clicks/")[0] == 0
    assert type(hr.load("clicks/")) is hr.EASE


def test_unknown_and_silent_users_get_the_list_of_the_mean_user(call):
    Path("train.csv").write_text(Path("train.csv").read_text() + "once,i3,4\n")
    assert call(*FIT)[0] == 0
    status, out, err = call("recommend", "model/", "--user", "zed")
    assert status == 0 and "no user 'zed' in the model" in err and "the list of the mean user" in err
    ranker = hr.load("model/")
    X = np.loadtxt("items.csv", delimiter=",", skiprows=1, usecols=range(1, 5))
    best = np.argsort(-ranker.predict("zed", X, unknown="mean"))[:10]
    assert list(scores_of(out)) == [f"i{i}" for i in best]
    _, once, err = call("recommend", "model/", "--user", "once")
    assert list(scores_of(once)) == list(scores_of(out)) and "'once' rated no two items differently" in err
    assert "1 users rated no two items differently" in call("recommend", "model/", "--all")[2]


def test_times_in_milliseconds_are_recognised(call):
    lines = Path("train.csv").read_text().split()
    for name, unit in (("s.csv", 1), ("ms.csv", 1000)):
        dated = [f"{line},{unit * (1_700_000_000 + 86400 * (n % 90))}" for n, line in enumerate(lines[1:])]
        Path(name).write_text("\n".join(["user,item,rating,moment", *dated]) + "\n")
    more = ["--half-life", "30", "--time-column", "moment"]
    assert call("fit", "s.csv", *FIT[2:], *more)[::2] == (0, "")
    seconds = call("recommend", "model/", "--user", "u3")[1]
    status, _, err = call("fit", "ms.csv", *FIT[2:], *more)
    assert status == 0 and "are read as milliseconds" in err
    assert scores_of(call("recommend", "model/", "--user", "u3")[1]) == pytest.approx(scores_of(seconds))


def test_items_alike_by_the_vectors_of_the_model(call):
    assert call(*FIT)[0] == 0
    status, out, err = call("similar", "model/", "--item", "i7", "--top", "4")
    ranker, X = hr.load("model/"), np.loadtxt("items.csv", delimiter=",", skiprows=1, usecols=range(1, 5))
    Z = ranker._rows(X) @ ranker.basis_
    cosine = Z @ Z[7] / np.linalg.norm(Z, axis=1) / np.linalg.norm(Z[7])
    best = [i for i in np.argsort(-cosine) if i != 7][:4]
    lines = [line.split("\t") for line in out.splitlines()]
    assert status == 0 and [line[1] for line in lines] == [f"i{i}" for i in best], err
    assert [float(line[2]) for line in lines] == pytest.approx(cosine[best])
    rows, _ = ranker.similar_items([7, 3], X, 40)
    assert rows[0, :4].tolist() == best and (rows[:, 29:] == -1).all() and 3 not in rows[1]
    assert len(json.loads(call("similar", "model/", "--item", "i7", "--json")[1])) == 10
    for name in ("s.csv", "s.parquet", "s.tsv"):
        assert call("similar", "model/", "--item", "i7", "--top", "4", "-o", name)[:2] == (0, "")
        found = read_table(name)
        assert found.column_names == ["rank", "item", "similarity"] and found["item"].to_pylist() == [
            f"i{i}" for i in best
        ]
    assert "would be Parquet" in call("similar", "model/", "--item", "i7", "-o", "t.parquet", "--json")[2]
    assert "item 'i99' is not in the catalogue" in call("similar", "model/", "--item", "i99")[2]
    joint = [word if word != "personal-rank-svm" else "joint" for word in FIT[:-2]]
    assert call(*joint)[0] == 0
    assert "one list for all users" in call("similar", "model/", "--item", "i7")[2]


def test_the_latest_ratings_are_compared(call):
    lines = Path("train.csv").read_text().split()
    dated = ["user,item,rating,when", *(f"{line},{n * 37 % 180}" for n, line in enumerate(lines[1:]))]
    Path("dated.csv").write_text("\n".join(dated) + "\n")
    line = ["compare", "dated.csv", "--items", "items.csv", "--item-columns", "--methods", "popularity,item-knn", "-o"]
    more = ["run", "--hold-out", "time", "--time-column", "when", "--workers", "1", "--json"]
    status, out, err = call(*line, *more)
    assert status == 0, err
    assert {found["method"] for found in json.loads(out)} == {"popularity", "item-knn"}
    assert "no column 'timestamp'" in call(*line, "other", "--hold-out", "time")[2]
