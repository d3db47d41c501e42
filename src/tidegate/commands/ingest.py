"""Ingest without a configuration: detects what a source is, drafts a configuration, loads and runs it.

The draft is text and is loaded like any configuration file. A saved draft continues from the same position: the
pipeline has the same name, the source the same address. Credentials in addresses become environment variables.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import yaml

from tidegate.commands.path_columns import path_columns
from tidegate.commands.project import load, load_asking, on_engine
from tidegate.commands.run import run
from tidegate.config import IN_MEMORY
from tidegate.config import load as load_text
from tidegate.config.document import mask_address
from tidegate.core.columns.state import KIND, decode_columns
from tidegate.core.files.discovery import ending_of, format_of
from tidegate.core.files.paths import matches_path
from tidegate.errors import ConfigError, StorageError, TidegateError
from tidegate.observe.events import Emit, ignore
from tidegate.protocol.change import SourceKey
from tidegate.protocol.documents import read_mirror
from tidegate.reports.page import names
from tidegate.reports.run import IngestReport
from tidegate.reports.wording import count
from tidegate.sources.file_discovery import SAMPLE, Order, names_sort_in_time, sample_files
from tidegate.sources.http.survey import survey_api
from tidegate.specs.columns import HttpRead
from tidegate.specs.credentials import credentials_in_address, is_credential, looks_random, may_name_secret
from tidegate.specs.files import Format, PathSource
from tidegate.specs.locations import Location, Options, split_address
from tidegate.specs.masking import Mask, remember
from tidegate.specs.project import EngineKind, ProjectSpec
from tidegate.storage.options import absolute_uri, check_spelling, split_glob
from tidegate.storage.port import ObjectInfo, ObjectStore
from tidegate.storage.stores import comparable_uri, open_store, path_inside

DATABASES = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mariadb",
    "sqlserver": "sqlserver",
}
"""Schemes of addresses, each with the word after ``jdbc:``."""
SCANS = {Format.CSV: "csv", Format.PARQUET: "parquet", Format.NDJSON: "json", Format.JSON: "json"}
"""The source type for a folder of each format if rows are followed by a column."""
FORMATS = tuple(each.value for each in Format)
TABLE_FORMATS = ("delta", "iceberg")
PEEK = 64 * 1024
TABLES_SHOWN = 10


class Dumper(yaml.SafeDumper):
    """Writes short lists in brackets."""


Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What only the user can say about a source, besides its address.

    ``table`` and ``records`` are places inside a database and an API; ``tables`` and ``exclude`` are globs over the
    tables of a database, each of which goes into a table of its own. ``partition_by`` is ``COLUMN``,
    ``COLUMN:TEMPLATE``, or a template filled from the paths of files. ``storage_options`` are settings and
    credentials of buckets by variable name: the configuration refers to those.
    """

    name: str | None = None
    format: str | None = None
    table: str | None = None
    records: str | None = None
    watermark: tuple[str, ...] = ()
    merge_keys: tuple[str, ...] = ()
    partition_by: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def of(self, place: str) -> dict[str, Any]:
        """The keys of a place besides its address."""
        names = {name: f"${{{name}}}" for name in self.storage_options} if "://" in place else {}
        return {"storage_options": names} if names else {}


@dataclass(frozen=True, slots=True)
class PipelineDraft:
    """A configuration in the making: ``source``, perhaps a ``connection``, and the findings in words.

    ``load_type`` is that of a block of tables. ``from_folders`` are columns with values from folder names.
    ``secrets`` are values that the configuration refers to as variables.
    """

    source: Mapping[str, Any]
    found: tuple[tuple[str, str], ...]
    connection: Mapping[str, Any] | None = None
    infer: bool = False
    load_type: str | None = None
    from_folders: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)


def ingest(
    source: str,
    table: str,
    options: IngestOptions | None = None,
    *,
    save: Path | None = None,
    dry_run: bool = False,
    emit: Emit = ignore,
    stop: threading.Event | None = None,
    show: Callable[[IngestReport], None] = lambda report: None,
    engine: str | None = None,
) -> IngestReport:
    """Read a folder, a bucket, a database, a Delta or Iceberg table or an API into a Delta table, and draft the YAML.

    ``show`` gets the findings before the run begins. A second call continues from the position of the first, and so
    does a run of the configuration saved as ``save``, which must be a new file and is written only if the run
    succeeded. ``dry_run`` runs nothing. ``engine`` goes into the configuration.
    """
    options = options or IngestOptions()
    if save is not None and save.exists():
        raise ConfigError((f"{save}: already exists; give --save another file, or remove it",))
    if save is not None and not save.absolute().parent.is_dir():
        raise ConfigError((f"{save}: its folder does not exist; create it, or give --save another file",))
    base = Path.cwd() if save is None else save.absolute().parent
    with _without_credentials(source, table), _without_lines():
        draft = draft_pipeline(source, table, options, base, engine)
        draft = replace(draft, secrets={**draft.secrets, **options.storage_options})
        name = options.name or _name_of(table)
        text = _render_yaml(draft, name, table, options, base)
        # Into the text, so that the saved file runs on the engine that it was tried with.
        text = text if engine is None else f"engine: {engine}\n{text}"
        # By the loader of files: what is saved has passed every check that a file passes.
        project = load(_load(text, draft, base))
        if project.blocks:
            project = load_asking(project)
            draft = replace(draft, found=(*draft.found, *_describe_tables(project)))
        project = on_engine(project)
        report = IngestReport(name, draft.found, text, tuple(draft.secrets))
        show(report)
        if not dry_run:
            report = replace(report, run=run(project, emit=emit, stop=stop))
    # A configuration that failed would be kept as if it were right.
    if save is not None and (report.run is None or report.run.ok):
        save.write_text(text, encoding="utf-8")
        report = replace(report, saved=str(save))
    return report


@contextmanager
def _without_credentials(*addresses: str) -> Iterator[None]:
    """While inside, nothing that is said about the addresses, also by an error, repeats a credential of theirs."""
    mask = Mask.of(*(each for address in addresses for each in credentials_in_address(address)))
    remember(mask)
    try:
        yield
    except TidegateError as error:
        raise mask.error(error) from mask.cause(error.__cause__)


@contextmanager
def _without_lines() -> Iterator[None]:
    """While inside, problems of the draft name the key alone: nobody has seen this file and its lines."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(tuple(re.sub(rf"^{IN_MEMORY}:(?:\d+:)? ", "", each) for each in error.problems)) from None


def _load(text: str, draft: PipelineDraft, base: Path) -> ProjectSpec:
    return load_text(text, env={**os.environ, **draft.secrets}, base=base)


def draft_pipeline(
    source: str, table: str, options: IngestOptions, base: Path, engine: str | None = None
) -> PipelineDraft:
    """Draft a pipeline from the address of ``source`` and what lies there; paths are relative to ``base``.

    Files of ``table`` are not part of the source.
    """
    scheme = source.partition(":")[0].lower()
    if scheme == "jdbc" or scheme in DATABASES:
        return _draft_database(source, options, engine)
    if scheme in ("http", "https"):
        return _survey_draft(_draft_api(source, options), table, options)
    for given, option, where in (
        (options.table, "--table", "a database"),
        (options.tables or options.exclude, "--tables", "a database"),
        (options.records, "--records", "an API"),
    ):
        if given:
            raise ConfigError((f"{option} is for {where}, but {source} has files; leave it out",))
    for place in (source, table):
        # Storage options take them; the address itself is written into the YAML and into every state.
        if any(credentials_in_address(place)):
            remedy = "give them as --storage-option NAME=VALUE, or as environment variables"
            raise ConfigError((f"{mask_address(place)}: contains credentials; {remedy}",))
    return _draft_place(source, table, options, base)


def _draft_place(source: str, table: str, options: IngestOptions, base: Path) -> PipelineDraft:
    """A Delta or Iceberg table, or files; of a glob, the files below its folder that match."""
    check_spelling(source, table)
    folder, pattern = _split_glob(source)
    uri = absolute_uri(folder, Path.cwd())
    store = open_store(Location(uri, Options(options.storage_options)))
    if not store.exists():
        raise ConfigError((f"{folder}: does not exist; give a folder, a bucket or the address of a server",))
    written = {"source_uri": _as_seen_from(folder, base), **options.of(source)}
    if pattern is not None:
        return _draft_files(store, source, table, options, {**written, "pattern": pattern})
    kind = options.format if options.format in TABLE_FORMATS else _table_format(store)
    if kind is not None and options.format in (None, kind):
        found = ("source", f"a {kind.capitalize()} table at {source}")
        return PipelineDraft({"type": kind, **written, **_render_watermark(options)}, (found, *_words(options)))
    return _draft_files(store, source, table, options, written)


def _split_glob(source: str) -> tuple[str, str | None]:
    try:
        return split_glob(source, Path.cwd()) or (source, None)
    except ConfigError as error:
        raise ConfigError((f"{source}: {error.problems[0]}",)) from None


def _draft_files(
    store: ObjectStore, source: str, table: str, options: IngestOptions, written: dict[str, Any]
) -> PipelineDraft:
    """The files of ``store``, as ``written`` describes them."""
    table_at = Location(absolute_uri(table, Path.cwd()), Options(options.storage_options))
    own = path_inside(comparable_uri(store.location.uri), comparable_uri(table_at.uri))
    pattern = written.get("pattern")

    def is_meant(path: str) -> bool:
        return not (own and path.startswith(f"{own}/")) and (pattern is None or matches_path(pattern, path))

    files = sample_files(store, accept=is_meant)
    format, told = _format_of(files, store, options.format, source)
    if options.watermark or options.merge_keys:
        if format not in SCANS:
            raise ConfigError((f"{format} files have no watermark columns; leave out --watermark and --merge-key",))
        lines = {"lines": False} if format is Format.JSON else {}
        read = {"type": SCANS[format], **written, **lines, **_render_watermark(options)}
        return PipelineDraft(read, (("source", f"files at {source}"), ("format", told), *_words(options)))
    read_from = PathSource("files", store.location, pattern=pattern, format=format)
    columns = path_columns(store, read_from, files, table_at, options.partition_by)
    return PipelineDraft(
        {**written, "format": str(format)},
        (("source", f"files at {source}"), ("format", told), ("follows", _names_words(files)), *columns.words),
        infer=True,
        from_folders=columns.kept,
    )


def _table_format(store: ObjectStore) -> str | None:
    """The format of the table at the top of the store; None without a table."""
    top = store.list_directory()
    if "_delta_log" in top.directories:
        return "delta"
    listed = store.list("metadata") if "metadata" in top.directories else ()
    return "iceberg" if any(each.path.endswith(".metadata.json") for each in islice(listed, SAMPLE)) else None


def _format_of(files: Sequence[ObjectInfo], store: ObjectStore, given: str | None, source: str) -> tuple[Format, str]:
    """The format of the files and its origin: given, or the one format of all endings."""
    if given is not None:
        return Format(given), given
    endings = Counter(ending_of(each.path) for each in files)
    formats = {format_of(ending) for ending in endings}
    shown = ", ".join(f"{number:,} in {ending or 'nothing'}" for ending, number in endings.most_common(5))
    if not files:
        raise ConfigError((f"{source}: there is no file yet; name the format with --format: {', '.join(FORMATS)}",))
    (format, *others) = sorted(formats, key=lambda each: (each is None, str(each)))
    if format is None or others:
        what = "more than one format" if format else "no known format"
        raise ConfigError(
            (f"{source}: file names end in {what} ({shown}); name the format with --format: {', '.join(FORMATS)}",)
        )
    if format is Format.NDJSON and _is_array(files[0], store):
        format = Format.JSON
    least = "at least " if len(files) == SAMPLE else ""
    return format, f"{format} ({least}{count(len(files), 'file')}: {shown})"


def _is_array(file: ObjectInfo, store: ObjectStore) -> bool:
    """Whether a JSON file is one array rather than an object per line; zstd files are not opened."""
    if not ending_of(file.path).startswith(".json") or file.path.endswith((".jsonl", ".zst")):
        return False
    begin = store.get_range(file.path, 0, min(PEEK, file.size)) if file.size else b""
    if file.path.endswith(".gz"):
        # Bounded: a small gzip file may hold gigabytes.
        begin = zlib.decompressobj(wbits=31).decompress(begin, PEEK)
    return begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def _names_words(files: Sequence[ObjectInfo]) -> str:
    told = "the set of all paths that were read"
    if names_sort_in_time(files).order is Order.IN_TIME:
        return f"{told}; names sort in time, so use_watermark: true in the YAML would list only what is new"
    return told


def _draft_database(source: str, options: IngestOptions, engine: str | None) -> PipelineDraft:
    if options.table and options.tables:
        raise ConfigError(("--table reads one table and --tables many; give one of the two",))
    if options.exclude and not options.tables:
        raise ConfigError(("--exclude leaves out tables of --tables; give --tables, such as --tables 'public.*'",))
    if not options.table and not options.tables:
        one = "name the table of the database with --table, such as --table public.orders"
        raise ConfigError((f"{one}, or many with --tables 'public.*'",))
    address = source.removeprefix("jdbc:") if re.match(r"jdbc:\w+://", source) else source
    kind = DATABASES.get(address.partition("://")[0].lower())
    if kind is None or ";" in source:
        return _database_draft({"type": "jdbc", "url": source}, {}, "a database", options, engine)
    # Checked with one host alone: PostgreSQL and MySQL allow several, which no parser of addresses does.
    split_address(re.sub(r",[^/?#]*", "", address))
    parts = urlsplit(address)  # with all of its hosts
    found_in = _AddressSecrets(_variable(parts.path.strip("/") or kind))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    user = unquote(parts.username) if parts.username else query.pop("user", None)
    password = unquote(parts.password) if parts.password else query.pop("password", None)
    secret = {name: query.pop(name) for name in list(query) if name == "options" or is_credential(name, query[name])}
    more = f"?{urlencode(query, quote_via=quote)}" if query else ""
    connection: dict[str, Any] = {"type": "jdbc", "url": f"jdbc:{kind}://{_host(parts)}{parts.path}{more}"}
    if user:
        connection["user"] = found_in.keep("USER", user) if looks_random(user) else user
    if password:
        connection["password"] = found_in.keep("PASSWORD", password)
    for name, value in secret.items():
        connection.setdefault("properties", {})[name] = found_in.keep(name, value)
    return _database_draft(connection, found_in.values, f"{kind} at {_host(parts)}{parts.path}", options, engine)


def _database_draft(
    connection: Mapping[str, Any],
    secrets: Mapping[str, str],
    where: str,
    options: IngestOptions,
    engine: str | None,
) -> PipelineDraft:
    if options.tables:
        return _draft_tables(connection, secrets, where, options, engine)
    read = {"connection": "database", "table": options.table, **_render_watermark(options)}
    found = (("source", f"{options.table} in {where}"), *_words(options))
    return PipelineDraft(read, found, connection, secrets=secrets)


def _draft_tables(
    connection: Mapping[str, Any],
    secrets: Mapping[str, str],
    where: str,
    options: IngestOptions,
    engine: str | None,
) -> PipelineDraft:
    """A block of tables. Spark merges each by its own key, and replaces those without a watermark column."""
    is_spark = engine != EngineKind.LOCAL
    read: dict[str, Any] = {"connection": "database", "tables": [*options.tables]}
    read |= {"exclude": [*options.exclude]} if options.exclude else {}
    read |= _render_watermark(options)
    found = [("source", f"tables {', '.join(options.tables)} in {where}")]
    if not options.watermark:
        found += _words(options)
        return PipelineDraft(read, tuple(found), connection, secrets=secrets, load_type="overwrite")
    found.append(("follows", f"the first of {', '.join(options.watermark)} that a table has"))
    if is_spark:
        read["without_watermark"] = "overwrite"
        keys = ", ".join(options.merge_keys) or "primary key"
        found.append(
            (
                "loads",
                f"rows with equal {keys} replace each other (merge_upsert); a table with none of the "
                "columns is replaced by each run",
            )
        )
        return PipelineDraft(read, tuple(found), connection, secrets=secrets, load_type="merge_upsert")
    found.append(("loads", "new rows are added (append)"))
    return PipelineDraft(read, tuple(found), connection, secrets=secrets, load_type="append")


def _describe_tables(project: ProjectSpec) -> Iterator[tuple[str, str]]:
    """The tables that a block stands for now."""
    tables = [each for each in project.pipelines if each.block not in (None, each.name)]
    if tables:
        shown = [each.name.removeprefix(f"{each.block}.") for each in tables]
        yield "tables", f"{len(tables):,}: {names(shown, TABLES_SHOWN)}"


def _draft_api(source: str, options: IngestOptions) -> PipelineDraft:
    if options.table or options.tables or options.format:
        raise ConfigError(("--table, --tables and --format have no effect with an API; leave them out",))
    parts = split_address(source)
    connection: dict[str, Any] = {"type": "http", "url": f"{parts.scheme}://{_host(parts)}"}
    found_in = _AddressSecrets(_variable(parts.hostname or "api"))
    if parts.password:
        user = unquote(parts.username or "")
        connection["auth"] = {
            "type": "basic",
            "user": found_in.keep("USER", user) if looks_random(user) else user,
            "password": found_in.keep("PASSWORD", unquote(parts.password)),
        }
    elif parts.username:
        raise ConfigError(("the address has a user without a password; write user:password@ before the host",))
    path = _without_key(parts.path or "/", connection, found_in)
    params = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        # In doubt a variable: a harmless value in the environment costs nothing, a key in a saved file does.
        if not (is_credential(name, value) or may_name_secret(name)):
            params[name] = value
        elif "auth" in connection:
            params[name] = found_in.keep(name, value)
        else:
            token = found_in.keep(name, value)
            connection["auth"] = {"type": "api_key", "place": "params", "name": name, "token": token}
    secrets = found_in.values
    read: dict[str, Any] = {"connection": "api", "path": path}
    read |= {"params": params} if params else {}
    found = (("source", f"an API at {_host(parts)}{path}"),)
    return PipelineDraft(read, found, connection, secrets=secrets)


def _survey_draft(draft: PipelineDraft, table: str, options: IngestOptions) -> PipelineDraft:
    """The draft of an API with what a look at the API shows: its records, its pages, and what it filters by.

    A table that was ingested before goes on as it was: another column, or none, would double or drop its rows.
    """
    base = Path.cwd()
    before = _columns_before(table, options)
    if before and not options.watermark:
        options = replace(options, watermark=before)
    (pipeline,) = _load(_render_yaml(draft, "survey", "table", IngestOptions(), base), draft, base).pipelines
    read = pipeline.sources[0].read
    assert isinstance(read, HttpRead)
    seen = survey_api(read, options.records, options.watermark if before != () or options.watermark else None)
    followed = replace(options, watermark=seen.watermark)
    params = {name: value for name, value in draft.source.get("params", {}).items() if name not in seen.unsent}
    source = {name: value for name, value in draft.source.items() if name != "params"}
    source |= {**({"params": params} if params else {}), **_render_watermark(followed), **seen.keys}
    return replace(draft, source=source, found=(*draft.found, *seen.facts, *_words(followed)))


def _columns_before(table: str, options: IngestOptions) -> tuple[str, ...] | None:
    """The columns by which an earlier call followed the source, none if it read everything; None without one."""
    store = open_store(Location(absolute_uri(table, Path.cwd()), Options(options.storage_options)))
    try:
        shown = read_mirror(store, SourceKey(options.name or _name_of(table), "default"))
    except StorageError:
        return None
    if shown is None or shown.state.get("kind") != KIND:
        return None
    return tuple(decode_columns(shown.state).values)


@dataclass(frozen=True, slots=True)
class _AddressSecrets:
    """The credentials of an address, by the environment variables that take their place."""

    prefix: str
    values: dict[str, str] = field(default_factory=dict, repr=False)

    def keep(self, name: str, value: str) -> str:
        """The variable for a credential, as a configuration refers to it."""
        first = variable = _variable(self.prefix, name)
        number = 1
        # Two credentials may want one name, and must not overwrite each other.
        while self.values.setdefault(variable, value) != value:
            number += 1
            variable = f"{first}_{number}"
        return f"${{{variable}}}"


def _without_key(path: str, connection: dict[str, Any], secrets: _AddressSecrets) -> str:
    """The path with its part that looks like a key, as in ``/bot123:AAH…/messages``, moved into ``auth``."""
    steps = path.split("/")
    keys = [at for at, step in enumerate(steps) if looks_random(unquote(step))]
    if not keys:
        return path
    if len(keys) > 1 or "auth" in connection:
        raise ConfigError(("the address has more than one secret; write a configuration: `tidegate init --api`",))
    step = unquote(steps[keys[0]])
    # Only the random part: the word before it, such as "bot", says what the path is.
    begin = re.match(r"[a-z]{2,12}(?=[0-9])", step)
    word = begin[0] if begin else ""
    token = secrets.keep("token", step.removeprefix(word))
    connection["auth"] = {"type": "api_key", "place": "path", "name": "token", "token": token}
    steps[keys[0]] = f"{word}{{{{token}}}}"
    return "/".join(steps)


def _render_watermark(options: IngestOptions) -> dict[str, Any]:
    return {"watermark_columns": list(options.watermark)} if options.watermark else {}


def _load_type(options: IngestOptions) -> str:
    if options.merge_keys:
        return "merge_upsert"
    return "append" if options.watermark else "overwrite"


def _words(options: IngestOptions) -> Iterable[tuple[str, str]]:
    """How rows are followed and loaded, in words."""
    if options.watermark:
        yield "follows", f"the greatest value of {', '.join(options.watermark)}"
    else:
        yield (
            "follows",
            "nothing: each run reads everything; to read only new rows, name a column that grows with --watermark",
        )
    match _load_type(options):
        case "merge_upsert":
            yield "loads", f"rows with equal {', '.join(options.merge_keys)} replace each other (merge_upsert)"
        case "append":
            yield (
                "loads",
                "new rows are added (append); to replace corrected rows, name their key columns with --merge-key",
            )
        case _:
            yield "loads", "each run replaces the table (overwrite)"


def _render_yaml(draft: PipelineDraft, name: str, table: str, options: IngestOptions, base: Path) -> str:
    """The YAML of a draft."""
    place = _as_seen_from(table, base)
    if draft.load_type is not None:
        place = f"{place.rstrip('/')}/{{schema}}/{{table}}"
    sink: dict[str, Any] = {"table_uri": place, **options.of(table)}
    options = replace(options, watermark=tuple(draft.source.get("watermark_columns", ())))
    if not draft.infer:
        sink["load_type"] = draft.load_type or _load_type(options)
        sink |= {"merge_keys": list(options.merge_keys)} if options.merge_keys else {}
    else:
        # From the first row on: without it `replay` cannot tell the rows of two files of a commit apart.
        sink["metadata_columns"] = ["_source_file"]
    if options.partition_by:
        sink["partition_by"] = _partition_by(options.partition_by, of_files=draft.infer)
    elif draft.from_folders:
        sink["partition_by"] = {"prefix_template": "/".join(draft.from_folders)}
    pipeline = {"source": dict(draft.source), **({"schema": {"infer": True}} if draft.infer else {}), "sink": sink}
    connection = draft.source.get("connection")
    document = {"connections": {connection: dict(draft.connection or {})}} if connection else {}
    text: str = yaml.dump(
        {**document, "pipelines": {name: pipeline}}, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def _partition_by(given: str, *, of_files: bool) -> dict[str, str]:
    """``COLUMN``, ``COLUMN:TEMPLATE`` or a template as configuration keys."""
    column, is_both, template = given.partition(":")
    if is_both:
        return {"prefix_template": template, "column": column}
    if "=" in given or "%" in given or not of_files:
        return {"prefix_template": given}
    return {"prefix_template": given, "column": given}


def _as_seen_from(place: str, base: Path) -> str:
    """A place relative to ``base``; an address stays as it is."""
    if "://" in place or os.path.isabs(place) or place.startswith("~") or base == Path.cwd():
        return place
    return os.path.relpath(place, base)


def _host(parts: SplitResult) -> str:
    """Host and port, without credentials."""
    return parts.netloc.rpartition("@")[2]


def _variable(*words: str) -> str:
    """The name of an environment variable.

    >>> _variable("my-shop", "PASSWORD")
    'MY_SHOP_PASSWORD'
    """
    name = re.sub(r"\W+", "_", "_".join(words), flags=re.ASCII).strip("_").upper()
    return f"_{name}" if name[:1].isdigit() else name


def _name_of(table: str) -> str:
    """The last part of a table's address, used as pipeline name."""
    name = re.sub(r"[^\w.-]+", "_", re.split(r"[/\\]", table.rstrip("/\\"))[-1], flags=re.ASCII).strip("_.-")
    return name or "ingest"
