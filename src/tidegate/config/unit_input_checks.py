"""Secondary inputs: what each needs, and whether pipelines that read each other's tables can be put in an order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.config.problems import Problem, nearest, problem, sentence
from tidegate.config.source_kinds import is_of_units, tag_of_source
from tidegate.config.tree import Block, Loc
from tidegate.config.unit_variables import inputs, makes_units
from tidegate.config.words import words
from tidegate.core.pipeline_order import cycle
from tidegate.storage.stores import comparable

Absolute = Callable[[str], str]
Path = tuple[str, ...]
_ALIKE = ("fields", "as", "auth_fields")


def input_problems(root: Block, where: Path, source: Block) -> Iterator[Problem]:
    """Problems of the secondary inputs of one source."""
    made = [(at, each) for at, each in inputs(source) if makes_units(each)]
    for at, each in made[1:]:
        for key in _ALIKE:
            if words(each.get(key)) != words(made[0][1].get(key)):
                text = f"other {key!r} than input [{made[0][0]}], which makes units too; allowed: the same"
                yield problem(root, (*where, "secondary_input", at), text)
    for at, each in inputs(source):
        place: Loc = (*where, "secondary_input", at)
        yield from _place_problems(root, place, each)
        yield from _field_problems(root, place, each)


def _place_problems(root: Block, at: Loc, each: Block) -> Iterator[Problem]:
    """Where the rows are: a path, or the table of a pipeline that is there."""
    path, pipeline = each.get("path"), each.text("pipeline")
    if (path is None) == (each.get("pipeline") is None):
        both = path is not None
        text = "given beside 'path'; allowed: one of them" if both else "neither 'path' nor 'pipeline' is given"
        yield problem(root, (*at, "pipeline") if both else at, text)
        return
    known = root.block("pipelines")
    if each.get("csv") is not None and str(each.text("format") or "delta") != "csv":
        yield problem(root, (*at, "csv"), "is about CSV files; set format: csv, or remove it")
    if pipeline is not None and pipeline not in known:
        hint = nearest(pipeline, known) or f"allowed: {', '.join(known)}"
        yield problem(root, (*at, "pipeline"), sentence(f"there is no pipeline {pipeline.raw!r}", hint))
    elif pipeline is not None and (given := each.text("format")) is not None and given != "delta":
        yield problem(root, (*at, "format"), f"the table of {pipeline.raw!r} is delta; remove it")


def _field_problems(root: Block, at: Loc, each: Block) -> Iterator[Problem]:
    """Which fields are shown, which are secrets, and by which names they are used."""
    fields = [str(word) for word in words(each.get("fields"))]
    if each.get("as") is not None and len(fields) > 1:
        text = "names the variable of a single field; several fields are variables by their own names; remove it"
        yield problem(root, (*at, "as"), text)
    for word in words(each.get("auth_fields")):
        if word in fields:
            yield problem(
                root, (*at, "auth_fields"), f"{word.raw!r} is in 'fields' too, which are shown; remove it there"
            )


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
