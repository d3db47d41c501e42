"""Properties that a configuration may not set are told all at once, each at its line."""

from __future__ import annotations

from collections.abc import Callable

Problems = Callable[..., tuple[str, ...]]

FILE = """\
source: {path: in, use_watermark: true}
sink:
  path: lake
  table_properties:
    delta.appendOnly: maybe
    delta.checkpointInterval: 20
    delta.columnMapping.mode: name
    owner: me
"""


def test_every_property_that_cannot_be_set_is_named(problems: Problems) -> None:
    assert problems(FILE) == (
        "pipelines.yml:5: sink.table_properties.delta.appendOnly: cannot be set here; 'maybe' is "
        "none of its values; allowed: 'true' or 'false'",
        "pipelines.yml:7: sink.table_properties.delta.columnMapping.mode: cannot be set here; appends do not honour it",
        "pipelines.yml:8: sink.table_properties.owner: cannot be set here; it is no property of "
        "Delta; allowed: names that begin with 'delta.'",
    )


def test_a_property_whose_variable_is_missing_is_not_refused_for_its_value(problems: Problems) -> None:
    (missing,) = problems(FILE.replace("maybe", "${APPEND_ONLY}").partition("    delta.columnMapping")[0])
    assert "APPEND_ONLY" in missing
