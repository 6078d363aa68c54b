"""Slow, plain readers of every kind of text, one line at a time: what benchmarks/fuzz.py compares the library with.

They share no code with the library.
"""

import csv
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

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


# ---- tables, ratings and lists of numbers -------------------------------------------------------------------------

NOTHING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA"}
NOTHING |= {"NULL", "NaN", "n/a", "nan", "null"}


def text_lines(raw: bytes, encodings: tuple[str, ...] = ("utf-8",)) -> list[str]:
    """Lines that end in any of the three ways."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in raw:
        raise Refused("binary")
    for encoding in encodings:
        try:
            return re.split("\r\n|\r|\n", raw.decode(encoding))
        except UnicodeDecodeError:
            continue
    raise Refused("no UTF-8")


def slow_decimal(word: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", word) or abs(float(word)) == np.inf:
        raise Refused(f"no number: {word!r}")
    return float(word)


def slow_whole(word: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", word):
        raise Refused(f"no whole number: {word!r}")
    return int(word)


def slow_fields(line: str, delimiter: str, strict: bool = True) -> list[str]:
    """The fields of one line; an open quote is refused."""
    if line.count('"') % 2:
        raise Refused("an open quote")
    try:
        found = list(csv.reader([line], delimiter=delimiter, strict=strict))
    except csv.Error as error:
        raise Refused(str(error)) from error
    return found[0] if found else []


def slow_csv(raw: bytes, delimiter: str) -> dict[str, list[str]]:
    """The cells of a table by the names on its first line that is not empty."""
    rows = [slow_fields(line, delimiter, strict=False) for line in text_lines(raw) if line]
    if not rows or any(len(row) != len(rows[0]) for row in rows) or len(set(rows[0])) < len(rows[0]):
        raise Refused("no table")
    return {name: [row[place] for row in rows[1:]] for place, name in enumerate(rows[0])}


def slow_ratings(raw: bytes, delimiter: str) -> list[tuple[str, str, float]]:
    """(user, item, rating) of every line after the names; of a repeated user and item the mean, the last's place."""
    rows = []
    for number, line in enumerate(text_lines(raw, ("utf-8", "latin-1"))):
        if not line.strip():
            if number == 0:
                raise Refused("no names")
            continue
        row = slow_fields(line, delimiter) if delimiter == "," else line.split(delimiter)
        if number and len(row) < 3:
            raise Refused("a short line")
        if number and not (row[0].strip() and row[1].strip()):
            raise Refused("an empty id")
        if number:
            rows.append((row[0].strip(), row[1].strip(), slow_decimal(row[2].strip())))
        else:
            names = [name.strip().strip('"').lower() for name in row]
            if names[:3] != ["user", "item", "rating"] or {*names[:3]} & {*names[3:]}:
                raise Refused("other names")
    said: dict[tuple[str, str], list[float]] = {}
    for user, item, rating in rows:
        said[user, item] = [*said.pop((user, item), []), rating]
    return [(*pair, sum(ratings) / len(ratings)) for pair, ratings in said.items()]


def slow_numbers(raw: bytes) -> list[float]:
    """One number on each line, blank lines at the end only."""
    text = "\n".join(text_lines(raw)).rstrip()
    return [slow_decimal(line.strip(" \t\r")) for line in text.split("\n")] if text else []


# ---- TREC -----------------------------------------------------------------------------------------------------------


def slow_trec(raw: bytes, count: int) -> list[list[str]]:
    rows = [words for line in text_lines(raw) if (words := line.split())]
    if not rows or any(len(row) != count for row in rows):
        raise Refused("no such lines")
    return rows


def slow_run(raw: bytes) -> dict[str, list[tuple[str, float]]]:
    """Documents and scores by topic, best first, equal scores by rising id."""
    topics: dict[str, dict[str, float]] = {}
    for topic, _, document, rank, score, _ in slow_trec(raw, 6):
        slow_whole(rank)
        if document in topics.setdefault(topic, {}):
            raise Refused("a document twice")
        topics[topic][document] = slow_decimal(score)
    return {topic: sorted(found.items(), key=lambda item: (-item[1], item[0])) for topic, found in topics.items()}


def slow_qrels(raw: bytes) -> dict[tuple[str, str, str], int]:
    """The judgment of (topic, subtopic, document)."""
    found: dict[tuple[str, str, str], Any] = {}
    for topic, subtopic, document, judgment in slow_trec(raw, 4):
        if (topic, subtopic, document) in found:
            raise Refused("judged twice")
        found[topic, subtopic, document] = slow_whole(judgment)
    return found
