"""Changes as tests need them: files appended, or the state moved alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidegate.protocol.change import AppendFiles, Change, DataFile, NextState, NoRows, State, Written


def appended(
    state: State,
    files: Sequence[DataFile],
    schema: pa.Schema,
    keys: tuple[str, ...] = (),
    *,
    embedded: State | None = None,
    **facts: Any,
) -> Change:
    """A change that appends files of these columns."""
    following = NextState(state, state if embedded is None else embedded)
    return Change(following, AppendFiles((Written(schema, keys, tuple(files)),)), **facts)


def moved(state: State, schema: pa.Schema | None = None, *, embedded: State | None = None, **facts: Any) -> Change:
    """A change of the state alone; with ``schema`` it may create the table."""
    following = NextState(state, state if embedded is None else embedded)
    return Change(following, NoRows(() if schema is None else (Written(schema, ()),)), **facts)
