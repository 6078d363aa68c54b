"""Compiled kernels on disk: kept, renewed when a helper changes, and made again when a file is damaged."""

import importlib.util
import json
import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numba
import numpy as np
import pytest

from hingerank.kernels import compiled, numba_inside
from hingerank.kernels.compiled import chosen, inner, inside_is_known, kernel
from hingerank.kernels.numba_inside import KernelCache

HELPER = "from hingerank.kernels.compiled import inner\n\n@inner\ndef step(x):\n    return x + {step}\n"
KERNEL = """from hingerank.kernels.compiled import kernel
from hingerank.helper_of_a_test import step

@kernel
def walk(x, n):
    for _ in range(n):
        x = step(x)
    return x
"""


@pytest.fixture
def walk(tmp_path, monkeypatch):
    """walk(step=1, seconds=None) -> the kernel as a new process would import it, its cache below tmp_path.

    seconds: when the helper's file was changed, by which Python tells whether its bytecode is old; default: by step.
    """
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(KernelCache, "_warned", False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it tells changes within a second by size only

    def load(name, text, seconds):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        os.utime(path, (seconds, seconds))
        spec = importlib.util.spec_from_file_location(f"hingerank.{name}", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    def make(step=1, seconds=None):
        seconds = 1_000_000_000 + step if seconds is None else seconds
        numba_inside.source_stamp.cache_clear()
        load("helper_of_a_test", HELPER.format(step=step), seconds)
        return load("kernel_of_a_test", KERNEL, 1_000_000_000).walk

    yield make
    numba_inside.source_stamp.cache_clear()


def kept(tmp_path, suffix):
    return sorted((tmp_path / "cache").rglob(f"*.{suffix}"))


def test_a_kernel_is_kept_and_found_again(walk, tmp_path):
    first = walk()
    assert first(1.0, 3) == 4.0 and sum(first.compiled.stats.cache_misses.values()) == 1
    assert [path.suffix for path in (tmp_path / "cache").rglob("*.nb*")].count(".nbc") == 1  # no file for the helper
    again = walk()
    assert again(1.0, 3) == 4.0
    assert sum(again.compiled.stats.cache_hits.values()) == 1 and not again.compiled.stats.cache_misses


def test_a_change_in_the_file_of_a_helper_is_noticed(walk):
    assert walk(1)(1.0, 3) == 4.0
    assert walk(2)(1.0, 3) == 7.0


def test_code_made_of_old_bytecode_does_not_pass_for_that_of_the_new_file(walk, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert walk(1, 1_000_000_000)(1.0, 3) == 4.0
    assert walk(2, 1_000_000_000)(1.0, 3) == 4.0  # Python sees no change: same second, same size
    assert walk(2, 1_000_000_001)(1.0, 3) == 7.0


def flip(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"garbage" * 99, flip]
)
def test_a_damaged_file_is_dropped_and_made_again(walk, tmp_path, caplog, suffix, damage):
    walk()(1.0, 3)
    for path in kept(tmp_path, suffix):
        path.write_bytes(damage(path.read_bytes()))
    again = walk()
    assert again(1.0, 3) == 4.0 and again(1, 3) == 4
    noticed = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(noticed) <= 1
    if damage is not flip or suffix == "nbc":  # a byte of the index may change nothing that matters
        assert "damaged" in noticed[0].message and "\n" not in noticed[0].message
    fine = walk()
    assert fine(1.0, 3) == 4.0 and not fine.compiled.stats.cache_misses


def test_code_for_other_arguments_is_not_used(walk, tmp_path, caplog):
    """As where processes without locks on files add versions at the same time, and number them alike."""
    first = walk()
    first(1.0, 3), first(1, 3)
    one, other = kept(tmp_path, "nbc")
    one.write_bytes(other.read_bytes())
    again = walk()
    assert (again(1.0, 3), again(1, 3)) == (4.0, 4) and "damaged" in caplog.text


def test_a_full_disk_costs_only_the_next_compilation(walk, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    assert walk()(1.0, 3) == 4.0
    assert "could not be cached" in caplog.text and "No space left" in caplog.text


def test_without_any_folder_to_write_to_kernels_compile_in_every_process(walk, monkeypatch):
    monkeypatch.setattr(numba_inside._Checked, "_locator_classes", [])
    assert walk()(1.0, 3) == 4.0


SMALL = """
import numpy as np
from hingerank.preferences import GradedPreferences
print(GradedPreferences(np.arange(6.0) % 3, np.array([0, 6])).n_pairs)
"""


@pytest.mark.slow
def test_processes_side_by_side_get_over_damage_with_one_line_each(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", SMALL], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    assert start().communicate() == ("12\n", "")
    for path in (tmp_path / "cache").rglob("*.nb*"):
        path.write_bytes(path.read_bytes()[:100])
    for process in [start(), start()]:
        out, err = process.communicate()
        assert out == "12\n" and len(err.splitlines()) <= 1
    assert start().communicate() == ("12\n", "")


BOTH = """
import numpy as np, sys
from hingerank.kernels.rows import dot
kind = np.dtype(sys.argv[1])
print(dot(np.ones(3, kind), np.ones(3)))
"""


@pytest.mark.slow
def test_versions_that_processes_add_at_the_same_time_are_all_kept(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    kinds = ["f8", "f4", "i8", "i4"]

    def start(kind):
        return subprocess.Popen([sys.executable, "-c", BOTH, kind], env=environment, stdout=subprocess.PIPE)

    for process in [start(kind) for kind in kinds]:
        assert process.communicate()[0] == b"3.0\n"
    assert len(kept(tmp_path, "nbc")) == len(kinds)


def test_helpers_are_chosen_by_type_and_run_in_python_too():
    @chosen
    def twice(x):
        def number(x):
            return 2 * x

        def array(x):
            return 2 * x[0]

        return array if isinstance(x, numba.types.Array) else number

    @kernel
    def both(x, a):
        return twice(x) + twice(a)

    assert both(1.0, np.array([3.0])) == 8.0
    with pytest.raises(NotImplementedError, match="only inside compiled kernels"):
        twice(1.0)

    @inner
    def half(x):
        return x / 2

    assert half(3.0) == 1.5


def test_every_kernel_of_the_package_is_kept():
    """No function goes around `kernel`, so that none is without the checks above."""
    source = Path(compiled.__file__).parents[1]
    around = [path for path in source.rglob("*.py") if "njit" in path.read_text(encoding="utf-8")]
    assert around == [Path(compiled.__file__)]


def test_the_quick_road_is_taken_from_the_lowest_numba_that_is_allowed_to_the_newest_that_was_tested():
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    (lowest,) = (pin.partition(">=")[2] for pin in project["dependencies"] if pin.startswith("numba"))
    first, last = compiled.TESTED
    assert tuple(map(int, lowest.split("."))) == first
    roads = {
        f"{first[0]}.{first[1]}.0": True, f"{last[0]}.{last[1]}.9rc1": True, f"{last[0]}.{last[1] + 1}.0": False,
        "1.0": False, "0.59.1": False, "unknown": False,
    }  # fmt: skip
    assert {version: inside_is_known(version) for version in roads} == roads
    assert not inside_is_known(lowest, "plain")
    wish = os.environ.get("HINGERANK_NUMBA")
    assert inside_is_known(numba.__version__, wish) == compiled.QUICK


FITS = """
import json, sys
import hingerank as hr
from hingerank.kernels import compiled

data = hr.make_letor(30, 12, n_features=10, seed=1)
line = hr.RankSVM(C=0.01, scale="standard").fit(data)
curves = hr.AdditiveRankSVM(C=0.01).fit(data)
print(json.dumps([compiled.QUICK, line.predict(data).tolist(), curves.predict(data).tolist(), line.score(data)]))
"""


@pytest.mark.slow
def test_plain_numba_gives_the_same_answers(tmp_path):
    found = []
    for road in ("plain", "quick"):
        environment = os.environ | {"HINGERANK_NUMBA": road, "NUMBA_CACHE_DIR": str(tmp_path / road)}
        done = subprocess.run([sys.executable, "-c", FITS], env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    (plain, *answers), (quick, *wanted) = found
    assert not plain and quick == inside_is_known(numba.__version__)
    for one, other in zip(answers, wanted):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-9)
    kept = list((tmp_path / "plain").rglob("*.nbi"))
    assert kept, "the plain road keeps its machine code too"
