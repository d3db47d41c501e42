"""Converts a properties file into YAML, and reports what it did not convert."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tidegate.config import load
from tidegate.errors import ConfigError
from tidegate.migrate.properties import Given, Property, as_list, is_secret, properties, secrets_of
from tidegate.migrate.property_sections import (
    PAGES,
    Address,
    Parameter,
    address_of,
    columns,
    connection,
    csv,
    fill_in,
    names_in,
    parameters,
    request,
    secondary_inputs,
    settings,
    watermarks,
)
from tidegate.reports.project import PropertiesImport, PropertyNote
from tidegate.specs.credentials import is_plain_setting, looks_random
from tidegate.specs.locations import holds_credentials
from tidegate.specs.masking import Mask, remember

_PAGES = re.compile(
    r"\s+limit\s+(?:\{\{[^{}]*\}\}|\d+)(?:\s*,\s*\{\{[^{}]*\}\}|\s+offset\s+\{\{[^{}]*\}\})?\s*;?\s*$", re.IGNORECASE
)
_BUCKET = re.compile(r"(.+)\.s3(?:[.-][a-z0-9-]+)?\.amazonaws\.com")
_ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".avro": "avro",
    ".parquet": "parquet",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}
ORIGINAL_TIMEZONE = "America/Los_Angeles"
"""The time zone of jobs without ``ms.timezone``."""
_NOT_REACHED = ("sftp", "ftp", "ftps", "scp")
_ENCRYPTED = (".gpg", ".pgp")
_PLACEHOLDER = re.compile(r"<[A-Za-z][A-Za-z0-9 _.-]*>")
_ORDINARY = ("CsvToJson", "JsonIntermediateToAvro", "JsonStringToJsonIntermediate", "AvroFieldsPick", "Identity")


def import_text(text: str, origin: str) -> PropertiesImport:
    """Convert the job of a properties file into a configuration.

    It contains no secret, only environment variables, and loads once they are set.
    """
    found = tuple(properties(text))
    secrets = frozenset(secrets_of(found))
    # A password that is an ordinary word is hidden only where it is given as one: it may be a table's name as well.
    mask = Mask(secrets, frozenset(each for each in secrets if is_plain_setting("", each)))
    remember(mask)
    try:
        made = _import(found, origin, secrets)
    except ConfigError as error:
        raise mask.error(error) from None
    return replace(made, left=mask.deep(made.left), not_needed=mask.deep(made.not_needed))


def _import(found: tuple[Property, ...], origin: str, secrets: Collection[str]) -> PropertiesImport:
    if not any(each.value for each in found):
        raise ConfigError((f"{origin}: holds no properties; allowed: lines of the form name=value",))
    given = Given.of(origin, found)
    _refuse_other_jobs(given)
    data = project_of(given)
    if given.refusals:
        raise ConfigError(tuple(given.refusals))
    # A key may hide inside a query or a path, where no name gives it away.
    data = _without_keys(given, data, [each for each in secrets if looks_random(each)])
    made = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
    left, not_needed = given.rest()
    notes = sorted({*given.notes, *left}, key=lambda each: (each.line, each.name, each.reason))
    # Loaded with sample values, so that a person learns here what the first run would say.
    notes += _problems(made, given)
    lost = {each.name for each in notes}
    return PropertiesImport(
        origin=origin,
        yaml=f"# Made from {origin.rpartition('/')[2]}\n{made}",
        carried=tuple(name for name in given.properties if name in given.used and name not in lost),
        left=tuple(notes),
        not_needed=tuple(sorted(not_needed, key=lambda each: each.line)),
        variables=tuple(sorted(name for name in given.samples if f"${{{name}}}" in made)),
        reads_the_same=not any(each.changes_what_is_read for each in notes),
    )


def _without_keys(given: Given, value: Any, keys: Sequence[str]) -> Any:
    """``value`` with a variable in place of each generated key that is left in it, such as one inside a query."""
    match value:
        case dict():
            return {name: _without_keys(given, each, keys) for name, each in value.items()}
        case list():
            return [_without_keys(given, each, keys) for each in value]
        case str():
            for number, key in enumerate(keys, start=1):
                value = value.replace(key, given.secret(f"secret_{number}")) if key in value else value
            return value
        case _:
            return value


def import_file(path: Path) -> PropertiesImport:
    """Convert a file; :class:`ConfigError` if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise ConfigError(
            (f"{path}: cannot be read: {exc.strerror}; allowed: the path of a properties file",)
        ) from None
    try:
        text = data.decode("utf-8-sig")
    # Java reads properties files as Latin-1, and older jobs were written so.
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return import_text(text, str(path))


def _problems(made: str, given: Given) -> list[PropertyNote]:
    """Problems that keep the configuration from loading, for a person to correct."""
    try:
        load(made, env=given.samples)
    except ConfigError as error:
        return [PropertyNote(0, "configuration", text.removeprefix("<text>:"), True) for text in error.problems]
    return []


def _refuse_other_jobs(given: Given) -> None:
    """Refuse files without a job, jobs that send data, and unfinished templates."""
    if not any(given.has(name) for name in ("ms.source.uri", "ms.jdbc.statement")):
        reason = "is missing: the file describes no job that reads data; allowed: a job with ms.source.uri"
        given.refuse("ms.source.uri", reason)
    for name, kind in (
        ("ms.source.uri", (given.text("ms.source.uri") or "").partition("://")[0]),
        ("source.class", _class(given, "source.class").removesuffix("Source")),
    ):
        if kind.lower() in _NOT_REACHED:
            reason = f"files on {kind.upper()} servers are not read; copy them to a folder or a bucket and ingest that"
            given.refuse(name, reason)
    method = (given.text("ms.http.request.method") or "GET").upper()
    if method not in ("GET", "POST"):
        given.refuse("ms.http.request.method", f"{method} changes data at the server; allowed: jobs that read")
    for each in given.data("ms.secondary.input", list):
        if isinstance(each, dict) and str(each.get("category", "")).lower() == "payload":
            given.refuse("ms.secondary.input", "the job sends rows to a server; allowed: jobs that read from one")
    if given.has("ms.encryption.fields"):
        reason = "the job encrypts these fields, and Tidegate would write them as plain text"
        given.refuse("ms.encryption.fields", f"{reason}; remove the line if that is right, and the fields if not")
    for name, found in given.properties.items():
        if (placeholder := _PLACEHOLDER.search(found.value)) and not is_secret(name, found.value):
            given.refuse(name, f"holds the placeholder {placeholder[0]}; write the real value first")


def _class(given: Given, name: str) -> str:
    return (given.text(name) or "").rpartition(".")[2]


def project_of(given: Given) -> dict[str, Any]:
    """The whole configuration as plain data."""
    table = given.text("extract.table.name") or given.text("job.name") or "table"
    name = _name(given.text("job.name") or table)
    given.prefix = name
    source, server = _source(given)
    fields = columns(given)
    _leave_conversions(given)
    space = given.text("extract.namespace")
    where = "/".join(_name(part) for part in ("lake", *(space or "").split("."), table) if part)
    pipeline: dict[str, Any] = {"source": source, **({"schema": {"fields": fields}} if fields else {})}
    load = _load(given, source)
    if (given.text("state.store.enabled") or "true").lower() == "false" and load.get("load_type") != "overwrite":
        text = "the job read its whole range each time, a pipeline remembers its position; use load_type: overwrite"
        given.leave("state.store.enabled", text, changes=True)
    pipeline["sink"] = {"table_uri": where, **load}
    made: dict[str, Any] = {"connections": {name: server}} if server else {}
    if server:
        pipeline["source"] = {"connection": name, **source}
    return {**made, "pipelines": {name: pipeline}}


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_.-") or "pipeline"


def _source(given: Given) -> tuple[dict[str, Any], dict[str, Any]]:
    """The source and its connection, empty if it has none."""
    times = watermarks(given)
    inputs = secondary_inputs(given)
    if any("category" not in each for each in inputs) and any(each["type"] == "unit" for each in times):
        text = "the secondary input replaces these units; allowed: one of them"
        given.leave("ms.watermark", text, changes=True)
        times = [each for each in times if each["type"] != "unit"]
    named = {kind: tuple(each["name"] for each in times if each["type"] == kind) for kind in ("datetime", "unit")}
    fields = tuple(field for each in inputs for field in each["fields"])
    known = parameters(given, named["datetime"], (*named["unit"], *fields))
    given.text("source.class")
    address = address_of(given)
    made, server = _by_kind(given, address)(given, address or Address("", "", ""), known)
    made |= {"watermark": times} if times else {}
    made |= {"secondary_input": inputs} if inputs else {}
    followed = bool(times or inputs) or made.get("type") == "download"
    work = settings(given)
    if times:
        # Written down, since the default here is UTC and days would begin at another hour.
        work.setdefault("timezone", ORIGINAL_TIMEZONE)
    _not_found(given, work, asks=server.get("type") == "http" and followed)
    made |= work if followed else {}
    _leave_unknown_variables(given, made, times, inputs)
    return made, server


def _by_kind(given: Given, address: Address | None) -> Callable[..., tuple[dict[str, Any], dict[str, Any]]]:
    extractor = _class(given, "ms.extractor.class")
    raw = (given.text("ms.source.uri") or "").lower()
    if raw.startswith("jdbc:") or given.has("ms.jdbc.statement"):
        return _database
    if address is not None and address.scheme in ("http", "https"):
        in_bucket = _BUCKET.fullmatch(address.host) is not None
        is_json = not in_bucket and (not extractor or extractor.startswith("Json"))
        return _api if is_json else _files
    return _other_files


def _api(given: Given, address: Address, known: dict[str, Parameter]) -> tuple[dict[str, Any], dict[str, Any]]:
    server = connection(given, address)
    return request(given, address, known, server), server


def _files(given: Given, address: Address, known: dict[str, Parameter]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Files on an HTTP server, or in a bucket read over HTTP."""
    found = _BUCKET.fullmatch(address.host)
    form = _form(given, address.path)
    if found is None:
        server = connection(given, address)
        asked = request(given, address, known, server)
        for key, name in (("records", "ms.data.field"), ("pagination", "ms.pagination")):
            if asked.pop(key, None):
                given.leave(name, "concerns records in responses; this source reads files")
        asked.pop("response_types", None)
        return {"type": "download", **asked, **form}, server
    path = fill_in(address.path, known).lstrip("/")
    made = {**_at(f"s3://{found[1]}/{path}", known), **_bucket_keys(given)}
    if "*" not in path and not re.search(r"[^/]\.[A-Za-z0-9]+$", path):
        made["source_uri"] += "*"
        text = "the job read every key with this prefix, at any depth; source_uri matches one level: write a * for each"
        given.leave("ms.source.uri", text, changes=True)
    return {**made, **form}, {}


def _at(where: str, known: dict[str, Parameter]) -> dict[str, Any]:
    """A download source at an address, with the bounds that the address uses."""
    bounds = {name: known[name].bound for name in names_in(where) if name in known and known[name].bound}
    return {"type": "download", "source_uri": where, **({"params": bounds} if bounds else {})}


def _bucket_keys(given: Given) -> dict[str, Any]:
    """Credentials of a bucket (user and password of the job) as environment variables."""
    given.used |= {name: None for name in ("source.conn.username", "source.conn.password") if given.has(name)}
    if not given.has("source.conn.password"):
        return {}
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return {"storage_options": {key: given.secret(key) for key in keys}}


def _other_files(given: Given, address: Address, known: dict[str, Parameter]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Files elsewhere; where Tidegate cannot read them, a person sets the new place."""
    raw = fill_in(given.text("ms.source.uri") or "", known)
    where = raw
    elsewhere = address.scheme not in ("s3", "file", "") or _class(given, "source.class").startswith("Hdfs")
    if elsewhere or not raw:
        where = given.secret("source_uri", "in/*")
        given.leave("ms.source.uri", f"files are read from object storage, folders and HTTP servers; set {where[2:-1]}")
    return {**_at(where, known), **_form(given, raw)}, {}


def _form(given: Given, path: str) -> dict[str, Any]:
    """Format and compression of files, from the extractor and their endings."""
    extractor = _class(given, "ms.extractor.class").lower()
    plain = path.lower().removesuffix(".gz")
    ending = next((kind for end, kind in _ENDINGS.items() if plain.endswith(end)), None)
    kind = "csv" if extractor.startswith("csv") else "avro" if extractor.startswith("avro") else ending or "json"
    if extractor.startswith("filedump"):
        text = f"files are read as {kind} and become rows; no copies are kept"
        given.leave("ms.extractor.class", text, changes=True)
    if path.lower().endswith(_ENCRYPTED):
        given.leave("ms.source.uri", "the files are encrypted; decrypt them first", changes=True)
    made: dict[str, Any] = {"format": kind}
    steps = (given.text("ms.extract.preprocessors") or "").split(",")
    if any("gunzip" in each.lower() for each in steps) and not path.endswith(".gz"):
        made["compression"] = "gzip"
    if any(each.strip() and "gunzip" not in each.lower() for each in steps):
        text = "only gzip and zstd are unpacked; prepare the files first"
        given.leave("ms.extract.preprocessors", text, changes=True)
    form = csv(given) if kind == "csv" else {}
    return {**made, **({"csv": form} if form else {})}


def _database(given: Given, address: Address, known: dict[str, Parameter]) -> tuple[dict[str, Any], dict[str, Any]]:
    server: dict[str, Any] = {"type": "jdbc", "url": _jdbc_url(given)}
    if user := given.text("source.conn.username"):
        server["user"] = given.secret("user") if is_secret("", user) else user
    if given.has("source.conn.password"):
        given.used["source.conn.password"] = None
        server["password"] = given.secret("password")
    statement = given.text("ms.jdbc.statement") or ""
    query = " ".join(fill_in(_PAGES.sub("", statement), known).split())
    for word in {*names_in(query)}:
        if word in known and known[word].kind in PAGES:
            given.leave("ms.jdbc.statement", f"{{{{{word}}}}} concerns pages; a query is read as a whole")
            query = query.replace(f"{{{{{word}}}}}", "0")
    if not re.match(r"(?i)\(*\s*(?:select|with)\b", query):
        given.leave("ms.jdbc.statement", "is not a query; set source.query or source.table")
        query = "select 1 as nothing"
    bounds = {name: known[name].bound for name in names_in(query) if name in known and known[name].bound}
    given.used["ms.pagination"] = None
    refactor = (given.text("ms.jdbc.schema.refactor") or "none").lower()
    if refactor != "none":
        given.leave("ms.jdbc.schema.refactor", "columns keep the names of the query; write aliases there")
    return {"query": query, **({"params": bounds} if bounds else {})}, server


def _jdbc_url(given: Given) -> str:
    """The address without credentials; a variable if it does not name the database."""
    raw = given.text("ms.source.uri") or ""
    plain = re.sub(r"(?<=//)[^/@]*@", "", raw)
    for part in re.split(r"[?&;]", plain)[1:]:
        if is_secret(part.partition("=")[0], "") or "user" in part.lower():
            plain = plain.replace(part, "")
    plain = re.sub(r"[?&;]+$", "", re.sub(r"([?&;])[&;]+", r"\1", plain))
    if plain != raw:
        given.leave("ms.source.uri", "credentials are left out; put them into user and password")
    if re.match(r"jdbc:[a-z0-9]+:", plain) and not holds_credentials(plain):
        return plain
    url = given.secret("url", "jdbc:postgresql://host/database")
    given.leave(
        "ms.source.uri", f"does not say which database it is; set {url[2:-1]}, such as jdbc:mysql://host/database"
    )
    return url


def _not_found(given: Given, work: dict[str, Any], *, asks: bool) -> None:
    """Convert HTTP statuses: only 404 can mean something other than failure."""
    statuses = given.data("ms.http.statuses", dict)
    warned = {str(each) for each in as_list(statuses.get("warning"))}
    if "404" in warned and asks:
        work.setdefault("work_unit", {})["not_found"] = "empty"
    other = (warned - {"404"}) | {str(each) for each in as_list(statuses.get("error")) if str(each) < "400"}
    reasons = [f"{', '.join(sorted(other))}: only 404 can be treated as empty"] if other else []
    if "404" in warned and not asks:
        reasons.append("404: only work units of an API can be empty; here it is an error")
    if reasons:
        given.leave("ms.http.statuses", "; ".join(reasons))


def _load(given: Given, source: dict[str, Any]) -> dict[str, Any]:
    """How rows are loaded, and which they replace."""
    kind = (given.text("extract.table.type") or "").upper()
    keys = [each.strip() for each in (given.text("extract.primary.key.fields") or "").split(",") if each.strip()]
    units = (
        any(key in source for key in ("watermark", "secondary_input", "work_unit")) or source.get("type") == "download"
    )
    if kind == "SNAPSHOT_APPEND" and keys:
        return {"load_type": "merge_upsert", "merge_keys": keys}
    if keys:
        given.leave("extract.primary.key.fields", "rows are not merged; set load_type: merge_upsert and merge_keys")
    if not units:
        return {"load_type": "overwrite"}
    if any(each["type"] == "datetime" for each in source.get("watermark", ())):
        _replace_rows(source, snapshot=kind == "SNAPSHOT_ONLY")
    return {}


def _replace_rows(source: dict[str, Any], *, snapshot: bool) -> None:
    """Which rows a work unit replaces, where the rule is not the default.

    Without the time in its requests, each read returns the same rows again, so they replace the unit's earlier rows.
    Cut into time partitions, it returns them once for each partition, as the job did.
    """
    by_time = any(isinstance(each, dict) and "watermark" in each for each in source.get("params", {}).values())
    is_cut = source.get("work_unit", {}).get("partition", "none") != "none"
    if not by_time and is_cut:
        source["replace"] = "none"
    elif snapshot or not by_time:
        source["replace"] = "unit"


def _leave_conversions(given: Given) -> None:
    """Note what converters, character sets and audits did beyond changing types."""
    classes = [
        each.strip().rpartition(".")[2] for each in (given.text("converter.classes") or "").split(",") if each.strip()
    ]
    others = [each for each in classes if not each.startswith(_ORDINARY)]
    if others:
        given.leave("converter.classes", f"{', '.join(others)}: a second pipeline can do it, with a transform")
    if (given.text("ms.source.data.character.set") or "UTF-8").upper() not in ("UTF-8", "UTF8"):
        given.leave("ms.source.data.character.set", "text is UTF-8; convert the files")
    if (given.text("ms.audit.enabled") or "false").lower() != "false":
        given.leave("ms.audit.enabled", "requests are not audited; the events of a run say what was read")


def _leave_unknown_variables(
    given: Given, source: dict[str, Any], times: list[dict[str, Any]], inputs: list[dict[str, Any]]
) -> None:
    """Turn undefined variables into environment variables."""
    known = {each["name"] for each in times if each["type"] == "unit"} | {
        name for each in inputs for name in each["fields"]
    }
    known |= {name for name, each in source.get("params", {}).items() if isinstance(each, dict)}
    for key in ("path", "params", "headers", "body", "query", "source_uri"):
        for name in sorted({*names_in(source.get(key))} - known):
            given.leave("ms.source.uri", f"nothing defines {{{{{name}}}}}; set it as an environment variable")
            put = Parameter(name, "list", given.variable(name))
            source[key] = fill_in(source[key], {name: put})
