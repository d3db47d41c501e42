"""What the tasks of a wave tell about their own work, added up for the event stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidegate.observe.events import WaveFinished
from tidegate.sink.results import UnitResult


def wave_finished(names: tuple[str, str], results: Sequence[UnitResult]) -> WaveFinished:
    """What a wave wrote."""
    files = [file for result in results for file in result.data_files]
    return WaveFinished(
        *names,
        data_files=len(files),
        data_bytes=sum(file.size for file in files),
        write_seconds=tuple(file.write_seconds for file in files),
    )


def kinds_of(results: Sequence[UnitResult]) -> dict[str, int]:
    """How many bad lines of each kind the results hold."""
    kinds: Counter[str] = Counter()
    for result in results:
        kinds.update(result.bad_kinds)
    return dict(kinds)
