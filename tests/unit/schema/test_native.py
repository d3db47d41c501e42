"""Which reader of JSON is in use: the native one, unless it is switched off, missing or of another version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tidegate.commands.doctor import doctor
from tidegate.schema import native


def reader_in_doctor() -> tuple[str, str]:
    (found,) = [each for each in doctor() if each.name == "json reader"]
    return found.verdict, found.detail


def missing(name: str) -> NoReturn:
    raise ImportError(name)


@pytest.mark.parametrize(
    ("switch", "module", "status", "text"),
    [
        ("1", SimpleNamespace(__version__=native.VERSION), "ok", "native (tidegate-native 0.3.0)"),
        ("0", SimpleNamespace(__version__=native.VERSION), "warn", "the slower one: TIDEGATE_NATIVE=0"),
        ("1", None, "warn", "the slower one: tidegate-native is not installed"),
        ("1", SimpleNamespace(__version__="0.0.9"), "warn", "the slower one: tidegate-native is 0.0.9, not 0.3.0"),
    ],
)
def test_the_reader_in_use_is_told(
    switch: str, module: Any, status: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.SWITCH, switch)
    monkeypatch.setattr(native, "import_module", missing if module is None else lambda name: module)
    assert (native.find_native() is not None) == (status == "ok")
    assert reader_in_doctor() == (status, text)
