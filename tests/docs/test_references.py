"""Every event, exported name and failpoint is documented, and nothing is documented that is not there."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pickle
import re
from enum import Enum
from importlib import import_module
from pathlib import Path

import pytest

import tidegate
from support.all_cases import for_all
from tidegate.core.files.discovery import Reason
from tidegate.failpoints import PLACES
from tidegate.observe import events
from tidegate.observe.logs import Level

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
SOURCE = ROOT / "src" / "tidegate"
EVENTS = [
    kind
    for kind in vars(events).values()
    if inspect.isclass(kind) and issubclass(kind, events.Event) and kind is not events.Event
]
USED_FAILPOINTS = {
    place
    for module in SOURCE.rglob("*.py")
    for place in re.findall(r'\bfailpoint\("([a-z_.]+)"[,)]', module.read_text(encoding="utf-8"))
}


def table(page: str) -> dict[str, list[str]]:
    """The rows of a page's tables, by the name in their first cell."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", text, flags=re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split(" | ")] for name, cells in rows}


@for_all(EVENTS, lambda event: event.name)
def test_every_event_is_documented_with_its_level_and_fields(event: type[events.Event]) -> None:
    level, fields, meaning = table("events.md")[event.name]
    own = [each.name for each in dataclasses.fields(event) if each.name not in ("pipeline", "source")]
    assert level == event.level
    assert level.upper() in Level.__members__
    assert fields == ", ".join(f"`{each}`" for each in own)
    assert meaning


def test_no_event_is_documented_that_does_not_exist() -> None:
    assert set(table("events.md")) == {event.name for event in EVENTS}


@for_all(tidegate.__all__)
def test_every_exported_name_is_documented(name: str) -> None:
    documented = {re.match(r"\w+", entry)[0]: cells for entry, cells in table("python-api.md").items()}  # type: ignore[index]
    assert name in documented
    assert documented[name][-1]


@for_all(tidegate.__all__)
def test_the_documented_signature_is_the_one_in_the_code(name: str) -> None:
    text = (REFERENCE / "python-api.md").read_text(encoding="utf-8")
    value = getattr(tidegate, name)
    if dataclasses.is_dataclass(value):
        shown = re.search(rf"^{name}\((.*?)\)\n(?=[A-Z`])", text, flags=re.DOTALL | re.MULTILINE)
        assert shown is not None, f"the signature of {name} is not shown"
        found = re.findall(r"(?:^|, |,\n)\s*(\w+): ", shown[1])
        assert found == [each.name for each in dataclasses.fields(value)]
    elif inspect.isfunction(value):
        shown = re.search(rf"`{name}\((.*?)\)`", text)
        assert shown is not None
        assert re.findall(r"(?:^|, )(\w+)", shown[1]) == list(inspect.signature(value).parameters)
    elif inspect.isclass(value) and issubclass(value, Enum):
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert [member for member in value.__members__ if f"`{member}`" not in row] == []


def test_no_function_is_documented_twice() -> None:
    text = (REFERENCE / "python-api.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `(\w+)(?=[(`])", text, flags=re.MULTILINE)
    assert sorted(names) == sorted(set(names))


def test_nothing_is_documented_that_is_not_exported() -> None:
    documented = {re.match(r"\w+", entry)[0] for entry in table("python-api.md")}  # type: ignore[index]
    assert documented == set(tidegate.__all__)


def test_type_checkers_see_each_public_name_where_the_package_finds_it() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        alias.asname: getattr(import_module(node.module or ""), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert list(tidegate.__all__) == sorted({*seen, "__version__"})
    assert [name for name, value in seen.items() if getattr(tidegate, name) is not value] == []


def test_public_names_are_listed_imported_and_pickled_and_others_are_refused() -> None:
    assert set(tidegate.__all__) <= set(dir(tidegate))
    everything: dict[str, object] = {}
    exec("from tidegate import *", everything)
    assert set(tidegate.__all__) <= set(everything)
    assert pickle.loads(pickle.dumps(tidegate.status)) is tidegate.status
    with pytest.raises(AttributeError, match="no attribute 'statsu'"):
        tidegate.statsu  # noqa: B018


def test_the_list_of_failpoints_holds_every_place_in_the_code_and_no_other() -> None:
    assert set(PLACES) == USED_FAILPOINTS


def test_the_failpoints_are_documented_as_they_are_listed() -> None:
    documented = {name: cells[0] for name, cells in table("failpoints.md").items() if "." in name}
    assert list(documented.items()) == list(PLACES.items())


@for_all(Reason, lambda reason: reason.name)
def test_every_reason_for_skipping_a_file_is_documented(reason: Reason) -> None:
    page = (ROOT / "docs" / "concepts" / "naming-files.md").read_text(encoding="utf-8")
    assert f"| {reason.value} |" in page
