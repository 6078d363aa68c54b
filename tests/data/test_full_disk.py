"""A full disk is an error that names the file, and the old one stays. What killed processes left goes."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

import hingerank as hr
from hingerank.cli.rating_files import save_with_items
from hingerank.clicks.judgments import Judgments
from hingerank.data.files import SCRATCH, draft_of, scratch_folder, write_whole
from hingerank.data.generate import make_letor
from hingerank.diversity.trec import write_run
from hingerank.personal.catalogue import Catalogue

pytestmark = pytest.mark.slow

resource = pytest.importorskip("resource")

WRITERS = {
    **{f"rows.txt{end}": hr.write for end in ("", ".gz", ".xz", ".bz2", ".zst")},
    **{f"rows.{end}": hr.write for end in ("csv", "csv.zst", "parquet", "feather")},
    "rows": hr.write,
    "model.safetensors": lambda data, path: hr.RankSVM(max_iter=1).fit(data).save(path),
    "run.txt": lambda data, path: write_run(path, {"1": [f"document{i}" for i in range(5000)]}),
}  # fmt: skip


@pytest.fixture
def little_room(monkeypatch):
    """No file may grow beyond 10 kB: writes fail as on a full disk."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would keep the first 10 kB of a module's code
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITERS)
def test_the_file_is_named_and_the_old_one_stays(tmp_path, name, little_room):
    data, small = make_letor(40, 40, 30, seed=0), make_letor(2, 2, 2, seed=0)
    path = tmp_path / name
    if not name.startswith("run"):
        WRITERS[name](small, path)
    before = sorted(tmp_path.rglob("*"))
    if name == "model.safetensors":
        data = hr.RankingData.from_arrays(np.random.default_rng(0).random((9, 4000)), [0, 1, 2] * 3)
    with pytest.raises(OSError, match="what was there before is unchanged") as error:
        WRITERS[name](data, path)
    assert error.value.errno == errno.EFBIG and error.value.filename == str(path)
    assert sorted(tmp_path.rglob("*")) == before
    if name.startswith("rows"):
        assert (hr.read(path).y == small.y).all()


def write_vectors(folder, size):
    ranker = hr.PersonalRankSVM(rank=1, C=1.0).fit(np.eye(2), [0, 0], [0, 1], [0, 1])
    return hr.export(ranker, folder / "vectors/", "vectors", items=np.ones((size, 2))).files


def write_export(folder, size):
    ranker = hr.RankSVM().fit(make_letor(4, 4, size, seed=0))
    return hr.export(ranker, folder / "model.py", "python").files


def write_qrels(folder, size):
    names = np.array([f"query {'x' * size}"], object)
    judged = Judgments(names, np.array(["d"], object), np.ones(1), np.ones(1, int), np.ones(1))
    judged.to_qrels(folder / "qrels.txt", folder / "topics.txt")
    return [folder / "qrels.txt", folder / "topics.txt"]


def write_model_and_items(folder, size):
    X = np.random.default_rng(0).random((size, 2))
    ranker = hr.PersonalRankSVM(rank=1, C=1.0).fit(X[:2], [0, 0], [0, 1], [0, 1])
    catalogue = Catalogue(np.arange(size), X, ["a", "b"])
    save_with_items(ranker, f"{folder}/model/", folder / "ratings.csv", catalogue, None)
    return [folder / "model" / "model.safetensors", folder / "model" / "items.npz"]


@pytest.mark.parametrize(
    ("write", "size"),
    [(write_vectors, 2000), (write_export, 60), (write_qrels, 20_000), (write_model_and_items, 2000)],
)
def test_several_files_replace_the_old_ones_together(tmp_path, write, size, request, monkeypatch):
    monkeypatch.setattr("hingerank.export.exporting.try_export", lambda *_: None)  # it writes to another folder
    files = write(tmp_path, 2)
    before = [file.read_bytes() for file in files]
    request.getfixturevalue("little_room")
    with pytest.raises(OSError, match="what was there before is unchanged") as error:
        write(tmp_path, size)
    assert error.value.filename in map(str, files[1:])
    assert [file.read_bytes() for file in files] == before


def test_results_go_on_after_a_full_disk(tmp_path, little_room):
    from hingerank.lab.run_folder import ResultsFile

    with ResultsFile(tmp_path / "results.jsonl") as file:
        file.append([{"a": 1}])
        with pytest.raises(OSError, match="unchanged") as error:
            file.append([{"b": "x" * 20_000}])
        assert error.value.filename == tmp_path / "results.jsonl" or error.value.filename.endswith("results.jsonl")
        file.append([{"c": 3}])
    with ResultsFile(tmp_path / "results.jsonl") as file:
        assert file.records == [{"a": 1}, {"c": 3}]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_the_command_line_says_where(tmp_path, capsys, unbuffered):
    from hingerank.cli.app import run

    data, model = make_letor(5, 5, 3, seed=0), tmp_path / "m.safetensors"
    hr.write(data, tmp_path / "rows.txt")
    hr.RankSVM().fit(data).save(model)
    assert run(["rank", str(model), str(tmp_path / "rows.txt"), "-o", "/dev/full"]) == 1
    assert "/dev/full: No space left on device" in capsys.readouterr().err
    command = [sys.executable, "-m", "hingerank", "info", str(tmp_path / "rows.txt")]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", env=environment)
    assert done.returncode == 1 and "standard output: No space left on device" in done.stderr


def test_missing_folders_above_are_made_and_go_after_an_error(tmp_path):
    place = tmp_path / "new" / "deep" / "file"
    with pytest.raises(KeyError), draft_of(place):
        raise KeyError
    assert os.listdir(tmp_path) == []
    with pytest.raises(KeyError), draft_of(place):
        (tmp_path / "new" / "other").write_text("of another process")
        raise KeyError
    assert os.listdir(tmp_path / "new") == ["other"]
    write_whole(place, b"all of it")
    assert place.read_bytes() == b"all of it"


# What killed processes left.


def test_litter_goes_and_what_is_in_use_stays(tmp_path):
    (tmp_path / f"{SCRATCH}dead").mkdir()
    (tmp_path / f"{SCRATCH}dead" / "half").write_text("half")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("mine")
    (tmp_path / f"{SCRATCH}link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / f"{SCRATCH}file").write_text("no folder")
    with scratch_folder(tmp_path) as first:
        (first / "busy").write_text("busy")
        write_whole(tmp_path / "new", b"new")
        with scratch_folder(tmp_path):
            assert (first / "busy").read_text() == "busy"
    assert sorted(os.listdir(tmp_path)) == [f"{SCRATCH}file", f"{SCRATCH}link", "elsewhere", "new"]
    assert (tmp_path / "elsewhere" / "mine").read_text() == "mine"


def test_a_folder_that_was_being_replaced_comes_back(tmp_path):
    """The one moment in which a killed process leaves neither the old folder nor the new one in its place."""
    hr.write(make_letor(2, 2, 2, seed=0), tmp_path / "rows")
    scratch = tmp_path / f"{SCRATCH}dead"
    (scratch / "replaced").mkdir(parents=True)
    os.rename(tmp_path / "rows", scratch / "replaced" / "rows")
    write_whole(tmp_path / "other", b"")
    assert hr.read(tmp_path / "rows") == make_letor(2, 2, 2, seed=0)
    assert sorted(os.listdir(tmp_path)) == ["other", "rows"]


def test_two_processes_write_to_one_folder(tmp_path):
    program = """
import sys
from hingerank.data.files import write_whole
for number in range(200):
    write_whole(f"{sys.argv[1]}/{sys.argv[2]}", b"x" * number)
"""
    both = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
