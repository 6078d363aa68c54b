"""Models that earlier versions saved still load and still give the answers they gave then."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import hingerank as hr

HERE = Path(__file__).parent
CASES = sorted((HERE / "saved").glob("*/*.safetensors"))


@pytest.fixture(scope="module")
def write_saved():
    spec = importlib.util.spec_from_file_location("write_saved", HERE / "write_saved.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_model_of_an_earlier_version_answers_as_it_did(path, write_saved):
    expected = json.loads((path.parent / "answers.json").read_text())[path.stem]
    np.testing.assert_allclose(write_saved.answers(hr.load(path)), expected, rtol=1e-12, atol=1e-12)


def test_every_family_is_there():
    from hingerank.registry import RANKERS

    assert {path.stem for path in CASES if path.parent.name == "0.1"} <= set(RANKERS)
    assert len(CASES) >= 33
