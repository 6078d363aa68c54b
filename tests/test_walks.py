"""A call goes through few functions of few files: how many there are is measured, and may not grow unnoticed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "walks.py"
MOST = {  # functions, files, depth: what was measured, with a few functions more
    "RankSVM.fit": (100, 16, 12),
    "evaluate": (57, 8, 11),
    "PersonalRankSVM.fit": (99, 18, 13),
    "tune": (260, 36, 20),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the script prints in a folder that is called as the package is: only the package's own frames count."""
    script = tmp_path_factory.mktemp("a folder") / "hingerank" / "benchmarks" / "walks.py"
    script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    call = [sys.executable, str(script), *MOST]
    return subprocess.run(call, capture_output=True, encoding="utf-8", check=True).stdout


@pytest.mark.parametrize("name", MOST)
def test_a_call_goes_through_no_more_than_it_did(printed, name):
    line = rf"^{re.escape(name)} +\d+ calls +(\d+) functions +(\d+) files +(\d+) deep$"
    found = tuple(map(int, re.search(line, printed, re.M).groups()))
    assert all(here <= most for here, most in zip(found, MOST[name])), f"{name}: {found}, at most {MOST[name]}"
