"""Try a wheel with every Python it is for, and with the lowest versions of what it needs.

`python tests/try_matrix.py dist TEST…` makes an environment in `.matrix` for each interpreter that is found, installs
the wheel of `dist` there with what the tests need, and runs the tests from a folder outside the checkout, so that the
installed package is what they try. The environment "lowest" has the oldest Python and the lowest versions that
pyproject.toml allows; warnings, which old libraries have of new ones, are no errors there. `ONLY="3.12 lowest"` in the
environment chooses some. For a Python without an interpreter pip is asked whether all that is needed can be had.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSIONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
WATCHED = ("numpy", "scipy", "numba", "scikit-learn")
PINNED = ("report", "frames", "zstd", "trees", "dask", "onnx", "search")  # the extras that users install


def lowest_pins() -> list[str]:
    """The requirements of the package and of its extras, at the lowest version each."""
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(one for name in PINNED for one in extras[name])]
    wanted += [one for one in extras["test"] if one.startswith("xgboost-cpu")]  # the tests' kind of xgboost
    plain = (re.sub(r"\[.*?\]", "", one.partition(";")[0]).strip() for one in wanted)
    return sorted({one.replace(">=", "==") for one in plain if not one.startswith("hingerank")})


def interpreter(version: str) -> str | None:
    """The path of a Python of this version, or None."""
    command = [f"python{version}", "-c", "import sys; print(sys.executable, *sys.version_info[:2])"]
    if shutil.which(command[0]) is None:
        return None
    answer = subprocess.run(command, capture_output=True, text=True, env=with_all_pythons())
    words = answer.stdout.rsplit(maxsplit=2)
    return words[0] if answer.returncode == 0 and ".".join(words[1:]) == version else None


def with_all_pythons() -> dict[str, str]:
    """The environment in which pyenv, where it is used, hands out every Python it has."""
    if shutil.which("pyenv") is None:
        return dict(os.environ)
    found = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True).stdout.split()
    return {**os.environ, "PYENV_VERSION": ":".join(reversed(found))}


def alone() -> dict[str, str]:
    """The environment without what would lead to another package than the installed one."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def run(command: list[str], **more: object) -> subprocess.CompletedProcess:
    return subprocess.run(command, env=alone(), text=True, **more)  # type: ignore[call-overload]


def install(python: str, wheel: Path, place: Path, lowest: bool) -> str:
    """Make the environment; the path of its Python."""
    subprocess.run([python, "-m", "venv", "--clear", str(place)], check=True)
    ours = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
    command = [ours, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[test]"]
    if lowest:
        (place / "lowest.txt").write_text("\n".join(lowest_pins()) + "\n", "utf-8")
        command += ["--constraint", str(place / "lowest.txt")]
    run(command, check=True)
    return ours


def try_tests(python: str, tests: list[str], lowest: bool) -> tuple[bool, str]:
    """Whether the tests pass with the package that this Python has installed, and their last line."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "tests", Path(folder) / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "docs", Path(folder) / "docs", ignore=lambda place, names: set(names) & {"_build"})
        shutil.copy(ROOT / "pyproject.toml", folder)
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-n", os.environ.get("CORES", "2"), *tests]
        command += ["-o", "filterwarnings="] if lowest else []
        answer = run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if answer.returncode:
        print(answer.stdout[-8000:])
    counts = re.findall(r"^.*\b(?:passed|failed|errors?)\b.* in .*$", answer.stdout, re.MULTILINE)
    return answer.returncode == 0, counts[-1] if counts else "no test ran"


def installed(python: str) -> str:
    """The versions of the libraries that matter most, and a check that the package is the installed one."""
    code = (
        "import json, hingerank, importlib.metadata as m;"
        "assert 'site-packages' in hingerank.__file__, hingerank.__file__;"
        f"print(json.dumps({{name: m.version(name) for name in {WATCHED}}}))"
    )
    answer = run([python, "-c", code], cwd=tempfile.gettempdir(), check=True, stdout=subprocess.PIPE)
    return ", ".join(f"{name} {version}" for name, version in json.loads(answer.stdout).items())


def can_be_installed(version: str, wheel: Path) -> str:
    """What pip says of a Python that is not here."""
    with tempfile.TemporaryDirectory() as folder:
        asked = ["--dry-run", "--ignore-installed", "--only-binary=:all:", "--python-version", version]
        command = [sys.executable, "-m", "pip", "install", "--quiet", *asked, "--target", folder, f"{wheel}[test]"]
        answer = run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found = answer.stderr.strip().splitlines()
    return "wheels of all requirements exist" if answer.returncode == 0 else found[-1] if found else "pip failed"


def main(dist: Path, tests: list[str]) -> int:
    (wheel,) = (path.resolve() for path in dist.glob("*.whl"))
    chosen = os.environ.get("ONLY", "").split() or [*VERSIONS, "lowest"]
    if unknown := set(chosen) - {*VERSIONS, "lowest"}:
        sys.exit(f"ONLY names {', '.join(sorted(unknown))}; there are {', '.join(VERSIONS)} and lowest")
    lines, passed = [], True
    for name in chosen:
        started, version = time.perf_counter(), VERSIONS[0] if name == "lowest" else name
        python = interpreter(version)
        if python is None:
            lines.append(f"{name:7} not tried: no interpreter here; {can_be_installed(version, wheel)}")
            continue
        print(f"{name}: installing and testing", flush=True)
        ours = install(python, wheel, ROOT / ".matrix" / name, name == "lowest")
        versions = installed(ours)
        good, words = try_tests(ours, tests, name == "lowest")
        passed &= good
        seconds = time.perf_counter() - started
        lines.append(
            f"{name:7} {'passed' if good else 'FAILED'}: {words} ({seconds:.0f} s with setting up; {versions})"
        )
    print(*lines, sep="\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
