"""The copy of a watermark is a debt of the commit: the log stays the position, a difference is never guessed away."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state.lake import Lake
from support import scripts
from support.errors import check_names, raises
from support.providers import opened as provider_at
from support.providers import text
from tidegate.errors import AccessDenied, CommitLost, StateError
from tidegate.observe.events import Notice
from tidegate.protocol.position import Position
from tidegate.protocol.providers import BaseMetadataProvider, NumberedMetadataProvider, WatermarkManager
from tidegate.protocol.store import COPY_KIND, PositionStore, ProviderCopy, check_copy, copy_debt

IDS = {"job_id": None, "dataflow_run_id": None}
ID = "p/s"
PROGRAM = (
    "import sys\n"
    "from pathlib import Path\n"
    "from state.test_provider_copy import commit, lake_and_provider\n"
    "commit(*lake_and_provider(Path(sys.argv[1])), int(sys.argv[2]))\n"
)


def lake_and_provider(folder: Path) -> tuple[Lake, BaseMetadataProvider]:
    return Lake.local(folder / "table"), provider_at({"provider": "sql", "url": f"sqlite:///{folder / 'state.db'}"})


def kept(provider: BaseMetadataProvider | None) -> WatermarkManager | None:
    return None if provider is None else WatermarkManager(provider)


def store(lake: Lake, provider: BaseMetadataProvider | None, **settings: Any) -> PositionStore:
    copy = ProviderCopy(kept(provider), lambda: lake.positions().position(), **settings)
    return lake.positions(payers={COPY_KIND: copy.pay})


def commit(lake: Lake, provider: BaseMetadataProvider, number: int) -> Position:
    """One commit with record ``number``; its watermark is ``text(number)``."""
    positions = store(lake, provider)
    owed = copy_debt(ID, text(number), text(number - 1) if number else None)
    return positions.commit(positions.open(), lake.change(number, number + 1, debts=(owed,)))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_and_provider(tmp_path)[0]


@pytest.fixture
def provider(tmp_path: Path) -> NumberedMetadataProvider:
    found = lake_and_provider(tmp_path)[1]
    assert isinstance(found, NumberedMetadataProvider)
    return found


def test_the_copy_follows_the_commit_and_names_its_document(lake: Lake, provider: NumberedMetadataProvider) -> None:
    commit(lake, provider, 0)
    done = commit(lake, provider, 1)
    saved = provider.last(ID)
    assert saved is not None
    assert done.parent is not None
    assert (saved.watermark, saved.previous) == (text(1), text(0))
    assert (saved.job_id, saved.dataflow_run_id) == ("tidegate/p/s", f"{2:020d}-{done.parent.attempt}")


@pytest.mark.parametrize("place", ["state.debt.before", "state.provider.before", "state.provider.after"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_kill_around_the_save_is_completed_by_the_next_start(tmp_path: Path, place: str, number: int) -> None:
    lake, provider = lake_and_provider(tmp_path)
    if number:
        commit(lake, provider, 0)
    assert scripts.run("-c", PROGRAM, tmp_path, str(number), failpoints=f"{place}=kill") == -signal.SIGKILL
    assert lake.positions().position() == number + 1
    saved_already = place == "state.provider.after"
    assert (provider.get_watermark(ID) == text(number)) == saved_already
    store(lake, provider).open()
    assert provider.get_watermark(ID) == text(number)
    assert [saved.watermark for saved in provider.history(ID)] == [text(each) for each in range(number + 1)]
    assert lake.ids() == list(range(number + 1))


def test_a_store_out_of_order_delays_the_copy_and_loses_no_row(tmp_path: Path) -> None:
    lake, provider = lake_and_provider(tmp_path)
    commit(lake, provider, 0)
    (tmp_path / "state.db").rename(tmp_path / "away.db")
    (tmp_path / "state.db").mkdir()
    done = commit(lake, provider, 1)
    assert done.unpaid
    assert any(isinstance(event, Notice) and "a step after it failed" in event.text for event in lake.events)
    with raises(AccessDenied, "state database", "state.db", "unable to open"):
        store(lake, provider).open()
    (tmp_path / "state.db").rmdir()
    (tmp_path / "away.db").rename(tmp_path / "state.db")
    store(lake, provider).open()
    assert provider.get_watermark(ID) == text(1)
    assert lake.ids() == [0, 1]


def test_paying_twice_saves_once(lake: Lake, provider: NumberedMetadataProvider) -> None:
    done = commit(lake, provider, 0)
    ProviderCopy(kept(provider), lambda: 1).pay(done, copy_debt(ID, text(0), None))
    assert len(provider.history(ID)) == 1


def test_a_provider_that_was_emptied_gets_the_copy_again(lake: Lake, provider: NumberedMetadataProvider) -> None:
    done = commit(lake, provider, 0)
    ProviderCopy(kept(provider), lambda: 1).pay(done, copy_debt("p/t", text(5), text(4)))
    assert provider.get_watermark("p/t") == text(5)


def test_a_third_value_is_not_overwritten(lake: Lake, provider: NumberedMetadataProvider) -> None:
    done = commit(lake, provider, 0)
    provider.update_watermark(ID, text(9), **IDS)
    with raises(StateError, "p/s", "tidegate watermark set") as caught:
        ProviderCopy(kept(provider), lambda: 1).pay(done, copy_debt(ID, text(1), text(0)))
    check_names(caught.value, text(9), text(1))
    assert provider.get_watermark(ID) == text(9)


def test_a_run_that_was_overtaken_pays_nothing(lake: Lake, provider: NumberedMetadataProvider) -> None:
    first = commit(lake, provider, 0)
    commit(lake, provider, 1)
    commit(lake, provider, 2)
    ProviderCopy(kept(provider), lambda: 3).pay(first, copy_debt(ID, text(0), None))
    assert provider.get_watermark(ID) == text(2)


def test_what_a_person_decides_replaces_whatever_is_there(lake: Lake, provider: NumberedMetadataProvider) -> None:
    commit(lake, provider, 0)
    for kept in (text(9), "{oops"):
        provider.update_watermark(ID, kept, **IDS)
        positions = store(lake, provider, overwrite=True)
        change = replace(lake.change(1, 1), debts=(copy_debt(ID, text(3), text(0)),))
        positions.commit(positions.open(), change)
        assert provider.get_watermark(ID) == text(3)


def test_what_a_person_decided_is_completed_by_the_next_start(lake: Lake, provider: NumberedMetadataProvider) -> None:
    done = commit(lake, provider, 0)
    provider.update_watermark(ID, text(9), **IDS)
    ProviderCopy(kept(provider), lambda: 1).pay(done, copy_debt(ID, text(3), text(0), by_hand=True))
    assert provider.get_watermark(ID) == text(3)


def test_without_a_provider_an_old_debt_is_nobodys(lake: Lake, provider: NumberedMetadataProvider) -> None:
    done = commit(lake, provider, 0)
    ProviderCopy(None, lambda: 1).pay(done, copy_debt(ID, text(1), text(0)))
    assert provider.get_watermark(ID) == text(0)


# --- the check at the start of a run


def test_equal_and_missing_copies_pass_the_check(provider: NumberedMetadataProvider) -> None:
    check_copy(kept(provider), ID, None)
    assert provider.get_watermark(ID) is None
    check_copy(kept(provider), ID, text(1), read_only=True)
    assert provider.get_watermark(ID) is None
    check_copy(kept(provider), ID, text(1))
    assert provider.get_watermark(ID) == text(1)
    check_copy(kept(provider), ID, text(1))
    check_copy(None, ID, text(2))
    assert len(provider.history(ID)) == 1


def test_the_same_watermark_in_other_words_passes_the_check(provider: NumberedMetadataProvider) -> None:
    provider.update_watermark(ID, '{ "b": 2,   "a": {"__date__": "2026-01-01"} }', **IDS)
    check_copy(kept(provider), ID, '{"a": {"__date__": "2026-01-01"}, "b": 2}')
    assert len(provider.history(ID)) == 1


@pytest.mark.parametrize("logged", [text(1), None, '{"__inclusive__": ["id"], "id": 2}'])
def test_a_copy_that_differs_stops_the_run(provider: NumberedMetadataProvider, logged: str | None) -> None:
    provider.update_watermark(ID, '{"id": 2}', **IDS)
    with raises(StateError, "p/s", '{"id": 2}', "tidegate watermark set"):
        check_copy(kept(provider), ID, logged)
    assert provider.get_watermark(ID) == '{"id": 2}'


def test_a_copy_that_differs_since_another_run_was_first_is_planned_again(provider: NumberedMetadataProvider) -> None:
    provider.update_watermark(ID, text(2), **IDS)
    with pytest.raises(CommitLost):
        check_copy(kept(provider), ID, text(1), moved=lambda: True)


def test_a_copy_that_cannot_be_read_stops_the_run(provider: NumberedMetadataProvider) -> None:
    provider.update_watermark(ID, "{oops", **IDS)
    with raises(StateError, "watermark", "JSON", "'{oops'"):
        check_copy(kept(provider), ID, text(1))
