"""Standard output and standard error that are closed or full: a plain exit status, and at most one line."""

import os
import subprocess
import sys

import pytest

from hingerank.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full"),
]
FULL, CLOSED = "standard output: No space left on device", "standard output: Bad file descriptor"


@pytest.fixture
def shell(tmp_path):
    """shell(arguments and redirections, buffered, name=value, ...) -> exit status, stdout, stderr of the command."""
    (tmp_path / "tiny.txt").write_text("1 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:0\n")
    start = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    def run(words, buffered=True, **more):
        command = f'"{sys.executable}" {"" if buffered else "-u"} -m hingerank {words}'
        answer = subprocess.run(command, shell=True, cwd=tmp_path, env=start | more, text=True, capture_output=True)
        return answer.returncode, answer.stdout, answer.stderr

    return run


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    ("redirection", "status", "line"),
    [
        (">/dev/full", 1, FULL),
        (">&-", 1, CLOSED),
        ("<&- >&- 2>&-", 1, None),
        (">/dev/full 2>/dev/full", 1, None),
    ],
)
def test_output_that_cannot_be_written(shell, buffered, redirection, status, line):
    found = shell(f"--version {redirection}", buffered)
    assert found[0] == status and found[2] == (f"hingerank: {line}\n" if line else "")


def test_nobody_reads_the_errors(shell):
    assert shell("info nowhere.txt 2>/dev/full") == (1, "", "")
    status, out, err = shell("info tiny.txt 2>&-")
    assert status == 0 and "queries" in out and err == ""


def test_files_do_not_take_the_number_of_a_closed_stream(shell, tmp_path):
    """Else what is printed would be written into them."""
    assert shell("convert tiny.txt copy.txt >&-")[0] == 1
    assert main(["convert", str(tmp_path / "tiny.txt"), str(tmp_path / "same.txt")]) == 0
    assert (tmp_path / "copy.txt").read_bytes() == (tmp_path / "same.txt").read_bytes()


def test_settings_that_cannot_be_heeded_are_named(shell, tmp_path, monkeypatch, capsys):
    read_by_numba = shell("info tiny.txt", NUMBA_DISABLE_JIT="1")
    monkeypatch.setenv("HINGERANK_NUM_THREADS", "²")
    read_by_us = (main(["info", str(tmp_path / "tiny.txt")]), *capsys.readouterr())
    for name, (status, out, err) in {
        "NUMBA_DISABLE_JIT": read_by_numba,
        "HINGERANK_NUM_THREADS": read_by_us,
    }.items():
        assert status == 1 and out == "" and err.startswith(f"hingerank: {name} is ") and len(err.splitlines()) == 1
