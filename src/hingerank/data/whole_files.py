"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def draft_of(path: str | os.PathLike) -> Iterator[Path]:
    """A name beside `path` to write to; the file written there takes the place of `path` only when all went well."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        yield draft
        with open(draft, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
