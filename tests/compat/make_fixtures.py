"""Write the fixtures anew with the code that is there: ``python tests/compat/make_fixtures.py [NAME ...]``.

Only to be run for a new scenario, or where what is on disk changes on purpose: what the code of some day wrote is
worth more the older it is.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat import lakes
from compat.ground import Ground
from compat.scenarios import SCENARIOS, Scenario, Step
from servers import api as servers
from servers.api import Api

AFTER_A_STEP = ("status", "watermark show")


@contextlib.contextmanager
def server(wanted: Scenario) -> Iterator[Api | None]:
    """The server of a scenario that needs one."""
    if not wanted.needs_server:
        yield None
        return
    with servers.running() as api:
        yield api


def make(wanted: Scenario) -> None:
    """The fixture of one scenario, and what to expect of it."""
    with lakes.folder() as made, lakes.folder() as unpacked, server(wanted) as api:
        ground = Ground(made, api, spark=wanted.needs_spark)
        wanted.make(ground)
        check(wanted.name, "made", ground, wanted.ids)
        lakes.pack(ground.root, lakes.FIXTURES / f"{wanted.name}.tar.gz", None if api is None else api.url)
        copy = Ground(unpacked, api, spark=wanted.needs_spark)
        lakes.unpack(wanted.name, copy.root, None if api is None else api.url)
        check(wanted.name, "copy", copy, wanted.ids)
        expected: dict[str, Any] = {"documents": copy.documents(), **seen(copy, wanted.look), "steps": []}
        for step in wanted.steps:
            expected["steps"].append(taken(step, copy, wanted))
    text = json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False)
    (lakes.FIXTURES / f"{wanted.name}.json").write_text(text + "\n")


def taken(step: Step, ground: Ground, wanted: Scenario) -> dict[str, Any]:
    """One step and what came of it; after the last one everything is looked at."""
    printed = ground.masked(step.act(ground))
    check(wanted.name, step.name, ground, step.ids)
    commands = wanted.look if step is wanted.steps[-1] else AFTER_A_STEP
    return {"name": step.name, "printed": printed, **seen(ground, commands)}


def seen(ground: Ground, commands: Sequence[str]) -> dict[str, Any]:
    """What look-only commands say of a lake, and its rows."""
    return {"look": ground.look(commands), "rows": {name: ground.checksum(name) for name in ground.tables()}}


def check(name: str, when: str, ground: Ground, ids: Any) -> None:
    """What the scenario says by hand must hold, or there is no fixture."""
    found = {table: ground.ids(table) for table in ids if ids[table]}
    wanted = {table: sorted(ids[table]) for table in ids if ids[table]}
    assert found == wanted, f"{name}, {when}: {found} instead of {wanted}"


def start_spark() -> Any:
    """The session that commands of this process use."""
    from tidegate.spark.session import open_session
    from tidegate.specs.project import SparkSpec

    return open_session(SparkSpec(master="local[2]"), delta=True)


if __name__ == "__main__":
    names = sys.argv[1:] or list(SCENARIOS)
    if any(SCENARIOS[name].needs_spark for name in names):
        spark = start_spark()
    for chosen in names:
        make(SCENARIOS[chosen])
        size = (lakes.FIXTURES / f"{chosen}.tar.gz").stat().st_size
        print(f"{chosen}: {size:,} bytes", flush=True)
