"""Feed the text reader mutated files: each is either refused with a DataError, or read as a slow plain parser reads it.

    python benchmarks/fuzz_reader.py --files 100000 --seed 0

Windows and chunks are made tiny for most files, so that their borders fall everywhere.
"""

import argparse
import gzip
import lzma
import os
import random
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hingerank.data import letor_table
from hingerank.data.files import DataError
from hingerank.data.letor import read_text

# ---- the slow reader: independent of the kernels, one line at a time --------------------------------------------

DECIMAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE = re.compile(rb"0|-?[1-9][0-9]{0,17}")
MARK = re.compile(rb"null|nan|na", re.IGNORECASE)
LETOR = re.compile(rb"docid[ \t]*=[ \t]*(.+)", re.DOTALL)
INC = re.compile(rb"([^ \t]+)[ \t]+inc[ \t]*=.*", re.DOTALL)


class Refused(Exception):
    """The slow reader does not accept this text."""


@dataclass
class Table:
    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    docid: np.ndarray | None


def slow_number(token: bytes, dtype=np.float64) -> float:
    if not DECIMAL.fullmatch(token):
        raise Refused(f"no number: {token!r}")
    value = float(token)
    if abs(value) == np.inf or (dtype == np.float32 and abs(value) >= 2.0**128 - 2.0**103):
        raise Refused(f"too large: {token!r}")
    return value


def slow_comment(comment: bytes) -> str:
    comment = comment.strip(b" \t\r")
    if match := LETOR.fullmatch(comment):
        comment = match[1]
        if match := INC.fullmatch(comment):
            comment = match[1]
    try:
        return comment.decode()
    except UnicodeDecodeError as error:
        raise Refused("no UTF-8") from error


def slow_row(line: bytes, missing: str, dtype: type):
    """(label, query id or None, {index: value}, comment) of one line."""
    body, _, comment = line.partition(b"#")
    label, *tokens = re.split(rb"[ \t]+", body.strip(b" \t"))
    y, qid, entries = slow_number(label), None, {}
    if tokens and tokens[0].startswith(b"qid:"):
        qid = tokens.pop(0)[4:]
        if not qid or min(qid) <= 32:
            raise Refused("bad qid")
    for token in tokens:
        index, colon, value = token.partition(b":")
        if not colon or not re.fullmatch(rb"[0-9]{1,18}", index) or int(index) in entries:
            raise Refused(f"bad entry {token!r}")
        if MARK.fullmatch(value) and missing != "error":
            entries[int(index)] = 0.0 if missing == "zero" else np.nan
        else:
            entries[int(index)] = slow_number(value, dtype)
    return y, qid, entries, slow_comment(comment)


def slow_lines(raw: bytes):
    if b"\0" in raw:
        raise Refused("binary")
    if raw.startswith(b"\xef\xbb\xbf"):
        raw = b"   " + raw[3:]
    for line in raw.split(b"\n"):
        line = line.removesuffix(b"\r")
        start = line.lstrip(b" \t")
        if start and not start.startswith(b"#"):
            yield line


def slow_read(raw: bytes, missing: str = "error", dtype: type = np.float64, max_features: int = 1 << 25) -> Table:
    rows = [slow_row(line, missing, dtype) for line in slow_lines(raw)]
    indices = {index for row in rows for index in row[2]}
    if not rows or not indices or len({row[1] is None for row in rows}) > 1:
        raise Refused("no rows, no features, or query ids on some lines only")
    base = 0 if 0 in indices else 1
    if max(indices) - base >= max_features:
        raise Refused("huge index")
    X = np.zeros((len(rows), max(indices) - base + 1), dtype)
    for i, row in enumerate(rows):
        for index, value in row[2].items():
            X[i, index - base] = value
    y, docid = np.array([row[0] for row in rows]), np.array([row[3] for row in rows])
    if rows[0][1] is not None:
        return Table(X, y, slow_qids([row[1] for row in rows]), docid if (docid != "").any() else None)
    if all(WHOLE.fullmatch(comment.encode()) for comment in docid) and len(rows) > 1:
        numbers = docid.astype(np.int64)
        if 2 * (1 + np.count_nonzero(np.diff(numbers))) <= len(rows):
            return Table(X, y, numbers, None)
    return Table(X, y, np.zeros(len(rows), np.int64), docid if (docid != "").any() else None)


def slow_qids(tokens: list[bytes]) -> np.ndarray:
    if all(WHOLE.fullmatch(token) for token in tokens):
        return np.array([int(token) for token in tokens])
    try:
        return np.array([token.decode() for token in tokens])
    except UnicodeDecodeError as error:
        raise Refused("no UTF-8") from error


# ---- mutations --------------------------------------------------------------------------------------------------

SEEDS = [
    b"2 qid:10 1:0.031310 2:0.666667 3:0.500000 #docid = GX000-24-12369390 inc = 0.6 prob = 0.4\n"
    b"0 qid:10 1:0 2:0 3:0.25 #docid = GX1\n1 qid:32 1:1.000000 2:-5.5e-3 3:7 #docid = GX2 inc = 1 prob = 1\n",
    b"1 qid:WT04-132 1:12.5 5:1e3 # alpha\r\n0 qid:WT04-132 3:0.1 2:7 # beta gamma\r\n"
    b"\r\n# a line\r\n-1 qid:b 1:5.\r\n",
    b"0.5 0:1 3:2.25 7:.5\n1.5 1:0.1\n\n3 0:1e-7 2:123456789.123456789",
    b"1 1:0.5 2:0.25 # 17\n0 1:0.125 # 17\n2 2:3 # 18\n0 1:1 2:1 # 18\n",
    b"1 qid:1 1:NULL 2:0.5\n0 qid:1 1:3 2:NULL # caf\xc3\xa9\n2 qid:2 1:1 2:nan\n",
    b"3 qid:5\t1:0.1\t2:0.30000000000000004\t3:9007199254740993 #x\n" * 4,
    b"1 qid:7 " + b" ".join(b"%d:%d.%06d" % (i, i % 3, i * 7919 % 10**6) for i in range(1, 40)) + b"\n",
    b"0 qid:1 5000:1 5:2\n1 qid:1 7:1\n0 qid:2 31:0.5 30:0.25 29:0.125 28:1 2:2 1:3\n" + b"1 qid:2 9:1\n" * 6,
    b"# only a comment\n1 qid:3 2:1\n",
]
TOKENS = [
    *b"nan NaN inf -inf NULL null NA 1e999 1e-999 -0 +1 . - + e 1e 1e+ 0x10 1_0 1,5 5. .5 00012".split(),
    *b"1e23 4.9e-324 1e309 -1e40 3.5e38 9007199254740993 0.1000000000000000055511151231257827".split(),
    *b"123456789012345678901234567890 179769313486231580793e289 18446744073709551616 0000000000000000000000000".split(),
    *b"4000000000:1 99999999999999999999:1 0:1 1:1 -1:2 2: :3 1:2:3 1:1:1 1: 8192:1 8193:1".split(),
    *b"qid: qid:1 qid:a qid:007 qid:-0 qid:-5 QID:1 cost:1 #docid=x #docid".split(),
    *(b"\r", b"\r\n", b"\n", b"\n\n", b"\0", b"#", b" # ", b"\t", b"  ", b"\x0b", b"\x1c", b"\x85"),
    *(b"\xff", b"\xc3\xa9", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80"),
    *(b"#docid = x inc = 1", b"#docid =", b"# docid = a b"),
]


def mutate(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(9)
        if kind == 0 and data:
            data[at % len(data)] = chance.randrange(256)
        elif kind == 1:
            del data[at : at + chance.choice((1, 1, 2, 5, 30))]
        elif kind == 2:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            data[at:at] = b" " + chance.choice(TOKENS) + b" "
        elif kind == 4:  # a token replaced
            words = [match.span() for match in re.finditer(rb"[^ \t\n#:]+", data)]
            if words:
                first, end = chance.choice(words)
                data[first:end] = chance.choice(TOKENS)
        elif kind == 5:  # lines shuffled or repeated
            lines = bytes(data).split(b"\n")
            lines.insert(chance.randrange(len(lines)), chance.choice(lines))
            data = bytearray(b"\n".join(lines))
        elif kind == 6:
            data = data[:at]
        elif kind == 7:
            data[at:at] = bytes(data[at : at + chance.randrange(60)])
        else:
            data[at:at] = repr(chance.uniform(-1, 1) * 10.0 ** chance.randrange(-320, 300)).encode()
    return bytes(data)


# ---- the comparison ---------------------------------------------------------------------------------------------


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shape, type and bits, any NaN like any other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    kind = np.int64 if a.dtype == np.float64 else np.int32
    return bool(((a.view(kind) == b.view(kind)) | (np.isnan(a) & np.isnan(b))).all())


def check(raw: bytes, path: str, chance: random.Random) -> bool:
    """Whether the text was accepted; raises AssertionError if the two readers disagree."""
    missing, dtype = chance.choice(("error", "zero", "nan")), chance.choice((np.float64, np.float32))
    sparse = chance.choice((None, True, False))
    most = 1 << 13  # few enough for the slow reader's dense table
    with open(path, "wb") as out:
        out.write(raw)
    try:
        expected = slow_read(raw, missing, dtype, most)
    except Refused:
        expected = None
    try:
        data = read_text(path, missing=missing, dtype=dtype, sparse=sparse, max_features=most)
    except DataError as error:
        assert expected is None, f"refused without need: {error}"
        message = str(error)
        assert message.startswith(path) and "\n" not in message, f"no place in: {message}"
        return False
    assert expected is not None, "accepted what the slow reader refuses"
    X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    if not isinstance(data.X, np.ndarray):
        X = np.where(X == 0, 0, X)
        expected.X = np.where(expected.X == 0, 0, expected.X).astype(dtype)
        assert data.X.has_sorted_indices, "columns out of order"
    assert same_bits(np.ascontiguousarray(X), expected.X), f"X: {X} is not {expected.X}"
    assert same_bits(data.y, expected.y), f"y: {data.y} is not {expected.y}"
    assert data.qid.dtype.kind == expected.qid.dtype.kind and (data.qid == expected.qid).all(), "qid"
    assert (data.docid is None) == (expected.docid is None), "docid"
    assert data.docid is None or (data.docid == expected.docid).all(), f"docid: {data.docid} is not {expected.docid}"
    return True


def tiny_windows(chance: random.Random) -> None:
    """Windows and chunks of a few bytes, or the usual ones now and then."""
    first, window, chunk = chance.choice(((1 << 17, 1 << 19, 1 << 18), (16, 32, 8), (40, 100, 20), (64, 300, 30)))
    letor_table.FIRST_WINDOW, letor_table.SMALLEST_WINDOW, letor_table.SMALLEST_CHUNK = first, window, chunk


def check_packed(raw: bytes, path: str, chance: random.Random) -> None:
    """A damaged compressed file is refused or gives the same rows as the bytes that come out of it."""
    pack = chance.choice((gzip.compress, lzma.compress))
    packed = bytearray(pack(raw))
    for _ in range(chance.choice((0, 1, 2))):
        packed[chance.randrange(6, len(packed))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.3:
        del packed[chance.randrange(6, len(packed)) :]
    with open(path, "wb") as out:
        out.write(packed)
    try:
        data = read_text(path)
    except DataError:
        return
    expected = slow_read(raw)
    assert (data.y == expected.y).all() and data.n_rows == len(expected.y), "damage went unnoticed"


def fuzz(files: int, seed: int, report=None) -> dict[str, int]:
    """Check so many files; returns how many were accepted and refused."""
    chance = random.Random(seed)
    kept = (letor_table.FIRST_WINDOW, letor_table.SMALLEST_WINDOW, letor_table.SMALLEST_CHUNK)
    counts = {"accepted": 0, "refused": 0}
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "rows.txt")
            for number in range(files):
                tiny_windows(chance)
                start = chance.choice(SEEDS)
                raw = mutate(start, chance)
                try:
                    if number % 50 == 49:
                        check_packed(start, path, chance)
                    else:
                        counts["accepted" if check(raw, path, chance) else "refused"] += 1
                except Exception as error:
                    raise AssertionError(
                        f"file {number} of seed {seed}: {type(error).__name__}: {error}\n{raw!r}"
                    ) from error
                if report and number % 5000 == 4999:
                    report(number + 1, counts)
    finally:
        letor_table.FIRST_WINDOW, letor_table.SMALLEST_WINDOW, letor_table.SMALLEST_CHUNK = kept
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.environ["HINGERANK_NUM_THREADS"] = str(options.threads)
    start = time.perf_counter()
    counts = fuzz(options.files, options.seed, lambda n, c: print(f"{n:>8} files, {c}", flush=True))
    print(f"{options.files} files in {time.perf_counter() - start:.0f} s, {counts}: no crash, no hang, no wrong row")


if __name__ == "__main__":
    main()
