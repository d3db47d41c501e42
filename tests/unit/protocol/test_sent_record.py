"""What was sent is remembered beside the table of a pipeline, and nowhere where there is none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tidegate.core.messages import FoundReason, SentMessages
from tidegate.protocol.sent_record import TableSentStore
from tidegate.specs.locations import CATALOG, Location
from tidegate.specs.notify import MessageReason
from tidegate.specs.project import PipelineSpec
from tidegate.specs.table import SchemaSpec, SinkSpec
from tidegate.specs.table_block import TableRefusal

NOW = datetime(2026, 1, 28, tzinfo=UTC)
SENT = SentMessages().note("command page", (FoundReason(MessageReason.FAILED, "no bucket"),), NOW)
NAME = ("orders", "asia")


def pipeline(uri: str) -> PipelineSpec:
    return PipelineSpec("orders", (), SchemaSpec(), SinkSpec(Location(uri)))


def test_it_is_kept_beside_the_state_of_the_source(tmp_path: Path) -> None:
    spec = pipeline(tmp_path.as_uri())
    assert TableSentStore([spec]).read(NAME) == SentMessages()
    TableSentStore([spec]).write(NAME, SENT)
    assert (tmp_path / "_tidegate/orders/asia.sent.json").exists()
    assert TableSentStore([spec]).read(NAME) == SENT


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    spec = pipeline(tmp_path.as_uri())
    TableSentStore([spec]).write(NAME, SENT)
    (tmp_path / "_tidegate/orders/asia.sent.json").write_text("{")
    assert TableSentStore([spec]).read(NAME) == SentMessages()


def test_nothing_is_kept_where_no_place_is_known(tmp_path: Path) -> None:
    refused = replace(pipeline(tmp_path.as_uri()), refused=TableRefusal("no key", "give one"))
    for spec in (pipeline(f"{CATALOG}lake.orders"), refused):
        TableSentStore([spec]).write(NAME, SENT)
        assert TableSentStore([spec]).read(NAME) == SentMessages()
    assert not list(tmp_path.iterdir())
