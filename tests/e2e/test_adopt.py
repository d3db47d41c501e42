"""Tables that Blizzard wrote are taken over in place: the next run reads exactly what is new."""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from support.lake import Lake
from tidegate import Adoption, adopt, load
from tidegate.cli.main import cli
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", tz="UTC")), ("event", pa.string())]
)
CHECKPOINT = "_blizzard/events_default_checkpoint.json"
DAY = "date=2026-01-28"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, settings={"global": {"commit_deadline_secs": 20}})


def table(lake: Lake) -> Path:
    return lake.root / "lake/events"


def ids_of(lake: Lake, path: str, first: int | None = None) -> list[int]:
    return [json.loads(line)["id"] for line in (lake.root / "data" / path).read_text().splitlines()[:first]]


def committed(lake: Lake, *paths: str, first: int | None = None, app_id: str = "penguin-events") -> None:
    """The rows of these source files, or the first so many of them, committed by the old program."""
    ids = [each for path in paths for each in ids_of(lake, path, first)]
    rows = {"id": ids, "ts": [None] * len(ids), "event": ["view"] * len(ids)}
    transaction = Transaction(app_id, 1, int(time.time() * 1000))
    write_deltalake(
        str(table(lake)),
        pa.table(rows, schema=SCHEMA),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[transaction]),
    )


def noted(lake: Lake, checkpoint: Mapping[str, Any] | bytes, name: str = CHECKPOINT) -> None:
    """A checkpoint file of the old program."""
    target = table(lake) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(checkpoint if isinstance(checkpoint, bytes) else json.dumps(checkpoint).encode())


def in_log(last: str | None, files: Mapping[str, int] | None = None, version: int = 4) -> str:
    """A transaction id with a checkpoint in it."""
    state = {
        "schema_version": 1,
        "source_state": {
            "files": {path: {"RecordsRead": records} for path, records in (files or {}).items()},
            "last_committed_file": last,
        },
        "delta_version": version,
    }
    return "blizzard:" + base64.b64encode(json.dumps(state).encode()).decode()


def uri(lake: Lake, path: str) -> str:
    return f"file://{lake.root}/data/{path}"


def adopted(lake: Lake, **wish: Any) -> Adoption:
    (report,) = adopt(lake.config, "events", **{"quiet_for": 0.0, **wish})
    return report


def finding(report: Adoption, name: str) -> str:
    return next((each.detail for each in report.findings if each.name == name), "")


def everything(lake: Lake) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (lake.root / "lake").rglob("*") if path.is_file()}


def two_days(lake: Lake) -> None:
    for path in ("27/a", "27/b", "28/a", "28/b", "28/c", "29/a"):
        lake.arrive(f"date=2026-01-{path}.ndjson")


WATERMARK = f"{DAY}/b.ndjson"
FORMS: dict[str, dict[str, Any]] = {
    "a string": {"schema_version": 1, "watermark": WATERMARK, "last_update_ts": 1706450500},
    "an object": {"schema_version": 1, "watermark": {"state": "Active", "value": WATERMARK}, "last_update_ts": 1},
    "idle": {"watermark": {"state": "Idle", "value": WATERMARK}},
    "per partition": {
        "schema_version": 1,
        "watermark": {"state": "Active", "value": WATERMARK},
        "partition_watermarks": {"date=2026-01-27": "b.ndjson", DAY: "b.ndjson"},
        "last_update_ts": 1706450500,
    },
    "last committed file": {"source_state": {"files": {}, "last_committed_file": WATERMARK}, "delta_version": 3},
}


class TestTheCheckpointFile:
    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
    def test_in_every_form_it_is_taken_over_and_the_next_run_reads_what_is_new(
        self, lake: Lake, form: dict[str, Any]
    ) -> None:
        two_days(lake)
        committed(lake, *(f"date=2026-01-{path}.ndjson" for path in ("27/a", "27/b", "28/a", "28/b")))
        noted(lake, form)
        stopped = lake.run().sources[0]
        assert (stopped.exit_code, "`tidegate adopt`" in (stopped.error or "")) == (5, True)
        report = adopted(lake)
        assert (report.error, report.adopted, report.version, report.next_files) == (None, True, 1, 2)
        assert (report.trace, report.watermark) == (CHECKPOINT, WATERMARK)
        assert report.partitions[DAY] == "b.ndjson"
        assert lake.run().sources[0].files == 2
        lake.assert_exactly_once()
        lake.arrive("date=2026-01-29/b.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_an_empty_one_is_a_source_that_never_started(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake)
        noted(lake, {})
        report = adopted(lake)
        assert (report.error, report.state, report.next_files) == (None, "Initial", 6)
        assert lake.run().ok
        lake.assert_exactly_once()

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"watermark": 7}', b'{"schema_version": 9}'])
    def test_unreadable_it_is_an_error_and_never_a_fresh_start(self, lake: Lake, content: bytes) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, content)
        before = everything(lake)
        report = adopted(lake)
        assert report.error
        assert not report.adopted
        assert everything(lake) == before

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"watermark": 7}'])
    def test_unreadable_it_falls_back_to_the_log_and_says_so(self, lake: Lake, content: bytes) -> None:
        two_days(lake)
        done = [f"date=2026-01-{path}.ndjson" for path in ("27/a", "27/b", "28/a", "28/b")]
        committed(lake, *done, app_id=in_log(uri(lake, f"{DAY}/b.ndjson")))
        noted(lake, content)
        report = adopted(lake)
        assert (report.error, report.adopted, report.watermark) == (None, True, WATERMARK)
        assert CHECKPOINT in finding(report, "damaged checkpoint")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_of_a_newer_form_it_is_an_error_whatever_the_log_says(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson", app_id=in_log(uri(lake, f"{DAY}/a.ndjson")))
        noted(lake, b'{"schema_version": 9}')
        report = adopted(lake)
        assert (report.adopted, "schema_version 9" in (report.error or "")) == (False, True)

    def test_looking_first_writes_nothing(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, FORMS["a string"])
        before = everything(lake)
        report = adopted(lake, dry_run=True)
        assert (report.adopted, report.version, report.next_files, report.error) == (False, 0, 2, None)
        assert everything(lake) == before

    def test_taken_over_once_there_is_nothing_left_to_adopt(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, FORMS["a string"])
        assert adopted(lake).adopted
        again = adopted(lake)
        assert (again.adopted, again.version, again.error) == (False, 1, None)
        assert "nothing to adopt" in finding(again, "position")

    def test_the_position_says_what_made_it(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, FORMS["a string"])
        adopted(lake)
        (document,) = (table(lake) / "_tidegate/events/default").glob("*.json")
        assert json.loads(document.read_bytes())["action"] == "adopt"
        assert DeltaTable(str(table(lake))).transaction_version("tidegate/events/default") == 1


def app_id_of(content: bytes) -> str:
    return "blizzard:" + base64.b64encode(content).decode()


DAMAGED = (
    "blizzard:not base64!",
    app_id_of(b'{"schema_version": 1, "source_sta'),
    app_id_of(b"[]"),
    app_id_of(b'{"source_state": {"files": {"date=2026-01-27/b.ndjson": 7}, "last_committed_file": null}}'),
)


class TestTheTransactionInTheLog:
    @pytest.mark.parametrize("checkpointed", [False, True])
    @pytest.mark.parametrize("absolute", ["uri", "path", "relative"])
    def test_it_is_taken_over_with_the_file_in_progress(self, lake: Lake, checkpointed: bool, absolute: str) -> None:
        two_days(lake)
        prefix = {"uri": f"file://{lake.root}/data/", "path": f"{lake.root}/data/", "relative": ""}[absolute]
        committed(lake, *(f"date=2026-01-{path}.ndjson" for path in ("27/a", "27/b", "28/a")))
        progress = in_log(f"{prefix}{DAY}/a.ndjson", {f"{prefix}{DAY}/b.ndjson": 4})
        committed(lake, f"{DAY}/b.ndjson", first=4, app_id=progress)
        if checkpointed:
            DeltaTable(str(table(lake))).create_checkpoint()
            DeltaTable(str(table(lake))).alter.set_table_description("a foreign commit")
            for version in range(2):
                (table(lake) / f"_delta_log/{version:020d}.json").unlink()
        report = adopted(lake)
        assert report.error is None
        assert report.in_progress == {f"{DAY}/b.ndjson": 4}
        assert report.last_committed_file == f"{DAY}/a.ndjson"
        assert "size and etag are those of now" in finding(report, "in progress")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_the_newest_one_counts(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, "date=2026-01-27/a.ndjson", app_id=in_log(uri(lake, "date=2026-01-27/a.ndjson"), version=0))
        committed(lake, "date=2026-01-27/b.ndjson", app_id=in_log(uri(lake, "date=2026-01-27/b.ndjson"), version=1))
        assert adopted(lake).watermark == "date=2026-01-27/b.ndjson"
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_a_file_in_progress_before_the_last_finished_one_is_read_to_its_end(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, "date=2026-01-27/a.ndjson", first=3)
        late = in_log(uri(lake, f"{DAY}/b.ndjson"), {uri(lake, "date=2026-01-27/a.ndjson"): 3})
        committed(lake, "date=2026-01-27/b.ndjson", f"{DAY}/a.ndjson", f"{DAY}/b.ndjson", app_id=late)
        report = adopted(lake)
        assert "passed over by its watermark" in finding(report, "in progress below the watermark")
        assert report.next_files == 3
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_of_another_place_it_is_refused(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson", app_id=in_log("s3://bucket/other/a.ndjson"))
        report = adopted(lake)
        assert "a transaction about s3://bucket/other/a.ndjson" in (report.error or "")
        mixed = in_log(uri(lake, f"{DAY}/a.ndjson"), {"s3://bucket/other/a.ndjson": 1})
        committed(lake, f"{DAY}/b.ndjson", app_id=mixed)
        assert "about another place: it names s3://bucket/other/a.ndjson" in (adopted(lake).error or "")

    def test_two_sources_of_one_table_find_each_its_own(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, "date=2026-01-27/a.ndjson", app_id=in_log(uri(lake, "date=2026-01-27/a.ndjson")))
        committed(lake, app_id=in_log("s3://bucket/other/z.ndjson"))
        assert adopted(lake).watermark == "date=2026-01-27/a.ndjson"
        assert lake.run().ok
        lake.assert_exactly_once()

    @pytest.mark.parametrize("damaged", DAMAGED, ids=["base64", "json", "list", "shape"])
    def test_damaged_without_another_it_is_an_error_and_never_a_fresh_start(self, lake: Lake, damaged: str) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson", app_id=damaged)
        before = everything(lake)
        for fresh in (False, True):
            assert "not a readable checkpoint" in (adopted(lake, fresh=fresh).error or "")
        assert everything(lake) == before

    @pytest.mark.parametrize("damaged", DAMAGED, ids=["base64", "json", "list", "shape"])
    @pytest.mark.parametrize("checkpointed", [False, True])
    def test_damaged_the_one_before_it_is_taken_and_what_is_read_again_is_told(
        self, lake: Lake, damaged: str, checkpointed: bool
    ) -> None:
        two_days(lake)
        committed(lake, "date=2026-01-27/a.ndjson", app_id=in_log(uri(lake, "date=2026-01-27/a.ndjson"), version=0))
        committed(lake, app_id="penguin-events")
        committed(lake, "date=2026-01-27/b.ndjson", app_id=damaged)
        if checkpointed:
            DeltaTable(str(table(lake))).create_checkpoint()
            (table(lake) / f"_delta_log/{0:020d}.json").unlink()
        report = adopted(lake)
        assert (report.error, report.adopted, report.watermark) == (None, True, "date=2026-01-27/a.ndjson")
        assert (
            report.trace
            == f"the transaction of Blizzard in {'the Delta checkpoint' if checkpointed else 'table version 0'}"
        )
        told = finding(report, "damaged checkpoint")
        assert "is not a readable checkpoint" in told
        assert f"{report.trace} is taken" in told
        assert "read again" in told
        assert ("after which 1 data file came in" in told) is not checkpointed
        assert lake.run().ok
        lake.expected += ids_of(lake, "date=2026-01-27/b.ndjson")
        lake.assert_exactly_once()

    def test_of_two_damaged_ones_the_third_is_taken(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, "date=2026-01-27/a.ndjson", app_id=in_log(uri(lake, "date=2026-01-27/a.ndjson"), version=0))
        for damaged in DAMAGED[:2]:
            committed(lake, app_id=damaged)
        report = adopted(lake)
        assert (report.error, report.watermark) == (None, "date=2026-01-27/a.ndjson")
        assert [each.name for each in report.findings].count("damaged checkpoint") == 2

    def test_damaged_beside_a_good_file_the_file_is_taken_and_the_damage_told(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, *(f"date=2026-01-{path}.ndjson" for path in ("27/a", "27/b", "28/a")), app_id=DAMAGED[0])
        committed(lake, f"{DAY}/b.ndjson")
        noted(lake, FORMS["a string"])
        report = adopted(lake)
        assert (report.error, report.trace, report.watermark) == (None, CHECKPOINT, WATERMARK)
        assert f"{CHECKPOINT} is taken" in finding(report, "damaged checkpoint")
        assert lake.run().ok
        lake.assert_exactly_once()


class TestTwoTraces:
    def test_what_is_committed_in_the_log_is_preferred_to_a_file_behind_it(self, lake: Lake) -> None:
        two_days(lake)
        done = [f"date=2026-01-{path}.ndjson" for path in ("27/a", "27/b", "28/a", "28/b")]
        committed(lake, *done, app_id=in_log(uri(lake, f"{DAY}/b.ndjson")))
        noted(lake, {"watermark": f"{DAY}/a.ndjson"})
        report = adopted(lake)
        assert "the log is taken: its rows were committed with it" in finding(report, "two traces")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_a_file_ahead_is_believed_when_staged_commits_came_after_the_log(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, "date=2026-01-27/a.ndjson", app_id=in_log(uri(lake, "date=2026-01-27/a.ndjson")))
        committed(lake, *(f"date=2026-01-{path}.ndjson" for path in ("27/b", "28/a", "28/b")))
        noted(lake, FORMS["a string"])
        report = adopted(lake)
        assert "before the staged commits" in finding(report, "two traces")
        assert lake.run().ok
        lake.assert_exactly_once()


class TestWhileItStillMoves:
    def test_a_fresh_checkpoint_or_commit_is_named_and_refused(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, FORMS["a string"])
        report = adopted(lake, quiet_for=600.0)
        assert "its checkpoint file was written" in (report.error or "")
        assert "penguin-events… committed table version 0" in (report.error or "")
        assert (report.adopted, report.watermark) == (False, WATERMARK)
        an_hour_ago = time.time() - 3600
        os.utime(table(lake) / CHECKPOINT, (an_hour_ago, an_hour_ago))
        assert "its checkpoint file" not in (adopted(lake, quiet_for=600.0).error or "")
        os.utime(table(lake) / f"_delta_log/{0:020d}.json", (an_hour_ago, an_hour_ago))
        assert adopted(lake, quiet_for=600.0).adopted

    def test_staged_files_must_be_committed_first(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, FORMS["a string"])
        meta = {"filename": "x.parquet", "size": 1, "record_count": 1, "partition_values": {}, "source_file": "s"}
        noted(lake, meta, "_staging/pending/x.meta.json")
        report = adopted(lake)
        assert "1 staged file of the old program wait" in (report.error or "")
        assert "_staging/pending/x.meta.json" in (report.error or "")
        (there,) = DeltaTable(str(table(lake))).file_uris()
        noted(lake, {**meta, "filename": Path(there).name}, "_staging/pending/x.meta.json")
        assert adopted(lake).adopted

    def test_our_own_mirror_in_its_place_is_no_movement_of_its(self, lake: Lake) -> None:
        lake.source_settings = {"checkpoint": {"mirror_legacy": True}}
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, FORMS["a string"])
        report = adopted(lake)
        assert (report.adopted, finding(report, "moved afterwards")) == (True, "")
        assert json.loads((table(lake) / CHECKPOINT).read_bytes())["tidegate"]["version"] == 1

    def test_what_moves_between_two_looks_is_noticed(self, lake: Lake) -> None:
        from tidegate.migrate import blizzard
        from tidegate.protocol.change import SourceKey
        from tidegate.storage.stores import open_store

        committed(lake)
        noted(lake, FORMS["a string"])
        store, key = open_store(lake.table), SourceKey("events", "default")
        before = blizzard.activity(store, key, frozenset())
        assert blizzard.activity(store, key, frozenset()).describe_changes_since(before) == ()
        noted(lake, FORMS["per partition"])
        committed(lake)
        noted(lake, {"filename": "x.parquet"}, "_staging/pending/x.meta.json")
        moved = blizzard.activity(store, key, frozenset()).describe_changes_since(before)
        assert moved == (
            "its checkpoint file was written again",
            "penguin-events… committed table version 1",
            "_staging/pending changed",
        )


class TestWhatItMayHaveLeftOutOrDoubled:
    def left_out(self, lake: Lake) -> None:
        """Entries for two days; a third between them has files and no entry."""
        for path in ("27/a", "27/z", "28/a", "29/a", "29/b"):
            lake.arrive(f"date=2026-01-{path}.ndjson")
        committed(lake, "date=2026-01-27/a.ndjson", "date=2026-01-29/a.ndjson")
        value = "date=2026-01-29/a.ndjson"
        entries = {"date=2026-01-27": "a.ndjson", "date=2026-01-29": "a.ndjson"}
        noted(lake, {"watermark": {"state": "Active", "value": value}, "partition_watermarks": entries})

    def test_files_in_partitions_without_an_entry_stay_left_out_and_are_reported(self, lake: Lake) -> None:
        self.left_out(lake)
        report = adopted(lake)
        assert "1 file at or below its watermark" in finding(report, "left out")
        assert f"{DAY}/a.ndjson" in finding(report, "left out")
        assert lake.run().ok
        assert lake.ids() == [each for each in lake.expected if each not in range(20, 30)]
        lake.arrive(f"{DAY}/b.ndjson")
        assert lake.run().sources[0].rows == 10

    def test_or_are_read_when_somebody_says_so(self, lake: Lake) -> None:
        self.left_out(lake)
        report = adopted(lake, read_skipped=True)
        assert (report.adopted, finding(report, "left out")) == (True, "")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_files_of_the_table_in_no_commit_and_files_added_twice(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        noted(lake, FORMS["a string"])
        assert finding(adopted(lake, dry_run=True), "added twice") == ""
        (table(lake) / "orphan.parquet").write_bytes(b"PAR1")
        entry = table(lake) / f"_delta_log/{0:020d}.json"
        add = next(line for line in entry.read_text().splitlines() if line.startswith('{"add"'))
        info = json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE"}})
        (table(lake) / f"_delta_log/{1:020d}.json").write_text(f"{info}\n{add}\n")
        report = adopted(lake, dry_run=True)
        assert "1 file in the table's folder and in no commit of the log" in finding(report, "in no commit")
        assert finding(report, "in no commit").endswith("orphan.parquet")
        assert "1 file added to the table again while visible" in finding(report, "added twice")

    def test_files_that_were_compacted_or_removed_are_in_a_commit(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson")
        committed(lake, f"{DAY}/b.ndjson")
        noted(lake, FORMS["a string"])
        old = DeltaTable(str(table(lake)))
        old.optimize.compact()
        assert finding(adopted(lake, dry_run=True), "in no commit") == ""
        DeltaTable(str(table(lake))).create_checkpoint()
        DeltaTable(str(table(lake))).alter.set_table_description("a foreign commit")
        for version in range(3):
            (table(lake) / f"_delta_log/{version:020d}.json").unlink()
        assert finding(adopted(lake, dry_run=True), "in no commit") == ""

    def test_a_file_in_progress_that_is_gone(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake, f"{DAY}/a.ndjson", app_id=in_log(f"{DAY}/a.ndjson", {f"{DAY}/lost.ndjson": 3}))
        report = adopted(lake)
        assert f"{DAY}/lost.ndjson" in finding(report, "in progress and gone")
        assert report.adopted


class TestSourcesItNeverRead:
    def test_one_starts_at_the_beginning_only_when_somebody_says_so(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake)
        noted(lake, FORMS["a string"], "_blizzard/events_other_checkpoint.json")
        assert "_blizzard/events_other_checkpoint.json" in (adopted(lake).error or "")
        assert adopted(lake, fresh=True).adopted
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_but_not_one_that_it_read(self, lake: Lake) -> None:
        two_days(lake)
        committed(lake)
        noted(lake, FORMS["a string"])
        assert "did read this source" in (adopted(lake, fresh=True).error or "")

    def test_without_any_trace_there_is_nothing_to_adopt(self, lake: Lake) -> None:
        assert "there is no table" in (adopted(lake).error or "")
        write_deltalake(str(table(lake)), pa.table({"id": []}, schema=SCHEMA.empty_table().select(["id"]).schema))
        assert "no trace of Blizzard" in (adopted(lake).error or "")


def test_the_command_shows_asks_and_takes_over(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    def called(*more: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            cli.main(["adopt", str(lake.config), "-p", "events", *more])
        return int(end.value.code or 0), capsys.readouterr().out

    two_days(lake)
    committed(lake, f"{DAY}/a.ndjson", app_id=in_log(f"{DAY}/a.ndjson", {f"{DAY}/b.ndjson": 4}))
    assert called()[0] == 2
    code, text = called("--dry-run", "--quiet-for", "0")
    assert (code, "4 records read" in text, "nothing written yet" in text) == (0, True, True)
    code, text = called("--yes")
    assert (code, "not taken over: events/default: the old program still moves" in text) == (1, True)
    code, text = called("--yes", "--quiet-for", "0", "--json")
    (report,) = json.loads(text)["adoptions"]
    assert (code, report["adopted"], report["in_progress"]) == (0, True, {f"{DAY}/b.ndjson": 4})


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked_after_having_seen_it(lake: Lake, answer: str) -> None:
    two_days(lake)
    committed(lake, f"{DAY}/a.ndjson")
    noted(lake, FORMS["a string"])
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tidegate", "adopt", str(lake.config), "-p", "events", "--quiet-for", "0"]
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.write(ours, f"{answer}\n".encode())
    shown, asked = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert "Take it over?" in asked
    assert "nothing written yet" in shown
    taken = DeltaTable(str(table(lake))).transaction_version("tidegate/events/default")
    assert (process.returncode, taken) == ((0, 1) if answer == "y" else (1, None))


class TestTwoSourcesInOneTable:
    @pytest.fixture
    def config(self, lake: Lake) -> Path:
        for path in ("asia/d=1/a", "asia/d=1/b", "europe/d=1/a", "europe/d=1/b"):
            lake.arrive(f"{path}.ndjson")
        sources = {
            name: {"source_uri": str(lake.root / "data" / name), "use_watermark": True} for name in ("asia", "europe")
        }
        pipeline = {"sources": sources, "schema": dict(lake.schema), "sink": {"table_uri": str(table(lake))}}
        path = lake.root / "two.yml"
        path.write_text(json.dumps({"pipelines": {"events": pipeline}}))
        return path

    def run(self, config: Path) -> bool:
        project = load(config)
        return Loop(project, InProcessEngine(), 2).once(project.pipelines).ok

    def test_each_takes_over_its_own_checkpoint(self, lake: Lake, config: Path) -> None:
        committed(lake, "asia/d=1/a.ndjson", "europe/d=1/a.ndjson", "europe/d=1/b.ndjson")
        noted(lake, {"watermark": "d=1/a.ndjson"}, "_blizzard/events_asia_checkpoint.json")
        noted(lake, {"watermark": "d=1/b.ndjson"}, "_blizzard/events_europe_checkpoint.json")
        assert not self.run(config)
        reports = adopt(config, "events", quiet_for=0)
        assert [(each.source, each.next_files, each.error) for each in reports] == [
            ("asia", 1, None),
            ("europe", 0, None),
        ]
        assert self.run(config)
        lake.assert_exactly_once()

    def test_a_transaction_that_does_not_say_whose_it_is_belongs_to_neither(self, lake: Lake, config: Path) -> None:
        committed(lake, "asia/d=1/a.ndjson", app_id=in_log("d=1/a.ndjson"))
        reports = adopt(config, "events", quiet_for=0)
        assert all("nothing of this source" in (each.error or "") for each in reports)

    def test_one_alone_can_be_taken_over(self, lake: Lake, config: Path) -> None:
        committed(lake, "asia/d=1/a.ndjson", app_id=in_log(uri(lake, "asia/d=1/a.ndjson")))
        (asia,) = adopt(config, "events", "asia", quiet_for=0)
        assert (asia.adopted, asia.watermark) == (True, "d=1/a.ndjson")
        (europe,) = adopt(config, "events", "europe", quiet_for=0, fresh=True)
        assert europe.adopted
        assert self.run(config)
        lake.assert_exactly_once()
