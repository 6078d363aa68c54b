"""Clients of Solr's learning-to-rank module and of the plugins of Elasticsearch and OpenSearch, for uploads."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from hingerank.arrays import Facts
from hingerank.data.feature_logs import LoggedQuery
from hingerank.export.engine_client import Client, segment
from hingerank.export.engine_features import entries_of
from hingerank.export.forms import ExportError

Undo = Callable[[], object] | None  # undoes what was sent; None if the engine cannot
FORGOTTEN = re.compile(r"(fl|rq|start|rows|wt|indent|echoParams|sort|json\..*|hl.*|facet.*|stats.*|group.*)")
EFI = re.compile(r"efi\.[^\s=]+=(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s\]}]+)")


class ScoredRow(NamedTuple):
    """A document as the engine scores it: its id, its features there, and its score."""

    document: str
    features: dict[str, float]
    score: float


class Engine(Protocol):
    """The calls that an upload makes to an engine."""

    client: Client

    def features(self) -> list[Facts] | None:
        """The features of the store or set; None if there is none."""

    def define(self, features: list[Facts], before: list[Facts] | None) -> Undo:
        """Add definitions to those that exist."""

    def model(self, name: str) -> Facts | None:
        """The model with this name; None if there is none."""

    def put(self, model: Facts) -> None:
        """Send a new model."""

    def put_back(self, name: str, found: Facts | None) -> None:
        """Send the result of `model` again."""

    def drop(self, name: str) -> None:
        """Delete a model."""

    def renamed(self, model: Facts, name: str) -> Facts:
        """The same model under another name."""

    def sent_as(self, found: Facts) -> Facts:
        """The result of `model` in the form that `put` takes."""

    def score(self, name: str, logged: LoggedQuery | None, given: Mapping[str, str], most: int) -> list[ScoredRow]:
        """Rows of a logged query, or any rows, as the model scores them."""


class Solr:
    """A collection or core of Solr: `url` such as http://localhost:8983/solr/products.

    A replica of SolrCloud sees changes of features and models after a reload of its collection.
    """

    def __init__(self, client: Client, store: str | None, document: str = "id") -> None:
        client.base, _, self.at = client.base.rpartition("/")
        self.client, self.store, self.document = client, store or "_DEFAULT_", document
        self.cloud: bool | None = None  # whether it is SolrCloud; None until known

    def features(self):
        if not self.client.dry and self.store not in self._get("schema/feature-store").get("featureStores", []):
            return None  # not asked for, since asking for a store creates it
        return self._get(f"schema/feature-store/{segment(self.store)}").get("features") or None

    def define(self, features, before):
        self._change("PUT", "schema/feature-store", features)
        if before is None:
            return lambda: self._change("DELETE", f"schema/feature-store/{segment(self.store)}")
        return None  # Solr can delete stores but not single features

    def model(self, name):
        found = self._get("schema/model-store").get("models", [])
        return next((model for model in found if model["name"] == name), None)

    def put(self, model):
        self._change("PUT", "schema/model-store", model)

    def put_back(self, name, found):
        self.put(found)

    def drop(self, name):
        self._change("DELETE", f"schema/model-store/{segment(name)}")

    def renamed(self, model, name):
        return {**model, "name": name}

    def sent_as(self, found):
        return found

    def score(self, name, logged, given, most):
        parameters = {} if logged is None else logged.parameters
        efi = [f"efi.{key}={_quoted(value)}" for key, value in given.items()]
        efi = efi or EFI.findall(f"{parameters.get('fl', '')} {parameters.get('rq', '')}")
        asked = {key: value for key, value in parameters.items() if not FORGOTTEN.fullmatch(key)}
        if "q" not in asked:
            asked = {"q": "*:*" if logged is None else self._these(list(logged.rows)[:most])}
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

    def _these(self, documents: Sequence[str]) -> str:
        mark = next(mark for mark in (",", "|", ";", "\x01") if not any(mark in document for document in documents))
        return f"{{!terms f={self.document} separator='{mark}'}}{mark.join(documents)}"

    def _get(self, path: str) -> Facts:
        return self.client.call("GET", f"{self.at}/{path}", query={"wt": "json", "indent": "off"})

    def _change(self, method: str, path: str, body: object = None) -> None:
        self.client.call(method, f"{self.at}/{path}", body)
        if self.cloud is None:
            found = self.client.call("GET", "admin/info/system", query={"wt": "json", "indent": "off"}, absent=True)
            self.cloud = (found or {}).get("mode") == "solrcloud"
        if self.cloud:
            self.client.call("GET", "admin/collections", query={"action": "RELOAD", "name": unquote(self.at)})


class Plugin:
    """An index of Elasticsearch or OpenSearch: `url` such as http://localhost:9200/products."""

    def __init__(self, client: Client, store: str | None, document: str = "_id") -> None:
        if store is None:
            raise ExportError("store must name the feature set of the model: GET _ltr/_featureset lists them")
        base, _, self.index = client.base.rpartition("/")
        if base.endswith("/") or not self.index:
            raise ExportError(
                f"the address {client.base} names no index: give one, as in http://localhost:9200/products"
            )
        client.base = base
        self.client, self.store, self.at = client, store, f"_ltr/_featureset/{segment(store)}"

    def features(self):
        return entries_of(self.client.call("GET", self.at, absent=True))

    def define(self, features, before):
        if before is None:
            self.client.call("PUT", self.at, {"featureset": {"name": self.store, "features": features}})
            return lambda: self.client.call("DELETE", self.at)
        self.client.call("POST", f"{self.at}/_addfeatures", {"features": features})
        return lambda: self.client.call("POST", self.at, {"featureset": {"name": self.store, "features": before}})

    def model(self, name):
        found = self.client.call("GET", f"_ltr/_model/{segment(name)}", absent=True)
        return found.get("_source") if found else None

    def put(self, model):
        self.client.call("POST", f"{self.at}/_createmodel", model)

    def put_back(self, name, found):
        self.client.call("PUT", f"_ltr/_model/{segment(name)}", {"model": found["model"]})

    def drop(self, name):
        self.client.call("DELETE", f"_ltr/_model/{segment(name)}")

    def renamed(self, model, name):
        return {"model": {**model["model"], "name": name}}

    def sent_as(self, found):
        inner = dict(found["model"]["model"])
        if isinstance(inner.get("definition"), str) and inner["type"] == "model/linear":
            inner["definition"] = json.loads(inner["definition"])
        return {"model": {"name": found["model"]["name"], "model": inner}}

    def score(self, name, logged, given, most):
        these = {"match_all": {}} if logged is None else {"ids": {"values": list(logged.rows)[:most]}}
        ranked = {"sltr": {"model": name, "params": dict(given)}}
        query = {"query_weight": 0, "rescore_query_weight": 1, "rescore_query": ranked}
        spec = {"name": "hingerank", "rescore_index": 0, "missing_as_zero": True}
        body = {
            "size": most, "_source": False, "query": {"bool": {"filter": [these]}},
            "rescore": {"window_size": most, "query": query}, "ext": {"ltr_log": {"log_specs": spec}},
        }  # fmt: skip
        found = self.client.call("POST", f"{segment(self.index)}/_search", body)
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


ENGINES: dict[str, Callable[..., Engine]] = {"solr": Solr, "elasticsearch": Plugin, "opensearch": Plugin}
