"""Keys of later releases and of other systems: refused or noticed by name, never silently taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.errors import check_names
from tidegate.config import show
from tidegate.config.file_source import WATERMARK_ONLY
from tidegate.config.project import NOT_FOR_FILES
from tidegate.specs.files import Tracking
from tidegate.specs.masking import Mask
from tidegate.specs.project import Delivery, ProjectSpec

Load = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
FILE = """\
pipelines:
  p:
    source:
      path: in
      use_watermark: true
{source}    sink:
      path: lake
{sink}{pipeline}{top}"""


def file(source: str = "", sink: str = "", pipeline: str = "", top: str = "") -> str:
    return FILE.format(
        source=f"      {source}\n" if source else "",
        sink=f"      {sink}\n" if sink else "",
        pipeline=f"    {pipeline}\n" if pipeline else "",
        top=f"{top}\n" if top else "",
    )


PLACES = {"": "top", "pipeline": "pipeline", "source": "source", "sink": "sink"}
WATERMARKS = ("watermark", "watermark_columns")


def test_a_key_of_another_kind_of_source_is_refused_for_files(problems: Problems) -> None:
    for block, key in [(block, key) for block, keys in NOT_FOR_FILES.items() for key in keys]:
        (line,) = problems(file(**{PLACES[block]: f"{key}: [x]"}))
        check_names(line, key, "two kinds" if key in WATERMARKS else "file sources")


def test_two_kinds_of_watermark_at_once_are_named(problems: Problems) -> None:
    (line,) = problems(file(source="watermark_columns: [a]"))
    check_names(line, "use_watermark … watermark_columns")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("watermark", "works only with APIs, databases, functions and downloads"),
        ("watermark_columns", "not for file sources: give the source"),
    ],
)
def test_another_kind_of_watermark_is_refused_without_further_problems(
    problems: Problems, key: str, words: str
) -> None:
    (line,) = problems(file(source=f"{key}: [a]").replace("      use_watermark: true\n", ""))
    check_names(line, f"source.{key}", words)


@pytest.mark.parametrize("kind", ["avro", "ndjson"])
def test_a_format_of_files_is_no_type_of_source(problems: Problems, kind: str) -> None:
    (line,) = problems(file(source=f"type: {kind}"))
    check_names(line, "source.type", f"'{kind}'", "type: files", f"format: {kind}")


def test_a_source_with_an_unknown_connection_is_one_problem_whatever_else_it_has(problems: Problems) -> None:
    text = file().replace(
        "      path: in\n      use_watermark: true\n",
        "      connection: c\n      path: /x\n      records: y\n",
    )
    (line,) = problems(text)
    check_names(line, "source.connection … 'c' … 'connections:'")


@pytest.mark.parametrize("written", ["use_watermark: false", "use_watermark: no", "max_attempts: 5"])
def test_without_a_watermark_a_source_is_tracked_by_a_set(loaded: Load, written: str) -> None:
    project = loaded(file().replace("use_watermark: true", written))
    assert project.pipelines[0].sources[0].tracking is Tracking.SET
    assert project.notices == ()
    assert loaded(file()).pipelines[0].sources[0].tracking is Tracking.WATERMARK


def test_a_key_of_watermarks_is_noticed_where_there_are_none(loaded: Load) -> None:
    for key in WATERMARK_ONLY:
        value = {"late_files": "strict", "lateness": "none"}.get(key, "5")
        written = file(source=f"{key}: {value}")
        assert loaded(written).notices == ()
        without = loaded(written.replace("use_watermark: true", "use_watermark: false"))
        assert without.notices == (f"pipelines.p.source.{key} has no effect without use_watermark: true",)


def test_a_bounded_first_run_without_a_watermark_is_refused(problems: Problems) -> None:
    bounds = "partition_filter: {prefix_template: 'date=%Y-%m-%d', lookback: 1}"
    (line,) = problems(file(source=bounds).replace("use_watermark: true", "use_watermark: false"))
    check_names(line, "source.partition_filter … watermark")
    check_names(line, "use_watermark: true")


def test_delivery_is_direct_or_staged(problems: Problems, loaded: Load) -> None:
    (line,) = problems(file(pipeline="delivery: later"))
    check_names(line, "pipelines.p.delivery")
    check_names(line, "direct")
    check_names(line, "staged")
    assert loaded(file(pipeline="delivery: direct")) == loaded(file())
    assert loaded(file(pipeline="delivery: staged")).pipelines[0].delivery is Delivery.STAGED


@pytest.mark.parametrize("word", ["overwrite", "full_load", "merge_upsert", "merge_overwrite", "scd2"])
def test_other_load_types_are_refused_by_name(problems: Problems, word: str) -> None:
    (line,) = problems(file(sink=f"load_type: {word}"))
    check_names(line, "sink.load_type", f"'{word}'", "load_type: append")


def test_keys_that_only_some_commands_use_are_checked(problems: Problems) -> None:
    found = problems(file(pipeline="error_handling: {max_failure: 1}", top="metrics: {address: nowhere}"))
    assert [line.split(": ", 2)[1] for line in found] == [
        "pipelines.p.error_handling.max_failure",
        "metrics.address",
    ]


@pytest.mark.parametrize("value", ["true", "false", "7", "{a: b}"])
def test_a_key_of_another_system_is_ignored_with_a_notice(loaded: Load, value: str) -> None:
    project = loaded(file(top=f"global: {{connection_pooling: {value}, poll_jitter_secs: 3}}"))
    assert project.notices == (
        "global.connection_pooling has no effect here and is ignored: Tidegate always pools connections",
    )
    assert project.poll_jitter_secs == 3


README = """\
source:
  path: "s3://my-bucket/input/*.ndjson.gz"
  compression: gzip
  max_concurrent_files: 16
sink:
  path: "s3://my-bucket/output/my-table"
  file_size_mb: 128
  compression: snappy
schema:
  fields:
    - {name: id, type: string, nullable: false}
    - {name: timestamp, type: timestamp, nullable: false}
"""
FULL_EXAMPLE = """\
source:
  path: "s3://data-lake/raw/events/2024"
  compression: gzip
  batch_size: 8192
  max_concurrent_files: 16
  storage_options: {AWS_REGION: us-east-1}
sink:
  path: "s3://data-lake/curated/events"
  file_size_mb: 128
  row_group_size_bytes: 134217728
  compression: snappy
  inactivity_timeout_secs: 60
  rollover_timeout_secs: 300
  max_concurrent_uploads: 4
  part_size_mb: 32
  min_multipart_size_mb: 5
  max_concurrent_parts: 8
  storage_options: {AWS_REGION: us-east-1}
schema:
  fields:
    - {name: event_id, type: string, nullable: false}
    - {name: device, type: json}
    - {name: metrics, type: float64, nullable: true}
metrics: {enabled: true, address: "0.0.0.0:9090"}
error_handling:
  max_failures: 100
  dlq_path: "s3://data-lake/dlq/events"
  dlq_storage_options: {AWS_REGION: eu-west-1, AWS_SECRET_ACCESS_KEY: canary-5f3a9c1e}
"""


def test_published_files_of_blizzard_load_with_notices(loaded: Load) -> None:
    (pipeline,) = loaded(README).pipelines
    assert (pipeline.max_concurrent_files, pipeline.sources[0].pattern) == (16, "/*.ndjson.gz")  # type: ignore[union-attr]
    project = loaded(FULL_EXAMPLE)
    (pipeline,) = project.pipelines
    assert [notice.split()[0] for notice in project.notices] == ["source.batch_size"]
    assert pipeline.max_concurrent_files == 16
    assert pipeline.dead_letters.options["AWS_REGION"] == "eu-west-1"
    assert pipeline.sink.table.options["AWS_REGION"] == "us-east-1"
    assert "canary-5f3a9c1e" not in show(project)
    assert "canary-5f3a9c1e" in Mask.around(project).secrets


def test_without_options_of_their_own_dead_letters_have_those_of_the_table(loaded: Load) -> None:
    (pipeline,) = loaded("source: {path: in}\nsink: {path: 's3://b/t', storage_options: {AWS_REGION: x}}\n").pipelines
    assert pipeline.dead_letters.options == pipeline.sink.table.options


@pytest.mark.parametrize("text", ["tables: {events: {table_uri: lake}}\n", "source:\n  table_uri: lake\n"])
def test_a_file_of_penguin_is_answered_with_the_command_that_does_its_work(problems: Problems, text: str) -> None:
    (line,) = problems(text)
    check_names(line, "table_uri", "Penguin", "tidegate commit CONFIG --continuous", "delivery: staged")
