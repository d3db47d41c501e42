"""What is read does not depend on where: the machine, Java, the session and the database are in zones of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers import mariadb as mariadb_server
from servers import postgres as postgres_server
from support.long_runs import chosen

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not mariadb_server.is_possible(), reason="its programs are for Linux on x86-64"),
]

TESTS = Path(__file__).parents[1]
VISITS = [
    (datetime(2026, 3, 8, 1, tzinfo=UTC), datetime(2026, 3, 8, 1, 30), date(2026, 3, 8)),
    (datetime(2026, 3, 8, 1, 0, 0, 1, tzinfo=UTC), datetime(2026, 3, 8, 2, 30, 0, 5), date(2026, 3, 8)),
    (datetime(2026, 3, 8, 23, 59, tzinfo=UTC), datetime(2026, 3, 7, 2, 30), date(2026, 3, 7)),
    (datetime(2026, 3, 9, 0, tzinfo=UTC), datetime(2026, 3, 9, 2, 30), date(2026, 3, 9)),
    (datetime(2026, 11, 1, 5, 30, tzinfo=UTC), datetime(2026, 3, 1), date(1985, 12, 31)),
    (datetime(2026, 11, 1, 6, 30, tzinfo=UTC), datetime(2026, 3, 1), date(1986, 1, 1)),
]
"""In New York no clock showed half past two on the eighth of March, and on the first of November two hours showed half
past one. In Kathmandu, 1986 began at a quarter past twelve.
"""

EXPECTED = {
    "seen": {"at": "2026-03-08 23:59:00+00:00", "local": "2026-03-08 02:30:00.000005"},
    "rows": [
        {"at": "2026-03-08 01:00:00+00:00", "local": "2026-03-08 00:30:00+00:00", "day": "2026-03-08"},
        {"at": "2026-03-08 01:00:00.000001+00:00", "local": "2026-03-08 01:30:00.000005+00:00", "day": "2026-03-08"},
        {"at": "2026-03-08 23:59:00+00:00", "local": "2026-03-07 01:30:00+00:00", "day": "2026-03-07"},
    ],
}


@pytest.mark.parametrize("java_zone", chosen(("America/New_York", "Asia/Kathmandu"), "America/New_York"))
def test_every_zone_may_differ_and_nothing_changes(
    postgres: postgres_server.Server, mariadb: mariadb_server.Server, tmp_path: Path, java_zone: str
) -> None:
    database = postgres.new_database()
    with postgres.connect(database) as connection:
        connection.execute(f"alter database {database} set timezone to 'Pacific/Auckland'".encode())
        connection.execute("create table visits (at timestamptz, local timestamp, day date)")
        connection.cursor().executemany("insert into visits values (%s, %s, %s)", VISITS)
    other = mariadb.new_database()
    texts = [[str(value).removesuffix("+00:00") for value in visit] for visit in VISITS]
    mariadb.execute(
        "set time_zone = '+00:00'; create table visits (at timestamp(6) null, local datetime(6), day date); "
        f"insert into visits values {', '.join(str(tuple(each)) for each in texts)}",
        other,
    )
    at, local, day = zip(*VISITS, strict=True)
    columns = {"at": pa.array(at, pa.timestamp("us", "UTC")), "local": pa.array(local, pa.timestamp("us")), "day": day}
    pq.write_table(pa.table(columns), tmp_path / "visits.parquet")
    given = [java_zone, tmp_path.as_uri()]
    given += [postgres.jdbc_url(database), postgres_server.USER, postgres_server.PASSWORD]
    for scheme in ("mariadb", "mysql"):
        given += [mariadb.jdbc_url(other, scheme), mariadb_server.USER, mariadb_server.PASSWORD]
    path = os.pathsep.join(map(str, (TESTS.parent / "src", TESTS)))
    done = subprocess.run(
        [sys.executable, str(TESTS / "spark" / "zone_worker.py"), *given],
        env={**os.environ, "TZ": "Asia/Tokyo", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    everything = [[str(at), str(day)] for at, _, day in VISITS]
    names = ("parquet", "postgresql", "mariadb", "mysql")
    assert told == {name: {**EXPECTED, "all": everything} for name in names}
