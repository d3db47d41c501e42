"""Table care over a bad line to a real S3 server: files are replaced once or not at all, and no row changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.fault_proxy import Fault, Rule, in_front_of
from servers.s3 import Server
from support.s3_lake import S3Lake
from tidegate import optimize_table, reconcile, vacuum_table

pytestmark = pytest.mark.s3

FAULTS = (
    Fault.LOST,
    Fault.ERROR_AFTER,
    Fault.PRECONDITION,
    Fault.CONFLICT,
    Fault.ERROR,
    Fault.RESET,
    Fault.RESET_SENDING,
)


def entries(lake: S3Lake) -> int:
    return sum(1 for item in lake.objects.list("_delta_log") if item.path.endswith(".json"))


def test_whatever_the_answer_says_files_are_replaced_once(s3: Server, tmp_path: Path) -> None:
    with in_front_of(s3) as proxy:
        lake = S3Lake(s3, proxy, tmp_path)
        for number, fault in enumerate(FAULTS):
            for name in ("a", "b"):
                lake.arrive(f"{number}{name}.ndjson")
                assert lake.run().ok
            before = entries(lake)
            lake.faults.inject(Rule(fault, "PUT", r"_delta_log/\d+\.json", times=1))
            assert optimize_table(lake.config, "events").files_after == 1
            assert lake.faults.injected[fault] == 1
            lake.faults.inject()
            assert entries(lake) == before + 1
            lake.assert_exactly_once()
        assert optimize_table(lake.config, "events").files_before == 0
        assert vacuum_table(lake.config, "events", retention_hours=0, force=True).files_before > len(FAULTS)
        lake.arrive("last.ndjson")
        assert lake.run().ok
        lake.assert_exactly_once()
        assert reconcile(lake.config).ok
