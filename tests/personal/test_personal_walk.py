"""Every personal ranker on the command line, with items of which only ids are known and with features, whatever the
name of its model."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.personal.baselines import ItemKNN, Popularity
from hingerank.personal.catalogue import Catalogue, history_of, load_catalogue
from hingerank.personal.rankers import PersonalRanker
from hingerank.registry import RANKERS, ranker_class

PERSONAL = [name for name in RANKERS if issubclass(ranker_class(name), PersonalRanker)]
LISTS = {"ease", "list-ranker"}  # which learn what users choose
NAMED = ["--user-column", "customer", "--item-column", "sku", "--rating-column", "stars"]
ITEMS = [f"i{i}" for i in range(20)]
OUTPUTS = ["folder/", "m.safetensors", "deep/m"]  # beside "m": one for each ranker and kind of items, in turn


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("deep").mkdir()
    data = hr.make_personal(12, 20, 3, 2, kind="ratings", per_user=8, seed=0)
    lines = [f"u{u},i{i},{y:g}" for u, i, y in zip(data.users, data.items, data.ratings)]
    Path("r.csv").write_text("customer,sku,stars\n" + "\n".join(lines) + "\n")
    rows = [f"i{i}," + ",".join(f"{x:.6f}" for x in row) for i, row in enumerate(data.item_features)]
    Path("items.csv").write_text("sku,a,b,c\n" + "\n".join(rows) + "\n")
    Path("test.csv").write_text("customer,sku,stars\n" + "\n".join(f"u{u},i{(7 * u) % 20},4" for u in range(12)) + "\n")
    Path("items.npz").write_bytes(b"of somebody else")

    def run(*arguments):
        capsys.readouterr()
        status = main([str(word) for word in arguments])
        written = capsys.readouterr()
        assert status in (0, 1) and "Traceback" not in written.err, written.err
        return status, written.out, written.err.replace("hingerank: ", "").strip()

    return run


def rated(file="r.csv"):
    return [tuple(line.split(",")[:2]) for line in Path(file).read_text().split()[1:]]


def history_pairs(catalogue):
    users, rows = catalogue.history.pairs
    return set(zip(users.tolist(), catalogue.ids[rows].tolist()))


@pytest.mark.parametrize("features", [[], ["--items", "items.csv"]], ids=["ids", "features"])
@pytest.mark.parametrize("name", PERSONAL)
def test_the_walk_of_every_personal_ranker(call, name, features):
    fit = ["fit", "r.csv", *NAMED, *features, "--model", name]
    lists = set()
    for output in ("m", OUTPUTS[(2 * PERSONAL.index(name) + bool(features)) % 3]):
        assert call(*fit, "-o", output, "--force")[0] == 0
        for exclude in ([], ["--exclude", "r.csv", *NAMED]):  # what the model has stored, and the same from a file
            status, out, err = call("recommend", output, "--user", "u3", "--top", "4", *exclude)
            assert status == 0 and len(out.splitlines()) == 4 and ("list-ranker" in err) == (name not in LISTS), err
            assert "--exclude" not in err
            lists.add(out)
    assert len(lists) == 1  # whatever the name of the model
    everything = call("recommend", "m", "--all", "--top", "20")[1], set(rated())
    offered, taken = {tuple(line.split("\t")[::2]) for line in everything[0].splitlines()}, everything[1]
    assert not offered & taken and len(offered | taken) == 12 * 20
    assert len(call("recommend", "m", "--all", "--top", "20", "--include-rated")[1].splitlines()) == 12 * 20
    status, out, err = call("similar", "m", "--item", "i3", "--top", "2")
    if name == "joint":
        assert status == 1 and "one list for all users" in err
    else:
        assert status == 0 and len(out.splitlines()) == 2
        assert any(float(line.split("\t")[2]) for line in out.splitlines()) or "no item shares one with 'i3'" in err
    beside = json.loads(call("evaluate", "r.csv", "m", "--top", "3", *NAMED, "--json")[1])["baselines"]
    assert list(beside) == ["popularity", "similar items"]
    found = []
    for more in ([], ["--exclude", "r.csv"], features):  # the same ratings, from a file; the same items, from a table
        again = call("evaluate", "test.csv", "m", "--top", "3", *more, *NAMED, "--json")
        assert again[0] == 0 and list(json.loads(again[1])["baselines"]) == ["popularity", "similar items"]
        found.append(json.loads(again[1]))
    assert found[0] == found[1] == found[2]
    assert len(call("rank", "m", "r.csv", *NAMED)[1].split()) == 12 * 8
    assert call("export", "m", "--to", "vectors", "-o", "v/")[0] == 0
    users, vectors, about = np.load("v/users.npy"), np.load("v/items.npy"), json.loads(Path("v/ids.json").read_text())
    ranker, catalogue = hr.load("m"), load_catalogue("m")
    np.testing.assert_allclose(
        vectors @ users[about["users"].index("u3")], ranker.predict("u3", catalogue.X), atol=1e-9
    )
    assert history_pairs(catalogue) == set(rated()) and about["items"] == catalogue.ids.tolist()
    status, _, err = call("export", "m", "--to", "sql", "-o", "m.sql")
    assert status == 1 and "--to vectors" in err
    status, _, err = call("explain", "m", "r.csv", "--query", "u3")
    assert status == 1 and "evaluate or report" in err
    assert call("report", "m", "-o", "m.html")[0] == 0
    page = Path("m.html").read_text()
    assert "<h1>m</h1>" in page and re.search(r'class="reasons"><span class="(for|against)">\S', page)


@pytest.mark.parametrize("name", PERSONAL)
def test_every_personal_ranker_is_tuned_from_ids_alone(call, name):
    one = {"ease": ["ridge=10"], "list-ranker": ["ridge=10", "mix=0.4", "C=0.1"]}.get(name, ["C=0.1"])
    settings = [word for text in one for word in ("--set", text)]
    status, _, err = call("tune", "r.csv", *NAMED, "--model", name, "--folds", "2", *settings, "-o", "m")
    assert status == 0, err
    offered = call("recommend", "m", "--user", "u3", "--top", "20")[1]
    assert {line.split("\t")[2] for line in offered.splitlines()} == set(ITEMS) - {i for u, i in rated() if u == "u3"}
    beside = json.loads(call("evaluate", "test.csv", "m", "--top", "3", *NAMED, "--json")[1])["baselines"]
    assert list(beside) == ["popularity", "similar items"]


def test_simple_lists_are_those_of_the_training_ratings(call):
    """Of items by their ids: two items with the same features are two."""
    Path("items.csv").write_text("sku,a\n" + "\n".join(f"i{i},{i // 4}" for i in range(20)) + "\n")
    fit = ["fit", "r.csv", *NAMED, "--items", "items.csv", "--model", "personal-rank-svm", "--C", "0.1", "-o", "m"]
    assert call(*fit)[0] == 0
    evaluate = ["evaluate", "test.csv", "m", "--top", "3", "--include-rated", *NAMED, "--json"]
    found = json.loads(call(*evaluate)[1])["baselines"]
    users, items = zip(*rated())
    test_users, test_items = zip(*rated("test.csv"))
    number, test_number = ([int(item[1:]) for item in column] for column in (items, test_items))
    for name, baseline in (("popularity", Popularity()), ("similar items", ItemKNN())):
        baseline.fit(np.eye(20), users, number)
        assert found[name] == pytest.approx(
            hr.evaluate_top(baseline, np.eye(20), (test_users, test_number), top=3).means
        )
    half = [line for place, line in enumerate(Path("items.csv").read_text().splitlines()) if place < 20]
    Path("fewer.csv").write_text("\n".join(half) + "\n")  # without the last item
    Path("test.csv").write_text("\n".join(x for x in Path("test.csv").read_text().split() if ",i19," not in x) + "\n")
    assert list(json.loads(call(*evaluate, "--items", "fewer.csv")[1])["baselines"]) == list(found)


def test_items_that_are_not_in_the_catalogue_are_not_judged(call):
    """Ratings divided at random leave some items without a training rating."""
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "m")[0] == 0
    plain = json.loads(call("evaluate", "test.csv", "m", "--top", "3", *NAMED, "--json")[1])
    lines = Path("test.csv").read_text()
    Path("test.csv").write_text(lines + "u1,never,5\nu2,never,5\n")
    for options in (["--top", "3"], []):
        status, out, err = call("evaluate", "test.csv", "m", *options, *NAMED, "--json")
        words = "2 ratings of items that are not in the catalogue of the model are left out"
        assert status == 0 and words in err.replace("\n", " ")
        assert not options or json.loads(out)["means"] == plain["means"]
    Path("test.csv").write_text(lines.split("\n")[0] + "\nu1,never,5\n")
    status, _, err = call("evaluate", "test.csv", "m", "--top", "3", *NAMED)
    assert status == 1 and err.startswith("test.csv: item 'never' is not in the catalogue of the model")


@pytest.mark.parametrize("known, given", [("x", "3"), ("3", "x")], ids=["texts", "numbers"])
def test_ids_of_users_are_those_of_the_model(call, known, given):
    """A file in which all ids are numbers has them as numbers; in another one of them is a text."""
    ratings = "user,item,rating\n1,a,5\n1,b,3\n2,b,1\n2,c,2\n"
    Path("train.csv").write_text(ratings + f"{known},a,4\n{known},c,1\n")
    Path("more.csv").write_text(f"user,item,rating\n1,a,5\n2,b,2\n{given},a,4\n")
    assert call("fit", "train.csv", "--model", "personal-rank-svm", "--C", "0.1", "-o", "m")[0] == 0
    for more, items in ((["--include-rated"], ["b", "c"]), ([], ["c"])):
        best = call("recommend", "m", "--user", "1", "--top", "9", "--exclude", "more.csv", *more)[1]
        assert sorted(line.split("\t")[2] for line in best.splitlines()) == items
    status, out, err = call("evaluate", "more.csv", "m", "--top", "2", "--json")
    assert status == 0 and json.loads(out)["users"] == 2 and "1 ratings of users who are not in the model" in err
    Path("pairs.csv").write_text("user,item\n1,a\n2,b\n")
    assert len(call("rank", "m", "pairs.csv")[1].split()) == 2
    assert "user" in call("add-users", "m", "more.csv")[2] and "--replace" in call("add-users", "m", "more.csv")[2]


def test_models_without_histories_warn(call):
    """Such as those of version 0.2."""
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "m")[0] == 0
    with np.load("m.items.npz") as kept:
        arrays = {name: kept[name] for name in kept if name not in ("users", "taken", "taken_start")}
    np.savez("old.npz", **arrays)
    Path("old.npz").replace("m.items.npz")
    status, out, err = call("evaluate", "test.csv", "m", "--top", "3", *NAMED, "--json")
    assert status == 0 and json.loads(out)["baselines"] == {}
    missing = "lists by popularity and similar items are not shown: give the training ratings with --exclude"
    assert missing in err.replace("\n", " ")
    status, out, err = call("recommend", "m", "--user", "u3", "--top", "20")
    assert status == 0 and len(out.splitlines()) == 20
    note = "the model does not store what {} of these users rated, so their lists may offer it again"
    assert note.format(1) in err and note.format(12) in call("recommend", "m", "--all")[2]
    for silent in (["--user", "u3", "--include-rated"], ["--all", "--exclude", "r.csv", *NAMED], ["--user", "nobody"]):
        assert "does not store" not in call("recommend", "m", *silent)[2]
    assert note.format(1) in call("report", "m", "--user", "u3", "-o", "m.html")[2]
    status, out, _ = call("evaluate", "test.csv", "m", "--top", "3", *NAMED, "--exclude", "r.csv", "--json")
    assert list(json.loads(out)["baselines"]) == ["popularity", "similar items"]
    arrays |= {"users": np.array(["u1"]), "taken": np.array([99]), "taken_start": np.array([0, 1])}
    np.savez("old.npz", **arrays)
    Path("old.npz").replace("m.items.npz")
    assert "does not hold items" in call("evaluate", "test.csv", "m", "--top", "3", *NAMED)[2]


def test_added_users_have_histories_too(call):
    assert call("fit", "r.csv", *NAMED, "--model", "personal-rank-svm", "--C", "0.1", "-o", "m")[0] == 0
    Path("new.csv").write_text("customer,sku,stars\nann,i1,5\nann,i2,1\nu3,i4,5\nu3,i5,1\n")
    assert call("add-users", "m", "new.csv", *NAMED, "--replace")[0] == 0
    before = {pair for pair in rated() if pair[0] != "u3"}
    assert history_pairs(load_catalogue("m")) == before | {("ann", "i1"), ("ann", "i2"), ("u3", "i4"), ("u3", "i5")}
    for user, taken in (("ann", {"i1", "i2"}), ("u3", {"i4", "i5"})):
        offered = call("recommend", "m", "--user", user, "--top", "20")[1]
        assert {line.split("\t")[2] for line in offered.splitlines()} == set(ITEMS) - taken


def test_users_added_to_a_model_without_histories_are_the_only_known_ones(call):
    assert call("fit", "r.csv", *NAMED, "--model", "personal-rank-svm", "--C", "0.1", "-o", "m")[0] == 0
    replace(load_catalogue("m"), history=None).save("m")
    Path("new.csv").write_text("customer,sku,stars\nann,i1,5\nann,i2,1\n")
    assert call("add-users", "m", "new.csv", *NAMED)[0] == 0
    status, out, err = call("recommend", "m", "--all", "--top", "20")
    assert status == 0 and len(out.splitlines()) == 12 * 20 + 18 and "what 12 of these users rated" in err
    assert "does not store" not in call("recommend", "m", "--user", "ann")[2]


def test_users_who_rated_everything_have_empty_lists(call):
    Path("r.csv").write_text("customer,sku,stars\nann,a,5\nann,b,1\nbob,a,2\nbob,c,4\n")
    Path("items.csv").write_text("sku,x\na,1\nb,2\nc,3\n")
    assert call("fit", "r.csv", *NAMED, "--items", "items.csv", "--model", "joint", "-o", "m")[0] == 0
    Path("more.csv").write_text("customer,sku\nann,c\n")
    status, out, err = call("recommend", "m", "--all", "--exclude", "more.csv", *NAMED[:4], "--json")
    assert status == 0 and {user: len(items) for user, items in json.loads(out).items()} == {"ann": 0, "bob": 1}
    assert "no item is left for 1 of 2 users: they have rated them all (--include-rated)" in err


def test_items_of_a_file_and_a_table_are_compared_as_text(call):
    Path("n.csv").write_text("user,item,rating\n1,1,5\n1,2,3\n2,1,2\n2,2,4\n")
    Path("table.csv").write_text("item,price\n1,3\n2,5\nx5,9\n")
    assert call("fit", "n.csv", "--items", "table.csv", "--model", "joint", "-o", "m")[0] == 0
    assert call("recommend", "m", "--user", "1")[1].split()[2] == "x5"


def test_a_file_of_names_alone_leaves_nothing_out(call):
    Path("nothing.csv").write_text("customer,sku,stars\n")
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "m")[0] == 0
    for more in ([], ["--include-rated"]):
        plain = call("recommend", "m", "--user", "u3", *more)
        assert call("recommend", "m", "--user", "u3", "--exclude", "nothing.csv", *NAMED, *more) == plain
    assert call("fit", "r.csv", *NAMED, "--model", "personal-rank-svm", "--C", "0.1", "-o", "p")[0] == 0
    for use in (["fit", "nothing.csv", "-o", "n"], ["add-users", "p", "nothing.csv"], ["evaluate", "nothing.csv", "p"]):
        status, _, err = call(*use, *NAMED)
        assert status == 1 and err.startswith("nothing.csv: there are no ratings") and "\n" not in err


def test_lists_in_csv_files_are_read_again(call):
    odd = ['a,"b"', "line\rfeed", "tab\tulator", "plain"]
    users, items = zip(*((u, i) for u in odd for i in odd if u != i))
    pq.write_table(pa.table({"user": users, "item": items, "rating": [3] * len(users)}), "odd.parquet")
    assert call("fit", "odd.parquet", "--model", "ease", "-o", "m")[0] == 0
    for name, delimiter, given in (("l.csv", ",", odd), ("l.tsv", "\t", [re.sub("[\r\t]", " ", x) for x in odd])):
        assert call("recommend", "m", "--all", "-o", name)[0] == 0
        with open(name, newline="") as file:
            rows = list(csv.reader(file, delimiter=delimiter))[1:]
        assert [row[0] for row in rows] == [row[2] for row in rows] == given


def test_pages_show_nothing_that_was_rated(call):
    assert call("fit", "r.csv", *NAMED, "--model", "personal-rank-svm", "--C", "0.1", "-o", "m")[0] == 0
    taken = {item for user, item in rated() if user == "u3"}
    for more, words in (([], set()), (["--include-rated"], taken)):
        assert call("report", "m", "--user", "u3", "-o", "m.html", "--force", *more)[0] == 0
        shown = set(re.findall(r"<td[^>]*>(i\d+)</td>", Path("m.html").read_text()))
        assert shown & taken <= words and bool(shown & taken) == bool(more)


def test_lists_of_other_items_leave_out_what_was_rated_among_them(call):
    assert call("fit", "r.csv", *NAMED, "--items", "items.csv", "--model", "joint", "-o", "m")[0] == 0
    Path("other.csv").write_text("sku,a,b,c\ni3,1,0,0\nnew,0,1,0\ni0,0,0,1\n")
    taken = {item for user, item in rated() if user == "u3"}
    out = call("recommend", "m", "--user", "u3", "--items", "other.csv")[1]
    assert {line.split("\t")[2] for line in out.splitlines()} == {"i3", "i0", "new"} - taken
    Path("other.csv").write_text("sku,a,b,c\nnew,1,0,0\n")
    status, out, err = call("recommend", "m", "--user", "u3", "--items", "other.csv")
    assert status == 0 and len(out.splitlines()) == 1 and "does not store" not in err


def test_test_ratings_that_no_list_can_find_are_counted(call):
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "m")[0] == 0
    test = ["evaluate", "r.csv", "m", "--top", "3", *NAMED]
    assert "96 of 96 test ratings are of items that lists leave out" in call(*test)[2].replace("\n", " ")
    assert "test ratings" not in call(*test, "--include-rated")[2]


def test_histories_of_ids_of_several_kinds_are_kept(tmp_path):
    first = history_of(np.array([3, 5]), np.array([0, 1]), 2)
    both = first.replaced(history_of(np.array(["ann"]), np.array([1]), 2))
    Catalogue(np.arange(2), np.eye(2), ["a", "b"], history=both).save(tmp_path)
    users, rows = load_catalogue(tmp_path).history.pairs
    assert list(zip(users.tolist(), rows.tolist())) == [(3, 0), (5, 1), ("ann", 1)]


def test_items_of_a_model_are_its_own(call):
    """Not those that lie beside it for another model."""
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "m")[0] == 0
    Path("m.items.npz").unlink()
    assert call("recommend", "m", "--user", "u3")[2] == "no items are saved with m: name a table of them with --items"
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "m/", "--force")[0] == 1  # m is a file
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "n/")[0] == 0
    same = call("recommend", "n/", "--user", "u3")[1]
    assert call("recommend", "n/model.safetensors", "--user", "u3")[1] == same


def test_reasons_of_lists_by_what_was_taken_are_items(call):
    assert call("fit", "r.csv", *NAMED, "--model", "ease", "-o", "m")[0] == 0
    assert call("report", "m", "--user", "u3", "-o", "m.html")[0] == 0
    taken = {line.split(",")[1] for line in Path("r.csv").read_text().split() if line.startswith("u3,")}
    found = re.findall(r'<span class="(?:for|against)">(\S+) [-+]', Path("m.html").read_text())
    assert found and set(found) <= taken
    ranker, catalogue = hr.load("m"), load_catalogue("m")
    users, rows = ranker._taken(catalogue.X)
    assert {catalogue.ids[row] for user, row in zip(users, rows) if user == "u3"} == taken


@pytest.mark.parametrize("name", [name for name in PERSONAL if name not in LISTS])
@pytest.mark.parametrize("features", ["nystroem:5", "fourier:6", "polynomial"])
def test_maps_of_item_features_by_name(call, name, features):
    fit = ["fit", "r.csv", *NAMED, "--items", "items.csv", "--model", name, "--set"]
    assert call(*fit, f"features={features}", "-o", "m")[0] == 0
    assert len(call("recommend", "m", "--user", "u3", "--top", "4")[1].splitlines()) == 4
    ranker = hr.load("m")
    assert ranker.features == features
    assert ranker.features_.n_outputs == {"nystroem:5": 5, "fourier:6": 6, "polynomial": 10}[features]


def test_mistakes_in_names_of_maps(call):
    fit = ["fit", "r.csv", *NAMED, "--items", "items.csv", "-o", "m", "--set"]
    for wrong in ("nystrom", "nystroem:0", "nystroem:many"):
        status, _, err = call(*fit, f"features={wrong}", "--model", "joint")
        assert status == 1 and f"--set features is '{wrong}', expected one of nystroem, fourier, polynomial" in err
    assert "list-ranker has no parameter 'features'" in call(*fit, "features=nystroem")[2]
    line = ["tune", "r.csv", *NAMED, "--items", "items.csv", "--model", "joint", "--folds", "2", "--set", "C=0.1"]
    assert call(*line, "--set", "features=none,nystroem:5", "-o", "t")[0] == 0


def test_what_users_without_a_pair_get_is_said(call):
    with Path("r.csv").open("a") as file:
        file.write("flat,i0,3\nflat,i1,3\n")
    said = {"separate": "a list in which all items tie", "mean-variance": "the list of the mean user"}
    for name, cold in (said | {"personal-rank-svm": "a list in which all items tie"}).items():
        given = ["--set", "cold_users=zero"] if name == "personal-rank-svm" else []
        assert call("fit", "r.csv", *NAMED, "--items", "items.csv", "--model", name, *given, "-o", name)[0] == 0
        err = " ".join(call("recommend", name, "--user", "flat")[2].split())
        assert f"'flat' rated no two items differently: this is {cold}" in err
        err = " ".join(call("recommend", name, "--all")[2].split())
        assert f"1 users rated no two items differently: they get {cold}" in err


def test_a_table_of_items_without_a_column_of_the_model_is_named(call):
    assert call("fit", "r.csv", *NAMED, "--items", "items.csv", "--model", "joint", "-o", "m")[0] == 0
    Path("other.csv").write_text("sku,a,c\nnew,0,1\ni0,0,0\n")
    err = call("recommend", "m", "--user", "u3", "--items", "other.csv")[2]
    assert "other.csv has no column b, which the model learned from" in " ".join(err.split())
    assert "no column" not in call("recommend", "m", "--user", "u3", "--items", "items.csv")[2]


def test_an_exclusion_that_matches_no_item_is_named(call):
    assert call("fit", "r.csv", *NAMED, "--model", "joint", "-o", "m")[0] == 0
    Path("bought.csv").write_text("customer,sku\nu3,I0\nu4,I1\n")
    err = call("recommend", "m", "--all", *NAMED[:4], "--exclude", "bought.csv")[2]
    assert "no item of bought.csv is in the catalogue of the model, such as 'I0'" in " ".join(err.split())


def test_an_item_alone_scores_as_beside_others(call):
    kinds = ["crime", "drama", "comedy"]
    Path("words.csv").write_text("sku,kind\n" + "".join(f"i{i},{kinds[i % 3]}\n" for i in range(20)))
    call("fit", "r.csv", *NAMED, "--items", "words.csv", "--model", "joint", "-o", "m")
    scores = []
    for new in ("crime", "drama", "comedy"), ("crime",), ("drama", "drama", "crime"):  # a kind may be of one item only
        Path("new.csv").write_text("sku,kind\n" + "".join(f"n{i},{kind}\n" for i, kind in enumerate(new)))
        status, out, err = call("recommend", "m", "--user", "u3", "--items", "new.csv")
        assert status == 0, err
        scores.append({new[int(line.split()[2][1:])]: float(line.split()[3]) for line in out.splitlines()})
    assert len(set(scores[0].values())) == 3
    assert all(row[kind] == pytest.approx(scores[0][kind]) for row in scores for kind in row)
    Path("new.csv").write_text("sku,kind\nn0,?\n")
    assert (
        "none of the features that the model learnt from"
        in call("recommend", "m", "--user", "u3", "--items", "new.csv")[2]
    )
