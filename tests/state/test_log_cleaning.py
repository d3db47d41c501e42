"""Old log entries go after a checkpoint, and never one that a position, its recovery or a look for a RESTORE needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from state.lake import Lake
from support.errors import raises
from tidegate.observe.events import TableCared
from tidegate.protocol.change import SourceKey
from tidegate.protocol.log import DeltaLog
from tidegate.protocol.maintenance import RETENTION, clean_log, retention
from tidegate.specs.locations import Location

DAY = 86_400


@pytest.fixture
def lake(tmp_path: object) -> Lake:
    return Lake(Location(f"file://{tmp_path}/table"))


def ingest(lake: Lake, start: int, end: int, source: str = "s", every: int = 5, **settings: object) -> None:
    positions = lake.positions(source, checkpoint_every=every, **settings)
    for number in range(start, end):
        positions.commit(positions.open(), lake.change(number, number + 1, source))


def age(lake: Lake, days: int, below: int = 10**9) -> None:
    """Make the files of the log older."""
    moment = time.time() - days * DAY
    for path in (lake.path / "_delta_log").iterdir():
        if path.name[:20].isdigit() and int(path.name[:20]) < below:
            os.utime(path, (moment, moment))


def versions(lake: Lake) -> list[int]:
    return DeltaLog(lake.store).versions()


def test_entries_that_a_checkpoint_sums_up_go_after_thirty_days(lake: Lake) -> None:
    ingest(lake, 0, 12)
    age(lake, 29)
    ingest(lake, 12, 15)
    assert versions(lake) == list(range(15))
    age(lake, 31, below=12)
    ingest(lake, 15, 20)
    assert versions(lake) == list(range(9, 20))
    cared = [event for event in lake.events if isinstance(event, TableCared)]
    assert [(event.operation, event.files) for event in cared] == [("clean_log", 10)]
    assert lake.ids() == list(range(20))
    assert lake.positions().open().version == 20
    assert not (lake.path / "_delta_log" / f"{4:020d}.checkpoint.parquet").exists()
    ingest(lake, 20, 22)
    assert lake.ids() == list(range(22))


def forget_documents(lake: Lake, source: str) -> None:
    for info in list(lake.store.list(SourceKey("p", source).directory)):
        lake.store.delete(info.path)


def test_what_a_quiet_source_needs_to_be_recovered_stays(lake: Lake) -> None:
    ingest(lake, 0, 6)
    ingest(lake, 100, 103, "quiet", every=0)
    ingest(lake, 6, 20)
    age(lake, 40)
    ingest(lake, 20, 30)
    assert versions(lake)[0] == 4
    assert 8 in versions(lake)
    forget_documents(lake, "quiet")
    opened = lake.positions("quiet").open()
    assert (opened.version, opened.state) == (3, {"next": 103})
    ingest(lake, 103, 105, "quiet")
    assert lake.ids("quiet") == list(range(100, 105))
    assert lake.ids() == list(range(30))


def test_nothing_goes_while_a_position_has_no_document(lake: Lake) -> None:
    ingest(lake, 0, 4)
    ingest(lake, 100, 101, "quiet", every=0)
    forget_documents(lake, "quiet")
    ingest(lake, 4, 12)
    age(lake, 40)
    ingest(lake, 12, 20)
    assert versions(lake) == list(range(21))
    assert lake.positions("quiet").open().state == {"next": 101}


def test_a_restore_that_a_quiet_source_has_not_seen_stays_visible(lake: Lake) -> None:
    from tidegate.protocol.open import Restored

    ingest(lake, 0, 3)
    ingest(lake, 100, 101, "quiet", every=0)
    lake.table().restore(2)
    age(lake, 40)
    positions = lake.positions("other", checkpoint_every=1)
    for number in range(200, 206):
        positions.commit(positions.open(), lake.change(number, number + 1, "other"))
        age(lake, 40)
    with pytest.raises(Restored):
        lake.positions("quiet").open()


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({"delta.logRetentionDuration": "interval 2 days"}, False),
        ({"delta.logRetentionDuration": "interval 60 days"}, True),
        ({"delta.enableExpiredLogCleanup": "false"}, True),
    ],
)
def test_the_properties_of_the_table_decide(lake: Lake, properties: dict[str, str], kept: bool) -> None:
    ingest(lake, 0, 6, properties=properties)
    age(lake, 40)
    ingest(lake, 6, 12, properties=properties)
    assert (versions(lake)[0] == 0) == kept
    assert lake.ids() == list(range(12))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 3 hours", timedelta(days=1)),
        ("INTERVAL 3 Weeks", timedelta(weeks=3)),
        ("5 days", timedelta(days=5)),
        ("interval 1 month", None),
        ("", None),
    ],
)
def test_retention_is_understood_or_nothing_is_cleaned(text: str, expected: timedelta | None) -> None:
    assert retention({"delta.logRetentionDuration": text}) == expected
    assert retention({}) == RETENTION


def test_a_checkpoint_that_cannot_be_read_keeps_everything_below_it(lake: Lake) -> None:
    ingest(lake, 0, 10)
    (lake.path / "_delta_log" / f"{9:020d}.checkpoint.parquet").write_bytes(b"")
    age(lake, 40)
    with raises(Exception, "_delta_log/00000000000000000009.checkpoint.parquet"):
        clean_log(lake.store, datetime.now(UTC))
    assert versions(lake) == list(range(10))


def test_the_log_of_dead_letters_is_checkpointed_and_cleaned(lake: Lake) -> None:
    letters = lake.letters()
    payers: dict[str, Callable[..., None]] = lake.letter_payers()
    positions = lake.positions(payers=payers)
    log = letters.store

    def pay(start: int, end: int) -> None:
        for number in range(start, end):
            change = lake.change(number, number + 1, debts=(lake.letter_debt(f"bad {number}"),))
            positions.commit(positions.open(), change)

    pay(0, 11)
    names = [info.path.rpartition("/")[2] for info in log.list("_delta_log")]
    assert f"{9:020d}.checkpoint.parquet" in names
    folder = lake.path.with_name("table_dead_letters") / "_delta_log"
    moment = time.time() - 40 * DAY
    for path in folder.iterdir():
        os.utime(path, (moment, moment))
    pay(11, 21)
    assert DeltaLog(log).versions()[0] == 9
    assert len(list(letters.open_letters("p"))) == 21
