"""Unpacking archives that nobody has vetted: escapes, links, bombs, damage."""

import io
import os
import stat
import tarfile
import zipfile

import numpy as np
import pytest

from hingerank.data import fetching
from hingerank.data.fetching import FetchError, unpack


def make_zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zip_with(tmp_path, name, content=b"x", mode=None):
    path = tmp_path / "bad.zip"
    info = zipfile.ZipInfo(name)
    if mode is not None:
        info.external_attr = mode << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, content)
    return path


def tar_with(tmp_path, name, kind=tarfile.REGTYPE, link=""):
    path = tmp_path / "bad.tar.gz"
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(info)
    return path


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:\\evil", "C:evil"])
@pytest.mark.parametrize("make", [zip_with, tar_with])
def test_names_that_leave_the_folder_are_refused(tmp_path, name, make):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    with pytest.raises(FetchError, match="could be written outside the folder"):
        unpack(make(tmp_path, name), inside)
    assert list(inside.iterdir()) == []
    assert not (tmp_path / "a" / "evil").exists()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: zip_with(p, "link", b"/etc", stat.S_IFLNK | 0o777),
        lambda p: zip_with(p, "pipe", b"", stat.S_IFIFO | 0o777),
        lambda p: tar_with(p, "link", tarfile.SYMTYPE, "/etc"),
        lambda p: tar_with(p, "link", tarfile.LNKTYPE, "../x"),
        lambda p: tar_with(p, "device", tarfile.CHRTYPE),
        lambda p: tar_with(p, "pipe", tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_are_refused(tmp_path, make):
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(FetchError, match="link or a device"):
        unpack(make(tmp_path), folder)
    assert list(folder.iterdir()) == []


def test_bombs_are_refused(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    bomb = tmp_path / "bomb.zip"
    bomb.write_bytes(make_zip({"zeros": bytes(10_000_000)}))
    with pytest.raises(FetchError, match="far more than it should"):
        unpack(bomb, folder, limit=1_000_000)
    assert list(folder.iterdir()) == []


def test_a_size_that_is_not_true_ends_the_unpacking(tmp_path):
    """The sizes are added up from the headers: no more than a header says may be written, whatever follows it."""
    lying, folder = tmp_path / "lying.zip", tmp_path / "out"
    folder.mkdir()
    size = (10_000_000).to_bytes(4, "little")
    content = make_zip({"zeros": bytes(10_000_000)})
    assert content.count(size) == 2  # before the member, and in the directory
    lying.write_bytes(content.replace(size, (1000).to_bytes(4, "little")))
    with pytest.raises(FetchError, match="cannot unpack lying"):
        unpack(lying, folder, limit=1_000_000)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1000


def test_too_many_members_and_encrypted_ones_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir()
    path = tmp_path / "set.zip"
    path.write_bytes(make_zip({"a": b"1", "b": b"2", "c": b"3"}))
    with monkeypatch.context() as patched:
        patched.setattr(fetching, "_MOST_FILES", 2)
        with pytest.raises(FetchError, match="more than 2 members"):
            unpack(path, folder)
    locked = bytearray(make_zip({"secret": b"1"}))
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(locked))
    with pytest.raises(FetchError, match="which is encrypted: refused; if you trust it, unpack it yourself"):
        unpack(path, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "suffix, mode", [(".tar", "w"), (".tar.gz", "w:gz"), (".tar.bz2", "w:bz2"), (".tar.xz", "w:xz")]
)
def test_tar_of_every_kind_and_damage(tmp_path, suffix, mode):
    content = np.random.default_rng(0).bytes(50_000)
    path, folder = tmp_path / ("set" + suffix), tmp_path / "out"
    folder.mkdir()
    with tarfile.open(path, mode) as archive:
        info = tarfile.TarInfo("Fold1/train.txt")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    unpack(path, folder)
    assert (folder / "Fold1" / "train.txt").read_bytes() == content
    half, other = tmp_path / ("half" + suffix), tmp_path / "other"
    other.mkdir()
    half.write_bytes(path.read_bytes()[:30_000])
    with pytest.raises(FetchError, match=r"cannot unpack half|neither a zip nor a tar"):
        unpack(half, other)


def test_damaged_zip_and_unknown_archives(tmp_path):
    whole = bytearray(make_zip({"noise": np.random.default_rng(0).bytes(50_000)}))
    whole[1000] ^= 0xFF
    damaged, other = tmp_path / "damaged.zip", tmp_path / "set.rar"
    damaged.write_bytes(bytes(whole))
    other.write_bytes(b"Rar!\x1a\x07\x00" + os.urandom(100))
    (tmp_path / "out").mkdir()
    with pytest.raises(FetchError, match="cannot unpack damaged"):
        unpack(damaged, tmp_path / "out")
    with pytest.raises(FetchError, match="neither a zip nor a tar file; unpack it yourself"):
        unpack(other, tmp_path / "out")
