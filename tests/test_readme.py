"""The README does what it shows: its Python runs and prints that, its commands succeed; what is named exists."""

import json
import re
import shlex
from pathlib import Path

import pytest
import sklearn

import hingerank
from hingerank.cli import main
from hingerank.registry import RANKERS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
MOST_LINES = 150
NUMBER = r"[-+]?\d+\.?\d*(?:e-?\d+)?"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def sklearn_settings():
    before = sklearn.get_config()
    yield
    sklearn.set_config(**before)


@pytest.mark.slow
def test_code_and_commands_run_in_order(tmp_path, monkeypatch, capsys, sklearn_settings):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, _, shown in re.findall(
        r"^```python\n(.*?)^```\n(\n```text\n(.*?)^```)?", README, re.MULTILINE | re.DOTALL
    ):
        exec(compile(code, "README.md", "exec"), names)
        printed = capsys.readouterr().out
        if shown:
            assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", shown)
            found, said = ([float(number) for number in re.findall(NUMBER, text)] for text in (printed, shown))
            assert found == pytest.approx(said, abs=0.02)
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(commands) >= 5
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "hingerank"
        assert main(arguments) == 0, capsys.readouterr().err
        said = capsys.readouterr().err
        assert said == "" or (arguments[0] in ("compare", "tune") and "failed" not in said)


def test_the_readme_is_short_and_starts_without_a_formula():
    assert len(README.splitlines()) <= MOST_LINES
    assert not re.search(r"[ΣΦ‖]|\$", README.partition("## Quickstart")[0])


def test_every_registered_ranker_is_in_the_table_of_methods():
    table = (ROOT / "docs" / "methods.md").read_text("utf-8").partition("## Every ranker")[2]
    listed = set(re.findall(r"\| `([a-z][a-z0-9-]*)` \|$", table, re.MULTILINE))
    assert listed == set(RANKERS), "the table of docs/methods.md and hingerank.registry.RANKERS differ"
    for name in re.findall(r"`([A-Z]\w+)[(.`]", table):
        assert name in hingerank.__all__


def test_files_and_make_targets_exist():
    for path in re.findall(r"`(benchmarks/\w+\.py)`|\]\(([\w./]+)\)", README):
        assert (ROOT / (path[0] or path[1])).exists(), path
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_what_contributing_names_exists():
    text, source = (ROOT / "CONTRIBUTING.md").read_text("utf-8"), ROOT / "src" / "hingerank"
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"`([\w/]+(?:/|\.py|\.md))`", text):
        assert any((folder / path).exists() for folder in (source, source.parent, ROOT)), path
    for name, path in re.findall(r"`(\w+)` in `([\w/]+\.py)`", text):
        home = source.parent if path.startswith("hingerank/") else source
        text = (home / path).read_text("utf-8")
        assert re.search(rf"^(def |class )?{name}\b", text, re.MULTILINE), f"{name} in {path}"


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {hingerank.__version__}\n" in citation
    versions = json.loads((ROOT / "docs" / "versions.json").read_text())
    assert versions[0] == hingerank.__version__
