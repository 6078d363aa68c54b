"""A call goes through few functions of few files: how many there are is measured, and may not grow unnoticed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "walks.py"
MOST = {  # functions, files, depth: what was measured, with a few functions more
    "RankSVM.fit": (93, 15, 11),
    "evaluate": (45, 7, 10),
    "PersonalRankSVM.fit": (93, 17, 12),
    "tune": (243, 33, 19),
}


def test_calls_go_through_no_more_than_they_did(tmp_path):
    """The script runs in a folder that is called as the package is: only the package's own frames count."""
    script = tmp_path / "hingerank" / "benchmarks" / "walks.py"
    script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    call = [sys.executable, str(script), *MOST]
    printed = subprocess.run(call, capture_output=True, encoding="utf-8", check=True).stdout
    line = r"^(\S+) +\d+ calls +(\d+) functions +(\d+) files +(\d+) deep$"
    found = {name: tuple(map(int, numbers)) for name, *numbers in re.findall(line, printed, re.M)}
    assert found.keys() == MOST.keys()
    grown = {name: found[name] for name in MOST if any(here > most for here, most in zip(found[name], MOST[name]))}
    assert not grown, f"{grown}, at most {MOST}"
