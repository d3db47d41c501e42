"""Sources and tables that lie in each other: a table that is read as files comes back as rows, at every run again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidegate.config.problems import Problem, problem
from tidegate.config.source_kinds import DOWNLOAD, is_of_units, is_prefix_of_files, tag_of_source
from tidegate.config.tree import Block, Loc
from tidegate.config.unit_variables import VARIABLE, inputs
from tidegate.config.words import words
from tidegate.core.files.discovery import accepts
from tidegate.specs.locations import Location
from tidegate.specs.project import Format, PathSource
from tidegate.storage.stores import comparable, inside

Absolute = Callable[[str], str]
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
    tables = [each for name, pipeline in root.blocks("pipelines") for each in tables_of(name, pipeline, absolute)]
    for name, pipeline in root.blocks("pipelines"):
        for reading in readings_of(name, pipeline, absolute):
            yield from _problems(root, reading, tables)


def tables_of(name: str, pipeline: Block, absolute: Absolute) -> Iterator[Table]:
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
