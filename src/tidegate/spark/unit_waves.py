"""Who carries out a wave of work units, by what their source is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.column_specs import FunctionRead, JdbcRead
from tidegate.sources.units.work import UnitWave, WaveResult
from tidegate.spark.readers.units import FunctionUnits, JdbcUnits
from tidegate.spark.unit_frames import carry_out_frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def carry_out(session: SparkSession, wave: UnitWave, stopped: Callable[[], bool]) -> WaveResult:
    """Read and write the work units of ``wave``; ``stopped`` tells whether the run was told to stop."""
    match wave.source.read:
        case JdbcRead() as read:
            return carry_out_frames(wave, JdbcUnits(session, wave, read), stopped)
        case FunctionRead() as read:
            return carry_out_frames(wave, FunctionUnits(session, wave, read), stopped)
        case _:
            from tidegate.spark.unit_tasks import carry_out_tasks

            return carry_out_tasks(session, wave, stopped)
