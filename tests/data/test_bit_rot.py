"""Single bits flipped in what the library writes: each is refused by an error that names the file, or harmless."""

import json
import random

import numpy as np
import pytest
import scipy.sparse as sp

import hingerank as hr
from hingerank.data.files import DataError
from hingerank.data.ranking_data import RankingData
from hingerank.data.tables import read_table
from hingerank.export.model_file import ModelFileError, read_header

pytestmark = pytest.mark.slow

FLIPS = 300


def some_data(sparse=False):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 4)) * (rng.random((12, 4)) < 0.6)
    docid = np.array([f"d{i}é" for i in range(12)], object)
    return RankingData(sp.csr_matrix(X) if sparse else X, rng.integers(0, 3, 12) * 1.0, np.repeat([7, 9, 11], 4), docid)


def flipped(path, count=FLIPS, seed=0):
    """The file with one bit flipped, again and again; it is whole in the end."""
    whole = path.read_bytes()
    chance = random.Random(seed)
    places = range(8 * len(whole))
    try:
        for place in places if len(places) <= count else sorted(chance.sample(places, count)):
            damaged = bytearray(whole)
            damaged[place // 8] ^= 1 << place % 8
            path.write_bytes(damaged)
            yield place
    finally:
        path.write_bytes(whole)


def unseen(path, read, same, errors=DataError, named=None, count=FLIPS):
    """Places of bits whose flipping neither changes nothing nor is refused."""
    found = []
    for place in flipped(path, count):
        try:
            content = read()
        except errors as error:
            assert str(named or path) in str(error)
            continue
        if not same(content):
            found.append(place)
    return found


@pytest.mark.parametrize(
    "ending", ["txt.gz", "txt.xz", "txt.bz2", "txt.zst", "csv.zst", "tsv.gz", "parquet", "feather"]
)
def test_compressed_text_and_tables(tmp_path, ending):
    data, path = some_data(), tmp_path / f"rows.{ending}"
    hr.write(data, path)
    expected = hr.read(path)
    assert (expected.X == data.X).all() and (expected.docid == data.docid).all()
    assert unseen(path, lambda: hr.read(path), expected.__eq__) == []


def test_a_table_of_lists_and_some_of_its_columns(tmp_path):
    data, path = some_data(), tmp_path / "rows.parquet"
    hr.write(data, path, layout="list")
    assert unseen(path, lambda: hr.read(path), data.__eq__) == []
    hr.write(data, path)
    columns = ["label", "f1"] if "f1" in read_table(path).column_names else read_table(path).column_names[-2:]
    expected = read_table(path, columns)
    assert unseen(path, lambda: read_table(path, columns), expected.equals) == []
    with open(path, "r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    hr.read(path, verify=False)


@pytest.mark.parametrize("sparse", [False, True])
def test_binary_folders(tmp_path, sparse):
    data, folder = some_data(sparse), tmp_path / "rows"
    hr.write(data, folder)
    for path in sorted(folder.iterdir()):
        assert unseen(path, lambda: hr.read(folder), data.__eq__, named=folder, count=100) == []


def test_files_of_others_without_checksums(tmp_path):
    import pyarrow.parquet

    data, path = some_data(), tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(data.to_frame("pyarrow"), path)
    assert (hr.read(path).X == data.X).all()


def test_models(tmp_path):
    ranker = hr.RankSVM(scale="standard").fit(some_data())
    path = tmp_path / "model.safetensors"
    ranker.save(path)
    expected, header = ranker.predict(some_data()).tolist(), json.dumps(read_header(path))

    def same(loaded):
        return loaded.predict(some_data()).tolist() == expected and json.dumps(read_header(path)) == header

    assert unseen(path, lambda: hr.load(path), same, ModelFileError, count=120) == []


def test_runs(tmp_path):
    from hingerank.lab import Method, compare, query_folds
    from hingerank.lab.results import load_results

    methods = [Method("a", hr.RankSVM, {"C": [0.1, 1.0]})]
    compare(methods, query_folds(some_data(), 3), measures=["ndcg@10"], folder=tmp_path, workers=1)
    whole = load_results(tmp_path)

    def same(results):
        known = results.records == whole.records[: len(results.records)] and results.header == whole.header
        return known and len(results.records) >= len(whole.records) - 1  # a damaged last line is computed again

    for name in ("run.json", "results.jsonl"):
        path = tmp_path / name
        assert unseen(path, lambda: load_results(tmp_path), same, ValueError, path) == []
    arrays = whole.arrays("a", whole.folds[0])
    path = tmp_path / whole.test("a", whole.folds[0])["arrays"]

    def same_arrays(found):
        return found.keys() == arrays.keys() and all((found[name] == arrays[name]).all() for name in arrays)

    assert unseen(path, lambda: whole.arrays("a", whole.folds[0]), same_arrays, ValueError) == []


@pytest.mark.parametrize("name", ["rows.zst", "rows.parquet", "rows"])
def test_the_command_line_verifies(tmp_path, name, capsys):
    from hingerank.cli.app import run

    hr.write(some_data(), tmp_path / name)
    assert run(["info", "--verify", str(tmp_path / name)]) == 0
    assert "12 rows" in (said := capsys.readouterr().out) and "all checksums are right" in said
    path = tmp_path / name / "X.npy" if name == "rows" else tmp_path / name
    whole = bytearray(path.read_bytes())
    whole[130::50] = bytes(byte ^ 4 for byte in whole[130::50])
    path.write_bytes(whole)
    assert run(["info", "--verify", str(tmp_path / name)]) == 1
    assert str(tmp_path / name) in capsys.readouterr().err


def test_the_command_line_verifies_models_and_plain_text(tmp_path, capsys):
    from hingerank.cli.app import run

    hr.write(some_data(), tmp_path / "rows.txt")
    hr.RankSVM().fit(some_data()).save(tmp_path / "m.safetensors")
    assert run(["info", "--verify", str(tmp_path / "rows.txt")]) == 0
    assert "carries no checksum" in capsys.readouterr().out
    assert run(["info", "--verify", str(tmp_path / "m.safetensors")]) == 0
    assert "digest is right" in capsys.readouterr().out
    (tmp_path / "m.safetensors").write_bytes((tmp_path / "m.safetensors").read_bytes()[:-1])
    assert run(["info", "--verify", str(tmp_path / "m.safetensors")]) == 1
