"""A message in JSON has stable keys; for a chat it is short and calls nobody."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tidegate.core.health import Health, HealthLevel
from tidegate.core.messages import FoundReason, SourceNews
from tidegate.reports.messages import SHOWN_SOURCES, Message, MessageDelivery, NotifyReport, SourceMessage
from tidegate.reports.render import to_lines
from tidegate.specs.notify import MessageReason

NOW = datetime(2026, 1, 28, 14, 30, 9, tzinfo=UTC)
SINCE = datetime(2026, 1, 28, 14, 30, 2, tzinfo=UTC)
BROKEN = FoundReason(MessageReason.FAILED, "no bucket <!channel> & more", SINCE, "tidegate doctor shop.yml -p orders")


def about(name: str, *found: FoundReason) -> SourceMessage:
    return SourceMessage.of(SourceNews(name, "default", Health(HealthLevel.FAILING), files=2, rows=30), found)


def test_json_has_the_documented_keys() -> None:
    assert Message("shop.yml", NOW, (about("orders", BROKEN),), "20260128T143002-3f9a2c").to_json() == {
        "version": 1,
        "kind": "sources",
        "project": "shop.yml",
        "run": "20260128T143002-3f9a2c",
        "at": "2026-01-28T14:30:09Z",
        "text": "shop.yml: 1 source failed",
        "sources": [
            {
                "pipeline": "orders",
                "source": "default",
                "health": "failing",
                "files": 2,
                "rows": 30,
                "reasons": [
                    {
                        "reason": "failed",
                        "text": "no bucket <!channel> & more",
                        "since": "2026-01-28T14:30:02Z",
                        "command": "tidegate doctor shop.yml -p orders",
                    }
                ],
            }
        ],
    }
    once = about("orders", FoundReason(MessageReason.NEW_COLUMN, "the table has new columns: a"))
    (reason,) = once.to_json()["reasons"]
    assert (reason["since"], reason["command"]) == (None, None)


def test_a_line_counts_sources_by_reason() -> None:
    well = FoundReason(MessageReason.RECOVERED, "it is well again")
    message = Message("shop.yml", NOW, (about("a", BROKEN), about("b", BROKEN), about("c", well)))
    assert message.text == "shop.yml: 2 sources failed, 1 source recovered"


def test_slack_gets_text_in_which_nobody_is_called() -> None:
    sent = Message("shop.yml", NOW, (about("orders", BROKEN),), "20260128T143002-3f9a2c").to_slack()
    assert sent["text"] == "shop.yml: 1 source failed"
    texts = [each["text"]["text"] for each in sent["blocks"]]
    assert texts == [
        "*shop.yml*: 1 source failed",
        "✖ *orders/default* failed since 2026-01-28 14:30:02Z: no bucket &lt;!channel&gt; &amp; more\n"
        "`tidegate doctor shop.yml -p orders`",
        "run 20260128T143002-3f9a2c",
    ]


def test_slack_gets_no_more_than_it_takes() -> None:
    long = FoundReason(MessageReason.FAILED, "x" * 10_000)
    sent = Message("shop.yml", NOW, tuple(about(f"t{at}", long) for at in range(500))).to_slack()
    assert len(sent["blocks"]) == SHOWN_SOURCES + 2
    assert max(len(each["text"]["text"]) for each in sent["blocks"]) < 3_000
    assert sent["blocks"][-1]["text"]["text"] == "and 480 more sources: `tidegate status`"
    assert sent["text"] == "shop.yml: 500 sources failed"


def test_a_test_says_that_it_is_one() -> None:
    message = Message("shop.yml", NOW, kind="test")
    assert (message.to_json()["kind"], message.to_json()["sources"]) == ("test", [])
    assert "this is a test" in json.dumps(message.to_slack())


def test_the_result_of_notify_names_what_did_not_arrive() -> None:
    report = NotifyReport(
        True,
        (MessageDelivery("command page", 0, True), MessageDelivery("webhook x", 0, False, "answers 404 Not Found")),
    )
    assert report.code() == 1
    shown = "\n".join(to_lines(report.page()))
    assert "webhook x: answers 404 Not Found" in shown
    assert NotifyReport(False, (MessageDelivery("command page"),)).code() == 0
