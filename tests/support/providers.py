"""Metadata providers of every kind, to run the same tests over all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.protocol.providers import BaseMetadataProvider
from tidegate.protocol.store import provider_of
from tidegate.specs.columns import ProviderKind, StateSpec
from tidegate.specs.locations import Location, Options, Secret
from tidegate.storage.options import absolute
from tidegate.storage.stores import open_store

if TYPE_CHECKING:
    from tidegate.protocol.store import PositionStore

NUMBERED = ("file", pytest.param("s3", marks=pytest.mark.s3), "sqlite", "postgres")
EVERY = (*NUMBERED, "delta")

Settings = Mapping[str, Any]
"""What reaches one provider, in JSON types: also from another process."""


def settings_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Settings:
    """The settings of a fresh and empty provider."""
    match kind:
        case "file":
            return {"provider": "file", "url": str(folder / "the state")}
        case "s3":
            location = request.getfixturevalue("s3").location("state")
            return {"provider": "file", "url": location.uri, "options": dict(location.options)}
        case "sqlite":
            return {"provider": "sql", "url": f"sqlite:///{folder / 'state.db'}"}
        case "postgres":
            server = request.getfixturevalue("postgres")
            return {"provider": "sql", "url": server.url(server.new_database())}
        case _:
            _create_table(folder / "table")
            return {"provider": "delta", "url": str(folder / "table")}


def opened(settings: Settings) -> BaseMetadataProvider:
    """A provider as a new process would make it."""
    spec = StateSpec(ProviderKind(settings["provider"]), Secret(settings["url"]), Options(settings.get("options", {})))
    found = provider_of(spec)
    if found is not None:
        return found
    from tidegate.protocol.providers import DeltaLogMetadataProvider

    location = Location(absolute(settings["url"], Path("/")))
    return DeltaLogMetadataProvider(lambda dataflow_id: _positions(location, dataflow_id))


def _positions(table: Location, dataflow_id: str) -> PositionStore:
    from tidegate.protocol.change import Identity, SourceKey
    from tidegate.protocol.position import TableContext
    from tidegate.protocol.store import PositionStore, open_delta

    identity = Identity("column", "jdbc:postgresql://db/shop#orders")
    store = open_store(table)
    key, delta = SourceKey(*dataflow_id.split("/")), open_delta(table, store)
    return PositionStore(TableContext(key, identity, store, delta, checkpoint_every=0))


def _create_table(path: Path) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable

    DeltaTable.create(str(path), schema=pa.schema([("id", pa.int64())]))


def text(number: int) -> str:
    """A watermark, as the serializer writes it."""
    return json.dumps({"id": number, "updated_at": {"__datetime__": f"2026-04-03T09:15:{number:02d}+00:00"}})
