"""An API with responses per survey, and a server that keeps one file per day: what work units are read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from servers.api import Answer, Api, Asked, Route

OCTETS = "application/octet-stream"


def responses(records: Iterable[Mapping[str, Any]], size: int = 1000) -> Route:
    """Those with ``since`` <= ``at`` < ``until``, in pages of ``size``; ``page`` counts from 1."""
    everything = list(records)

    def route(asked: Asked) -> Answer:
        since, until = asked.params.get("since", ""), asked.params.get("until", "9")
        found = [each for each in everything if each.get("at") is None or since <= str(each["at"]) < until]
        begin = (int(asked.params.get("page", "1")) - 1) * size
        return Answer({"data": found[begin : begin + size]})

    return route


def keep_surveys(api: Api, surveys: Mapping[str, Iterable[Mapping[str, Any]]], size: int = 1000) -> None:
    """``/surveys/ID/responses`` for each survey; of any other the server knows nothing."""
    for name, records in surveys.items():
        api.routes[f"/surveys/{quote(name, safe='')}/responses"] = responses(records, size)


def keep_files(api: Api, files: Mapping[str, bytes], kind: str | None = OCTETS) -> None:
    """Files by their path; of any other the server knows nothing."""
    for path, content in files.items():
        api.routes[path] = lambda asked, content=content: Answer(content, kind=kind)  # type: ignore[misc]
