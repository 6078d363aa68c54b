"""The examples in the docstrings of the text readers and writers run as printed."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["blocks", "files", "letor", "letor_writer", "ranking_data", "read_write"])
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, attempted = doctest.testmod(import_module(f"hingerank.data.{name}"))
    assert attempted > 0 and failed == 0
