"""What a task gives back, and its JSON form: one line of text per unit, from executors to the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate import errors
from tidegate.errors import TidegateError
from tidegate.planning.plan import Unit
from tidegate.sink.parquet import FinishedFile
from tidegate.storage.uploads import UploadCounts
from tidegate.watermarks.outcomes import Changed, Covered, FileOutcome, NotReached, Refused

_OUTCOMES: dict[str, type[FileOutcome]] = {kind.__name__: kind for kind in (Covered, Refused, Changed, NotReached)}


@dataclass(frozen=True, slots=True)
class UnitResult:
    """One unit, read: an outcome per file in the unit's order, and the data files that hold the covered rows.

    ``letter_files`` hold its bad lines, in the dead-letter table.

    ``uploads`` counts how its files got to the store. With a ``failure`` nothing of the unit is done, and that is why.

    ``unknown_fields`` has every field with a value that the schema does not have, by path, with how many values there
    were. ``bad_kinds`` counts bad lines by kind.
    """

    number: int
    outcomes: tuple[FileOutcome, ...]
    data_files: tuple[FinishedFile, ...] = ()
    rows: int = 0
    letter_files: tuple[FinishedFile, ...] = ()
    unknown_fields: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    bad_kinds: Mapping[str, int] = field(default_factory=dict)
    uploads: UploadCounts = field(default_factory=UploadCounts)
    failure: TidegateError | None = None

    @classmethod
    def of_failure(cls, unit: Unit, error: TidegateError) -> UnitResult:
        """A unit that could not be read or written: none of its files is reached."""
        return cls(unit.number, tuple(NotReached(each.path) for each in unit.slices), failure=error)

    def to_json(self) -> str:
        """One line of JSON; :meth:`from_json` gives an equal value."""
        return json.dumps(
            {
                "number": self.number,
                "outcomes": [outcome_to_json(each) for each in self.outcomes],
                "data_files": [asdict(each) for each in self.data_files],
                "rows": self.rows,
                "letter_files": [asdict(each) for each in self.letter_files],
                "unknown_fields": dict(self.unknown_fields),
                "seconds": self.seconds,
                "bad_kinds": dict(self.bad_kinds),
                "uploads": asdict(self.uploads),
                "failure": None if self.failure is None else errors.to_json(self.failure),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> UnitResult:
        """The result that :meth:`to_json` wrote."""
        data = json.loads(text)
        return cls(
            number=data["number"],
            outcomes=tuple(outcome_from_json(each) for each in data["outcomes"]),
            data_files=tuple(FinishedFile.of_json(each) for each in data["data_files"]),
            rows=data["rows"],
            letter_files=tuple(FinishedFile.of_json(each) for each in data["letter_files"]),
            unknown_fields=data["unknown_fields"],
            seconds=data["seconds"],
            bad_kinds=data["bad_kinds"],
            uploads=UploadCounts(**data["uploads"]),
            failure=None if data["failure"] is None else errors.from_json(data["failure"]),
        )


def outcome_to_json(outcome: FileOutcome) -> dict[str, Any]:
    """The outcome with its kind beside its fields."""
    return {"outcome": type(outcome).__name__, **asdict(outcome)}


def outcome_from_json(data: Mapping[str, Any]) -> FileOutcome:
    """The outcome that was written with its kind beside its fields."""
    kind = _OUTCOMES[data["outcome"]]
    return kind(**{name: value for name, value in data.items() if name != "outcome"})
