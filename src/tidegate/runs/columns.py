"""The tracker of column sources: the greatest value read per watermark column, and a provider's copy of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.columns.planner import AHEAD_REMEDY, plan_columns, stored_ahead
from tidegate.core.columns.state import ColumnState, column_watermark_text, decode_columns, encode_columns, shown_values
from tidegate.core.columns.values import is_above, value_of
from tidegate.errors import StateError, TidegateError, WatermarkError
from tidegate.protocol.change import Change, State
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.position import Payer, Position, utc_now
from tidegate.protocol.providers.copy import KIND as COPY
from tidegate.protocol.providers.copy import ProviderCopy, check_copy, debt, is_same
from tidegate.protocol.store import PositionStore
from tidegate.reports.correction import FileSet, WatermarkMove
from tidegate.reports.run import Check, ColumnSourcePlan
from tidegate.runs.bound_source import AnySource, ColumnBound, named_position
from tidegate.runs.checks import answers, guarded, jdbc_checks
from tidegate.runs.pass_ import Pass, PassRetries, Walk
from tidegate.runs.replay_record import replay_source
from tidegate.runs.tracker import Backlog, ConfirmMove, Offer, Summary, Tracker, WatermarkEdit
from tidegate.schema.names import spelled
from tidegate.sources.reader import explained
from tidegate.specs.columns import ColumnSource, HttpRead, JdbcRead, TableRead, Value, Watermark, WatermarkMode
from tidegate.specs.project import PipelineSpec
from tidegate.storage.listing_scope import Scope
from tidegate.storage.stores import open_store

NULL = "null"
_MOVES = re.compile("upd|modif|chang", re.IGNORECASE)
"""What the name of a column has in it whose value moves when a row changes."""
NO_LOOK = "backlog unknown: only a run asks this source"

if TYPE_CHECKING:
    from tidegate.protocol.providers.base import BaseMetadataProvider


@dataclass(frozen=True, slots=True)
class ColumnTracker(Tracker):
    """The watermark of one column source; ``provider`` has a copy of it, if there is one."""

    key: SourceKey
    source: ColumnSource
    provider: BaseMetadataProvider | None

    kind: ClassVar[str] = "column"
    reads: ClassVar[str] = "is followed by columns"
    offers: ClassVar[frozenset[Offer]] = frozenset({"replay_range"})
    replay_hint: ClassVar[str] = "allowed here: a pipeline whose source is files"
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
        return (debt(str(self.key), after.text(), None if before is None else before.text()),)

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
        """Set the values of columns, or forget them all; a provider's copy moves with them."""
        if edit.to is not None or (edit.values is None) != edit.reset:
            wanted = "values of its watermark columns (values)"
            raise TidegateError(f"the watermark of {source.pipeline.name!r} is something else", f"give {wanted}")
        if edit.partition is not None:
            raise TidegateError(
                f"{source.pipeline.name!r} is followed by columns and has no partitions", "leave partition out"
            )
        texts = self._spelled(edit.values or {})
        source = self.for_edit(source)
        opened = source.positions.open()
        if opened.table_version < 0:
            raise TidegateError(
                f"{self.key}: there is no table yet, so there is no watermark to move", "run the pipeline first"
            )
        before: ColumnState | None = source.state_of(opened)
        after = ColumnState({}, frozenset(), now)
        if edit.values is not None:
            stored: Watermark = {} if before is None else before.values
            given = {name: _value(name, text, stored.get(name)) for name, text in texts.items()}
            kept = frozenset() if before is None else before.inclusive - set(texts)
            after = ColumnState({**stored, **given}, kept | (set(texts) if edit.inclusive else set()), now)
        is_there = before is not None and (before.values, before.inclusive) == (after.values, after.inclusive)
        same = is_there and self._has_same_copy(after)
        action = "watermark reset" if edit.reset else "watermark set"
        move = WatermarkMove(
            *source.names,
            action=action,
            partition=None,
            before=column_watermark_text(before),
            after=column_watermark_text(after),
            read_again=FileSet(),
            never_read=FileSet(),
            notes=(*opened.warnings, *self._remarks(source, before, after, same=same)),
            version=opened.version,
            table_version=opened.table_version,
            tracking="columns",
        )
        if same or not confirm(move):
            return move
        state = self.encode(after)
        change = Change(state=state, embedded=state, debts=self.follow_ups(before, after), action=action)
        done = source.positions.commit(opened, change)
        return replace(move, version=done.version, table_version=done.table_version, applied=True)

    def _spelled(self, values: Mapping[str, str]) -> dict[str, str]:
        """Texts by watermark columns, as those are spelled."""
        known = self.source.watermark_columns
        texts = {spelled(name, known): text for name, text in values.items()}
        unknown = [name for name in texts if name not in known]
        if unknown:
            raise TidegateError(
                f"{self.key}: {unknown[0]!r} is not a watermark column", f"allowed: {', '.join(known) or 'none'}"
            )
        return texts

    def _remarks(
        self, source: ColumnBound, before: ColumnState | None, after: ColumnState, *, same: bool
    ) -> Iterator[str]:
        """What a move means for rows; a watermark that lies ahead stops every run."""
        load = source.pipeline.sink.load.type
        if same:
            yield "the watermark is there already: nothing changes"
        elif not self._has_same_copy(before):
            yield "the state provider has another watermark, whose place this one takes"
        old = {} if before is None else before.values
        for column in sorted({*old, *after.values}) if not same else ():
            was, now = old.get(column), after.values.get(column)
            if was is not None and (now is None or is_above(was, now)):
                then = "replaced by what the source holds" if load.is_idempotent else "in the table twice then"
                yield f"{column} moves down: rows above it are read again, and are {then}"
            elif now is not None and (was is None or is_above(now, was)):
                unread = "rows at or below it that were not read are never read"
                yield f"{column} moves up: {unread}; only a replay reads them"
        if after.updated is not None and not load.reads_everything:
            for told in stored_ahead(self.source, after.values, after.updated):
                yield f"{told}; runs stop until then"

    def doubles(self, source: ColumnBound) -> bool:
        """Whether rows are appended, and not replaced by their keys."""
        return not source.pipeline.sink.load.type.is_idempotent

    def stored(self, state: Any) -> str:
        """The watermark in brackets."""
        return f" ({column_watermark_text(state) or 'no watermark'})"

    def source_checks(self, source: ColumnBound) -> list[Check]:
        """Whether the source can be reached, and what is odd about it."""
        name, read = f"source {self.key}", self.source.read

        def look() -> Iterator[Check]:
            yield _reached(name, self.type_name, self.source)
            if isinstance(read, JdbcRead):
                yield from jdbc_checks(name, read, self.source)
            by_window = source.pipeline.sink.load.replace_by_watermark
            for column in filter(_MOVES.search, self.source.watermark_columns if by_window else ()):
                yield Check(
                    name,
                    "warn",
                    f"replace_by_watermark: {column!r} looks like the time of an update; a row whose value moves below"
                    " the window is not seen until a replay",
                    "follow a column whose values stay, or replay such ranges: tidegate replay",
                )

        return guarded(name, look)

    def table_checks(
        self, source: ColumnBound, name: str, position: Position, state: ColumnState | None
    ) -> Iterator[Check]:
        """A watermark that lies ahead; whether the provider says the same was looked at when the position opened."""
        if not source.pipeline.sink.load.type.reads_everything:
            for told in stored_ahead(self.source, {} if state is None else state.values, utc_now()):
                yield Check(name, "fail", told, AHEAD_REMEDY)

    def further_checks(self, source: ColumnBound) -> list[Check]:
        """Whether the state provider answers."""
        name, provider = f"state of {self.key}", self.provider
        if provider is None:
            return []

        def look() -> Iterator[Check]:
            found = provider.get_watermark(str(self.key))
            yield Check(name, "ok", f"the provider answers: {found or 'nothing saved'}")

        return guarded(name, look)

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

    def _has_same_copy(self, state: ColumnState | None) -> bool:
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


def _value(column: str, text: str, stored: Value | None) -> Value | None:
    """The value that a person means; ``null`` is none."""
    try:
        return None if text == NULL else value_of(text, stored)
    except WatermarkError as error:
        other = (
            "" if stored is None else f"; if the column has changed its type, set it to {NULL} first, then to the value"
        )
        raise WatermarkError(f"column {column!r}: {error.problem}", f"{error.remedy}{other}") from error


def _reached(name: str, kind: str, source: ColumnSource) -> Check:
    """Whether somebody listens at the source, or its folder can be listed."""
    if not isinstance(source.read, TableRead):
        return answers(name, kind, source)
    location = source.read.location
    if next(iter(open_store(location).list(scope=Scope())), None) is None:
        return Check(name, "warn", f"{kind}: there is nothing at {location.uri}", "correct source_uri")
    return Check(name, "ok", f"{kind}: {location.uri} answers")
