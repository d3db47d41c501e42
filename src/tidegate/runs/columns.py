"""The tracker of column sources: the greatest value read per watermark column, and a provider's copy of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.columns.planner import AHEAD_REMEDY, plan_columns, stored_ahead
from tidegate.core.columns.state import ColumnState, column_watermark_text, decode_columns, encode_columns, shown_values
from tidegate.errors import StateError
from tidegate.protocol.change import State
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.position import Payer, Position
from tidegate.protocol.providers import KIND as COPY
from tidegate.protocol.providers import ProviderCopy, check_copy, copy_debt, is_same
from tidegate.protocol.store import PositionStore
from tidegate.reports.correction import WatermarkMove
from tidegate.reports.run import Check, ColumnSourcePlan
from tidegate.runs.bound_source import AnySource, ColumnBound, named_position
from tidegate.runs.pass_ import Pass, PassRetries, Walk
from tidegate.runs.replay_record import replay_source
from tidegate.runs.tracker import Backlog, ConfirmMove, Summary, TrackerDefaults, WatermarkEdit
from tidegate.sources.reader import explained
from tidegate.specs.columns import ColumnSource, HttpRead, JdbcRead, TableRead, WatermarkMode
from tidegate.specs.project import PipelineSpec

NO_LOOK = "backlog unknown: only a run asks this source"

if TYPE_CHECKING:
    from tidegate.protocol.providers import BaseMetadataProvider


@dataclass(frozen=True, slots=True)
class ColumnTracker(TrackerDefaults):
    """The watermark of one column source; ``provider`` has a copy of it, if there is one."""

    key: SourceKey
    source: ColumnSource
    provider: BaseMetadataProvider | None

    kind: ClassVar[str] = "column"
    reads: ClassVar[str] = "is followed by columns"
    replay_hint: ClassVar[str] = "allowed here: a pipeline whose source is files"
    letters: ClassVar[None] = None
    not_compared: ClassVar[str | None] = (
        "followed by columns: its rows are not compared with the source; a replay reads a range of them again"
    )
    retries: ClassVar[PassRetries] = PassRetries(5)

    @property
    def identity(self) -> Identity:
        """What is read and, of a lexicographic cursor, its columns in order: in another order its values mean
        nothing.
        """
        source = self.source
        is_cursor = source.mode is WatermarkMode.TUPLE
        cursor = f"tuple: {', '.join(source.watermark_columns)}" if is_cursor else None
        return Identity(self.kind, source.uri, cursor, source.notes, source.former_uri)

    def payers(self, positions: PositionStore) -> Mapping[str, Payer]:
        """The provider's copy."""
        return {COPY: ProviderCopy(self.provider, positions.position).pay}

    def decode(self, recorded: State | None) -> ColumnState | None:
        return None if recorded is None else decode_columns(recorded)

    def fresh(self) -> ColumnState:
        return ColumnState()

    def encode(self, state: ColumnState) -> dict[str, object]:
        return encode_columns(state)

    def follow_ups(self, before: ColumnState | None, after: ColumnState) -> tuple[Mapping[str, Any], ...]:
        """The provider is told the new watermark."""
        if self.provider is None:
            return ()
        return (copy_debt(str(self.key), after.text(), None if before is None else before.text()),)

    def check_position(self, positions: PositionStore, position: Position, *, read_only: bool) -> None:
        """Stop where the provider's copy is not the log's."""
        with named_position(position):
            state = self.decode(position.state)
        text = None if state is None else state.text()
        has_moved = lambda: positions.position() > position.version  # noqa: E731
        check_copy(self.provider, str(self.key), text, moved=has_moved, read_only=read_only)

    def replays(self, source: ColumnBound, pipeline: PipelineSpec) -> AnySource:
        """Replays are a source of their own beside the production one."""
        return replay_source(source, pipeline)

    def walk(self, run: Pass) -> Walk:
        """Fix the bounds, read, load."""
        from tidegate.runs.column_walk import ColumnWalk

        return ColumnWalk(run)

    def summary(self, state: ColumnState | None) -> Summary:
        if state is None:
            return Summary("columns")
        return Summary(
            "columns",
            watermark=column_watermark_text(state),
            value=state.text(),
            updated=state.updated,
            partitions={name: "null" if value is None else value for name, value in shown_values(state.values).items()},
        )

    def plan_of(self, source: ColumnBound, now: datetime, *, accept_new_partitions: bool = False) -> ColumnSourcePlan:
        """What the next pass would ask for, by the same steps, with nothing written."""
        opened = source.open(read_only=True)
        pipeline, read = source.pipeline, source.source
        plan = plan_columns(pipeline.name, read, pipeline.sink.load, source.state_of(opened), opened.version, now)
        return ColumnSourcePlan(
            *source.names,
            table_uri=source.table_uri,
            kind=self.type_name,
            source_uri=read.uri,
            load_type=pipeline.sink.load.type.value,
            position=opened.version,
            stored=shown_values(plan.stored),
            effective=shown_values(plan.effective),
            predicate=explained(read, plan.reads),
            full=plan.full,
            cap=_cap(source),
            window=plan.window,
            notes=(*opened.warnings, *plan.notes),
        )

    def backlog(self, source: ColumnBound, state: ColumnState | None, version: int, now: datetime) -> Backlog:
        """Unknown: the source itself is not asked."""
        if state is None or source.pipeline.sink.load.type.reads_everything:
            return Backlog(notes=(NO_LOOK,))
        ahead = (f"{told}; {AHEAD_REMEDY}" for told in stored_ahead(self.source, state.values, now))
        return Backlog(notes=(NO_LOOK, *ahead))

    def edit(self, source: ColumnBound, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Move the watermark, because a person says so."""
        from tidegate.runs.column_edit import edit_columns

        return edit_columns(source, edit, now, confirm)

    def doubles(self, source: ColumnBound) -> bool:
        """Whether rows are appended, and not replaced by their keys."""
        return not source.pipeline.sink.load.type.is_idempotent

    def stored(self, state: Any) -> str:
        """The watermark in brackets."""
        return f" ({column_watermark_text(state) or 'no watermark'})"

    def source_checks(self, source: ColumnBound) -> list[Check]:
        """Whether the source can be reached, and what is odd about it."""
        from tidegate.runs.checks import column_checks

        return column_checks(source)

    def table_checks(self, source: ColumnBound, name: str, position: Position, state: Any) -> Iterator[Check]:
        """What is odd about the position."""
        from tidegate.runs.checks import column_table_checks

        return column_table_checks(source, name, position, state)

    def further_checks(self, source: ColumnBound) -> list[Check]:
        """Whether the state provider answers."""
        from tidegate.runs.checks import provider_checks

        return provider_checks(source)

    @property
    def type_name(self) -> str:
        """What kind of source it is, in the word of the configuration."""
        match self.source.read:
            case JdbcRead():
                return "jdbc"
            case TableRead(format=kind):
                return kind.value
            case HttpRead():
                return "http"
            case _:
                return "python"

    def has_same_copy(self, state: ColumnState | None) -> bool:
        """Whether the provider, if there is one, has this watermark; what it has may be no watermark at all."""
        if self.provider is None:
            return True
        found = self.provider.get_watermark(str(self.key))
        try:
            return is_same(found, None if state is None else state.text())
        except StateError:
            return False

    def for_edit(self, source: ColumnBound) -> ColumnBound:
        """The source for a person who moves the watermark: whatever the provider has is replaced."""
        pay = ProviderCopy(self.provider, source.positions.position, overwrite=True).pay
        return replace(source, positions=source.positions.paying({COPY: pay}))


def _cap(source: ColumnBound) -> str:
    """How the upper bound comes about."""
    read = source.source
    if not read.watermark_columns:
        return "none: without watermark_columns everything is read each time"
    if source.pipeline.sink.load.type.reads_everything:
        return "none: the table is replaced by what the source holds"
    lag = f", and not younger than {read.safety_lag} before the run" if read.safety_lag else ""
    match read.read:
        case JdbcRead() | TableRead() if _asked_first(read.read):
            return f"the greatest value when the run begins, asked first{lag}"
        case HttpRead(watermark=params) if params.to_param is not None:
            return f"the moment when the run begins, sent as {params.to_param!r}{lag}"
        case _:
            return f"the greatest value of what is read{lag}"


def _asked_first(read: JdbcRead | TableRead) -> bool:
    return isinstance(read, JdbcRead) or read.format.is_pushed_down
