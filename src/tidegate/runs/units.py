"""The tracker of work units: which time ranges were read of each unit, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from tidegate.core.units.state import UnitState, decode_units, encode_units, unit_watermark_text
from tidegate.errors import ConfigError
from tidegate.protocol.change import State
from tidegate.protocol.documents import Recorded
from tidegate.protocol.identity import Identity, SourceKey
from tidegate.protocol.notes import read_attempts
from tidegate.protocol.position import Position
from tidegate.reports.correction import WatermarkMove
from tidegate.reports.run import Check
from tidegate.reports.units import UnitSourcePlan
from tidegate.runs.bound_source import UnitBound
from tidegate.runs.pass_ import Pass, PassRetries, Walk
from tidegate.runs.tracker import Backlog, ConfirmMove, Summary, TrackerDefaults, WatermarkEdit
from tidegate.runs.unit_source import attempted, coverage_text, failed_units
from tidegate.specs.units import Replace, UnitSource


@dataclass(frozen=True, slots=True)
class UnitTracker(TrackerDefaults):
    """What was read of one source of work units."""

    key: SourceKey
    source: UnitSource

    kind: ClassVar[str] = "unit"
    reads: ClassVar[str] = "has work units"
    replay_hint: ClassVar[str] = "for those there is `tidegate units reset`"
    letters: ClassVar[None] = None
    not_compared: ClassVar[str | None] = (
        "work units: its rows are not compared with the source; `tidegate units reset` has some read again"
    )
    retries: ClassVar[PassRetries] = PassRetries(50, in_a_row=True)
    """Each loss is to another run that has committed work units of the same plan, so that fewer are left."""

    @property
    def identity(self) -> Identity:
        """What is read."""
        rows = self.source.rows
        return Identity(self.kind, self.source.uri, None, rows.notes, rows.former_uri)

    def decode(self, recorded: State | None) -> UnitState | None:
        return None if recorded is None else decode_units(recorded)

    def fresh(self) -> UnitState:
        return UnitState(zone=self.source.timezone)

    def encode(self, state: UnitState) -> dict[str, object]:
        return encode_units(state)

    def walk(self, run: Pass) -> Walk:
        """Wave after wave."""
        from tidegate.runs.unit_walk import UnitWalk

        return UnitWalk(run)

    def summary(self, state: UnitState | None) -> Summary:
        if state is None:
            return Summary("units")
        text = unit_watermark_text(state)
        return Summary(
            "units",
            watermark=text,
            value=text,
            updated=state.updated,
            partitions=_Coverage(state),
            failed_units=failed_units(state),
            retired=dict(state.retired),
        )

    def plan_of(self, source: UnitBound, now: datetime, *, accept_new_partitions: bool = False) -> UnitSourcePlan:
        """What the next run would read, and why it would not read the rest."""
        from tidegate.runs.unit_reports import plan_of

        return plan_of(source, now, accept_new_partitions=accept_new_partitions)

    def known_state(self, source: UnitBound, recorded: Recorded | None) -> UnitState | None:
        """The recorded coverage or, where there is none, what is known of failures."""
        if recorded is not None:
            return self.decode(recorded.state)
        return attempted(source, read_attempts(source.table_store, source.key, self.identity))

    def backlog(self, source: UnitBound, state: UnitState | None, version: int, now: datetime) -> Backlog:
        """What a run would do now; servers are not asked."""
        from tidegate.runs.unit_reports import backlog_of

        return backlog_of(source, state, version, now)

    def edit(self, source: UnitBound, edit: WatermarkEdit, now: datetime, confirm: ConfirmMove) -> WatermarkMove:
        """Work units have commands of their own."""
        raise ConfigError(
            (f"pipeline {source.pipeline.name!r} has work units; for those there is `tidegate units reset|retry`",)
        )

    def doubles(self, source: UnitBound) -> bool:
        """Whether rows are appended, and not replaced by their keys."""
        return self.source.replace is not Replace.MERGE_KEYS

    def stored(self, state: Any) -> str:
        """The watermark in brackets."""
        return f" ({unit_watermark_text(state) or 'nothing read'})"

    def source_checks(self, source: UnitBound) -> list[Check]:
        """Whether the source can be reached, and what is odd about it."""
        from tidegate.runs.checks import unit_checks

        return unit_checks(source)

    def table_checks(self, source: UnitBound, name: str, position: Position, state: Any) -> Iterator[Check]:
        """What is odd about the position."""
        from tidegate.runs.checks import unit_table_checks

        return unit_table_checks(source, name, position, state)


@dataclass(frozen=True, slots=True)
class _Coverage(Mapping[str, str]):
    """What was read of each unit, in words that are made when somebody asks: a source may have very many units."""

    state: UnitState

    def __getitem__(self, unit: str) -> str:
        return coverage_text(self.state.entries[unit].coverage, self.state.zone)

    def __iter__(self) -> Iterator[str]:
        return iter(self.state.entries)

    def __len__(self) -> int:
        return len(self.state.entries)
