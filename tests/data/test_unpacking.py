"""Compressed files: little memory while they are unpacked, and no damage that is taken for the end."""

import bz2
import gzip
import lzma
import subprocess
import sys

import pytest

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.data.streams import whole_bytes

pytestmark = pytest.mark.slow

zstandard = pytest.importorskip("zstandard")
PACK = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
LINES = b"1 qid:1 1:0.5\n0 qid:1 1:0.25\n"


@pytest.mark.parametrize("kind", PACK)
def test_parts_follow_each_other_and_damage_is_not_the_end(tmp_path, kind):
    path, first, second = tmp_path / f"rows.txt.{kind}", PACK[kind](LINES), PACK[kind](LINES * 1000)
    path.write_bytes(first + second)
    assert whole_bytes(path) == LINES * 1001
    padded = first + bytes(8) + second + bytes(4)
    path.write_bytes(padded if kind in ("gz", "xz") else first + second)
    assert hr.read(path).n_rows == 2002
    for damaged in (
        first + second[:-1],
        first + b"x" + second[1:],
        first + b"\0\0\1" + second,
        first + second + b"left",
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="damaged") as error:
            hr.read(path)
        assert str(path) in str(error.value)


READ = """
import resource, sys
import hingerank as hr
from hingerank.data.files import DataError
from hingerank.diversity.trec import read_run
from hingerank.personal.ratings import read_ratings
import pyarrow.csv
path, kind = sys.argv[1:]
hr.read("small.txt")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) >> 10
before = peak()
read = {"text": hr.read, "table": hr.read, "ratings": read_ratings, "run": read_run}[kind]
try:
    read(path)
    print("read it")
except DataError as error:
    assert path in str(error), error
    assert "unpacks to more than 200 times its size" in str(error), error
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at its memory in /proc")
@pytest.mark.parametrize(
    "packed, kind, line",
    [
        *((packed, "text", b"1") for packed in PACK),
        ("zst", "text", LINES),
        ("gz", "table", b"1,1\n"),
        ("zst", "ratings", b"1,1,1\n"),
        ("gz", "run", b"1 "),
    ],
)
def test_a_bomb_stays_small(tmp_path, packed, kind, line):
    """Half a gigabyte in some kilobytes: one long line, or very many short ones."""
    (tmp_path / "small.txt").write_bytes(LINES)
    block, path = line * ((1 << 22) // len(line)), tmp_path / f"bomb.{'csv' if kind == 'table' else 'txt'}.{packed}"
    if packed == "zst":  # one part, in which a few bytes can hold any number of zeros
        with open(path, "wb") as file, zstandard.ZstdCompressor().stream_writer(file) as out:
            for _ in range(128):
                out.write(block)
    else:
        path.write_bytes(PACK[packed](block) * 128)
    assert path.stat().st_size * 400 < 128 * len(block)
    most = 2000 if kind == "table" else 1000  # megabytes; numbers of one digit take eight times their text
    command = [sys.executable, "-c", READ, str(path), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "read it" not in done.stdout and int(done.stdout) < most, done.stdout
