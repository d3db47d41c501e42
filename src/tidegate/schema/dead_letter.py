"""A dead letter: a line that is not a record, or a file that could not be read, kept with the reason.

The dead-letter table only ever grows. A letter that was read after all, or that nobody wants any more, is answered by a
row of the kind ``resolution`` that names it; a letter is open while there is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.schema.names import field_to_json
from tidegate.specs.project import FieldSpec

RECORD, FILE, RESOLUTION = "record", "file", "resolution"
RETRIED, DISCARDED, REPLAYED, READ_AGAIN = "retried", "discarded", "replayed", "read again"


@dataclass(frozen=True, slots=True)
class Letter:
    """One row. ``line`` counts from 1; of a file it is the first line that was not read.

    A line that is not valid UTF-8 is in ``raw``, any other in ``text``. ``resolves`` is the letter that a resolution
    answers, whose ``reason`` then says how.
    """

    id: str
    kind: str
    pipeline: str
    source: str
    at: datetime
    run: str
    file: str | None = None
    size: int | None = None
    etag: str | None = None
    line: int | None = None
    reason: str | None = None
    stage: str | None = None
    schema_fingerprint: str | None = None
    text: str | None = None
    raw: bytes | None = None
    resolves: str | None = None

    @property
    def content(self) -> bytes:
        """The line as it stood in the file, without blanks around it."""
        return self.raw if self.raw is not None else (self.text or "").encode()

    def to_json(self) -> dict[str, object]:
        """For ``--json``; bytes that are no text are shown as far as they can be."""
        return {
            "id": self.id,
            "kind": self.kind,
            "pipeline": self.pipeline,
            "source": self.source,
            "at": self.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "run": self.run,
            "file": self.file,
            "size": self.size,
            "etag": self.etag,
            "line": self.line,
            "reason": self.reason,
            "stage": self.stage,
            "schema_fingerprint": self.schema_fingerprint,
            "text": self.text if self.raw is None else self.raw.decode(errors="backslashreplace"),
        }


def letter_id(pipeline: str, source: str, run: str, file: str, line: int) -> str:
    """A short name that no other letter has."""
    told = "\0".join((pipeline, source, run, file, str(line)))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def fingerprint(fields: Iterable[FieldSpec]) -> str:
    """Tells schemas apart: a letter that was refused by another one may be good by now."""
    told = json.dumps([field_to_json(field) for field in fields], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
