"""A continuous committer looks at each table as often as its staged pipelines want."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.lake import Lake
from tidegate.commands.commit import Committing, poll_interval
from tidegate.observe.events import CommitterLooked


def pipeline(number: int, table: str, **more: Any) -> dict[str, Any]:
    return {
        "source": {"source_uri": f"data{number}/", "use_watermark": True},
        "schema": {"fields": [{"name": "id", "type": "int64"}]},
        "sink": {"table_uri": table},
        **more,
    }


def staged(number: int, table: str, seconds: int | None = None) -> dict[str, Any]:
    settings = {} if seconds is None else {"staging": {"poll_interval_secs": seconds}}
    return pipeline(number, table, delivery="staged", **settings)


class Waits(threading.Event):
    """Waits for no time at all, and is set after some waits."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._most = most

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) > self._most:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(
    ("pipelines", "seconds"),
    [
        ([staged(1, "lake/a", 60)], 60),
        ([staged(1, "lake/a", 60), staged(2, "lake/a", 30)], 30),
        ([staged(1, "lake/a", 60), pipeline(2, "lake/a")], 60),
        ([staged(1, "lake/a")], 10),
        ([pipeline(1, "lake/a")], 10),
    ],
    ids=["its own", "the most impatient", "beside a direct one", "default", "direct only"],
)
def test_the_interval_of_a_table(tmp_path: Path, pipelines: list[dict[str, Any]], seconds: int) -> None:
    lake = Lake(tmp_path, settings={"pipelines": {f"p{number}": each for number, each in enumerate(pipelines)}})
    project = lake.project
    assert poll_interval(project, project.pipelines[0].sink.table.uri) == seconds


def test_every_table_is_looked_at_when_it_is_due(tmp_path: Path) -> None:
    pipelines = {"often": staged(1, "lake/a", 5), "seldom": staged(2, "lake/b", 100_000)}
    lake = Lake(tmp_path, settings={"pipelines": pipelines})
    stop = Waits(5)
    Committing(lake.project, lake.seen.append, stop).continuously(lake.project.pipelines, jitter=lambda: 1.0)
    looks = Counter(event.pipeline for event in lake.seen if isinstance(event, CommitterLooked))
    assert looks == {"often": 4, "seldom": 1}
    assert 0 < stop.seconds[2] <= 6
