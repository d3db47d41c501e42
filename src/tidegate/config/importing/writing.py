"""From the text of a properties file to YAML that loads, with a report of what is not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tidegate.config.importing.given import Given
from tidegate.config.importing.pipelines import project_of
from tidegate.config.importing.properties import properties
from tidegate.errors import ConfigError
from tidegate.reports.staging import PropertiesImport, PropertyNote


def import_text(text: str, origin: str) -> PropertiesImport:
    """The configuration that does what the job of a properties file did, as far as it can be said.

    No secret is in it: those are variables of the environment. It loads as soon as the variables are set.
    """
    found = tuple(properties(text))
    if not any(each.value for each in found):
        raise ConfigError((f"{origin}: holds no properties; allowed: lines of the form name=value",))
    given = Given.of(origin, found)
    data = project_of(given)
    made = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
    left, not_needed = given.rest()
    notes = sorted({*given.notes, *left}, key=lambda each: (each.line, each.name, each.reason))
    notes += _problems(made, given)
    lost = {each.name for each in notes}
    return PropertiesImport(
        origin=origin,
        yaml=f"# Made from {origin.rpartition('/')[2]}\n{made}",
        carried=tuple(name for name in given.properties if name in given.used and name not in lost),
        left=tuple(notes),
        not_needed=tuple(sorted(not_needed, key=lambda each: each.line)),
        variables=tuple(sorted(_used(given, made))),
    )


def import_file(path: Path) -> PropertiesImport:
    """The same for a file; :class:`ConfigError` where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise ConfigError(
            (f"{path}: cannot be read: {exc.strerror}; allowed: the path of a properties file",)
        ) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return import_text(text, str(path))


def _used(given: Given, made: str) -> dict[str, Any]:
    """The variables of the environment that the file has."""
    return {name: sample for name, sample in given.samples.items() if f"${{{name}}}" in made}


def _problems(made: str, given: Given) -> list[PropertyNote]:
    """What still keeps the configuration from loading, for a person to correct."""
    from tidegate.config.loading import load

    try:
        load(made, env=given.samples)
    except ConfigError as error:
        return [PropertyNote(0, "configuration", text.removeprefix("<text>:")) for text in error.problems]
    return []
