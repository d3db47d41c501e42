"""Watermarks as values, in the hands of a metadata provider that keeps them as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.state.providers.base import BaseMetadataProvider
from tidegate.watermarks.serializer import WatermarkSerializer, without_inclusive


class WatermarkManager:
    """Reads and saves watermarks through ``provider``."""

    def __init__(self, provider: BaseMetadataProvider) -> None:
        self._provider = provider

    def get_watermark(self, dataflow_id: str) -> dict[str, Any] | None:
        """The greatest value seen per column, None before the first save; ``WatermarkError`` for damaged text."""
        found = WatermarkSerializer.deserialize(self._provider.get_watermark(dataflow_id))
        return None if found is None else without_inclusive(found)[0]

    def save_watermark(
        self,
        dataflow_id: str,
        watermark: Mapping[str, Any],
        *,
        job_id: str | None = None,
        dataflow_run_id: str | None = None,
    ) -> None:
        """Save a watermark, whatever was there; ``WatermarkError`` for a value that has no text."""
        text = WatermarkSerializer.serialize(watermark)
        self._provider.update_watermark(dataflow_id, text, job_id=job_id, dataflow_run_id=dataflow_run_id)
