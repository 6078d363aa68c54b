"""Tests of optional libraries and programs are skipped where these are missing, unless HINGERANK_REQUIRE names them."""

import os
import shutil
from importlib.util import find_spec

import pytest


def pytest_configure():
    """HINGERANK_REQUIRE="xgboost chromium": modules and programs without which no test may run."""
    required = os.environ.get("HINGERANK_REQUIRE", "").split()
    missing = [name for name in required if find_spec(name) is None and shutil.which(name) is None]
    if missing:
        raise pytest.UsageError(f"HINGERANK_REQUIRE names {', '.join(missing)}, which is not installed")
