"""How the end of a pass over one source is told, and an error beside its name."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.observe.events import SourceFinished
from tidegate.reports import SourceReport


def told_once(name: tuple[str, str], error: TidegateError) -> str:
    """The error without the name of the source in front: that is told beside it."""
    return str(error).removeprefix(f"{'/'.join(name)}: ")


def finished(report: SourceReport, *, failed: bool, state_files: int = 0) -> SourceFinished:
    """The event that ends a pass, from its report."""
    return SourceFinished(
        report.pipeline,
        report.source,
        state=report.state,
        watermark=report.watermark,
        source_files=report.files,
        rows=report.rows,
        failed_files=len(report.failed),
        commits=report.commits,
        seconds=report.seconds,
        state_files=state_files,
        failed=failed,
        staged=report.staged,
    )
