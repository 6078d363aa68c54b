"""Text larger than memory: pieces that agree with each other and together are what `read` gives."""

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data import letor_table
from hingerank.data.binary import load_binary, save_binary
from hingerank.data.letor import read_pieces


def entries(i: int, width: int = 6) -> str:
    return " ".join(f"{j}:{i}.{j}" for j in range(1, width))


TEXTS = {
    "plain": "".join(f"{i % 3} qid:{i // 4} {entries(i)} # d{i}\n" for i in range(200)),
    "wide at the end": "".join(f"0 qid:{i} {entries(i, 4 + i // 30)}\n" for i in range(200)),
    "text id at the end": "".join(f"0 qid:{i} {entries(i)}\n" for i in range(200)) + "1 qid:x 1:5\n",
    "docid at the end": "".join(f"0 qid:{i} {entries(i)}\n" for i in range(200)) + "1 qid:7 1:5 # last\n",
    "index zero at the end": "".join(f"0 qid:{i} {entries(i)}\n" for i in range(200)) + "1 qid:7 0:5\n",
    "thin": "".join(f"0 qid:{i} {i + 1}:1 {2 * i + 3}:2\n" for i in range(200)),
    "no ids": "".join(f"0 {entries(i)}\n" for i in range(200)),
    "ids in comments": "".join(f"0 {entries(i)} # {i // 9}\n" for i in range(200)),
    "blank lines": "".join(f"# {i}\n\n0 qid:1 {entries(i)}\n" for i in range(200)) + "\n" * 500,
}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(letor_table, "FIRST_WINDOW", 150)
    monkeypatch.setattr(letor_table, "SMALLEST_WINDOW", 400)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.filterwarnings("ignore::hingerank.data.checks.OneQueryWarning")
def test_pieces_are_the_whole(tmp_path, kind):
    path = tmp_path / "rows.txt"
    path.write_text(TEXTS[kind])
    whole = hr.read(path)
    shares = []
    pieces = list(read_pieces(path, piece_bytes=800, progress=shares.append))
    assert len(pieces) > 2 and shares[-1] == 1
    assert {p.n_features for p in pieces} == {whole.n_features} and {type(p.X) for p in pieces} == {type(whole.X)}
    stack = sp.vstack if sp.issparse(whole.X) else np.concatenate
    X = stack([p.X for p in pieces])
    assert (X != whole.X).sum() == 0 and X.dtype == whole.X.dtype
    assert np.concatenate([p.y for p in pieces]).tolist() == whole.y.tolist()
    qid = np.concatenate([p.qid for p in pieces])
    assert qid.tolist() == whole.qid.tolist() and {p.qid.dtype.kind for p in pieces} == {whole.qid.dtype.kind}
    docids = [p.docid for p in pieces]
    if whole.docid is None:
        assert docids == [None] * len(pieces)
    else:
        assert np.concatenate(docids).tolist() == whole.docid.tolist()
    assert load_binary(save_binary(read_pieces(path, piece_bytes=800), tmp_path / "binary")) == whole


def test_counts_file(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(TEXTS["no ids"])
    (tmp_path / "rows.txt.query").write_text("150\n50\n")
    qid = np.concatenate([p.qid for p in read_pieces(path, piece_bytes=1000)])
    assert qid.tolist() == [0] * 150 + [1] * 50


def test_errors_come_before_the_first_piece(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(TEXTS["plain"] + "oops\n")
    with pytest.raises(hr.DataError, match="line 201, column 1: found 'oops'"):
        next(read_pieces(path, piece_bytes=1000))


@pytest.mark.parametrize("kind, old, new", [("plain", "qid:4", "qid:q"), ("ids in comments", "# 2", "# q")])
def test_text_that_changes_between_the_two_passes(tmp_path, kind, old, new):
    path = tmp_path / "rows.txt"
    path.write_text(TEXTS[kind])
    pieces = read_pieces(path, piece_bytes=1000)
    next(pieces)
    path.write_text(TEXTS[kind].replace(old, new))
    with pytest.raises(hr.DataError, match="changed while it was being read"):
        list(pieces)
