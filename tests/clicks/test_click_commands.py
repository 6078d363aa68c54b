"""hingerank clicks: the log described, propensities and judgments in files that other commands and programs read."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli.app import run as main


@pytest.fixture
def call(capsys, monkeypatch, tmp_path, place_log):
    """call(line) -> stdout, run in a folder with log.csv."""
    monkeypatch.chdir(tmp_path)
    log = place_log([1, 0.6, 0.3], [0.8, 0.5, 0.4, 0.2], 400)
    rows = zip(log.session, log.document_names[log.document], log.place - 1, log.clicks.astype(int))
    text = "".join(f"red shoes,{s},d{d},{k},{c},{'phone' if s % 2 else 'desk'}\n" for s, d, k, c in rows)
    (tmp_path / "log.csv").write_text("text,session,document,position,clicked,device\n" + text)

    def run(line, status=0):
        capsys.readouterr()
        assert main(shlex.split(line)) == status
        written = capsys.readouterr()
        return written.out if status == 0 else written.err

    return run


def test_info(call):
    out = call("clicks info log.csv --query text")
    assert any(line.startswith("     1   400 ") for line in out.splitlines()), "numbers stand to the right"
    assert "clicks by position" in out and "showings at places that are counted from 0: 1 was added" in out
    found = json.loads(call("clicks info log.csv --query text --counted --json"))
    assert found["showings"] == 1200 and found["lists"] is None and found["places"]["place"] == [1, 2, 3]


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(call, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def breaks_off(figure, file, **more):
        Path(file).write_bytes(b"half")
        raise OSError("no more room")

    monkeypatch.setattr(Figure, "savefig", breaks_off)
    (tmp_path / "p.png").write_text("precious")
    assert "no more room" in call("clicks propensities log.csv --query text --picture p.png --force", 1)
    assert (tmp_path / "p.png").read_text() == "precious"


def test_propensities_go_into_a_file_that_the_library_reads(call, tmp_path):
    out = call("clicks propensities log.csv --query text -o p.json --picture p.png")
    assert "propensities (all-pairs)" in out and "1.0000" in out and (tmp_path / "p.png").stat().st_size > 5000
    assert "p.png exists: pass --force" in call("clicks propensities log.csv --query text --picture p.png", 1)
    log = hr.read_clicks(tmp_path / "log.csv", query="text")
    stored = hr.propensities(log, "given", values=tmp_path / "p.json")
    np.testing.assert_allclose(stored.values, hr.propensities(log).values)
    few = json.loads(call("clicks propensities log.csv --query text --rounds 20 --json"))
    usual = json.loads((tmp_path / "p.json").read_text())
    assert few["low"] == hr.propensities(log).interval(rounds=20)[0].tolist() != usual["low"]
    both = json.loads(call("clicks propensities log.csv --query text --context device --by-context --json"))
    assert both["contexts"] == ["desk", "phone"] and len(both["values"]) == 2
    out = call("clicks propensities log.csv --query text --context device --by-context")
    assert "propensities (all-pairs), phone" in out
    with (tmp_path / "log.csv").open("a") as file:
        file.write("red shoes,far,d9,70000,0,desk\n")
    lines = call("clicks propensities log.csv --query text --rounds 2").splitlines()  # once 70,000
    assert len(lines) < 20 and any("70,001" in line and "unknown" in line for line in lines)


def test_regression_takes_a_table_of_features_without_grades(call, tmp_path):
    (tmp_path / "f.csv").write_text("query,docid,x\n" + "".join(f"red shoes,d{d},{d}\n" for d in range(4)))
    lines = (tmp_path / "log.csv").read_text().splitlines(keepends=True)
    (tmp_path / "log.csv").write_text("".join(lines[: 1 + 3 * 40]))  # it is fitted 200 times more, for the intervals
    out = call("clicks propensities log.csv --query text --method regression-em --features f.csv")
    assert "propensities (regression-em)" in out


def test_judgments_for_other_programs(call, tmp_path):
    out = call("clicks judgments log.csv --query text --model sdbn --to opensearch -o import.json")
    assert "perplexity" in out and "import.json" in out
    assert json.loads((tmp_path / "import.json").read_text())["type"] == "IMPORT_JUDGMENT"
    found = json.loads(call("clicks judgments log.csv --query text -o q.txt --topics t.txt --grades 3 --json"))
    assert found["documents"] == 4 and sum(found["grades"].values()) == 4
    assert (
        len((tmp_path / "q.txt").read_text().splitlines()) == 4 and (tmp_path / "t.txt").read_text() == "1\tred shoes\n"
    )
    assert "t.txt exists: pass --force" in call("clicks judgments log.csv --query text -o r.txt --topics t.txt", 1)
    call("clicks judgments log.csv --query text --to table -o judged.parquet")
    call("clicks judgments log.csv --query text")


def test_mistakes(call):
    for line, words in [
        ("clicks info log.csv --query text -o x", "--output is for clicks propensities, not for clicks info"),
        ("clicks judgments log.csv --query text -o q.txt", "has blanks"),
        ("clicks info log.csv --query text --action click=x", "--action click=x is not of the form NAME=WEIGHT"),
        ("clicks propensities log.csv --query text --method regression-em", "give --features"),
        ("clicks info none.csv", "none.csv: there is no such file"),
        ("clicks propensities log.csv --query text --by-context", "with --context"),
        ("clicks judgments log.csv --query text --counted", "column of lists with --session"),
        ("clicks judgments log.csv --query text --least-showings 1e6", "--least-showings 1e+06 is too high"),
        ("clicks info log.csv --query text --action buy", "--action needs a column with names of actions"),
    ]:
        assert words in call(line, 1)
