"""Every event counts where it should, and every metric of the catalogue is moved by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.metrics import NAME, Clock
from tidegate.observe import events
from tidegate.observe.events import Event
from tidegate.observe.metrics import METRICS, STATES, Metrics


def listed(files: int, size: int = 0) -> Event:
    return events.Listed(*NAME, new_files=files, new_bytes=size, list_requests=3, listed_keys=40, seconds=0.1)


def committed(files: int, size: int = 0, rows: int = 10) -> Event:
    return events.Committed(
        *NAME,
        position=2,
        table_version=7,
        source_files=files,
        source_bytes=size,
        data_files=1,
        rows=rows,
        seconds=0.3,
        finished_files=files,
        finished_bytes=size,
    )


def finished(state: str = "Active", *, failed: bool = False, state_files: int = 0) -> Event:
    return events.SourceFinished(*NAME, state, "a", 1, 10, 0, 1, 0.5, state_files=state_files, failed=failed)


def ended(outcome: str, **moments: Any) -> Event:
    return events.SourceFinished(*NAME, "Active", "a", 1, 10, 0, 1, 0.5, outcome=outcome, **moments)


WAVE = events.WaveFinished(
    *NAME,
    units=1,
    failed_units=0,
    data_files=2,
    bytes_written=300,
    write_seconds=(0.02, 3.0),
    uploads=2,
    multipart_uploads=1,
    most_uploads=2,
    most_parts=8,
    seconds=4.0,
)


UPLOADING = events.UploadsChanged(*NAME, files=2, parts=8)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    family = next(each for each in metrics.families() if each.metric.name == name)
    return {labels[2:]: value for labels, value in family.values.items()}


def value(metrics: Metrics, name: str, *labels: str) -> float:
    return values(metrics, name)[labels]


@pytest.mark.parametrize(
    ("event", "metric", "labels", "expected"),
    [
        (WAVE, "bytes_written_total", (), 300),
        (WAVE, "staging_file_written_total", (), 2),
        (WAVE, "multipart_uploads_total", (), 1),
        (UPLOADING, "active_uploads", (), 2),
        (UPLOADING, "active_multipart_parts", (), 8),
        (finished(state_files=5), "source_state_files", (), 5),
        (listed(4), "files_discovered_total", (), 4),
        (listed(4), "list_requests_total", (), 3),
        (listed(4), "listed_keys_total", (), 40),
        (listed(4, 90), "backlog_files", (), 4),
        (listed(4, 90), "backlog_bytes", (), 90),
        (committed(4), "files_processed_total", ("finished",), 4),
        (events.FileRefused(*NAME, "a", "bad", 1, True), "files_processed_total", ("refused",), 1),
        (events.FileChanged(*NAME, "a"), "files_processed_total", ("changed",), 1),
        (events.DeadLetters(*NAME, 0, 2, "a", "t"), "files_processed_total", ("dead",), 2),
        (committed(1), "records_processed_total", (), 10),
        (replace(committed(1), updated=4, deleted=None), "row_changes_total", ("updated",), 4),
        (replace(committed(1), updated=4, deleted=None), "row_changes_total", ("deleted",), 0),
        (events.RowsUnchanged(*NAME, 5), "row_changes_total", ("unchanged",), 5),
        (events.DeadLetters(*NAME, 3, 0, "a", "t", {"lossy": 3}), "bad_records_total", ("lossy",), 3),
        (events.DeadLetters(*NAME, 3, 0, "a", "t"), "bad_records_total", ("other",), 3),
        (events.DeadLetters(*NAME, 3, 0, "a", "t", {"novel": 3}), "bad_records_total", ("other",), 3),
        (events.RowsLeftOut(*NAME, "null_watermark", 4, "id"), "rows_left_out_total", ("null_watermark",), 4),
        (events.RowsLeftOut(*NAME, "outside_range of 'a'", 4, "at"), "rows_left_out_total", ("outside_range",), 4),
        (events.WorkUnitsPlanned(*NAME, 7, 2, 1), "work_units_open", (), 7),
        (events.WorkUnitsFinished(*NAME, 5, 1, 7), "work_units_open", (), 2),
        (events.WorkUnitFailed(*NAME, "a", "2020", "failed", "500", 1), "work_units_failed", (), 1),
        (events.WorkUnitFailed(*NAME, "a", "2020", "thin", "few", 0), "work_units_failed", (), 0),
        (events.LateFilesFound(*NAME, 6, "a"), "late_files_total", (), 6),
        (events.DuplicatesRefused(*NAME, 2, "a"), "duplicates_refused_total", (), 2),
        (finished("Idle"), "watermark_state", ("Idle",), 1),
        (events.WatermarkStateChanged(*NAME, "Initial", "Active", "a"), "watermark_state", ("Active",), 1),
        (committed(1), "commit_outcomes_total", ("committed",), 1),
        (events.CommitContested(*NAME, "another"), "commit_outcomes_total", ("lost",), 1),
        (events.CommitFailed(*NAME, "unknown", "no answer"), "commit_outcomes_total", ("unknown",), 1),
        (committed(1), "delta_table_version", (), 7),
        (events.PollStarted(*NAME, 3, 9), "delta_table_version", (), 9),
        (ended("refused"), "runs_total", ("refused",), 1),
        (ended(""), "runs_total", ("succeeded",), 0),
        (events.FileRefused(*NAME, "a", "bad", 1, True), "retries_total", ("file",), 1),
        (events.FileRefused(*NAME, "a", "bad", 9, False), "retries_total", ("file",), 0),
        (events.WorkUnitFailed(*NAME, "a", "2020", "failed", "500", 1), "retries_total", ("work_unit",), 1),
        (events.CommitContested(*NAME, "another"), "retries_total", ("commit",), 1),
        (events.TableCared(*NAME, "optimize", 3, 100, 0.1), "table_care_total", ("optimize",), 1),
        (events.TableCareFailed(*NAME, "vacuum", "no"), "table_care_failed_total", ("vacuum",), 1),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_event_counts(event: Event, metric: str, labels: tuple[str, ...], expected: float) -> None:
    metrics = Metrics([NAME])
    assert value(metrics, metric, *labels) == 0
    metrics(event)
    assert value(metrics, metric, *labels) == expected


@pytest.mark.parametrize(
    ("event", "metric", "seconds"),
    [(WAVE, "parquet_write_duration_seconds", 3.02), (committed(1), "commit_duration_seconds", 0.3)],
    ids=["write", "commit"],
)
def test_durations_fall_into_buckets(event: Event, metric: str, seconds: float) -> None:
    metrics = Metrics([NAME])
    metrics(event)
    (durations,) = next(each for each in metrics.families() if each.metric.name == metric).durations.values()
    assert durations.seconds == pytest.approx(seconds)
    assert durations.counts == sorted(durations.counts)
    assert durations.counts[-1] == durations.total > 0
    assert durations.counts[0] == 0


def test_every_series_of_a_source_is_there_before_anything_happens() -> None:
    families = Metrics([NAME]).families()
    assert [each.metric for each in families] == list(METRICS)
    for each in families:
        series = each.durations or each.values
        if not each.metric.known:
            assert not series
            continue
        assert len(series) == max(len(each.metric.values), 1)
        assert all(labels[:2] == NAME for labels in series)


def test_every_step_is_timed() -> None:
    metrics = Metrics([NAME])
    for event in (listed(4), WAVE, committed(1), ended("succeeded")):
        metrics(event)
    found = next(each for each in metrics.families() if each.metric.name == "step_duration_seconds").durations
    seconds = {labels[2]: (each.total, each.seconds) for labels, each in found.items()}
    assert seconds == {"list": (1, 0.1), "read": (1, 4.0), "commit": (1, 0.3), "run": (1, 0.5)}


def test_moments_are_known_from_the_first_run_on() -> None:
    clock = Clock()
    metrics = Metrics([NAME], clock, expected={NAME: timedelta(hours=2)})

    def shown(name: str) -> float | None:
        return values(metrics, f"last_{name}_timestamp_seconds").get(())

    assert value(metrics, "expect_every_seconds") == 7200
    metrics(ended("failed"))
    assert [shown(each) for each in ("run", "success", "data", "commit")] == [1000, None, None, None]
    assert values(metrics, "dead_letters_open") == {}
    # What runs before this process recorded.
    metrics(ended("failed", last_success_at=moment(900), last_data_at=moment(800), open_letters=3))
    assert [shown(each) for each in ("run", "success", "data", "commit")] == [1000, 900, 800, 800]
    assert value(metrics, "dead_letters_open") == 3
    clock.now = 1010.0
    metrics(committed(1))
    clock.now = 1020.0
    metrics(ended("succeeded", last_success_at=moment(1020), last_data_at=moment(1020)))
    assert [shown(each) for each in ("run", "success", "data", "commit")] == [1020, 1020, 1020, 1010]


def test_a_source_left_to_another_run_did_not_run() -> None:
    metrics = Metrics([NAME])
    metrics(ended(""))
    assert values(metrics, "last_run_timestamp_seconds") == {}
    assert set(values(metrics, "runs_total").values()) == {0}


def test_counts_are_taken_once_and_without_the_run_that_is_not_over() -> None:
    metrics = Metrics([NAME])
    assert metrics.take_counts(NAME) == {}
    metrics(committed(4, 90))
    metrics(ended("succeeded"))
    metrics(events.DeadLetters(*NAME, 3, 0, "a", "t", {"lossy": 3}))
    counts = {
        "records_processed_total": 10,
        "files_processed_total.finished": 4,
        "bytes_read_total": 90,
        "commit_outcomes_total.committed": 1,
        "bad_records_total.lossy": 3,
    }
    assert metrics.take_counts(NAME) == counts
    assert metrics.take_counts(NAME) == {}
    metrics(committed(1, 10))
    assert metrics.take_counts(NAME)["bytes_read_total"] == 10


def test_a_source_is_in_one_state_at_a_time() -> None:
    metrics = Metrics([NAME])
    assert value(metrics, "watermark_state", "Unknown") == 1
    for state in STATES:
        metrics(finished(state))
        assert [labels for labels, found in values(metrics, "watermark_state").items() if found] == [(state,)]


def test_the_backlog_shrinks_as_files_are_committed() -> None:
    metrics = Metrics([NAME])
    metrics(listed(5, 500))
    metrics(committed(2, 200))
    assert (value(metrics, "backlog_files"), value(metrics, "backlog_bytes")) == (3, 300)


def test_a_source_that_has_read_everything_has_no_lag() -> None:
    clock = Clock()
    metrics = Metrics([NAME], clock)
    metrics(listed(1))
    metrics(committed(1))
    metrics(finished())
    clock.now += 3600
    assert value(metrics, "watermark_lag_seconds") == 0


def test_lag_grows_while_files_wait_and_begins_when_they_are_found() -> None:
    clock = Clock()
    metrics = Metrics([NAME], clock)
    metrics(finished())
    clock.now += 3600
    metrics(listed(2))
    clock.now += 30
    assert value(metrics, "watermark_lag_seconds") == 30
    metrics(committed(1))
    clock.now += 5
    assert value(metrics, "watermark_lag_seconds") == 5


def test_a_source_that_cannot_be_read_falls_behind() -> None:
    clock = Clock()
    metrics = Metrics([NAME], clock)
    metrics(finished())
    clock.now += 60
    metrics(events.SourceFailed(*NAME, "no answer"))
    metrics(finished("Unknown", failed=True))
    clock.now += 60
    assert value(metrics, "watermark_lag_seconds") == 120
    metrics(finished())
    assert value(metrics, "watermark_lag_seconds") == 0


def test_uploads_are_over_when_the_pass_is() -> None:
    metrics = Metrics([NAME])
    metrics(events.PollStarted(*NAME, 1))
    metrics(UPLOADING)
    assert value(metrics, "active_uploads") == 2
    metrics(WAVE)
    assert value(metrics, "active_uploads") == 2
    metrics(finished())
    assert value(metrics, "active_uploads") == 0


def test_events_about_no_source_make_no_series() -> None:
    metrics = Metrics()
    metrics(events.SessionStarting("", "", "local[2]"))
    metrics(events.Notice("", "", "hello"))
    assert not any(each.values or each.durations for each in metrics.families())
