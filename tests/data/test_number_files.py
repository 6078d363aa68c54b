"""Files of scores."""

import gzip

import pytest

import hingerank as hr
from hingerank.data.letor import read_scores


def test_scores(tmp_path):
    path = tmp_path / "scores"
    path.write_bytes(b"0.5\r\n-2e-3\n 7\t\n.25\n\n\n")
    assert read_scores(path).tolist() == [0.5, -0.002, 7, 0.25]
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % i for i in range(50_000))))
    assert (read_scores(path) == range(50_000)).all()


@pytest.mark.parametrize("word", ["x", "nan", "inf", "1 2", "1_0", "1e999", "0x1", "# c"])
def test_bad_line(tmp_path, word):
    path = tmp_path / "scores"
    path.write_text(f"1\n2\n{word}\n3\n")
    with pytest.raises(hr.DataError, match=rf"scores, line 3: found '{word}', expected a finite number"):
        read_scores(path)


def test_hole(tmp_path):
    path = tmp_path / "scores"
    path.write_text("1\n\n\n3\n")
    with pytest.raises(hr.DataError, match="line 2: found nothing"):
        read_scores(path)
