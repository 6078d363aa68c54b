"""The examples in the docstrings of the diversity wing run and say what they say."""

import doctest
from importlib import import_module

import pytest

MODULES = ["generate", "learning", "measures", "queries", "relations", "selection", "structural", "trec"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, attempted = doctest.testmod(import_module(f"hingerank.diversity.{name}"))
    assert attempted > 0
    assert failed == 0
