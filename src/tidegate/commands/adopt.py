"""Taking over from older systems: the positions that Blizzard left in a table, and properties files."""

from __future__ import annotations

from pathlib import Path

from tidegate.commands.project import Config, file_sources
from tidegate.migrate.blizzard import AdoptOptions
from tidegate.migrate.blizzard import adopt as adopt_source
from tidegate.migrate.property_import import import_file
from tidegate.reports.run import Adoption
from tidegate.reports.table import PropertiesImport


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
    """Take over the positions that Blizzard left in a pipeline's table; what speaks against it is in the report.

    It must not have moved for ``quiet_for`` seconds. ``fresh`` starts a source at the beginning that it never read,
    ``read_skipped`` leaves the files to be read that it passed over in partitions of which it noted nothing.
    """
    options = AdoptOptions(dry_run, quiet_for, fresh, read_skipped)
    return tuple(adopt_source(bound, options) for bound in file_sources(config, pipeline, source))


def import_properties(path: str | Path) -> PropertiesImport:
    """The properties file of an older system as a configuration, and what of it could not be carried over.

    Writes nothing. Secrets are not copied: they become variables of the environment.
    """
    return import_file(Path(path))
