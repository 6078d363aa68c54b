"""Files cut into windows of whole lines, the next window read while the last one is parsed."""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from hingerank.data.errors import DataError
from hingerank.data.text_files import TextSource
from hingerank.kernels.threads import thread_count

FIRST_WINDOW, SMALLEST_WINDOW, LARGEST_WINDOW = 1 << 17, 1 << 19, 1 << 25
SMALLEST_CHUNK, LARGEST_CHUNK = 1 << 18, 1 << 20
LONGEST_LINE = 1 << 30
SPARE = 16  # bytes after the last newline, so that a kernel may look a few bytes ahead


@dataclass
class Window:
    """Whole lines of one file: buffer[:length], the last byte a newline; valid until the next window is asked for.

    `share` of the whole input ends here. `lines_before` in the same file is for whoever counts lines to fill in.
    """

    source: int
    path: str
    buffer: bytearray
    length: int
    share: float
    lines_before: int = 0

    def chunks(self) -> list[tuple[int, int]]:
        """Line borders that cut the window into pieces for the threads."""
        size = min(max(self.length // 16, SMALLEST_CHUNK), LARGEST_CHUNK)
        borders = [0]
        while borders[-1] < self.length:
            borders.append(self.buffer.find(b"\n", min(borders[-1] + size, self.length - 1)) + 1)
        return list(pairwise(borders))

    def line_number(self, place: int) -> int:
        return self.lines_before + self.buffer.count(b"\n", 0, place) + 1

    def line_start(self, place: int) -> int:
        return self.buffer.rfind(b"\n", 0, place) + 1


def windows(sources: Sequence[TextSource]) -> Iterator[Window]:
    """The windows of all `sources` in order; with more than one thread, one window ahead."""
    if thread_count() == 1:
        return _windows(sources)
    return _one_ahead(_windows(sources))


def _windows(sources: Sequence[TextSource]) -> Generator[Window, None, None]:
    total = max(1, sum(source.size for source in sources))
    size = min(max(total // 32, SMALLEST_WINDOW), LARGEST_WINDOW)
    want, before = FIRST_WINDOW, 0
    buffers = [bytearray(), bytearray()]
    for number, source in enumerate(sources):
        rest = memoryview(b"")
        with source.open() as stream:
            started = ended = False
            while not ended:
                buffer = buffers[0]
                length, wanted = len(rest), len(rest) + want
                if len(buffer) < wanted + SPARE:
                    buffer = buffers[0] = bytearray(wanted + SPARE)
                buffer[:length] = rest
                with memoryview(buffer) as view:
                    got = stream.fill(view[length:wanted])
                ended = got < wanted - length
                if not started:
                    _check_start(buffer, got, source.path)
                    started = True
                length += got
                end = buffer.rfind(b"\n", 0, length) + 1
                if ended and end < length:  # the last line has no newline
                    buffer[length] = 10
                    end = length = length + 1
                rest = memoryview(buffer)[end:length]
                if len(rest) > LONGEST_LINE:
                    raise DataError(f"{source.path}: a line of more than {LONGEST_LINE} bytes, expected text lines")
                if end == 0:
                    want = max(want, len(rest))  # a line longer than the window
                    continue
                share = min(1.0, (before + stream.position()) / total)
                buffers.reverse()
                yield Window(number, source.path, buffer, end, share)
                want = size
        before += source.size


def _check_start(buffer: bytearray, length: int, path: str) -> None:
    """Refuse a binary file at once; blank out a byte order mark."""
    place = buffer.find(b"\0", 0, min(length, 4096))
    if place >= 0:
        raise DataError(
            f"{path}: a binary file (byte {place} is zero); expected text lines 'label qid:id index:value …'"
        )
    if buffer.startswith(b"\xef\xbb\xbf"):
        buffer[:3] = b"   "


def _one_ahead(items: Generator[Window, None, None]) -> Iterator[Window]:
    with ThreadPoolExecutor(1, thread_name_prefix="hingerank-read") as reader:
        coming = reader.submit(next, items, None)
        try:
            while (item := coming.result()) is not None:
                coming = reader.submit(next, items, None)
                yield item
        finally:
            reader.submit(items.close)  # runs after the read under way
