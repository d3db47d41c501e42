"""The reference names every key of the configuration, with the default it has, and its examples load."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

import pytest

from support.all_cases import for_all
from tidegate.config import load
from tidegate.config.keys import KeyPath, every_key
from tidegate.config.models import Choice, Model
from tidegate.config.normal_form import ALIASES
from tidegate.config.values import duration, lateness_text
from tidegate.config.work_units import MS_KEYS
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN
from tidegate.schema.names import CONTAINERS, MADE_COLUMNS, SCALARS
from tidegate.specs.files import Lateness
from tidegate.specs.units import PartialPartition

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
TEXT = PAGE.read_text(encoding="utf-8")
INFER = "pipelines.<pipeline>.schema.infer"


def sections() -> dict[str, str]:
    """The text of each section, by the path in its title; the top level is empty."""
    found: dict[str, str] = {}
    for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        found["" if title == "Top level" else title.strip("`")] = body
    return found


def rows(body: str) -> dict[str, list[str]]:
    """The cells behind each key of a section's table."""
    lines = re.findall(r"^\| `([^`]+)` \|(.*)\|$", body, flags=re.MULTILINE)
    return {key: [cell.strip() for cell in cells.split(" | ")] for key, cells in lines}


SECTIONS = {title: rows(body) for title, body in sections().items()}
KEYS = list(every_key())


@for_all(KEYS, lambda key: key.path)
def test_every_key_is_documented_with_type_default_and_meaning(key: KeyPath) -> None:
    assert key.name in SECTIONS.get(key.block, {}), f"{key.path} is not in section '{key.block}' of {PAGE.name}"
    kind, default, meaning = SECTIONS[key.block][key.name]
    assert kind
    assert meaning
    assert default == documented_default(key)


def documented_default(key: KeyPath) -> str:
    if key.path == INFER:
        return "`true` without `fields`"
    if key.field.is_required:
        return "required"
    value = key.field.make_default()
    if value is None:
        return "unset"
    if isinstance(value, Lateness):
        return f"`{lateness_text(value)}`"
    if isinstance(value, PartialPartition):
        return f"`{str(value is PartialPartition.MULTI_DAY).lower()}`"
    if isinstance(value, StrEnum):
        return f"`{value.value}`"
    if isinstance(value, timedelta):
        return f"`{duration(value)}`"
    if value == ():
        return "`[]`"
    if isinstance(value, tuple):
        return f"`[{', '.join(value)}]`" if isinstance(value[0], StrEnum) else f"`{list(value)}`"
    if isinstance(value, Model):
        return "its defaults"
    if not isinstance(value, bool | int | float | str):
        assert not value
        return "`{}`"
    return f"`{value}`" if not isinstance(value, bool) else f"`{str(value).lower()}`"


def test_no_key_is_documented_that_does_not_exist() -> None:
    existing = {(key.block, key.name) for key in KEYS}
    blocks = {key.block for key in KEYS}
    documented = {(title, name) for title, found in SECTIONS.items() if title in blocks for name in found}
    assert documented == existing


def test_every_choice_is_documented() -> None:
    for key in KEYS:
        if isinstance(key.field.shape, Choice) and key.field.shape.enum is not None and key.field.default is not None:
            assert SECTIONS[key.block][key.name][0] == ", ".join(f"`{word}`" for word in key.field.choices)


def test_the_table_of_old_names_is_the_one_in_the_code() -> None:
    documented = SECTIONS["Short forms and old names"]
    assert {old: tuple(cells) for old, cells in documented.items()} == {
        alias.old: (f"`{alias.new}`", alias.why) for alias in ALIASES
    }


def test_the_table_of_names_of_properties_files_is_the_one_in_the_code() -> None:
    documented = SECTIONS["Names of properties files"]
    assert documented == {old: [f"`{'.'.join(new)}`"] for old, new in MS_KEYS.items()}


def test_refused_and_ignored_keys_are_named() -> None:
    last = sections()["Keys that do nothing, and keys that are refused"]
    for path in FOREIGN.keys:
        assert f"`{path.removeprefix('pipelines.*.')}`" in last


def test_every_type_and_metadata_column_is_named() -> None:
    for name in (*SCALARS, *CONTAINERS, "decimal(p,s)", *MADE_COLUMNS):
        assert f"`{name}`" in TEXT


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL))
def test_every_example_loads(example: str, tmp_path: Path) -> None:
    project = load(example, env={}, base=tmp_path)
    assert project.pipelines or project.blocks
    assert project.notices == ()


def test_the_pipelines_of_the_readme_load(tmp_path: Path) -> None:
    text = (PAGE.parents[2] / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        assert (
            load(example, env=dict.fromkeys(("SHOP_PASSWORD", "SURVEYS_TOKEN"), "not-so-short"), base=tmp_path).notices
            == ()
        )


def test_the_errors_shown_are_the_errors_given() -> None:
    wrong = """\
pipelines:
  events:
    sources:
      asia:
        source_uri: in
        use_watermark: true
        late_file: window
        max_attempts: many
    sink:
      table_uri: lake

      compression: snapy
"""
    with pytest.raises(ConfigError) as caught:
        load(wrong, env={})
    shown = re.search(r"```text\n(.*?)```", TEXT, flags=re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == [line.replace("<text>", "pipelines.yml") for line in caught.value.problems]
