"""The library that reads Avro files, which only sources of that format need."""

from __future__ import annotations

from typing import Any

from tidegate.errors import EnvironmentProblem


def reading_library() -> Any:
    """The library that reads Avro; raises :class:`EnvironmentProblem` where it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise EnvironmentProblem("reading Avro files needs fastavro", "pip install 'tidegate[avro]'") from error
    return fastavro
