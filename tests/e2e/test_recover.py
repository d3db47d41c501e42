"""From every stop to the next successful run, by the way out that the message names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from deltalake import DeltaTable

from support.lake import Lake
from tidegate import Check, recover, status
from tidegate.cli.main import cli
from tidegate.cli.repair import recover as recover_command
from tidegate.commands.recover import ACCEPTED
from tidegate.protocol.documents import digest, encode

STATE = "lake/events/_tidegate/events/default"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three passes over one folder, two files each: positions 1 to 3."""
    lake = Lake(tmp_path, settings={"global": {"commit_deadline_secs": 20}})
    for number in range(3):
        lake.arrive(f"date=2026-01-28/{number}a.ndjson")
        lake.arrive(f"date=2026-01-28/{number}b.ndjson")
        assert lake.run().ok
    return lake


def table_of(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.root / "lake/events"))


def clean_log(lake: Lake) -> None:
    """As the log's clean-up leaves it: a checkpoint, no entry up to it, and a newer commit of somebody else."""
    table = table_of(lake)
    table.create_checkpoint()
    table_of(lake).alter.set_table_description("a foreign commit")
    for version in range(table.version() + 1):
        (lake.root / f"lake/events/_delta_log/{version:020d}.json").unlink(missing_ok=True)


def objects(lake: Lake, version: int, ending: str) -> list[Path]:
    return sorted((lake.root / STATE).glob(f"{version:020d}-*.{ending}"))


def lose(lake: Lake, version: int) -> None:
    """The document of a position is gone, and the log entry with it."""
    (document,) = objects(lake, version, "json")
    document.unlink()
    clean_log(lake)


def by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def error_of(lake: Lake) -> str:
    report = lake.run().sources[0]
    assert report.exit_code == 5, report
    return report.error or ""


def everything(lake: Lake) -> dict[str, bytes]:
    folder = lake.root / "lake"
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestAStateThatCannotBeRead:
    def test_it_stops_and_recover_explains_rung_by_rung_and_changes_nothing(self, lake: Lake) -> None:
        lose(lake, 3)
        assert "`tidegate recover`" in error_of(lake)
        before = everything(lake)
        checks = by_name(recover(lake.config, "events"))
        assert everything(lake) == before
        assert checks["events/default"].verdict == "fail"
        assert "--accept mirror" in checks["events/default"].remedy
        assert "--accept previous --accept doubles" in checks["events/default"].remedy
        assert "no document" in checks["events/default position 3"].detail
        assert checks["events/default position 2"].verdict == "ok"
        assert "shows position 3" in checks["events/default mirror"].detail
        assert (
            "2 files: date=2026-01-28/2a.ndjson, date=2026-01-28/2b.ndjson" in checks["events/default doubles"].detail
        )

    def test_from_the_mirror_nothing_is_doubled_or_left_out(self, lake: Lake) -> None:
        lose(lake, 3)
        (told, *_) = recover(lake.config, "events", accept=["mirror"])
        assert told.verdict == "ok", told
        assert "recorded anew as 4" in told.detail
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_an_earlier_state_needs_a_second_word_when_rows_may_be_doubled(self, lake: Lake) -> None:
        lose(lake, 3)
        before = everything(lake)
        checks = by_name(recover(lake.config, "events", accept=["previous"]))
        assert checks["events/default"].verdict == "fail"
        assert everything(lake) == before

    def test_with_it_only_the_files_it_named_are_doubled_and_nothing_is_left_out(self, lake: Lake) -> None:
        lose(lake, 3)
        checks = by_name(recover(lake.config, "events", accept=["previous", "doubles"]))
        assert checks["events/default"].verdict == "ok"
        assert "continued from the state of position 2" in checks["events/default"].detail
        assert "2a.ndjson" in checks["events/default doubles"].detail
        assert lake.run().ok
        assert lake.ids() == sorted([*lake.expected, *range(40, 60)])
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().sources[0].rows == 10

    def test_a_missing_note_costs_nothing_when_the_files_are_in_the_table(self, lake: Lake) -> None:
        (note,) = objects(lake, 3, "won")
        note.unlink()
        clean_log(lake)
        error_of(lake)
        checks = by_name(recover(lake.config, "events"))
        assert "loses nothing and doubles nothing" in checks["events/default"].remedy
        (told, *_) = recover(lake.config, "events", accept=["previous"])
        assert told.verdict == "ok", told
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_a_state_without_the_form_of_one_is_rebuilt_from_what_its_commit_covers(self, lake: Lake) -> None:
        rewritten(lake, {"watermark": 7})
        assert "is damaged" in error_of(lake)
        checks = by_name(recover(lake.config, "events"))
        assert "its state cannot be understood" in checks["events/default position 3"].detail
        (told, *_) = recover(lake.config, "events", accept=["previous"])
        assert "the state of position 2 and what position 3 read" in told.detail
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_what_another_command_changed_is_not_rebuilt_from_coverage(self, lake: Lake) -> None:
        rewritten(lake, {"watermark": 7}, action="watermark set")
        checks = by_name(recover(lake.config, "events"))
        assert "position 3 cannot be proven" in checks["events/default doubles"].detail

    def test_without_any_state_left_only_a_backup_or_a_new_table_helps(self, lake: Lake) -> None:
        backup = lake.root / "backup"
        shutil.copytree(lake.root / STATE, backup)
        for path in objects(lake, 1, "json") + objects(lake, 2, "json") + objects(lake, 3, "json"):
            path.write_bytes(b"{")
        (lake.root / "lake/events/_tidegate/events_default_checkpoint.json").unlink()
        clean_log(lake)
        error_of(lake)
        for accept in ((), ("mirror", "previous", "doubles")):
            checks = by_name(recover(lake.config, "events", accept=accept))
            assert checks["events/default"].verdict == "fail"
            assert "no earlier state is left either" in checks["events/default"].remedy
        shutil.rmtree(lake.root / STATE)
        shutil.copytree(backup, lake.root / STATE)
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_the_limit_of_the_search_is_raised_or_recovered_from(self, lake: Lake) -> None:
        shutil.rmtree(lake.root / "lake/events/_tidegate")
        for number in range(4):
            table_of(lake).alter.set_table_description(f"foreign commit {number}")
        lake.settings = {**lake.settings, "recovery": {"max_commits": 2}}
        assert "raise recovery.max_commits above 2" in error_of(lake)
        (told, *_) = recover(lake.config, "events", accept=["previous"])
        assert told.verdict == "ok", told
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_a_newer_state_is_refused_whatever_is_accepted(self, lake: Lake) -> None:
        rewritten(lake, {"schema_version": 9, "watermark": "?"})
        assert "this program knows 1" in error_of(lake)
        (told,) = recover(lake.config, "events", accept=["previous", "doubles", "mirror"])
        assert (told.verdict, "schema_version 9" in told.detail) == ("fail", True)


def rewritten(lake: Lake, state: dict[str, Any], action: str = "run") -> None:
    """Position 3 holds another state, in its document, its note and its log entry alike; its coverage is right."""
    (document,), (note,) = objects(lake, 3, "json"), objects(lake, 3, "won")
    document.write_bytes(encode({**json.loads(document.read_bytes()), "state": state, "action": action}))
    sha256 = digest(document.read_bytes())
    note.write_bytes(encode({**json.loads(note.read_bytes()), "sha256": sha256}))
    entry = lake.root / f"lake/events/_delta_log/{2:020d}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for info in (each["commitInfo"] for each in actions if "commitInfo" in each):
        (mark,) = json.loads(info["userMetadata"])["tidegate"]
        info["userMetadata"] = json.dumps({"tidegate": [{**mark, "sha256": sha256, "state": state}]})
    entry.write_text("".join(json.dumps(each) + "\n" for each in actions))
    (lake.root / "lake/events/_tidegate/events_default_checkpoint.json").unlink()


class TestOtherStops:
    def test_a_forgotten_position_goes_on_when_the_log_is_put_back(self, lake: Lake) -> None:
        log, away = lake.root / "lake/events/_delta_log", lake.root / "away"
        log.rename(away)
        assert "put the table back" in error_of(lake)
        away.rename(log)
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_or_starts_over_once_what_the_message_names_is_removed(self, lake: Lake) -> None:
        shutil.rmtree(lake.root / "lake/events/_delta_log")
        assert f"{STATE} and _tidegate/events_default_checkpoint.json" in error_of(lake)
        shutil.rmtree(lake.root / STATE)
        (lake.root / "lake/events/_tidegate/events_default_checkpoint.json").unlink()
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_another_table_in_its_place_or_a_new_table_uri(self, lake: Lake) -> None:
        entry = lake.root / f"lake/events/_delta_log/{0:020d}.json"
        content = entry.read_text()
        entry.write_text(content.replace(str(table_of(lake).metadata().id), "another-id"))
        assert "put the former table back" in error_of(lake)
        lake.sink_settings = {"table_uri": "lake/new"}
        assert lake.run().sources[0].rows == 60
        lake.sink_settings = {}
        entry.write_text(content)
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_a_table_put_back_from_an_older_copy_reads_what_it_lacks(self, lake: Lake) -> None:
        (lake.root / f"lake/events/_delta_log/{2:020d}.json").unlink()
        assert lake.ids() == lake.expected[:40]
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_a_retention_for_transactions_until_it_is_unset(self, lake: Lake) -> None:
        table = table_of(lake)
        table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 7 days"})
        assert "UNSET TBLPROPERTIES" in error_of(lake)
        unset(lake, table_of(lake).version())
        lake.arrive("date=2026-01-28/3.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()

    def test_a_damaged_cold_start_is_removed_and_planned_anew(self, tmp_path: Path) -> None:
        cold = {"partition_filter": {"prefix_template": "date=%Y-%m-%d", "lookback": 1}}
        lake = Lake(tmp_path, source_settings=cold)
        lake.run()
        fixed = lake.root / STATE / "cold_start.json"
        fixed.write_bytes(b"{")
        assert "cold_start.json, and plan again" in error_of(lake)
        fixed.unlink()
        assert lake.run().ok


def unset(lake: Lake, version: int) -> None:
    """What ``ALTER TABLE … UNSET TBLPROPERTIES`` leaves in the log."""
    folder = lake.root / "lake/events/_delta_log"
    actions = [json.loads(line) for line in (folder / f"{version:020d}.json").read_text().splitlines()]
    (metadata,) = [action for action in actions if "metaData" in action]
    metadata["metaData"]["configuration"].pop("delta.setTransactionRetentionDuration")
    info = {"commitInfo": {"timestamp": 1, "operation": "UNSET TBLPROPERTIES"}}
    text = "".join(json.dumps(action) + "\n" for action in (info, metadata))
    (folder / f"{version + 1:020d}.json").write_text(text)


def test_the_command_ends_with_1_while_stopped_and_with_0_after(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    def recovered(*more: str) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as end:
            cli.main(["recover", str(lake.config), "-p", "events", "--json", *more])
        return int(end.value.code or 0), json.loads(capsys.readouterr().out)

    assert recovered()[0] == 0
    lose(lake, 3)
    code, found = recovered()
    assert (code, found["ok"], len(found["checks"])) == (1, False, 5)
    code, found = recovered("--accept", "mirror")
    assert (code, found["ok"]) == (0, True)
    assert recovered()[0] == 0


def test_the_command_offers_every_choice() -> None:
    (accept,) = [each for each in recover_command.params if each.name == "accept"]
    assert isinstance(accept.type, click.Choice)
    assert tuple(accept.type.choices) == ACCEPTED


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000], ids=["lists", "objects"])
@pytest.mark.parametrize("ending", ["000003-*.json", "000003-*.won", "_checkpoint.json", ".at-work.json"])
def test_a_document_that_is_nested_without_end_ends_no_process_and_doubles_nothing(
    lake: Lake, ending: str, content: bytes
) -> None:
    """Whoever can write into the folder of the table can write that; an error of Python stopped every pipeline."""
    folder = lake.root / "lake/events/_tidegate"
    found = [*folder.rglob(f"*{ending}")] or [folder / f"events/default{ending}"]
    found[0].write_bytes(content)
    lake.pipeline_settings = {"on_conflict": "skip"} if ending == ".at-work.json" else {}
    status(lake.config)
    for _ in range(2):
        lake.run()
    lake.assert_exactly_once()
