"""The commit protocol on a real S3 server: creation and commits by racing processes, and lost responses."""

from __future__ import annotations

import time

import pytest

from servers.s3 import Server
from state.lake import Lake, Unlucky, ingest
from state.racing import finished, start
from tidegate.errors import StateError, StorageError
from tidegate.specs.locations import Location, Options

pytestmark = [pytest.mark.s3, pytest.mark.slow]


@pytest.fixture
def lake(s3: Server) -> Lake:
    return Lake(s3.location("lake/events"))


def test_one_run_creates_appends_and_opens_again(lake: Lake) -> None:
    assert ingest(lake, lake.positions(checkpoint_every=2), 3) == 0
    opened = lake.positions().open()
    assert (opened.version, opened.state) == (3, {"next": 3})
    assert lake.ids() == [0, 1, 2]


def test_runs_of_one_source_started_at_once_bring_every_record_once(lake: Lake) -> None:
    moment = time.time() + 4
    processes = [start(lake, records=8, batch=batch, start_at=moment) for batch in (1, 2, 3)]
    for process in processes:
        finished(process)
    assert lake.ids() == list(range(8))


def test_two_sources_create_the_table_at_once_and_both_are_in(s3: Server) -> None:
    for _ in range(2):
        lake = Lake(s3.location("t"))
        moment = time.time() + 3
        processes = [start(lake, source=source, records=2, start_at=moment) for source in ("a", "b")]
        assert [finished(process)["lost"] for process in processes] == [0, 0]
        assert lake.ids("a") == [0, 1]
        assert lake.ids("b") == [0, 1]


def test_rows_are_there_once_although_responses_get_lost(lake: Lake) -> None:
    delta = Unlucky(lake.location, lake.store, ["lost", "refused", "lost", "lost"])
    ingest(lake, lake.positions(delta=delta), 4)
    assert delta.troubles == []
    assert lake.ids() == [0, 1, 2, 3]


def test_a_name_with_a_space_is_the_same_place_for_both_clients(s3: Server) -> None:
    lake = Lake(s3.location("a%20b=c"))
    ingest(lake, lake.positions(), 2)
    assert lake.ids() == [0, 1]
    assert lake.positions().open().version == 2


def test_wrong_credentials_are_a_storage_error_and_show_no_secret(s3: Server, lake: Lake) -> None:
    ingest(lake, lake.positions(), 1)
    options = Options({**s3.options, "AWS_SECRET_ACCESS_KEY": "canary-secret-value"})
    stranger = Lake(Location(lake.location.uri, options))
    with pytest.raises((StorageError, StateError)) as stop:
        stranger.positions().open()
    assert "canary-secret-value" not in str(stop.value)


def test_a_reader_who_may_not_write_stops_without_a_position_lost(s3: Server, lake: Lake) -> None:
    ingest(lake, lake.positions(), 1)
    reader = Lake(Location(lake.location.uri, s3.reader_options))
    positions = reader.positions(deadline_secs=1.0)
    opened = positions.open(read_only=True)
    assert opened.version == 1
    with pytest.raises(StorageError):
        positions.commit(opened, lake.change(1, 2))
    assert lake.positions().open().version == 1
