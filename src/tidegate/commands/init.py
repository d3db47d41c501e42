"""Init: a small project to begin with, for files, a database or an API; it passes the check and runs as written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from tidegate.config import json_schema
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN
from tidegate.reports.project import InitReport

Kind = Literal["files", "database", "api"]
CONFIG, SCHEMA, VARIABLES = "pipelines.yml", "tidegate.schema.json", ".env.example"

_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA}
# The line above lets editors complete and check keys. All keys: docs/reference/configuration.md
"""
_FILES = """
pipelines:
  orders:
    source:
      source_uri: landing/            # a folder, or s3://, gs://, az://
      format: csv                     # or ndjson, json, parquet, avro
      # use_watermark: true           # if names sort in time: polls list only what is new
    schema:
      infer: true                     # columns are taken from the first files, and remembered
      # fields:                       # or declare them
      #   - {name: id, type: int64, nullable: false}
      #   - {name: ordered_at, type: timestamp}
      #   - {name: amount, type: "decimal(10,2)"}
    sink:
      table_uri: lake/orders          # a Delta table; it is made by the first run
      metadata_columns: [_source_file]  # each row names its file: `tidegate replay` can take any file back
      # partition_by: {prefix_template: "date=%Y-%m-%d", column: ordered_at}
"""
_SAMPLE = """\
id,ordered_at,amount
1,2026-01-28T14:00:00Z,12.50
2,2026-01-28T14:05:00Z,7.25
"""
_DATABASE = """
connections:
  shop:
    type: jdbc
    url: "jdbc:postgresql://${SHOP_HOST:-localhost}:${SHOP_PORT:-5432}/${SHOP_DATABASE:-shop}"
    user: ${SHOP_USER:-reader}
    password: ${SHOP_PASSWORD:-change-me}      # from the environment; it is never shown

pipelines:
  orders:
    source:
      connection: shop
      table: public.orders
      watermark_columns: [modified_at]         # columns that grow: only rows above their greatest values are read
      # backward: {days: 1}                    # read the last day again, for rows that are committed late
    sink:
      table_uri: lake/orders                   # a Delta table; it is made by the first run
      load_type: merge_upsert                  # corrected rows replace older ones; append: rows are only added
      merge_keys: [order_id]
"""
_API = """
connections:
  api:
    type: http
    url: "${API_URL:-https://api.example.org/v1}"
    auth: {type: bearer, token: "${API_TOKEN:-change-me}"}      # from the environment; it is never shown
    rate_limit: {requests: 10, per_seconds: 1}

pipelines:
  orders:
    source:
      connection: api
      path: /orders
      records: data                                   # where the response has its list; omit it if it is the list
      pagination: {type: page, param: page, size_param: limit, size: 100}
      watermark_columns: [updated_at]                 # the greatest value that was read is remembered,
      watermark_param_mapping: {updated_at: since}    # and sent as this parameter
    sink:
      table_uri: lake/orders                          # a Delta table; it is made by the first run
      load_type: append                               # or merge_upsert, with merge_keys
  # files:                                            # a server of files: each is a unit, named in the address
  #   source:
  #     type: download
  #     connection: api
  #     path: "/files/{{file}}"
  #     format: csv
  #     watermark:
  #       - {name: system, type: datetime, range: {from: "2026-01-01", to: "-"}}
  #       - {name: file, type: unit, units: [2026-01-01.csv, 2026-01-02.csv]}
  #     replace: unit                                 # a file that is read again replaces its own rows
  #   sink:
  #     table_uri: lake/files
"""
_ENVIRONMENT = {
    "files": "# This project needs no variables. Storage options can refer to them: ${NAME}, ${NAME:-default}.\n",
    "database": (
        "# Copy to .env, fill in, and load it before a run: set -a; . ./.env; set +a\n"
        "SHOP_HOST=localhost\nSHOP_PORT=5432\nSHOP_DATABASE=shop\nSHOP_USER=reader\nSHOP_PASSWORD=\n"
    ),
    "api": (
        "# Copy to .env, fill in, and load it before a run: set -a; . ./.env; set +a\n"
        "API_URL=https://api.example.org/v1\nAPI_TOKEN=\n"
    ),
}
_TEST = f'''\
"""The configuration is correct; run this with pytest."""

from pathlib import Path

import tidegate


def test_the_configuration_is_correct() -> None:
    project = tidegate.load(Path(__file__).with_name("{CONFIG}"))
    assert [pipeline.name for pipeline in project.pipelines] == ["orders"]
'''
_BODIES: dict[Kind, str] = {"files": _FILES, "database": _DATABASE, "api": _API}


def init(folder: Path | None = None, kind: Kind = "files") -> InitReport:
    """Write a configuration with comments, its schema for editors, variables to set, and a test into ``folder``.

    :class:`ConfigError` names files that exist already; then nothing is written.
    """
    folder = folder or Path()
    contents = {
        CONFIG: f"{_HEAD}{_BODIES[kind]}",
        SCHEMA: json.dumps(json_schema(FOREIGN), indent=2) + "\n",
        VARIABLES: _ENVIRONMENT[kind],
        "test_pipelines.py": _TEST,
        **({"landing/example.csv": _SAMPLE} if kind == "files" else {}),
    }
    there = [str(folder / name) for name in contents if (folder / name).exists()]
    if there:
        raise ConfigError((f"{', '.join(there)}: already there; name another folder, or remove them",))
    try:
        for name, text in contents.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError((f"{error.filename or folder}: cannot be written: {error.strerror}",)) from None
    commands = tuple(f"tidegate {name} {folder / CONFIG}" for name in ("plan", "run"))
    return InitReport(str(folder), tuple(contents), commands, "" if kind == "files" else str(folder / VARIABLES))
