"""The native reader of JSON: whether it is there.

``tidegate-native`` is a package of its own, compiled from ``native/``. It reads lines of JSON, looks at samples,
splits arrays and reads blocks of Avro. Without it, or with ``TIDEGATE_NATIVE=0``, code in Python does the same, far
slower.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

VERSION = "0.3.0"
"""The version of the package that this code knows."""

SWITCH = "TIDEGATE_NATIVE"


def find_native() -> ModuleType | None:
    """The native module; None where it is switched off, not installed, or of another version."""
    found = None if os.environ.get(SWITCH) == "0" else _installed()
    return found if found is not None and found.__version__ == VERSION else None


def describe_reader() -> str:
    """Which reader of JSON is in use here, in words."""
    if os.environ.get(SWITCH) == "0":
        return f"the slower one: {SWITCH}=0"
    found = _installed()
    if found is None:
        return "the slower one: tidegate-native is not installed"
    if found.__version__ != VERSION:
        return f"the slower one: tidegate-native is {found.__version__}, not {VERSION}"
    return f"native (tidegate-native {VERSION})"


def _installed() -> ModuleType | None:
    try:
        return import_module("tidegate_native")
    except ImportError:
        return None
