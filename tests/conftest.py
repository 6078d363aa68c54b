"""Tests of optional libraries and programs are skipped where these are missing, unless HINGERANK_REQUIRE names them."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


def pytest_configure():
    """HINGERANK_REQUIRE="xgboost chromium": modules and programs without which no test may run."""
    required = os.environ.get("HINGERANK_REQUIRE", "").split()
    missing = [name for name in required if find_spec(name) is None and shutil.which(name) is None]
    if missing:
        raise pytest.UsageError(f"HINGERANK_REQUIRE names {', '.join(missing)}, which is not installed")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from chromium import NAMES, Browser
    finally:
        sys.path.pop(0)
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs Chromium (the Debian package is called chromium)")
    running = Browser(program, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()
