"""COMMIT 1: every data file is there in full, and the document says what the commit will mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.errors import ObjectChanged, ObjectMissing
from tidegate.state.documents import Document
from tidegate.state.files import Change, DataFile
from tidegate.state.opened import Opened
from tidegate.state.site import Site
from tidegate.state.table import Add

_MANY = 16
_HEADS = 16


def measured(site: Site, files: Sequence[DataFile]) -> tuple[Add, ...]:
    """The add action of every file, after asking the store whether it is there in full."""
    if len(files) <= _MANY:
        return tuple(_measure(site, file) for file in files)
    with ThreadPoolExecutor(_HEADS, "head") as pool:
        return tuple(pool.map(lambda file: _measure(site, file), files))


def _measure(site: Site, file: DataFile) -> Add:
    try:
        found = site.store.head(file.path)
    except ObjectMissing as error:
        raise ObjectMissing(
            f"data file {site.uri}/{file.path} is gone before it was committed",
            "plan again; if it repeats, check who removes files there (VACUUM with a short retention?)",
        ) from error
    if found.size != file.size:
        raise ObjectChanged(
            f"data file {site.uri}/{file.path} has {found.size} bytes and was written with {file.size}",
            "plan again: its rows are read and written once more",
        )
    stats = file.stats if file.stats is not None else json.dumps({"numRecords": file.record_count})
    return Add(file.path, file.size, file.partition_values, int(found.modified.timestamp() * 1000), stats)


def prepared(site: Site, opened: Opened, change: Change, attempt: str, steps: int = 1) -> Document:
    """The document of an attempt to commit ``change`` on top of ``opened``, ``steps`` positions further on."""
    return Document(
        key=site.key,
        identity=site.identity,
        version=opened.version + steps,
        attempt=attempt,
        parent=opened.parent,
        table_id=opened.table_id,
        delta_version=opened.table_version,
        state=change.state,
        coverage=change.coverage,
        data_files=change.data_files,
        rows=change.rows,
        written_at=site.pace.now().isoformat(),
        dead_letter_files=change.dead_letter_files,
        debts=change.debts,
        action=change.action,
        letters=max(0, opened.letters + change.letters),
    )
