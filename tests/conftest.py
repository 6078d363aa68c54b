"""Tests of optional libraries and programs are skipped where these are missing, unless HINGERANK_REQUIRE names them."""

import gc
import importlib
import os
import shutil
import sys
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import pytest


def pytest_configure():
    """HINGERANK_REQUIRE="xgboost chromium": modules and programs without which no test may run."""
    required = os.environ.get("HINGERANK_REQUIRE", "").split()
    missing = [name for name in required if find_spec(name) is None and shutil.which(name) is None]
    if missing:
        raise pytest.UsageError(f"HINGERANK_REQUIRE names {', '.join(missing)}, which is not installed")


def pytest_collection_finish():
    """Thousands of tests and the modules they import stay: collecting garbage need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def commands_are_made_once():
    """Typer makes all commands again for each call of the program: a process has one call, the tests thousands."""
    main = importlib.import_module("typer.main")
    make, main.get_command = main.get_command, cache(main.get_command)
    yield
    main.get_command = make


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk():
    """Only a machine that loses its power would show whether a file was synced, and the tests write 10,000 files."""
    sync, os.fsync = os.fsync, lambda descriptor: None
    yield
    os.fsync = sync


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from chromium import NAMES, Browser
    finally:
        sys.path.pop(0)
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs Chromium (the Debian package is called chromium)")
    running = Browser(program, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *said):
        pass


@pytest.fixture
def serve():
    """serve(folder) -> the address of a folder, served on loopback while the test runs."""
    servers = []

    def start(folder):
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
