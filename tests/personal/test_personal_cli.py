"""Ratings on the command line, from fit to lists."""

import json
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main


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
    status, out, _ = call("recommend", "model/", "--all", "--top", "30", "--exclude", "train.csv")
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
    lists = call("recommend", "model/", "--user", "u1")[1]
    lines = Path("items.csv").read_text().split()
    Path("fewer.csv").write_text("\n".join([lines[0], *reversed(lines[1:20]), "i99,1,0,0,0"]) + "\n")
    fewer = call("recommend", "model/", "--user", "u1", "--top", "50", "--items", "fewer.csv")[1]
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
    assert names == {"popularity", "item-mean", "joint", "mean-variance", "personal-rank-svm", "shared"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["recommend", "model/"], "--user ID, or --all"),
        (["recommend", "model/", "--user", "zed"], "there is no user 'zed' in the model"),
        (["add-users", "model/", "train.csv"], "known already: --replace"),
        (["add-users", "model/", "odd.csv"], "odd.csv: item 'i99' is not in the catalogue of the model: leave it out"),
        (["evaluate", "train.csv", "model/"], "judge its lists with --top 10"),
        (["fit", "train.csv", "--items", "items.csv", "--model", "joint", "--clicks", "-o", "m/"], "--clicks is for"),
        (["fit", "train.csv", "--items", "none.csv", "--model", "joint", "-o", "m/"], "there is no such file"),
        (["fit", "train.csv", "--items", "items.csv", "-o", "m/"], "--model personal-rank-svm"),
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
    assert call("recommend", "model/", "--user", "u3", "--top", "1")[1].split("\t")[2] == best
    Path("model/items.npz").unlink()
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


def test_lists_of_ratings_alone_are_told_and_stand_beside_simple_ones(call):
    assert call(*FIT)[0] == 0
    assert "not what they choose: for lists over all items fit --model list-ranker" in call(
        "recommend", "model/", "--user", "u3"
    )[2].replace("\n", " ")
    status, out, err = call("evaluate", "train.csv", "model/", "--top", "5")
    assert status == 0 and "popularity" not in out and "list-ranker" in err
    lists = [word if word != "personal-rank-svm" else "list-ranker" for word in FIT]
    assert call(*lists)[::2] == (0, "")
    assert call("recommend", "model/", "--user", "u3")[2] == ""
    assert call(*FIT, "--clicks")[0] == 0
    assert call("recommend", "model/", "--user", "u3")[2] == ""
    given = ("evaluate", "train.csv", "model/", "--top", "5", "--exclude", "new.csv")
    status, out, _ = call(*given)
    assert status == 0 and "popularity" in out and "similar items" in out
    found = json.loads(call(*given, "--json")[1])
    assert set(found["baselines"]) == {"popularity", "similar items"}
