"""A folder of Parquet files as a destination: a marker decides, whoever comes next completes, every row is in once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faults.racing import ENVIRONMENT
from servers.s3 import Server
from support import landing as landing_module
from support.landing import Landing, following, step, text
from support.racing import raced
from tidegate import failpoints
from tidegate.errors import AccessDenied, CommitLost, StateError
from tidegate.failpoints import VARIABLE, InjectedFailure
from tidegate.state import swap_marker
from tidegate.state.identity import SourceKey
from tidegate.state.parquet_place import LandedPosition, ParquetDestination
from tidegate.state.swap_marker import DIRECTORY
from tidegate.storage.opening import open_store

ACTIONS = ("append", "overwrite", "replace")
PLACES = (
    "state.swap.before",
    "state.swap.marked",
    "state.swap.file",
    "state.swap.copied",
    "state.swap.removed",
    "state.swap.done",
    "state.provider.before",
    "state.provider.after",
)
DURABLE_FROM = PLACES.index("state.swap.marked")
PROGRAM = Path(landing_module.__file__)
IDS = {"job_id": None, "dataflow_run_id": None}


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing.local(tmp_path)


@pytest.fixture(autouse=True)
def _disarmed() -> None:
    failpoints.arm("")


# --- what a change does


@pytest.mark.parametrize("action", ACTIONS)
def test_steps_bring_every_row_once_and_move_the_provider_along(landing: Landing, action: str) -> None:
    for number in range(1, 4):
        done = step(landing, action)
        assert (done.number, done.text) == (number, text(3 * number - 1))
        assert landing.ids() == list(range(3 * number))
        assert landing.provider.get_watermark("p/s") == text(3 * number - 1)
    assert landing.destination().open() == done
    assert landing.left_over() == []


def test_a_place_that_nobody_wrote_is_a_first_run(landing: Landing) -> None:
    assert landing.destination().open() == LandedPosition(0, None)
    assert landing.destination().open().first_run
    assert not open_store(landing.location).exists()


def test_folders_of_partitions_stay_and_foreign_names_do_not_collide(landing: Landing) -> None:
    place = landing.destination()
    position = place.open()
    for number in range(2):
        work = place.new_work_area()
        landing.put(work, [number], name="date=2026-01-01/_x=1/part")
        position = place.append(position, work, text(number))
    assert [path.rpartition("/")[0] for path in place.data_files()] == ["date=2026-01-01/_x=1"] * 2
    assert landing.ids() == [0, 1]


def test_an_overwrite_takes_foreign_files_away_and_leaves_what_readers_pass_over(landing: Landing) -> None:
    store = open_store(landing.location)
    for path in ("old.parquet", "a/old.parquet", "_hidden.parquet", "notes.txt"):
        store.put(path, b"x")
    step(landing, "overwrite")
    assert landing.ids() == [0, 1, 2]
    assert {info.path for info in store.list() if not info.path.startswith("_tidegate")} >= {
        "_hidden.parquet",
        "notes.txt",
    }


def test_a_change_without_files_moves_the_watermark_alone(landing: Landing) -> None:
    step(landing, "append")
    place = landing.destination()
    place.append(place.open(), place.new_work_area(), text(7))
    assert landing.destination().open().text == text(7)
    assert landing.ids() == [0, 1, 2]


def test_few_markers_are_kept(landing: Landing) -> None:
    for _ in range(5):
        step(landing, "append", batch=1)
    kept = [info.path for info in open_store(landing.location).list(DIRECTORY)]
    assert kept == [f"{DIRECTORY}/{5:020d}.done", f"{DIRECTORY}/{5:020d}.json"]


# --- kills


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("first", [True, False])
def test_a_crash_anywhere_is_completed_by_whoever_opens_next(
    landing: Landing, action: str, place: str, first: bool
) -> None:
    if not first:
        step(landing, action)
    before = landing.ids()
    failpoints.arm(f"{place}=raise{'@2' if place == 'state.swap.file' else ''}")
    with pytest.raises(InjectedFailure):
        step(landing, action)
    failpoints.arm("")
    counts = PLACES.index(place) >= DURABLE_FROM
    expected = [*before, *range(len(before), len(before) + 3)] if counts else before
    shown = landing.destination().open(read_only=True)
    assert following(shown) == len(expected)
    opened = landing.destination().open()
    assert opened == shown
    assert landing.ids() == expected
    assert landing.provider.get_watermark("p/s") == opened.text
    step(landing, action)
    assert landing.ids() == list(range(len(expected) + 3))


def killed(landing: Landing, action: str, place: str) -> None:
    environment = {**ENVIRONMENT, VARIABLE: f"{place}=kill{'@2' if place == 'state.swap.file' else ''}"}
    argument = landing.argument(action=action, steps=1)
    done = subprocess.run([sys.executable, str(PROGRAM), argument], env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL, f"the failpoint {place} was not reached"


@pytest.mark.slow
def test_one_place_lives_through_a_kill_at_every_failpoint(landing: Landing) -> None:
    rows = 0
    for number, place in enumerate(PLACES):
        killed(landing, ACTIONS[number % 3], place)
        rows += 3 * (PLACES.index(place) >= DURABLE_FROM)
        assert following(landing.destination().open()) == rows
        assert landing.ids() == list(range(rows))
        step(landing, ACTIONS[(number + 1) % 3])
        rows += 3
        assert landing.ids() == list(range(rows))
        assert landing.provider.get_watermark("p/s") == text(rows - 1)


@pytest.mark.s3
@pytest.mark.slow
def test_a_bucket_lives_through_kills_as_well(s3: Server) -> None:
    location = s3.location("place")
    state = s3.location("state")
    landing = Landing(location, {"provider": "file", "url": state.uri, "options": dict(state.options)})
    step(landing, "append")
    for number, place in enumerate(("state.swap.marked", "state.swap.file", "state.swap.copied"), start=2):
        killed(landing, "overwrite", place)
        assert following(landing.destination().open()) == 3 * number
        assert landing.ids() == list(range(3 * number))
    assert landing.left_over() == []


# --- several at once


@pytest.mark.slow
@pytest.mark.parametrize("action", ["append", "replace"])
def test_of_processes_that_write_at_once_every_step_is_made_once(landing: Landing, action: str) -> None:
    raced(PROGRAM, [landing.argument(action=action, steps=3)] * 3)
    assert landing.ids() == list(range(3 * 3 * 3))
    assert landing.destination().open().text == text(26)
    assert landing.provider.get_watermark("p/s") == text(26)
    assert [saved.watermark for saved in landing.provider.history("p/s")] == [text(3 * n + 2) for n in range(9)]


@pytest.mark.slow
def test_dataflows_that_share_a_place_do_not_hinder_each_other(landing: Landing) -> None:
    arguments = [landing.argument(action="append", steps=3, source=source) for source in ("s", "t")]
    assert [outcome["lost"] for outcome in raced(PROGRAM, arguments)] == [0, 0]
    assert landing.ids() == sorted([*range(9)] * 2)
    assert {landing.provider.get_watermark(f"p/{source}") for source in ("s", "t")} == {text(8)}


def test_a_run_that_was_overtaken_writes_nothing(landing: Landing) -> None:
    place = landing.destination()
    position, work = place.open(), place.new_work_area()
    landing.put(work, [0, 1, 2])
    for _ in range(3):
        step(landing, "append")
    with pytest.raises(CommitLost):
        place.append(position, work, text(2))
    assert landing.ids() == list(range(9))


def test_a_marker_put_below_the_newest_counts_for_nothing(landing: Landing) -> None:
    """As by a run that slept until its number was free again, and was killed right after it took it."""
    step(landing, "append")
    store = open_store(landing.location)
    old = store.get(f"{DIRECTORY}/{1:020d}.json")
    for _ in range(3):
        step(landing, "append")
    store.put(f"{DIRECTORY}/{1:020d}.json", old)
    assert following(landing.destination().open()) == 12
    step(landing, "append")
    assert landing.ids() == list(range(15))
    assert f"{DIRECTORY}/{1:020d}.json" not in {info.path for info in store.list(DIRECTORY)}


def test_a_sleeper_cannot_bring_back_a_file_that_is_gone(landing: Landing) -> None:
    """A run stops between its look at a file and its copy; meanwhile others complete its change and replace it."""
    place = landing.destination()
    position, work = place.open(), place.new_work_area()
    landing.put(work, [0, 1, 2])

    def others_go_on(name: str) -> str | None:
        if name == "state.swap.file":
            failpoints.arm("")
            step(landing, "overwrite")
            step(landing, "overwrite")
        return None

    failpoints.arm_by(others_go_on)
    assert place.append(position, work, text(2)) == LandedPosition(1, text(2))
    assert landing.ids() == list(range(9))
    assert landing.provider.get_watermark("p/s") == text(8)


def test_a_file_that_somebody_else_made_visible_meanwhile_counts(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run completes the change between our look and our copy, and dies before it notes that."""
    store = open_store(landing.location)
    place = ParquetDestination(landing.location, landing.provider, SourceKey("p", "s"), store=store)
    position, work = place.open(), place.new_work_area()
    landing.put(work, [0, 1, 2])
    copy = store.copy

    def late(path: str, to: str) -> None:
        monkeypatch.setattr(store, "copy", copy)
        landing.destination().open()
        store.delete(f"{DIRECTORY}/{1:020d}.done")
        copy(path, to)

    monkeypatch.setattr(store, "copy", late)
    assert place.append(position, work, text(2)) == LandedPosition(1, text(2))
    assert landing.ids() == [0, 1, 2]
    assert swap_marker.listed(store).done


def test_files_that_were_read_and_are_gone_end_a_replacement(landing: Landing) -> None:
    step(landing, "append")
    place = landing.destination()
    position, work = place.open(), place.new_work_area()
    landing.put(work, [0, 1, 2, 3])
    with pytest.raises(CommitLost, match="gone"):
        place.replace(position, work, [*place.data_files(), "elsewhere.parquet"], text(3))
    assert landing.ids() == [0, 1, 2]


# --- the provider


def test_a_provider_that_differs_stops_the_run(landing: Landing) -> None:
    step(landing, "append")
    step(landing, "append")
    for other in (text(99), text(2)):
        landing.provider.update_watermark("p/s", other, **IDS)
        with pytest.raises(StateError, match="somebody changed one of them"):
            landing.destination().open()
        with pytest.raises(StateError, match="somebody changed one of them"):
            landing.destination().open(read_only=True)
    assert landing.ids() == list(range(6))


def test_a_provider_that_knows_more_than_an_empty_place_stops_the_run(landing: Landing) -> None:
    landing.provider.update_watermark("p/s", text(9), **IDS)
    with pytest.raises(StateError, match="nothing"):
        landing.destination().open()


def test_a_provider_that_was_emptied_is_not_a_first_run(landing: Landing, tmp_path: Path) -> None:
    step(landing, "append")
    (tmp_path / "state.db").unlink()
    assert landing.destination().open(read_only=True).text == text(2)
    assert landing.provider.get_watermark("p/s") is None
    assert landing.destination().open().text == text(2)
    assert landing.provider.get_watermark("p/s") == text(2)


def test_a_provider_out_of_order_delays_the_save_and_loses_no_row(landing: Landing, tmp_path: Path) -> None:
    step(landing, "append")
    place = landing.destination()
    position, work = place.open(), place.new_work_area()
    landing.put(work, [3, 4, 5])
    (tmp_path / "state.db").rename(tmp_path / "away.db")
    (tmp_path / "state.db").mkdir()
    with pytest.raises(AccessDenied):
        place.append(position, work, text(5))
    assert landing.ids() == list(range(6))
    (tmp_path / "state.db").rmdir()
    (tmp_path / "away.db").rename(tmp_path / "state.db")
    assert landing.destination().open().text == text(5)
    assert landing.provider.get_watermark("p/s") == text(5)
    assert landing.ids() == list(range(6))


def test_a_person_moves_both_out_of_a_difference(landing: Landing) -> None:
    step(landing, "append")
    for other in (text(99), "{oops"):
        landing.provider.update_watermark("p/s", other, **IDS)
        place = landing.destination()
        place.set_watermark(place.open_for_setting(), text(1))
        assert landing.provider.get_watermark("p/s") == text(1)
        assert landing.destination().open().text == text(1)
    assert landing.ids() == [0, 1, 2]


def test_what_a_person_decided_is_completed_after_a_kill(landing: Landing) -> None:
    step(landing, "append")
    landing.provider.update_watermark("p/s", text(99), **IDS)
    place = landing.destination()
    failpoints.arm("state.provider.before=raise")
    with pytest.raises(InjectedFailure):
        place.set_watermark(place.open_for_setting(), text(1))
    failpoints.arm("")
    assert landing.destination().open().text == text(1)
    assert landing.provider.get_watermark("p/s") == text(1)


# --- trouble in the place


@pytest.mark.parametrize("content", [b"", b"{oops", b"[1]", b"{}", b"\xff"])
def test_a_damaged_marker_is_never_a_first_run(landing: Landing, content: bytes) -> None:
    step(landing, "append")
    open_store(landing.location).put(f"{DIRECTORY}/{1:020d}.json", content)
    with pytest.raises(StateError, match="damaged"):
        landing.destination().open()


def test_a_newer_marker_asks_for_a_newer_version(landing: Landing) -> None:
    step(landing, "append")
    store, path = open_store(landing.location), f"{DIRECTORY}/{1:020d}.json"
    store.put(path, json.dumps({**json.loads(store.get(path)), "schema_version": 2}).encode())
    with pytest.raises(StateError, match="upgrade"):
        landing.destination().open()


def test_a_staged_file_that_somebody_took_away_is_told(landing: Landing) -> None:
    failpoints.arm("state.swap.marked=raise")
    with pytest.raises(InjectedFailure):
        step(landing, "append")
    failpoints.arm("")
    store = open_store(landing.location)
    marker = swap_marker.read(store, 1)
    assert marker is not None
    store.delete(marker.moves[1].source)
    with pytest.raises(StateError, match="is gone"):
        landing.destination().open()


def test_what_a_killed_run_left_in_its_work_area_goes_a_day_later(landing: Landing) -> None:
    failpoints.arm("state.swap.before=raise")
    with pytest.raises(InjectedFailure):
        step(landing, "append")
    failpoints.arm("")
    landing.destination().new_work_area()
    assert landing.left_over() != []
    tomorrow = datetime.now(UTC) + timedelta(hours=25)
    ParquetDestination(landing.location, landing.provider, SourceKey("p", "s"), lambda: tomorrow).new_work_area()
    assert landing.left_over() == []


def test_only_files_that_are_named_count_and_all_of_them_must_be_there(landing: Landing) -> None:
    place = landing.destination()
    work = place.new_work_area()
    landing.put(work, [1])
    landing.put(work, [1], "part-of-a-task-that-was-repeated")
    with pytest.raises(StateError, match=r"gone\.parquet is gone before its rows counted"):
        place.append(place.open(), work, text(1), ["part-00000.parquet", "gone.parquet"])
    place.append(place.open(), work, text(1), ["part-00000.parquet"])
    assert (landing.ids(), landing.left_over()) == ([1], [])
