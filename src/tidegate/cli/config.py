"""``tidegate config``: check and show configuration files, print their JSON Schema, and import properties files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tidegate
from tidegate.cli.invocation import Group, Invocation, config_argument, print_json, print_text, print_yaml, with_json
from tidegate.errors import ConfigError
from tidegate.migrate.foreign import FOREIGN
from tidegate.reports.page import Block, Cell, Gap, Style, after_gap, line, page, tabulate
from tidegate.reports.wording import count
from tidegate.specs.masking import known_mask

if TYPE_CHECKING:
    from tidegate.reports.project import PropertiesImport
    from tidegate.specs.project import PipelineSpec, ProjectSpec


@click.group(
    cls=Group,
    examples=["tidegate config check pipelines.yml", "tidegate config schema > tidegate.schema.json"],
)
def config() -> None:
    """Check, show and import configuration files."""


@config.command(examples=["tidegate config check pipelines.yml", "tidegate config check pipelines.yml --json"])
@config_argument
@with_json
def check(invocation: Invocation, config: Path) -> None:
    """Check a file and report all its problems."""
    project = tidegate.load(config)
    if invocation.as_json:
        return print_json(_summary(project))
    return invocation.show(render_project(project))


@config.command("show", examples=["tidegate config show pipelines.yml", "tidegate config show pipelines.yml --json"])
@config_argument
@with_json
def show_config(invocation: Invocation, config: Path) -> None:
    """Print a file in its canonical form.

    With all defaults, and without secrets.
    """
    import yaml

    from tidegate.config import show as canonical

    text = canonical(tidegate.load(config))
    if invocation.as_json:
        return print_json(yaml.safe_load(text), known_mask().of_keys())
    return print_yaml(text)


@config.command(examples=["tidegate config schema > tidegate.schema.json"])
@with_json
def schema(invocation: Invocation) -> None:
    """Print the JSON Schema of configuration files.

    Editors use it to complete and check keys.
    """
    from tidegate.config import json_schema

    print_json(json_schema(FOREIGN))


@config.command(
    "import",
    examples=[
        "tidegate config import surveys.pull",
        "tidegate config import surveys.pull --out surveys.yml",
        "tidegate config import surveys.pull --strict --json",
    ],
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the configuration to a new file.")
@click.option("--strict", is_flag=True, help="Exit with 1 if any property could not be converted.")
@with_json
def import_properties(invocation: Invocation, file: Path, out: Path | None, strict: bool) -> int:
    """Convert a properties file into a configuration.

    Prints the configuration. Reports on standard error what was not converted, line by line. Does not copy secrets:
    they become environment variables. Exits with 1 where the pipeline would read other data than the job, and refuses
    jobs that it cannot convert, such as those that send data or read SFTP servers.
    """
    report = tidegate.import_properties(file)
    if out is not None:
        _write(out, report.yaml)
    if invocation.as_json:
        print_json(report.to_json(), known_mask().of_keys())
    else:
        if out is None:
            print_yaml(report.yaml)
        for text in _remarks(report):
            print_text(text, to_stderr=True)
    return int(not report.reads_the_same or (strict and bool(report.left)))


def _write(out: Path, text: str) -> None:
    """Write a new file; refuse an existing one."""
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError((f"{out}: already exists; give another file, or remove it",)) from None
    except OSError as exc:
        raise ConfigError((f"{out}: cannot be written: {exc.strerror}",)) from None


def _remarks(report: PropertiesImport) -> Iterator[str]:
    """What is not converted, and which variables to set."""
    for note in report.left:
        warning = " (reads other data)" if note.changes_what_is_read else ""
        yield f"{report.origin}:{note.line}: not converted{warning}: {note.name}: {note.reason}"
    for note in report.not_needed:
        yield f"{report.origin}:{note.line}: not needed: {note.name}: {note.reason}"
    if report.variables:
        yield f"set before use: {', '.join(report.variables)}"
    numbers = (len(report.carried), len(report.left), len(report.not_needed))
    yield "{:,} converted, {:,} not converted, {:,} not needed".format(*numbers)


def _sources(pipeline: PipelineSpec) -> tuple[tuple[str, str], ...]:
    """All sources by name, with what they read."""
    return tuple((each.name, each.uri) for each in pipeline.sources)


def _summary(project: ProjectSpec) -> dict[str, Any]:
    """What ``config check --json`` prints."""
    pipelines = [
        {
            "name": pipeline.name,
            "sources": [{"name": name, "source_uri": uri} for name, uri in _sources(pipeline)],
            "table_uri": pipeline.sink.table.uri,
        }
        for pipeline in project.pipelines
    ]
    return {"ok": True, "config": project.origin, "pipelines": pipelines, "notices": list(project.notices)}


@page
def render_project(project: ProjectSpec) -> Iterator[Block]:
    """The result of ``config check`` without problems."""
    rows = tuple(
        (Cell(f"{pipeline.name}/{name}", Style.STRONG), uri, pipeline.sink.table.uri)
        for pipeline in project.pipelines
        for name, uri in _sources(pipeline)
    )
    numbers = f"{count(len(project.pipelines), 'pipeline')}, {count(len(rows), 'source')}"
    yield line(f"{project.origin} is correct: {numbers}", Style.GOOD)
    yield Gap()
    yield tabulate(("source", "~reads", "~writes"), rows)
    yield from after_gap(line(text, Style.WARN, "notice") for text in project.notices)
