"""Public sets in the layouts in which they are published: tiny imitations are found, read and run by `reproduce`."""

import gzip
import json
import lzma

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli import main
from hingerank.data.fetching import PUBLIC_SETS
from hingerank.data.generate import make_letor
from hingerank.papers import TABLES, Ours, Outcome, PaperTable, Place, Section, load_outcome, on_set
from hingerank.papers.diversity import name_of_run, own_runs, web_track_qrels
from hingerank.papers.engine import TableStudy, make_tables
from hingerank.papers.outcome import reproduce
from hingerank.papers.pages import write_page
from hingerank.papers.personal import SETS
from hingerank.papers.sets import GRADED, KNOWN, MissingSet, find_set, read_set
from hingerank.personal.rating_sets import is_movielens, read_movielens


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINGERANK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def parts():
    """Five parts of three queries each."""
    data = make_letor(n_queries=15, rows_per_query=10, n_features=5, seed=0)
    return [data.take(np.flatnonzero(np.isin(data.qid, ids))) for ids in np.split(data.blocks.ids, 5)]


def write_folds(folder, parts, names=("train", "vali", "test")):
    """Fold1 … Fold5 with three files each, by LETOR's rule."""
    for k in range(5):
        turn = [[(k + j) % 5 for j in range(3)], [(k + 3) % 5], [(k + 4) % 5]]
        for name, numbers in zip(names, turn):
            path = folder / f"Fold{k + 1}" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            hr.write(hr.RankingData.concatenate([parts[j] for j in numbers]), path)


def queries(fold):
    return [part.blocks.ids.tolist() for part in fold]


def test_every_set_has_an_entry_in_fetch_with_its_pages():
    assert {known.fetched for known in KNOWN.values()} <= set(PUBLIC_SETS)
    assert all(
        entry.page.startswith("http") and entry.licence_page.startswith("http") for entry in PUBLIC_SETS.values()
    )
    assert all(section.study.data for table in TABLES.values() for section in table.sections if section.methods)


LAYOUTS = {
    "MQ2007": "MQ2007",
    "MQ2008": "MQ2008/Querylevelnorm",
    "OHSUMED": "OHSUMED/QueryLevelNorm",
    "MSLR-WEB10K": "MSLR-WEB10K",
    "MSLR-WEB30K": "MSLR-WEB30K",
    **{
        f"{task.upper()}{year}": f"Gov/QueryLevelNorm/{year}_{task}_dataset"
        for task in ("td", "hp", "np")
        for year in (2003, 2004)
    },
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_five_folds_are_read_as_they_are_published(name, parts, tmp_path):
    write_folds(tmp_path / LAYOUTS[name], parts)
    found = find_set(name, tmp_path)
    assert (found.path, found.share) == (tmp_path / LAYOUTS[name], "")
    folds = read_set(name, found.path)
    ids = [part.blocks.ids.tolist() for part in parts]
    assert len(folds) == 5 and queries(folds[1]) == [ids[1] + ids[2] + ids[3], ids[4], ids[0]]


def test_letor_3_may_call_its_files_sets(parts, tmp_path):
    write_folds(tmp_path / "TD2004", parts, ("trainingset", "validationset", "testset"))
    fold = read_set("TD2004", find_set("TD2004", tmp_path).path, [1])[0]
    assert queries(fold)[1] == parts[3].blocks.ids.tolist()


def test_other_forms_of_a_set_and_empty_folders_are_passed_over(parts, tmp_path):
    write_folds(tmp_path / "OHSUMED" / "Feature-null", parts)
    (tmp_path / "MQ2008").mkdir()
    for name in ("OHSUMED", "MQ2008"):
        with pytest.raises(MissingSet, match=r"microsoft\.com.*QueryLevelNorm"):
            find_set(name, tmp_path)


@pytest.mark.parametrize(("name", "number"), [("Yahoo-LTRC", 1), ("Yahoo-LTRC-2", 2)])
def test_yahoo_is_one_fold_of_each_of_its_two_sets(name, number, parts, tmp_path):
    folder = tmp_path / "ltrc_yahoo"
    folder.mkdir()
    for role, part in zip(("train", "valid", "test"), parts):
        hr.write(part, folder / f"set{number}.{role}.txt")
        hr.write(parts[3], folder / f"set{3 - number}.{role}.txt")
    folds = read_set(name, find_set(name, tmp_path).path)
    assert [queries(fold) for fold in folds] == [[part.blocks.ids.tolist() for part in parts[:3]]]
    with pytest.raises(hr.DataError, match="no fold 2"):
        read_set(name, folder, [2])


def test_istella_has_no_validation_and_values_that_are_none(parts, tmp_path):
    folder = tmp_path / "istella-letor" / "full"
    folder.mkdir(parents=True)
    train = hr.RankingData.concatenate(parts[:4])
    hr.write(train, folder / "train.txt")
    hr.write(parts[4], folder / "test.txt")
    with open(folder / "test.txt", "a", encoding="utf-8") as file:
        file.write("1 qid:999 1:1.7976931348623157e+308 2:0.5\n")
    (fold,) = read_set("Istella", find_set("Istella", tmp_path).path)
    kept, check, test = queries(fold)
    ids = sorted(train.blocks.ids.tolist())
    assert sorted(check) == ids[4::5] and sorted(kept + check) == ids and test == [*parts[4].blocks.ids, 999]
    assert np.asarray(fold.test.X)[-1, :2].tolist() == [0.0, 0.5] and np.abs(fold.test.X).max() < 1e300


def test_istella_s_is_one_fold_of_three_files(parts, tmp_path):
    folder = tmp_path / "istella-s-letor" / "sample"
    folder.mkdir(parents=True)
    for role, part in zip(("train", "vali", "test"), parts):
        hr.write(part, folder / f"{role}.txt")
    (fold,) = read_set("Istella-S", find_set("Istella-S", tmp_path).path)
    assert queries(fold) == [part.blocks.ids.tolist() for part in parts[:3]]


def test_a_fetched_set_is_found_where_fetch_keeps_it(parts, tmp_path):
    write_folds(tmp_path / "cache" / "gov" / "QueryLevelNorm" / "2004_hp_dataset", parts)
    assert find_set("HP2004", tmp_path / "nothing").path.name == "2004_hp_dataset"


HETREC = {
    "movies.dat": "id\ttitle\timdbID\n1\tToy story\t0114709\n2\tJumanji\t0113497\n3\tHeat\t0113277\n",
    "movie_genres.dat": "movieID\tgenre\n1\tAnimation\n1\tComedy\n2\tAdventure\n",
    "user_ratedmovies.dat": "userID\tmovieID\trating\tday\n75\t1\t1\t9\n75\t3\t4.5\t9\n78\t2\t3\t1\n78\t1\t2.5\t1\n",
}


def test_hetrec_has_its_genres_in_a_file_of_their_own(tmp_path):
    folder = tmp_path / "hetrec2011-movielens-2k-v2"
    folder.mkdir()
    for name, text in HETREC.items():
        (folder / name).write_text(text, "latin-1")
    assert is_movielens(folder) and find_set("hetrec2011", tmp_path).path == folder
    ratings = read_movielens(folder)
    assert ratings.genres == [("Animation", "Comedy"), ("Adventure",), ()]
    assert ratings.titles.tolist() == ["Toy story", "Jumanji", "Heat"]
    assert ratings.ratings.tolist() == [1, 4.5, 3, 2.5] and ratings.items.tolist() == [0, 2, 1, 0]
    features, parts, compared = SETS["hetrec2011"](Place(tmp_path, tmp_path))
    assert features.shape == (3, 3) and not compared and set(parts) == {"train", "validation", "test"}
    (folder / "movie_genres.dat").unlink()
    with pytest.raises(hr.DataError, match=r"no movie_genres\.dat"):
        read_movielens(folder)


def test_movielens_20m_is_read_from_its_tables(tmp_path):
    folder = tmp_path / "ml-20m"
    folder.mkdir()
    films = 'movieId,title,genres\n1,Toy Story (1995),Adventure|Comedy\n2,"Postman, The (1994)",(no genres listed)\n'
    (folder / "movies.csv").write_text(films)
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,1,3.5,1\n1,2,2.0,2\n2,1,4.0,3\n2,2,5.0,4\n")
    features, parts, _ = SETS["ml-20m"](Place(tmp_path, tmp_path))
    assert features.shape == (2, 2) and sum(len(part[0]) for part in parts.values()) == 4


def test_runs_over_clueweb_are_measured_by_trecs_judgments(tmp_path):
    folder = tmp_path / "trec-web"
    for name in ("09", "10", "11", "runs"):
        (folder / name).mkdir(parents=True)
    (folder / "09" / "qrels.diversity.gz").write_bytes(gzip.compress(b"1 1 a 1\n1 2 b 1\n1 1 c 0\n"))
    (folder / "10" / "10.diversity-qrels.final").write_text("51 1 a 1\n51 2 b 1\n")
    (folder / "11" / "qrels.diversity.xz").write_bytes(lzma.compress(b"101 1 a 1\n101 2 b 0\n"))
    best = "".join(f"{topic} Q0 {doc} {k} {9 - k} x\n" for topic in (1, 51, 101) for k, doc in enumerate("ab", 1))
    (folder / "runs" / "PAMM(ERR-IA).run.gz").write_bytes(gzip.compress(best.encode()))
    (folder / "runs" / "QL.txt").write_text("1 Q0 c 1 2 x\n1 Q0 a 2 1 x\n")
    assert sorted(web_track_qrels(folder)) == ["1", "101", "51"]
    section = TABLES["xu2015-tracks"].sections[0]
    found = own_runs(section, Place(tmp_path, tmp_path))
    assert set(found) == {"PAMM(ERR-IA)", "QL"}
    assert found["PAMM(ERR-IA)"].values == pytest.approx(
        {"α-NDCG@20, 2009": 1, "α-NDCG@20, 2010": 1, "α-NDCG@20, 2011": 1}
        | {title: found["PAMM(ERR-IA)"].values[title] for title in section.columns if title.startswith("ERR")}
    )
    assert set(found["QL"].values) >= {"α-NDCG@20, 2009"} and found["QL"].values["α-NDCG@20, 2009"] < 1
    assert name_of_run(folder / "R-LTR") == "R-LTR"


def toy(study="MQ2007", **words):
    section = {"title": "MQ2007", "study": "toy-mq2007", "columns": ["N@5"], "rows": {"svm": [0.5]}, **words}
    return make_tables(
        [
            {
                "paper": "Toy 2000, A Paper",
                "methods": {"svm": {"ranker": "rank-svm", "search": {"C": [0.01, 1.0]}}},
                "studies": {
                    "toy-mq2007": {"data": study, "choose": "ndcg@5:letor4", "columns": {"N@5": "ndcg@5:letor4"}},
                    "toy-td2004": {"data": "TD2004", "choose": "map", "columns": {"N@5": "ndcg@5"}},
                },
                "tables": [
                    {
                        "name": "toy-table",
                        "title": "Table 1",
                        "setup": "As it is.",
                        "sections": [section, {**section, "title": "TD2004", "study": "toy-td2004"}],
                    }
                ],
            }
        ]
    )["toy-table"]


def test_a_part_says_so_in_its_titles_and_is_not_counted_and_the_whole_set_goes_first(parts, tmp_path):
    folder = tmp_path / "data" / "MQ2007-partial"
    folder.mkdir(parents=True)
    for k, part in enumerate(parts, 1):
        hr.write(part, folder / f"S{k}.txt")
    place, table = Place(tmp_path / "data", tmp_path / "runs", workers=1), toy()
    outcome = reproduce(table, place)
    assert outcome.title == "Table 1 (on 85 % of the rows)" and outcome.section_title(0) == "MQ2007, 85 % of the rows"
    assert outcome.agreement() == "for orientation only" and not list(outcome.differences())
    assert outcome.not_run() == "Not run: data unavailable (TD2004)."
    outcome.save(tmp_path)
    again = load_outcome(table, tmp_path)
    assert (again.title, again.agreement()) == (outcome.title, "for orientation only")
    assert again.not_run() == outcome.not_run()
    write_page(tmp_path / "page.md", [again])
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "**MQ2007, 85 % of the rows**" in page and outcome.not_run() in page
    write_folds(tmp_path / "data" / "MQ2007", parts)
    whole = reproduce(table, place)
    assert whole.title == "Table 1" and whole.agreement().endswith("of 1 figures are within 0.01 of the paper's")
    assert {path.name for path in place.runs.iterdir()} == {"toy-mq2007", "toy-mq2007-part"}


def test_what_stands_in_for_other_data_is_not_counted():
    section = Section("Other", ["a"], {"row": [0.5]}, counted=False)
    outcome = Outcome(PaperTable("t", "P 2000, T", "T", "S.", [section]), [{"row": Ours({"a": 0.5})}], 1.0, {})
    assert outcome.agreement() == "for orientation only" and "none is counted" in outcome.summary()


def test_without_any_of_the_data_the_error_says_where_they_come_from(tmp_path):
    with pytest.raises(MissingSet, match=r"microsoft\.com.*MQ2007"):
        reproduce(toy(), Place(tmp_path, tmp_path / "runs"))


def test_the_methods_of_a_table_run_on_another_set(parts, tmp_path, monkeypatch, capsys):
    write_folds(tmp_path / "MSLR-WEB10K", parts)
    monkeypatch.setitem(TABLES, "toy-table", toy())
    options = ["--on", "MSLR-WEB10K", "--data", str(tmp_path), "-o", str(tmp_path / "out"), "--workers", "1"]
    assert main(["reproduce", "toy-table", *options]) == 0
    saved = json.loads((tmp_path / "out" / "toy-table-on-MSLR-WEB10K.json").read_text("utf-8"))
    assert saved["sections"][0]["title"] == "MSLR-WEB10K" and "No figure to compare" in capsys.readouterr().out
    moved = on_set(toy(), "MSLR-WEB10K").sections[0]
    assert moved.study.choose == "ndcg@5:mslr" and moved.methods["svm"].fixed["scale"] == "standard"
    expected = []
    for fold in hr.read_folds(tmp_path / "MSLR-WEB10K"):
        made = [hr.RankSVM(C=C, scale="standard").fit(fold.train) for C in (0.01, 1.0)]
        scores = [
            hr.evaluate(fold.validation.y, r.predict(fold.validation), fold.validation.qid, "ndcg@5:mslr") for r in made
        ]
        best = made[int(np.argmax([score["ndcg@5:mslr"] for score in scores]))]
        found = hr.evaluate(fold.test.y, best.predict(fold.test), fold.test.qid, "ndcg@5:mslr")
        expected.append(found["ndcg@5:mslr"])
    assert saved["sections"][0]["rows"]["svm"]["values"]["N@5"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert main(["reproduce", "toy-table", "--on", "ml-20m"]) == 1
    assert "the known ones are: OHSUMED" in capsys.readouterr().err


def test_trees_of_raw_sets_are_left_as_they_are():
    methods = TABLES["xu2019-table5"].sections[0].methods
    assert "scale" not in methods["LambdaMART"].fixed and methods["Fac-RSVM"].fixed["scale"] == "standard"
    assert "scale" not in TABLES["xu2019-table4"].sections[0].methods["Fac-RSVM"].fixed
    assert set(GRADED) >= {"Istella", "Yahoo-LTRC", "MSLR-WEB30K", "NP2003"}
    assert TableStudy("a", "b").data not in KNOWN
