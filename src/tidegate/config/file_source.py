"""Prefixes of files, tracked by path watermarks or by the set of all paths; how CSV files are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from tidegate.config.document import FLAGS, Block, Items, Notes, Problem, Scalar, Spot, mask
from tidegate.config.models import Context, Model, Parts, dump, fields, make, part
from tidegate.config.normal_form import FILES, TABLES, tag_of_source
from tidegate.config.values import LIST, check, duration, glob, refusal, text, texts, word_of
from tidegate.errors import ConfigError
from tidegate.specs.columns import CsvOptions, TableFormat
from tidegate.specs.files import Format, Lateness, PathSource, Tracking
from tidegate.specs.keys import Key
from tidegate.specs.locations import CATALOG, Location
from tidegate.specs.table import SinkSpec
from tidegate.storage.options import split_glob
from tidegate.storage.stores import keep_apart

_DURATION = re.compile(r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?)?")
_PERIODS = re.compile(r"(\d{1,6})(?: periods?)?")
WATERMARK_ONLY = ("late_files", "late_window", "late_window_total", "lateness", "deep_listing_every")
"""Keys of a source that have an effect only with ``use_watermark: true``."""
FIELDS = {"Y": ("year",), "m": ("month",), "d": ("day",), "H": ("hour",), "F": ("year", "month", "day")}
_CHAIN = ("year", "month", "day", "hour")
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_REFUSED = {
    "M": "minutes",
    "S": "seconds",
    "f": "fractions of a second",
    "U": "weeks",
    "W": "weeks",
    "V": "weeks",
    "G": "years of weeks",
    "u": "days of the week",
    "w": "days of the week",
    "a": "days of the week",
    "A": "days of the week",
    "j": "days of the year",
    "I": "hours without am or pm",
    "p": "am and pm",
    "b": "names of months",
    "B": "names of months",
    "y": "years without their century",
    "Z": "zones",
    "z": "zones",
}
ALLOWED = "allowed: %Y %m %d %H %F %%"


@check({"items": {"type": "string"}, "type": "array"})
def cells(value: object) -> tuple[str, ...]:
    """A list of texts, some possibly empty; a single text counts as a list of one."""
    items = value if isinstance(value, Items) else [value]
    if not all(isinstance(item, Scalar) for item in items):
        raise refusal("must be a list of texts", "put words such as NULL in quotes")
    return tuple(str(item) for item in items)


@check()
def character(value: object) -> str:
    """One ASCII character; ``tab`` is the word for a tab."""
    found = str(value) if isinstance(value, Scalar) else ""
    # '\t' in single quotes or without any is two characters in YAML.
    found = "\t" if found == "tab" else found
    if len(found) != 1 or not (found == "\t" or " " <= found <= "~"):
        raise refusal("is not one character", "allowed: one ASCII character, or tab")
    return found


@check(show=lambda mark: mark or "none")
def quote(value: object) -> str | None:
    """The same, or ``none``."""
    return None if isinstance(value, Scalar) and value == "none" else character(value)


@check(LIST)
def globs(value: object) -> tuple[str, ...]:
    """A list of globs; a single glob counts as a list of one."""
    texts(value)
    return tuple(glob(item) for item in (value if isinstance(value, Items) else [value]))


@check({"type": ["string", "integer"]}, of=Lateness)
def lateness(value: object) -> Lateness:
    """``none``, a number of periods, or an ISO 8601 duration of days and hours."""
    word = word_of(value)
    if word.lower() == "none":
        return Lateness(never=True)
    periods = _PERIODS.fullmatch(word)
    if periods and int(periods[1]):
        return Lateness(periods=int(periods[1]))
    duration = _DURATION.fullmatch(word)
    days, hours = (int(part or 0) for part in duration.groups()) if duration else (0, 0)
    # Zero would seal a partition as soon as a file of the next one is read.
    if not days and not hours:
        raise refusal("is not a lateness", "allowed: '48 periods', 'P2D', 'P1DT12H', 'none'; above zero")
    return Lateness(fixed=timedelta(days=days, hours=hours))


@check(show=duration)
def every(value: object) -> timedelta | None:
    """``none``, or an ISO 8601 duration of days and hours."""
    word = word_of(value)
    if word.lower() != "none" and not _DURATION.fullmatch(word):
        raise refusal("is not a duration", "allowed: 'P1D', 'PT6H', 'P1DT12H', 'none'")
    return lateness(value).fixed


@check()
def template(value: object) -> str:
    """A strftime template of partition directories."""
    found = text(value).strip("/")
    if wrong := period_problem(found):
        raise refusal(wrong)
    return found


class CsvModel(Model):
    """The dialect of CSV files."""

    spec: ClassVar = CsvOptions
    takes: ClassVar[Parts] = (part(CsvOptions),)
    encoding: Annotated[Literal["utf-8"], Key("The text encoding.")] = "utf-8"


class CheckpointModel(Model):
    """When a commit is due while a run goes on."""

    takes: ClassVar[Parts] = (part(PathSource, "interval_files:mirror_legacy"),)


class SourceModel(Model):
    """A prefix of files, tracked by path watermarks or by the set of all paths."""

    step: ClassVar[str] = "<source>"
    takes: ClassVar[Parts] = (
        "type",
        part(PathSource, "source_uri"),
        "use_watermark",
        part(PathSource, "pattern:exclude", "follow_links", "compression", "format:csv"),
        part(PathSource, "poll_interval_secs:expect_every", "max_attempts", "partition_filter"),
        "checkpoint",
        part(PathSource, "late_files:deep_listing_every", "max_islands"),
        part(Location, "storage_options"),
    )
    type: Annotated[Literal["files"], Key("The kind of source.")] = "files"
    use_watermark: Annotated[
        bool,
        Key(
            "true: names sort in time, and only what lies above the watermark is listed; false: every path "
            "is remembered and everything is listed."
        ),
    ] = False
    checkpoint: Annotated[CheckpointModel, Key("When commits are due.")]

    def source(self, name: str, context: Context, sink: SinkSpec) -> PathSource:
        """The source; its listings leave out the tables of the whole file."""
        tracking = Tracking.WATERMARK if self["use_watermark"] else Tracking.SET
        given = {**self.given, **self["checkpoint"].given}
        return keep_apart(make(PathSource, given, context, name=name, tracking=tracking), context.tables)

    @classmethod
    def show_source(cls, spec: PathSource) -> dict[str, Any]:
        """The keys that apply to the format and the tracking of the source."""
        followed = spec.tracking is Tracking.WATERMARK
        left_out = {"csv"} if spec.format is not Format.CSV else set()
        left_out |= set() if followed else {"partition_filter", *WATERMARK_ONLY}
        given = {"use_watermark": followed, "checkpoint": CheckpointModel.show(spec)}
        return dump(cls, spec, [key for key in fields(cls) if key not in left_out], given)


def format_problems(source: Spot) -> Iterator[Problem]:
    """Keys of another format than the source's."""
    kind, compression = str(source.text("format") or "ndjson"), source.text("compression")
    if kind in ("parquet", "avro") and compression not in (None, "auto", "none"):
        text = f"{kind} files are compressed inside, not as a whole; remove it"
        yield source.problem(text, "compression")
    if not source.has("csv"):
        return
    if kind != "csv":
        yield source.problem(f"the format of this source is {kind}; set format: csv, or remove it", "csv")
    csv = source.below("csv")
    if csv.words("columns") and FLAGS.get((csv.text("header") or "true").lower()):
        text = "the header of each file names its columns; set header: false, or remove it"
        yield csv.problem(text, "columns")
    marks = {key: str(mark) for key in ("delimiter", "quote", "escape") if (mark := csv.text(key)) is not None}
    if len(set(marks.values())) < len(marks):
        yield csv.problem(f"{', '.join(marks)} are not all different; use another character for each")


def note_files(source: Spot, notes: Notes) -> None:
    """Watermark keys on a source without a watermark."""
    if source.has("partition_filter"):
        text = "limits the first run of a watermark, and this source has none; set use_watermark: true, or remove it"
        notes.add(source.problem(text, "partition_filter"), (*source.loc, "partition_filter"))
    for key in WATERMARK_ONLY:
        if source.has(key):
            notes.notices.append(f"{source.path(key)} has no effect without use_watermark: true")


_WITHOUT_GLOB = {
    TableFormat.DELTA: "a Delta table is one folder; name it",
    TableFormat.ICEBERG: "an Iceberg table is one folder; name it",
    TableFormat.PARQUET: "Spark takes names of files alone; write the folder, and the names as 'pattern'",
}


def take_globs_apart(root: Block, base: Path) -> Notes:
    """Make each ``source_uri`` with a glob a folder and its ``pattern``: stores list folders, and know no globs.

    The source blocks of ``root`` are changed; each gets a notice, or the problem that keeps it from being taken apart.
    """
    notes = Notes()
    for _, pipeline in Spot(root, (), root).each("pipelines"):
        for _, source in pipeline.each("sources"):
            if tag_of_source(source.block) in (FILES, "table") and (uri := source.text("source_uri")) is not None:
                _take_glob_apart(source, uri, base, notes)
    return notes


def _take_glob_apart(source: Spot, uri: Scalar, base: Path, notes: Notes) -> None:
    try:
        found = None if uri.startswith(CATALOG) else split_glob(uri, base)
    except ConfigError as error:
        notes.add(source.problem(error.problems[0], "source_uri"), (*source.loc, "source_uri"))
        return
    if found is None:
        return
    place, pattern = found
    globs = uri.removeprefix(place)
    written = (uri.raw.removesuffix(globs) or ".") if uri.raw.endswith(globs) else uri.raw
    # From a variable, the glob cannot be taken out of what the file has.
    folder = mask(written) if written != uri.raw else f"{mask(written)} without {mask(globs)!r}"
    lines = f"source_uri: {folder} and pattern: {mask(pattern)!r}"
    given, kind = source.text("pattern"), str(source.text("type") or FILES)
    refused = _WITHOUT_GLOB.get(TableFormat(kind)) if kind in TABLES else None
    if refused is None and given is not None and given != pattern:
        refused = f"it is given together with 'pattern'; write {lines}, or a 'pattern' that means both"
    if refused is None and source.has("partition_filter"):
        plain = f"source_uri: {folder} and pattern: {mask(pattern.rpartition('/')[2])!r}"
        refused = f"the folders of 'partition_filter' begin at source_uri, and a glob is in their place; write {plain}"
    if refused is not None:
        notes.add(source.problem(f"has a glob; {refused}", "source_uri"), (*source.loc, "source_uri"))
        return
    line = source.block.lines["source_uri"]
    source.block["source_uri"] = Scalar(place, written, uri.line, quoted=uri.quoted, variables=uri.variables)
    source.block.put("pattern", Scalar(pattern, pattern, uri.line, quoted=True), line)
    if given is None:
        notes.notices.append(f"{source.path('source_uri')} has a glob and is read as {lines}")


def fields_of(template: str) -> tuple[str, ...]:
    """The fields of time in ``template``, coarsest first; unknown directives are left out.

    >>> fields_of("date=%Y-%m-%d/hour=%H")
    ('year', 'month', 'day', 'hour')
    """
    found = {field for letter in _DIRECTIVE.findall(template) for field in FIELDS.get(letter, ())}
    return tuple(field for field in _CHAIN if field in found)


def directive_problem(template: str) -> str:
    """The first unusable directive of ``template``, in words; empty if there is none."""
    for letter in _DIRECTIVE.findall(template):
        if letter in _REFUSED:
            return f"has %{letter} ({_REFUSED[letter]}), which names no period; {ALLOWED}"
        if letter != "%" and letter not in FIELDS:
            return f"has an unknown directive; {ALLOWED}"
    return ""


def period_problem(template: str) -> str:
    """Why ``template`` cannot tell one period from the next; empty if it can."""
    if wrong := directive_problem(template) or shape_problem(template):
        return wrong
    fields = fields_of(template)
    if not fields:
        return f"has no field of time; {ALLOWED}"
    missing = [field for field in _CHAIN[: _CHAIN.index(fields[-1])] if field not in fields]
    if missing:
        return f"has the {fields[-1]} without the {missing[-1]}, so periods would repeat; add it"
    return ""


def shape_problem(template: str) -> str:
    """What is wrong with the directories of ``template``; empty if nothing is."""
    if any(part in ("", ".", "..") for part in template.split("/")):
        return "must be directories separated by single slashes, without one at the start or end"
    return ""
