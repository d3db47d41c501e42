"""Reads without Spark, against the real server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from servers.api import Api
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.responses import Counts, Fetch, blocks
from tidegate.specs.columns import HttpRead, Retries

ROWS = [{"id": number, "name": f"name {number}"} for number in range(25)]


def read_of(api: Api, path: str = "/items", **settings: Any) -> HttpRead:
    """A read of the server's ``data``, with quick retries."""
    read = HttpRead(api.url, path, records="data", retries=Retries(attempts=3, base_secs=0.01), timeout_secs=5)
    return replace(read, **settings)


def fetched(read: HttpRead, *parts: Part, counts: Counts | None = None, waits: list[float] | None = None) -> list[Any]:
    """All records of one slot; waits are noted and not slept where a list for them is given."""
    found: list[Any] = []
    sleep: Any = {} if waits is None else {"sleep": waits.append}
    for block in blocks(Fetch(read, parts or (Part(),)), 0, counts or Counts(), **sleep):
        found += [json.loads(line) for line in block.lines.splitlines()]
    return found
