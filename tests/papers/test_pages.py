"""Tables of the documentation are those of the stored results, and every table of figures has one."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import hingerank as hr
from hingerank.papers import TABLES, Ours, Outcome, PaperTable, Section, load_outcome
from hingerank.papers.pages import FIGURE, MARKED, fill, fill_pages, look_up

DOCS = Path(__file__).resolve().parents[2] / "docs"
SAVED = {name: found for name, table in TABLES.items() if (found := load_outcome(table, DOCS / "reproductions"))}
PAGES = [*sorted(path.name for path in DOCS.glob("*.md")), "../README.md"]
# their tests compare them with what prints them
ELSEWHERE = {"reproductions.md", "what-came-out.md", "measures.md", "../README.md"}
MEASURED = re.compile(r"\d\.\d|(^|[ (])\.\d|^[<> ]*[\d,]+$")


@pytest.mark.parametrize("page", PAGES)
def test_the_figures_of_a_page_are_those_of_the_stored_results(page):
    text = (DOCS / page).read_text("utf-8")
    assert fill(text, DOCS / "results", SAVED) == text, "run `hingerank reproduce --write-docs`"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_every_table_of_figures_has_a_stored_result(page):
    rest = MARKED.sub("", (DOCS / page).read_text("utf-8"))
    for block in re.findall(r"(?:^\|.*\n)+", rest, re.MULTILINE):
        cells = [cell.strip() for line in block.splitlines()[2:] for cell in line.split("|")[2:-1]]
        figures = [cell for cell in cells if MEASURED.search(cell)]
        assert len(figures) < 0.4 * len(cells), f"a table of figures without a stored result: {figures[:5]}"


def test_a_mark_follows_a_number_and_is_read():
    """A comment that begins as a mark does but is none would be checked by nobody."""
    for page in PAGES:
        text = (DOCS / page).read_text("utf-8")
        assert text.count("<!-- =") == len(FIGURE.findall(text)), page


def test_stored_tables_are_shown_and_say_what_measured_them_when_and_by_which_version():
    shown = {match[2] for page in PAGES for match in MARKED.finditer((DOCS / page).read_text("utf-8"))}
    stored = {path.stem: json.loads(path.read_text("utf-8")) for path in (DOCS / "results").glob("*.json")}
    assert shown == set(stored)
    for name, words in stored.items():
        assert re.match(r"(python benchmarks/\w+\.py|hingerank reproduce)", words["command"]), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", words["date"]) and words["version"], name
        assert all(len(row) == len(words["header"]) for row in words["rows"]), name
        for script in re.findall(r"benchmarks/\w+\.py", words["command"]):
            assert (DOCS.parent / script).is_file(), name


def test_stored_reproductions_say_when_and_by_which_version():
    for outcome in SAVED.values():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", outcome.date) and outcome.versions["hingerank"]


def test_rows_that_tables_share_have_the_same_figures_where_one_version_ran_them():
    seen = {}
    for name, outcome in SAVED.items():
        for section, rows in zip(outcome.table.sections, outcome.sections):
            for row, ours in rows.items() if section.runner == "letor.comparison" else ():
                version = ours.made.split()[-1] if ours.made else outcome.versions["hingerank"]
                for column, value in ours.values.items():
                    first, known = seen.setdefault((section.study.run, row, column, version), (name, value))
                    assert value == known, f"{first} and {name} show two figures of {row}, {column}: run one again"


@pytest.fixture
def outcomes():
    section = Section("Set", ["MAP"], {"row": [0.5], "never run": [0.25]})
    return {"t": Outcome(PaperTable("t", "P", "T", "S.", [section]), [{"row": Ours({"MAP": 0.61234})}], 1.0, {})}


def test_cells_take_their_figures_from_reproductions(outcomes, tmp_path):
    (tmp_path / "results").mkdir()
    rows = [["row", "{t / Set / row / MAP}, by hand .7", "{paper t / Set / row / MAP}"], ["", "3", "–"]]
    words = {"header": ["", "ours", "paper"], "zero": False, "rows": rows}
    (tmp_path / "results" / "one.json").write_text(json.dumps(words))
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n<!-- table one -->\n| old |\n<!-- end -->\n\nMore.\n")
    assert fill_pages(tmp_path, outcomes) == [page] and fill_pages(tmp_path, outcomes) == []
    lines = "| | ours | paper |\n| --- | --- | --- |\n| row | .6123, by hand .7 | .5000 |\n| | 3 | – |\n"
    assert page.read_text("utf-8") == f"Text.\n\n<!-- table one -->\n{lines}<!-- end -->\n\nMore.\n"


def test_figures_in_running_text_keep_their_digits_and_take_their_values(outcomes, tmp_path):
    words = {"header": ["", "one"], "rows": [["a", "1,234.56 s"], ["b", "none"]]}
    (tmp_path / "one.json").write_text(json.dumps(words), encoding="utf-8")
    ours, paper, cell = (
        "<!-- = t / Set / row / MAP -->",
        "<!-- = paper t / Set / row / MAP -->",
        "<!-- = one / a / one -->",
    )
    old = f"We have .6{ours}, +0.000{ours}, they .4{paper}; it takes 1,000.0{cell} or 9{cell} s, and 7 of 8."
    new = f"We have .6{ours}, +0.612{ours}, they .5{paper}; it takes 1,234.6{cell} or 1235{cell} s, and 7 of 8."
    assert fill(old, tmp_path, outcomes) == new == fill(new, tmp_path, outcomes)
    for wrong in ("one / b / one", "one / c / one", "one / a / two", "none / a / one", "t / Set / never run / MAP"):
        with pytest.raises(hr.DataError):
            fill(f"1<!-- = {wrong} -->", tmp_path, outcomes)


@pytest.mark.parametrize("address", ["u / Set / row / MAP", "t / Other / row / MAP", "t / Set / never run / MAP"])
def test_a_figure_that_is_not_stored_is_an_error(address, outcomes):
    with pytest.raises(hr.DataError, match="no stored result has"):
        look_up(address, outcomes)
    with pytest.raises(hr.DataError, match=r"no .*two\.json"):
        fill("<!-- table two -->\n<!-- end -->", Path("results"), outcomes)


@pytest.mark.parametrize("name", SAVED)
def test_a_best_value_at_an_open_edge_has_its_reason_on_the_page(name):
    edges, reasons = SAVED[name].edges(), SAVED[name].table.edges
    assert [row for row, why in edges.items() if not why] == [], "widen these grids, or say why in `edges`"
    assert [rows for rows in reasons if not any(fnmatchcase(row, rows) for row in edges)] == [], "no longer at an edge"
    page = " ".join((DOCS / "reproductions.md").read_text("utf-8").split())
    assert all(why in page for why in edges.values())
