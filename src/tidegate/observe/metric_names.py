"""Every metric there is: its name, its type, what it is told apart by, and what it says.

Names are those of the older systems with our prefix; ``legacy`` ones may be exported under the old name as well. All
of them carry the labels ``pipeline`` and ``source``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "tidegate_"
LEGACY_PREFIX = "blizzard_"
COMMON_LABELS = ("pipeline", "source")

FILE_STATUSES = ("finished", "refused", "changed", "dead")
STATES = ("Initial", "Active", "Idle", "Unknown")
OUTCOMES = ("committed", "lost", "unknown", "failed")
BAD_KINDS = ("not_json", "not_csv", "missing", "wrong_type", "lossy", "repeated_key", "other")
LEFT_OUT = ("null_watermark", "future", "outside_range")
CARE_OPERATIONS = ("optimize", "vacuum", "clean_log")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``values`` are those of its own label ``label``, which are exported from the start."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    legacy: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels, in order."""
        return (*COMMON_LABELS, self.label) if self.label else COMMON_LABELS


METRICS = (
    Metric("bytes_written_total", "counter", "Bytes of finished Parquet files.", legacy=True),
    Metric("parquet_write_duration_seconds", "histogram", "Time to encode and write a Parquet file.", legacy=True),
    Metric("staging_file_written_total", "counter", "Parquet files written, before they are committed.", legacy=True),
    Metric("active_uploads", "gauge", "Most files that a task of the last wave uploaded at once.", legacy=True),
    Metric("active_multipart_parts", "gauge", "Most parts that a task of the last wave sent at once.", legacy=True),
    Metric("multipart_uploads_total", "counter", "Files that were uploaded in parts.", legacy=True),
    Metric("source_state_files", "gauge", "Files that the recorded state names one by one.", legacy=True),
    Metric("files_discovered_total", "counter", "New files found by listings; again if they were not finished."),
    Metric("files_processed_total", "counter", "Files, by what became of them.", "status", FILE_STATUSES),
    Metric("records_processed_total", "counter", "Rows committed to the table."),
    Metric("bad_records_total", "counter", "Lines that became dead letters, by kind.", "reason", BAD_KINDS),
    Metric("rows_left_out_total", "counter", "Rows that were read and not taken.", "reason", LEFT_OUT),
    Metric("list_requests_total", "counter", "LIST requests sent to the source."),
    Metric("listed_keys_total", "counter", "Names that the source listed."),
    Metric("late_files_total", "counter", "Files found below the watermark of their partition."),
    Metric("duplicates_refused_total", "counter", "Files and units that were offered again and not taken."),
    Metric("watermark_state", "gauge", "1 for the state the source is in.", "state", STATES),
    Metric("watermark_lag_seconds", "gauge", "How long the source is behind; 0 when it has read everything."),
    Metric("backlog_files", "gauge", "New files that are not committed yet."),
    Metric("backlog_bytes", "gauge", "Bytes of new files that are not committed yet."),
    Metric("work_units_open", "gauge", "Work units that are to be carried out."),
    Metric("work_units_failed", "gauge", "Work units that failed when they were tried last."),
    Metric("commit_duration_seconds", "histogram", "Time from the first look at the table until the commit is sure."),
    Metric("commit_outcomes_total", "counter", "Commits, by how they ended.", "outcome", OUTCOMES),
    Metric("delta_table_version", "gauge", "The newest version of the table that was seen."),
    Metric("source_healthy", "gauge", "1 if /health calls the source healthy, else 0."),
    Metric("table_care_total", "counter", "Times that the table was cared for.", "operation", CARE_OPERATIONS),
    Metric("table_care_failed_total", "counter", "Times that this failed.", "operation", CARE_OPERATIONS),
)

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of the histograms, in seconds."""
