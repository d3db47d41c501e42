"""What is wrong is said all at once: file, line, path, value, what is allowed, the nearest word."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from support.errors import check_names
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
        ("max_attempts: 0", "'0' … 1"),
        ("max_attempts: 1.5", "'1.5' … number"),
        ("max_attempts: 1e3", "'1e3' … number"),
        ("max_attempts: true", "'true' … number"),
        ("max_attempts: [1]", "number"),
        ("max_attempts: 99999999999999999999999", "large"),
        ("max_attempts: 3000000000", "'3000000000' … 2147483647"),
        ("late_files: sometimes", "window, strict"),
        ("late_files: {a: 1}", "window, strict"),
        ("lateness: P0D", "'48 periods' … 'P2D' … 'P1DT12H' … 'none'"),
        ("lateness: P1W", "lateness"),
        ("lateness: 2 days", "lateness"),
        ("lateness: 0", "lateness"),
        ("checkpoint: 5", "mapping"),
        ("checkpoint: {interval_files: 0}", "checkpoint.interval_files … '0'"),
        ("checkpoint: {mirror_legacy: maybe}", "'maybe' … true"),
        ("exclude: {a: b}", "list"),
        ("exclude: [[a]]", "single"),
        ("pattern: ''", "control"),
        ("pattern: '[z-a]'", "glob"),
        ("pattern: //a/*.json", "source_uri … /*.csv"),
        ("exclude: [ok, '[z-a]']", "glob"),
        ("type: file", "jdbc … http … 'files'"),
        ("storage_options: [a]", "texts"),
        ("storage_options: {A: [1]}", "text"),
        ("partition_filter: {lookback: 1}", "partition_filter.prefix_template … missing"),
        ('partition_filter: {prefix_template: "d=%Y-%m-%d"}', "partition_filter.lookback … missing"),
        ('partition_filter: {prefix_template: "h=%H", lookback: 1}', "hour"),
        ('partition_filter: {prefix_template: "%Y/%d", lookback: 1}', "month"),
        ('partition_filter: {prefix_template: "%Y-%m-%d-%H-%M", lookback: 1}', "%M … minutes"),
        ('partition_filter: {prefix_template: "%Y-%m-%d %S", lookback: 1}', "%S … seconds"),
        ('partition_filter: {prefix_template: "%Y-%U", lookback: 1}', "%U … weeks"),
        ('partition_filter: {prefix_template: "%Y-%W", lookback: 1}', "%W … weeks"),
        ('partition_filter: {prefix_template: "%G-%V", lookback: 1}', "%G … years"),
        ('partition_filter: {prefix_template: "%Y-%j", lookback: 1}', "%j … year"),
        ('partition_filter: {prefix_template: "%y%m", lookback: 1}', "%y … century"),
        (
            'partition_filter: {prefix_template: "x=%Q", lookback: 1}',
            "%Y … directive",
        ),
        ('partition_filter: {prefix_template: "x=%", lookback: 1}', "directive"),
        ('partition_filter: {prefix_template: "date", lookback: 1}', "field"),
        ('partition_filter: {prefix_template: "%Y//%m", lookback: 1}', "separated"),
        ('partition_filter: {prefix_template: "../%Y", lookback: 1}', "separated"),
    ],
)
def test_a_wrong_value_of_a_source_is_one_problem_in_its_line(problems: Problems, line: str, words: str) -> None:
    (found,) = problems(source_with(line))
    key = line.partition(":")[0]
    assert found.startswith(f"pipelines.yml:4: source.{key}")
    check_names(found, words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("file_size_mb: 0", "'0' … 1"),
        ("row_group_size_bytes: 1", "allowed: 65536"),
        ("commit_batch_files: 10001", "allowed: 10000"),
        ("delta_checkpoint_interval: -1", "allowed: 0"),
        ("rollover_timeout_secs: 0", "allowed: 1"),
        ("part_size_mb: 4", "allowed: 5"),
        ("metadata_columns: [_source_fil]", "unknown column"),
        ("partition_by: date", "mapping"),
        ("load_type: apend", "merge_overwrite … 'append'"),
        ("tabel_uri: x", "'table_uri' … unknown"),
        ("partition_filter: {}", "'pipelines.<pipeline>.sources.<source>' … belongs"),
    ],
)
def test_a_wrong_value_of_a_sink_is_one_problem_in_its_line(problems: Problems, line: str, words: str) -> None:
    (found,) = problems(sink_with(line))
    assert found.startswith("pipelines.yml:4: sink.")
    check_names(found, words)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://host/x", "kind"),
        ("gsc://bucket/x", "'gs'"),
        ("s3:///x", "s3://bucket/prefix"),
        ("s3://id:key@bucket/x", "storage_options … credentials"),
        ("s3://bucket/x?token=abc", "storage_options … settings"),
        ("'a\\tb'", "source_uri"),
    ],
)
def test_an_address_is_checked(problems: Problems, address: str, words: str) -> None:
    text = f"source: {{source_uri: '{address}', use_watermark: true}}\nsink: {{table_uri: lake}}\n"
    if "\\t" in address:
        text = 'source: {source_uri: "a\\tb", use_watermark: true}\nsink: {table_uri: lake}\n'
    (found,) = problems(text)
    check_names(found, words)
    assert "abc" not in found
    assert "id:key" not in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pipelines: {}\n", "pipelines … empty"),
        ("pipelines: 5\n", "pipelines … mapping"),
        ("pipelines:\n", "pipelines … missing"),
        ("spark: {}\n", "pipelines … missing"),
        ("pipelines: {a: }\n", "pipelines.a … mapping"),
        (
            "pipelines: {a: {sources: {}, sink: {path: x}}}\n",
            "pipelines.a.sources … empty",
        ),
        ("pipelines: {a: {sources: {b: }, sink: {path: x}}}\n", "pipelines.a.sources.b … mapping"),
        ("sink: {path: x}\n", "sources … missing"),
        ("source: {path: x, use_watermark: true}\n", "sink … missing"),
        (
            "spark: {master: yarn, remote: 'sc://h'}\n",
            "spark.remote … 'master'",
        ),
    ],
)
def test_a_file_with_parts_missing_says_which(problems: Problems, text: str, words: str) -> None:
    check_names("\n".join(problems(text)), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "source: {path: a, source_uri: b, use_watermark: true}\nsink: {path: x}\n",
            "source.path … 'path' … 'sources.<source>.source_uri'",
        ),
        (
            "source: {path: a, use_watermark: true}\nsink: {path: x}\ndestination: {path: y}\n",
            "destination … 'destination' … 'sink'",
        ),
        (
            "source: {path: a, use_watermark: true}\nsources: {x: {path: b}}\nsink: {path: x}\n",
            "source … 'source' … 'sources.default'",
        ),
        (
            "pipelines: {}\nsource: {path: a}\nsink: {path: x}\n",
            "'pipelines:'",
        ),
    ],
)
def test_old_and_new_names_at_once_are_refused(problems: Problems, text: str, words: str) -> None:
    check_names("\n".join(problems(text)), words)


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
    assert line.startswith("pipelines.yml:4: sink.a?[2J?b: ")
