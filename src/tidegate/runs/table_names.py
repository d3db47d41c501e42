"""Tables by name: where each lies, whether it is still the same table, and its entry in Spark's catalog.

A run asks the catalog of its session once per pipeline, and then reads and commits by path as ever. The table's id in
its own log is its identity, not its name and not its path. Names, places and ids are kept in a file beside the
configuration, so that commands without Spark find the table; nothing depends on that file for correctness.

An entry in the catalog is made after the first commit. If a run is killed in between, the next one makes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tidegate.config.known_tables import KnownTable, KnownTables
from tidegate.errors import TableError, TidegateError
from tidegate.observe.events import Emit, Notice
from tidegate.protocol.store import open_delta
from tidegate.runs.engine import CatalogPort
from tidegate.specs.columns import ColumnSource, TableRead
from tidegate.specs.locations import Location
from tidegate.specs.project import PipelineSpec, ProjectSpec
from tidegate.storage.options import absolute_uri
from tidegate.storage.stores import comparable_uri, open_store


class TableNames:
    """The tables of one run that are given by name; asks the catalog once for each."""

    def __init__(self, project: ProjectSpec, catalog: Callable[[], CatalogPort | None], emit: Emit) -> None:
        self._open_catalog = catalog
        self._emit = emit
        self._known = KnownTables(project.origin)
        self._located: dict[str, PipelineSpec] = {}
        self._owners: dict[str, str] = {}
        # For what is kept here and in the file, never while a catalog is asked: that may take as long as it likes.
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}

    def locate(self, pipeline: PipelineSpec) -> PipelineSpec:
        """The pipeline with the places of its tables; :class:`TableError` if a name is not what it was."""
        if not pipeline.has_names:
            return pipeline
        # Sources of one pipeline run side by side, and ask for the same tables.
        with self._turn_of(f"pipeline {pipeline.name}"):
            if pipeline.name not in self._located:
                catalog = self._open_catalog()
                found = pipeline if catalog is None else self._look_up(pipeline, catalog)
                self._located[pipeline.name] = found
            return self._located[pipeline.name]

    def settle(self, pipeline: PipelineSpec) -> None:
        """After a pass: register a table that was created, and remember its id."""
        if pipeline.sink.name is not None:
            with self._turn_of(f"table {pipeline.sink.name.lower()}"):
                self._settle(pipeline, pipeline.sink.name, pipeline.sink.table)

    def _turn_of(self, what: str) -> threading.Lock:
        """The lock of one pipeline or table: of others nobody waits for a catalog that does not respond."""
        with self._lock:
            return self._turns.setdefault(what, threading.Lock())

    def _settle(self, pipeline: PipelineSpec, name: str, location: Location) -> None:
        known = self._known.read().get(name)
        table_id = _id_at(location)
        if table_id is None or (known is not None and known.registered and known.table_id == table_id):
            return
        catalog = self._open_catalog()
        if catalog is None:
            self._remember(pipeline.name, name, KnownTable(location.uri, table_id))
            return
        catalog.register(name, location)
        self._remember(pipeline.name, name, KnownTable(location.uri, table_id, registered=True))

    def _look_up(self, pipeline: PipelineSpec, catalog: CatalogPort) -> PipelineSpec:
        def place(location: Location, name: str | None, *, is_new: bool) -> Location:
            if name is None:
                return location
            with self._turn_of(f"table {name.lower()}"):
                return self._place(pipeline.name, name, location, catalog, is_new=is_new)

        sources = tuple(
            replace(each, read=replace(each.read, location=place(each.read.location, each.read.name, is_new=False)))
            if isinstance(each, ColumnSource) and isinstance(each.read, TableRead)
            else each
            for each in pipeline.sources
        )
        table = place(pipeline.sink.table, pipeline.sink.name, is_new=True)
        return replace(pipeline, sources=sources, sink=replace(pipeline.sink, table=table))

    def _place(self, pipeline: str, name: str, given: Location, catalog: CatalogPort, *, is_new: bool) -> Location:
        """Where the table of that name lies now; ``is_new``: it may have to be created."""
        known = self._known.read()
        before, entry = known.get(name), catalog.find(name)
        if entry is None:
            return self._place_of_missing(pipeline, name, given, catalog, before, is_new=is_new)
        if entry.provider != "delta":
            raise TableError(
                f"{name} is a table of format {entry.provider or 'unknown'} in Spark's catalog",
                "Tidegate writes Delta tables: set 'table' to one, or to a name that is free",
            )
        location = replace(given, uri=absolute_uri(entry.location, Path("/")))
        # Remembered places stand in for a missing `location`, so what a person wrote is known by being different.
        written = given.is_located and (before is None or before.location != given.uri)
        if written and not _is_same_place(given, location):
            raise TableError(
                f"{name} lies at {location.uri} according to Spark's catalog, and its 'location' is {given.uri}",
                "correct 'location', or leave it out",
            )
        self._check_identity(name, location, before)
        self._check_owner(name, location)
        was = next((other for other, each in known.items() if other != name and each.location == location.uri), None)
        if was is not None and catalog.find(was) is None:
            self._emit(Notice(pipeline, "", f"the table {name} was called {was} before; its position is carried on"))
        else:
            was = None
        self._remember(pipeline, name, KnownTable(location.uri, _id_at(location) or "", registered=True), was)
        return location

    def _place_of_missing(
        self,
        pipeline: str,
        name: str,
        given: Location,
        catalog: CatalogPort,
        before: KnownTable | None,
        *,
        is_new: bool,
    ) -> Location:
        """Where a table goes that the catalog does not have; only one that is written may be missing."""
        if not is_new:
            raise TableError(f"Spark's catalog has no table {name}", "correct 'table', or create it first")
        if before is not None and before.registered and not catalog.forgets:
            raise TableError(
                f"Spark's catalog has no table {name} any more; it was at {before.location}",
                f"if it was renamed, set sink.table to its new name; to create or register it again, remove {name!r} "
                f"from {self._known.path}",
            )
        location = given
        if not given.is_located:
            location = replace(given, uri=absolute_uri(catalog.place_of_new(name), Path("/")))
        self._check_identity(name, location, before)
        self._check_owner(name, location)
        table_id = _id_at(location)
        # Left by a run that was killed after its first commit, or written by path before it had a name.
        if table_id is not None:
            catalog.register(name, location)
        self._remember(pipeline, name, KnownTable(location.uri, table_id or "", registered=table_id is not None))
        return location

    def _check_identity(self, name: str, location: Location, before: KnownTable | None) -> None:
        if before is None or not before.table_id:
            return
        remedy = f"if this is the table you mean, remove {name!r} from {self._known.path} and run again"
        if before.location != location.uri:
            raise TableError(f"{name} moved from {before.location} to {location.uri}; nothing was written", remedy)
        found = _id_at(location)
        if found is not None and found != before.table_id:
            raise TableError(
                f"{name} is another table than before: its id is {found} and was {before.table_id}; nothing was "
                "written",
                remedy,
            )

    def _check_owner(self, name: str, location: Location) -> None:
        """Two names of one table would be two pipelines that do not know of each other."""
        with self._lock:
            first = self._owners.setdefault(comparable_uri(location.uri), name)
        if first.lower() != name.lower():
            raise TableError(
                f"{name} and {first} are one table, at {location.uri}", "give both pipelines the same name of it"
            )

    def _remember(self, pipeline: str, name: str, known: KnownTable, instead_of: str | None = None) -> None:
        with self._lock:
            is_saved = self._known.save(name, known, instead_of)
        if not is_saved:
            self._emit(
                Notice(
                    pipeline,
                    "",
                    f"the place of {name} could not be saved in {self._known.path}; status and plan need sink.location",
                )
            )


def _is_same_place(one: Location, other: Location) -> bool:
    return comparable_uri(one.uri) == comparable_uri(other.uri)


def _id_at(location: Location) -> str | None:
    """The id of the table at ``location``; None if there is none, or it cannot be read: the run itself says why."""
    try:
        snapshot = open_delta(location, open_store(location)).snapshot()
    except TidegateError:
        return None
    return None if snapshot is None else snapshot.facts.table_id
