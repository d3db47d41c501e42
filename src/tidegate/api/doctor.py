"""Whether this machine and a configuration are ready."""

from __future__ import annotations

from tidegate.api.opening import Config, load, open_column_places, open_places, open_unit_places
from tidegate.errors import ConfigError
from tidegate.reports.run import Check


def doctor(config: Config | None = None) -> tuple[Check, ...]:
    """Looks at this machine and, with a configuration, at its sources and tables; changes nothing."""
    from tidegate.commands.doctor import examine_machine, examine_project

    checks = examine_machine()
    if config is None:
        return checks
    try:
        project = load(config)
    except ConfigError as error:
        problems = tuple(Check("configuration", "fail", problem) for problem in error.problems)
        return (*checks, *problems)
    checks = (*checks, *examine_project(project, open_places(project, None)))
    if columns := open_column_places(project, None):
        from tidegate.commands.doctor import examine_columns

        checks = (*checks, *examine_columns(columns))
    if units := open_unit_places(project, None):
        from tidegate.commands.doctor import examine_units

        checks = (*checks, *examine_units(units))
    return checks
