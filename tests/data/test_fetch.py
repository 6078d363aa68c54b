"""Fetching against a local server that drops, truncates, corrupts, ignores Range and answers with errors."""

import contextlib
import dataclasses
import hashlib
import http.server
import io
import json
import re
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hingerank.data import fetching
from hingerank.data.fetching import FetchError, cache_folder, download, fetch

QUICK = {"attempts": 3, "wait": 0.0, "timeout": 5.0}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.body`; `server.plan` holds one instruction per request, "ok" once it is used up."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        server = self.server
        step = server.plan.pop(0) if server.plan else "ok"
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        if isinstance(step, int):
            self.send_error(step)
            return
        if step == "redirect":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
            return
        body, start = server.body, 0
        if step == "corrupt":
            body = bytes(len(body))
        if asked and step != "ignore range":
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(206 if start else 200)
        if start:
            start += step == "wrong range"
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if step != "no length":
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if isinstance(step, tuple):  # ("drop", n): n bytes, then hang up
            rest = rest[: step[1]]
        elif step == "longer":
            rest += b"more"
        with contextlib.suppress(OSError):
            self.wfile.write(rest)
        self.close_connection = True


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.body, running.plan, running.ranges = make_zip(), [], []
        running.address = f"http://127.0.0.1:{running.server_port}/set.zip"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def toy(server, monkeypatch):
    """Registers a set "toy" at the local server, with its checksum."""

    def register(**changes):
        entry = fetching.PublicSet(
            name="toy",
            title="a toy",
            licence="none",
            page="http://nowhere.invalid/",
            file="toy.zip",
            url=server.address,
            checksum="sha256:" + hashlib.sha256(server.body).hexdigest(),
            size=len(server.body),
        )
        monkeypatch.setitem(fetching.PUBLIC_SETS, "toy", dataclasses.replace(entry, **changes))

    register()
    return register


def make_zip(files=None):
    noise = np.random.default_rng(0).bytes(300_000)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (files or {"toy/train.txt": b"1 qid:1 1:2\n", "toy/noise": noise}).items():
            archive.writestr(name, content)
    return buffer.getvalue()


def leftovers(cache):
    """Everything in the cache but the finished set, its record and the lock."""
    return sorted(p.name for p in Path(cache).rglob("*") if p.is_file() and "toy/" not in p.as_posix())


def test_fetches_unpacks_once_and_stays_offline_afterwards(server, toy, tmp_path):
    seen = []
    folder = fetch("toy", tmp_path, progress=lambda done, total: seen.append((done, total)), **QUICK)
    assert folder == tmp_path / "toy"
    assert (folder / "train.txt").read_bytes() == b"1 qid:1 1:2\n"  # the single folder inside was lifted
    assert seen[-1] == (len(server.body), len(server.body))
    assert leftovers(tmp_path) == [".toy.lock", "toy.json"]
    assert json.loads((tmp_path / "toy.json").read_text())["url"] == server.address
    requests = len(server.ranges)
    assert fetch("toy", tmp_path) == folder
    assert len(server.ranges) == requests


def test_resumes_after_dropped_connections(server, toy, tmp_path):
    server.plan = [("drop", 100_000), ("drop", 50_000), ("drop", 0), "ok"]
    folder = fetch("toy", tmp_path, **QUICK)
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-", "bytes=150000-"]
    assert (folder / "noise").stat().st_size == 300_000


def test_resumes_in_a_later_call(server, toy, tmp_path):
    server.plan = [("drop", 70_000), 503, 503]
    with pytest.raises(FetchError, match=r"503 .*; run the same command again to resume from 70,000 bytes"):
        fetch("toy", tmp_path, **QUICK)
    assert not (tmp_path / "toy").exists()
    fetch("toy", tmp_path, **QUICK)
    assert server.ranges[-1] == "bytes=70000-"


def test_a_server_that_ignores_range_makes_it_start_over(server, toy, tmp_path):
    server.plan = [("drop", 70_000), "ignore range"]
    assert fetch("toy", tmp_path, **QUICK).is_dir()
    assert server.ranges == [None, "bytes=70000-"]


def test_a_wrong_range_is_not_appended(server, tmp_path):
    part = tmp_path / "file.part"
    server.plan = [("drop", 70_000), "wrong range"]
    download(server.address, part, **QUICK)
    assert part.read_bytes() == server.body
    assert server.ranges == [None, "bytes=70000-", None]


def test_a_file_that_changed_meanwhile_is_noticed_and_fetched_again(server, toy, tmp_path):
    whole = len(server.body)
    server.plan = [("drop", 70_000), 500, 500]
    with pytest.raises(FetchError):
        fetch("toy", tmp_path, **QUICK)
    other = bytearray(server.body)
    server.body = make_zip({"toy/new": np.random.default_rng(1).bytes(whole)})
    assert bytes(other[:70_000]) != server.body[:70_000]
    toy()
    assert (fetch("toy", tmp_path, **QUICK) / "new").exists()
    assert server.ranges[-2:] == ["bytes=70000-", None]


def test_a_file_without_a_checksum_that_changed_meanwhile_does_not_unpack(server, toy, tmp_path):
    toy(checksum=None, size=None)
    server.plan = [("drop", 70_000), 500, 500]
    with pytest.raises(FetchError):
        fetch("toy", tmp_path, **QUICK)
    server.body = make_zip({"toy/new": np.random.default_rng(1).bytes(len(server.body))})
    with pytest.raises(FetchError, match=r"cannot unpack toy\.zip"):
        fetch("toy", tmp_path, **QUICK)
    assert (fetch("toy", tmp_path, **QUICK) / "new").exists()
    assert server.ranges[-2:] == ["bytes=70000-", None]


def test_a_complete_part_needs_no_more_bytes(server, tmp_path):
    part = tmp_path / "file.part"
    server.plan = [("drop", len(server.body) - 1), 500, 500]
    with pytest.raises(FetchError):
        download(server.address, part, **QUICK)
    part.write_bytes(server.body)
    assert download(server.address, part, **QUICK) is True
    assert server.ranges[-1] == f"bytes={len(server.body)}-"
    assert part.read_bytes() == server.body


def test_an_overlong_part_is_noticed_and_fetched_again(server, toy, tmp_path):
    part = tmp_path / ".downloads" / "toy.zip.part"
    part.parent.mkdir()
    part.write_bytes(server.body + b"junk")
    assert fetch("toy", tmp_path, **QUICK).is_dir()
    assert server.ranges == [f"bytes={len(server.body) + 4}-", None]


def test_corruption_is_refused_and_nothing_is_left(server, toy, tmp_path):
    server.plan = ["corrupt"]
    with pytest.raises(FetchError, match=r"damaged or another file: its checksum is sha256:\w+, expected sha256:\w+"):
        fetch("toy", tmp_path, **QUICK)
    assert not (tmp_path / "toy").exists()
    assert fetch("toy", tmp_path, **QUICK).is_dir()  # the damaged bytes were not kept
    assert server.ranges[-1] is None


def test_truncation_with_a_wrong_announced_size_is_refused(server, toy, tmp_path):
    toy(size=len(server.body) + 5)
    with pytest.raises(FetchError, match="the file there is a different one"):
        fetch("toy", tmp_path, **QUICK)


def test_a_server_without_length_is_checked_by_checksum_alone(server, toy, tmp_path):
    toy(size=None)
    server.plan = ["no length"]
    assert fetch("toy", tmp_path, **QUICK).is_dir()


def test_more_bytes_than_expected_stop_the_download(server, tmp_path):
    server.plan = ["no length"]
    with pytest.raises(FetchError, match="more than the expected 10 bytes"):
        download(server.address, tmp_path / "file.part", 10, **QUICK)


@pytest.mark.parametrize("code", [400, 403, 404])
def test_a_refusal_is_final(server, toy, tmp_path, code):
    server.plan = [code] * 5
    with pytest.raises(FetchError, match=f"answered {code}"):
        fetch("toy", tmp_path, **QUICK)
    assert len(server.ranges) == 1


def test_server_errors_are_tried_again(server, toy, tmp_path):
    server.plan = [500, 429]
    assert fetch("toy", tmp_path, **QUICK).is_dir()
    assert len(server.ranges) == 3


def test_nobody_listening_is_one_clear_error(toy, tmp_path):
    toy(url="http://127.0.0.1:1/toy.zip")
    with pytest.raises(FetchError, match=r"failed 3 times in a row \(.*refused.*\)"):
        fetch("toy", tmp_path, **QUICK)


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://example.org/x"])
def test_only_http_addresses(tmp_path, address):
    with pytest.raises(FetchError, match="http"):
        download(address, tmp_path / "x", **QUICK)


def test_a_redirect_cannot_reach_local_files(server, tmp_path):
    server.plan = ["redirect"] * 3
    with pytest.raises(FetchError):
        download(server.address, tmp_path / "x", **QUICK)
    assert not (tmp_path / "x").exists()


def test_first_copy_is_trusted_and_recorded_where_no_checksum_is_known(server, toy, tmp_path):
    toy(checksum=None, size=None)
    fetch("toy", tmp_path, **QUICK)
    recorded = json.loads((tmp_path / "toy.json").read_text())["checksum"]
    assert recorded == "sha256:" + hashlib.sha256(server.body).hexdigest()
    server.body = make_zip({"toy/other": b"1"})
    copy = tmp_path / "other.zip"
    copy.write_bytes(server.body)
    with pytest.raises(FetchError, match="damaged or another file"):
        fetch("toy", tmp_path, source=copy)
    assert (tmp_path / "toy" / "noise").exists()  # the old set is untouched
    fetch("toy", tmp_path, source=copy, checksum="sha256:" + hashlib.sha256(server.body).hexdigest().upper())
    assert (tmp_path / "toy" / "other").exists()
    assert copy.exists()


def test_manual_sets_give_instructions_and_take_a_copy(toy, tmp_path):
    toy(url=None, checksum=None)
    with pytest.raises(FetchError, match=r"accept the licence on .* hingerank fetch toy --from toy.zip"):
        fetch("toy", tmp_path)
    mine = tmp_path / "mine"
    (mine / "Fold1").mkdir(parents=True)
    (mine / "Fold1" / "train.txt").write_text("1 qid:1 1:2\n")
    (mine / "read me").write_text("x")
    folder = fetch("toy", tmp_path / "cache", source=mine)
    assert (folder / "Fold1" / "train.txt").read_text() == "1 qid:1 1:2\n"
    assert (mine / "Fold1").is_dir()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"name": "mq2009"}, "unknown set 'mq2009': expected one of ohsumed, .*; did you mean 'mq2007' or 'mq2008'"),
        ({"name": "toy", "checksum": "sha256:12"}, "expected sha256:<64 hexadecimal digits>"),
        ({"name": "toy", "source": "missing.zip"}, "there is no file or folder missing.zip"),
    ],
)
def test_mistakes_are_named(toy, tmp_path, arguments, message):
    with pytest.raises(FetchError, match=message):
        fetch(cache=tmp_path, **arguments)


def test_two_threads_fetch_once(server, toy, tmp_path):
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(fetch("toy", tmp_path, **QUICK))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [tmp_path / "toy"] * 4
    assert len(server.ranges) == 1


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HINGERANK_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("HINGERANK_CACHE")
    monkeypatch.setattr(fetching.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "hingerank"


def test_the_registry_is_well_formed():
    for name, entry in fetching.PUBLIC_SETS.items():
        assert name == entry.name and entry.licence and entry.page.startswith("http")
        assert entry.url is None or entry.url.startswith("https://")
        assert entry.checksum is None or re.fullmatch("sha256:[0-9a-f]{64}", entry.checksum)
    wanted = {"ohsumed", "mq2007", "mq2008", "mslr-web10k", "mslr-web30k", "yahoo-ltr", "istella", "ml-100k", "ml-1m"}
    assert wanted <= set(fetching.PUBLIC_SETS)


def test_a_failed_unpacking_leaves_no_set(server, toy, tmp_path):
    server.body = make_zip({"../evil": b"x"})
    toy()
    with pytest.raises(FetchError, match="could be written outside the folder"):
        fetch("toy", tmp_path / "cache", **QUICK)
    assert not (tmp_path / "evil").exists() and not (tmp_path / "cache" / "toy").exists()
    assert not [p for p in (tmp_path / "cache").iterdir() if p.is_dir() and p.name.startswith(".toy")]


def test_the_function_is_found_where_the_documentation_says():
    import hingerank

    assert hingerank.fetch is fetch and hingerank.data.fetch is fetch


def test_a_copy_that_is_refused_leaves_nothing_in_the_cache(toy, tmp_path):
    """Its folder has the name under which a hidden folder keeps what is to be replaced."""
    copy = tmp_path / "copy.tar"
    with tarfile.open(copy, "w") as archive:
        for name in ("replaced/other-set/rows.txt", "../evil"):
            archive.addfile(tarfile.TarInfo(name))
    toy(checksum=None)
    with pytest.raises(FetchError):
        fetch("toy", tmp_path / "cache", source=copy)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".toy.lock"]
