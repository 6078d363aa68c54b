"""The client of uploads against answers of no engine: redirects, broken connections, other content, wrong addresses."""

import contextlib
import json
import socketserver
import threading

import pytest

import hingerank as hr
from hingerank.export import engines
from hingerank.export.engines import Client


@pytest.fixture
def serve():
    """serve(answer, ...) -> the address of a server that gives these bytes, one after another, and the requests."""
    servers = []

    def start(*answers):
        left, seen = list(answers), []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                head = b"".join(iter(self.rfile.readline, b"\r\n"))
                seen.append(head.decode("latin-1"))
                self.wfile.write(left.pop(0) if left else b"")

        server = socketserver.TCPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_address[1]}", seen

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def answer(body, status="200 OK", more="", length=None):
    length = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_redirects_are_not_followed(serve, method, code):
    other, asked = serve(answer("{}"))
    host, seen = serve(answer("moved", f"{code} Moved", f"Location: http://you:private@{other}/solr/x\r\n"))
    client = Client(f"http://me:secret@{host}/solr/x")
    with pytest.raises(hr.ExportError, match=rf"failed with {code}: the address is now http://{other}/solr/x") as found:
        client.call(method, "schema", {} if method == "POST" else None)
    assert len(seen) == 1 and not asked  # credentials go to one host
    assert "secret" not in str(found.value) and "private" not in str(found.value)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "connection broke off"),
        (b"nonsense\r\n\r\n", "connection broke off"),
        (answer('{"models": [', length=500), "connection broke off"),
        (answer("half of an", "500 Broken", length=500), "connection broke off"),
        (answer("<html>"), "is not JSON"),
        (answer("[1, 2]"), "is not JSON as engines send it"),
        (answer("null"), "is not JSON as engines send it"),
        (answer("[" * 100_000), "is not JSON as engines send it"),
        (answer('{"error": {"msg": "full"}}', "503 Unavailable"), "failed with 503: full"),
        (answer("", "500 Broken"), "failed with 500: it gives no reason"),
    ],
)
def test_answers_that_no_engine_gives(serve, sent, words):
    host, _ = serve(sent)
    with pytest.raises(hr.ExportError, match=words) as found:
        Client(f"http://me:secret@{host}/solr").call("GET", "x")
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("200 OK\r\n\r\n", "more than 1,048,576 bytes: is that the address of a collection or an index"),
        ("200 OK\r\nContent-Length: 1000000000000\r\n\r\n", "more than 1,048,576 bytes"),
        ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "more than 1,048,576 bytes"),
        ("500 Broken\r\n\r\n", "failed with 500: it is I"),
    ],
)
def test_endless_answers_are_not_read_to_their_end(monkeypatch, head, words):
    monkeypatch.setattr(engines, "LARGEST_RESPONSE", 1 << 20)
    sent, part = [], b"it is I".ljust(0xFFFF)
    part = b"ffff\r\n%b\r\n" % part if "chunked" in head else part

    class Endless(socketserver.StreamRequestHandler):
        def handle(self):
            b"".join(iter(self.rfile.readline, b"\r\n"))
            with contextlib.suppress(OSError):
                self.wfile.write(f"HTTP/1.1 {head}".encode())
                while len(sent) < 1000:
                    self.wfile.write(part)
                    sent.append(len(part))

    with socketserver.TCPServer(("127.0.0.1", 0), Endless) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(hr.ExportError, match=words):
            Client(f"http://127.0.0.1:{server.server_address[1]}/solr").call("GET", "x")
        thread.join()
    assert len(sent) < 1000


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"models": []}, "broke off.*; left behind in the engine: perhaps the model hingerank"),
        ({}, "not understood: it has no list of models; nothing was changed"),
        ({"models": [{}]}, "not understood: .*; nothing was changed"),
        ({"models": 3}, "not understood: .*; nothing was changed"),
        ({"models": [None]}, "not understood: .*; nothing was changed"),
    ],
)
def test_engines_that_answer_otherwise_are_no_internal_error(serve, model, words):
    data = hr.make_letor(n_queries=5, n_features=2, seed=0)
    stores, features = {"featureStores": ["_DEFAULT_"]}, {"features": [{"name": "f1"}, {"name": "f2"}]}
    host, _ = serve(*(answer(json.dumps(each)) for each in (stores, features, model)))
    with pytest.raises(hr.ExportError, match=words):
        hr.upload(hr.RankSVM().fit(data), "solr", f"http://{host}/solr/x")


@pytest.mark.parametrize(
    "url",
    [
        "http://me:pa/secret@localhost:8983/solr/x", "http://me:pa#secret@localhost:8983/solr/x",
        "http://me:pa?secret@localhost/solr/x", "http://me:12/secret@localhost/solr/x", "http://me/secret@host/solr/x",
        "http://me:secret\u2100@localhost/solr/x", "http://me:secret@localhost:abc/solr/x",
    ],
)  # fmt: skip
def test_no_message_shows_a_password_that_ends_the_host(url):
    with pytest.raises(hr.ExportError, match=r"the address '.*/solr/x'") as found:
        Client(url)
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("value", ["ApiKey secret\n", "ApiKey secret\r\nX: y", "ApiKey secret\u2014", b"secret", None])
def test_headers_that_cannot_be_sent_are_named_without_their_value(value):
    with pytest.raises(hr.ExportError, match="the header 'Authorization' must be one line") as found:
        Client("http://localhost/solr", {"Authorization": value})
    assert "secret" not in str(found.value)


def test_addresses_with_other_letters(serve):
    host, seen = serve(answer("{}"), answer("{}"))
    Client(f"http://{host}/solr/bücher laden").call("GET", "x")
    Client(f"http://{host}/solr/b%C3%BCcher%20laden").call("GET", "x")
    assert [head.split("\r\n")[0] for head in seen] == ["GET /solr/b%C3%BCcher%20laden/x HTTP/1.1"] * 2
