"""`import hingerank` and `hingerank --help` load no heavy library; what is loaded is checked, not seconds."""

import json
import subprocess
import sys

import pytest

HEAVY = [
    "numba",
    "scipy",
    "sklearn",
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "lightgbm",
    "xgboost",
    "dask",
    "onnx",
]


def loaded_by(code):
    """Top-level names of the modules that a new Python process has loaded after `code`."""
    report = "\nimport sys, json; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    answer = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout.splitlines()[-1]))


def test_importing_the_package_is_light():
    loaded = loaded_by("import hingerank")
    assert "hingerank" in loaded
    assert not loaded & {*HEAVY, "typer", "rich", "numpy"}


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["fetch", "--list"], ["--version"]])
def test_the_command_line_is_light(arguments):
    loaded = loaded_by(f"from hingerank.cli import main\nmain({arguments!r})")
    assert "typer" in loaded
    assert not loaded & {*HEAVY, "numpy"}


def test_public_names_are_listed_and_found():
    import hingerank

    assert "fetch" in dir(hingerank)
    for name in hingerank.__all__:
        assert getattr(hingerank, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hingerank.nothing
