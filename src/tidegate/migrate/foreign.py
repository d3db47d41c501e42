"""What is recognised of the systems that people come from: keys, traces in tables, names of metrics."""

from __future__ import annotations

from tidegate.specs.foreign import Foreign, ForeignMetric, ForeignWriter

WRITER, COMMITTER = "blizzard:", "penguin-"
"""How the transaction ids of Blizzard and of Penguin, its committer, begin; a table may have either."""
BLIZZARD = ForeignWriter(
    name="Blizzard",
    folder="_blizzard",
    checkpoint="_blizzard/{pipeline}_{source}_checkpoint.json",
    app_ids=(WRITER, COMMITTER),
    remedy="stop Blizzard and take over its position with `tidegate adopt`, or write into a new table_uri",
)
_SHARED_METRICS = (
    "parquet_write_duration_seconds",
    "active_uploads",
    "active_multipart_parts",
    "multipart_uploads_total",
    "source_state_files",
    "files_discovered_total",
    "records_processed_total",
    "bytes_read_total",
)
# Given up files are left out: each attempt was counted when it was refused.
_STATUSES = {"finished": "success", "refused": "failed", "changed": "skipped"}
_METRICS = {name: (ForeignMetric(f"blizzard_{name}"),) for name in _SHARED_METRICS} | {
    "bytes_written_total": tuple(
        ForeignMetric(f"blizzard_{name}") for name in ("bytes_written_total", "parquet_bytes_written_total")
    ),
    "staging_file_written_total": tuple(
        ForeignMetric(f"blizzard_{name}") for name in ("staging_file_written_total", "parquet_files_written_total")
    ),
    "files_processed_total": (
        ForeignMetric("blizzard_files_processed_total", "status", _STATUSES),
        # Reading is one stream here, in which nothing tells a failed download from a failed decompression.
        ForeignMetric("blizzard_files_failed_total", "stage", {"refused": "read"}),
    ),
    "backlog_files": (ForeignMetric("blizzard_pending_files"),),
    "watermark_lag_seconds": (ForeignMetric("blizzard_checkpoint_age_seconds"),),
}
_OF_PENGUIN = (
    "this is a file of Penguin, the committer of Blizzard; `tidegate commit CONFIG --continuous` does its work, where "
    "CONFIG is the file of the pipelines, with delivery: staged and the same table_uri"
)
# Keys that people bring along: refusing them would only make them delete lines that mean nothing here.
FOREIGN = Foreign(
    keys={
        "global.connection_pooling": "Tidegate always pools connections",
        "pipelines.*.sources.*.batch_size": "decoders choose the size of their batches by memory",
    },
    files=dict.fromkeys(("tables.*.table_uri", "pipelines.*.sources.*.table_uri"), _OF_PENGUIN),
    writer=BLIZZARD,
    metric_names=_METRICS,
)
