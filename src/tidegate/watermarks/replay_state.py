"""How far a replay has come: which chunks of which range are finished. Its own record, beside the production watermark.

``{"schema_version": 1, "kind": "replay", "watermark": text with start and end, "column": …, "interval": …, "finished":
[[first, last], …], "begun": position, "update_ts": seconds}``: numbers of chunks, as ranges that include both ends.
Where the bounds have no zone, ``"timezone"`` is the one whose clocks decide where chunks end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import groupby

from tidegate.column_specs import Value
from tidegate.errors import ConfigError, StateError, WatermarkError
from tidegate.watermarks.chunks import Chunk, ChunkInterval, chunks, contiguous_end
from tidegate.watermarks.json_shape import SCHEMA_VERSION, Node, check_version
from tidegate.watermarks.serializer import WatermarkSerializer

KIND = "replay"


@dataclass(frozen=True, slots=True)
class ReplayState:
    """A range of one column in chunks, and the numbers of those that are finished.

    ``begun`` is the position of the record when this replay began: of two records about the same chunks, the one that
    began later counts.
    """

    column: str
    start: Value
    end: Value
    interval: ChunkInterval | None = None
    finished: frozenset[int] = frozenset()
    begun: int = 0
    updated: datetime | None = None
    timezone: str | None = None

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks, in order."""
        return chunks(self.start, self.end, self.interval, self.timezone)

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
        """Whether both are about the same chunks; the same moment in another zone may make others."""
        return _asked(self) == _asked(other)

    def with_finished(self, number: int, now: datetime) -> ReplayState:
        """The state once that chunk is committed."""
        return replace(self, finished=self.finished | {number}, updated=now)


def encode(state: ReplayState) -> dict[str, object]:
    """As a document has it."""
    bounds, column, interval, timezone = _asked(state)
    return {
        **({} if timezone is None else {"timezone": timezone}),
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "watermark": bounds,
        "column": column,
        "interval": interval,
        "finished": [[first, last] for first, last in _ranges(sorted(state.finished))],
        "begun": state.begun,
        "update_ts": 0 if state.updated is None else int(state.updated.timestamp()),
    }


def decode(data: Mapping[str, object]) -> ReplayState:
    """The recorded state; ``StateError`` where it is not one of a replay."""
    root = Node(data, "state")
    check_version(root)
    try:
        return _decoded(root)
    except (StateError, ConfigError, WatermarkError, KeyError, ValueError, InvalidOperation) as error:
        told = getattr(error, "problem", repr(error))
        raise StateError(
            f"the record of the replay is damaged ({told})", "start it anew with `tidegate replay … --fresh`"
        ) from error


def _decoded(root: Node) -> ReplayState:
    if root.get("kind").text() != KIND:
        raise root.get("kind").refusal(repr(KIND))
    bounds = WatermarkSerializer.deserialize(root.get("watermark").text()) or {}
    seconds = root.get("update_ts").integer()
    state = ReplayState(
        root.get("column").text(),
        bounds["start"],
        bounds["end"],
        _interval(root.get("interval")),
        frozenset(_numbers(root.get("finished"))),
        root.get("begun").integer(),
        datetime.fromtimestamp(seconds, UTC) if seconds else None,
        root.get("timezone").optional_text(),
    )
    if state.finished and max(state.finished) >= len(state.chunks):
        raise root.get("finished").refusal(f"numbers below {len(state.chunks)}")
    return state


def _asked(state: ReplayState) -> tuple[str, str, dict[str, str] | None, str | None]:
    """What the replay is about, as it is kept."""
    bounds = WatermarkSerializer.serialize({"end": state.end, "start": state.start})
    interval = None if state.interval is None else {state.interval.unit: str(state.interval.size)}
    return bounds, state.column, interval, state.timezone


def _interval(node: Node) -> ChunkInterval | None:
    if node.is_null:
        return None
    ((unit, size),) = node.entries()
    text = size.text()
    return ChunkInterval(unit, int(text) if text.isdigit() else Decimal(text))


def _numbers(node: Node) -> Iterator[int]:
    for each in node.items():
        first, last = each.items()
        yield from range(first.integer(), last.integer() + 1)


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbours together: 1, 2, 3, 7 is 1 to 3 and 7 to 7."""
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        found = [number for _, number in group]
        yield found[0], found[-1]
