"""Destinations of messages: every problem at once, addresses that show nowhere, and what is shown loads again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidegate.config import load, show
from tidegate.errors import ConfigError
from tidegate.specs.masking import MASK, Mask
from tidegate.specs.notify import (
    USUAL_REASONS,
    DestinationSpec,
    MessageFormat,
    MessageReason,
    NotifySpec,
    count_tolerated,
)
from tidegate.specs.project import ProjectSpec

PIPELINES = """\
pipelines:
  orders:
    source: {path: in, use_watermark: true}
    sink: {path: lake/orders}
  clicks:
    source: {path: clicks, use_watermark: true}
    sink: {path: lake/clicks}
"""
SLACK = "https://hooks.slack.com/services/T012AB/B345CD/sEcReTkEy12345678"


def loaded(notify: str, **env: str) -> ProjectSpec:
    return load(f"{PIPELINES}notify:\n{notify}", env=env)


def problems(notify: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        loaded(notify)
    return [each.partition(": ")[2] for each in refused.value.problems]


def test_a_destination_alone_is_told_of_what_needs_a_person() -> None:
    (entry,) = loaded("  - to: {command: notify-team}\n").notify
    assert entry == NotifySpec(DestinationSpec(command=("notify-team",)))
    assert entry.on == USUAL_REASONS
    assert (entry.every, entry.late_after, entry.dead_letters_above) == (timedelta(hours=1), None, None)


def test_every_key_is_taken() -> None:
    (entry,) = loaded(
        "  - to: {webhook: 'http://127.0.0.1:8080/hook', format: slack}\n"
        "    on: [late, no_data, late]\n    late_after: PT2H\n    dead_letters_above: 5\n"
        "    every: P1D\n    pipelines: [ord*]\n"
    ).notify
    assert entry.on == (MessageReason.LATE, MessageReason.NO_DATA)
    assert (entry.late_after, entry.dead_letters_above, entry.every) == (timedelta(hours=2), 5, timedelta(days=1))
    assert entry.to.posted_as is MessageFormat.SLACK
    assert entry.concerns("orders")
    assert not entry.concerns("clicks")
    assert entry.concerns("orders_db.public.a", "orders_db")


def test_an_address_of_slack_gets_messages_for_slack_and_others_get_json() -> None:
    slack, other = loaded(f"  - to: {{webhook: '{SLACK}'}}\n  - to: {{webhook: 'https://example.com/x'}}\n").notify
    assert (slack.to.posted_as, other.to.posted_as) == (MessageFormat.SLACK, MessageFormat.JSON)
    assert (str(slack.to), str(other.to)) == ("webhook hooks.slack.com", "webhook example.com")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("to: {}", "notify[0].to: names no destination; give a 'webhook' or a 'command'"),
        ("on: failed", "notify[0].to: names no destination; give a 'webhook' or a 'command'"),
        (f"to: {{webhook: '{SLACK}', command: x}}", "notify[0].to.command: given together with 'webhook'"),
        ("to: {webhook: 'ftp://example.com/x'}", "notify[0].to.webhook: the value is not an address to post to"),
        ("to: {webhook: 'https://[bad/x'}", "notify[0].to.webhook: the value is not an address to post to"),
        ("to: {command: []}", "notify[0].to.command: is empty; name a program"),
        ("to: {command: x, format: json}", "notify[0].to.format: works only with a webhook"),
        ("to: {command: x}\n    on: [broken]", "notify[0].on: the value 'broken' is not one of failed, recovered"),
        ("to: {command: x}\n    on: []", "notify[0].on: the value is empty; name a reason"),
        ("to: {command: x}\n    every: PT10S", "notify[0].every: 'PT10S' is not a time between messages"),
        ("to: {command: x}\n    every: none", "notify[0].every: 'none' is not a time between messages"),
        ("to: {command: x}\n    pipelines: [ordesr]", "'ordesr' matches no pipeline; did you mean 'orders'?"),
        ("to: {command: x}\n    on: failed\n    late_after: PT2H", "notify[0].late_after: has no effect"),
        ("to: {command: x}\n    sometimes: 1", "notify[0].sometimes: unknown key"),
    ],
)
def test_a_wrong_entry_says_what_is_wrong(entry: str, words: str) -> None:
    assert any(words in each for each in problems(f"  - {entry}\n"))


def test_all_problems_are_told_at_once_without_the_address() -> None:
    found = problems(f"  - to: {{webhook: 'x{SLACK}', format: slak}}\n    every: often\n  - to: {{}}\n")
    assert len(found) == 4
    assert "sEcReT" not in "".join(found)


def test_a_webhook_shows_nowhere() -> None:
    literal = loaded(f"  - to: {{webhook: '{SLACK}'}}\n")
    variable = loaded("  - to: {webhook: '${CHAT}'}\n", CHAT=SLACK)
    for project in (literal, variable):
        assert "sEcReT" not in show(project) + repr(project)
        mask = Mask.around(project)
        assert mask(f"POST {SLACK} failed") == f"POST {MASK} failed"
        for told in ("404 for /services/T012AB/B345CD/sEcReTkEy12345678", "no channel sEcReTkEy12345678"):
            assert "sEcReT" not in mask(told)
    assert "webhook: '***'" in show(literal)
    assert "webhook: ${CHAT}" in show(variable)


def test_an_ordinary_word_of_an_address_is_not_masked_elsewhere() -> None:
    mask = Mask.around(loaded("  - to: {webhook: 'https://example.com/alerts'}\n"))
    assert mask("two alerts") == "two alerts"


def test_what_is_shown_loads_again() -> None:
    project = loaded(
        "  - to: {webhook: '${CHAT}', format: json}\n    on: failed\n"
        "  - to: {command: [notify-team, --urgent]}\n    late_after: PT2H\n    pipelines: [orders]\n",
        CHAT=SLACK,
    )
    assert load(show(project), env={"CHAT": SLACK}).notify == project.notify
    assert "notify:" not in show(load(PIPELINES, env={}))


def test_late_without_a_time_is_noticed() -> None:
    entry = "  - to: {command: x}\n    on: [late]\n"
    (notice,) = loaded(entry).notices
    assert notice == "notify[0].on: nothing is ever late; give late_after, or expect_every of a source"
    assert loaded(f"{entry}    late_after: PT2H\n").notices == ()
    fresh = PIPELINES.replace("path: clicks,", "path: clicks, expect_every: PT1H,")
    assert load(f"{fresh}notify:\n{entry}", env={}).notices == ()
    assert loaded("  - to: {command: x}\n").notices == ()


def test_the_fewest_dead_letters_that_somebody_is_told_of_are_tolerated() -> None:
    assert count_tolerated((NotifySpec(), NotifySpec(dead_letters_above=7), NotifySpec(dead_letters_above=9)), 100) == 7
    assert count_tolerated((NotifySpec(),), 100) == 100
