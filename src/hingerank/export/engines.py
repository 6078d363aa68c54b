"""Clients of Solr's learning-to-rank module and of the plugins of Elasticsearch and OpenSearch, for uploads.

Calls are made by the standard library only; errors name the call and quote the engine's reason.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from http.client import HTTPException, IncompleteRead
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from hingerank.arrays import Facts, Given
from hingerank.data.feature_logs import LoggedQuery
from hingerank.export.forms import ExportError
from hingerank.export.lucene import entries_of

Undo = Callable[[], object] | None  # undoes what was sent; None if the engine cannot
FORGOTTEN = re.compile(r"(fl|rq|start|rows|wt|indent|echoParams|sort|json\..*|hl.*|facet.*|stats.*|group.*)")
EFI = re.compile(r"efi\.[^\s=]+=(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s\]}]+)")

LARGEST_RESPONSE, LARGEST_REASON = 1 << 28, 1 << 16  # bytes read of a response, and of an error
_KEYS = ": give credentials in the address or in a header"
HINTS = {401: _KEYS, 403: _KEYS, 404: ": is the address right, and is learning to rank installed there?"}


class ScoredRow(NamedTuple):
    """A document as the engine scores it: its id, its features there, and its score."""

    document: str
    features: dict[str, float]
    score: float


class Call(NamedTuple):
    """A request: its method, its address and its body, if any."""

    method: str
    url: str
    body: object = None

    def __str__(self) -> str:
        return f"{self.method} {self.url}" + ("" if self.body is None else f"\n{json.dumps(self.body)}")


class NoRedirects(HTTPRedirectHandler):
    """Redirects are errors: urllib would send credentials to any host, and repeat a POST as a GET without its body."""

    def redirect_request(self, *_: object) -> None:
        return None


def _shown(url: str) -> str:
    """An address without a user and a password, which may themselves contain what they should not."""
    return re.sub(r"^(\w+://)?.*@", r"\1", url)


class Client:
    """Calls below one address.

    Parameters
    ----------
    url : http or https; a user and a password in it become a header, and appear in no message
    headers : more headers, such as {"Authorization": "ApiKey …"}
    dry : call nothing, only record the calls
    timeout : seconds allowed for a call
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, dry: bool = False, timeout: float = 60.0):
        shown = _shown(str(url))
        try:
            parts = urlsplit(str(url))
            inside = "@" in parts.path + parts.query + parts.fragment
            # the port is checked by asking for it; what follows a password's slash is none
            known = parts.scheme in ("http", "https") and parts.hostname and (inside or parts.port != 0)
        except ValueError as error:
            why = "" if "@" in str(url) else f": {error}"  # which may quote a password
            raise ExportError(f"the address {shown!r} is not valid{why}") from None
        if not known:
            raise ExportError(f"the address {shown!r} must begin with http:// or https:// and a host")
        if inside:
            raise ExportError(
                f"the address {shown!r} has an @ behind the host: write / ? # of a password as %2F %3F %23"
            )
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        for name, value in self.headers.items():
            if not (
                isinstance(value, str)
                and re.fullmatch(r"[!-~]+", str(name))
                and re.fullmatch(r"[ -~\xa0-\xff]*", value)
            ):
                raise ExportError(f"the header {name!r} must be one line of Latin letters: is there a line end in it?")
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers.setdefault("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
        host = parts.netloc.rpartition("@")[2]
        self.base = urlunsplit((parts.scheme, host, quote(parts.path.rstrip("/"), safe="/%:"), "", ""))
        self.opener = build_opener(NoRedirects())
        self.dry, self.timeout = dry, timeout
        self.calls: list[Call] = []

    def split_off(self, what: str, example: str) -> str:
        """Take the last part of the address, which is the name of a collection or an index."""
        base, _, last = self.base.rpartition("/")
        if base.endswith("/") or not last:
            raise ExportError(f"the address {self.base} names no {what}: give one, as in {example}")
        self.base = base
        return last

    def call(
        self, method: str, path: str, body: object = None, query: Given | None = None, absent: bool = False
    ) -> Any:
        """The JSON response of a call, {} in a dry run.

        Parameters
        ----------
        method, path : of the request, below the address
        body : sent as JSON
        query : parameters of the address
        absent : whether nothing may be there (404), which returns None
        """
        plain = f"{self.base}/{path}"
        url = plain + (f"?{urlencode(query, doseq=True)}" if query else "")
        self.calls.append(Call(method, url, body))
        if self.dry:
            return {}
        data = None if body is None else json.dumps(body).encode()
        try:
            try:
                with self.opener.open(Request(url, data, self.headers, method=method), timeout=self.timeout) as answer:
                    text = _body(answer, LARGEST_RESPONSE)
            except HTTPError as error:
                with error:  # it holds the connection open
                    said = _reason(_body(error, LARGEST_REASON))
                if error.code == 404 and absent:
                    return None
                hint = HINTS.get(error.code, "")
                if error.code // 100 == 3:
                    hint = f": the address is now {_shown(error.headers.get('Location', 'unknown'))}"
                raise ExportError(f"{method} {plain} failed with {error.code}{hint}: {said}") from None
        except URLError as error:
            reason = f"nothing answers at {self.base} ({error.reason})"
            raise ExportError(f"{reason}: is the engine running, and is that its address?") from None
        except (HTTPException, OSError, UnicodeError) as error:  # also while the text of an error is read
            raise ExportError(f"{method} {plain}: the connection broke off ({error or type(error).__name__})") from None
        if len(text) > LARGEST_RESPONSE:
            what = f"the response to {method} {plain} has more than {LARGEST_RESPONSE:,} bytes"
            raise ExportError(f"{what}: is that the address of a collection or an index?")
        try:
            found = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            what = f"the response to {method} {plain} is not JSON as engines send it ({text[:60]!r})"
            raise ExportError(f"{what}: is that the address of a collection or an index?")
        return found


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def list_in(found: object, name: str) -> list[Any]:
    """What was found in a response, which must be a list."""
    if not isinstance(found, list):
        raise ExportError(f"the engine's response was not understood: it has no list of {name}")
    return found


def _body(response: Any, most: int) -> bytes:
    """The body of a response: all of it, or its first most + 1 bytes if it is longer."""
    body: bytes = response.read(most + 1)
    if len(body) <= most and response.length:  # a read of limited size does not say that the rest is lacking
        raise IncompleteRead(body, response.length)
    return body


def _reason(body: bytes) -> str:
    """The reason that an engine gives for an error."""
    text = body.decode("utf-8", "replace")
    try:
        error = json.loads(text).get("error")
    except (ValueError, AttributeError):
        return " ".join(text.split())[:300] or "it gives no reason"
    if isinstance(error, Mapping):
        error = error.get("msg") or error.get("reason") or error
    said = str(error)[:500] if error else " ".join(text.split())[:300]
    return said.replace("=", " = ")  # so that the engine's words are not taken for arguments of ours


class Solr:
    """A collection or core of Solr: `url` such as http://localhost:8983/solr/products.

    A replica of SolrCloud sees changes of features and models after a reload of its collection.
    """

    def __init__(self, client: Client, store: str | None, document: str = "id") -> None:
        self.at = client.split_off("collection", "http://localhost:8983/solr/products")
        self.client, self.store, self.document = client, store or "_DEFAULT_", document
        self.cloud: bool | None = None  # whether it is SolrCloud; None until known

    def features(self) -> list[Facts] | None:
        """The features of the store or set; None if there is none."""
        if self.store not in self._list("schema/feature-store", "featureStores") and not self.client.dry:
            return None  # not asked for, since asking for a store creates it
        return self._list(f"schema/feature-store/{segment(self.store)}", "features") or None

    def define(self, features: list[Facts], new: bool) -> None:
        """Add definitions to a store or set, which may be new."""
        self._change("PUT", "schema/feature-store", features)

    def undefine(self, before: list[Facts] | None) -> Undo:
        """How to return to the definitions before; None if the engine cannot."""
        if before is None:
            return lambda: self._change("DELETE", f"schema/feature-store/{segment(self.store)}")
        return None  # Solr can delete stores but not single features

    def model(self, name: str) -> Facts | None:
        """The model with this name; None if there is none."""
        found = self._list("schema/model-store", "models")
        return next((model for model in found if model["name"] == name), None)

    def put(self, model: Facts) -> None:
        """Send a new model."""
        self._change("PUT", "schema/model-store", model)

    def put_back(self, name: str, found: Facts) -> None:
        """Send the result of `model` again."""
        self.put(found)

    def drop(self, name: str) -> None:
        """Delete a model."""
        self._change("DELETE", f"schema/model-store/{segment(name)}")

    def renamed(self, model: Facts, name: str) -> Facts:
        """The same model under another name."""
        return {**model, "name": name}

    def sent_as(self, found: Facts) -> Facts:
        """The result of `model` in the form that `put` takes."""
        return found

    def score(self, name: str, logged: LoggedQuery | None, given: Mapping[str, str], most: int) -> list[ScoredRow]:
        """Rows of a logged query, or any rows, as the model scores them."""
        parameters = {} if logged is None else logged.parameters
        efi = [f"efi.{key}={_quoted(value)}" for key, value in given.items()]
        efi = efi or EFI.findall(f"{parameters.get('fl', '')} {parameters.get('rq', '')}")
        asked = {key: value for key, value in parameters.items() if not FORGOTTEN.fullmatch(key)}
        if "q" not in asked:
            asked = {"q": "*:*"}
            if logged is not None:
                documents = list(logged.rows)[:most]
                mark = next(mark for mark in (",", "|", ";", "\x01") if not any(mark in each for each in documents))
                asked = {"q": f"{{!terms f={self.document} separator='{mark}'}}{mark.join(documents)}"}
        words = " ".join([f"[features store={self.store}", *efi]) + "]"
        asked |= {"fl": f"{self.document},score,{words}", "rows": most, "wt": "json", "indent": "off"}
        asked["rq"] = " ".join([f"{{!ltr model={_quoted(name)} reRankDocs={most}", *efi]) + "}"
        found = self.client.call("GET", f"{self.at}/select", query=asked)
        rows = []
        for row in found.get("response", {}).get("docs", []):
            if self.document not in row:
                raise ExportError(
                    f"Solr's documents have no {self.document!r}: name the field of their ids, as in document='sku'"
                )
            pairs = (entry.rpartition("=") for entry in row["[features]"].split(",") if entry)
            rows.append(ScoredRow(str(row[self.document]), {n: float(v) for n, _, v in pairs}, float(row["score"])))
        return rows

    def _list(self, path: str, name: str) -> list[Any]:
        """The list of this name in the response to a GET: one without it, as of a proxy, is not an empty list."""
        found = self.client.call("GET", f"{self.at}/{path}", query={"wt": "json", "indent": "off"})
        return [] if self.client.dry else list_in(found.get(name), name)

    def _change(self, method: str, path: str, body: object = None) -> None:
        if self.cloud is None:  # asked for first: it may be forbidden
            found = self.client.call("GET", "admin/info/system", query={"wt": "json", "indent": "off"}, absent=True)
            self.cloud = (found or {}).get("mode") == "solrcloud"
        self.client.call(method, f"{self.at}/{path}", body)
        if self.cloud:
            self.client.call("GET", "admin/collections", query={"action": "RELOAD", "name": unquote(self.at)})


class Plugin:
    """An index of Elasticsearch or OpenSearch: `url` such as http://localhost:9200/products."""

    def __init__(self, client: Client, store: str | None, document: str = "_id") -> None:
        if store is None:
            raise ExportError("store must name the feature set of the model: GET _ltr/_featureset lists them")
        self.index = client.split_off("index", "http://localhost:9200/products")
        self.client, self.store, self.at = client, store, f"_ltr/_featureset/{segment(store)}"

    def features(self) -> list[Facts] | None:
        found = self.client.call("GET", self.at, absent=True)
        return None if found is None or self.client.dry else list_in(entries_of(found), "features")

    def define(self, features: list[Facts], new: bool) -> None:
        if new:
            self.client.call("PUT", self.at, {"featureset": {"name": self.store, "features": features}})
        else:
            self.client.call("POST", f"{self.at}/_addfeatures", {"features": features})

    def undefine(self, before: list[Facts] | None) -> Undo:
        if before is None:
            return lambda: self.client.call("DELETE", self.at)
        return lambda: self.client.call("POST", self.at, {"featureset": {"name": self.store, "features": before}})

    def model(self, name: str) -> Facts | None:
        found = self.client.call("GET", f"_ltr/_model/{segment(name)}", absent=True)
        return None if found is None or self.client.dry else found["_source"]

    def put(self, model: Facts) -> None:
        self.client.call("POST", f"{self.at}/_createmodel", model)

    def put_back(self, name: str, found: Facts) -> None:
        self.client.call("PUT", f"_ltr/_model/{segment(name)}", {"model": found["model"]})

    def drop(self, name: str) -> None:
        self.client.call("DELETE", f"_ltr/_model/{segment(name)}")

    def renamed(self, model: Facts, name: str) -> Facts:
        return {"model": {**model["model"], "name": name}}

    def sent_as(self, found: Facts) -> Facts:
        inner = dict(found["model"]["model"])
        if isinstance(inner.get("definition"), str) and inner["type"] == "model/linear":
            inner["definition"] = json.loads(inner["definition"])
        return {"model": {"name": found["model"]["name"], "model": inner}}

    def score(self, name: str, logged: LoggedQuery | None, given: Mapping[str, str], most: int) -> list[ScoredRow]:
        these = {"match_all": {}} if logged is None else {"ids": {"values": list(logged.rows)[:most]}}
        ranked = {"sltr": {"model": name, "params": dict(given)}}
        query = {"query_weight": 0, "rescore_query_weight": 1, "rescore_query": ranked}
        spec = {"name": "hingerank", "rescore_index": 0, "missing_as_zero": True}
        body = {
            "size": most, "_source": False, "query": {"bool": {"filter": [these]}},
            "rescore": {"window_size": most, "query": query}, "ext": {"ltr_log": {"log_specs": spec}},
        }  # fmt: skip
        found = self.client.call("POST", f"{segment(unquote(self.index))}/_search", body)
        rows = []
        for hit in found.get("hits", {}).get("hits", []):
            entries = [entry for log in hit["fields"]["_ltrlog"] for entry in log["hingerank"]]
            features = {entry["name"]: float(entry.get("value") or 0.0) for entry in entries}
            rows.append(ScoredRow(str(hit["_id"]), features, float(hit["_score"])))
        return rows


def _quoted(text: str) -> str:
    """A quoted value of Solr's local parameters."""
    escaped = str(text).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


Engine = Solr | Plugin
ENGINES: dict[str, type[Engine]] = {"solr": Solr, "elasticsearch": Plugin, "opensearch": Plugin}
