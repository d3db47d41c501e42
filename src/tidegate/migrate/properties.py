"""Java properties: their form, what becomes of each name, and those of one file while they are carried over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from tidegate.config.work_units import MS_KEYS
from tidegate.core.json_shape import load_json
from tidegate.reports.table import PropertyNote
from tidegate.specs.locations import looks_secret

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)
_NAME = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_ENCRYPTED = re.compile(r"\s*ENC\(.*\)\s*", re.DOTALL)
_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Property:
    """One property, with the line in which it begins."""

    line: int
    name: str
    value: str


def properties(text: str) -> Iterator[Property]:
    """The properties of ``text``, in their order; one that is given twice comes twice.

    >>> [each.value for each in properties("a = 1,\\\\\\n    2\\n# b=3\\n")]
    ['1,2']
    """
    for line, written in _logical_lines(text):
        found = _NAME.fullmatch(written)
        assert found is not None
        yield Property(line, _plain(found[1]), _plain(found[2]).strip())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones; those that end with a backslash go on in the next."""
    begun: tuple[int, str] | None = None
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        content = line.lstrip(" \t\f")
        if begun is None and (not content or content[0] in "#!"):
            continue
        first, before = begun or (number, "")
        if _goes_on(content):
            begun = (first, before + content[:-1])
        else:
            begun = None
            yield first, before + content
    if begun is not None:
        yield begun


def _goes_on(line: str) -> bool:
    """Whether a line ends with a backslash that escapes nothing else."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _plain(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        code, escaped = found.groups()
        return chr(int(code, 16)) if code else _ESCAPES.get(escaped or "", escaped or "")

    return _ESCAPED.sub(letter, text)


@dataclass(slots=True)
class Given:
    """Properties by name. Texts come in the form that a configuration file has: ``$`` that means itself is doubled."""

    origin: str
    properties: dict[str, Property]
    prefix: str = "SOURCE"
    used: dict[str, None] = field(default_factory=dict)
    notes: list[PropertyNote] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    samples: dict[str, str] = field(default_factory=dict)
    """Variables of the environment, each with a value that such a variable may have."""

    @classmethod
    def of(cls, origin: str, found: Iterable[Property]) -> Given:
        """The last of those that are given twice counts, as it did."""
        given = cls(origin, {})
        for each in found:
            if each.name in given.properties:
                given.note(given.properties[each.name], f"is given again in line {each.line}, which counts")
            given.properties[each.name] = each
        return given

    def has(self, name: str) -> bool:
        """Whether a property is there and has a value."""
        return name in self.properties and bool(self.properties[name].value)

    def text(self, name: str) -> str | None:
        """The value of a property, with others of the file put in; None where it has none."""
        if name not in self.properties:
            return None
        self.used[name] = None
        return self.as_text(self.properties[name].value) or None

    def as_text(self, value: str, depth: int = _DEPTH) -> str:
        """A text as a configuration file has it."""

        def put(found: re.Match[str]) -> str:
            other = self.properties.get(found[1].strip())
            if other is not None and depth and not is_secret(other.name, other.value):
                self.used[other.name] = None
                return self.as_text(other.value, depth - 1)
            return self.variable(found[1])

        parts = _REFERENCE.split(value)
        plain = [re.sub(r"\$(?=[${])", "$$", part) for part in parts[::2]]
        put_in = [put(found) for found in _REFERENCE.finditer(value)]
        return "".join(text for pair in zip(plain, [*put_in, ""], strict=True) for text in pair)

    def data(self, name: str, kind: type[Any]) -> Any:
        """A property that is JSON, with the looseness of older files; an empty one where it cannot be read."""
        text = self.text(name)
        if text is None:
            return kind()
        try:
            found = load_json(text)
        except ValueError:
            try:
                found = yaml.load(text, Loader=yaml.BaseLoader)
            except yaml.YAMLError:
                found = None
        if not isinstance(found, kind):
            self.leave(name, "is not readable as JSON", changes=name in DECIDES_WHAT_IS_READ)
            return kind()
        return found

    def secret(self, what: str, sample: str = "x") -> str:
        """A variable of the environment for something secret of this pipeline."""
        return self.variable(f"{self.prefix}.{what}", sample)

    def variable(self, name: str, sample: str = "x") -> str:
        """A variable of the environment, as it is written into the file."""
        made = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "VALUE"
        made = made if made[0].isalpha() else f"V_{made}"
        self.samples.setdefault(made, sample)
        return f"${{{made}}}"

    def leave(self, name: str, reason: str, *, changes: bool = False) -> None:
        """Tell that a property, or a part of it, is not carried over; ``changes``: other data is read without it."""
        if name in self.properties:
            self.note(self.properties[name], reason, changes=changes)

    def refuse(self, name: str, reason: str) -> None:
        """A pipeline would do something else than the job: no configuration is written."""
        found = self.properties.get(name)
        where = self.origin if found is None else f"{self.origin}:{found.line}"
        self.refusals.append(f"{where}: {name}: {reason}")

    def leave_form(self, content_type: str) -> None:
        """Tell that bodies are JSON, where they were forms."""
        if "form" in content_type:
            self.leave("ms.http.request.headers", "bodies are JSON, not forms; ask the server for JSON")

    def note(self, found: Property, reason: str, *, changes: bool = False) -> None:
        """Tell why one line of the file is not carried over as it is."""
        self.notes.append(PropertyNote(found.line, found.name, reason, changes))

    def rest(self) -> tuple[list[PropertyNote], list[PropertyNote]]:
        """What nobody asked for: left, and not needed."""
        left, not_needed = [], []
        for name, found in self.properties.items():
            rule = rule_of(name)
            if name in self.used:
                continue
            if rule in NOT_NEEDED:
                not_needed.append(PropertyNote(found.line, name, NOT_NEEDED[rule]))
            else:
                reason = "means nothing for this kind of source" if rule else "is not known"
                changes = rule in DECIDES_WHAT_IS_READ and bool(found.value)
                left.append(PropertyNote(found.line, name, LEFT.get(rule, reason), changes))
        return left, not_needed


def as_list(value: object) -> list[Any]:
    """A list as it is; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_mapping(value: object) -> dict[str, Any]:
    """A mapping with names that are text; an empty one for anything else."""
    return {str(name): below for name, below in value.items()} if isinstance(value, dict) else {}


def is_secret(name: str, value: str) -> bool:
    """Whether a value must never be written into a file."""
    return looks_secret(name) or name.lower() in ("authorization", "cookie") or bool(_ENCRYPTED.fullmatch(value))


CARRIED: dict[str, str] = {
    "job.name": "the name of the pipeline",
    **dict.fromkeys(("extract.table.name", "extract.namespace"), "sink.table_uri"),
    "extract.table.type": "sink.load_type, replace",
    "extract.primary.key.fields": "sink.merge_keys",
    "source.class": "source.type",
    "source.conn.username": "connections: auth.user, or user; source.storage_options of a bucket",
    "source.conn.password": "connections: auth.password, or password; source.storage_options; always a variable",
    "ms.source.uri": "connections: url; source.path and source.params, or source.source_uri",
    "ms.extractor.class": "source.type and source.format",
    "ms.extract.preprocessors": "source.compression",
    "ms.http.request.method": "source.method",
    "ms.http.request.headers": "source.headers, and connections: headers for secrets",
    "ms.http.response.type": "source.response_types; files are taken whatever the type",
    "ms.http.statuses": "work_unit.not_found",
    "ms.authentication": "connections: auth or headers, with variables of the environment",
    "ms.parameters": "source.params, source.body, source.pagination",
    "ms.parameter": "the same, by another name",
    "ms.data.field": "source.records",
    "ms.session.key.field": "source.pagination.next",
    "ms.total.count.field": "source.pagination.total",
    "ms.pagination": "source.pagination",
    "ms.call.interval.millis": "connections: rate_limit",
    "ms.jdbc.statement": "source.query",
    "ms.jdbc.schema.refactor": "nothing, where it is none",
    "ms.output.schema": "schema.fields",
    "ms.csv": "source.csv",
    "ms.csv.column.header": "source.csv.header",
    "ms.csv.column.header.index": "source.csv.header and skip_rows",
    "ms.csv.separator": "source.csv.delimiter",
    "ms.csv.quote.character": "source.csv.quote",
    "ms.csv.escape.character": "source.csv.escape",
    "ms.csv.skip.lines": "source.csv.skip_rows",
    "ms.source.data.character.set": "nothing, where it is UTF-8",
    "state.store.enabled": "nothing, where it is true",
    **{name: ".".join(("source", *path)) for name, path in MS_KEYS.items()},
}
"""Properties with an equal here: what they become. In these tables a name with a dot at its end is a prefix."""

DECIDES_WHAT_IS_READ = frozenset(
    (
        *(
            "ms.watermark",
            "ms.secondary.input",
            "ms.parameters",
            "ms.parameter",
            "ms.session.key.field",
            "ms.data.field",
        ),
        *("ms.source.files.pattern", "ms.source.s3.parameters", "ms.work.unit.partition", "ms.timezone"),
        *("ms.grace.period.days", "ms.abstinent.period.days", "ms.jdbc.statement"),
    )
)
"""Properties without which other data would be read."""

LEFT: dict[str, str] = {
    "ms.audit.enabled": "requests are not audited; the events of a run tell what was read",
    "ms.csv.column.projection": "columns are chosen by schema.fields, and named by csv.columns",
    "ms.csv.default.field.type": "declare the columns in schema.fields",
    "ms.derived.fields": "a pipeline that reads the table derives columns, with transform.sql",
    "ms.encryption.fields": "fields are not encrypted; leave them out of schema.fields",
    **dict.fromkeys(
        ("ms.enable.cleansing", "ms.schema.cleansing"), "columns keep the names that the source gives them"
    ),
    "ms.enable.schema.based.filtering": "with schema.fields only those are written, else all that are found",
    "ms.extract.preprocessor.parameters": "files are not decrypted; decrypt them before they are read",
    **dict.fromkeys(
        ("ms.extractor.target.file.name", "ms.extractor.target.file.permission", "ms.extract.target.file.name"),
        "files become rows of the table; they are not kept as files",
    ),
    "ms.normalizer.batch.size": "rows are not put together; a pipeline after can do it with transform.sql",
    "ms.retention": "old rows stay; table_properties and tidegate table vacuum are about files",
    "ms.source.files.pattern": "a regular expression; write it into source_uri with * and ?",
    "ms.source.s3.parameters": "write region and endpoint into storage_options",
    **dict.fromkeys(
        ("ms.source.schema.urn", "ms.target.schema.urn"),
        "there is no registry of schemas; declare schema.fields, or let columns be found",
    ),
    "ms.target.schema": "the table has the columns that are read; another shape needs a pipeline after",
    "ms.ssl": "certificates of clients are not offered; set the proxy and certificates of the machine",
    "ms.validation.attributes": "work_unit.min_records and min_units say how much must come",
    "ms.wait.timeout.seconds": "a request is not repeated until a status comes",
    "ms.retry": "connections: retries says how often; pipelines run after those whose tables they read",
    "job.schedule": "let a scheduler run tidegate, or use tidegate run --continuous",
    "data.publisher.final.dir": "the table is where table_uri says; change it there",
    "extract.delta.fields": "rows are told apart by work units; time_column names a column with their time",
    "converter.classes": "rows are not converted; a pipeline after can do it, with transform.sql",
    "ms.kafka.": "requests are not audited to Kafka",
    "ms.retry.": "connections: retries says how often",
    "converter.": "rows are not converted; types of columns are in schema.fields",
    "ms.": "has no equal here",
}
"""Properties without an equal: why, and what to do instead."""

NOT_NEEDED: dict[str, str] = {
    "job.commit.policy": "each work unit counts by itself: those that succeed are committed, others run again",
    "job.group": "a pipeline has a name only",
    "job.description": "a comment of the file can say it",
    "job.dir": "paths start at the directory of the file",
    "extract.is.full": "what is read follows from the watermark",
    "dataset.urn": "the table's address is its identity",
    "fs.uri": "addresses name their storage",
    **dict.fromkeys(("encrypt.key.loc", "ms.secret.manager.class"), "secrets come from the environment"),
    "Xmx": "spark.config sets memory",
    **dict.fromkeys(
        ("ms.activation.property", "ms.payload.property", "ms.watermark.groups"),
        "work units are planned from the configuration",
    ),
    "ms.watermark.type": "the type stands with each watermark",
    "ms.work.unit.scheduling.starttime": "the run itself spaces the starts",
    "ms.backfill": "tidegate replay and units reset read again what is asked for",
    **dict.fromkeys(
        ("ms.connection.client.factory", "ms.http.client.factory"), "there is one client for each kind of source"
    ),
    "ms.converter.csv.max.failures": "error_handling bounds bad records",
    "ms.converter.keep.null.strings": "csv.null_values says which cells are null",
    "ms.data.default.type": "types that cannot be found are text",
    "ms.data.explicit.eof": "the end of the data ends the work unit",
    "ms.enable.dynamic.full.load": "a work unit that was never read is read whole",
    "ms.encoding": "text is UTF-8",
    "ms.hdfs.reader.parse.json.strings": "fields of secondary inputs are plain text",
    "ms.http.status.reasons": "source.error names where an answer tells an error",
    "ms.s3.list.max.keys": "listings go on until they end",
    "state.store.": "positions are in the log of the table",
    "writer.": "the table is written as a Delta table",
    **dict.fromkeys(("data.publisher.", "data.publish."), "what is committed is published"),
    "job.commit.": "each work unit counts by itself",
    "job.lock.": "two runs of one source cannot both commit",
    **dict.fromkeys(("jobhistory.", "job.history."), "tidegate status and watermark history tell what was done"),
    "gobblin.": "this is another system",
    **dict.fromkeys(
        ("launcher.", "mr.", "mapreduce.", "yarn.", "taskexecutor.", "tasktracker."), "Spark runs the tasks"
    ),
    **dict.fromkeys(("task.", "taskretry.", "workunit."), "a work unit that failed runs again in the next run"),
    "work.unit.": "work_unit says how units are cut",
    "metrics.": "metrics of the configuration says it",
    "qualitychecker.": "error_handling says what becomes of bad records",
    "fork.": "a pipeline has one table",
    "ms.http.conn.": "connections are pooled",
    "ms.sftp.": "there are no files by SFTP",
    "azkaban.": "any scheduler can run tidegate",
    "user.": "the scheduler knows its user",
    "email.": "the scheduler tells failures",
}
"""Properties that are not needed: why."""


def rule_of(name: str) -> str:
    """The name that the tables have for a property: its own, or the longest prefix; empty where there is none."""
    known = {**CARRIED, **LEFT, **NOT_NEEDED}
    fits = (each for each in known if each == name or (each.endswith(".") and name.startswith(each)))
    return max(fits, key=len, default="")
