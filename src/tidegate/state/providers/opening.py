"""From the configuration of the state to its provider."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from tidegate.column_specs import ProviderKind, StateSpec
from tidegate.errors import ConfigError, EnvironmentProblem
from tidegate.locations import Location, Secret
from tidegate.state.providers.base import BaseMetadataProvider
from tidegate.storage.opening import absolute


def provider_of(spec: StateSpec) -> BaseMetadataProvider | None:
    """Who gets a copy of every watermark; None where the Delta log alone keeps them. Nothing is asked yet."""
    match spec.provider:
        case ProviderKind.DELTA:
            return None
        case ProviderKind.FILE:
            from tidegate.state.providers.file import FileMetadataProvider

            return FileMetadataProvider(Location(absolute(_url(spec).value, Path.cwd()), spec.options))
        case ProviderKind.SQL:
            return _sql(_url(spec))
        case _:
            assert_never(spec.provider)


def _url(spec: StateSpec) -> Secret:
    if spec.url is None:
        raise ConfigError((f"state.url is missing: provider {spec.provider.value!r} needs to know where",))
    return spec.url


def _sql(url: Secret) -> BaseMetadataProvider:
    try:
        from tidegate.state.providers.sql import SqlMetadataProvider
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sqlalchemy"):
            raise
        raise EnvironmentProblem(
            "the state provider 'sql' needs SQLAlchemy, which is not installed", "pip install 'tidegate[sql]'"
        ) from None
    return SqlMetadataProvider(url)
