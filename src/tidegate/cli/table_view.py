"""How table care looks in the terminal."""

from __future__ import annotations

from tidegate.cli.pages import Cell, Line, Page, Style
from tidegate.observe.wording import count, duration, size
from tidegate.reports.run import TableCareReport


def render_care(report: TableCareReport) -> Page:
    """What was done for a table, in a line or two."""
    done = not report.dry_run
    taken = f"in {duration(report.seconds)}"
    where = f"{report.table_uri} (version {report.table_version})"
    match report.operation:
        case "optimize" if not report.files_before:
            text = "nothing to put together: no two small files in one partition"
        case "optimize":
            after = f" ({size(report.bytes_after)}) {taken}" if done else ""
            verb = "became" if done else "would become"
            before = f"{count(report.files_before, 'small file')} ({size(report.bytes_before)})"
            text = f"{before} {verb} {count(report.files_after, 'file')}{after}"
        case "vacuum" if not report.files_before:
            text = f"nothing to remove: no file that is still there left the table over {report.retention_hours} h ago"
        case "vacuum":
            verb = "removed" if done else "would remove"
            removed = f"{count(report.files_before, 'file')} ({size(report.bytes_before)})"
            text = f"{verb} {removed} that left the table over {report.retention_hours} h ago"
        case "checkpoint":
            text = f"checkpoint written {taken}" if done else "would write a checkpoint"
    return (Line(Cell(text, Style.GOOD if done else Style.STRONG)), Line(Cell(where), "table"))
