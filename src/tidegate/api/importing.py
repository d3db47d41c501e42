"""Files of older systems, as configurations."""

from __future__ import annotations

from pathlib import Path

from tidegate.reports.staging import PropertiesImport


def import_properties(path: str | Path) -> PropertiesImport:
    """The properties file of an older system as a configuration, and what of it could not be carried over.

    Writes nothing. Secrets are not copied: they become variables of the environment.
    """
    from tidegate.migrate.property_import import import_file

    return import_file(Path(path))
