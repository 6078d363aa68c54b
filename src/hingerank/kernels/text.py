"""Pieces of the text formats as kernels over bytes: blanks, whole numbers, comments.

Every function that looks ahead relies on a newline after the last byte."""

import numpy as np

from hingerank.kernels.compiled import inner, kernel
from hingerank.kernels.decimals import ASK_PYTHON, NO_NUMBER, NUMBER, TENS, read_number

SPACE, TAB, NEWLINE, RETURN, HASH, COLON, POINT, MINUS, EQUALS = 32, 9, 10, 13, 35, 58, 46, 45, 61
DOCID, INC = np.frombuffer(b"docid", np.uint8), np.frombuffer(b"inc", np.uint8)


@inner
def blank(c):
    return c in (SPACE, TAB)


@inner
def digit_at(text, p):
    """text[p] as a digit, outside 0 to 9 if it is not one. An unsigned index spares numba a test for negative ones."""
    return np.int64(text[np.uintp(p)]) - 48


@inner
def skip_blanks(text, p):
    while blank(text[np.uintp(p)]):
        p += 1
    return p


@inner
def ends_token(text, p):
    """Whether a token may end before text[p]: a blank, a comment or the line end."""
    c = text[np.uintp(p)]
    return c in (SPACE, NEWLINE, TAB, HASH) or (c == RETURN and text[p + 1] == NEWLINE)


@inner
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


@inner
def missing_mark(text, p):
    """The length of ``NULL``, ``NaN`` or ``NA`` (in any case) at text[p], else 0."""
    length = 0
    if text[p] | 32 == 110:
        if text[p + 1] | 32 == 97:
            length = 3 if text[p + 2] | 32 == 110 else 2
        elif text[p + 1] | 32 == 117 and text[p + 2] | 32 == 108 and text[p + 3] | 32 == 108:
            length = 4
    return length if length > 0 and ends_token(text, p + length) else 0


@inner
def after_assignment(text, p, end, word):
    """The position after ``word = `` at text[p], else -1."""
    if end - p < len(word):
        return -1
    for i in range(len(word)):
        if text[p + i] != word[i]:
            return -1
    p = skip_blanks(text, p + len(word))
    return skip_blanks(text, p + 1) if p < end and text[p] == EQUALS else -1


@inner
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


@kernel
def spell(letters, spans, which, out):
    """out[row] = ASCII letters of the query ids (which=0) or document ids (which=1); `out` comes filled with 0."""
    at = 0
    for row in range(len(spans)):
        first = at + spans[row, 0] * which
        for i in range(spans[row, which]):
            out[row, i] = letters[first + i]
        at += spans[row, 0] + spans[row, 1]


@kernel
def whole_numbers(letters, spans, which, out):
    """Query ids (which=0) or document ids (which=1) as whole numbers into `out`; whether all of them are such."""
    at = 0
    for row in range(len(spans)):
        first = at + spans[row, 0] * which
        fine, out[row] = whole_number(letters, first, first + spans[row, which])
        if not fine:
            return False
        at += spans[row, 0] + spans[row, 1]
    return True


# Lines ``label [qid:id] index:value … [# comment]`` to arrays: one pass over the bytes of whole lines.
#
# `parse_rows` never looks past the newline that ends its range and never writes past the arrays that the caller made.
# It stops at the first error, or at the first thing the plan did not expect; its state then says what and where.
# The functions it calls take the position p where they start and return where they stopped, or -1 after `stop`.


# status: no error; the text does not fit the plan; the text is wrong
# (typed, so that `stop` is compiled once, not per literal)
FINE, FOUND_INDEX_ZERO, FOUND_COLUMN = (np.int64(i) for i in range(3))
BAD_LABEL, BAD_QID, NO_QID, UNEXPECTED_QID, BAD_ENTRY = (np.int64(i) for i in range(10, 15))
BAD_VALUE, MISSING_VALUE, REPEATED_INDEX, LARGE_INDEX, NUL_BYTE = (np.int64(i) for i in range(15, 20))

# plan: what the caller decided
BASE, WIDTH, MOST_FEATURES, DENSE, KEEP_COMMENT, MISSING, NARROW = 0, 1, 2, 3, 4, 5, 6
MISSING_IS_ERROR, MISSING_IS_ZERO, MISSING_IS_NAN = 0, 1, 2

# state: how far the parse is; the caller sets QID_STYLE and LARGEST
STATUS, PLACE, ROW, LETTER, ENTRIES, LARGEST, ASKED, QID_STYLE, UNORDERED = 0, 1, 2, 3, 4, 5, 6, 7, 8
PLAN_SIZE, STATE_SIZE = 7, 9
QID_UNKNOWN, QID_ABSENT, QID_PRESENT = 0, 1, 2

FLOAT32_OVERFLOW = 2.0**128 - 2.0**103  # the smallest double that rounds to an infinite float32


@inner
def stop(state, status, place):
    """Store `status` and its position in the state."""
    state[STATUS] = status
    state[PLACE] = place
    return -1


@inner
def read_label(text, p, y, asked, state):
    """Read the label at text[p] into y[row]."""
    code, end, value = read_number(text, p)
    if code == NO_NUMBER or not ends_token(text, end):
        return stop(state, BAD_LABEL, p)
    if code == ASK_PYTHON:
        ask(asked, state, -1 - state[ROW], p, end)
    y[state[ROW]] = value
    return end


@inner
def ask(asked, state, slot, first, end):
    """Leave the token text[first:end] to Python's float."""
    i = state[ASKED]
    asked[i, 0], asked[i, 1], asked[i, 2] = slot, first, end
    state[ASKED] = i + 1


@inner
def copy_letters(text, first, end, letters, state):
    """Append text[first:end] to `letters`; returns its length."""
    at = state[LETTER]
    for i in range(first, end):
        letters[np.uintp(at + i - first)] = text[np.uintp(i)]
    state[LETTER] = at + end - first
    return end - first


@inner
def read_qid(text, p, spans, letters, state):
    """Read the query id at text[p], if this file has them, into `letters`."""
    found = text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == COLON
    if state[QID_STYLE] == QID_UNKNOWN:
        state[QID_STYLE] = QID_PRESENT if found else QID_ABSENT
    if found != (state[QID_STYLE] == QID_PRESENT):
        return stop(state, UNEXPECTED_QID if found else NO_QID, p)
    spans[state[ROW], 0] = 0
    if not found:
        return p
    first = end = p + 4
    while not ends_token(text, end) and text[end] > SPACE:
        end += 1
    if end == first or not ends_token(text, end):
        return stop(state, BAD_QID, p)
    spans[state[ROW], 0] = copy_letters(text, first, end, letters, state)
    return end


@inner
def read_value(text, p, missing, narrow):
    """(NUMBER | NO_NUMBER | ASK_PYTHON, end, value) of the feature value at text[p]; short decimals at full speed.

    `narrow`: values go into float32, so one that overflows it is left to Python, which refuses it.
    """
    begin = p
    negative = text[p] == MINUS
    if negative:
        p += 1
    m, digits, decimals = np.int64(0), p, 0
    d = digit_at(text, p)
    while 0 <= d <= 9:
        m = m * 10 + d
        p += 1
        d = digit_at(text, p)
    digits = p - digits
    if d == POINT - 48:
        p += 1
        decimals = p
        d = digit_at(text, p)
        while 0 <= d <= 9:
            m = m * 10 + d
            p += 1
            d = digit_at(text, p)
        decimals = p - decimals
        digits += decimals
    if (d == SPACE - 48 or d == NEWLINE - 48) and 1 <= digits <= 18 and m < 9007199254740992:
        value = m / TENS[np.uintp(decimals)]
        return NUMBER, p, (-value if negative else value)
    code, p, value = read_number(text, begin)
    if code == NO_NUMBER and missing != MISSING_IS_ERROR:
        length = missing_mark(text, begin)
        if length > 0:
            return NUMBER, begin + length, (0.0 if missing == MISSING_IS_ZERO else np.nan)
    if not ends_token(text, p):
        code = NO_NUMBER
    elif narrow and abs(value) >= FLOAT32_OVERFLOW:
        code = ASK_PYTHON
    return code, p, value


@inner
def read_entries(text, p, plan, sizes, values, columns, asked, state):
    """Read the ``index:value`` entries from text[p] on.

    Dense: values[row·width + column], absent columns 0; columns[column] = 1 + the last row that has this column.
    Sparse: values[k], columns[k] as they come; state[UNORDERED] is set if the columns of a row do not ascend.
    """
    base, width, most = plan[BASE], plan[WIDTH], plan[MOST_FEATURES]
    dense, missing, narrow = plan[DENSE] != 0, plan[MISSING], plan[NARROW] != 0
    origin = state[ROW] * width if dense else 0
    first = 0 if dense else state[ENTRIES]
    k, due, largest = first, 0, state[LARGEST]
    while True:
        p = skip_blanks(text, p)
        index = digit_at(text, p)
        if index < 0 or index > 9:
            break
        begin = p
        p += 1
        d = digit_at(text, p)
        while 0 <= d <= 9:
            index = index * 10 + d
            p += 1
            d = digit_at(text, p)
        if d != COLON - 48:
            return stop(state, BAD_ENTRY, begin)
        column = index - base
        if p - begin > 18 or column >= most:
            return stop(state, LARGE_INDEX, begin)
        if column < 0:
            return stop(state, FOUND_INDEX_ZERO, begin)
        if column >= width:
            return stop(state, FOUND_COLUMN, begin)
        after = p + 1
        code, p, value = read_value(text, after, missing, narrow)
        if code != NUMBER:
            if code == NO_NUMBER:
                return stop(state, MISSING_VALUE if missing_mark(text, after) > 0 else BAD_VALUE, after)
            ask(asked, state, origin + column if dense else k, after, p)
        if not dense:
            if column < due:
                state[UNORDERED] = 1
            due = column + 1
            values[np.uintp(k)] = value
            columns[np.uintp(k)] = column
        else:
            if column < due and columns[column] == state[ROW] + 1:
                return stop(state, REPEATED_INDEX, begin)
            while due < column:
                values[np.uintp(origin + due)] = 0.0
                due += 1
            values[np.uintp(origin + column)] = value
            columns[np.uintp(column)] = state[ROW] + 1
            due = max(due, column + 1)
        largest = max(largest, column)
        k += 1
    if not ends_token(text, p):
        return stop(state, BAD_ENTRY, p)
    if dense:
        while due < width:
            values[origin + due] = 0.0
            due += 1
    state[LARGEST] = largest
    state[ENTRIES] += k - first
    if not dense:
        sizes[state[ROW]] = k - first
    return p


@inner
def find_line_end(text, p, state):
    """The position of the next newline, unless a zero byte comes before it."""
    c = text[np.uintp(p)]
    while c != NEWLINE:
        if c == 0:
            return stop(state, NUL_BYTE, p)
        p += 1
        c = text[np.uintp(p)]
    return p


@inner
def read_comment(text, p, plan, spans, letters, state):
    """Read the rest of the line, its document id into `letters` if requested; returns the position of the newline."""
    row = state[ROW]
    spans[row, 1] = 0
    end = find_line_end(text, p, state)
    if end >= 0 and text[p] == HASH and plan[KEEP_COMMENT]:
        first, last = find_docid(text, p + 1, end)
        spans[row, 1] = copy_letters(text, first, last, letters, state)
    return end


@kernel
def parse_rows(text, start, end, plan, y, sizes, spans, values, columns, letters, asked, state):
    """Parse the lines in text[start:end] into the rows from state[ROW] on: O(bytes).

    sizes[r] = entries of the row (sparse); spans[r] = lengths of its query id and document id in `letters`, which holds
    the two one after the other; asked[i] = (slot in `values`, or -1 - row for a label, start, end) of the tokens left
    to Python's float.
    """
    p = start
    while p < end:
        p = skip_blanks(text, p)
        if text[p] == HASH:
            p = find_line_end(text, p, state)
        elif text[p] == RETURN and text[p + 1] == NEWLINE:
            p += 1
        elif text[p] != NEWLINE:
            p = read_label(text, p, y, asked, state)
            if p >= 0:
                p = read_qid(text, skip_blanks(text, p), spans, letters, state)
            if p >= 0:
                p = read_entries(text, p, plan, sizes, values, columns, asked, state)
            if p >= 0:
                p = read_comment(text, p, plan, spans, letters, state)
            if p >= 0:
                state[ROW] += 1
        if p < 0:
            return
        p += 1
