"""Anything may happen to what waits: damaged, removed, late and repeated units, killed committers, runs in between.

Whatever the order, once nothing more happens every record is in the table once. ``TIDEGATE_LONG=1`` plays more games.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.lake import Lake
from support.staging import commit, pending
from tidegate import failpoints, files, status
from tidegate.commands.commit import Committing
from tidegate.failpoints import InjectedFailure, LostResponse

GAMES = 60 if os.environ.get("TIDEGATE_LONG") else 6
PLACES = ("staging.commit.listed", "state.commit.before", "state.commit.after", "staging.clear.before")


class Game:
    """A lake with a staged source, and the mishaps."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.chance = lake, random.Random(seed)
        self.aside = lake.root / "aside"
        self.aside.mkdir(parents=True, exist_ok=True)
        self.files = 0

    def units(self) -> list[Path]:
        return sorted(pending(self.lake).rglob("*.unit.json"))

    def some_unit(self) -> Path | None:
        return self.chance.choice(self.units() or [None])

    def arrive(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.files += 1
            self.lake.arrive(f"d={self.chance.randint(1, 2)}/{self.files:03d}.ndjson", self.chance.randint(1, 4))

    def run(self) -> None:
        self.lake.run()

    def commit(self) -> None:
        commit(self.lake)

    def fail(self) -> None:
        """A committer that dies on the way."""
        failpoints.arm(f"{self.chance.choice(PLACES)}={self.chance.choice(('raise', 'lose'))}")
        try:
            Committing(self.lake.project).once(self.lake.project.pipelines)
        except (InjectedFailure, LostResponse):
            pass
        finally:
            failpoints.arm("")

    def corrupt(self) -> None:
        if path := self.some_unit():
            path.write_text("nonsense")

    def lie(self) -> None:
        if path := self.some_unit():
            try:
                path.write_text(json.dumps(json.loads(path.read_text()) | {"rows": 10**6}))
            except ValueError:
                return

    def lose_rows(self) -> None:
        """A data file that waits, and is in no commit, is gone."""
        path = self.some_unit()
        try:
            found = json.loads(path.read_text())["data_files"] if path else []
        except ValueError:
            return
        log = "".join(each.read_text() for each in (self.lake.root / "lake/events/_delta_log").glob("*.json"))
        for file in [each for each in found if each["path"] not in log][:1]:
            (self.lake.root / "lake/events" / file["path"]).unlink(missing_ok=True)

    def hold_back(self) -> None:
        """A unit that becomes visible late; its writer has gone on."""
        if (path := self.some_unit()) and not (self.aside / path.name).exists():
            path.rename(self.aside / path.name)

    def give_back(self) -> None:
        for path in sorted(self.aside.iterdir())[:1]:
            target = pending(self.lake) / "events/default" / path.name
            if not target.exists():
                path.rename(target)
            else:
                path.unlink()

    def repeat(self) -> None:
        """A unit that is put a second time, after it was taken."""
        if path := self.some_unit():
            shutil.copy(path, self.aside / path.name)

    def play(self, turns: int) -> None:
        often: list[Callable[[], None]] = [self.arrive, self.run, self.run, self.commit]
        rare = [self.fail, self.corrupt, self.lie, self.lose_rows, self.hold_back, self.give_back, self.repeat]
        for _ in range(turns):
            self.chance.choice([*often, *often, *rare])()

    def settle(self) -> None:
        """Nothing more happens: held back units come, runs and committers do what is left."""
        for _ in range(40):
            self.give_back()
            commit(self.lake)
            report = self.lake.run()
            table = commit(self.lake)
            quiet = report.ok and table.commits == 0 and not self.units() and not any(self.aside.iterdir())
            if quiet and not report.sources[0].files:
                return
        raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("tracking", [True, False], ids=["watermark", "set"])
@pytest.mark.parametrize("seed", range(GAMES))
def test_every_record_is_in_the_table_once_in_the_end(tmp_path: Path, seed: int, tracking: bool) -> None:
    lake = Lake(tmp_path, {"use_watermark": tracking}, pipeline_settings={"delivery": "staged"})
    game = Game(lake, seed)
    game.play(30)
    game.settle()
    lake.assert_exactly_once()
    (now,) = status(lake.config)
    assert (now.error, now.backlog_files, now.in_progress) == (None, 0, 0)
    assert files(lake.config, "events", limit=0).gaps == ()
