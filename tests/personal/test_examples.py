"""The examples in the docstrings of the personal wing run and say what they say."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name", ["completion", "convex", "factorized", "generate", "item_features", "parted", "preferences", "ratings"]
)
def test_examples(name):
    failed, attempted = doctest.testmod(import_module(f"hingerank.personal.{name}"))
    assert attempted > 0
    assert failed == 0
