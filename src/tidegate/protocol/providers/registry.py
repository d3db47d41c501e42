"""From the configuration of the state to its provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from tidegate.errors import ConfigError, EnvironmentProblem
from tidegate.protocol.providers.base import BaseMetadataProvider
from tidegate.specs.columns import ProviderKind, StateSpec
from tidegate.specs.locations import Location, Options, Secret


def provider_of(spec: StateSpec) -> BaseMetadataProvider | None:
    """Who gets a copy of every watermark; None where the Delta log alone keeps them. Nothing is asked yet."""
    match spec.provider:
        case ProviderKind.DELTA:
            return None
        case ProviderKind.FILE:
            from tidegate.protocol.providers.file import FileMetadataProvider
            from tidegate.storage.options import absolute

            return FileMetadataProvider(Location(absolute(_url(spec).value, Path.cwd()), spec.options))
        case ProviderKind.SQL:
            return _sql(_url(spec))
        case _:
            assert_never(spec.provider)


def metadata_provider(url: str, options: Mapping[str, str] | None = None) -> BaseMetadataProvider:
    """The provider at an address: a database as SQLAlchemy takes it, anything else is a folder or a bucket.

    ``options`` are the storage options of a bucket. Nothing is asked yet.
    """
    from tidegate.storage.options import ALIASES, SCHEMES

    scheme = url.partition("://")[0].lower() if "://" in url else "file"
    kind = ProviderKind.FILE if scheme in (*SCHEMES, *ALIASES) else ProviderKind.SQL
    provider = provider_of(StateSpec(kind, Secret(url), Options(options)))
    assert provider is not None
    return provider


def _url(spec: StateSpec) -> Secret:
    if spec.url is None:
        raise ConfigError((f"state.url is missing: provider {spec.provider.value!r} needs to know where",))
    return spec.url


def _sql(url: Secret) -> BaseMetadataProvider:
    try:
        from tidegate.protocol.providers.sql import SqlMetadataProvider
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sqlalchemy"):
            raise
        raise EnvironmentProblem(
            "the state provider 'sql' needs SQLAlchemy, which is not installed", "pip install 'tidegate[sql]'"
        ) from None
    return SqlMetadataProvider(url)
