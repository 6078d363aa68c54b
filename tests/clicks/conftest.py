"""Where real logs are, and logs of known truth."""

import os
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr

CLICKS = Path(os.environ.get("HINGERANK_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "clicks"


@pytest.fixture(scope="session")
def yandex():
    path = CLICKS / "yandex-sessions.txt.xz"
    if not path.is_file():
        pytest.skip(f"{path} is not there: set HINGERANK_DATA")
    return hr.read_clicks(path)


@pytest.fixture(scope="session")
def chorus_path():
    path = CLICKS / "ubi-chorus.ndjson.xz"
    if not path.is_file():
        pytest.skip(f"{path} is not there: set HINGERANK_DATA")
    return path


@pytest.fixture
def place_log():
    """A function: lists of n documents in random order, clicked by P = propensity × attraction."""

    def make(propensity, attraction, lists, seed=0, **more):
        rng = np.random.default_rng(seed)
        n = len(propensity)
        order = np.array([rng.permutation(len(attraction))[:n] for _ in range(lists)])
        clicked = rng.random((lists, n)) < np.asarray(propensity) * np.asarray(attraction)[order]
        return hr.ClickLog(
            queries=np.zeros(lists * n, int), documents=order.ravel(), places=np.tile(np.arange(1, n + 1), lists),
            clicks=clicked.ravel(), sessions=np.repeat(np.arange(lists), n), **more,
        )  # fmt: skip

    return make
