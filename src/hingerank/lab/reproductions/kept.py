"""Small results on disk, for tables that are not comparisons over LETOR folds: one JSON file for each."""

import json
import re
from collections.abc import Callable
from typing import Any

from hingerank.lab.reproductions.table import Place
from hingerank.lab.store import plain, write_whole


def kept(place: Place, run: str, name: str, compute: Callable[[], Any]) -> Any:
    """What compute answers, from the file of an earlier run where there is one. name: says all that it depends on."""
    path = place.runs / run / (re.sub(r"[^\w.=-]+", "-", name) + ".json")
    if not path.exists():
        write_whole(path, json.dumps(plain(compute())).encode())
    return json.loads(path.read_text("utf-8"))
