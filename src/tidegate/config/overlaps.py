"""Pipelines beside each other: places that lie in each other, tables that several write, the order they run in."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.config.document import Absolute, Block, Loc, Scalar, find, is_on, problem, words
from tidegate.config.load_strategy import WHOLE
from tidegate.config.normal_form import DOWNLOAD, is_of_units, is_prefix_of_files, tag_of_source
from tidegate.config.problems import Problem
from tidegate.config.sink import partition_keys
from tidegate.config.unit_variables import VARIABLE, inputs
from tidegate.config.work_units import same_unit_column_problems
from tidegate.locations import Location
from tidegate.planning.discovery import accepts
from tidegate.planning.pipeline_order import cycle, ordered
from tidegate.specs import Format, PathSource, PipelineSpec
from tidegate.storage.overlaps import comparable, inside

_DATA_FILES = ("0.parquet", "key=1/0.parquet")
_LOGGED = ("delta", "iceberg")


@dataclass(frozen=True, slots=True)
class Table:
    """One place that a pipeline writes: its table, or its dead letters; both in a form that compares."""

    pipeline: str
    title: str
    place: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One address that a source reads: whole tables by their log, or files; ``takes`` knows which of them."""

    pipeline: str
    loc: Loc
    place: str
    by_log: bool
    takes: Callable[[str], bool]


def overlap_problems(root: Block, absolute: Absolute) -> Iterator[Problem]:
    """Sources that lie in a table or have one in them that they would read; ``absolute`` resolves an address."""
    tables = [each for name, pipeline in root.blocks("pipelines") for each in written_places(name, pipeline, absolute)]
    for name, pipeline in root.blocks("pipelines"):
        for reading in readings_of(name, pipeline, absolute):
            yield from _problems(root, reading, tables)


def written_places(name: str, pipeline: Block, absolute: Absolute) -> Iterator[Table]:
    """The table of a pipeline and its dead letters."""
    sink = pipeline.block("sink")
    uri, letters = sink.text("table_uri"), pipeline.block("error_handling").text("dlq_path")
    if uri is None:
        return
    place = comparable(absolute(uri))
    yield Table(name, f"the table of pipeline {name!r}", place)
    given = comparable(absolute(letters)) if letters else f"{place}_dead_letters"
    yield Table(name, f"the dead-letter table of pipeline {name!r}", given)


def readings_of(name: str, pipeline: Block, absolute: Absolute) -> Iterator[Reading]:
    """The addresses that the sources of a pipeline read."""
    for source, block in pipeline.blocks("sources"):
        where = ("pipelines", name, "sources", source)
        uri, kind = block.text("source_uri"), tag_of_source(block)
        if uri is not None and kind in ("files", "table"):
            by_log = str(block.text("type") or "") in _LOGGED
            yield Reading(name, (*where, "source_uri"), comparable(absolute(uri)), by_log, _taken_by(block))
        elif uri is not None and kind == DOWNLOAD:
            yield _download(name, (*where, "source_uri"), uri, absolute)
        for at, each in inputs(block) if is_of_units(block) else ():
            path = each.text("path")
            if path is not None:
                by_log = str(each.text("format") or "delta") == "delta"
                at_path = (*where, "secondary_input", at, "path")
                yield Reading(name, at_path, comparable(absolute(path)), by_log, lambda _: True)


def _download(name: str, loc: Loc, uri: str, absolute: Absolute) -> Reading:
    """A template: the part before its first sign, and below it what fits when anything stands for a variable."""
    plain = VARIABLE.sub("*", uri)
    fixed = re.split(r"[*?]", plain)[0].rpartition("/")[0] or "."
    pattern = plain[len(fixed) + 1 :] if fixed != "." else plain
    source = PathSource("", Location(""), pattern=f"{pattern}" if "/" in pattern else f"**/{pattern}")
    return Reading(name, loc, comparable(absolute(fixed)), False, lambda path: accepts(source, path) is None)


def _taken_by(block: Block) -> Callable[[str], bool]:
    """Whether a file source takes a path; one that reads a scan of files goes by its pattern, if it has one."""
    pattern, exclude = block.text("pattern"), tuple(str(each) for each in words(block.get("exclude")))
    kind = str(block.text("format" if is_prefix_of_files(block) else "type") or "ndjson")
    kind = kind if kind in {each.value for each in Format} else "ndjson"
    source = PathSource("", Location(""), str(pattern) if pattern else None, exclude, format=Format(kind))
    return lambda path: accepts(source, path) is None


def _problems(root: Block, reading: Reading, tables: list[Table]) -> Iterator[Problem]:
    for table in tables:
        own = table.pipeline == reading.pipeline
        within, holds = inside(table.place, reading.place), inside(reading.place, table.place)
        if within is not None:
            yield from _within(root, reading, table, within, own=own)
        elif holds and not reading.by_log and _is_taken(reading, holds):
            text = f"{table.title} lies in it ({holds}), and its files would be read as source files"
            yield problem(root, reading.loc, f"{text}; move one of them, or exclude {holds!r}")


def _within(root: Block, reading: Reading, table: Table, path: str, *, own: bool) -> Iterator[Problem]:
    if path == "" and reading.by_log and (not own or "secondary_input" in reading.loc):
        return
    if own and table.title.startswith("the table"):
        text = "lies in the directory of the table that is written; allowed: another place"
    else:
        text = f"lies in {table.title}; allowed: another place, or the table itself by 'type: delta'"
    yield problem(root, reading.loc, text)


def _is_taken(reading: Reading, path: str) -> bool:
    try:
        return any(reading.takes(f"{path}/{name}") for name in _DATA_FILES)
    except (ValueError, re.error):
        return False


def order_problems(root: Block, absolute: Absolute) -> Iterator[Problem]:
    """Pipelines that wait for each other."""
    tables = {
        name: comparable(absolute(uri))
        for name, pipeline in root.blocks("pipelines")
        if (uri := pipeline.block("sink").text("table_uri")) is not None
    }
    places = {name: dict(_references(name, pipeline, tables, absolute)) for name, pipeline in root.blocks("pipelines")}
    found = cycle(tuple(places), places)
    if found:
        first, after = found[0], found[1] if len(found) > 1 else found[0]
        way = " → ".join((*found, found[0]))
        text = (
            "is the table of this pipeline itself" if len(found) == 1 else f"makes pipelines wait for each other: {way}"
        )
        yield problem(root, places[first][after], f"{text}; allowed: the table of one that does not need this one")


def _references(
    name: str, pipeline: Block, tables: dict[str, str], absolute: Absolute
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """The pipelines whose tables are read, as sources or as secondary inputs, and where that is said."""
    for source, block in pipeline.blocks("sources"):
        uri = block.text("source_uri")
        if uri is not None and tag_of_source(block) in ("files", "table"):
            where_read = ("pipelines", name, "sources", source, "source_uri")
            place = comparable(absolute(uri))
            yield from ((other, where_read) for other, table in tables.items() if table == place and other != name)
        for at, each in inputs(block) if is_of_units(block) else ():
            where = ("pipelines", name, "sources", source, "secondary_input", at)
            path, given = each.text("path"), each.text("pipeline")
            if given is not None:
                yield str(given), (*where, "pipeline")
            elif path is not None:
                yield from (
                    (other, (*where, "path")) for other, uri in tables.items() if uri == comparable(absolute(path))
                )


def in_order(pipelines: tuple[PipelineSpec, ...]) -> tuple[PipelineSpec, ...]:
    """The pipelines, each after those whose tables it has as secondary inputs."""
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    return tuple(by_name[name] for name in ordered(tuple(by_name), _needs(pipelines)))


def _needs(pipelines: tuple[PipelineSpec, ...]) -> dict[str, list[str]]:
    read = {
        pipeline.name: {each.location.uri for source in pipeline.unit_sources for each in source.inputs}
        for pipeline in pipelines
    }
    return {
        name: [other.name for other in pipelines if other.name != name and other.sink.table.uri in uris]
        for name, uris in read.items()
    }


def table_problems(root: Block, absolute: Absolute) -> Iterator[Problem]:
    tables: dict[str, list[str]] = defaultdict(list)
    for name, pipeline in root.blocks("pipelines"):
        written = pipeline.block("sink").text("table_uri")
        if written is not None:
            tables[absolute(written)].append(name)
    for names in tables.values():
        writers = [writer for name in names for writer in _writers(root, name, absolute)]
        yield from _writer_problems(root, writers)
        yield from _overwrite_problems(root, names, writers)
        yield from _agreement_problems(root, names)
        yield from same_unit_column_problems(root, names)


@dataclass(frozen=True, slots=True)
class _Writer:
    """One source of one pipeline, as seen from the table it writes."""

    pipeline: str
    source: str
    uri: str
    filters: str

    @property
    def loc(self) -> tuple[str, ...]:
        return ("pipelines", self.pipeline, "sources", self.source)

    @property
    def title(self) -> str:
        return f"{self.pipeline}/{self.source}"


def _writers(root: Block, name: str, absolute: Absolute) -> Iterator[_Writer]:
    for source, block in root.block("pipelines").block(name).blocks("sources"):
        uri = block.text("source_uri")
        filters = repr(
            [words(block.get(key)) for key in ("pattern", "exclude", "filter_expression")] + [_endings(block)]
        )
        yield _Writer(name, source, absolute(uri) if uri else "", filters)


def _endings(source: Block) -> str:
    """What tells the files of one source by their names, where it has no pattern."""
    kind = str(source.text("format") or "ndjson")
    return "" if source.get("pattern") is not None else "ndjson" if kind == "json" else kind


def _writer_problems(root: Block, writers: list[_Writer]) -> Iterator[Problem]:
    mirrors: dict[str, _Writer] = {}
    inputs: dict[tuple[str, str], _Writer] = {}
    for writer in writers:
        twin = mirrors.setdefault(f"{writer.pipeline}_{writer.source}", writer)
        if twin is not writer:
            text = f"{writer.title} and {twin.title} write one table and would share the mirror "
            yield problem(root, writer.loc, f"{text}'{twin.pipeline}_{twin.source}_checkpoint.json'; rename one")
        if not writer.uri:
            continue
        same = inputs.setdefault((writer.uri, writer.filters), writer)
        if same is not writer:
            text = f"{writer.title} and {same.title} read the same files into one table, which doubles rows"
            yield problem(root, (*writer.loc, "source_uri"), f"{text}; remove one")


def _overwrite_problems(root: Block, names: list[str], writers: list[_Writer]) -> Iterator[Problem]:
    """Who replaces a table's columns, its rows or those of a window is its only source."""
    others = ", ".join(writer.title for writer in writers)
    alone = f"wants to be the only source of its table, which has {others}"
    for name in names if len(writers) > 1 else ():
        pipeline = root.block("pipelines").block(name)
        where, sink = ("pipelines", name), pipeline.block("sink")
        if pipeline.text("schema_evolution") == "overwrite":
            yield problem(root, (*where, "schema_evolution"), f"overwrite {alone}; allowed: merge, strict")
        if (kind := sink.text("load_type")) in WHOLE:
            yield problem(root, (*where, "sink", "load_type"), f"{kind} {alone}; allowed: merge_upsert, append")
        if is_on(sink, "replace_by_watermark"):
            text = f"{alone}; allowed: false, or a table of its own"
            yield problem(root, (*where, "sink", "replace_by_watermark"), text)


def _agreement_problems(root: Block, names: list[str]) -> Iterator[Problem]:
    """Pipelines of one table partition it alike and want the same properties."""
    first, wanted = _template(root, names[0]), _properties(root, names[0])
    for name in names[1:]:
        if _properties(root, name) != wanted:
            text = f"pipeline {names[0]!r} writes this table with other table_properties; allowed: the same"
            yield problem(root, ("pipelines", name, "sink"), text)
        if partition_keys(_template(root, name)) != partition_keys(first):
            text = f"pipeline {names[0]!r} writes this table with other partition columns; allowed: the same"
            yield problem(root, ("pipelines", name, "sink"), text)


def _properties(root: Block, name: str) -> dict[str, str]:
    block = root.block("pipelines").block(name).block("sink").block("table_properties")
    return {str(key): str(value) for key, value in block.items() if isinstance(value, Scalar)}


def _template(root: Block, name: str) -> str:
    found = find(root, ("pipelines", name, "sink", "partition_by", "prefix_template"))
    return str(found) if isinstance(found, Scalar) else ""
