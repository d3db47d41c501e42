"""The whole file: connections, pipelines, and the settings that all of them share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar
from urllib.parse import unquote

from tidegate.config import values as v
from tidegate.config.column_source import JdbcConnectionModel, backward, note_columns, note_short_forms, with_path
from tidegate.config.database_block import TablesSourceModel, is_made_up
from tidegate.config.document import (
    Absolute,
    Block,
    Loc,
    Notes,
    Problem,
    Spot,
    find,
    mask,
    mask_address,
    nearest,
    path_of,
    problem,
    sentence,
)
from tidegate.config.file_source import note_files
from tidegate.config.http import HttpConnectionModel, connection_problems
from tidegate.config.models import Context, Model, NamedBlocks, OfKind, Parts, dump, fields, make, part
from tidegate.config.normal_form import (
    is_column_source,
    is_file_source,
    is_unit_source,
    kinds_of_watermark,
    tag_of_connection,
)
from tidegate.config.notify import note_notify, notify_problems
from tidegate.config.overlaps import in_order, order_problems, overlap_problems, table_problems
from tidegate.config.pipeline import PipelineModel, name_connections, pipeline_problems, show_connections
from tidegate.config.secrets import note_short_secrets, secret_problems
from tidegate.config.sink import STRATEGY_KEYS
from tidegate.config.values import check, refusal, text
from tidegate.config.work_units import unit_notices
from tidegate.errors import ConfigError, StorageError
from tidegate.specs.columns import WHOLE, ColumnSource
from tidegate.specs.keys import Key
from tidegate.specs.locations import Secret, looks_secret, split_address
from tidegate.specs.masking import MASK, Mask
from tidegate.specs.project import MetricsSpec, ProjectSpec, ProviderKind, SparkSpec, StateSpec, TableBlock
from tidegate.storage.options import split_uri
from tidegate.storage.stores import TablePlaces

_DATABASES = ("sqlite", "postgresql")


@check()
def master(value: object) -> str:
    """Where Spark runs."""
    where = text(value)
    if not re.fullmatch(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+", where):
        raise refusal("is not a Spark master", "allowed: local, local[N], local[*], spark://host:port, yarn, k8s://…")
    return where


@check()
def remote(value: object) -> str:
    """A Spark Connect server."""
    where = text(value)
    if not re.fullmatch(r"sc://.+|local(\[.+\])?", where):
        raise refusal("is not a Spark Connect address", "allowed: sc://host:port")
    return where


@check()
def listen_address(value: object) -> str:
    """``host:port``."""
    where = text(value)
    host, _, port = where.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise refusal("is not an address to listen at", "allowed: host:port, such as 127.0.0.1:9090")
    return where


@check()
def textfile(value: object) -> str:
    """A local file that the textfile collector of node_exporter reads."""
    path = text(value)
    if not path.endswith(".prom"):
        raise refusal("is no file that node_exporter reads", "allowed: a path that ends in .prom")
    if "://" in path:
        raise refusal("is no local file", "allowed: a path on this machine")
    return path


@check()
def push_url(value: object) -> Secret:
    """The address of a Pushgateway, with credentials if it asks for some."""
    where = v.secret(value)
    try:
        split_address(where.value)
        is_address = re.fullmatch(r"https?://[^/?#\s]+(/[^?#\s]*)?", where.value)
    except ConfigError:
        is_address = None
    if not is_address:
        how = "write it like https://USER:PASSWORD@push.example.org:9091, special characters of a password as %XX"
        raise refusal("is not the address of a Pushgateway", how)
    return where


class GlobalModel(Model):
    """Settings that all pipelines of the file share."""

    takes: ClassVar[Parts] = (part(ProjectSpec, "total_concurrency:poll_jitter_secs", "commit_deadline_secs"),)


class RecoveryModel(Model):
    """How far back a run looks for a lost position."""

    takes: ClassVar[Parts] = (part(ProjectSpec, "max_commits"),)


class SparkModel(Model):
    """Where tasks run."""

    spec: ClassVar = SparkSpec
    takes: ClassVar[Parts] = (part(SparkSpec),)

    @classmethod
    def show(cls, spec: SparkSpec) -> dict[str, Any]:
        """Where tasks run; settings and addresses without secrets."""
        remote = Mask.around(SparkSpec(remote=spec.remote))(mask(spec.remote)) if spec.remote is not None else None
        config = {
            name: MASK if looks_secret(name) or looks_secret(value) else mask(value)
            for name, value in spec.config.items()
        }
        return dump(cls, spec, given={"remote": remote, "config": config})


@check({"anyOf": [{"enum": [*ProviderKind]}, {"pattern": ":", "type": "string"}]})
def provider(value: object) -> ProviderKind | str:
    """A provider of ours by its name, or one of the user's own as ``module:Class``."""
    if ":" in text(value):
        return v.function(value)
    return ProviderKind(v.choose(value, *(each.value for each in ProviderKind)))


class MetricsModel(Model):
    """Prometheus metrics."""

    spec: ClassVar = MetricsSpec
    takes: ClassVar[Parts] = (part(MetricsSpec),)

    def build(self, context: Context) -> MetricsSpec:
        """The metrics; the path of a file starts at the directory of the configuration."""
        path: str | None = self["textfile"]
        if path is not None:
            path = unquote(context.absolute(path).removeprefix("file://"))
        return make(MetricsSpec, self.given, context, textfile=path)

    @classmethod
    def show(cls, spec: MetricsSpec) -> dict[str, Any]:
        """The metrics, without the credentials of the Pushgateway."""
        return dump(cls, spec, given={"push_url": mask_address(spec.push_url.value) if spec.push_url else None})


class StateModel(Model):
    """Where a copy of the watermarks goes."""

    spec: ClassVar = StateSpec
    takes: ClassVar[Parts] = (part(StateSpec),)

    def build(self, context: Context) -> StateSpec:
        """The state provider; paths start at the directory of the file."""
        url: Secret | None = self["url"]
        if url is not None and self["provider"] is ProviderKind.FILE:
            url = Secret(context.absolute(url.value))
        elif url is not None:
            url = Secret(with_path(url.value, r"(sqlite(?:\+\w+)?:///)(?!/|:|file:)([^?]+)", context.absolute))
        return make(StateSpec, self.given, context, url=url)

    @classmethod
    def show(cls, spec: StateSpec) -> dict[str, Any]:
        """The state provider, without user, password and parameters in its address."""
        return dump(cls, spec, given={"url": mask_address(spec.url.value) if spec.url is not None else None})


Connection = Annotated[
    JdbcConnectionModel | HttpConnectionModel,
    OfKind(tag_of_connection),
]


class ProjectModel(Model):
    """One configuration file."""

    takes: ClassVar[Parts] = (
        "connections",
        "pipelines",
        part(ProjectSpec, "engine", "spark"),
        "global",
        "recovery",
        part(ProjectSpec, "reconcile", "metrics", "notify", "state"),
    )
    connections: Annotated[dict[str, Connection], NamedBlocks(), Key("Databases and APIs, by name.")] = field(
        default_factory=dict
    )
    pipelines: Annotated[dict[str, PipelineModel], NamedBlocks(least=1), Key("The pipelines, by name.")]
    global_: Annotated[GlobalModel, Key("Settings shared by all pipelines.", name="global")]
    recovery: Annotated[RecoveryModel, Key("How a run looks for a lost position.")]

    def project(self, origin: str, absolute: Absolute, notices: tuple[str, ...]) -> ProjectSpec:
        """The specs of the whole file."""
        # Sinks come first: sources have to know all tables of the file, to keep out of them.
        alone = Context({}, {}, absolute, TablePlaces(()))
        sinks, tables = {}, []
        for name, pipeline in self["pipelines"].items():
            sinks[name] = pipeline["sink"].build(alone)
            table, letters = sinks[name].table, pipeline["error_handling"].build(alone)
            tables += [table.uri, letters.table_of_dead_letters(table).uri]
        context = Context(self["connections"], sinks, absolute, TablePlaces(tables))
        return make(
            ProjectSpec,
            {**self.given, **self["global"].given, **self["recovery"].given},
            context,
            origin=origin,
            pipelines=in_order(tuple(each.pipeline(name, context) for name, each in self["pipelines"].items())),
            notices=notices,
        )

    @classmethod
    def show(cls, spec: ProjectSpec) -> dict[str, Any]:
        """The file that the specs mean: every default, and no secret."""
        pipelines = tuple(name_connections(each) for each in spec.pipelines if each.block is None)
        connections = show_connections((*pipelines, *(each.template for each in spec.blocks)))
        given = {
            "connections": connections,
            "pipelines": {each.name: PipelineModel.show(each) for each in pipelines}
            | {each.name: _show_block(each) for each in spec.blocks},
            "global": GlobalModel.show(spec),
            "recovery": RecoveryModel.show(spec),
        }
        absent = {name for name, value in (("connections", connections), ("notify", spec.notify)) if not value}
        return dump(cls, spec, [key for key in fields(cls) if key not in absent], given)


def _show_block(block: TableBlock) -> dict[str, Any]:
    """A block as the file has it: its tables belong to the database."""
    shown, (source,) = PipelineModel.show(block.template), block.template.of(ColumnSource)
    shown["sources"] = {source.name: TablesSourceModel.show_selection(source, block.selection)}
    if is_made_up(block.template.sink.load.merge_keys):
        del shown["sink"]["merge_keys"]
    return shown


def project_problems(root: Block, absolute: Absolute, covers: Callable[[Loc], bool]) -> Iterator[Problem]:
    """Problems between keys; ``covers`` tells which places already have a problem.

    Works on the tree, not on the models, and skips values of the wrong shape (the models report those). So one run
    finds all problems of a file.
    """
    top = Spot(root, (), root)
    for _, connection in top.each("connections"):
        if tag_of_connection(connection.block) == "http":
            yield from connection_problems(connection)
    yield from secret_problems(root)
    yield from _state_problems(top.below("state"))
    yield from notify_problems(top)
    for _, pipeline in top.each("pipelines"):
        yield from pipeline_problems(pipeline, absolute, covers)
    yield from overlap_problems(top, absolute)
    yield from order_problems(top, absolute)
    yield from table_problems(top, absolute)
    yield from top.below("spark").both("remote", "master")


def _state_problems(state: Spot) -> Iterator[Problem]:
    """Problems of ``state``; none quotes its address, which may hold a password."""
    provider, url = str(state.text("provider") or "delta"), str(state.text("url") or "")
    if provider == "delta" and state.has("url"):
        text = "provider: delta needs no address; set provider: file or sql, or remove it"
        yield state.problem(text, "url")
    if ":" in provider and state.has("url"):
        yield state.problem("works only with file and sql; put the settings of your own class into 'options'", "url")
    if ":" not in provider and state.below("options").block:
        yield state.problem("works only with provider: module:Class; remove it", "options")
    if provider in ("file", "sql") and not state.has("url"):
        what = "the folder" if provider == "file" else "an address such as sqlite:///state.db"
        yield state.problem(f"is missing; the provider {provider} needs {what}", "url")
    if provider == "sql" and (text := _address_problem(url)):
        yield state.problem(text, "url")
    if provider == "file" and not _is_place(url):
        text = "is an address of an unknown kind; give a path, or an object storage address such as s3://bucket/state"
        yield state.problem(text, "url")
    if provider != "file" and state.below("storage_options").block:
        yield state.problem("works only with provider: file; remove it", "storage_options")


def _is_place(url: str) -> bool:
    try:
        split_uri(url if "://" in url else "file:///")
    except StorageError:
        return False
    return True


def _address_problem(url: str) -> str:
    if not url:
        return ""
    if url.startswith("jdbc:"):
        return "is a JDBC address; give one of SQLAlchemy, such as postgresql+psycopg://user:…@host/database"
    found = re.match(r"([a-z0-9]+)(?:\+\w+)?://", url)
    if found is None:
        return "is not an address; write it like sqlite:///state.db or postgresql://host/database"
    if found[1] not in _DATABASES:
        return sentence(
            "is an address of another database", f"allowed: {', '.join(_DATABASES)}", nearest(found[1], _DATABASES)
        )
    # SQLite keeps a database without a file in memory, and forgets it with the process.
    if re.fullmatch(r"sqlite(?:\+\w+)?://(?:/|/:memory:)?", url):
        return "names no file, so every run would begin anew; write it like sqlite:///state.db"
    return ""


_COLUMNS = "give the source a 'type' such as delta, or a 'connection'"
_APPEND = "file sources only append; set load_type: append"
NOT_FOR_FILES: dict[str, dict[str, str]] = {
    "source": dict.fromkeys(
        (
            "watermark_columns",
            "watermark_mode",
            "filter_expression",
            "safety_lag",
            "future_tolerance",
            "null_watermark",
            "watermark_operator",
            "watermark_filter",
            "watermark_window",
            "source_timezone",
            "timezone",
            "configure",
            "backward",
            "table",
            "query",
            "function",
            "records",
            "pagination",
        ),
        _COLUMNS,
    ),
    "sink": dict.fromkeys(STRATEGY_KEYS, _APPEND),
}
"""Keys of column sources, and of their tables."""


def take_notes(root: Block, settled: list[tuple[str, ...]], foreign: Mapping[str, str]) -> Notes:
    """Refused keys, notices and keys of other systems; the last are removed from ``root``.

    ``settled`` are places that are reported already.
    """
    notes = Notes(settled=[*settled])
    top = Spot(root, (), root)
    for _, connection in top.each("connections"):
        note_short_forms(connection.below("configure"), notes)
        note_short_secrets(connection, notes)
    for _, pipeline in top.each("pipelines"):
        sink = pipeline.below("sink")
        known = {name: source for name, source in pipeline.each("sources") if not notes.covers(source.loc)}
        for name, source in pipeline.each("sources"):
            note_short_secrets(source, notes)
            if name in known:
                _take_source(source, notes)
            if sink.text("load_type") in WHOLE and (found := backward(source)).keys:
                place = path_of(root, found.place)
                notes.notices.append(f"{place}: look-back has no effect where every run reads everything")
            if sink.text("load_type") in WHOLE and source.has("safety_lag"):
                notes.notices.append(f"{source.path('safety_lag')} has no effect where every run reads everything")
        if known and all(is_file_source(source.block) for source in known.values()):
            _refuse(sink, NOT_FOR_FILES["sink"], notes, "not for file sources")
    note_notify(top, notes)
    for path, why in foreign.items():
        for place in _drop(root, path.split(".")):
            notes.notices.append(f"{place} has no effect here and is ignored: {why}")
    return notes


def _refuse(block: Spot, keys: Mapping[str, str], notes: Notes, how: str) -> None:
    for key, what in keys.items():
        if block.has(key):
            notes.add(block.problem(f"{how}: {what}", key), (*block.loc, key))


def _take_source(source: Spot, notes: Notes) -> None:
    kinds = kinds_of_watermark(source.block)
    if len(kinds) > 1:
        text = f"two kinds of watermark at once ({', '.join(kinds)}); give a source one"
        notes.add(source.problem(text, kinds[1]), source.loc)
        return
    if is_unit_source(source.block):
        notes.notices += unit_notices(source)
    elif is_column_source(source.block):
        note_columns(source, notes)
    else:
        _refuse(source, NOT_FOR_FILES["source"], notes, "not for file sources")
        if kinds == ["watermark_columns"]:
            notes.settled.append(source.loc)
        elif not kinds:
            note_files(source, notes)


def answer_foreign_files(root: Block, files: Mapping[str, str]) -> Iterator[Problem]:
    """What is said about a file of another system, known by a key at one of the paths of ``files``."""
    for path, told in files.items():
        yield from (problem(root, place, told) for place in _find_keys(root, path.split(".")))


def _drop(root: Block, path: Sequence[str]) -> Iterator[str]:
    """Remove the keys at ``path``, where ``*`` is any name; yields them as the file writes them."""
    for *above, last in _find_keys(root, path):
        yield path_of(root, (*above, last))
        holder = find(root, above)
        assert isinstance(holder, Block)
        holder.drop(last)


def _find_keys(root: Block, path: Sequence[str]) -> list[tuple[str, ...]]:
    """The places of the keys at ``path``, where ``*`` is any name."""
    places: list[tuple[str, ...]] = [()]
    for step in path[:-1]:
        holders = ((place, find(root, place)) for place in places)
        places = [
            (*place, name)
            for place, holder in holders
            if isinstance(holder, Block)
            for name in (holder if step == "*" else [step])
        ]
    at_end = ((place, find(root, place)) for place in places)
    return [(*place, path[-1]) for place, holder in at_end if isinstance(holder, Block) and path[-1] in holder]
