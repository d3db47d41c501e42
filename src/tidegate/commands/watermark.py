"""Watermarks: shown, as they were, and edited by hand.

The consequences are worked out first, from the recorded state and a listing, and shown to whoever has to agree. The
new state is then committed by the ordinary protocol: of two at once one is told that the other was first. Rows are
never touched. Open dead letters of files that will be read from their start again are answered by the same commit: the
run finds their lines anew.

The new state is committed by the ordinary protocol, alone: no row is touched. A provider's copy moves with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.commands.dead_letters import DeadLetterSelection, answered, chosen
from tidegate.core.columns.planner import stored_ahead
from tidegate.core.columns.state import ColumnState, column_watermark_text
from tidegate.core.columns.values import is_above, value_of
from tidegate.core.files.codec import embedded, encode
from tidegate.core.files.discovery import accepts
from tidegate.core.files.edit import Consequences, Found, blank, consequences, moved_to, without
from tidegate.core.files.paths import SourceFile, join, split
from tidegate.core.files.state import PathState
from tidegate.errors import TidegateError, WatermarkError
from tidegate.protocol.change import Change
from tidegate.protocol.position import Position
from tidegate.reports.correction import FileSet, WatermarkMove
from tidegate.runs.bound_source import ColumnPlace, Place, encoded, watermarks_of
from tidegate.runs.source_report import DeadLetters
from tidegate.schema.dead_letter import READ_AGAIN, Letter
from tidegate.schema.names import spelled
from tidegate.sink.parquet_file import uuid7
from tidegate.sources.file_discovery import scope_of
from tidegate.specs.columns import Value, Watermark
from tidegate.specs.project import PathSource
from tidegate.storage.listing_scope import Scope

Confirm = Callable[[WatermarkMove], bool]


@dataclass(frozen=True, slots=True)
class EditTarget:
    """Where a watermark goes: to ``name`` in ``partition``; without a name it is forgotten, without both all is."""

    partition: str | None = None
    name: str | None = None

    @property
    def action(self) -> str:
        """What made the change, for the document and the ledger."""
        return "watermark reset" if self.name is None else "watermark set"

    def state(self, source: PathSource, before: PathState, now: datetime) -> PathState:
        """The state after the move."""
        if self.partition is None:
            return blank(now)
        if self.name is None:
            return without(source, before, self.partition, now)
        return moved_to(source, before, self.partition, self.name, now)


def target_of(source: PathSource, path: str) -> EditTarget:
    """The target that ``path`` names: relative to the source's location, or below it."""
    relative = path.removeprefix(f"{source.location.uri}/")
    levels = relative.split("/")
    if "://" in relative or not all(levels) or {".", ".."} & set(levels):
        raise TidegateError(
            f"{path!r} is not a file of source {source.name!r}",
            f"give its path below {source.location.uri}, for instance date=2026-01-28/hour=14/0007.ndjson.gz",
        )
    return EditTarget(*split(relative))


def move_watermark(place: Place, target: EditTarget, now: datetime, confirm: Confirm) -> WatermarkMove:
    """Move the watermark if ``confirm`` agrees to what it would mean; what was done, or would have been.

    ``CommitLost`` when a run, or somebody else, moved the source meanwhile: nothing was changed then.
    """
    opened = place.positions.open()
    if opened.state is None or opened.table_version < 0:
        raise TidegateError(
            f"{place.key}: nothing is recorded yet, so there is no watermark to move",
            "run the pipeline first; partition_filter bounds what a first run reads",
        )
    before = watermarks_of(opened)
    after = target.state(place.source, before, now)
    letters = [] if after == before else list(chosen(place, DeadLetterSelection()))
    files = frozenset(letter.file for letter in letters if letter.file is not None)
    scope = scope_of(place.source)
    found = consequences(place.source, before, after, _listed(place, target, scope), now, files)
    letters = [letter for letter in letters if letter.file in found.from_start]
    move = _foreseen(place, target, opened, before, after, found, len(letters))
    move = replace(move, notes=(*move.notes, *map(str, scope.left_out)))
    if after == before or not confirm(move):
        return move
    done = place.positions.commit(opened, _change(place, target, opened, after, letters))
    return replace(move, version=done.version, table_version=done.table_version, applied=True)


def _change(place: Place, target: EditTarget, opened: Position, after: PathState, letters: Sequence[Letter]) -> Change:
    """The new state, with answers to the letters of files that the next run reads from their start."""
    answers = answered(place, letters, READ_AGAIN, uuid7()) if letters else DeadLetters()
    state = encode(after)
    return Change(
        state=state,
        embedded=embedded(state),
        dead_letter_files=answers.files,
        debts=answers.debts(place, opened),
        letters=-len(letters),
        action=target.action,
    )


def _foreseen(
    place: Place,
    target: EditTarget,
    opened: Position,
    before: PathState,
    after: PathState,
    found: Consequences,
    letters: int,
) -> WatermarkMove:
    return WatermarkMove(
        pipeline=place.pipeline.name,
        source=place.source.name,
        action=target.action,
        partition=target.partition,
        before=_watermark(before, target.partition),
        after=_watermark(after, target.partition),
        read_again=_file_set(found.again),
        never_read=_file_set(found.never),
        notes=(
            *opened.warnings,
            *found.notes,
            *_letter_notes(letters),
            *_remarks(place, target, before, after, found),
        ),
        version=opened.version,
        table_version=opened.table_version,
        letters=letters,
    )


def _listed(place: Place, target: EditTarget, scope: Scope) -> Iterator[SourceFile]:
    """Every file that the move may be about, as a stream."""
    for info in place.source_store.list(target.partition or "", scope=scope):
        meant = target.partition is None or split(info.path)[0] == target.partition
        if meant and accepts(place.source, info.path) is None:
            yield SourceFile(info.path, info.size, info.etag)


def _file_set(found: Found) -> FileSet:
    return FileSet(found.files, found.bytes, tuple(found.examples))


def _watermark(state: PathState, partition: str | None) -> str | None:
    if partition is None:
        return state.value
    name = state.partition_watermarks.get(partition)
    return None if name is None else join(partition, name)


def _letter_notes(letters: int) -> Iterator[str]:
    if letters == 1:
        yield "1 dead letter of these files is answered: the run reads them anew"
    elif letters:
        yield f"{letters:,} dead letters of these files are answered: the run reads them anew"


def _remarks(
    place: Place, target: EditTarget, before: PathState, after: PathState, found: Consequences
) -> Iterator[str]:
    if after == before:
        yield "the watermark is there already: nothing changes"
    if found.again.files:
        yield (
            "rows of files that are read again are then in the table twice, unless you remove them first; to replace"
            " the rows of files instead, use `tidegate replay`"
        )
    if found.never.files:
        yield "files that are passed over stay out of the table; only `tidegate replay` reads them then"
    if target.name is not None and not found.listed:
        yield f"there is no file in partition {target.partition or '(top level)'!r} of the source"
    if target.partition is None and place.source.partition_filter is not None:
        yield "partition_filter bounds the next run like a first one: older partitions are not read again"


ColumnMovingConfirm = Callable[[WatermarkMove], bool]

NULL = "null"


def set_columns(
    place: ColumnPlace,
    values: Mapping[str, str],
    now: datetime,
    confirm: ColumnMovingConfirm,
    *,
    inclusive: bool = False,
) -> WatermarkMove:
    """Set the watermark of columns to values that are given as text, if ``confirm`` agrees to what that means."""
    known = place.source.watermark_columns
    values = {spelled(name, known): text for name, text in values.items()}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise TidegateError(
            f"{place.key}: {unknown[0]!r} is not a watermark column", f"allowed: {', '.join(known) or 'none'}"
        )
    place = place.moving_both()
    opened, before = _opened(place)
    stored: Watermark = {} if before is None else before.values
    wanted = {name: _given(name, text, stored.get(name)) for name, text in values.items()}
    kept = frozenset() if before is None else before.inclusive - set(values)
    after = ColumnState({**stored, **wanted}, kept | (set(values) if inclusive else set()), now)
    return _moved(place, opened, before, after, "watermark set", confirm)


def _given(column: str, text: str, stored: Value | None) -> Value | None:
    """The value that a person means; ``null`` is none."""
    try:
        return None if text == NULL else value_of(text, stored)
    except WatermarkError as error:
        other = (
            "" if stored is None else f"; if the column has changed its type, set it to {NULL} first, then to the value"
        )
        raise WatermarkError(f"column {column!r}: {error.problem}", f"{error.remedy}{other}") from error


def reset_columns(place: ColumnPlace, now: datetime, confirm: ColumnMovingConfirm) -> WatermarkMove:
    """Forget the watermark: the next run reads everything."""
    place = place.moving_both()
    opened, before = _opened(place)
    return _moved(place, opened, before, ColumnState({}, frozenset(), now), "watermark reset", confirm)


def _opened(place: ColumnPlace) -> tuple[Position, ColumnState | None]:
    """The position, whatever a provider's copy says: moving it is the way out where the two differ."""
    opened = place.positions.open()
    if opened.table_version < 0:
        raise TidegateError(
            f"{place.key}: there is no table yet, so there is no watermark to move", "run the pipeline first"
        )
    return opened, place.state_of(opened)


def _moved(
    place: ColumnPlace,
    opened: Position,
    before: ColumnState | None,
    after: ColumnState,
    action: str,
    confirm: ColumnMovingConfirm,
) -> WatermarkMove:
    is_there = before is not None and (before.values, before.inclusive) == (after.values, after.inclusive)
    same = is_there and place.has_same_copy(after)
    move = WatermarkMove(
        pipeline=place.pipeline.name,
        source=place.source.name,
        action=action,
        partition=None,
        before=column_watermark_text(before),
        after=column_watermark_text(after),
        read_again=FileSet(),
        never_read=FileSet(),
        notes=(*opened.warnings, *_remarks_column_moving(place, before, after, same=same), *_ahead(place, after)),
        version=opened.version,
        table_version=opened.table_version,
        tracking="columns",
    )
    if same or not confirm(move):
        return move
    state = encoded(after)
    change = Change(state=state, embedded=state, debts=place.debts(before, after), action=action)
    done = place.positions.commit(opened, change)
    return replace(move, version=done.version, table_version=done.table_version, applied=True)


def _ahead(place: ColumnPlace, after: ColumnState) -> Iterator[str]:
    """A watermark that lies ahead stops every run."""
    if after.updated is not None and not place.pipeline.sink.load.type.reads_everything:
        for told in stored_ahead(place.source, after.values, after.updated):
            yield f"{told}; runs stop until then"


def _remarks_column_moving(
    place: ColumnPlace, before: ColumnState | None, after: ColumnState, *, same: bool
) -> Iterator[str]:
    if same:
        yield "the watermark is there already: nothing changes"
        return
    if not place.has_same_copy(before):
        yield "the state provider has another watermark, whose place this one takes"
    old = {} if before is None else before.values
    idempotent = place.pipeline.sink.load.type.is_idempotent
    for column in sorted({*old, *after.values}):
        was, now = old.get(column), after.values.get(column)
        if was is not None and (now is None or is_above(was, now)):
            then = "replaced by what the source holds" if idempotent else "in the table twice then"
            yield f"{column} moves down: rows above it are read again, and are {then}"
        elif now is not None and (was is None or is_above(now, was)):
            yield f"{column} moves up: rows at or below it that were not read are never read; only a replay reads them"
