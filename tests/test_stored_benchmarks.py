"""Stored results say what measured them, and `make bench` finds what moved by more than the noise."""

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
import measuring  # noqa: E402
import rerun  # noqa: E402

STORED = rerun.stored()


@pytest.mark.parametrize("name", STORED)
def test_a_stored_result_says_what_measured_it_and_when_and_where(name):
    words = STORED[name]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", words["date"]) and re.match(r"0\.\d", words["version"])
    assert words["machine"] and "/" not in words["machine"]
    for script in re.findall(r"benchmarks/\w+\.py", words["command"]):
        assert (ROOT / script).is_file()


def test_the_page_of_benchmarks_lists_every_script_that_is_run():
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    scripts = (ROOT / "benchmarks").glob("*.py")
    run = sorted(path.name for path in scripts if '__name__ == "__main__"' in path.read_text("utf-8"))
    assert sorted(re.findall(r"^\| `(\w+\.py)` \|", page, re.MULTILINE)) == run


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "benchmarks").glob("*.py")))
def test_scripts_import_what_there_is(script):
    """Most of them import inside functions, where nothing but a run of hours would find a name that has moved."""
    for node in ast.walk(ast.parse((ROOT / "benchmarks" / script).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hingerank":
            for alias in node.names:
                here = hasattr(importlib.import_module(node.module), alias.name)
                assert here or importlib.util.find_spec(f"{node.module}.{alias.name}"), (node.module, alias.name)


def test_tables_are_kept_with_version_day_machine_and_seconds(tmp_path):
    measuring.keep_table(tmp_path, "some", "python benchmarks/some.py", ["", "s"], [["fit", "1.0"]], device="a GPU")
    words = json.loads((tmp_path / "some.json").read_text("utf-8"))
    assert list(words) == ["command", "date", "version", "machine", "seconds", "header", "rows"]
    assert re.match(r"a GPU, \d+ cores, ", words["machine"]) and words["rows"] == [["fit", "1.0"]]


def test_the_seconds_of_work_that_an_earlier_run_did_are_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "REUSED", ["a fit"])
    measuring.keep_table(tmp_path, "some", "python benchmarks/some.py", [""], [["fit"]])
    assert "seconds" not in json.loads((tmp_path / "some.json").read_text("utf-8"))


def table(*rows, machine="2 cores", header=("", "NDCG", "seconds")):
    return {"header": list(header), "rows": [list(row) for row in rows], "machine": machine}


def test_only_what_is_beyond_the_noise_moved():
    old = table(["a", "0.6800", "1.00"], ["b", ".4321", "2.00 s (4.0)"])
    same = table(["a", "0.6801", "1.10"], ["b", ".4321", "2.10 s (4.1)"])
    again = table(["a", "0.6801", "1.30"], ["b", ".4321", "1.90 s (4.4)"])
    assert rerun.moved(old, same, again) == ([], 0)  # the last digit, and a clock that varies by 15 %
    worse = table(["a", "0.6803", "1.10"], ["b", ".4321", "4.10 s (9.1)"])
    slow = table(["a", "0.6803", "1.11"], ["b", ".4321", "4.15 s (9.2)"])
    lines, skipped = rerun.moved(old, worse, slow)
    assert [line.partition(":")[0] for line in lines] == ["a / NDCG", "a / seconds", "b / seconds"] and skipped == 0


def test_clocks_of_other_machines_are_not_compared_but_measures_are():
    old = table(["a", "0.6800", "1.00"], machine="16 cores")
    new, again = table(["a", "0.7000", "3.00"]), table(["a", "0.7000", "3.10"])
    lines, skipped = rerun.moved(old, new, again)
    assert len(lines) == 1 and lines[0].startswith("a / NDCG: 0.6800 -> 0.7000") and skipped == 1


def test_rows_and_columns_that_come_and_go_are_named():
    old, new = table(["a", "1", "2"], ["b", "1", "2"]), table(["a", "1", "2"], ["c", "1", "2"])
    assert rerun.moved(old, new, new)[0] == ["no row 'b' any more", "a new row 'c'"]
    assert rerun.moved(old, table(header=["", "MAP", "seconds"]), table())[0] == ["other columns: , MAP, seconds"]


def test_numbers_are_read_with_the_worth_of_their_last_digit():
    assert rerun.numbers("-637,727 of .1595, 9.2e-06") == [
        (-637727.0, 1.0), (0.1595, pytest.approx(1e-4)), (9.2e-6, pytest.approx(1e-7))
    ]  # fmt: skip


def test_what_fits_into_the_time_is_run_the_quickest_first(monkeypatch):
    monkeypatch.setattr(rerun, "why_not", lambda name, words: "by hand" if name == "by hand" else "")
    tables = {
        name: {"command": f"python {name}", "seconds": seconds}
        for name, seconds in {"long": 500, "short": 10, "longer": 900, "by hand": 1}.items()
    }
    chosen, left = rerun.plan(tables, 20.0)
    assert list(chosen) == ["python short", "python long"]
    assert set(left) == {"longer", "by hand"} and "20 minutes" in left["longer"]


def test_every_table_of_one_script_is_written_by_it():
    for name, words in STORED.items():
        assert "does not write it" not in rerun.why_not(name, words)
    assert rerun.why_not("blend", STORED["blend"]).startswith("its figures are those of several commands")
    assert rerun.why_not("other", STORED["sparse-path"]).startswith("its script does not write it")


SCRIPT = """
import sys
from pathlib import Path
kept = Path("docs/reproductions/runs/kept")
assert not kept.exists() and Path("docs/figures").is_dir()
kept.mkdir(parents=True)
Path(sys.argv[-1], "some.json").write_text('{"header": [""], "rows": []}')
"""


def test_every_run_starts_in_an_empty_folder(tmp_path, monkeypatch):
    (tmp_path / "some.py").write_text(SCRIPT)
    monkeypatch.setattr(rerun, "ROOT", tmp_path)
    for _ in range(2):
        tables, why = rerun.run_once("python some.py", 60.0)
        assert why == "" and tables["some"]["rows"] == [] and "seconds" in tables["some"]
    assert [path.name for path in tmp_path.iterdir()] == ["some.py"]


def test_a_run_that_takes_too_long_is_stopped(tmp_path, monkeypatch):
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)")
    monkeypatch.setattr(rerun, "ROOT", tmp_path)
    assert rerun.run_once("python slow.py", 1.0) == ({}, "not done after 1 seconds")
