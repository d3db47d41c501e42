"""The cold start: what a first, filtered plan sealed, fixed before there is a table to commit it to.

``cold_start.json`` is written once (put-if-absent) and read while the source has no position: the first
plan that got there decides for every later one.
"""

from __future__ import annotations

import json

from tidegate.errors import ObjectExists, ObjectMissing, StateError
from tidegate.failpoints import failpoint
from tidegate.state.documents import SCHEMA_VERSION, check_schema_version, encoded
from tidegate.state.files import State
from tidegate.state.identity import Identity
from tidegate.state.site import Site


def read_cold_start(site: Site) -> State | None:
    """The state that was fixed, None when there is none; damaged or of another source stops."""
    try:
        content = site.store.get(site.key.cold_start)
    except ObjectMissing:
        return None
    try:
        data = json.loads(content)
        check_schema_version(data, site.key.cold_start)
        identity, state = Identity.from_json(data["identity"]), dict(data["state"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(f"{site.uri}/{site.key.cold_start} is damaged ({error!r})", _start_over(site)) from error
    changes = site.identity.differences(identity)
    if changes:
        raise StateError(
            f"{site.key}: {site.key.cold_start} is about another source: {'; '.join(changes)}",
            _start_over(site),
        )
    return state


def put_cold_start(site: Site, state: State) -> State:
    """Fix ``state`` unless one is fixed already; returns the one that holds."""
    content = encoded(
        {
            "schema_version": SCHEMA_VERSION,
            "identity": site.identity.to_json(),
            "state": dict(state),
            "written_at": site.pace.now().isoformat(),
        }
    )
    failpoint("state.cold_start.before")
    try:
        site.store.put_if_absent(site.key.cold_start, content)
    except ObjectExists:
        holding = read_cold_start(site)
        return state if holding is None else holding
    failpoint("state.cold_start.after")
    return state


def _start_over(site: Site) -> str:
    return f"nothing of this source is in the table yet: remove {site.key.cold_start}, and plan anew"
