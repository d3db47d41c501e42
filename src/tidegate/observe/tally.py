"""How far each source of a run is, summed up from its events: the plain arithmetic of progress."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.wording import count, short, size, size_of


@dataclass(frozen=True, slots=True)
class Tally:
    """Where one pass over one source stands.

    ``files`` and ``bytes`` are committed or staged, ``wave_bytes`` and ``wave_share`` describe the tasks that run now.
    """

    stage: str = "waiting"
    finished: bool = False
    planned_files: int = 0
    planned_bytes: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    commits: int = 0
    staged: int = 0
    refused: int = 0
    letters: int = 0
    wave_bytes: int = 0
    wave_share: float = 0.0

    @property
    def bytes_so_far(self) -> int:
        """Committed bytes plus the estimated part of the running wave; never more than planned."""
        return min(self.planned_bytes, self.bytes + round(self.wave_bytes * self.wave_share))

    @property
    def share(self) -> float:
        """How much of what is planned is done, from 0 to 1."""
        return self.bytes_so_far / self.planned_bytes if self.planned_bytes else float(self.finished)

    @property
    def busy(self) -> bool:
        """Whether there is something planned that is not finished."""
        return self.planned_files > 0 and not self.finished

    def after(self, event: Event) -> Tally:
        """The tally with that event counted in."""
        match event:
            case events.PollStarted():
                return replace(Tally() if self.finished else self, stage="listing")
            case events.ComparisonProgressed():
                return replace(self, stage=f"{event.stage}: {event.count:,}")
            case events.AnotherRun():
                return replace(self, stage="waiting for another run")
            case events.SessionStarting():
                return replace(self, stage=f"starting Spark ({event.where})")
            case events.PlanMade():
                return replace(
                    self,
                    stage="planned",
                    planned_files=self.files + event.files,
                    planned_bytes=self.bytes + event.bytes,
                )
            case events.ReadFixed():
                return replace(self, stage="reading rows")
            case events.ChunkFinished():
                stage = f"{event.done:,} of {count(event.chunks, 'chunk')}"
                return replace(self, stage=stage, planned_bytes=event.chunks, bytes=event.done, wave_bytes=0)
            case events.WorkUnitsPlanned():
                return replace(self, stage="reading work units", planned_bytes=event.units, bytes=0, wave_bytes=0)
            case events.WorkUnitsFinished():
                stage = f"{event.done:,} of {count(event.planned, 'work unit')}"
                return replace(self, stage=stage, bytes=event.done + event.failed, wave_bytes=0)
            case events.WaveStarted():
                return replace(self, stage="reading", wave_bytes=event.bytes, wave_share=0.0)
            case events.WaveProgressed():
                return replace(self, stage="reading", wave_share=event.done / max(event.units, 1))
            case _:
                return self._after_result(event)

    def _after_result(self, event: Event) -> Tally:
        match event:
            case events.Committed():
                return replace(self._with_rows(event), stage="committed", commits=self.commits + 1)
            case events.Staged():
                return replace(self._with_rows(event), stage="staged", staged=self.staged + 1)
            case events.CommitContested():
                return replace(self, stage="planning again", wave_bytes=0, wave_share=0.0)
            case events.FileRefused():
                return replace(self, refused=self.refused + 1)
            case events.DeadLetters():
                return replace(self, letters=self.letters + event.records + event.files)
            case events.SourceFinished():
                return replace(self, stage="failed" if event.failed else event.state, finished=True)
            case events.SourceFailed():
                return replace(self, stage="failed", finished=True)
            case _:
                return self

    def _with_rows(self, event: events.Committed | events.Staged) -> Tally:
        return replace(
            self,
            files=self.files + event.source_files,
            bytes=self.bytes + event.source_bytes,
            rows=self.rows + event.rows,
            wave_bytes=0,
            wave_share=0.0,
        )

    @property
    def results(self) -> int:
        """How many commits and staged units there are so far."""
        return self.commits + self.staged

    def _results_words(self) -> str:
        return count(self.staged, "staged unit") if self.staged else count(self.commits, "commit")

    def short_words(self) -> str:
        """The numbers in as little space as a bar leaves on 80 columns; before there are any, the stage."""
        if not self.planned_files:
            return self.stage
        parts = [
            f"{self.files:,}/{count(self.planned_files, 'file')}",
            size_of(self.bytes_so_far, self.planned_bytes),
            f"{short(self.rows)} rows",
            self._results_words(),
        ]
        if self.refused:
            parts.append(f"{self.refused:,} failed")
        if self.letters:
            parts.append(f"{self.letters:,} bad")
        return ", ".join(parts)

    def words(self) -> str:
        """The numbers in one line: ``120 of 480 files, 1.2 of 4.0 GiB…``."""
        parts = [
            f"{self.files:,} of {count(self.planned_files, 'file')}",
            f"{size(self.bytes_so_far)} of {size(self.planned_bytes)}",
            count(self.rows, "row"),
            self._results_words(),
        ]
        if self.refused:
            parts.append(f"{count(self.refused, 'file')} failed")
        if self.letters:
            parts.append(count(self.letters, "dead letter"))
        return ", ".join(parts)


class Tallies:
    """The tallies of all sources, by ``(pipeline, source)``, in the order in which they appeared."""

    def __init__(self) -> None:
        self._by_source: dict[tuple[str, str], Tally] = {}

    def count(self, event: Event) -> Tally:
        """Count the event in and give the new tally of its source."""
        key = (event.pipeline, event.source)
        tally = self._by_source.get(key, Tally()).after(event)
        self._by_source[key] = tally
        return tally
