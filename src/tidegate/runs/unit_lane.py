"""Where work units are carried out: the port that a pass over them needs beside the lanes for files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tidegate.runs.lanes import WaitingFrame
from tidegate.sources.units.work import UnitWave, WaveResult
from tidegate.unit_specs import UnitSource

if TYPE_CHECKING:
    from tidegate.sink.batches import Batch
    from tidegate.sink.unit_replacing import ReplacedUnit


class UnitLane(Protocol):
    """Spark, as far as work units need it."""

    def prepare(self) -> None:
        """Get ready; to be called before several threads use the lane."""

    def carry_out(self, wave: UnitWave) -> WaveResult:
        """Read and write the work units of a wave; a unit that fails keeps no other from being done.

        Raises only where none of them could be tried.
        """

    def replace_units(self, batch: Batch, source: UnitSource, replaced: Sequence[ReplacedUnit]) -> WaitingFrame:
        """Rows of a work area, to take the place of those of ``replaced``, or with equal keys, in one commit."""
