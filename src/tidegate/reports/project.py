"""New projects: ``init``, ``demo``, and imported properties files."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.reports.report import Report


@dataclass(frozen=True, slots=True)
class InitReport(Report):
    """The files of a new project; ``variables`` is the file that names the variables to set before a run, if any."""

    folder: str
    files: tuple[str, ...]
    next_commands: tuple[str, ...]
    variables: str = ""


@dataclass(frozen=True, slots=True)
class DemoStep(Report):
    """One step of the demo: title, text, the command that does the same, and a table to show."""

    title: str
    text: str = ""
    command: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DemoReport(Report):
    """What the demo made, and where; ``next_commands`` can be tried afterwards."""

    folder: str
    config: str
    steps: tuple[DemoStep, ...]
    ok: bool
    seconds: float
    next_commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyNote(Report):
    """A property of a file, by its line, and why it was not converted as it stands.

    ``changes_what_is_read``: without it the pipeline reads other data than the job did.
    """

    line: int
    name: str
    reason: str
    changes_what_is_read: bool = False


@dataclass(frozen=True, slots=True)
class PropertiesImport(Report):
    """A properties file converted into a configuration.

    ``carried`` properties are in ``yaml``, ``left`` ones are not or only in part, ``not_needed`` ones have no purpose
    here. The environment ``variables`` must be set before ``yaml`` is used: secrets, and what the file did not define.
    ``reads_the_same`` is False if the pipeline would read other data than the job did, or does not load yet.
    """

    origin: str
    yaml: str
    carried: tuple[str, ...] = ()
    left: tuple[PropertyNote, ...] = ()
    not_needed: tuple[PropertyNote, ...] = ()
    variables: tuple[str, ...] = ()
    reads_the_same: bool = True
