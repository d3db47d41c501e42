"""The columns that were inferred from a pipeline's first files, remembered beside its table.

They are remembered once the first commit with them is durable, as one of its debts: what cannot be written is never
remembered, and a crash right after the commit loses nothing. The first commit decides for all: nothing overwrites what
is stored, except a person with ``tidegate schema infer --update``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.errors import ObjectExists, ObjectMissing, StateError
from tidegate.schema.infer import Inference

if TYPE_CHECKING:
    from tidegate.state.opened import Opened
    from tidegate.storage.port import ObjectStore

KIND = "schema"
"""The kind of the debt."""


def schema_path(pipeline: str) -> str:
    """Where an inferred schema is remembered, relative to the table."""
    return f"_tidegate/{pipeline}/schema.json"


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """The remembered columns of one pipeline; ``store`` is that of its table."""

    store: ObjectStore
    pipeline: str

    def read(self) -> Inference | None:
        """What is remembered, None where nothing is; raises :class:`StateError` for what cannot be used."""
        path = schema_path(self.pipeline)
        try:
            content = self.store.get(path)
        except ObjectMissing:
            return None
        try:
            return Inference.from_json(json.loads(content))
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{self.store.location.uri}/{path} is damaged ({error!r})",
                "write it anew with `tidegate schema infer --update`, or declare schema.fields",
            ) from error

    def remember(self, found: Inference) -> Inference:
        """Store ``found`` unless something is stored; what holds from now on."""
        try:
            self.store.put_if_absent(schema_path(self.pipeline), _content(found))
        except ObjectExists:
            return self.read() or found
        return found

    def replace(self, found: Inference) -> None:
        """Store ``found`` instead of whatever is stored."""
        self.store.put(schema_path(self.pipeline), _content(found))

    def pay(self, opened: Opened, owed: Mapping[str, Any]) -> None:
        """Remember what a commit was written with."""
        self.remember(Inference.from_json(owed["schema"]))


def debt(found: Inference) -> dict[str, Any]:
    """What the first commit with inferred columns owes: the columns, without the values that spoke for them."""
    return {"kind": KIND, "schema": replace(found, report=()).to_json()}


def _content(found: Inference) -> bytes:
    return json.dumps(found.to_json(), indent=2).encode()
