"""How far a replay has come: which chunks of which range are finished. Its own record, beside the production watermark.

``{"schema_version": 1, "kind": "replay", "watermark": text with start and end, "column": …, "interval": …, "finished":
[[first, last], …], "update_ts": seconds}``: numbers of chunks, as ranges that include both ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby

from tidegate.column_specs import Value
from tidegate.errors import StateError
from tidegate.watermarks.chunks import Chunk, ChunkInterval, chunks, contiguous_end
from tidegate.watermarks.codec import SCHEMA_VERSION, check_version
from tidegate.watermarks.json_shape import Node
from tidegate.watermarks.serializer import WatermarkSerializer

KIND = "replay"


@dataclass(frozen=True, slots=True)
class ReplayState:
    """A range of one column in chunks, and the numbers of those that are finished."""

    column: str
    start: Value
    end: Value
    interval: ChunkInterval | None = None
    finished: frozenset[int] = frozenset()
    updated: datetime | None = None

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks, in order."""
        return chunks(self.start, self.end, self.interval)

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left."""
        return len(self.finished) == len(self.chunks)

    @property
    def reached(self) -> Value | None:
        """Up to where everything is finished from the start on; None where the first chunk is not."""
        every = self.chunks
        return contiguous_end(every, {every[number] for number in self.finished})

    def is_same(self, other: ReplayState) -> bool:
        """Whether both are about the same chunks."""
        return replace(self, finished=frozenset(), updated=None) == replace(other, finished=frozenset(), updated=None)

    def with_finished(self, number: int, now: datetime) -> ReplayState:
        """The state once that chunk is committed."""
        return replace(self, finished=self.finished | {number}, updated=now)


def encode(state: ReplayState) -> dict[str, object]:
    """As a document has it."""
    bounds = WatermarkSerializer.serialize({"end": state.end, "start": state.start})
    size = None if state.interval is None else {state.interval.unit: str(state.interval.size)}
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "watermark": bounds,
        "column": state.column,
        "interval": size,
        "finished": [[first, last] for first, last in _ranges(sorted(state.finished))],
        "update_ts": 0 if state.updated is None else int(state.updated.timestamp()),
    }


def decode(data: Mapping[str, object]) -> ReplayState:
    """The recorded state; ``StateError`` where it is not one of a replay."""
    check_version(Node(data, "state"))
    try:
        bounds = WatermarkSerializer.deserialize(str(data["watermark"])) or {}
        seconds = data["update_ts"]
        return ReplayState(
            str(data["column"]),
            bounds["start"],
            bounds["end"],
            _interval(data["interval"]),
            frozenset(_numbers(data["finished"])),
            datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) and seconds else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"the record of the replay is damaged ({error!r})", "start it anew with `tidegate replay … --fresh`"
        ) from error


def _interval(data: object) -> ChunkInterval | None:
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise TypeError("interval")
    ((unit, size),) = data.items()
    text = str(size)
    return ChunkInterval(str(unit), int(text) if text.isdigit() else Decimal(text))


def _numbers(data: object) -> Iterator[int]:
    if not isinstance(data, list):
        raise TypeError("finished")
    for first, last in data:
        yield from range(int(first), int(last) + 1)


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbours together: 1, 2, 3, 7 is 1 to 3 and 7 to 7."""
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        found = [number for _, number in group]
        yield found[0], found[-1]
