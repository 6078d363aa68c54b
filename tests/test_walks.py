"""A reader reaches the kernel in a few steps: the walk of a fit stays short."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "walks.py"


def test_a_fit_reaches_its_kernel_over_at_most_six_hops_in_five_files():
    printed = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=True).stdout
    hops, files = map(int, re.search(r"^RankSVM\.fit +(\d+) hops +(\d+) files$", printed, re.M).groups())
    assert hops <= 6 and files <= 5, printed
