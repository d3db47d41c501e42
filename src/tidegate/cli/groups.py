"""The commands that have commands of their own: ``watermark``, ``config`` and ``table``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.invocation import Invocation, print_json
from tidegate.cli.options import Group, config_argument, json_option, pipeline_option
from tidegate.cli.pages import Cell, Column, Gap, Line, Page, Style, Table
from tidegate.observe.wording import count

if TYPE_CHECKING:
    from tidegate.specs.project import PipelineSpec, ProjectSpec


@click.group(
    cls=Group,
    examples=[
        "tidegate watermark show pipelines.yml -p events",
        "tidegate watermark reset pipelines.yml -p events --all --dry-run",
    ],
)
def watermark() -> None:
    """Look at the recorded watermarks, and move them."""


@watermark.command(
    examples=[
        "tidegate watermark show pipelines.yml -p events",
        "tidegate watermark show pipelines.yml -p events -s asia --json",
    ],
)
@config_argument
@pipeline_option(required=True)
@click.option("-s", "--source", metavar="SOURCE", help="Only this source (default: all of the pipeline).")
@json_option
@click.pass_obj
def show(invocation: Invocation, config: Path, pipeline: str, source: str | None, as_json: bool) -> None:
    """Show the state of a pipeline's sources.

    That is the watermark, the open partitions, and the files that it waits for.
    """
    views = invocation.functions().show_watermarks(config, pipeline, source)
    if as_json:
        return print_json({"watermarks": [each.to_json() for each in views]})
    from tidegate.cli.watermark_view import render_watermarks

    return invocation.show(render_watermarks(views))


@click.group(
    cls=Group,
    examples=["tidegate config check pipelines.yml", "tidegate config schema > tidegate.schema.json"],
)
def config() -> None:
    """Check, show and import configuration files."""


@config.command(examples=["tidegate config check pipelines.yml", "tidegate config check pipelines.yml --json"])
@config_argument
@json_option
@click.pass_obj
def check(invocation: Invocation, config: Path, as_json: bool) -> None:
    """Check a file and tell all its problems."""
    project = invocation.functions().load(config)
    if as_json:
        return print_json(project_summary(project))
    return invocation.show(render_project(project))


@config.command("show", examples=["tidegate config show pipelines.yml"])
@config_argument
@click.pass_obj
def show_config(invocation: Invocation, config: Path) -> None:
    """Print the canonical form of a file.

    It has all defaults and shows no secret.
    """
    from tidegate.config import show as canonical

    click.echo(canonical(invocation.functions().load(config)).rstrip("\n"))


@config.command(examples=["tidegate config schema > tidegate.schema.json"])
def schema() -> None:
    """Print the JSON Schema of such files.

    Editors that know it complete and check keys.
    """
    from tidegate.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2))


@click.group(
    cls=Group,
    examples=[
        "tidegate table optimize pipelines.yml -p events --dry-run",
        "tidegate table vacuum pipelines.yml -p events",
    ],
)
def table() -> None:
    """Care for the table of a pipeline."""


def _sources(pipeline: PipelineSpec) -> tuple[tuple[str, str], ...]:
    """The sources of every kind, by name, with what they read."""
    return tuple((each.name, each.uri) for each in pipeline.sources)


def project_summary(project: ProjectSpec) -> dict[str, Any]:
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


def render_project(project: ProjectSpec) -> Page:
    """What ``config check`` shows when there is nothing wrong."""
    rows = tuple(
        (
            Cell(f"{pipeline.name}/{name}", Style.STRONG),
            Cell(uri),
            Cell(pipeline.sink.table.uri),
        )
        for pipeline in project.pipelines
        for name, uri in _sources(pipeline)
    )
    numbers = f"{count(len(project.pipelines), 'pipeline')}, {count(len(rows), 'source')}"
    notices: Page = tuple(Line(Cell(text, Style.WARN), "notice") for text in project.notices)
    listed = Table((Column("source"), Column("reads"), Column("writes")), rows)
    verdict = Line(Cell(f"{project.origin} is correct: {numbers}", Style.GOOD))
    return (verdict, Gap(), listed, Gap(), *notices) if notices else (verdict, Gap(), listed)
