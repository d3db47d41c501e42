"""Moves from other systems: takes over the positions they left in tables, and converts properties files."""

from __future__ import annotations

from pathlib import Path

from tidegate.commands.project import Config, file_sources
from tidegate.migrate.blizzard import AdoptOptions
from tidegate.migrate.blizzard import adopt as adopt_source
from tidegate.migrate.property_import import import_file
from tidegate.reports.checks import Adoption
from tidegate.reports.project import PropertiesImport


def adopt(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    dry_run: bool = False,
    quiet_for: float = 600.0,
    fresh: bool = False,
    read_skipped: bool = False,
) -> tuple[Adoption, ...]:
    """Take over the positions that another system left in a pipeline's table; problems are in the report.

    It must have been idle for ``quiet_for`` seconds. ``fresh`` starts a source at the beginning that it never
    read. ``read_skipped`` reads files that it skipped in partitions without an entry.
    """
    options = AdoptOptions(dry_run, quiet_for, fresh, read_skipped)
    return tuple(adopt_source(bound, options) for bound in file_sources(config, pipeline, source))


def import_properties(path: str | Path) -> PropertiesImport:
    """Convert a properties file of another system into a configuration, and report what was not converted.

    Writes nothing. Copies no secrets: they become environment variables.
    """
    return import_file(Path(path))
