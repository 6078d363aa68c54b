"""Files of rows."""

import pytest


@pytest.fixture
def rows(tmp_path):
    """rows(text, name) writes a file; text may be bytes."""

    def write(text, name="rows.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
