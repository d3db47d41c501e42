"""What the tasks of a wave tell about their own work, added up for the event stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tidegate.observe.events import WaveFinished
from tidegate.sink.results import UnitResult
from tidegate.storage.uploads import UploadCounts


def wave_finished(pipeline: str, source: str, results: Sequence[UnitResult], seconds: float) -> WaveFinished:
    """What tasks brought, for whoever listens."""
    files = [file for result in results for file in result.data_files]
    uploads = sum((result.uploads for result in results), UploadCounts())
    return WaveFinished(
        pipeline,
        source,
        units=len(results),
        failed_units=sum(result.failure is not None for result in results),
        data_files=len(files),
        bytes_written=sum(file.size for file in files),
        write_seconds=tuple(file.write_seconds for file in files),
        uploads=uploads.files,
        multipart_uploads=uploads.multipart,
        most_uploads=uploads.most_files,
        most_parts=uploads.most_parts,
        seconds=seconds,
    )


def kinds_of(results: Sequence[UnitResult]) -> dict[str, int]:
    """How many bad lines of each kind the results hold."""
    kinds: Counter[str] = Counter()
    for result in results:
        kinds.update(result.bad_kinds)
    return dict(kinds)
