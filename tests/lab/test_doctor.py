"""`hingerank doctor`: what it knows of the installation, and what it finds wrong."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import hingerank
from hingerank.cli import main
from hingerank.lab import doctor

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
FOR_DEVELOPERS = {"all", "bench", "dev", "docs", "test"}


def test_every_optional_part_is_explained():
    extras = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(doctor.GIVES) == set(extras) - FOR_DEVELOPERS


def test_versions_threads_and_caches_are_found(monkeypatch):
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "3")
    monkeypatch.setenv("HINGERANK_CACHE", "sets")
    found = doctor.examine()
    assert (found["hingerank"], found["threads"], found["data_sets"]) == (hingerank.__version__, 3, "sets")
    assert Path(found["kernels"]["folder"]).is_dir()
    libraries = {one["name"]: one for one in found["libraries"]}
    assert libraries["numba"] == {
        "name": "numba", "installed": metadata.version("numba"), "lowest": libraries["numba"]["lowest"], "fits": True
    }  # fmt: skip
    assert found["problems"] == []


def test_what_is_wrong_is_said_and_the_status_is_1(monkeypatch, capsys):
    needed = ["numpy>=2.0", "numba>=99", "nothing-of-the-kind>=1", "matplotlib>=99; extra == 'report'"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: needed)
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "many")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert re.search(r"numba [\d.]+ \(needed: 99 or newer\)", said)
    assert "nothing-of-the-kind is missing (needed: 1 or newer)" in said
    assert re.search(r"matplotlib [\d.]+ \(needed: 99 or newer, which 'report' needs\)", said)
    assert "HINGERANK_NUM_THREADS is 'many'" in said


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("numpy>=2.0", ("numpy", "2.0", None)),
        ("dask[dataframe]>=2024.8; extra == 'dask'", ("dask", "2024.8", "dask")),
        ("xgboost>=2.1; (sys_platform == 'darwin') and extra == 'bench'", ("xgboost", "2.1", "bench")),
    ],
)
def test_requirements_are_read_as_pip_writes_them(line, read):
    assert doctor.REQUIREMENT.match(line).groups() == read
