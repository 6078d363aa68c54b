"""HTTP calls to search engines with the standard library only; errors name the call and quote the engine's reason."""

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from hingerank.arrays import Given
from hingerank.export.forms import ExportError

_KEYS = ": give credentials in the address or in a header"
HINTS = {401: _KEYS, 403: _KEYS, 404: ": is the address right, and is learning to rank installed there?"}


class Call(NamedTuple):
    """A request: its method, its address and its body, if any."""

    method: str
    url: str
    body: object = None

    def __str__(self) -> str:
        return f"{self.method} {self.url}" + ("" if self.body is None else f"\n{json.dumps(self.body)}")


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
        parts = urlsplit(str(url))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ExportError(f"the address {url!r} must begin with http:// or https:// and a host")
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers.setdefault("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
        host = parts.netloc.rpartition("@")[2]
        self.base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self.dry, self.timeout = dry, timeout
        self.calls: list[Call] = []

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
            with urlopen(Request(url, data, self.headers, method=method), timeout=self.timeout) as answer:
                text = answer.read()
        except HTTPError as error:
            with error:  # it holds the connection open
                said = _reason(error.read())
            if error.code == 404 and absent:
                return None
            raise ExportError(f"{method} {plain} failed with {error.code}{HINTS.get(error.code, '')}: {said}") from None
        except (URLError, OSError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise ExportError(
                f"nothing answers at {self.base} ({reason}): is the engine running, and is that its address?"
            ) from None
        try:
            return json.loads(text) if text.strip() else {}
        except ValueError:
            what = f"the response to {method} {plain} is not JSON ({text[:60]!r})"
            raise ExportError(f"{what}: is that the address of a collection or an index?") from None


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


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
