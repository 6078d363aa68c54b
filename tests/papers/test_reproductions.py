"""Tables of papers: the registry is sound, figures are compared as they stand, runs continue, the page follows them."""

import json
import os
import re
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.stats
from sklearn.exceptions import ConvergenceWarning

import hingerank as hr
from hingerank.cli import main
from hingerank.data.generate import make_letor
from hingerank.lab.statistics import randomisation
from hingerank.metrics import parse_measure
from hingerank.papers import (
    PAPERS,
    TABLES,
    Ours,
    Outcome,
    PaperTable,
    Place,
    Section,
    letor,
    load_outcome,
    reproduce,
)
from hingerank.papers.engine import make_recipe, make_tables
from hingerank.papers.letor import measures_of, results_of
from hingerank.papers.pages import write_page, write_what_came_out
from hingerank.search.folds import path_batches

ROOT = Path(__file__).resolve().parents[2]
SAVED = ROOT / "docs" / "reproductions"
FIGURES = ROOT / "src" / "hingerank" / "papers" / "figures"
ALL_WORDS = [tomllib.loads(path.read_text("utf-8")) for path in FIGURES.glob("*.toml")]
DATA = Path(os.environ.get("HINGERANK_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture
def place(tmp_path):
    """A generated set of five parts called small, and room for runs."""
    folder = tmp_path / "data" / "small"
    folder.mkdir(parents=True)
    data = make_letor(n_queries=30, rows_per_query=12, n_features=5, seed=0)
    for k, ids in enumerate(np.split(data.blocks.ids, 5), 1):
        hr.write(data.take(np.flatnonzero(np.isin(data.qid, ids))), folder / f"S{k}.txt")
    return Place(tmp_path / "data", tmp_path / "runs", workers=1)


FILE = (
    """
paper = "Toy 2000, A Paper"

[studies.small]
data = "small"
choose = "ndcg@5"
columns = { "N@5" = "ndcg@5", MAP = "map", ratio = "nonzero fraction" }

[methods]
svm = { ranker = "rank-svm", search = { C = [0.01, 1.0] } }
sparse = { ranker = "fenchel-rank", fixed = { radius = 0.1 } }
hinge = { ranker = "rank-svm", fixed = { loss = "hinge" } }
one = { ranker = "rank-svm", fixed = { C = 1.0 } }
"ours alone" = { ranker = "rank-svm", fixed = { C = 1e-6 } }
nothing = { ranker = "fenchel-rank", fixed = { radius = 1e-9, max_iter = 1 } }
factors = { ranker = "factorized", search = { C = [0.01, 1.0] }, fixed = { rank = 2, max_iter = 3 } }

[[tables]]
name = "toy-table1"
title = "Table 1"
setup = """
    + "'''\nAs\nit is.'''"
)


def small_table(*sections):
    """A table of a file with these sections; by default one that has every kind of row."""
    usual = {"svm": [0.9, np.nan], "sparse": [0.8, 0.7], "not run": [0.5, 0.5], "ours alone": []}
    words = tomllib.loads(FILE)
    words["tables"][0]["sections"] = [
        {"title": "A", "study": "small", **section}
        for section in sections or [{"columns": ["N@5", "ratio"], "rows": usual}]
    ]
    return make_tables([words])["toy-table1"]


def small_section(rows, **words):
    return small_table({"columns": ["N@5"], "rows": rows, **words}).sections[0]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_file_of_figures_has_nothing_that_is_not_used(paper):
    """Keys that the engine does not know would be refused by it; here: names that no table asks for, odd figures."""
    words = tomllib.loads((FIGURES / f"{paper}.toml").read_text("utf-8"))
    assert set(words) <= {"paper", "came_out", "believe", "own", "baselines", "methods", "studies", "tables"}
    used = [section for other in ALL_WORDS for table in other["tables"] for section in table["sections"]]
    asked = {section["study"] for section in used}
    assert set(words.get("studies", {})) <= asked, "a study that no section runs"
    for table in words["tables"]:
        assert set(table) <= {"name", "fast", "title", "setup", "finding", "own", "baselines", "edges", "sections"}
        assert table["name"].startswith(paper)
    rows = {row for section in used for row in section.get("rows", {})}
    rows |= {name for section in used for name in section.get("options", {}).values() if isinstance(name, str)}
    methods = [words.get("methods", {}), *(study.get("methods", {}) for study in words.get("studies", {}).values())]
    assert {name for known in methods for name in known} <= rows, "a method that no row is called after"


def test_every_file_of_figures_is_a_paper():
    assert sorted(path.stem for path in FIGURES.iterdir()) == sorted(PAPERS)


def test_studies_take_measures_that_exist_and_sections_show_columns_that_they_have():
    for section in (section for table in TABLES.values() for section in table.sections):
        module, _, function = section.runner.partition(".")
        assert callable(getattr(import_module(f"hingerank.papers.{module}"), function))
        for measure in [*measures_of(section.study), *filter(None, [section.study.choose])]:
            parse_measure(measure)
        if function in ("comparison", "p_values", "random_starts", "one_setting"):
            assert set(section.columns) <= set(section.study.columns)
        assert set(section.marks.values()) <= set(section.methods)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"study": "unknown"}, KeyError),
        ({"colour": "red"}, TypeError),
        ({"rows": {"svm": ["0.9"]}}, TypeError),
    ],
)
def test_a_file_that_is_not_of_the_form_is_refused(change, error):
    with pytest.raises(error):
        small_table({"columns": ["N@5"], **change})


def test_files_say_a_grid_by_its_ends_and_may_break_lines_in_prose():
    words = tomllib.loads(FILE)
    words["methods"]["svm"]["search"] = {"C": {"powers_of_two": [-4, 4, 4]}}
    words["studies"]["small"]["methods"] = {"sparse": {"ranker": "fenchel-rank", "fixed": {"radius": 5.0}}}
    words["tables"][0]["sections"] = [
        {"title": "A", "study": "small", "columns": ["N@5"], "rows": {"svm": [], "sparse": []}}
    ]
    table = make_tables([words])["toy-table1"]
    svm, sparse = table.sections[0].methods.values()
    assert svm.search == {"C": [0.0625, 1.0, 16.0]} and table.setup == "As it is."
    assert sparse.fixed == {"radius": 5.0}, "a study's own method stands before the paper's"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_table_is_whole(table):
    assert table.paper and table.title and table.setup.endswith(".") and table.sections
    assert table.finding == "" or table.finding.endswith(".")
    titles = [section.title for section in table.sections]
    assert len(set(titles)) == len(titles)
    for section in table.sections:
        assert section.columns
        for row, figures in [*section.figures.items(), *section.after.items()]:
            assert len(figures) == len(section.columns), row


def test_every_ranker_of_a_table_can_be_made_and_means_the_same_in_all_tables_of_a_study():
    known = {}
    for table in TABLES.values():
        for section in table.sections:
            if section.runner == "letor.comparison":
                for row, recipe in section.methods.items():
                    method = recipe.method(row)
                    method.make(method.search.settings()[0])
                    key = section.study.run, row
                    assert known.setdefault(key, method.definition()) == method.definition(), key
    assert len(known) > 20


def test_a_table_is_run_compared_saved_and_read_back(place, tmp_path):
    table = small_table()
    outcome = reproduce(table, place)
    figures = {(f.row, f.column): f for f in outcome.figures(0)}
    svm, sparse = figures["svm", "N@5"], figures["sparse", "ratio"]
    assert svm.paper == 0.9 and 0.3 < svm.ours < 1
    assert svm.difference == pytest.approx(svm.ours - 0.9)
    assert 0 < sparse.ours < 1 and sparse.difference == pytest.approx(sparse.ours - 0.7)
    assert figures["not run", "N@5"].ours is None and figures["not run", "N@5"].difference is None
    assert figures["ours alone", "N@5"].paper is None and figures["ours alone", "N@5"].ours > 0
    assert len(outcome.sections[0]["svm"].chosen) == 5 and outcome.sections[0]["ours alone"].chosen == ()
    outcome.save(tmp_path)
    again = load_outcome(table, tmp_path)
    assert [f.row for f in again.figures(0)] == [f.row for f in outcome.figures(0)]
    for old, new in zip(outcome.sections[0].values(), again.sections[0].values()):
        assert new.values == pytest.approx(old.values, abs=1e-6)
    assert load_outcome(TABLES["lai2013-table2"], tmp_path) is None


def test_tables_of_one_study_share_its_results(place):
    first = small_section({"svm": [1]}).compute(place)
    lines = (place.runs / "small" / "results.jsonl").read_bytes().count(b"\n")
    second = small_section({"svm": [1], "hinge": [1]}).compute(place)
    assert (place.runs / "small" / "results.jsonl").read_bytes().count(b"\n") == lines + 5
    assert second["svm"].values == first["svm"].values


def test_some_folds_only_are_a_run_of_their_own(place):
    part = Place(place.data, place.runs, [2], workers=1)
    ours = small_section({"one": [1]}).compute(part)["one"]
    fold = hr.read_folds(place.data / "small", [2])[0]
    scores = hr.RankSVM(C=1.0).fit(fold.train).predict(fold.test)
    assert ours.values["N@5"] == pytest.approx(hr.evaluate(fold.test.y, scores, fold.test.qid, "ndcg@5")["ndcg@5"])
    assert ours.spread is None and [p.name for p in place.runs.iterdir()] == ["small-fold2"]


def test_beyond_the_grid_the_nearest_is_tried_first_and_what_is_worse_ends_it():
    recipe = make_recipe("rank-svm", {"C": [1.0, 10.0], "max_iter": [1, 2], "scale": ["none", "standard"]})
    tried = recipe.explore(lambda s: -abs(np.log10(s["C"]) - 2) - abs(s["max_iter"] - 2) - (s["scale"] is None))
    assert len(tried) == 8 + 3  # C = 100 is better and 1,000 not; max_iter = 4 is worse, and 8 is not tried
    assert [setting["C"] for setting, _ in tried[8:]].count(100.0) >= 1
    assert max(tried, key=lambda pair: pair[1])[0] == {"C": 100.0, "max_iter": 2, "scale": "standard"}
    assert {s["max_iter"] for s, _ in tried} == {1, 2, 4}


def test_rankers_that_take_a_device_learn_there(place, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(letor, "compare", lambda methods, *rest, **options: asked.extend(methods))
    recipes = {"svm": make_recipe("rank-svm", {"C": [1.0]}), "boost": make_recipe("rankboost", {"max_iter": [2]})}
    study = small_section({"svm": [1]}).study
    results_of(study, [recipe.method(row) for row, recipe in recipes.items()], replace(place, device="cuda"))
    assert [method.fixed for method in asked] == [{"device": "cuda"}, {}]
    assert main(["reproduce", "lai2013-table2", "--device", "tpu"]) == 1
    assert "device" in capsys.readouterr().err


def test_single_rows_are_run_again_and_the_others_stay_as_they_are_saved(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(TABLES, "toy-table1", small_table())
    output = tmp_path / "out"
    options = ["--data", str(place.data), "-o", str(output), "--workers", "1"]
    assert main(["reproduce", "toy-table1", "--row", "svm", *options]) == 1
    assert "run all of it first" in capsys.readouterr().err
    assert main(["reproduce", "toy-table1", *options]) == 0
    words = json.loads((output / "toy-table1.json").read_text("utf-8"))
    right = words["sections"][0]["rows"]["svm"]["values"]["N@5"]
    for row in ("svm", "sparse"):
        words["sections"][0]["rows"][row]["values"]["N@5"] = 0.1234
    words |= {"date": "2000-01-01", "versions": {"hingerank": "0.0.1"}}
    (output / "toy-table1.json").write_text(json.dumps(words), "utf-8")
    assert main(["reproduce", "toy-table1", "--row", "svm", *options]) == 0
    again = load_outcome(small_table(), output)
    assert again.sections[0]["svm"].values["N@5"] == right and again.sections[0]["sparse"].values["N@5"] == 0.1234
    assert again.date == "2000-01-01" and again.sections[0]["sparse"].made == ""
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d by version {re.escape(hr.__version__)}", again.sections[0]["svm"].made)
    write_page(tmp_path / "page.md", [again])
    made = again.sections[0]["svm"].made
    assert f"Run on 2000-01-01 by version 0.0.1; svm on {made}." in (tmp_path / "page.md").read_text("utf-8")
    newer = [{row: replace(ours, made=made if row != "sparse" else "") for row, ours in again.sections[0].items()}]
    assert replace(again, sections=newer).when() == f"Run on {made}; sparse on 2000-01-01 by version 0.0.1."
    assert main(["reproduce", "toy-table1", "--row", "unknown", *options]) == 1
    assert "no row 'unknown' that can be run alone: choose from 'svm', 'sparse'" in capsys.readouterr().err


def test_marks_say_which_rows_are_beaten(place):
    section = small_section({"one": [1], "nothing": [1]}, marks={"*": "nothing"})
    found = section.compute(place)
    beaten = found["one"].values["N@5"] > found["nothing"].values["N@5"] + 0.1
    assert (found["one"].marks == {"N@5": "*"}) == beaten
    assert found["nothing"].marks is None
    assert "* than nothing" in section.note


def test_p_values_are_those_of_the_tests(place):
    section = small_section({"t": [0.5]}, runner="letor.p_values", options={"first": "one", "second": "nothing"})
    found = section.compute(place)
    results = results_of(section.study, [section.study.methods[row].method(row) for row in ("one", "nothing")], place)
    first, second = (results.per_query(row, "ndcg@5") for row in ("one", "nothing"))
    pair = [first[query] for query in second], list(second.values())
    expected = scipy.stats.ttest_rel(*pair, alternative="greater").pvalue
    assert found["t"].values["N@5"] == pytest.approx(expected, rel=1e-9)
    assert found["randomisation, two-sided"].values["N@5"] == randomisation(*pair).p


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_row_may_fit_every_value_from_nothing(place):
    """Classic steps that stop early end elsewhere when they begin at the solution of the radius before."""
    words = tomllib.loads(FILE)
    recipe = {
        "ranker": "fenchel-rank",
        "search": {"radius": [1.0, 4.0]},
        "fixed": {"variant": "classic", "max_iter": 3},
    }
    words["methods"] |= {"warm": recipe, "cold": {**recipe, "path": ""}}
    words["tables"][0]["sections"] = [
        {"title": "A", "study": "small", "columns": ["N@5"], "rows": {"warm": [], "cold": []}}
    ]
    section = make_tables([words])["toy-table1"].sections[0]
    methods = [section.methods[row].method(row) for row in ("warm", "cold")]
    assert [len(path_batches(method.search.settings(), method.paths)) for method in methods] == [1, 2]
    assert methods[0].definition() != methods[1].definition()
    results = results_of(section.study, methods, place)
    for record, fold in zip(results.tests("cold"), hr.read_folds(place.data / "small")):
        ranker = hr.FenchelRank(variant="classic", max_iter=3, **record["setting"]).fit(fold.train)
        assert results.arrays("cold", record["fold"])["weights"] == pytest.approx(ranker.coef_)


def test_two_parameters_give_a_figure_for_every_pair_of_values(place):
    words = {"parameters": {"c": "C", "t": "tol"}, "measure": "map", "method": {"ranker": "rank-svm"}}
    section = small_table(
        {
            "columns": ["t = 0.1", "t = 0.001"],
            "rows": {"c = 1": [0.5, 0.5], "c = 0.01": [0.5, np.nan]},
            "runner": "letor.two_parameters",
            "options": words,
        }
    ).sections[0]
    found = section.compute(place)
    folds = hr.read_folds(place.data / "small")
    for row, C in (("c = 1", 1.0), ("c = 0.01", 0.01)):
        for column, tol in (("t = 0.1", 0.1), ("t = 0.001", 0.001)):
            scores = [(f.test, hr.RankSVM(C=C, tol=tol).fit(f.train).predict(f.test)) for f in folds]
            means = [hr.evaluate(test.y, s, test.qid, "map")["map"] for test, s in scores]
            assert found[row].values[column] == pytest.approx(np.mean(means))


def outcome_of(values, columns=("a", "seconds"), figures=(0.5, 3.0), **options):
    section = Section("S", columns, {"row": figures}, **options)
    table = PaperTable("t", "P 2000, Title", "Table 1", "Setup.", [section], "It matches.")
    return Outcome(table, [{"row": Ours(dict(zip(columns, values)), {"a": "*"})}], 1.0, {})


def test_the_summary_counts_what_is_close_and_leaves_seconds_out():
    assert outcome_of([0.51, 9.0]).summary() == (
        "1 of 1 figures are within 0.01 of the paper's. Ours minus the paper's is +0.0100 on average; "
        "the largest difference is +0.0100 (row, a)."
    )
    assert outcome_of([0.49, 9.0]).summary().endswith("the largest difference is -0.0100 (row, a).")
    assert outcome_of([0.52, 3.0]).summary().startswith("0 of 1 figures")
    counts = outcome_of([5.0, 7.0], ("a", "b"), (5.0, 8.0), close=0, digits=0)
    assert counts.summary().startswith("1 of 2 figures are equal to the paper's.")


def test_a_papers_own_methods_and_its_baselines_are_counted_apart(tmp_path):
    section = Section("S", ["a"], {"ours, K = 5": [0.5], "theirs": [0.4], "old": [0.3]})
    table = PaperTable("t", "P 2000, T", "Table 1", "S.", [section], "", ["ours*"], "tuned more widely here.")
    rows = {"ours, K = 5": Ours({"a": 0.5}), "theirs": Ours({"a": 0.45}), "old": Ours({"a": 0.3})}
    outcome = Outcome(table, [rows], 1.0, {})
    assert outcome.counts(True) == (1, 1) and outcome.counts(False) == (1, 2) and outcome.counts() == (2, 3)
    both = "1 of 1 figures of its own methods and 1 of 2 figures of its baselines"
    assert outcome.agreement() == f"{both} are within 0.01 of the paper's"
    assert outcome.summary().endswith("Baselines: tuned more widely here.")
    write_page(tmp_path / "page.md", [outcome])
    assert "| [t](#t) | P 2000 | Table 1 | 1 of 1 | 1 of 2 | within 0.01 |" in (tmp_path / "page.md").read_text("utf-8")


def test_every_table_says_which_methods_are_the_papers_own_and_how_its_baselines_differ():
    for table in TABLES.values():
        rows = {row for section in table.sections for row in (*section.figures, *section.methods)}
        columns = {column for section in table.sections for column in section.columns}
        assert table.own and table.baselines, table.name
        assert any(table.is_own(name) for name in rows | columns) or table.name == "xu2019-fig2", table.name


def test_the_page_shows_both_figures_the_difference_and_the_finding(tmp_path):
    write_page(tmp_path / "page.md", [outcome_of([0.51, 12.0])])
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "| row | paper | 0.5000 | 3.00 |\n| row | ours | 0.5100\\* (+0.0100) | 12.0 |" in page
    assert "It matches." in page and "## t\n" in page and "P 2000, Title. Table 1." in page


def test_a_marked_figure_of_a_finding_is_that_of_the_results(tmp_path):
    outcome = outcome_of([0.5123, 12.0])
    finding = ".4<!-- = t / S / row / a --> was expected. It matches."
    outcome = replace(outcome, table=replace(outcome.table, finding=finding))
    for write in (write_page, write_what_came_out):
        write(tmp_path / "page.md", [outcome])
        assert ".5<!-- = t / S / row / a --> was expected." in (tmp_path / "page.md").read_text("utf-8")


def test_a_column_of_counts_has_no_decimals(tmp_path):
    write_page(tmp_path / "page.md", [outcome_of([12.0, 0.5], ("a", "MAP"), (14.0, 0.25))])
    assert "| row | ours | 12\\* (-2) | 0.5000 (+0.2500) |" in (tmp_path / "page.md").read_text("utf-8")


def test_standard_deviations_and_marks_stand_where_the_paper_has_them(tmp_path):
    section = Section("S", ["a"], {"x": [0.5], "y": [0.4]}, after={"x": ["† ± 0.010"]})
    table = PaperTable("t", "P 2000, Title", "Table 1", "Setup.", [section])
    rows = {name: Ours({"a": 0.51}, {"a": "*"}, {"a": 0.0204}) for name in ("x", "y")}
    write_page(tmp_path / "page.md", [Outcome(table, [rows], 1.0, {})])
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "| x | paper | 0.5000† ± 0.010 |\n| x | ours | 0.5100\\* ± 0.020 (+0.0100) |" in page
    assert "| y | paper | 0.4000 |\n| y | ours | 0.5100\\* (+0.1100) |" in page


def test_ten_starts_give_a_mean_and_a_spread_at_the_chosen_settings(place):
    section = small_section({}, runner="letor.random_starts", options={"methods": ["factors"]})
    found = section.compute(place)["factors, ten starts"]
    method = section.study.methods["factors"].method("factors")
    chosen = [record["setting"] for record in results_of(section.study, [method], place).tests("factors")]
    values = []
    for seed in range(10):
        means = []
        for fold, setting in zip(hr.read_folds(place.data / "small"), chosen):
            with pytest.warns(ConvergenceWarning):
                ranker = hr.FactorizedRankSVM(rank=2, max_iter=3, random_state=seed, **setting).fit(fold.train)
            means.append(hr.evaluate(fold.test.y, ranker.predict(fold.test), fold.test.qid, "ndcg@5")["ndcg@5"])
        values.append(np.mean(means))
    assert found.values["N@5"] == pytest.approx(np.mean(values)) and found.spread["N@5"] == pytest.approx(
        np.std(values, ddof=1)
    )


def test_one_setting_for_all_folds_is_that_of_the_best_mean_on_validation(place):
    section = small_section({}, runner="letor.one_setting", options={"methods": ["svm"]})
    found = section.compute(place)["svm, one setting"]
    study, folds = section.study, hr.read_folds(place.data / "small")
    recipe = study.methods["svm"]
    tried = results_of(study, [recipe.method("svm")], place).validations("svm")
    everywhere = [r["setting"] for r in tried if sum(r["setting"] == other["setting"] for other in tried) == len(folds)]
    rankers = {
        C: [hr.RankSVM(C=C, **recipe.fixed).fit(fold.train) for fold in folds] for C in (s["C"] for s in everywhere)
    }

    def mean(C, part, measure):
        parts = [getattr(fold, part) for fold in folds]
        return np.mean([hr.evaluate(p.y, r.predict(p), p.qid, measure)[measure] for p, r in zip(parts, rankers[C])])

    [chosen] = found.chosen
    means = {C: mean(C, "validation", study.choose) for C in rankers}
    assert len(means) > 1 and means[chosen["C"]] == pytest.approx(max(means.values()), abs=1e-6)
    assert found.values["N@5"] == pytest.approx(mean(chosen["C"], "test", "ndcg@5"), abs=1e-6)


def test_starts_are_called_what_they_are(place):
    options = {"methods": ["factors"], "starts": 8, "called": "draws"}
    assert list(small_section({}, runner="letor.random_starts", options=options).compute(place)) == [
        "factors, eight draws"
    ]


def test_the_page_in_the_documentation_is_that_of_the_saved_results(tmp_path):
    found = [outcome for table in TABLES.values() if (outcome := load_outcome(table, SAVED)) is not None]
    write_page(tmp_path / "page.md", found)
    expected = (tmp_path / "page.md").read_text("utf-8")
    assert (ROOT / "docs/reproductions.md").read_text("utf-8") == expected, "run `hingerank reproduce --write-docs`"
    unknown = {path.stem for path in SAVED.glob("*.json")} - set(TABLES)
    assert not unknown, "saved results of tables that do not exist"


def test_the_page_of_what_came_out_is_that_of_the_saved_results(tmp_path):
    found = [outcome for table in TABLES.values() if (outcome := load_outcome(table, SAVED)) is not None]
    write_what_came_out(tmp_path / "page.md", found)
    expected = (tmp_path / "page.md").read_text("utf-8")
    assert (ROOT / "docs/what-came-out.md").read_text("utf-8") == expected, "run `hingerank reproduce --write-docs`"
    assert all(table.came_out and table.believe for table in TABLES.values())


def test_figures_are_counted_above_within_and_below(tmp_path):
    section = Section("S", ["a", "b", "c"], {"x": [0.5, 0.5, 0.5], "y": [0.4, 0.4, 0.4]})
    table = PaperTable("t", "P 2000, Title", "T", "S.", [section], own=["x"], came_out="It did.", believe="This.")
    rows = {"x": Ours({"a": 0.52, "b": 0.505, "c": 0.51}), "y": Ours({"a": 0.38, "b": 0.3, "c": 0.4})}
    write_what_came_out(tmp_path / "page.md", [Outcome(table, [rows], 1.0, {})])
    page = (tmp_path / "page.md").read_text("utf-8")
    assert "| P 2000 | 1 | 2 | 0 | 0 | 1 | 2 |" in page and "It did." in page and "This." in page


def test_the_command_runs_saves_lists_and_writes_the_page(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(TABLES, "toy-table1", small_table())
    output = tmp_path / "out"
    assert main(["reproduce", "toy-table1", "--data", str(place.data), "-o", str(output), "--workers", "1"]) == 0
    captured = capsys.readouterr()
    shown = captured.out
    assert "0.9000" in shown and "ours" in shown and "figures are within 0.01" in shown
    assert "toy-table1: 3 methods, " in captured.err and "not known" in captured.err
    saved = json.loads((output / "toy-table1.json").read_text("utf-8"))
    assert saved["name"] == "toy-table1" and set(saved["sections"][0]["rows"]) == {"svm", "sparse", "ours alone"}
    assert main(["reproduce", "--write-docs", "-o", str(output)]) == 0
    assert "## toy-table1" in (tmp_path / "out.md").read_text("utf-8")
    before = (output / "toy-table1.json").read_bytes()
    assert saved["date"] and saved["versions"]["hingerank"] == hr.__version__
    options = ["--data", str(place.data), "-o", str(output), "--folds", "1", "--json", "--workers", "1"]
    capsys.readouterr()
    assert main(["reproduce", "toy-table1", *options]) == 0
    figures = json.loads(capsys.readouterr().out)["sections"][0]["figures"]
    assert {f["row"] for f in figures} == {"svm", "sparse", "not run", "ours alone"}
    assert (output / "toy-table1.json").read_bytes() == before, "a quick look must not replace a result"
    assert main(["reproduce", "--list", "--json"]) == 0
    assert {"name": "toy-table1", "paper": "Toy 2000", "title": "Table 1"} in json.loads(capsys.readouterr().out)


def test_what_was_not_run_is_printed_also_where_errors_do_not_go_to_a_terminal(place, tmp_path, monkeypatch, capsys):
    rows = {"columns": ["N@5"], "rows": {"one": [0.9]}}
    table = small_table(rows, {"title": "B", **rows})
    absent = replace(table.sections[1], study=replace(table.sections[1].study, data="TD2004"))
    monkeypatch.setitem(TABLES, "toy-table1", replace(table, sections=[table.sections[0], absent]))
    where = ["--data", str(place.data), "-o", str(tmp_path / "out"), "--workers", "1"]
    assert main(["reproduce", "toy-table1", *where]) == 0
    assert "Not run: data unavailable (B)." in capsys.readouterr().out


def test_the_check_runs_anew_and_says_what_moved(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(TABLES, "toy-table1", small_table())
    output = tmp_path / "out"
    options = ["--data", str(place.data), "-o", str(output), "--workers", "1"]
    assert main(["reproduce", "toy-table1", *options]) == 0
    before = (output / "toy-table1.json").read_bytes()
    capsys.readouterr()
    assert main(["reproduce", "--check", "toy-table1", *options]) == 0
    assert f"toy-table1: nothing changed since {json.loads(before)['date']}, version" in capsys.readouterr().out
    elsewhere = tmp_path / "elsewhere"  # no checkout: results are named
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    named = ["--data", str(place.data), "--workers", "1"]
    assert main(["reproduce", "--check", "toy-table1", *named]) == 1
    assert "name a folder that has some with --results" in capsys.readouterr().err
    assert main(["reproduce", "--check", "toy-table1", "--results", str(output), *named]) == 0
    assert "nothing changed" in capsys.readouterr().out and not list(elsewhere.iterdir())
    words = json.loads(before)
    words["sections"][0]["rows"]["svm"]["values"]["N@5"] = 0.1234
    (output / "toy-table1.json").write_text(json.dumps(words), "utf-8")
    assert main(["reproduce", "--check", "toy-table1", *options]) == 1
    shown = capsys.readouterr().out
    assert "toy-table1: 1 changed" in shown and "A, svm, N@5: 0.1234 to 0." in shown
    assert json.loads((output / "toy-table1.json").read_text("utf-8")) == words, "a check does not save"
    monkeypatch.setattr("hingerank.papers.TABLES", {"toy-table1": small_table()})
    assert main(["reproduce", "--check", *options]) == 1  # no table is fast
    assert "no saved results" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lai2013-table22"], "(hingerank reproduce --list lists them); did you mean 'lai2013-table2'"),
        (["xu2019-table7", "--device", "cuda"], "--device cuda: no ranker of xu2019-table7 can use a GPU"),
        (["cheng2018-table2", "--device", "cuda"], "no ranker of cheng2018-table2 can use a GPU"),
        ([], "name a table"),
        (
            ["lai2013-table2", "--data", "nowhere"],
            "there is no OHSUMED in nowhere: set $HINGERANK_DATA, or --data",
        ),
        (["lai2013-table2"], "there is no OHSUMED in kept: set $HINGERANK_DATA, or --data, to the folder"),
        (["lai2013-table2", "--folds", "zero"], "counted from 1"),
        (["--write-docs", "-o", "empty"], "no saved results"),
        (["--list", "--check"], "--list and --check exclude each other"),
        (["--list", "lai2013-table2"], "NAME is not for --list: leave it out"),
        (["--check", "lai2013-table2", "--folds", "1"], "--folds is not for --check: leave it out"),
        (["--write-docs", "--on", "MQ2008"], "--on is not for --write-docs: leave it out"),
        (["lai2013-table2", "--results", "here"], "--results is not for running a table: leave it out"),
    ],
)
def test_mistakes_are_named(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HINGERANK_DATA", raising=False)
    monkeypatch.setenv("HINGERANK_CACHE", "kept")  # where sets that were fetched lie
    assert main(["reproduce", *arguments]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.skipif(not (DATA / "MQ2008").is_dir(), reason=f"MQ2008 is not in {DATA}; set HINGERANK_DATA")
def test_mq2008_has_the_papers_ndcg_under_letor4_and_more_than_twice_that_by_default():
    measures = ["ndcg@10:letor4", "map:letor4", "ndcg@10"]
    means = {}
    for ranker in (hr.RankSVM(C=2.0**-10), hr.FenchelRank(radius=2.0)):
        values = []
        for fold in hr.read_folds(DATA / "MQ2008"):
            scores = ranker.fit(fold.train).predict(fold.test)
            values.append(list(hr.evaluate(fold.test.y, scores, fold.test.qid, measures).values()))
        means[type(ranker).__name__] = np.mean(values, axis=0)
    published = {"RankSVM": (0.2279, 0.4696), "FenchelRank": (0.2317, 0.4785)}  # Lai et al. 2013, Table 8
    for name, given in published.items():
        assert means[name][:2] == pytest.approx(given, abs=0.005)
        assert means[name][2] == pytest.approx(0.505, abs=0.005)


def test_the_pictures_of_the_documentation_are_those_of_the_saved_results():
    for table in TABLES.values():
        if (outcome := load_outcome(table, SAVED)) is not None:
            stored = (SAVED / f"{table.name}.svg").read_text("utf-8")
            assert stored == outcome.picture(), "run `hingerank reproduce --write-docs`"
            ElementTree.fromstring(stored)


@pytest.mark.parametrize(
    ("picture", "name", "draw"),
    [
        ("interactions.svg", "xu2019-fig2", "low_rank.py figures"),
        ("regularized-heat-map.svg", "xu2019-table8", "low_rank.py figures"),
        ("kernel_components.svg", "chen2017-fig2", "kernel.py --figure"),
    ],
)
def test_a_picture_of_saved_results_is_drawn_again_when_they_change(picture, name, draw):
    outcome = load_outcome(TABLES[name], SAVED)
    root = ElementTree.parse(SAVED.parent / "figures" / picture)
    sources = [node.text for node in root.iter("{http://purl.org/dc/elements/1.1/}source")]
    assert sources == [outcome.source], f"run `python benchmarks/{draw}`"
    first = next(row for rows in outcome.sections for row in rows.values())
    first.values.update(dict.fromkeys(list(first.values)[:1], -1.0))
    assert outcome.source not in sources


def test_a_picture_has_the_papers_figures_ours_and_their_deviations():
    section = Section("<S>", ["a", "seconds"], {"x & y": [0.5, 1.0], "not run": [0.4, 2.0]})
    rows = {"x & y": Ours({"a": 0.6, "seconds": 3.0}, spread={"a": 0.1}), "ours alone": Ours({"a": 0.7})}
    picture = Outcome(PaperTable("t", "P 2000, T", "Table 1", "S.", [section]), [rows], 1.0, {}).picture()
    root = ElementTree.fromstring(picture)
    kinds = [node.tag.partition("}")[2] for node in root]
    words = [node.text for node in root if node.text and node.tag.endswith("text")]
    assert kinds.count("polygon") == 1 + 1 and kinds.count("circle") == 1 + 2  # one of each is in the key
    assert {"<S>", "a", "x & y", "ours alone"} <= set(words) and not {"seconds", "not run"} & set(words)
    ours = [float(node.get("cx")) for node in root if node.tag.endswith("circle")][1:]
    bar = next(node for node in root if node.tag.endswith("line") and node.get("stroke") == "#1f5fa8")
    assert float(bar.get("x1")) < ours[0] < float(bar.get("x2")) and ours[0] < ours[1]


def test_what_grew_and_what_is_still_at_an_edge_is_said():
    recipe = make_recipe("rank-svm", {"C": [1.0, 4.0], "loss": ["hinge", "logistic"]})
    section = Section("S", ["a"], {}, methods={"row": recipe})
    table = PaperTable("t", "P 2000, T", "Table 1", "S.", [section])

    def said(chosen, settings):
        ours = Ours({"a": 0.5}, chosen=[{"C": C, "loss": "hinge"} for C in chosen], widened=recipe.grown(settings))
        return " ".join(Outcome(table, [{"row": ours}], 1.0, {}).grids())

    tried = [{"C": C, "loss": "hinge"} for C in (1.0, 4.0, 64.0, 16.0)]
    grew = "Grids grew where the best value was at their edge; values tried beyond: row (C = 16, 64)."
    at_edge = "The best value is at the edge of all that was tried, in some fold"
    assert said([4.0], tried).strip() == grew
    assert f"{at_edge}: row (C = 64)." in said([16.0, 64.0], tried)
    assert said([1.0], tried[:2]).strip() == f"{at_edge}: row (C = 1)."
    assert "row (C = 256)." in said([256.0], tried)  # of another grid than today's
    table = replace(table, edges={"ro*": "no bracket", "other": "no row"})
    assert said([1.0], tried[:2]).startswith(f"{at_edge} (no bracket): row (C = 1).")
    ours = Ours({"a": 0.5}, chosen=[{"C": 1.0, "loss": "hinge"}])
    assert Outcome(table, [{"row": ours}], 1.0, {}).edges() == {"row": "no bracket"}
    table = replace(table, sections=[section, section])
    parts = [Ours({}, widened={"C": [64.0]}), Ours({}, widened={"C": [2.0**-20, 64.0], "tol": [0.1]})]
    words = Outcome(table, [{"row": ours} for ours in parts], 1.0, {}).grids()
    assert words[0].endswith("beyond: row (C = 2^-20, 64 and tol = 0.1).")


def test_a_grid_that_ends_too_early_grows_in_a_comparison(place):
    recipe = make_recipe("rank-svm", {"C": [1e-9, 2e-9]})
    section = small_section({"row": []})
    study = replace(section.study, run="grows", methods={"row": recipe})
    found = replace(section, study=study, methods={"row": recipe}).compute(place)["row"]
    assert found.widened == {} or set(found.widened) == {"C"}
    settings = [r["setting"]["C"] for r in results_of(study, [recipe.method("row")], place).records]
    assert sorted(set(settings) - {1e-9, 2e-9}) == found.widened.get("C", [])


def test_a_closed_grid_stays_and_says_so(place):
    recipe = make_recipe("rank-svm", {"C": [1e-5, 2e-5]}, closed=True)
    section = small_section({"row": []})
    study = replace(section.study, run="stays", methods={"row": recipe})
    section = replace(section, study=study, methods={"row": recipe})
    found = section.compute(place)
    assert not found["row"].widened and {s["C"] for s in found["row"].chosen} <= {1e-5, 2e-5}
    table = PaperTable("t", "P 2000, T", "Table 1", "S.", [section])
    said = " ".join(Outcome(table, [found], 1.0, {}).grids())
    assert said.startswith("The best value is at an end of these grids, which are the paper's own or hold all values ")
    assert "there are: row (C = " in said
