"""Runs that stop before any request to the store while others go on, and then wake up or die: every row is in once."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from support.landing import Landing, following, step, text
from tidegate.errors import CommitLost
from tidegate.failpoints import InjectedFailure, LostResponse
from tidegate.locations import Location
from tidegate.state.identity import SourceKey
from tidegate.state.parquet_place import ParquetDestination
from tidegate.storage import memory
from tidegate.storage.opening import open_store
from tidegate.storage.port import ObjectStore

SEEDS, ROUNDS, DEEPEST = 40, 6, 3
SLEEPS, DIES = 0.03, 0.01
ACTIONS = ("append", "overwrite", "replace")
REQUESTS = {"list", "head", "get", "put", "put_if_absent", "copy", "delete"}


@dataclass
class World:
    """One place and its runs; at every request chance lets other runs go first, or ends the run."""

    chance: random.Random
    depth: int = 0
    told: list[str] = field(default_factory=list)

    def run(self, landing: Landing) -> None:
        """One run that nobody awaits: it may die, or be told that another was first."""
        self.depth += 1
        action = self.chance.choice(ACTIONS)
        self.told.append(f"{self.depth} begins {action}")
        with suppress(CommitLost, InjectedFailure, LostResponse):
            done = step(landing, action, batch=self.chance.randint(1, 3))
            self.told.append(f"{self.depth} made {done}")
        self.depth -= 1

    def request(self, landing: Landing, name: str, made: Callable[[], Any]) -> Any:
        """What a request gives that is made in time, late, never, or without an answer."""
        what = self.chance.random()
        if what < SLEEPS and 0 < self.depth < DEEPEST:
            self.told.append(f"{self.depth} sleeps before {name}")
            for _ in range(self.chance.randint(1, 3)):
                self.run(landing)
            self.told.append(f"{self.depth} wakes up before {name}")
        elif what > 1 - DIES and self.depth:
            self.told.append(f"{self.depth} dies before {name}")
            raise InjectedFailure(name)
        answer = made()
        if 1 - 2 * DIES < what < 1 - DIES and self.depth:
            self.told.append(f"{self.depth} loses the answer of {name}")
            raise LostResponse(name)
        return answer


class Interrupted:
    """A store whose requests go through a world."""

    def __init__(self, landing: Interleaved) -> None:
        self._landing, self._store = landing, open_store(landing.location)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in REQUESTS:
            return found
        return lambda *given, **more: self._landing.world.request(
            self._landing, name, lambda: list(found(*given, **more)) if name == "list" else found(*given, **more)
        )


@dataclass(frozen=True)
class Interleaved(Landing):
    world: World

    def destination(self, source: str = "s") -> ParquetDestination:
        store = cast(ObjectStore, Interrupted(self))
        return ParquetDestination(self.location, self.provider, SourceKey("p", source), store=store)


@pytest.fixture
def space() -> Iterator[str]:
    name = uuid.uuid4().hex
    yield name
    memory.forget(name)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_runs_that_sleep_and_die_bring_every_row_once(space: str, seed: int) -> None:
    world = World(random.Random(seed))
    settings = {"provider": "file", "url": f"memory://{space}/state"}
    landing = Interleaved(Location(f"memory://{space}/place"), settings, world)
    for _ in range(ROUNDS):
        world.run(landing)
        opened = landing.destination().open()
        assert landing.ids() == list(range(following(opened))), world.told
        assert landing.provider.get_watermark("p/s") == opened.text, world.told
    before = following(landing.destination().open())
    step(landing, "append", batch=2)
    assert landing.ids() == list(range(before + 2))
    assert landing.provider.get_watermark("p/s") == text(before + 1)
