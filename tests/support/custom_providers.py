"""Providers of a user's own, as a configuration names them: ``support.custom_providers:JsonFolder``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from tidegate import BaseMetadataProvider, WatermarkManager


class JsonFolder(BaseMetadataProvider):
    """One file per dataflow, with who saved it."""

    def __init__(self, folder: str, password: str = "") -> None:
        self._folder = Path(folder)
        self._password = password

    def get_watermark(self, dataflow_id: str) -> str | None:
        path = self._path(dataflow_id)
        return json.loads(path.read_text())["watermark"] if path.exists() else None

    def update_watermark(
        self, dataflow_id: str, watermark_value: str, *, job_id: str | None, dataflow_run_id: str | None
    ) -> None:
        saved = {"watermark": watermark_value, "job_id": job_id, "dataflow_run_id": dataflow_run_id}
        self._path(dataflow_id).write_text(json.dumps(saved))

    def _path(self, dataflow_id: str) -> Path:
        return self._folder / f"{dataflow_id.replace('/', '.')}.json"


class TwoMethods:
    """Not derived from anything."""

    saved: ClassVar[dict[str, str]] = {}

    def get_watermark(self, dataflow_id: str) -> str | None:
        return self.saved.get(dataflow_id)

    def update_watermark(self, dataflow_id: str, watermark_value: str, **_: str | None) -> None:
        self.saved[dataflow_id] = watermark_value


class Broken(JsonFolder):
    """Raises with its password, or returns what is no text."""

    def get_watermark(self, dataflow_id: str) -> Any:
        if self._password == "a number":
            return 7
        raise ValueError(f"login with {self._password} refused")


class HalfOne:
    def get_watermark(self, dataflow_id: str) -> str | None:
        return None


class Scaled(WatermarkManager):
    """Keeps ids ten times as large, as somebody else wants to read them."""

    def get_watermark(self, dataflow_id: str) -> dict[str, Any] | None:
        found = super().get_watermark(dataflow_id)
        return None if found is None else {name: value // 10 for name, value in found.items()}

    def save_watermark(self, dataflow_id: str, watermark: Any, **by: str | None) -> None:
        super().save_watermark(dataflow_id, {name: value * 10 for name, value in watermark.items()}, **by)
