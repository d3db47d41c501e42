"""A commit without rows on a table that the Delta library must not write: the position alone, as a log entry.

A watermark that a person sets, a fence, a file that failed: such a change adds nothing to the table. Its entry holds
``commitInfo`` and ``txn`` and is put at the next version if nobody was first, which is all that the Delta protocol asks
of a writer that adds no file, whatever features the table has. In-commit timestamps are the one feature about the
entry itself: they go on from the entry before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tidegate.errors import StorageUnavailable, TableError
from tidegate.state.log import DeltaLog, entry_path
from tidegate.state.table import CommitNote, TableFacts

if TYPE_CHECKING:
    from tidegate.storage.port import ObjectStore


def put(store: ObjectStore, facts: TableFacts, note: CommitNote) -> None:
    """Write the entry that follows version ``facts.version``; ``ObjectExists`` when there is one."""
    info: dict[str, Any] = {
        "timestamp": note.last_updated_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "isBlindAppend": True,
        "userMetadata": note.user_metadata,
        "engineInfo": "tidegate",
    }
    if facts.properties.get("delta.enableInCommitTimestamps", "").lower() == "true":
        info = {"inCommitTimestamp": _next_timestamp(store, facts, note), **info}
    transactions = [
        {"txn": {"appId": app_id, "version": version, "lastUpdated": note.last_updated_ms}}
        for app_id, version in note.transactions.items()
    ]
    lines = [{"commitInfo": info}, *transactions]
    content = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    store.put_if_absent(entry_path(facts.version + 1), content.encode())


def _next_timestamp(store: ObjectStore, facts: TableFacts, note: CommitNote) -> int:
    """Later than that of the entry before, as the protocol asks."""
    before = DeltaLog(store).entry(facts.version)
    if before is None:
        raise StorageUnavailable(
            f"{store.location.uri}/{entry_path(facts.version)} is gone, so the time of the next entry is not known",
            "try again",
        )
    if before.in_commit_ms is None:
        raise TableError(
            f"{store.location.uri}/{entry_path(facts.version)} has no in-commit timestamp, and the table asks for it",
            "see the table's history",
        )
    return max(note.last_updated_ms, before.in_commit_ms + 1)
