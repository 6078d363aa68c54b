"""What is wrong at a place of a data file, in one line: file, line, column, the text found, what was expected."""

from hingerank.data.errors import DataError
from hingerank.data.line_windows import Window
from hingerank.kernels import parse

_EXPECTED: dict[int, str] = {
    int(parse.BAD_LABEL): "a number as the label at the start of the line",
    int(parse.BAD_QID): "a query id without blanks or control characters after 'qid:'",
    int(parse.NO_QID): "'qid:' after the label, as on the first line",
    int(parse.UNEXPECTED_QID): "no 'qid:', as on the first line (give every line a query id, or none)",
    int(parse.BAD_ENTRY): "index:value",
    int(parse.BAD_VALUE): "a number after ':'",
    int(parse.MISSING_VALUE): 'a number after \':\' (pass missing="zero" or missing="nan" to accept missing values)',
    int(parse.REPEATED_INDEX): "each feature index once per line",
    int(parse.FOUND_INDEX_ZERO): "feature indices from 1 on, since index_base=1 was given",
    int(parse.NUL_BYTE): "text (this looks like a binary file)",
}


def wrong_text(window: Window, status: int, place: int, limit: int, limit_name: str) -> DataError:
    """The error for a parse that stopped with `status` at `place`; `limit` is the number of features allowed."""
    found = token_at(window, place)
    expected = _EXPECTED.get(status, "")
    if status == parse.LARGE_INDEX:
        expected = f"at most {limit} features ({limit_name}={limit}); pass a larger {limit_name} if the file is right"
    elif status == parse.BAD_ENTRY and found.startswith("-") and found[1:2].isdigit():
        expected = "no negative feature index"
    elif status == parse.BAD_ENTRY and found.startswith("qid:"):
        expected = "'qid:' only once, right after the label"
    elif status == parse.BAD_VALUE and found.lower().lstrip("+-") in ("inf", "infinity", "nan"):
        expected = "a finite number"
    elif status == parse.REPEATED_INDEX:
        place = _second_index(window, place)
        found = token_at(window, place)
    return located(window, place, found, expected)


def located(window: Window, place: int, found: str, expected: str) -> DataError:
    """A DataError that names file, line and column of `place`."""
    start = window.line_start(place)
    column = len(window.buffer[start:place].decode("utf-8", "replace")) + 1
    what = repr(found) if found else "the line end"
    return DataError(
        f"{window.path}, line {window.line_number(place)}, column {column}: found {what}, expected {expected}"
    )


def token_at(window: Window, place: int) -> str:
    """The text from `place` to the next blank, shortened."""
    line = bytes(window.buffer[place : place + 200]).split(b"\n")[0].rstrip(b"\r")
    words = line.split(None, 1)
    word = words[0] if words and not line[:1].isspace() else line[:1]
    text = word.decode("utf-8", "replace")
    return text if len(text) <= 40 else text[:37] + "..."


def no_utf8(window: Window, row: int) -> DataError:
    """The error for data row number `row` of the window, which has bytes that are no UTF-8."""
    place = -1
    while row >= 0:
        start, place = place + 1, window.buffer.index(b"\n", place + 1)
        line = bytes(window.buffer[start:place])
        row -= bool(line.strip(b" \t\r")) and not line.lstrip(b" \t").startswith(b"#")
    try:
        line.decode()
    except UnicodeDecodeError as error:
        start += error.start
    expected = "UTF-8 in query ids and comments (convert the file, or pass docids=False to skip comments)"
    return located(window, start, token_at(window, start), expected)


def _second_index(window: Window, place: int) -> int:
    """The place of the first repeated index on the line of `place`."""
    start = window.line_start(place)
    line = bytes(window.buffer[start : window.buffer.find(b"\n", start)]).split(b"#")[0]
    seen, at = set(), 0
    for word in line.split():
        at = line.index(word, at)
        head = word.split(b":")[0]
        if head.isdigit() and b":" in word:
            if int(head) in seen:
                return start + at
            seen.add(int(head))
        at += len(word)
    return place
