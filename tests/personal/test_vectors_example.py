"""The example that puts vectors into an approximate index finds nearly all of the exact lists."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plot_vectors.py"


def test_an_index_finds_the_exact_lists(capsys):
    pytest.importorskip("usearch.index")
    runpy.run_path(str(EXAMPLE))
    found = [float(value) for value in re.findall(r"looked at: (\S+)", capsys.readouterr().out)]
    assert len(found) == 3 and min(found) > 0.9 and found[-1] > 0.99


def test_without_the_index_the_example_still_runs(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch", None)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    runpy.run_path(str(EXAMPLE))
    assert "looked at" not in capsys.readouterr().out
