"""What goes with a release: versions that agree, valid workflows and recipe, requirements without upper limits."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hingerank

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SUFFIXES = {".py", ".typed", ".json", ".toml", ".js", ".css", ".html"}  # of the package's files
LARGEST = 4_000_000  # bytes of all of them; the wheel is a quarter


def words(path):
    return pytest.importorskip("yaml").safe_load(path.read_text("utf-8"))


def steps(path):
    return [step for job in words(path)["jobs"].values() for step in job["steps"]]


# Workflows, issue templates, citation.


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("custom.github-workflows-require-timeout", ".github/workflows/*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_files_for_the_forge_fit_their_schema(capsys, schema, files):
    check = pytest.importorskip("check_jsonschema").main
    found = [str(path) for path in ROOT.glob(files)]
    with pytest.raises(SystemExit) as ended:
        check(["--builtin-schema", schema, *found])
    assert found and ended.value.code == 0, capsys.readouterr()


def test_workflows_have_no_known_weakness():
    zizmor = shutil.which("zizmor", path=Path(sys.executable).parent)
    if zizmor is None:
        pytest.skip("zizmor is not installed")
    command = [zizmor, "--offline", "--no-progress", "--config", ROOT / ".github" / "zizmor.yml"]
    answer = subprocess.run([*command, ROOT / ".github" / "workflows"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_workflows_only_call_make():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "test"]
    called = [shlex.split(step["run"]) for path in WORKFLOWS for step in steps(path) if "run" in step]
    matrix = words(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    chosen = [*matrix["target"], *(one["target"] for one in matrix["include"])]
    for program, *arguments in called:
        goals = [word for word in arguments if "=" not in word]
        assert program == "make" and len(goals) == 1
        assert set(chosen if goals == ["$TARGET"] else goals) <= targets


def test_every_python_is_tested_on_every_system():
    matrix = words(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS == ["3.11", "3.12", "3.13", "3.14"]
    assert [system.partition("-")[0] for system in matrix["system"]] == ["ubuntu", "macos", "windows"]


# The conda recipe.


def test_the_conda_recipe_is_valid_and_asks_for_what_pip_asks_for():
    rattler_build = pytest.importorskip("rattler_build")
    recipe = rattler_build.Stage0Recipe.from_file(ROOT / "conda" / "recipe.yaml")
    variants = rattler_build.VariantConfig.from_yaml(f"python_min: ['{PYTHONS[0]}']")
    rendered = [one.recipe.to_dict() for one in recipe.render(variants)]
    assert {one["package"]["version"] for one in rendered} == {hingerank.__version__}
    (run,) = (one["requirements"]["run"] for one in rendered)
    assert {"".join(one.split()) for one in map(str, run)} == {*PROJECT["dependencies"], f"python>={PYTHONS[0]}"}


# Versions and requirements.


def test_versions_agree():
    assert words(ROOT / "CITATION.cff")["version"] == hingerank.__version__
    assert words(ROOT / "conda" / "recipe.yaml")["context"]["version"] == hingerank.__version__
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_no_requirement_has_an_upper_limit():
    extras = PROJECT["optional-dependencies"]
    for one in [*PROJECT["dependencies"], *(one for name in extras for one in extras[name])]:
        assert not set("<=~!") & set(one.partition(";")[0].replace(">=", "")), (
            f"{one}: say why, and test when it can go"
        )
        marker = one.partition(";")[2]
        assert "python_version" not in marker or one.startswith("ir_measures"), one


@pytest.mark.skipif(sys.version_info < (3, 14), reason="ir_measures is left out from Python 3.14 on")
def test_ir_measures_is_still_to_be_left_out():
    ir_measures = pytest.importorskip("ir_measures")
    try:
        ir_measures.parse_measure("nDCG@10")
    except AttributeError:  # ast.Num
        return
    pytest.fail("ir_measures works with this Python: take its marker out of pyproject.toml")


# The wheel. `make dist` compares it with these files (tests/try_wheel.py).


def test_the_package_holds_code_and_little_else():
    package = Path(hingerank.__file__).parent
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.suffix for path in files} <= SUFFIXES and (package / "py.typed") in files
    assert not [path for path in files if {"tests", "results", "test"} & set(path.relative_to(package).parts)]
    assert sum(path.stat().st_size for path in files) < LARGEST
