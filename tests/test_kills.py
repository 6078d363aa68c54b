"""Commands killed with SIGKILL at a few moments; benchmarks/kills.py has all of them."""

import os
import random
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of this process")]
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
kills = pytest.importorskip("kills") if hasattr(os, "fork") else None
COMMANDS = {command.name: command for command in kills.commands()} if kills else {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_lost_or_half_written_and_no_litter_stays(name):
    command = COMMANDS[name]
    count = kills.moments(command)
    assert count >= 2
    for moment in sorted({*random.Random(0).sample(range(1, count + 1), 2), count}):
        assert kills.check(command, moment) in ("nothing", "old", "new")
