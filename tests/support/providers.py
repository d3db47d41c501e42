"""Metadata providers of every kind, to run the same tests over all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.protocol.providers import BaseMetadataProvider
from tidegate.protocol.store import provider_of
from tidegate.specs.locations import Options, Secret
from tidegate.specs.project import ProviderKind, StateSpec

if TYPE_CHECKING:
    pass

EVERY = ("file", pytest.param("s3", marks=pytest.mark.s3), "sqlite", "postgres")

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
            raise AssertionError(kind)


def opened(settings: Settings) -> BaseMetadataProvider:
    """A provider as a new process would make it."""
    spec = StateSpec(ProviderKind(settings["provider"]), Secret(settings["url"]), Options(settings.get("options", {})))
    provider = provider_of(spec)
    assert provider is not None
    return provider


def text(number: int) -> str:
    """A watermark, as the serializer writes it."""
    return json.dumps({"id": number, "updated_at": {"__datetime__": f"2026-04-03T09:15:{number:02d}+00:00"}})
