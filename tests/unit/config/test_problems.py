"""What is wrong is said all at once: file, line, path, value, what is allowed, the nearest word."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from tidegate.errors import ConfigError
from tidegate.schema.names import CONTAINERS, SCALARS

Problems = Callable[..., tuple[str, ...]]

MANY = """\
pipelines:
  events:
    sources:
      asia:
        sourceuri: in
        use_watermark: true
        late_file: window
        max_attempts: many
        partition_filter: {prefix_template: "date=%Y-%m-%d", lookback: -1}
      "e u":
        path: in/eu
        use_watermark: true
        compression: gzp
    schema:
      fields:
        - {name: id, type: long}
        - {name: id, type: string}
        - {name: rows, type: list}
    sink:
      compression: snapy
      lookback: 3
    polling: 5
globl: {}
spark: {master: lokal, config: 5}
"""


def test_all_problems_of_a_file_come_at_once_in_the_order_of_its_lines(problems: Problems) -> None:
    found = problems(MANY)
    types = ", ".join((*SCALARS, "decimal(p,s)", *CONTAINERS))
    events, source = "pipelines.events", "pipelines.events.sources.asia"
    assert found == (
        f"pipelines.yml:4: {source}.source_uri: is missing; the path or object storage address of the files",
        f"pipelines.yml:5: {source}.sourceuri: unknown key; did you mean 'source_uri'?",
        f"pipelines.yml:7: {source}.late_file: unknown key; did you mean 'late_files'?",
        f"pipelines.yml:8: {source}.max_attempts: 'many' is not a whole number",
        f"pipelines.yml:9: {source}.partition_filter.lookback: '-1' is too small; allowed: 0 or more",
        "pipelines.yml:10: pipelines.events.sources.e u: 'e u' is not a name; "
        "allowed: letters, digits, '_', '.', '-', starting with a letter or digit",
        f"pipelines.yml:13: {events}.sources.e u.compression: 'gzp' is not one of auto, gzip, zstd, none; "
        "did you mean 'gzip'?",
        f"pipelines.yml:16: pipelines.events.schema.fields[0].type: 'long' is not a type; allowed: {types}; "
        "did you mean 'int64'?",
        f"pipelines.yml:17: {events}.schema.fields[1].name: 'id' is declared twice; declare each column once",
        "pipelines.yml:18: pipelines.events.schema.fields[2]: a list needs items; 'items' is missing",
        "pipelines.yml:19: pipelines.events.sink.table_uri: is missing; the path or object storage address of the "
        "table",
        "pipelines.yml:20: pipelines.events.sink.compression: "
        "'snapy' is not one of snappy, gzip, zstd, lz4, uncompressed; did you mean 'snappy'?",
        "pipelines.yml:21: pipelines.events.sink.lookback: unknown key here; "
        "it belongs to 'pipelines.<pipeline>.sources.<source>.partition_filter'",
        f"pipelines.yml:22: {events}.polling: unknown key; allowed: sources, schema, schema_evolution, "
        "transform, sink, delivery, staging, on_conflict, max_concurrent_files, error_handling",
        "pipelines.yml:23: globl: unknown key; did you mean 'global'?",
        "pipelines.yml:24: spark.config: the value must be a mapping of names to texts",
        "pipelines.yml:24: spark.master: 'lokal' is not a Spark master; "
        "allowed: local, local[N], local[*], spark://host:port, yarn, k8s://…",
    )


def source_with(line: str) -> str:
    return f"source:\n  path: in\n  use_watermark: true\n  {line}\nsink: {{path: lake}}\n"


def sink_with(line: str) -> str:
    return f"source: {{path: in, use_watermark: true}}\nsink:\n  path: lake\n  {line}\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("max_attempts: 0", "'0' is too small; allowed: 1 or more"),
        ("max_attempts: 1.5", "'1.5' is not a whole number"),
        ("max_attempts: 1e3", "'1e3' is not a whole number"),
        ("max_attempts: true", "'true' is not a whole number"),
        ("max_attempts: [1]", "the value is not a whole number"),
        ("max_attempts: 99999999999999999999999", "is too large; allowed: at most"),
        ("max_attempts: 3000000000", "'3000000000' is too large; allowed: 2147483647 or less"),
        ("late_files: sometimes", "is not one of window, strict"),
        ("late_files: {a: 1}", "the value is not one of window, strict"),
        ("lateness: P0D", "is not a lateness; allowed: '48 periods', 'P2D', 'P1DT12H', 'none'"),
        ("lateness: P1W", "is not a lateness"),
        ("lateness: 2 days", "is not a lateness"),
        ("lateness: 0", "is not a lateness"),
        ("checkpoint: 5", "must be a mapping"),
        ("checkpoint: {interval_files: 0}", "checkpoint.interval_files: '0' is too small"),
        ("checkpoint: {mirror_legacy: maybe}", "'maybe' is not a yes or no; allowed: true, false"),
        ("exclude: {a: b}", "must be a list of texts"),
        ("exclude: [[a]]", "must be a single value"),
        ("pattern: ''", "is empty or contains control characters"),
        ("pattern: '[z-a]'", "is not a glob; allowed: text with *, **, ?, [a-z]"),
        ("pattern: /a/*.json", "starts with '/'; allowed: a name, or a path below source_uri"),
        ("exclude: [ok, '[z-a]']", "is not a glob"),
        ("type: file", "jdbc, http, python, download; did you mean 'files'?"),
        ("storage_options: [a]", "must be a mapping of names to texts"),
        ("storage_options: {A: [1]}", "must be a mapping of names to texts; A is not a text"),
        ("partition_filter: {lookback: 1}", "partition_filter.prefix_template: is missing"),
        ('partition_filter: {prefix_template: "d=%Y-%m-%d"}', "partition_filter.lookback: is missing"),
        ('partition_filter: {prefix_template: "h=%H", lookback: 1}', "has the hour without the day"),
        ('partition_filter: {prefix_template: "%Y/%d", lookback: 1}', "has the day without the month"),
        ('partition_filter: {prefix_template: "%Y-%m-%d-%H-%M", lookback: 1}', "has %M (minutes)"),
        ('partition_filter: {prefix_template: "%Y-%m-%d %S", lookback: 1}', "has %S (seconds)"),
        ('partition_filter: {prefix_template: "%Y-%U", lookback: 1}', "has %U (weeks)"),
        ('partition_filter: {prefix_template: "%Y-%W", lookback: 1}', "has %W (weeks)"),
        ('partition_filter: {prefix_template: "%G-%V", lookback: 1}', "has %G (years of weeks)"),
        ('partition_filter: {prefix_template: "%Y-%j", lookback: 1}', "has %j (days of the year)"),
        ('partition_filter: {prefix_template: "%y%m", lookback: 1}', "has %y (years without their century)"),
        (
            'partition_filter: {prefix_template: "x=%Q", lookback: 1}',
            "has an unknown directive; allowed: %Y %m",
        ),
        ('partition_filter: {prefix_template: "x=%", lookback: 1}', "has an unknown directive"),
        ('partition_filter: {prefix_template: "date", lookback: 1}', "has no field of time"),
        ('partition_filter: {prefix_template: "%Y//%m", lookback: 1}', "separated by single slashes"),
        ('partition_filter: {prefix_template: "../%Y", lookback: 1}', "separated by single slashes"),
    ],
)
def test_a_wrong_value_of_a_source_is_one_problem_in_its_line(problems: Problems, line: str, words: str) -> None:
    (found,) = problems(source_with(line))
    key = line.partition(":")[0]
    assert found.startswith(f"pipelines.yml:4: source.{key}")
    assert words in found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("file_size_mb: 0", "'0' is too small; allowed: 1 or more"),
        ("row_group_size_bytes: 1", "allowed: 65536 or more"),
        ("commit_batch_files: 10001", "allowed: 10000 or less"),
        ("delta_checkpoint_interval: -1", "allowed: 0 or more"),
        ("rollover_timeout_secs: 0", "allowed: 1 or more"),
        ("part_size_mb: 4", "allowed: 5 or more"),
        ("metadata_columns: [_source_fil]", "contains an unknown column"),
        ("partition_by: date", "must be a mapping"),
        ("load_type: apend", "merge_overwrite, scd2; did you mean 'append'?"),
        ("tabel_uri: x", "unknown key; did you mean 'table_uri'?"),
        ("partition_filter: {}", "unknown key here; it belongs to 'pipelines.<pipeline>.sources.<source>'"),
    ],
)
def test_a_wrong_value_of_a_sink_is_one_problem_in_its_line(problems: Problems, line: str, words: str) -> None:
    (found,) = problems(sink_with(line))
    assert found.startswith("pipelines.yml:4: sink.")
    assert words in found


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://host/x", "is an address of an unknown kind; allowed: a path, file://, s3://"),
        ("gsc://bucket/x", "did you mean 'gs'?"),
        ("s3:///x", "names no bucket; allowed: s3://bucket/prefix"),
        ("s3://id:key@bucket/x", "contains credentials; put them into storage_options"),
        ("s3://bucket/x?token=abc", "put settings into storage_options"),
        ("'a\\tb'", "source_uri"),
    ],
)
def test_an_address_is_checked(problems: Problems, address: str, words: str) -> None:
    text = f"source: {{source_uri: '{address}', use_watermark: true}}\nsink: {{table_uri: lake}}\n"
    if "\\t" in address:
        text = 'source: {source_uri: "a\\tb", use_watermark: true}\nsink: {table_uri: lake}\n'
    (found,) = problems(text)
    assert words in found
    assert "abc" not in found
    assert "id:key" not in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pipelines: {}\n", "pipelines: is empty; allowed: one or more"),
        ("pipelines: 5\n", "pipelines: must be a mapping of names to settings"),
        ("pipelines:\n", "pipelines: is missing"),
        ("spark: {}\n", "pipelines: is missing"),
        ("pipelines: {a: }\n", "pipelines.a: must be a mapping"),
        (
            "pipelines: {a: {sources: {}, sink: {path: x}}}\n",
            "pipelines.a.sources: is empty; allowed: one or more",
        ),
        ("pipelines: {a: {sources: {b: }, sink: {path: x}}}\n", "pipelines.a.sources.b: must be a mapping"),
        ("sink: {path: x}\n", "sources: is missing"),
        ("source: {path: x, use_watermark: true}\n", "sink: is missing"),
        (
            "spark: {master: yarn, remote: 'sc://h'}\n",
            "spark.remote: given together with 'master'; remove one of the two",
        ),
    ],
)
def test_a_file_with_parts_missing_says_which(problems: Problems, text: str, words: str) -> None:
    assert any(words in line for line in problems(text)), problems(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "source: {path: a, source_uri: b, use_watermark: true}\nsink: {path: x}\n",
            "source.path: 'path' means 'sources.<source>.source_uri', which is also given",
        ),
        (
            "source: {path: a, use_watermark: true}\nsink: {path: x}\ndestination: {path: y}\n",
            "destination: 'destination' means 'sink', which is also given",
        ),
        (
            "source: {path: a, use_watermark: true}\nsources: {x: {path: b}}\nsink: {path: x}\n",
            "source: 'source' means 'sources.default', which is also given",
        ),
        (
            "pipelines: {}\nsource: {path: a}\nsink: {path: x}\n",
            "a file has either 'pipelines:' or one pipeline",
        ),
    ],
)
def test_old_and_new_names_at_once_are_refused(problems: Problems, text: str, words: str) -> None:
    assert any(words in line for line in problems(text)), problems(text)


def test_paths_in_problems_are_those_of_the_file_not_of_the_canonical_form(problems: Problems) -> None:
    text = "source: {path: in, use_watermark: true, max_attempts: x}\ndestination: {path: y, file_size_mb: z}\n"
    assert [line.split(": ")[1] for line in problems(text)] == [
        "source.max_attempts",
        "destination.file_size_mb",
    ]


def test_the_error_survives_a_trip_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(ConfigError(("a.yml:1: x: y", "a.yml:2: z: w"))))
    assert str(error) == "a.yml:1: x: y\na.yml:2: z: w"
    assert error.exit_code == 2


def test_a_problem_is_one_line_without_control_characters(problems: Problems) -> None:
    (line,) = problems(sink_with('"a\\e[2J\\nb": x'))
    assert line.startswith("pipelines.yml:4: sink.a?[2J?b: unknown key; allowed: table_uri, ")
