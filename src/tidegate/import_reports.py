"""What ``config import`` gives back: the configuration, and what of the older file is not in it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.reports import Report


@dataclass(frozen=True, slots=True)
class PropertyNote(Report):
    """One property of a file, by its line, and why it is not in the configuration as it was."""

    line: int
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class PropertiesImport(Report):
    """A properties file as a configuration.

    ``carried`` are the properties that ``yaml`` says in its own way, ``left`` those that it does not say or not as a
    whole, ``not_needed`` those that have nothing to do here. ``variables`` of the environment are to be set before
    ``yaml`` is used: what was secret, and what the file did not say itself.
    """

    origin: str
    yaml: str
    carried: tuple[str, ...] = ()
    left: tuple[PropertyNote, ...] = ()
    not_needed: tuple[PropertyNote, ...] = ()
    variables: tuple[str, ...] = ()
