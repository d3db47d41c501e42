"""Bad lines and bad files end in the dead-letter table, exactly once, and come back out of it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import tidegate
from support.changes import moved
from support.lake import FIELDS, Lake
from tidegate.commands.dead_letters import retry
from tidegate.commands.project import sources_of
from tidegate.core.files.plan import FileSlice
from tidegate.core.files.state import Failed, Refused, progress_after
from tidegate.errors import AccessDenied
from tidegate.failpoints import arm
from tidegate.formats.port import Fetcher
from tidegate.observe.events import DeadLetters
from tidegate.protocol.delta import query
from tidegate.runs.file_edit import DeadLetterSelection
from tidegate.runs.in_process import InProcessEngine
from tidegate.schema.dead_letter import Letter
from tidegate.specs.locations import Location
from tidegate.storage.options import absolute_uri

DAY = "date=2026-01-28"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def handling(lake: Lake, **settings: Any) -> None:
    lake.pipeline_settings = {"error_handling": settings}


def letters(lake: Lake) -> tuple[Letter, ...]:
    return tidegate.list_letters(lake.config, "events")


def record(lake: Lake, **changes: Any) -> str:
    number = lake.next_id
    lake.next_id += 1
    return json.dumps({"id": number, "ts": "2026-01-28T12:00:00Z", "event": "view", **changes})


def dead_rows(lake: Lake, sql: str = "select * from t") -> list[dict[str, Any]]:
    return query(Location(absolute_uri("lake/events_dead_letters", lake.root)), sql)


def retried(lake: Lake, choice: DeadLetterSelection | None = None) -> Any:
    (place,) = sources_of(lake.project, "events")
    return retry(place, choice or DeadLetterSelection(), InProcessEngine)


def mixed(lake: Lake, path: str, good: int = 5) -> Path:
    """A file of good lines with a bad one in the middle and one at the end."""
    lines = []
    for number in range(good):
        lake.expected.append(lake.next_id)
        lines.append(record(lake))
        if number == good // 2:
            lines.append('{"id": "many", "event": 3}')
    return lake.write(path, "\n".join([*lines, "not json", ""]))


def test_bad_lines_are_kept_with_file_line_reason_and_text_and_the_others_are_read(lake: Lake) -> None:
    mixed(lake, f"{DAY}/1.ndjson.gz")
    lake.arrive(f"{DAY}/2.ndjson.gz")
    report = lake.run()
    assert report.ok
    assert (report.sources[0].files, report.sources[0].bad_records) == (2, 2)
    lake.assert_exactly_once()
    first, second = letters(lake)
    assert (first.file, first.line, first.text) == (f"{DAY}/1.ndjson.gz", 4, '{"id": "many", "event": 3}')
    assert (second.line, second.text, second.stage) == (7, "not json", "decode")
    assert "id" in (first.reason or "")
    assert first.schema_fingerprint
    assert first.run == second.run
    (event,) = [event for event in lake.seen if isinstance(event, DeadLetters)]
    assert (event.records, event.files) == (2, 0)


def test_a_watermark_passes_a_file_with_bad_lines_and_a_second_run_adds_nothing(lake: Lake) -> None:
    mixed(lake, f"{DAY}/1.ndjson")
    lake.run()
    again = lake.run()
    assert again.sources[0].watermark == f"{DAY}/1.ndjson"
    assert again.sources[0].commits == 0
    assert len(letters(lake)) == 2


def test_a_line_that_is_not_utf8_is_kept_byte_by_byte(lake: Lake) -> None:
    (lake.root / "data" / DAY).mkdir(parents=True)
    (lake.root / "data" / DAY / "1.ndjson").write_bytes(b'{"id": 1, "event": "\xff\xfe"}\n')
    assert lake.run().ok
    (letter,) = letters(lake)
    assert letter.text is None
    assert letter.content == b'{"id": 1, "event": "\xff\xfe"}'


def test_status_and_the_run_say_how_many_letters_are_open(lake: Lake) -> None:
    mixed(lake, f"{DAY}/1.ndjson")
    lake.run()
    (status,) = tidegate.status(lake.config)
    assert status.open_letters == 2


def test_dlq_path_says_where_the_letters_live(lake: Lake) -> None:
    handling(lake, dlq_path="elsewhere/dead")
    mixed(lake, f"{DAY}/1.ndjson")
    lake.run()
    assert len(letters(lake)) == 2
    assert not (lake.root / "lake" / "events_dead_letters").exists()
    assert (lake.root / "elsewhere" / "dead" / "_delta_log").is_dir()


def test_a_repaired_schema_makes_old_letters_good_exactly_once(lake: Lake) -> None:
    lake.write(f"{DAY}/1.ndjson", f"{record(lake)}\n{record(lake, id=0.5)}\n")
    lake.expected = [0]
    lake.run()
    assert [letter.line for letter in letters(lake)] == [2]
    assert retried(lake).answered == 0
    changed = [{**field, "type": "float64"} if field["name"] == "event" else field for field in FIELDS]
    assert changed != FIELDS
    lake.schema = {"fields": FIELDS, "numbers": "lenient"}
    report = retried(lake)
    assert (report.answered, report.rows, report.still_bad) == (1, 1, ())
    assert lake.ids() == [0, 0]
    assert letters(lake) == ()
    assert retried(lake).letters == 0
    assert lake.ids() == [0, 0]
    (status,) = tidegate.status(lake.config)
    assert status.open_letters == 0


def test_what_is_still_bad_stays_with_todays_reason(lake: Lake) -> None:
    lake.write(f"{DAY}/1.ndjson", f'{record(lake, id=1.5)}\n{{"id": null}}\nno\n')
    lake.run()
    lake.schema = {"fields": FIELDS, "numbers": "lenient"}
    report = retried(lake)
    assert (report.letters, report.answered, len(report.still_bad)) == (3, 1, 2)
    assert sorted(letter.line or 0 for letter in letters(lake)) == [2, 3]


def test_letters_are_chosen_by_id_file_and_reason(lake: Lake) -> None:
    mixed(lake, f"{DAY}/1.ndjson")
    mixed(lake, "date=2026-01-29/1.ndjson")
    lake.run()
    first = letters(lake)[0]
    assert tidegate.list_letters(lake.config, "events", ids=[first.id[:8]]) == (first,)
    assert len(tidegate.list_letters(lake.config, "events", file="date=2026-01-29/*")) == 2
    assert len(tidegate.list_letters(lake.config, "events", limit=3)) == 3
    (report,) = tidegate.discard_letters(lake.config, "events", file="date=2026-01-29/*")
    assert (report.letters, report.answered) == (2, 2)
    assert {letter.file for letter in letters(lake)} == {f"{DAY}/1.ndjson"}
    assert len(dead_rows(lake)) == 6
    lake.assert_exactly_once()


def test_a_file_that_cannot_be_read_becomes_a_letter_after_max_attempts_and_blocks_nothing(lake: Lake) -> None:
    lake.source_settings = {"max_attempts": 2}
    lake.arrive(f"{DAY}/1.ndjson.gz")
    (lake.root / "data" / DAY / "2.ndjson.gz").write_bytes(b"this is not gzip")
    lake.arrive(f"{DAY}/3.ndjson.gz")
    first = lake.run()
    assert not first.ok
    assert first.sources[0].watermark == f"{DAY}/1.ndjson.gz"
    second = lake.run()
    assert second.sources[0].dead_files == 1
    assert second.sources[0].watermark == f"{DAY}/3.ndjson.gz"
    assert (second.ok, second.sources[0].files) == (False, 0)
    (letter,) = letters(lake)
    assert (letter.kind, letter.file, letter.line) == ("file", f"{DAY}/2.ndjson.gz", 1)
    assert "failed 2 times" in (letter.reason or "")
    assert lake.run().ok


def test_a_repaired_file_is_read_by_retry_and_its_own_bad_lines_become_letters(lake: Lake) -> None:
    lake.source_settings = {"max_attempts": 1}
    lake.arrive(f"{DAY}/1.ndjson.gz")
    whole = gzip.compress(b'{"id": 1}\n' * 50)
    (lake.root / "data" / DAY / "2.ndjson.gz").write_bytes(whole[:-10])
    lake.run()
    assert [letter.kind for letter in letters(lake)] == ["file"]
    assert retried(lake).still_bad[0][2].count("truncated") == 1
    mixed(lake, f"{DAY}/2.ndjson.gz")
    report = retried(lake)
    assert (report.answered, report.rows, report.new_letters) == (1, 5, 2)
    lake.assert_exactly_once()
    assert [letter.kind for letter in letters(lake)] == ["record", "record"]
    assert lake.run().ok
    lake.assert_exactly_once()


def test_fail_file_refuses_the_whole_file_and_fail_run_stops(lake: Lake) -> None:
    handling(lake, on_bad_record="fail_file")
    mixed(lake, f"{DAY}/1.ndjson")
    report = lake.run()
    assert not report.ok
    assert "line 4" in report.sources[0].failed[0].reason
    assert lake.ids() == []
    handling(lake, on_bad_record="fail_run")
    stopped = lake.run()
    assert f"{DAY}/1.ndjson, line 4" in (stopped.sources[0].error or "")
    handling(lake)
    assert lake.run().ok
    lake.assert_exactly_once()
    assert len(letters(lake)) == 2


@pytest.mark.parametrize(
    ("limit", "named"),
    [({"max_bad_records": 3}, "max_bad_records is 3"), ({"max_bad_fraction": 0.01}, "max_bad_fraction is 0.01")],
)
def test_a_limit_stops_the_run_before_the_commit_that_exceeds_it(
    lake: Lake, limit: Mapping[str, Any], named: str
) -> None:
    handling(lake, **limit)
    lake.arrive(f"{DAY}/1.ndjson", records=100)
    for number in range(2, 4):
        mixed(lake, f"{DAY}/{number}.ndjson")
    report = lake.run()
    assert named in (report.sources[0].error or "") or "more than 3 bad records" in (report.sources[0].error or "")
    assert lake.ids() == []
    handling(lake)
    assert lake.run().ok
    lake.assert_exactly_once()
    assert len(letters(lake)) == 4


def test_max_failures_stops_the_run(lake: Lake) -> None:
    handling(lake, max_failures=1)
    (lake.root / "data" / DAY).mkdir(parents=True)
    for number in range(3):
        (lake.root / "data" / DAY / f"{number}.ndjson.gz").write_bytes(b"no gzip")
    report = lake.run()
    assert "max_failures is 1" in (report.sources[0].error or "")
    assert report.sources[0].exit_code == 1


def test_a_large_file_is_committed_in_the_middle_with_letters_in_between(lake: Lake) -> None:
    lake.sink_settings = {"file_size_mb": 1, "row_group_size_bytes": 1024 * 1024, "commit_batch_files": 1}
    lines = []
    for number in range(400_000):
        if number % 100_000 == 7:
            lines.append("bad line")
        lines.append(f'{{"id":{number},"event":"{number * 2654435761 % 2**64:x}"}}')
    lake.expected = list(range(400_000))
    lake.write(f"{DAY}/1.ndjson.gz", "\n".join(lines) + "\n")
    report = lake.run()
    assert report.ok
    assert report.sources[0].commits >= 3
    assert report.sources[0].bad_records == 4
    lake.assert_exactly_once()
    assert [letter.line for letter in letters(lake)] == [8, 100_009, 200_010, 300_011]


def test_a_file_that_changed_between_two_rounds_becomes_a_letter_and_is_not_half_read(lake: Lake) -> None:
    from tidegate.core.files.state import RecordsRead, decode_paths, drop_window, encode_paths

    lake.arrive(f"{DAY}/1.ndjson")
    lake.run()
    target = lake.arrive(f"{DAY}/2.ndjson")
    (place,) = sources_of(lake.project, "events")
    opened = place.positions.open()
    state = decode_paths(opened.state or {})
    from dataclasses import replace

    partly = encode_paths(replace(state, files={f"{DAY}/2.ndjson": RecordsRead(4, target.stat().st_size + 1, "old")}))
    place.positions.commit(opened, moved(partly, embedded=drop_window(partly)))
    lake.expected = lake.expected[:10]
    report = lake.run()
    assert report.sources[0].dead_files == 1
    assert report.sources[0].watermark == f"{DAY}/2.ndjson"
    (letter,) = letters(lake)
    assert (letter.kind, letter.line) == ("file", 5)
    lake.assert_exactly_once()
    report = retried(lake)
    assert (report.answered, report.rows) == (0, 0)
    assert "tidegate replay" in report.still_bad[0][2]


def test_a_file_that_is_given_up_again_after_a_move_has_one_letter(lake: Lake) -> None:
    lake.source_settings = {"max_attempts": 1}
    lake.arrive(f"{DAY}/1.ndjson")
    bad = lake.write(f"{DAY}/2.ndjson.gz", "")
    bad.write_bytes(b"no gzip")
    lake.run()
    tidegate.set_watermark(lake.config, "events", to=f"{DAY}/1.ndjson", confirm=lambda move: True)
    lake.run()
    assert [letter.kind for letter in letters(lake)] == ["file"]
    lake.arrive(f"{DAY}/2.ndjson.gz")
    assert retried(lake).answered == 1
    lake.assert_exactly_once()
    assert letters(lake) == ()


def test_a_new_table_with_the_old_dead_letter_table_loses_no_letter(lake: Lake) -> None:
    handling(lake, dlq_path="dead")
    for number in range(3):
        mixed(lake, f"{DAY}/{number}.ndjson")
        lake.run()
    assert len(letters(lake)) == 6
    lake.sink_settings = {"table_uri": "lake/other"}
    assert lake.run().ok
    assert len(letters(lake)) == 12


def test_a_changed_dlq_path_stops_nothing(lake: Lake) -> None:
    handling(lake, dlq_path="dead")
    mixed(lake, f"{DAY}/1.ndjson")
    lake.run()
    handling(lake, dlq_path="elsewhere")
    mixed(lake, f"{DAY}/2.ndjson")
    assert lake.run().ok
    assert {letter.file for letter in letters(lake)} == {f"{DAY}/2.ndjson"}


def test_a_dead_letter_table_that_was_removed_is_made_anew_and_stops_nothing(lake: Lake) -> None:
    mixed(lake, f"{DAY}/1.ndjson")
    lake.run()
    shutil.rmtree(lake.root / "lake" / "events_dead_letters")
    mixed(lake, f"{DAY}/2.ndjson")
    assert lake.run().ok
    assert {letter.file for letter in letters(lake)} == {f"{DAY}/2.ndjson"}


def test_what_was_abandoned_does_not_count_against_the_limit(lake: Lake) -> None:
    handling(lake, max_bad_records=3)
    lake.sink_settings = {"file_size_mb": 1}
    text = "".join(f'{{"id": {number}, "event": "{number * 2654435761 % 2**64:x}"}}\n' for number in range(150_000))
    packed = gzip.compress(f"bad\nbad\n{text}".encode())
    (lake.root / "data" / DAY).mkdir(parents=True)
    (lake.root / "data" / DAY / "1.ndjson.gz").write_bytes(packed[:-8])
    mixed(lake, f"{DAY}/2.ndjson")
    report = lake.run().sources[0]
    assert report.error is None
    assert [each.attempts for each in report.failed] == [1]
    lake.assert_exactly_once()


def test_a_missing_permission_never_makes_a_file_a_letter() -> None:
    refused = Refused("a", 1, None, "denied", counts=False)
    after = progress_after(None, refused)
    assert isinstance(after, Failed)
    assert after.attempts == 0
    assert progress_after(after, refused) == after


def test_a_table_put_back_from_a_copy_stops_before_letters_are_taken_for_known_ones(lake: Lake) -> None:
    mixed(lake, f"{DAY}/1.ndjson")
    lake.run()
    shutil.copytree(lake.root / "lake" / "events", lake.root / "copy")
    mixed(lake, f"{DAY}/2.ndjson")
    lake.run()
    shutil.rmtree(lake.root / "lake" / "events")
    (lake.root / "copy").rename(lake.root / "lake" / "events")
    error = lake.run().sources[0].error or ""
    assert "put back from a copy" in error
    handling(lake, dlq_path="new place")
    assert lake.run().ok
    lake.assert_exactly_once()
    assert {letter.file for letter in letters(lake)} == {f"{DAY}/2.ndjson"}


def test_a_denied_source_never_turns_its_backlog_into_letters(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.source_settings = {"max_attempts": 2}
    lake.arrive(f"{DAY}/1.ndjson")
    lake.run()
    for number in range(2, 5):
        lake.arrive(f"{DAY}/{number}.ndjson")

    def denied(fetcher: Fetcher, each: FileSlice, *, seeks: bool = False) -> None:
        raise AccessDenied("the store answered 403", "check the key")

    with monkeypatch.context() as patched:
        patched.setattr(Fetcher, "open", denied)
        for _ in range(4):
            report = lake.run()
            assert not report.ok
            assert (len(report.sources[0].failed), report.sources[0].dead_files) == (3, 0)
    assert lake.run().ok
    lake.assert_exactly_once()
    assert letters(lake) == ()


def test_recover_pays_the_letters_that_a_killed_run_still_owed(lake: Lake) -> None:
    lake.arrive(f"{DAY}/1.ndjson")
    lake.run()
    mixed(lake, f"{DAY}/2.ndjson")
    arm("state.won.before=raise")
    try:
        lake.run()
    finally:
        arm("")
    table = DeltaTable(str(lake.root / "lake/events"))
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    DeltaTable(str(lake.root / "lake/events")).create_checkpoint()
    for number in (0, 1):
        (lake.root / f"lake/events/_delta_log/{number:020d}.json").unlink()
    (lake.root / "lake/events/_tidegate/events_default_checkpoint.json").unlink()
    assert "cannot be read" in (lake.run().sources[0].error or "")
    assert tidegate.recover(lake.config, "events", accept=["previous"])[0].verdict == "ok"
    assert lake.run().ok
    lake.assert_exactly_once()
    assert [letter.line for letter in letters(lake)] == [4, 7]
