"""Tests the oldest versions that ``pyproject.toml`` admits: ``python scripts/test_lowest.py``.

``build/lowest`` gets the lowest version of everything with a lower bound, and what those need in the newest versions
that they accept. Unit tests, laws and the tests with Spark run there. $PYTHON as for ``test_versions.py``.
"""

from __future__ import annotations

import re
import sys
import tomllib

from test_versions import ROOT, make_environment, name_of, pins, report, requirements, run_suite

SUITES = {
    "unit tests": ("tests/unit",),
    "laws": ("tests/laws",),
    "Spark": ("tests/spark",),
}

# Old versions use what their newer neighbours deprecate; PySpark leaves sockets open before 4.2.
_QUIET = ("DeprecationWarning", "FutureWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")

_OURS = ("test", "dev", "docs")
"""Extras that no user installs: their tools are taken in the newest version."""


def lowest(requirement: str) -> str:
    """``requirement`` at its lower bound; as it is if it has none.

    >>> lowest("psycopg[binary]>=3.2.2,<4")
    'psycopg[binary]==3.2.2'
    >>> lowest("hypothesis")
    'hypothesis'
    """
    found = re.match(r"([^<>=!~]+)>=([^,]+)", requirement)
    return requirement if found is None else f"{found[1]}=={found[2]}"


def main() -> int:
    """Make the environment and run the tests in it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    users = [lowest(each) for each in requirements(*(extra for extra in extras if extra not in _OURS))]
    tools = [each for each in requirements("test") if name_of(each) not in {name_of(one) for one in users}]
    spark = next(each for extra in extras.values() for each in extra if name_of(each) == "pyspark")
    home = ROOT / "build" / "lowest"
    python = make_environment(
        home,
        # With the extras of the tests, such as a catalog for pyiceberg.
        [*users, *requirements("test")],
        [pin for pin in pins() if name_of(pin) in {name_of(each) for each in tools}],
        lowest(spark).partition("==")[2],
    )
    quiet = [part for each in _QUIET for part in ("-W", f"ignore::{each}")]
    row = {
        suite: run_suite(python, (*arguments, *quiet), home / f"{suite.replace(' ', '-')}.log")
        for suite, arguments in SUITES.items()
    }
    return report(home / "result.md", "", {"lowest versions": row})


if __name__ == "__main__":
    sys.exit(main())
