"""The native reader of JSON lines: whether it is there, and what it gives.

``tidegate-native`` is a package of its own, compiled from ``native/``. Without it, or with ``TIDEGATE_NATIVE=0``, the
strict line reader reads every line: the same records, far slower.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import pyarrow as pa

VERSION = "0.1.0"
"""The version of the package that this code knows."""

SWITCH = "TIDEGATE_NATIVE"

Parts = tuple[int, int, Sequence[bytes | None], Sequence["Parts"]]
"""A column: its values, how many of them are null, its buffers, the columns inside it."""

Block = tuple[int, int, Sequence[Parts], bytes | None, Sequence[tuple[int, int, int]], Sequence[tuple[str, int]]]
"""Lines, records, columns, the line of each record (None: record ``n`` is line ``n``), the lines that were not read
with their number, start and end, and the fields that the schema lacks."""


class NativeLines(Protocol):
    """Reads blocks of lines into declared columns, except for lines that may be no records."""

    def read(self, block: bytes) -> Block: ...


def find_native() -> ModuleType | None:
    """The native module; None where it is switched off, not installed, or of another version."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        module = import_module("tidegate_native")
    except ImportError:
        return None
    return module if module.__version__ == VERSION else None


def describe_reader() -> str:
    """Which reader of JSON is in use here, in words."""
    if find_native() is not None:
        return f"native (tidegate-native {VERSION})"
    if os.environ.get(SWITCH) == "0":
        return f"the slower one: {SWITCH}=0"
    return "the slower one: tidegate-native is not installed"


def array_of(kind: pa.DataType, parts: Parts) -> pa.Array:
    """A column as Arrow has it."""
    length, nulls, buffers, inner = parts
    whole = [None if each is None else pa.py_buffer(each) for each in buffers]
    children: list[pa.Array] = []
    if pa.types.is_map(kind):
        pairs = [array_of(each, part) for each, part in zip((kind.key_type, kind.item_type), inner, strict=True)]
        children = [pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])]
    elif inner:
        kinds: list[Any] = [kind.field(number).type for number in range(kind.num_fields)]
        children = [array_of(each, part) for each, part in zip(kinds, inner, strict=True)]
    return pa.Array.from_buffers(kind, length, whole, nulls, 0, children or None)
