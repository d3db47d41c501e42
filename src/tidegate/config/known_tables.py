"""Where tables lie that a configuration gives by name, as runs remember it in a file beside the configuration.

Commands without Spark read it. Nothing depends on it for correctness: a run asks the catalog again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tidegate.specs.columns import ColumnSource, TableRead
from tidegate.specs.locations import CATALOG, Location
from tidegate.specs.project import PipelineSpec, ProjectSpec

FOLDER = ".tidegate"


@dataclass(frozen=True, slots=True)
class KnownTable:
    """Where a name pointed when a run last looked; ``table_id`` is that of the Delta log, empty before there is one."""

    location: str
    table_id: str = ""
    registered: bool = False


class KnownTables:
    """The file beside a configuration that remembers the places of names."""

    def __init__(self, origin: str) -> None:
        config = Path(origin)
        # A configuration given as text has no place of its own.
        self.path = config.absolute().parent / FOLDER / f"{config.stem}.tables.json" if config.is_file() else None

    def read(self) -> dict[str, KnownTable]:
        """Everything remembered; nothing if the file is missing or damaged, as the catalog knows it too."""
        try:
            found = json.loads(self.path.read_text("utf-8")) if self.path is not None else {}
            return {name: KnownTable(**known) for name, known in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def save(self, name: str, known: KnownTable, instead_of: str | None = None) -> bool:
        """Remember ``name``, and forget the name that it had before; False if the folder cannot be written."""
        if self.path is None:
            return True
        tables = self.read()
        if tables.get(name) == known and instead_of is None:
            return True
        tables = {other: each for other, each in tables.items() if other != instead_of} | {name: known}
        text = json.dumps({other: asdict(each) for other, each in sorted(tables.items())}, indent=2)
        try:
            self.path.parent.mkdir(exist_ok=True)
            descriptor, fresh = tempfile.mkstemp(prefix=".tables-", dir=self.path.parent)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(fresh, self.path)
        except OSError:
            return False
        return True


def with_known_places(project: ProjectSpec) -> ProjectSpec:
    """The project with the remembered places of tables that are given by name."""
    known = KnownTables(project.origin).read()

    def place(location: Location) -> Location:
        found = known.get(location.uri.removeprefix(CATALOG))
        return location if found is None or location.is_located else replace(location, uri=found.location)

    return replace(project, pipelines=tuple(_with_places(each, place) for each in project.pipelines))


def _with_places(pipeline: PipelineSpec, place: Callable[[Location], Location]) -> PipelineSpec:
    sources = tuple(
        replace(each, read=replace(each.read, location=place(each.read.location)))
        if isinstance(each, ColumnSource) and isinstance(each.read, TableRead)
        else each
        for each in pipeline.sources
    )
    return replace(pipeline, sources=sources, sink=replace(pipeline.sink, table=place(pipeline.sink.table)))
