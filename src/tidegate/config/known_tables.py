"""What runs remember beside the configuration: where tables lie that have only a name, and the tables of databases.

Commands without Spark, or without the database, read it. Nothing depends on it for correctness: a run asks the catalog
and the database again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.core.database_tables import DatabaseTable
from tidegate.specs.columns import ColumnSource, TableRead
from tidegate.specs.locations import CATALOG, Location, identity_of
from tidegate.specs.project import PipelineSpec, ProjectSpec, TableBlock

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
        self.path = _place_beside(origin, "tables")

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
        return _write(self.path, {other: asdict(each) for other, each in sorted(tables.items())})


@dataclass(frozen=True, slots=True)
class KnownBlock:
    """The selected tables of a block when a run last asked its database, and those that it had before.

    ``database`` identifies the database, without anything secret.
    """

    database: str
    tables: tuple[DatabaseTable, ...]
    vanished: tuple[DatabaseTable, ...] = ()

    @classmethod
    def of(cls, block: TableBlock, tables: tuple[DatabaseTable, ...]) -> KnownBlock:
        """What is known of a block whose database has just been asked for the first time."""
        return cls(identity_of(block.read.url), tables)

    def to_json(self) -> dict[str, Any]:
        """The form in which it is remembered."""
        lists = {"tables": self.tables, "vanished": self.vanished}
        return {"database": self.database} | {key: [each.to_json() for each in some] for key, some in lists.items()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> KnownBlock:
        """What was remembered; ValueError, KeyError or TypeError if it cannot be read."""
        tables, vanished = (tuple(map(DatabaseTable.from_json, found[key])) for key in ("tables", "vanished"))
        return cls(str(found["database"]), tables, vanished)


class KnownBlocks:
    """The file beside a configuration that remembers the tables of its blocks."""

    def __init__(self, origin: str) -> None:
        self.path = _place_beside(origin, "databases")

    def read(self, block: TableBlock) -> KnownBlock | None:
        """What is remembered of a block; None without a file, if it is damaged, or if it is of another database."""
        try:
            found = KnownBlock.from_json(self._read()[block.name])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return found if found.database == identity_of(block.read.url) else None

    def save(self, known: Mapping[str, KnownBlock]) -> bool:
        """Remember the tables of these blocks; False if the folder cannot be written."""
        if self.path is None or not known:
            return True
        try:
            before = self._read()
        except (OSError, ValueError, TypeError, AttributeError):
            before = {}
        after = before | {name: each.to_json() for name, each in known.items()}
        return after == before or _write(self.path, after, indent=None)

    def _read(self) -> dict[str, Any]:
        return {} if self.path is None else dict(json.loads(self.path.read_text("utf-8")))


def _place_beside(origin: str, what: str) -> Path | None:
    """The file beside a configuration; a configuration given as text has no place of its own."""
    config = Path(origin)
    return config.absolute().parent / FOLDER / f"{config.stem}.{what}.json" if config.is_file() else None


def _write(path: Path, content: Mapping[str, Any], indent: int | None = 2) -> bool:
    """Replace the file as a whole; False if the folder cannot be written."""
    try:
        path.parent.mkdir(exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(prefix=".tables-", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=indent) + "\n")
        os.replace(fresh, path)
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
