"""Which messages are due: by what is known of a source, by what was sent, and by the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.health import Evidence, Health, HealthLevel, Outcome
from tidegate.core.messages import (
    FORGOTTEN_AFTER,
    FoundReason,
    SentMessages,
    SourceNews,
    find_reasons,
    name_destinations,
)
from tidegate.specs.locations import Secret
from tidegate.specs.notify import DestinationSpec, MessageReason, NotifySpec

NOW = datetime(2026, 1, 28, 14, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVERYTHING = NotifySpec(on=tuple(MessageReason))
CHAT = "webhook chat.example.com"
WELL = Evidence("orders", "shop.yml", outcome=Outcome.SUCCEEDED, position=3, last_data_at=NOW, first_seen_at=NOW)
FAILED = replace(WELL, outcome=Outcome.FAILED, error="no bucket", exit_code=4, outcome_since=NOW - HOUR)
COLUMN = FoundReason(MessageReason.NEW_COLUMN, "the table has new columns: a")


def news(known: Evidence | None, *once: FoundReason) -> SourceNews:
    return SourceNews("orders", "default", Health(HealthLevel.HEALTHY), known, once)


def reasons(known: Evidence, rule: NotifySpec = EVERYTHING) -> dict[str, str]:
    return {each.reason.value: each.text for each in find_reasons(news(known), rule, NOW)}


def due(sent: SentMessages, about: SourceNews, now: datetime = NOW, rule: NotifySpec = EVERYTHING) -> list[str]:
    return [each.reason.value for each in sent.find_due(CHAT, rule, about, now)]


def tell(sent: SentMessages, about: SourceNews, now: datetime, rule: NotifySpec = EVERYTHING) -> SentMessages:
    return sent.note(CHAT, sent.find_due(CHAT, rule, about, now), now)


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (WELL, {}),
        (replace(WELL, outcome=None, position=0, last_data_at=None), {}),
        (FAILED, {"failed": "no bucket"}),
        (replace(WELL, outcome=Outcome.REFUSED, error="no such key"), {"failed": "no such key"}),
        (replace(WELL, outcome=Outcome.INCOMPLETE, failed_files=2), {"failed": "2 files cannot be read"}),
        (replace(WELL, failed_units=1), {"failed": "1 work unit failed"}),
        (replace(WELL, problem="the state cannot be read"), {"failed": "the state cannot be read"}),
        (replace(WELL, open_letters=100), {}),
        (replace(WELL, open_letters=101), {"dead_letters": "101 dead letters open"}),
        (replace(WELL, empty=True), {"no_data": "its location is empty: it holds no file at all, read or not"}),
        (replace(WELL, position=0, last_data_at=None), {"no_data": "it ran, and has never had any data"}),
        (
            replace(WELL, expect_every=HOUR, last_data_at=NOW - 2 * HOUR),
            {"late": "no new data since 2026-01-28 12:30Z"},
        ),
        (replace(WELL, expect_every=HOUR, last_data_at=NOW - HOUR), {}),
    ],
)
def test_each_reason_is_found_by_what_is_known(known: Evidence, found: dict[str, str]) -> None:
    assert reasons(known) == found


def test_late_after_comes_before_what_the_source_expects() -> None:
    known = replace(WELL, expect_every=HOUR, last_data_at=NOW - 2 * HOUR)
    assert reasons(known, NotifySpec(late_after=3 * HOUR)) == {}
    known = replace(WELL, last_data_at=NOW - 2 * HOUR)
    (found,) = find_reasons(news(known), NotifySpec(late_after=HOUR), NOW)
    assert (found.reason, found.since) == (MessageReason.LATE, NOW - HOUR)
    assert found.command == "tidegate plan shop.yml -p orders"


def test_a_source_that_never_had_data_is_late_from_its_first_run_on() -> None:
    known = replace(WELL, last_data_at=None, first_seen_at=NOW - 2 * HOUR, expect_every=HOUR)
    assert reasons(known) == {"late": "it has never had any data"}


def test_the_limit_of_dead_letters_is_that_of_the_destination() -> None:
    known = replace(WELL, open_letters=1)
    (found,) = find_reasons(news(known), NotifySpec(dead_letters_above=0), NOW)
    assert (found.reason, found.command) == (MessageReason.DEAD_LETTERS, "tidegate dlq list shop.yml -p orders")


def test_only_reasons_that_are_asked_for_are_due() -> None:
    assert due(SentMessages(), news(FAILED, COLUMN), rule=NotifySpec(on=(MessageReason.LATE,))) == []
    assert due(SentMessages(), news(FAILED, COLUMN)) == ["failed", "new_column"]


def test_a_reason_that_lasts_is_told_once_per_interval() -> None:
    sent = tell(SentMessages(), news(FAILED), NOW)
    assert due(sent, news(FAILED), NOW + HOUR - timedelta(seconds=1)) == []
    assert due(sent, news(FAILED), NOW + HOUR) == ["failed"]
    assert due(sent, news(replace(FAILED, open_letters=101)), NOW + timedelta(minutes=1)) == ["dead_letters"]


def test_a_clock_that_was_ahead_silences_nobody() -> None:
    sent = tell(SentMessages(), news(FAILED), NOW + timedelta(days=9))
    assert due(sent, news(FAILED)) == ["failed"]


def test_recovered_is_told_once_and_only_after_a_message() -> None:
    assert due(SentMessages(), news(WELL)) == []
    sent = tell(SentMessages(), news(FAILED), NOW)
    later = NOW + timedelta(minutes=5)
    (found,) = sent.find_due(CHAT, EVERYTHING, news(WELL), later)
    assert (found.reason, found.since) == (MessageReason.RECOVERED, NOW)
    assert found.text == "it is well again (it was: failed)"
    sent = sent.note(CHAT, (found,), later)
    assert due(sent, news(WELL), later) == []


def test_since_is_that_of_the_first_message_of_a_row() -> None:
    sent = tell(SentMessages(), news(FAILED), NOW)
    sent = tell(sent, news(FAILED), NOW + HOUR)
    (found,) = sent.find_due(CHAT, EVERYTHING, news(WELL), NOW + 2 * HOUR)
    assert found.since == NOW


def test_a_source_that_fails_and_recovers_all_the_time_does_not_fill_a_channel() -> None:
    sent, told = SentMessages(), []
    for minute in range(60):
        now = NOW + timedelta(minutes=minute)
        about = news(WELL if minute % 2 else FAILED)
        told += due(sent, about, now)
        sent = tell(sent, about, now)
    assert told == ["failed", "recovered"]


def test_a_source_is_not_well_while_another_reason_holds() -> None:
    late = replace(WELL, expect_every=HOUR, last_data_at=NOW - 2 * HOUR)
    sent = tell(SentMessages(), news(replace(late, outcome=Outcome.FAILED, error="no bucket")), NOW)
    assert due(sent, news(late)) == []
    assert due(sent, news(WELL)) == ["recovered"]


def test_nothing_known_recovers_nothing() -> None:
    sent = tell(SentMessages(), news(FAILED), NOW)
    assert due(sent, news(None)) == []
    assert due(sent, news(None, COLUMN)) == ["new_column"]


def test_destinations_are_told_apart() -> None:
    sent = tell(SentMessages(), news(FAILED), NOW)
    assert [each.reason.value for each in sent.find_due("command page", EVERYTHING, news(FAILED), NOW)] == ["failed"]
    chat = DestinationSpec(Secret("https://chat.example.com/hook/one"))
    other = replace(chat, webhook=Secret("https://chat.example.com/hook/two"))
    page = DestinationSpec(command=("page", "--now"))
    names = name_destinations([NotifySpec(each) for each in (chat, page, other)])
    assert names == ("webhook chat.example.com", "command page", "webhook chat.example.com #2")


def test_what_was_sent_survives_and_is_forgotten_after_a_while() -> None:
    sent = tell(SentMessages(), news(FAILED, COLUMN), NOW)
    again = SentMessages.from_bytes(sent.to_bytes())
    assert again == sent
    assert due(again, news(FAILED), NOW + timedelta(minutes=1)) == []
    assert sent.forget(NOW + FORGOTTEN_AFTER) == SentMessages()
    later = tell(sent, news(replace(WELL, empty=True)), NOW + FORGOTTEN_AFTER)
    assert list(later.by_destination[CHAT]) == [MessageReason.NO_DATA]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b'{"version": 2, "sent": {}}',
        b'{"version": 1, "sent": {"x": {"failed": {"at": "yesterday"}}}}',
    ],
)
def test_what_cannot_be_read_was_not_sent(content: bytes) -> None:
    assert SentMessages.from_bytes(content) == SentMessages()


def test_reasons_of_another_release_are_passed_over() -> None:
    at = '{"at": "2026-01-28T14:30:00+00:00", "since": "2026-01-28T14:30:00", "holds": true}'
    sent = SentMessages.from_bytes(f'{{"version": 1, "sent": {{"x": {{"failed": {at}, "bored": {at}}}}}}}'.encode())
    assert list(sent.by_destination["x"]) == [MessageReason.FAILED]


def test_later_news_keep_what_happened_once() -> None:
    first, second = news(FAILED, COLUMN), news(WELL, replace(COLUMN, text="b"))
    merged = first.add(second)
    assert merged.known == WELL
    assert [each.text for each in merged.once] == ["the table has new columns: a; b"]
    assert first.add(news(None)).known == FAILED
