"""From a file to specs: the shapes that must work, short forms, old names, paths."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from support.errors import raises
from tidegate.config import _dump, load
from tidegate.errors import ConfigError
from tidegate.specs.files import Compression, LateFiles, Lateness, PartitionFilter, Tracking
from tidegate.specs.project import Delivery, ProjectSpec
from tidegate.specs.table import Evolution, FieldSpec, ParquetCodec, PartitionBy

Load = Callable[..., ProjectSpec]

TWO_SOURCES = """\
pipelines:
  visits:
    sources:
      north:
        source_uri: in/north/
        use_watermark: true
        partition_filter:
          prefix_template: "date=%Y-%m-%d/hour=%H"
          lookback: 24
        checkpoint:
          interval_files: 50
          interval_secs: 30
      south:
        source_uri: in/south/
        use_watermark: true
        late_files: strict
    schema:
      fields:
        - {name: id, type: int64, nullable: false}
        - {name: at, type: timestamp}
        - {name: cost, type: "decimal(12, 3)"}
        - {name: who, type: struct, fields: [{name: first, type: string}, {name: last, type: string}]}
        - {name: marks, type: list, items: string}
        - {name: map, type: map, keys: string, values: {type: list, items: {type: float64, nullable: false}}}
    error_handling:
      max_bad_records: 10
    sink:
      table_uri: lake/visits
      partition_by:
        prefix_template: "day=%Y-%m-%d"
        column: at
      compression: zstd
"""

OLDER = """\
pipelines:
  clicks:
    sources:
      clicks:
        path: "in/clicks/"
        use_watermark: true
        compression: gzip
        batch_size: 4096
        poll_interval_secs: 15
        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: 3}
    schema: {infer: true, coerce_conflicts_to_utf8: true}
    sink:
      table_uri: "lake/clicks"
      file_size_mb: 64
      row_group_size_bytes: 1048576
      compression: lz4
      partition_by: {prefix_template: "date=%Y-%m-%d"}
      max_concurrent_uploads: 2
      storage_options: {AWS_REGION: eu-west-1}
    max_concurrent_files: 3
    error_handling: {max_failures: 1, dlq_path: "lake/dead"}
global: {total_concurrency: 6, connection_pooling: true, poll_jitter_secs: 5}
metrics: {enabled: true, address: "127.0.0.1:9191"}
"""

SHORT = """\
source: {source_uri: in, use_watermark: true}
sink: {table_uri: lake}
"""


def test_two_sources_into_one_partitioned_table(loaded: Load, tmp_path: Path) -> None:
    pipeline = loaded(TWO_SOURCES).pipeline("visits")
    north, south = pipeline.sources
    assert (north.name, north.location.uri) == ("north", f"file://{tmp_path}/in/north")
    assert north.partition_filter == PartitionFilter("date=%Y-%m-%d/hour=%H", 24)
    assert (north.interval_files, north.interval_secs, north.late_files) == (50, 30, LateFiles.WINDOW)
    assert (south.late_files, south.interval_files, south.partition_filter) == (LateFiles.STRICT, 100, None)
    assert pipeline.sink.table.uri == f"file://{tmp_path}/lake/visits"
    assert pipeline.sink.partition_by == PartitionBy("day=%Y-%m-%d", "at")
    assert pipeline.sink.compression is ParquetCodec.ZSTD
    assert pipeline.error_handling.max_bad_records == 10


def test_declared_columns_arrive_with_their_nesting(loaded: Load) -> None:
    fields = {field.name: field for field in loaded(TWO_SOURCES).pipeline("visits").schema.fields}
    assert list(fields) == ["id", "at", "cost", "who", "marks", "map"]
    assert fields["id"] == FieldSpec("id", "int64", nullable=False)
    assert fields["cost"].type == "decimal(12,3)"
    assert [child.name for child in fields["who"].fields] == ["first", "last"]
    assert fields["marks"].items == FieldSpec("element", "string")
    assert fields["map"].keys == FieldSpec("key", "string")
    inner = FieldSpec("element", "float64", nullable=False)
    assert fields["map"].values == FieldSpec("value", "list", items=inner)


def test_a_configuration_of_the_older_system_loads_as_it_is(loaded: Load, tmp_path: Path) -> None:
    project = loaded(OLDER)
    pipeline = project.pipeline("clicks")
    (source,) = pipeline.sources
    assert source.location.uri == f"file://{tmp_path}/in/clicks"
    assert (source.compression, source.poll_interval_secs) == (Compression.GZIP, 15)
    assert (pipeline.schema.infer, pipeline.schema.coerce_conflicts_to_utf8) == (True, True)
    assert (pipeline.sink.file_size_mb, pipeline.sink.row_group_size_bytes) == (64, 1_048_576)
    assert dict(pipeline.sink.table.options) == {"AWS_REGION": "eu-west-1"}
    assert (pipeline.max_concurrent_files, project.total_concurrency, project.poll_jitter_secs) == (3, 6, 5)
    assert pipeline.error_handling.dlq_uri == f"file://{tmp_path}/lake/dead"
    assert (project.metrics.enabled, project.metrics.address) == (True, "127.0.0.1:9191")


def test_keys_of_other_systems_are_named_in_notices(loaded: Load) -> None:
    pooling, size = loaded(OLDER).notices
    assert pooling.startswith("global.connection_pooling has no effect here")
    assert size.startswith("pipelines.clicks.sources.clicks.batch_size has no effect here")


def test_a_file_without_notable_keys_has_no_notices(loaded: Load) -> None:
    assert loaded(SHORT).notices == ()


def test_what_a_file_does_not_say_has_the_value_that_was_promised(loaded: Load) -> None:
    project = loaded("sources: {asia: {source_uri: in}}\nsink: {table_uri: lake}\n")
    (pipeline,) = project.pipelines
    (source,), sink = pipeline.sources, pipeline.sink
    assert (source.tracking, source.compression) == (Tracking.SET, Compression.AUTO)
    assert (source.interval_files, source.interval_secs, sink.commit_batch_files) == (100, 60, 10)
    assert (source.poll_interval_secs, pipeline.staging.poll_interval_secs) == (60, 10)
    assert (sink.file_size_mb, sink.row_group_size_bytes, sink.compression) == (128, 134_217_728, ParquetCodec.SNAPPY)
    assert (sink.inactivity_timeout_secs, sink.rollover_timeout_secs) == (None, None)
    assert (sink.max_concurrent_uploads, sink.part_size_mb) == (4, 32)
    assert (sink.min_multipart_size_mb, sink.max_concurrent_parts) == (5, 8)
    assert (project.recovery_max_commits, pipeline.delivery) == (100, Delivery.DIRECT)


def test_keys_at_the_top_are_one_pipeline_named_after_the_file(loaded: Load) -> None:
    project = loaded(SHORT, name="web-clicks.yml")
    assert [pipeline.name for pipeline in project.pipelines] == ["web-clicks"]
    assert [source.name for source in project.pipelines[0].sources] == ["default"]


def test_a_short_file_whose_name_is_no_pipeline_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my file.yml"
    path.write_text(SHORT)
    with raises(ConfigError, "'my file'"):
        load(path, env={})


def test_without_a_schema_the_columns_are_inferred(loaded: Load) -> None:
    schema = loaded(SHORT).pipelines[0].schema
    assert (schema.infer, schema.fields, schema.evolution) == (True, (), Evolution.MERGE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SHORT, "sources: {default: {source_uri: in, use_watermark: true}}\nsink: {table_uri: lake}\n"),
        (SHORT.replace("sink", "destination"), SHORT),
        (SHORT.replace("source_uri", "path"), SHORT),
        (SHORT.replace("table_uri", "path"), SHORT),
        (SHORT + "schema: {evolution: strict}\n", SHORT + "schema_evolution: strict\n"),
        (SHORT, f"pipelines:\n  pipelines:\n    {SHORT.strip()}".replace("\nsink", "\n    sink") + "\n"),
    ],
)
def test_an_old_or_short_form_means_the_same_as_the_long_one(loaded: Load, old: str, new: str) -> None:
    assert loaded(old) == loaded(new)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("none", Lateness(never=True)),
        ("72", Lateness(periods=72)),
        ("3 periods", Lateness(periods=3)),
        ("P2D", Lateness(fixed=timedelta(days=2))),
        ("P1DT12H", Lateness(fixed=timedelta(days=1, hours=12))),
        ("PT6H", Lateness(fixed=timedelta(hours=6))),
    ],
)
def test_lateness_is_periods_a_duration_or_none(loaded: Load, written: str, meant: Lateness) -> None:
    text = SHORT.replace("true}", f"true, lateness: {written}}}")
    assert loaded(text).pipelines[0].sources[0].lateness == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/srv/in/", "file:///srv/in"),
        ("../in", "file://{parent}/in"),
        ("file:///srv/in/", "file:///srv/in"),
        ("s3://bucket/in/", "s3://bucket/in"),
        ("memory://test/in", "memory://test/in"),
        ("abfss://box@account.dfs.core.windows.net/in", "abfss://box@account.dfs.core.windows.net/in"),
    ],
)
def test_paths_are_relative_to_the_file_and_addresses_stay(
    loaded: Load, tmp_path: Path, written: str, meant: str
) -> None:
    uri = loaded(SHORT.replace("source_uri: in", f"source_uri: '{written}'")).pipelines[0].sources[0].location.uri
    assert uri == meant.format(parent=tmp_path.parent)


def test_paths_do_not_depend_on_the_working_directory(
    loaded: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = loaded(SHORT)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load("../pipelines.yml", env={}).pipelines == here.pipelines


def test_text_is_loaded_like_a_file(tmp_path: Path) -> None:
    (pipeline,) = load(SHORT, env={}, base=tmp_path).pipelines
    assert (pipeline.name, pipeline.sink.table.uri) == ("default", f"file://{tmp_path}/lake")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "marked.yml"
    path.write_bytes(b"\xef\xbb\xbf" + SHORT.encode())
    assert load(path, env={}).pipelines[0].name == "marked"


def test_only_the_pipelines_asked_for_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "three.yml"
    one = "{source: {path: in, use_watermark: true}, sink: {path: lake/%s}}"
    path.write_text("pipelines:\n" + "".join(f"  {name}: {one % name}\n" for name in "abc"))
    assert [each.name for each in load(path, env={}, pipelines=["c", "a"]).pipelines] == ["a", "c"]


def test_a_pipeline_that_is_not_there_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "orders.yml"
    path.write_text(SHORT)
    with raises(ConfigError, path, "'ordres'", "'orders'") as caught:
        load(path, env={}, pipelines=["ordres"])
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "pipelines.yml … no such file"),
        (b"a: \xff\n", "pipelines.yml:1 … UTF-8"),
        (b"x" * 4_000_001, "pipelines.yml … 4,000,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "pipelines.yml"
    if content is not None:
        path.write_bytes(content)
    with raises(ConfigError, words):
        load(path, env={})


def test_a_directory_is_no_configuration(tmp_path: Path) -> None:
    with raises(ConfigError, "Is a directory"):
        load(tmp_path, env={})


def test_an_empty_value_counts_as_not_given(loaded: Load) -> None:
    text = SHORT.replace("true}", "true, checkpoint: , pattern: ~, late_window: null}") + "schema:\nmetrics:\n"
    assert loaded(text) == loaded(SHORT)


def test_shared_settings_can_be_written_once(loaded: Load) -> None:
    text = """\
pipelines:
  a:
    source: &files {path: in/a, use_watermark: true, max_attempts: 7}
    sink: {path: lake/a}
  b:
    source: {<<: *files, path: in/b}
    sink: {path: lake/b}
"""
    first, second = (pipeline.sources[0] for pipeline in loaded(text).pipelines)
    assert (first.max_attempts, second.max_attempts) == (7, 7)
    assert first.location.uri.endswith("/in/a")
    assert second.location.uri.endswith("/in/b")


@pytest.mark.parametrize("odd", ["grün 😀", "a\x85b", "\u2028", "C:\\Users\\Name", "x" * 150 + " y"])
def test_the_canonical_form_escapes_only_what_nobody_can_read(odd: str) -> None:
    data = {"key": {odd: [odd, "plain"]}}
    assert _dump(data) == yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
