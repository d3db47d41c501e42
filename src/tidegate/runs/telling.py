"""How the end of a pass over one source is told, and an error beside its name."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import TidegateError
from tidegate.observe.events import SourceFinished
from tidegate.reports import SourceReport

SHOWN_UNKNOWN_FIELDS = 10


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


def unknown_told(counts: Mapping[str, int], rescued: str | None = None) -> str:
    """Fields of the source that no column takes, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({count:,})" for name, count in ordered[:SHOWN_UNKNOWN_FIELDS])
    more = f" and {len(ordered) - SHOWN_UNKNOWN_FIELDS} more" if len(ordered) > SHOWN_UNKNOWN_FIELDS else ""
    if rescued is not None:
        return f"fields and values that fit no column were kept in {rescued!r}: {shown}{more}"
    return f"fields that the schema does not declare were left out: {shown}{more}"
