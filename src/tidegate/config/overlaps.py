"""Checks between pipelines: overlapping locations, tables with several writers, the order of runs."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.config.document import Absolute, Loc, Problem, Scalar, Spot, problem
from tidegate.config.normal_form import DOWNLOAD, is_file_source, is_unit_source, tag_of_source
from tidegate.config.sink import partition_keys
from tidegate.config.units import inputs
from tidegate.config.values import VARIABLE
from tidegate.config.work_units import same_unit_column_problems
from tidegate.core.files.discovery import SUFFIXES, accepts
from tidegate.specs.columns import WHOLE
from tidegate.specs.files import Format, PathSource
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec
from tidegate.specs.units import UnitSource
from tidegate.storage.stores import comparable_uri, path_inside

# Names that a table's data files may have: a filter that takes one of them would read the table's own files.
_DATA_FILES = ("0.parquet", "key=1/0.parquet")
_LOGGED = ("delta", "iceberg")


def overlap_problems(top: Spot, absolute: Absolute) -> Iterator[Problem]:
    """Sources that lie in a table or have one in them that they would read, and dead letters in the table of another.

    ``absolute`` resolves an address.
    """
    tables = [each for name, pipeline in top.each("pipelines") for each in _tables(name, pipeline, absolute)]
    yield from _mistaken_tables(top, tables)
    near = _Neighbours(tables)
    for name, pipeline in top.each("pipelines"):
        for reading in _readings(pipeline, absolute):
            for table in near.of(reading.place):
                text = _overlap(reading, table, own=table.pipeline == name)
                if text:
                    yield problem(top.root, reading.loc, text)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that a pipeline writes, its own or that of its dead letters, by comparable address."""

    pipeline: str
    title: str
    place: str
    key: Loc

    @property
    def holds_letters(self) -> bool:
        return self.title.startswith("the dead-letter")


class _Neighbours:
    """Tables by place, to find those that a place lies in, or that lie in it."""

    def __init__(self, tables: Sequence[_Table]) -> None:
        self._tables = tables
        self._numbers: dict[str, list[int]] = {}
        for number, table in enumerate(tables):
            self._numbers.setdefault(table.place, []).append(number)
        self._places = sorted(self._numbers)

    def of(self, place: str) -> Iterator[_Table]:
        """Those, in the order in which they were given."""
        # "0" is the character after "/": everything between the two lies below the place.
        below = self._places[bisect_left(self._places, f"{place}/") : bisect_left(self._places, f"{place}0")]
        above = (place[:end] for end, sign in enumerate(place) if sign == "/")
        found = (number for each in {place, *above, *below} for number in self._numbers.get(each, ()))
        return (self._tables[number] for number in sorted(found))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One address that a source reads: a table by its log, or the files that ``takes`` accepts."""

    loc: Loc
    place: str
    by_log: bool
    takes: Callable[[str], bool]


def _tables(name: str, pipeline: Spot, absolute: Absolute) -> Iterator[_Table]:
    """The table of a pipeline and its dead letters."""
    uri, letters = pipeline.below("sink").text("table_uri"), pipeline.below("error_handling").text("dlq_path")
    if uri is not None:
        place = comparable_uri(absolute(uri))
        key = ("sink", "table_uri")
        yield _Table(name, f"the table of pipeline {name!r}", place, key)
        given = comparable_uri(absolute(letters)) if letters else f"{place}_dead_letters"
        key = ("error_handling", "dlq_path") if letters else key
        yield _Table(name, f"the dead-letter table of pipeline {name!r}", given, key)


def _mistaken_tables(top: Spot, tables: Sequence[_Table]) -> Iterator[Problem]:
    """Dead letters that go into the table of another pipeline."""
    by_place: dict[str, list[_Table]] = defaultdict(list)
    for each in tables:
        by_place[each.place].append(each)
    for letters in (each for each in tables if each.holds_letters):
        for other in by_place[letters.place]:
            if not other.holds_letters and other.pipeline != letters.pipeline:
                text = f"{letters.title} is {other.title}; give it a path of its own"
                yield problem(top.root, ("pipelines", letters.pipeline, *letters.key), text)


def _readings(pipeline: Spot, absolute: Absolute) -> Iterator[_Reading]:
    """The addresses that the sources of a pipeline read."""
    for _, source in pipeline.each("sources"):
        uri, kind = source.text("source_uri"), tag_of_source(source.block)
        loc = (*source.loc, "source_uri")
        if uri is not None and kind in ("files", "table"):
            by_log = str(source.text("type") or "") in _LOGGED
            yield _Reading(loc, comparable_uri(absolute(uri)), by_log, _path_filter(source))
        elif uri is not None and kind == DOWNLOAD:
            yield _download(loc, uri, absolute)
        for each in inputs(source) if is_unit_source(source.block) else ():
            if (path := each.text("path")) is not None:
                by_log = str(each.text("format") or "delta") == "delta"
                yield _Reading((*each.loc, "path"), comparable_uri(absolute(path)), by_log, lambda _: True)


def _download(loc: Loc, uri: str, absolute: Absolute) -> _Reading:
    """Read a template as its fixed folder, and below it what matches with any text for a variable."""
    plain = VARIABLE.sub("*", uri)
    fixed = re.split(r"[*?]", plain)[0].rpartition("/")[0] or "."
    pattern = plain[len(fixed) + 1 :] if fixed != "." else plain
    source = PathSource("", Location(""), pattern=pattern if "/" in pattern else f"**/{pattern}")
    return _Reading(loc, comparable_uri(absolute(fixed)), False, lambda path: accepts(source, path) is None)


def _path_filter(source: Spot) -> Callable[[str], bool]:
    """Whether a file source takes a path; one that reads a scan of files goes by its pattern, if it has one."""
    pattern, exclude = source.text("pattern"), tuple(str(each) for each in source.words("exclude"))
    kind = str(source.text("format" if is_file_source(source.block) else "type") or "ndjson")
    kind = kind if kind in {each.value for each in Format} else "ndjson"
    made = PathSource("", Location(""), str(pattern) if pattern else None, exclude, format=Format(kind))
    return lambda path: accepts(made, path) is None


def _overlap(reading: _Reading, table: _Table, *, own: bool) -> str:
    """Why one place cannot be read while the other is written; empty if it can."""
    within, holds = path_inside(table.place, reading.place), path_inside(reading.place, table.place)
    if within is None:
        if not holds or reading.by_log or not _is_taken(reading, holds):
            return ""
        text = f"{table.title} lies in it ({holds}), so its files would be read as source files"
        return f"{text}; move one of them, or exclude {holds!r}"
    # Read by its log, a table shows only committed rows: one pipeline may read what another writes.
    if within == "" and reading.by_log and (not own or "secondary_input" in reading.loc):
        return ""
    if own and table.title.startswith("the table"):
        return "lies in the directory of the pipeline's own table; use another path"
    return f"lies in {table.title}; use another path, or read the table itself with 'type: delta'"


def _is_taken(reading: _Reading, path: str) -> bool:
    try:
        return any(reading.takes(f"{path}/{name}") for name in _DATA_FILES)
    # A pattern that cannot be compiled is reported as a problem of its own key.
    except (ValueError, re.error):
        return False


def order_problems(top: Spot, absolute: Absolute) -> Iterator[Problem]:
    """Pipelines that wait for each other."""
    tables = {
        name: comparable_uri(absolute(uri))
        for name, pipeline in top.each("pipelines")
        if (uri := pipeline.below("sink").text("table_uri")) is not None
    }
    places = {name: dict(_references(name, pipeline, tables, absolute)) for name, pipeline in top.each("pipelines")}
    found = cycle(tuple(places), places)
    if found:
        text = f"makes pipelines wait for each other: {' → '.join((*found, found[0]))}"
        text = "is this pipeline's own table" if len(found) == 1 else text
        place = places[found[0]][found[1] if len(found) > 1 else found[0]]
        yield problem(top.root, place, f"{text}; use the table of a pipeline that does not depend on this one")


def _references(
    name: str, pipeline: Spot, tables: Mapping[str, str], absolute: Absolute
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """The pipelines whose tables this one reads, as source or as secondary input, with the places in the file."""
    for _, source in pipeline.each("sources"):
        uri = source.text("source_uri")
        if uri is not None and tag_of_source(source.block) in ("files", "table"):
            place = comparable_uri(absolute(uri))
            same = (other for other, table in tables.items() if table == place and other != name)
            yield from ((other, (*source.loc, "source_uri")) for other in same)
        for each in inputs(source) if is_unit_source(source.block) else ():
            path, given = each.text("path"), each.text("pipeline")
            if given is not None:
                yield str(given), (*each.loc, "pipeline")
            elif path is not None:
                place = comparable_uri(absolute(path))
                yield from ((other, (*each.loc, "path")) for other, table in tables.items() if table == place)


def in_order(pipelines: tuple[PipelineSpec, ...]) -> tuple[PipelineSpec, ...]:
    """The pipelines, each after those whose tables it reads as secondary inputs."""
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    needs = {}
    for name, pipeline in by_name.items():
        read = {each.location.uri for source in pipeline.of(UnitSource) for each in source.inputs}
        needs[name] = [other for other, each in by_name.items() if other != name and each.sink.table.uri in read]
    return tuple(by_name[name] for name in sort_by_needs(tuple(by_name), needs))


def table_problems(top: Spot, absolute: Absolute) -> Iterator[Problem]:
    """Problems between the sources and pipelines of one table."""
    tables: dict[str, dict[str, Spot]] = defaultdict(dict)
    for name, pipeline in top.each("pipelines"):
        written = pipeline.below("sink").text("table_uri")
        if written is not None:
            tables[comparable_uri(absolute(written))][name] = pipeline
    for pipelines in tables.values():
        sources = {
            (name, source): spot for name, pipeline in pipelines.items() for source, spot in pipeline.each("sources")
        }
        yield from _writer_problems(sources, absolute)
        yield from _nesting_problems(sources, absolute)
        yield from _overwrite_problems(pipelines, sources)
        yield from _agreement_problems(pipelines)
        yield from same_unit_column_problems(pipelines)


def _writer_problems(sources: Mapping[tuple[str, str], Spot], absolute: Absolute) -> Iterator[Problem]:
    mirrors: dict[str, tuple[str, str]] = {}
    read: dict[tuple[str, str], tuple[str, str]] = {}
    for writer, source in sources.items():
        # a_b/c and a/b_c have the same checkpoint file.
        twin = mirrors.setdefault("_".join(writer), writer)
        if twin != writer:
            text = f"{'/'.join(writer)} and {'/'.join(twin)} write one table and would share the checkpoint file "
            yield source.problem(f"{text}'{'_'.join(twin)}_checkpoint.json'; rename one")
        uri = source.text("source_uri")
        if not uri:
            continue
        kind = str(source.text("format") or "ndjson")
        endings = "" if source.has("pattern") else "ndjson" if kind == "json" else kind
        filters = [source.words(key) for key in ("pattern", "exclude", "filter_expression")]
        same = read.setdefault((comparable_uri(absolute(uri)), repr([*filters, endings])), writer)
        if same != writer:
            text = f"{'/'.join(writer)} and {'/'.join(same)} read the same files into one table, which doubles rows"
            yield source.problem(f"{text}; remove one", "source_uri")


def _nesting_problems(sources: Mapping[tuple[str, str], Spot], absolute: Absolute) -> Iterator[Problem]:
    """File sources of one table that lie inside each other, so that both take the same files."""
    names = [f"{folder}0{each}" for suffixes in SUFFIXES.values() for each in suffixes for folder in ("", "key=1/")]
    files = [
        (writer, source, comparable_uri(absolute(uri)), _path_filter(source))
        for writer, source in sources.items()
        if is_file_source(source.block) and (uri := source.text("source_uri"))
    ]
    for writer, source, place, takes in files:
        for other, _, outer, takes_too in files:
            path = path_inside(outer, place)
            if path and any(takes(name) and takes_too(f"{path}/{name}") for name in names):
                text = f"{'/'.join(writer)} lies in {'/'.join(other)}, which reads the same files into one table"
                text = f"{text}, which doubles rows; remove one, or exclude {path!r} there"
                yield source.problem(text, "source_uri")


def _overwrite_problems(pipelines: Mapping[str, Spot], sources: Mapping[tuple[str, str], Spot]) -> Iterator[Problem]:
    """A source that overwrites columns, rows or a window must be the only source of its table."""
    alone = f"needs a table with a single source; this one has {', '.join('/'.join(each) for each in sources)}"
    for pipeline in pipelines.values() if len(sources) > 1 else ():
        sink = pipeline.below("sink")
        if pipeline.text("schema_evolution") == "overwrite":
            yield pipeline.problem(f"overwrite {alone}; allowed: merge, strict", "schema_evolution")
        if (kind := sink.text("load_type")) in WHOLE:
            yield sink.problem(f"{kind} {alone}; allowed: merge_upsert, append", "load_type")
        if sink.is_on("replace_by_watermark"):
            yield sink.problem(f"{alone}; set it to false, or use another table", "replace_by_watermark")


def _agreement_problems(pipelines: Mapping[str, Spot]) -> Iterator[Problem]:
    """Pipelines of one table that disagree about partitions or properties."""
    first, *others = pipelines
    properties, keys = _table_settings(pipelines[first].below("sink"))
    for name in others:
        sink = pipelines[name].below("sink")
        other_properties, other_keys = _table_settings(sink)
        if other_properties != properties:
            yield sink.problem(f"pipeline {first!r} writes this table with other table_properties; make them equal")
        if other_keys != keys:
            yield sink.problem(f"pipeline {first!r} writes this table with other partition columns; make them equal")


def _table_settings(sink: Spot) -> tuple[dict[str, str], tuple[str, ...]]:
    """The properties and the partition columns that a pipeline wants."""
    block, template = sink.below("table_properties").block, sink.below("partition_by").get("prefix_template")
    properties = {str(key): str(value) for key, value in block.items() if isinstance(value, Scalar)}
    return properties, partition_keys(str(template) if isinstance(template, Scalar) else "")


def sort_by_needs(names: Sequence[str], needs: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """``names`` in topological order, otherwise in their given order; a cycle is broken where it closes.

    >>> sort_by_needs(["answers", "surveys", "other"], {"answers": ["surveys"]})
    ('surveys', 'answers', 'other')
    """
    done: dict[str, None] = {}
    waiting = [*reversed(names)]
    begun: set[str] = set()
    while waiting:
        name = waiting.pop()
        first = [each for each in names if each in needs.get(name, ()) and each not in begun]
        if name in begun or not first:
            begun.add(name)
            done.setdefault(name)
        else:
            begun.add(name)
            waiting += [name, *reversed(first)]
    return tuple(done)


def cycle(names: Sequence[str], needs: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The names of one dependency cycle, in order; empty if there is none.

    >>> cycle(["a", "b", "c"], {"a": ["b"], "b": ["c"], "c": ["b"]})
    ('b', 'c')
    """
    free: set[str] = set()
    for name in names:
        way: list[str] = [name]
        while way:
            ahead = next((each for each in names if each in needs.get(way[-1], ()) and each not in free), None)
            if ahead is None:
                free.add(way.pop())
            elif ahead in way:
                return tuple(way[way.index(ahead) :])
            else:
                way.append(ahead)
    return ()
