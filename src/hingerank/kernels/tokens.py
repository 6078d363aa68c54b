"""Pieces of the text formats, as kernels over bytes: blanks, whole numbers, comments, UTF-8, and entries put in order.

Every function that looks ahead relies on a newline after the last byte.
"""

import numpy as np
from numba import njit

SPACE, TAB, NEWLINE, RETURN, HASH, COLON, POINT, MINUS, EQUALS = 32, 9, 10, 13, 35, 58, 46, 45, 61
DOCID, INC = np.frombuffer(b"docid", np.uint8), np.frombuffer(b"inc", np.uint8)


@njit(cache=True, nogil=True)
def blank(c):
    return c in (SPACE, TAB)


@njit(cache=True, nogil=True)
def digit_at(text, p):
    """text[p] as a digit, none if not from 0 to 9. An unsigned place spares numba a test for negative ones."""
    return np.int64(text[np.uintp(p)]) - 48


@njit(cache=True, nogil=True)
def skip_blanks(text, p):
    while blank(text[np.uintp(p)]):
        p += 1
    return p


@njit(cache=True, nogil=True)
def ends_token(text, p):
    """Whether a token may end before text[p]: a blank, a comment or the line end."""
    c = text[np.uintp(p)]
    return c in (SPACE, NEWLINE, TAB, HASH) or (c == RETURN and text[p + 1] == NEWLINE)


@njit(cache=True, nogil=True)
def whole_number(text, p, end):
    """(whether text[p:end] is a whole number of at most 18 digits just as ``str`` writes it, the number)."""
    negative = end > p and text[p] == MINUS
    first = p + 1 if negative else p
    length = end - first
    if length < 1 or length > 18 or (text[first] == 48 and (length > 1 or negative)):
        return False, np.int64(0)
    n = np.int64(0)
    for i in range(first, end):
        d = np.int64(text[i]) - 48
        if d < 0 or d > 9:
            return False, np.int64(0)
        n = n * 10 + d
    return True, (-n if negative else n)


@njit(cache=True, nogil=True)
def missing_mark(text, p):
    """The length of ``NULL``, ``NaN`` or ``NA`` (in any case) at text[p], else 0."""
    length = 0
    if text[p] | 32 == 110:
        if text[p + 1] | 32 == 97:
            length = 3 if text[p + 2] | 32 == 110 else 2
        elif text[p + 1] | 32 == 117 and text[p + 2] | 32 == 108 and text[p + 3] | 32 == 108:
            length = 4
    return length if length > 0 and ends_token(text, p + length) else 0


@njit(cache=True, nogil=True)
def after_assignment(text, p, end, word):
    """The place after ``word = `` at text[p], else -1."""
    if end - p < len(word):
        return -1
    for i in range(len(word)):
        if text[p + i] != word[i]:
            return -1
    p = skip_blanks(text, p + len(word))
    return skip_blanks(text, p + 1) if p < end and text[p] == EQUALS else -1


@njit(cache=True, nogil=True)
def find_docid(text, p, end):
    """The bounds of the document id in the comment text[p:end], which a newline follows.

    ``docid = X`` and LETOR 4's ``docid = X inc = … prob = …`` give X; any other comment is an id as a whole.
    """
    while p < end and (blank(text[p]) or text[p] == RETURN):
        p += 1
    while end > p and (blank(text[end - 1]) or text[end - 1] == RETURN):
        end -= 1
    first = after_assignment(text, p, end, DOCID)
    if first < 0 or first >= end:
        return p, end
    last = first
    while last < end and not blank(text[last]):
        last += 1
    return first, (last if after_assignment(text, skip_blanks(text, last), end, INC) >= 0 else end)


@njit(cache=True, nogil=True)
def sift_down(columns, values, first, root, end, with_values):
    """Move the entry at heap place `root` down the heap of `end` entries that starts at `first`."""
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and columns[first + child] < columns[first + child + 1]:
            child += 1
        a, b = first + root, first + child
        if columns[a] >= columns[b]:
            return
        columns[a], columns[b] = columns[b], columns[a]
        if with_values:
            values[a], values[b] = values[b], values[a]
        root = child


@njit(cache=True, nogil=True)
def sort_entries(columns, values, first, count, with_values):
    """Heapsort `count` entries from `first` on by column, O(count log count); whether no column comes twice."""
    for step in range(count // 2 - 1, -count, -1):
        root, end = max(step, 0), min(count, count + step)
        if step < 0:  # the heap stands: put its largest behind it
            columns[first], columns[first + end] = columns[first + end], columns[first]
            if with_values:
                values[first], values[first + end] = values[first + end], values[first]
        sift_down(columns, values, first, root, end, with_values)
    for i in range(first + 1, first + count):  # noqa: SIM110
        if columns[i] == columns[i - 1]:
            return False
    return True


@njit(cache=True, nogil=True)
def read_character(letters, p, end):
    """(code point, next place) of the UTF-8 character at letters[p], which ends before `end`; code -1 if it is none."""
    lead = np.int64(letters[p])
    if lead < 0x80:
        return lead, p + 1
    length = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if lead < 0xC2 or lead > 0xF4 or p + length > end:
        return -1, p + 1
    code = lead & (0x7F >> length)
    for i in range(p + 1, p + length):
        follower = np.int64(letters[i])
        if follower & 0xC0 != 0x80:
            return -1, p + 1
        code = code << 6 | follower & 0x3F
    shortest = 0x80 if length == 2 else (0x800 if length == 3 else 0x10000)
    if code < shortest or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return -1, p + 1
    return code, p + length


@njit(cache=True, nogil=True)
def bad_characters(letters, spans, with_docids):
    """The first row whose query id (or document id, if they matter) is no UTF-8; else -1."""
    at = 0
    for row in range(len(spans)):
        for which in range(2):
            stop = at + spans[row, which]
            while at < stop:
                code, at = read_character(letters, at, stop)
                if code < 0 and (with_docids or which == 0):
                    return row
    return -1


@njit(cache=True, nogil=True)
def spell(letters, spans, which, out):
    """out[row] = code points of the query ids (which=0) or document ids (which=1); `out` comes filled with 0."""
    at = 0
    for row in range(len(spans)):
        if which == 1:
            at += spans[row, 0]
        stop, i = at + spans[row, which], 0
        while at < stop:
            code, at = read_character(letters, at, stop)
            out[row, i] = code
            i += 1
        if which == 0:
            at += spans[row, 1]


@njit(cache=True, nogil=True)
def whole_numbers(letters, spans, out):
    """Document ids as whole numbers into `out`; whether all of them are."""
    at = 0
    for row in range(len(spans)):
        first = at + spans[row, 0]
        at = first + spans[row, 1]
        fine, out[row] = whole_number(letters, first, at)
        if not fine:
            return False
    return True
