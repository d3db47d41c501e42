"""Java properties: a parser, tables of what each name becomes, and the properties of one file during an import."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from tidegate.config.work_units import MS_KEYS
from tidegate.core.json_shape import load_json
from tidegate.reports.project import PropertyNote
from tidegate.specs.credentials import credentials_in_address, is_credential, looks_random
from tidegate.specs.locations import jdbc_credentials, looks_secret

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)
_NAME = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_ENCRYPTED = re.compile(r"\s*ENC\(.*\)\s*", re.DOTALL)
# References may refer to each other in a circle.
_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Property:
    """One property and the line where it begins."""

    line: int
    name: str
    value: str


def properties(text: str) -> Iterator[Property]:
    """The properties of ``text`` in order, duplicates included.

    >>> [each.value for each in properties("a = 1,\\\\\\n    2\\n# b=3\\n")]
    ['1,2']
    """
    for line, written in _logical_lines(text):
        found = _NAME.fullmatch(written)
        assert found is not None
        yield Property(line, _unescape(found[1]), _unescape(found[2]).strip())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blanks, joined where a backslash continues them."""
    begun: tuple[int, str] | None = None
    # Not splitlines(), which also ends lines at characters that Java takes as part of a value.
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        content = line.lstrip(" \t\f")
        if begun is None and (not content or content[0] in "#!"):
            continue
        first, before = begun or (number, "")
        # An odd number: the last backslash is not escaped itself, so the line goes on.
        if (len(content) - len(content.rstrip("\\"))) % 2:
            begun = (first, before + content[:-1])
        else:
            begun = None
            yield first, before + content
    if begun is not None:
        yield begun


def _unescape(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        code, escaped = found.groups()
        return chr(int(code, 16)) if code else _ESCAPES.get(escaped or "", escaped or "")

    return _ESCAPED.sub(letter, text)


@dataclass(slots=True)
class Given:
    """The properties of one file, and what the import made of them; a literal ``$`` is doubled, as in YAML."""

    origin: str
    properties: dict[str, Property]
    prefix: str = "SOURCE"
    used: dict[str, None] = field(default_factory=dict)
    notes: list[PropertyNote] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    samples: dict[str, str] = field(default_factory=dict)
    """Environment variables, each with a value that passes the checks."""

    @classmethod
    def of(cls, origin: str, found: Iterable[Property]) -> Given:
        """Collect properties by name; the last duplicate counts, as in Java."""
        given = cls(origin, {})
        for each in found:
            if each.name in given.properties:
                given.note(given.properties[each.name], f"line {each.line} sets it again and counts")
            given.properties[each.name] = each
        return given

    def has(self, name: str) -> bool:
        """Whether a property has a value."""
        return name in self.properties and bool(self.properties[name].value)

    def text(self, name: str) -> str | None:
        """The value of a property with references resolved; None if it has none. Marks it as used."""
        if name not in self.properties:
            return None
        self.used[name] = None
        return self.as_text(self.properties[name].value) or None

    def as_text(self, value: str, depth: int = _DEPTH) -> str:
        """Resolve ``${…}`` within the file; what it does not define becomes an environment variable."""

        def put(found: re.Match[str]) -> str:
            other = self.properties.get(found[1].strip())
            # A secret that is referred to must not be copied into the YAML in this way, either.
            if other is not None and depth and not is_secret(other.name, other.value):
                self.used[other.name] = None
                return self.as_text(other.value, depth - 1)
            return self.variable(found[1])

        parts = _REFERENCE.split(value)
        plain = [re.sub(r"\$(?=[${])", "$$", part) for part in parts[::2]]
        put_in = [put(found) for found in _REFERENCE.finditer(value)]
        return "".join(text for pair in zip(plain, [*put_in, ""], strict=True) for text in pair)

    def data(self, name: str, kind: type[Any]) -> Any:
        """A JSON property, read leniently; an empty ``kind`` if it is missing or unreadable."""
        text = self.text(name)
        if text is None:
            return kind()
        try:
            found = load_json(text)
        except ValueError:
            try:
                # The original's parser is lenient (single quotes, bare keys), and YAML reads what it does; all values
                # stay text.
                found = yaml.load(text, Loader=yaml.BaseLoader)
            except yaml.YAMLError:
                found = None
        if not isinstance(found, kind):
            self.leave(name, "is not JSON", changes=name in DECIDES_WHAT_IS_READ)
            return kind()
        return found

    def secret(self, what: str, sample: str = "x") -> str:
        """An environment variable for a secret of this pipeline."""
        return self.variable(f"{self.prefix}.{what}", sample)

    def variable(self, name: str, sample: str = "x") -> str:
        """An environment variable in the form ``${NAME}``."""
        made = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "VALUE"
        made = made if made[0].isalpha() else f"V_{made}"
        self.samples.setdefault(made, sample)
        return f"${{{made}}}"

    def leave(self, name: str, reason: str, *, changes: bool = False) -> None:
        """Note that a property, or part of it, is not converted; ``changes``: other data is read without it."""
        if name in self.properties:
            self.note(self.properties[name], reason, changes=changes)

    def refuse(self, name: str, reason: str) -> None:
        """Refuse the file: a pipeline would not do what the job did."""
        found = self.properties.get(name)
        where = self.origin if found is None else f"{self.origin}:{found.line}"
        self.refusals.append(f"{where}: {name}: {reason}")

    def leave_form(self, content_type: str) -> None:
        """Note that bodies are sent as JSON instead of forms."""
        if "form" in content_type:
            self.leave("ms.http.request.headers", "bodies are JSON, not forms; ask the server for JSON")

    def note(self, found: Property, reason: str, *, changes: bool = False) -> None:
        """Note why one line is not converted as it stands."""
        self.notes.append(PropertyNote(found.line, found.name, reason, changes))

    def rest(self) -> tuple[list[PropertyNote], list[PropertyNote]]:
        """The unused properties: those not converted, and those not needed."""
        left, not_needed = [], []
        for name, found in self.properties.items():
            rule = rule_of(name)
            if name in self.used:
                continue
            if rule in NOT_NEEDED:
                not_needed.append(PropertyNote(found.line, name, NOT_NEEDED[rule]))
            else:
                reason = "means nothing for this kind of source" if rule else "is unknown"
                changes = rule in DECIDES_WHAT_IS_READ and bool(found.value)
                left.append(PropertyNote(found.line, name, LEFT.get(rule, reason), changes))
        return left, not_needed


def as_list(value: object) -> list[Any]:
    """``value`` if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def as_mapping(value: object) -> dict[str, Any]:
    """``value`` with text keys if it is a mapping, else an empty mapping."""
    return {str(name): below for name, below in value.items()} if isinstance(value, dict) else {}


def is_secret(name: str, value: str) -> bool:
    """Whether a value must not be written into the configuration."""
    return is_credential(name, value) or looks_secret(name) or bool(_ENCRYPTED.fullmatch(value))


def secrets_of(found: Iterable[Property]) -> Iterator[str]:
    """The texts of a properties file that must not show, not even in an error about it."""
    for each in found:
        try:
            inside = load_json(each.value) if each.value.lstrip().startswith(("{", "[")) else each.value
        except (ValueError, RecursionError):
            inside = each.value
        yield from _secrets_below(inside, each.name)
        if each.value.startswith("jdbc:"):
            yield from jdbc_credentials(each.value)


def _secrets_below(value: object, name: str) -> Iterator[str]:
    """Those of a JSON value: by their names, or by the name beside them, as parameters and headers have it."""
    match value:
        case list():
            yield from (secret for each in value for secret in _secrets_below(each, name))
        case dict():
            beside = str(value.get("name", ""))
            for key, each in value.items():
                yield from _secrets_below(each, beside if key == "value" and beside else str(key))
        case str() if is_secret(name, value) and "{{" not in value:
            yield value
        case str():
            yield from credentials_in_address(value)
            yield from (word for word in re.split(r"[\s'\"/]+", value) if looks_random(word))


CARRIED: dict[str, str] = {
    "job.name": "the name of the pipeline",
    **dict.fromkeys(("extract.table.name", "extract.namespace"), "sink.table_uri"),
    "extract.table.type": "sink.load_type, replace",
    "extract.primary.key.fields": "sink.merge_keys",
    "source.class": "source.type",
    "source.conn.username": "connections: auth.user or user; for a bucket source.storage_options",
    "source.conn.password": "connections: auth.password or password; source.storage_options; always a variable",
    "ms.source.uri": "connections: url; source.path and source.params, or source.source_uri",
    "ms.extractor.class": "source.type and source.format",
    "ms.extract.preprocessors": "source.compression",
    "ms.http.request.method": "source.method",
    "ms.http.request.headers": "source.headers, and connections: headers for secrets",
    "ms.http.response.type": "source.response_types; ignored for files",
    "ms.http.statuses": "work_unit.not_found",
    "ms.authentication": "connections: auth or headers, with environment variables",
    "ms.parameters": "source.params, source.body, source.pagination",
    "ms.parameter": "the same as ms.parameters",
    "ms.data.field": "source.records",
    "ms.session.key.field": "source.pagination.next",
    "ms.total.count.field": "source.pagination.total",
    "ms.pagination": "source.pagination",
    "ms.call.interval.millis": "connections: rate_limit",
    "ms.jdbc.statement": "source.query",
    "ms.jdbc.schema.refactor": "nothing, if it is none",
    "ms.output.schema": "schema.fields",
    "ms.csv": "source.csv",
    "ms.csv.column.header": "source.csv.header",
    "ms.csv.column.header.index": "source.csv.header and skip_rows",
    "ms.csv.separator": "source.csv.delimiter",
    "ms.csv.quote.character": "source.csv.quote",
    "ms.csv.escape.character": "source.csv.escape",
    "ms.csv.skip.lines": "source.csv.skip_rows",
    "ms.source.data.character.set": "nothing, if it is UTF-8",
    "state.store.enabled": "nothing, if it is true",
    **{name: ".".join(("source", *path)) for name, path in MS_KEYS.items()},
}
"""What each property becomes. In these tables a name that ends with a dot is a prefix."""

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
"""Properties that decide which data is read."""

LEFT: dict[str, str] = {
    "ms.audit.enabled": "requests are not audited; the events of a run say what was read",
    "ms.csv.column.projection": "schema.fields chooses columns, csv.columns names them",
    "ms.csv.default.field.type": "declare the columns in schema.fields",
    "ms.derived.fields": "derive columns with transform.sql, in a second pipeline that reads the table",
    "ms.encryption.fields": "fields are not encrypted: a job that encrypts some is refused",
    **dict.fromkeys(("ms.enable.cleansing", "ms.schema.cleansing"), "columns keep the names of the source"),
    "ms.enable.schema.based.filtering": "schema.fields limits the columns; without it all are written",
    "ms.extract.preprocessor.parameters": "Tidegate decrypts no files; decrypt them first",
    **dict.fromkeys(
        ("ms.extractor.target.file.name", "ms.extractor.target.file.permission", "ms.extract.target.file.name"),
        "files become rows of the table; no copies are kept",
    ),
    "ms.normalizer.batch.size": "rows are not combined; a second pipeline can, with transform.sql",
    "ms.retention": "rows are never deleted by age; table_properties and tidegate table vacuum delete files",
    "ms.source.files.pattern": "a regular expression; write it into source_uri with * and ?",
    "ms.source.s3.parameters": "write region and endpoint into storage_options",
    **dict.fromkeys(
        ("ms.source.schema.urn", "ms.target.schema.urn"),
        "there is no schema registry; declare schema.fields, or let the columns be inferred",
    ),
    "ms.target.schema": "the table has the columns of the source; a second pipeline can reshape them",
    "ms.ssl": "client certificates are not supported; set the proxy and certificates of the machine",
    "ms.validation.attributes": "work_unit.min_records and min_units set the least that must arrive",
    "ms.wait.timeout.seconds": "no request is repeated until the server reports a status",
    "ms.retry": "connections: retries sets the number; a pipeline runs after those that its secondary_input names",
    "job.schedule": "let a scheduler run tidegate, or use tidegate run --continuous",
    "data.publisher.final.dir": "table_uri says where the table is; change it there",
    "extract.delta.fields": "work units distinguish rows; time_column names a column for their time",
    "converter.classes": "rows are not converted; a second pipeline can, with transform.sql",
    "ms.kafka.": "requests are not audited to Kafka",
    "ms.retry.": "connections: retries sets the number",
    "converter.": "rows are not converted; schema.fields sets the types of columns",
    "ms.": "has no equivalent",
}
"""Properties without an equivalent, with the reason or the replacement."""

NOT_NEEDED: dict[str, str] = {
    "job.commit.policy": "work units that succeed are committed, the others run again",
    "job.group": "a pipeline has a name and no group",
    "job.description": "write a comment into the file",
    "job.dir": "paths are relative to the configuration file",
    "extract.is.full": "the watermark decides what is read",
    "dataset.urn": "the table's address is its identity",
    "fs.uri": "each address names its storage",
    **dict.fromkeys(("encrypt.key.loc", "ms.secret.manager.class"), "secrets come from the environment"),
    "Xmx": "spark.config sets memory",
    **dict.fromkeys(
        ("ms.activation.property", "ms.payload.property", "ms.watermark.groups"),
        "work units are planned from the configuration",
    ),
    "ms.watermark.type": "each watermark has its type",
    "ms.work.unit.scheduling.starttime": "the run spaces the starts itself",
    "ms.backfill": "use tidegate replay, or tidegate units reset",
    **dict.fromkeys(
        ("ms.connection.client.factory", "ms.http.client.factory"), "there is one client for each kind of source"
    ),
    "ms.converter.csv.max.failures": "error_handling limits bad records",
    "ms.converter.keep.null.strings": "csv.null_values says which cells are null",
    "ms.data.default.type": "a column whose type cannot be inferred is text",
    "ms.data.explicit.eof": "the end of the data ends the work unit",
    "ms.enable.dynamic.full.load": "a work unit that was never read is read whole",
    "ms.encoding": "text is UTF-8",
    "ms.hdfs.reader.parse.json.strings": "fields of secondary inputs are plain text",
    "ms.http.status.reasons": "source.error says where an answer reports an error",
    "ms.s3.list.max.keys": "a listing has no limit",
    "state.store.": "the position is in the log of the table",
    "writer.": "the table is written as a Delta table",
    **dict.fromkeys(("data.publisher.", "data.publish."), "what is committed is published"),
    "job.commit.": "each work unit succeeds or fails on its own",
    "job.lock.": "two runs of one source cannot both commit",
    **dict.fromkeys(("jobhistory.", "job.history."), "tidegate status and tidegate watermark history show it"),
    "gobblin.": "this is another system",
    **dict.fromkeys(
        ("launcher.", "mr.", "mapreduce.", "yarn.", "taskexecutor.", "tasktracker."), "Spark runs the tasks"
    ),
    **dict.fromkeys(("task.", "taskretry.", "workunit."), "the next run repeats work units that failed"),
    "work.unit.": "work_unit.partition divides the range",
    "metrics.": "set metrics in the configuration",
    "qualitychecker.": "error_handling decides about bad records",
    "fork.": "a pipeline has one table",
    "ms.http.conn.": "connections are pooled",
    "ms.sftp.": "files on SFTP servers are not read",
    "azkaban.": "any scheduler can run tidegate",
    "user.": "the scheduler knows its user",
    "email.": "the scheduler reports failures",
}
"""Properties that a pipeline does not need, with the reason."""


def rule_of(name: str) -> str:
    """The entry of the tables that fits a property: its own name or the longest prefix; empty if none does."""
    known = {**CARRIED, **LEFT, **NOT_NEEDED}
    fits = (each for each in known if each == name or (each.endswith(".") and name.startswith(each)))
    return max(fits, key=len, default="")
