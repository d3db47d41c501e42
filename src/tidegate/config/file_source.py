"""Prefixes of files, tracked by path watermarks or by the set of all paths; how CSV files are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, WithJsonSchema

from tidegate.config import values as v
from tidegate.config.document import Items, Notes, Problem, Scalar, Spot
from tidegate.config.models import Context, Model, dump, entry, fields, fill, section, values_for
from tidegate.config.values import glob, refusal, text, texts
from tidegate.specs.columns import CsvOptions
from tidegate.specs.locations import Location, Options
from tidegate.specs.project import (
    Compression,
    Format,
    LateFiles,
    Lateness,
    PartitionFilter,
    PathSource,
    SinkSpec,
    Tracking,
)
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


def cells(value: object) -> tuple[str, ...]:
    """A list of texts, some possibly empty; a single text counts as a list of one."""
    items = value if isinstance(value, Items) else [value]
    if not all(isinstance(item, Scalar) for item in items):
        raise refusal("must be a list of texts", "put words such as NULL in quotes")
    return tuple(str(item) for item in items)


def character(value: object) -> str:
    """One ASCII character; ``tab`` is the word for a tab."""
    found = str(value) if isinstance(value, Scalar) else ""
    found = "\t" if found == "tab" else found
    if len(found) != 1 or not (found == "\t" or " " <= found <= "~"):
        raise refusal("is not one character", "allowed: one ASCII character, or tab")
    return found


def character_or_none(value: object) -> str:
    """The same, or ``none``."""
    return "none" if isinstance(value, Scalar) and value == "none" else character(value)


def globs(value: object) -> tuple[str, ...]:
    """A list of globs; a single glob counts as a list of one."""
    texts(value)
    return tuple(glob(item) for item in (value if isinstance(value, Items) else [value]))


def lateness(value: object) -> Lateness:
    """``none``, a number of periods, or an ISO 8601 duration of days and hours."""
    word = value.strip() if isinstance(value, Scalar) else ""
    if word.lower() == "none":
        return Lateness(never=True)
    periods = _PERIODS.fullmatch(word)
    if periods and int(periods[1]):
        return Lateness(periods=int(periods[1]))
    duration = _DURATION.fullmatch(word)
    days, hours = (int(part or 0) for part in duration.groups()) if duration else (0, 0)
    if not days and not hours:
        raise refusal("is not a lateness", "allowed: '48 periods', 'P2D', 'P1DT12H', 'none'; above zero")
    return Lateness(fixed=timedelta(days=days, hours=hours))


def every(value: object) -> Lateness:
    """``none``, or an ISO 8601 duration of days and hours."""
    word = value.strip() if isinstance(value, Scalar) else ""
    if word.lower() != "none" and not _DURATION.fullmatch(word):
        raise refusal("is not a duration", "allowed: 'P1D', 'PT6H', 'P1DT12H', 'none'")
    return lateness(value)


def template(value: object) -> str:
    """A strftime template of partition directories."""
    found = text(value).strip("/")
    if wrong := period_problem(found):
        raise refusal(wrong)
    return found


Cells = Annotated[tuple[str, ...], BeforeValidator(cells)]
Character = Annotated[str, BeforeValidator(character)]
CharacterOrNone = Annotated[str, BeforeValidator(character_or_none)]
Globs = Annotated[tuple[str, ...], BeforeValidator(globs), v.LIST]
Template = Annotated[str, BeforeValidator(template)]
LatenessText = Annotated[Lateness, BeforeValidator(lateness), WithJsonSchema({"type": ["string", "integer"]})]
EveryText = Annotated[Lateness, BeforeValidator(every), v.STRING]


class CsvModel(Model):
    """The dialect of CSV files."""

    spec: ClassVar = CsvOptions
    delimiter: Character | None = entry("The separator between cells; unset: a comma, in .tsv files a tab.", None)
    quote: CharacterOrNone = entry("The character around quoted cells; none: no cell is quoted.", '"')
    escape: Character | None = entry(
        "The character before a quote inside quotes; unset: such quotes are doubled. Doubled ones are read either way.",
        None,
    )
    header: v.Flag = entry("Whether the first record of each file names its columns.", True)
    columns: v.Texts = entry("The columns of files without a header, in order; unset: the declared columns.", ())
    null_values: Cells = entry("Unquoted cells that mean null.", ("",))
    skip_rows: v.CountOrNone = entry("Lines to skip at the beginning of each file.", 0)
    encoding: Literal["utf-8"] = entry("The text encoding.", "utf-8")

    def build(self) -> CsvOptions:
        """The options; ``none`` turns quoting off."""
        return fill(CsvOptions, self, quote=None if self.quote == "none" else self.quote)

    @classmethod
    def show(cls, spec: CsvOptions) -> dict[str, Any]:
        """Every key; ``none`` if quoting is off."""
        return dump(cls, spec, given={"quote": spec.quote or "none"})


class PartitionFilterModel(Model):
    """Limits the first run: it reads only recent partitions and seals everything older."""

    spec: ClassVar = PartitionFilter
    prefix_template: Template = entry(
        "strftime template (UTC) of the partition directories; its finest field is the period."
    )
    lookback: v.Whole = entry("Periods before the current one that the first run reads.", ge=0, le=100_000)


class CheckpointModel(Model):
    """When a commit is due while a run goes on."""

    interval_files: v.Count = entry("A commit is due once this many source files are finished since the last one.", 100)
    interval_secs: v.Count = entry("A commit of finished files is due this many seconds after the last one.", 60)
    mirror_legacy: v.Flag = entry(
        "Also write the readable checkpoint where the tools of another system look for it.", False
    )


class SourceModel(Model):
    """A prefix of files, tracked by path watermarks or by the set of all paths."""

    at: ClassVar = {"source_uri": "location", "storage_options": "location.options"}
    step: ClassVar[str] = "<source>"
    type: Literal["files"] = entry("The kind of source.", "files")
    source_uri: v.Address = entry("The path or object storage address of the files.")
    use_watermark: v.Flag = entry(
        "true: names sort in time, and only what lies above the watermark is listed; false: every path "
        "is remembered and everything is listed.",
        False,
    )
    pattern: v.Glob | None = entry(
        "Reads only files that match this glob: by name, or by whole path if it has a slash.", None
    )
    exclude: Globs = entry("Globs of files and directories to leave out.", ())
    follow_links: v.Flag = entry(
        "Follows symbolic links below source_uri, also out of it; each file counts once. Local disks only.", False
    )
    compression: Compression = entry("The compression of the files; auto: by file extension.", Compression.AUTO)
    format: Format = entry(
        "The format of the files: a JSON object per line, CSV, Parquet, Avro, or one JSON array per file.",
        Format.NDJSON,
    )
    csv: CsvModel = section(CsvModel, "The dialect of CSV files.")
    poll_interval_secs: v.Count = entry("Seconds between polls of a continuous run.", 60)
    max_attempts: v.Count = entry("How often a failing file is tried before it becomes a dead letter.", 5)
    partition_filter: PartitionFilterModel | None = entry("Limits the first run.", None)
    checkpoint: CheckpointModel = section(CheckpointModel, "When commits are due.")
    late_files: LateFiles = entry(
        "window: finds files whose names appear below a watermark; strict: does not.", LateFiles.WINDOW
    )
    late_window: v.Count = entry("Greatest finished names to remember per open partition, to find late files.", 1000)
    late_window_total: v.Count = entry("Names to remember per source, over all open partitions.", 50_000)
    lateness: LatenessText = entry(
        "How far below the newest partition others stay open: '48 periods', 'P1DT12H', 'none'.",
        Lateness,
    )
    deep_listing_every: v.Count = entry(
        "Lists everything open once in this many polls, to find unexpected directories.", 100
    )
    max_islands: v.Count = entry(
        "How many names may be finished above an unfinished file before the source waits for it.", 10_000
    )
    storage_options: v.SecretOptions = entry("Settings and credentials of the object store; never shown.", Options)

    def source(self, name: str, context: Context, sink: SinkSpec) -> PathSource:
        """The source; its listings leave out the tables of the whole file."""
        made = fill(
            PathSource,
            self,
            name=name,
            location=Location(context.absolute(self.source_uri), self.storage_options),
            tracking=Tracking.WATERMARK if self.use_watermark else Tracking.SET,
            **values_for(PathSource, self.checkpoint),
        )
        return keep_apart(made, context.tables)

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
    if csv.words("columns") and (csv.text("header") or "true").lower() in ("true", "yes", "on"):
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
