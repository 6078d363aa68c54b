"""A paper's kit: a LaTeX table that is one, TREC runs that measure what was measured, references that parse."""

import csv
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from hingerank.cli.app import run
from hingerank.data.ranking_data import RankingData
from hingerank.lab import Method, compare, leaderboard, query_folds
from hingerank.lab.folds import Fold, SelectedRows
from hingerank.lab.leaderboard import latex_text
from hingerank.lab.paper import _table, bibtex, latex_table, papers_of, rankers_of_run, write_trec_runs
from hingerank.lab.trec_evaluation import evaluate_run
from hingerank.registry import RANKERS

HOSTILE = r"[*a]_50%&#$~^\{x} <b>"


@pytest.fixture
def results(data, rankers, tmp_path):
    methods = [
        Method("noise", rankers.Noise),
        Method(HOSTILE, rankers.Column, {"column": [0, 1]}),
        Method("broken", rankers.Broken, fixed={"place": "fit"}),
    ]
    return compare(methods, query_folds(data, 3), measures=["ndcg@10", "map"], workers=1, folder=tmp_path, seeds=2)


def parse_table(text):
    """The rows of a LaTeX table as lists of cells; braces, dollars and environments must be balanced."""
    bare = re.sub(r"\\[\\&%$#_{}]", "", re.sub(r"^%.*$", "", text, flags=re.M))
    depth = 0
    for character in bare:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert depth == 0 and bare.count("$") % 2 == 0 and "%" not in bare and "#" not in bare
    assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text) == ["longtable"]
    lines = [line[:-3] for line in text.splitlines() if line.endswith(r" \\") and not line.startswith(r"\caption")]
    return [re.split(r"(?<!\\)&", line) for line in lines]


def test_the_table_has_means_p_intervals_and_marks_of_every_measure(results):
    text = latex_table(results, test="t")
    rows = [[cell.strip() for cell in row] for row in parse_table(text)]
    assert {len(row) for row in rows} == {5} and len(rows) == 1 + 2 * 3
    for place, measure in enumerate(results.measures):
        for row, line in zip(rows[1 + 3 * place :], leaderboard(results, measure, test="t").lines):
            assert row[0].startswith(latex_text(line.method))
            if line.method == HOSTILE:
                assert row[1] == rf"\textbf{{{line.mean:.4f}}}$^{{\blacktriangle}}$"
                assert row[2] == f"${line.difference:+.4f}$"
                assert row[3] == f"[${line.difference_low:+.4f}$, ${line.difference_high:+.4f}$]"
                assert row[4] == (f"{line.p:.4f}" if line.p >= 1e-4 else "$<$.0001")
            if line.method == "broken":
                assert row[1:] == ["--", "--", "", ""] and r"\dagger" in row[0]
    assert "Methods with randomness: mean of 2 fits." in text and "broken: fold 1, fold 2, fold 3" in text
    assert not any(line.startswith(("[", "*")) for line in text.splitlines())  # \\ would take it for its option
    assert leaderboard(results).to_latex(["ndcg@10", "map"]).count(r"\\") >= 4


def test_the_table_counts_queries_by_measure_and_marks_the_best_number(data, rankers):
    """kendall_tau is not defined where all scores are equal: nowhere for the first method of the board."""
    methods = [Method("level", rankers.Column, fixed={"sign": 0}), Method("column", rankers.Column)]
    data = replace(data, y=np.where(data.qid == "q3", 0.0, data.y))
    results = compare(methods, query_folds(data, 3), "ndcg@10", ["kendall_tau"], workers=1)
    assert r"\textit{kendall\_tau} over 0 queries" in latex_table(results)
    text = latex_table(results, baseline="column")
    known = len(results.per_query("column", "kendall_tau"))
    assert 0 < known < 20 and rf"\textit{{kendall\_tau}} over {known} queries" in text
    assert r"\textit{ndcg@10} over 20 queries" in text
    board = leaderboard(results, baseline="column")
    board = replace(board, lines=sorted(board.lines, key=lambda line: line.method != "level"))
    assert board.to_latex(["kendall_tau"]).count(r"\textbf") == 1


def test_a_baseline_without_a_result_does_not_count_the_queries(results):
    assert "Means over 20 test queries" in latex_table(results, baseline="broken")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_latex_takes_the_table(results, tmp_path):
    page = r"\documentclass{article}\usepackage{booktabs,longtable,amssymb}\begin{document}"
    (tmp_path / "page.tex").write_text(f"{page}\n{latex_table(results)}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60).returncode == 0


def test_runs_measure_what_was_measured(results, data):
    files = write_trec_runs(results)
    assert len(files) == 3 and len({path.name for path in files}) == 3  # two seeds of noise, one method without
    values = evaluate_run(data, files[0], ["map"], preset="trec", per_query=True)["map"]
    first = {}
    for record in results.tests("noise"):
        first |= dict(zip(record["queries"], record["values"]["map"]))
    assert values == pytest.approx(first)


def test_queries_of_several_folds_have_a_run_for_each(data, rankers, tmp_path):
    rows = [SelectedRows(data, np.arange(k, 160, 4)) for k in range(4)]
    folds = [Fold(f"f{k}", rows[0], rows[1], rows[k], shared_queries=True) for k in (2, 3)]
    results = compare([Method("c", rankers.Column)], folds, measures=["map"], workers=1, folder=tmp_path)
    assert [path.name for path in write_trec_runs(results)] == ["c.f2.run", "c.f3.run"]
    assert len(results.per_query("c", "map")) == 20


def test_runs_need_scores_and_single_words(data, rankers, tmp_path):
    named = RankingData(data.X, data.y, data.qid, np.array([f"d {i}" for i in range(160)]), data.feature_names)
    methods = [Method("c", rankers.Column)]
    results = compare(methods, query_folds(named, 3), measures=["map"], workers=1, folder=tmp_path / "a")
    with pytest.raises(ValueError, match="ids have no spaces"):
        write_trec_runs(results)
    with pytest.raises(ValueError, match="no folder"):
        write_trec_runs(replace(results, folder=None))
    shutil.rmtree(tmp_path / "a" / "rows")
    with pytest.raises(ValueError, match="run the same `compare` to its end"):
        write_trec_runs(results)


def test_runs_name_a_document_once(data, rankers, tmp_path):
    data = replace(data, docid=np.array([f"d{i // 2}" for i in range(data.n_rows)]))
    results = compare([Method("column", rankers.Column)], query_folds(data, 3), folder=tmp_path, workers=1)
    with pytest.raises(ValueError, match=r"the run has document d[0-9]+ twice in topic q[0-9]+: list it once"):
        write_trec_runs(results)


def test_the_command_writes_the_kit(results, tmp_path, capsys):
    assert run(["report", str(tmp_path), "--latex", "--csv", "--trec-runs"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [str(tmp_path / name) for name in ("report.html", "table.tex", "per-query.csv")]
    assert len(said) == 6 and all(line.endswith(".run") for line in said[3:])
    with open(tmp_path / "per-query.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"method", "fold", "seed", "query", "measure", "value"} <= set(rows[0])
    assert len(rows) == 2 * (2 * 20 + 20)
    assert run(["info", str(tmp_path), "--verify"]) == 0


def parse_bibtex(text):
    """{key: {field: value}} of BibTeX with values in braces; what is outside of entries is comment."""
    found = {}
    for kind, key, body in re.findall(r"^@(\w+)\{([\w-]+),\n(.*?)^\}$", text, flags=re.M | re.S):
        fields = re.findall(r"^  (\w+) = \{(.*)\},$", body, flags=re.M)
        assert len(fields) == len(body.splitlines())
        assert all(value.count("{") == value.count("}") and value.strip() for _, value in fields)
        found[key] = {"kind": kind, **dict(fields)}
    return found


NEEDED = {  # what BibTeX's styles ask for
    "article": {"journal", "volume"},
    "inproceedings": {"booktitle"},
    "incollection": {"booktitle", "publisher"},
    "techreport": {"institution"},
    "misc": {"howpublished"},
}


@pytest.mark.parametrize("name", RANKERS)
def test_every_ranker_has_a_paper_or_a_reason(name):
    papers = papers_of(name)
    if isinstance(papers, str):
        assert len(papers.split()) > 3
    parsed = parse_bibtex(bibtex([name]))
    assert list(parsed) == ([] if isinstance(papers, str) else papers)
    for fields in parsed.values():
        assert NEEDED[fields["kind"]] | {"author", "title", "year"} <= set(fields)
        assert 1980 < int(fields["year"]) < 2030
        assert all(re.fullmatch(r"[^,]+, [^,]+", author) for author in fields["author"].split(" and "))
        assert fields["author"].isascii() and fields["title"].isascii()
        assert re.fullmatch(r"\d+(--\d+)?", fields.get("pages", "1"))
        if "--" in fields.get("pages", ""):
            first, last = map(int, fields["pages"].split("--"))
            assert first < last


def test_the_table_of_references_is_whole():
    table = _table()
    assert set(table["rankers"]) == set(RANKERS)
    assert {key for papers in table["rankers"].values() if isinstance(papers, list) for key in papers} == set(
        table["papers"]
    )


def test_cite(results, tmp_path, capsys):
    assert run(["cite", "lambdamart", "RankSVM"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("% lightgbm: ke2017lightgbm, burges2010ranknet\n% rank-svm: ")
    assert {"ke2017lightgbm", "joachims2002optimizing"} <= set(parse_bibtex(shown))
    assert run(["cite", "nobody"]) == 1 and "no ranker named 'nobody'" in capsys.readouterr().err
    assert run(["cite", "nothing/"]) == 1 and "nothing: there is no such file or folder" in capsys.readouterr().err
    assert run(["cite", str(tmp_path)]) == 0
    assert "% noise: not a ranker of this library" in capsys.readouterr().out
    from hingerank.lab.methods import method_from_name

    names = ["listnet", "own=personal-rank-svm", "item-mean"]
    header = {"methods": {m.name: m.definition() for m in map(method_from_name, names)}}
    assert rankers_of_run(header) == (["listnet", "personal-rank-svm"], ["item-mean"])
