"""The rows of LETOR/SVMlight text gathered into arrays, window after window.

The parser writes straight into the arrays that are returned. What it has to know beforehand (dense or sparse, indices
from 0 or 1, query ids as numbers or text) is a plan made from the first lines; a line that proves the plan wrong
raises `Replan`, and the caller starts again with a better one. Each part of a plan changes at most twice.
"""

import math
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hingerank.data.errors import DataError
from hingerank.data.growing import GrowingArray
from hingerank.data.line_windows import Window
from hingerank.data.text_errors import located, no_utf8, token_at, wrong_text
from hingerank.kernels import parse
from hingerank.kernels.threads import run_shards
from hingerank.kernels.tokens import bad_characters

DENSE_SHARE = 0.25  # dense if at least this share of the values is written out
SMALL_TABLE = 1024  # ... or the whole table has no more cells than this
NEWLINE, COLON = 10, 58
MISSING = {"error": parse.MISSING_IS_ERROR, "zero": parse.MISSING_IS_ZERO, "nan": parse.MISSING_IS_NAN}


@dataclass(frozen=True)
class Options:
    """What the caller of `read_text` asked for; see there."""

    dtype: Any = np.float64
    sparse: bool | None = None
    missing: str = "error"
    index_base: int | None = None
    n_features: int | None = None
    docids: bool = True
    qid_in_comment: bool | None = None
    max_features: int = 1 << 25

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float64", np.float32, np.float64):
            raise ValueError(f'dtype is {self.dtype!r}, expected "float64" or "float32"')
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if self.missing not in MISSING:
            raise ValueError(f'missing is {self.missing!r}, expected "error", "zero" or "nan"')
        if self.index_base not in (None, 0, 1):
            raise ValueError(f"index_base is {self.index_base!r}, expected 0, 1 or None")
        for name, value in (("n_features", self.n_features), ("max_features", self.max_features)):
            if value is not None and not 1 <= value < 2**31:
                raise ValueError(f"{name} is {value!r}, expected a whole number from 1 to {2**31 - 1}")


@dataclass(frozen=True)
class Plan:
    """What the parser takes for granted; `settled`: the whole text was seen, dense or sparse is decided."""

    dense: bool
    base: int
    qid_is_text: bool = False
    settled: bool = False


class Replan(Exception):
    """The text does not fit the plan: start again with `plan`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


def first_plan(options: Options) -> Plan:
    dense = (options.n_features or 0) <= 1 << 16 if options.sparse is None else not options.sparse
    return Plan(dense=dense, base=1 if options.index_base is None else options.index_base)


def dense_enough(entries: int, rows: int, width: int) -> bool:
    return rows * width <= SMALL_TABLE or entries >= DENSE_SHARE * rows * width


class TextTable:
    """Arrays of the rows added so far; `source_rows[i]` = rows of source i."""

    def __init__(self, options: Options, plan: Plan) -> None:
        self.options, self.plan = options, plan
        self.rows = self.entries = self.n_letters = 0
        self.largest = -1
        self.qid_style = parse.QID_UNKNOWN
        self.source_rows: dict[int, int] = {}
        self.source_lines: dict[int, int] = {}
        self.y, self.qid = GrowingArray(np.float64), GrowingArray(np.int64)
        self.spans, self.letters = GrowingArray(np.int32, 2), GrowingArray(np.uint8)
        self.sizes, self.columns = GrowingArray(np.int64), GrowingArray(np.int32)
        self.values = GrowingArray(options.dtype, (options.n_features or 0) if plan.dense else 1)
        self._asked = np.empty((0, 3), np.int64)  # room for the tokens left to Python in one window

    @property
    def limit(self) -> tuple[int, str]:
        n = self.options.n_features
        return (self.options.max_features, "max_features") if n is None else (n, "n_features")

    @property
    def keeps_comments(self) -> bool:
        asked = self.options.qid_in_comment
        return self.options.docids or asked is True or (asked is None and self.qid_style != parse.QID_PRESENT)

    def add(self, window: Window) -> None:
        """Parse the lines of `window` and append their rows."""
        chunks = window.chunks() if self.qid_style != parse.QID_UNKNOWN else [(0, window.length)]
        window.lines_before = self.source_lines.get(window.source, 0)
        while True:
            states, tokens = self._parse(window, chunks)
            answers = [self._check(window, state, asked) for state, asked in zip(states, tokens)]
            largest = max(int(state[parse.LARGEST]) for state in states)
            if not self.plan.dense or largest < self.values.width:
                break
            self._widen(largest + 1, states, window.share)
        for state, asked, numbers in zip(states, tokens, answers):
            self._store_answers(asked[: state[parse.ASKED], 0], numbers)
        self._close_gaps(states)
        self._check_characters(window, states)
        self._advance(window, states)

    def _parse(self, window: Window, chunks: list[tuple[int, int]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Make room for the rows of each chunk and parse them; returns the final states and the tokens left over."""
        text = np.frombuffer(window.buffer, np.uint8)
        letters = self.keeps_comments or self.plan.qid_is_text
        lines = run_shards(lambda c: np.count_nonzero(text[c[0] : c[1]] == NEWLINE), chunks)
        colons = [0] * len(chunks)
        if not self.plan.dense:
            colons = run_shards(lambda c: np.count_nonzero(text[c[0] : c[1]] == COLON), chunks)
        self._reserve(sum(lines), sum(colons), window.length if letters else 0, window.share)
        states = []
        row, entry = self.rows, self.entries
        for chunk, n_lines, n_colons in zip(chunks, lines, colons):
            state = np.zeros(parse.STATE_SIZE, np.int64)
            state[parse.ROW], state[parse.ENTRY], state[parse.LARGEST] = row, entry, -1
            state[parse.LETTER] = self.n_letters + chunk[0]
            state[parse.QID_STYLE] = self.qid_style
            states.append(state)
            row, entry = row + n_lines, entry + n_colons
        self._starts = [state.copy() for state in states]
        self.source_lines[window.source] = window.lines_before + sum(lines)
        if len(self._asked) < window.length // 4 + 1:  # no token left to Python is shorter than '1e23 '
            self._asked = np.empty((window.length // 4 + 1, 3), np.int64)
        tokens = [self._asked[first // 4 : last // 4 + 1] for first, last in chunks]
        run_shards(lambda i: self._parse_chunk(text, chunks[i], states[i], tokens[i]), range(len(chunks)))
        return states, tokens

    def _parse_chunk(self, text: np.ndarray, chunk: tuple[int, int], state: np.ndarray, asked: np.ndarray) -> None:
        plan = np.zeros(parse.PLAN_SIZE, np.int64)
        plan[parse.BASE], plan[parse.DENSE] = self.plan.base, self.plan.dense
        plan[parse.MOST_FEATURES] = self.limit[0]
        plan[parse.WIDTH] = self.values.width if self.plan.dense else self.limit[0]
        plan[parse.QID_IS_TEXT], plan[parse.KEEP_COMMENT] = self.plan.qid_is_text, self.keeps_comments
        plan[parse.MISSING], plan[parse.NARROW] = MISSING[self.options.missing], self.options.dtype == np.float32
        columns = np.empty(max(1, self.values.width), np.int32) if self.plan.dense else self.columns.array
        arrays = (self.y.array, self.qid.array, self.sizes.array, self.spans.array.reshape(-1, 2))
        last = (self.values.array, columns, self.letters.array, asked, state)
        parse.parse_rows(text, chunk[0], chunk[1], plan, *arrays, *last)

    def _reserve(self, rows: int, entries: int, letters: int, share: float) -> None:
        """Room for so many more; the share of the input read so far tells what to expect in all."""
        growth = 1.03 / max(share, 1e-6)
        rows, entries, letters = self.rows + rows, self.entries + entries, self.n_letters + letters
        for array in (self.y, self.qid, self.spans):
            array.reserve(rows, int(rows * growth))
        self.letters.reserve(letters, int(self.n_letters * growth) + letters)
        if self.plan.dense:
            self._check_memory(int(rows * growth), self.values.width)
            self.values.reserve(rows, int(rows * growth))
        else:
            self.sizes.reserve(rows, int(rows * growth))
            for array in (self.columns, self.values):
                array.reserve(entries, int(entries * growth))

    def _check(self, window: Window, state: np.ndarray, asked: np.ndarray) -> list[float]:
        """Raise for what is wrong in a chunk, the first thing first; returns the numbers left to Python."""
        numbers = []
        for slot, start, end in asked[: state[parse.ASKED]].tolist():
            number = float(window.buffer[start:end])
            narrow = slot >= 0 and self.options.dtype == np.float32
            if abs(number) >= (parse.FLOAT32_OVERFLOW if narrow else math.inf):
                expected = (
                    'a number that fits float32 (or pass dtype="float64")' if narrow else "a number that fits float64"
                )
                raise located(window, start, token_at(window, start), expected)
            numbers.append(number)
        status, place = int(state[parse.STATUS]), int(state[parse.PLACE])
        if status == parse.FOUND_TEXT_QID:
            raise Replan(replace(self.plan, qid_is_text=True))
        if status == parse.FOUND_INDEX_ZERO and self.options.index_base is None:
            raise Replan(replace(self.plan, base=0))
        if status != parse.FINE:
            raise wrong_text(window, status, place, *self.limit)
        return numbers

    def _widen(self, width: int, states: list[np.ndarray], share: float) -> None:
        """Make room for columns up to `width` in the dense rows, unless they have become too empty for that."""
        rows = self.rows + sum(int(now[parse.ROW] - was[parse.ROW]) for now, was in zip(states, self._starts))
        entries = self.entries + sum(int(state[parse.ENTRIES]) for state in states)
        if self.options.sparse is None and not self.plan.settled and not dense_enough(entries, rows, width):
            raise Replan(replace(self.plan, dense=False))
        self._check_memory(int(rows / max(share, 1e-6)), width)
        self.values.widen(self.rows, width)

    def _check_memory(self, rows: int, width: int) -> None:
        wanted, there = rows * width * self.options.dtype.itemsize, _memory()
        if wanted > there:
            raise DataError(
                f"{rows} rows of {width} features take {wanted / 2**30:.1f} GiB as a dense array, but the machine has "
                f"{there / 2**30:.1f} GiB: pass sparse=True"
            )

    def _store_answers(self, slots: np.ndarray, numbers: list[float]) -> None:
        if numbers:
            answers, labels = np.array(numbers), slots < 0
            self.y.array[-1 - slots[labels]] = answers[labels]
            self.values.array[slots[~labels]] = answers[~labels]

    def _close_gaps(self, states: list[np.ndarray]) -> None:
        """Blank lines, comments and colons outside entries made the chunks reserve more than they used."""

        def runs(slot: int) -> tuple[list[int], list[int]]:
            starts = [int(was[slot]) for was in self._starts]
            return starts, [int(now[slot]) - start for now, start in zip(states, starts)]

        rows = runs(parse.ROW)
        by_row = [self.y, self.qid, self.spans, self.values if self.plan.dense else self.sizes]
        for array in by_row:
            array.close_gaps(*rows)
        self.letters.close_gaps(*runs(parse.LETTER))
        if not self.plan.dense:
            for array in (self.columns, self.values):
                array.close_gaps(*runs(parse.ENTRY))

    def _check_characters(self, window: Window, states: list[np.ndarray]) -> None:
        rows = sum(int(now[parse.ROW] - was[parse.ROW]) for now, was in zip(states, self._starts))
        count = sum(int(now[parse.LETTER] - was[parse.LETTER]) for now, was in zip(states, self._starts))
        new = self.letters.array[self.n_letters : self.n_letters + count]
        if count and new.max() >= 128:
            spans = self.spans.array.reshape(-1, 2)[self.rows : self.rows + rows]
            comments_matter = self.options.docids or states[-1][parse.QID_STYLE] != parse.QID_PRESENT
            bad = int(bad_characters(new, spans, comments_matter))
            if bad >= 0:
                raise no_utf8(window, bad)

    def _advance(self, window: Window, states: list[np.ndarray]) -> None:
        rows = sum(int(now[parse.ROW] - was[parse.ROW]) for now, was in zip(states, self._starts))
        self.rows += rows
        self.entries += sum(int(state[parse.ENTRIES]) for state in states)
        self.n_letters += sum(int(now[parse.LETTER] - was[parse.LETTER]) for now, was in zip(states, self._starts))
        self.largest = max(self.largest, *(int(state[parse.LARGEST]) for state in states))
        self.qid_style = int(states[-1][parse.QID_STYLE])
        self.source_rows[window.source] = self.source_rows.get(window.source, 0) + rows

    def features(self) -> Any:
        """X, once all windows are in; may raise `Replan`."""
        width = self.largest + 1 if self.options.n_features is None else self.options.n_features
        if self.options.sparse is None and not self.plan.settled:
            dense = dense_enough(self.entries, self.rows, width)
            if dense != self.plan.dense:
                raise Replan(replace(self.plan, dense=dense, settled=True))
        if self.plan.dense:
            return self.values.finish(self.rows, width)
        from scipy.sparse import csr_matrix

        offsets = np.zeros(self.rows + 1, np.int32 if self.entries < 2**31 else np.int64)
        np.cumsum(self.sizes.array[: self.rows], out=offsets[1:])
        parts = (self.values.finish(self.entries), self.columns.finish(self.entries), offsets)
        return csr_matrix(parts, shape=(self.rows, width), copy=False)


def _memory() -> int:
    """Bytes of memory in the machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on this platform
        return 1 << 62
