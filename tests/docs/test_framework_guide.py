"""The page for people who come from a metadata-driven framework shows what loads, and names keys that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.config import load
from tidegate.config.keys import every_key
from tidegate.specs.columns import LoadType

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "from-metadata-driven-frameworks.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_example_loads(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    project = load(example, env={}, base=tmp_path)
    assert project.notices == ()
    assert project.pipelines[0].sources[0].look_back.days == 7


def test_keys_that_are_said_to_be_the_same_exist_and_others_are_not_taken() -> None:
    keys = {key.name for key in every_key()}
    same = (
        "watermark_columns",
        "watermark_operator",
        "replace_by_watermark",
        "scd2_effective_column",
        "table_properties",
        "query",
    )
    bounds = ("watermark_param_mapping", "watermark_to_param", "watermark_param_location", "watermark_param_format")
    for name in (*same, *bounds, "backward_days", "backward", "merge_keys", "tie_break", "deduplicate"):
        assert f"`{name}`" in TEXT or f"configure.{name}" in TEXT
        assert name in keys
    for name in ("stage", "group_number", "is_active", "schema_hints", "secrets_ref", "latest_data_columns"):
        assert name not in keys


def test_every_load_type_is_mapped() -> None:
    for kind in LoadType:
        assert f"`{kind}`" in TEXT


def test_the_options_of_connectorx_have_counterparts_that_exist() -> None:
    table = TEXT.partition("### connectorx")[2].partition("\n#")[0]
    options = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, flags=re.MULTILINE))
    assert {"conn", "query", "partition_on", "partition_num", "partition_range"} <= set(options)
    keys = {key.name for key in every_key()}
    named = {name.rpartition(".")[2] for cell in options.values() for name in re.findall(r"`([^`]+)`", cell)}
    assert named <= keys, named - keys
