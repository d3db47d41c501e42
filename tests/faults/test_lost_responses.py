"""Whole passes over a bad line to a real S3 server: whatever gets lost on the way, every row is there once.

Each fault hits one kind of request, once or for the whole pass. The pass goes through or fails cleanly, the next one
over a good line completes it, and the table holds what the source holds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.racing import polling
from servers.fault_proxy import Fault, FaultProxy, Rule, in_front_of
from servers.s3 import Server
from support.errors import check_names
from support.long_runs import chosen
from support.s3_lake import KEY, PATIENCE, S3Lake
from tidegate import RunReport
from tidegate.protocol.documents import read_recorded

pytestmark = [pytest.mark.s3, pytest.mark.slow]

SENDING = (
    Fault.LOST,
    Fault.ERROR_AFTER,
    Fault.PRECONDITION,
    Fault.CONFLICT,
    Fault.ERROR,
    Fault.SLOW_DOWN,
    Fault.RESET,
    Fault.RESET_SENDING,
)
ASKING = (
    Fault.LOST,
    Fault.ERROR,
    Fault.SLOW_DOWN,
    Fault.RESET,
    Fault.RESET_ANSWERING,
    Fault.TRUNCATED,
    Fault.SLOW,
)
SENDING_NOTES = (Fault.LOST, Fault.PRECONDITION, Fault.ERROR)
ASKING_STATE = (Fault.LOST, Fault.ERROR, Fault.RESET_ANSWERING, Fault.TRUNCATED)
HARMLESS = {Fault.SLOW}
THROUGHOUT = {Fault.PRECONDITION, Fault.ERROR, Fault.TRUNCATED}
"""Faults that are also tried on every request of a kind, not only on one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests of one kind, by method and path."""

    name: str
    method: str
    path: str
    faults: tuple[Fault, ...]
    checkpoint_interval: int = 10

    def rule(self, fault: Fault, skip: int = 0, times: int | None = None) -> Rule:
        return Rule(fault, self.method, self.path, skip, times)

    def seen(self, request: str) -> bool:
        """Whether a request that the proxy saw is of this kind."""
        method, _, path = request.partition(" ")
        return self.rule(Fault.LOST).matches(method, path)


LISTING = Kind("listing the source", "GET", r"list-type=2.*/source", ASKING)
READING = Kind("reading a file", "GET", r"/source/.*\.ndjson$", ASKING)
UPLOAD = Kind("uploading", "PUT", r"/table/[^/]*\.parquet$", SENDING)
MEASURING = Kind("measuring a data file", "HEAD", r"/table/[^/]*\.parquet$", (Fault.LOST, Fault.ERROR))
DOCUMENT = Kind("the document", "PUT", r"/_tidegate/events/default/[^/]*\.json$", SENDING)
COMMIT = Kind("the commit", "PUT", r"/_delta_log/\d{20}\.json$", SENDING)
LOG = Kind("reading the log", "GET", r"/_delta_log/\d{20}\.json$", ASKING_STATE)
LOG_LISTING = Kind("listing the log", "GET", r"list-type=2.*/_delta_log", ASKING_STATE)
STATE = Kind("reading the document", "GET", r"/_tidegate/events/default/[^/]*\.json$", ASKING_STATE)
WON = Kind("the note of the winner", "PUT", r"\.won$", SENDING_NOTES)
MIRROR = Kind("the mirror", "PUT", r"_checkpoint\.json$", SENDING_NOTES)
CHECKPOINT = Kind("writing a Delta checkpoint", "PUT", r"/_delta_log/.*checkpoint(\.parquet)?$", SENDING_NOTES, 1)
CHECKPOINT_READING = Kind("reading a Delta checkpoint", "GET", r"/_delta_log/.*\.checkpoint\.parquet$", ASKING_STATE, 1)
KINDS = (
    LISTING,
    READING,
    UPLOAD,
    MEASURING,
    DOCUMENT,
    COMMIT,
    LOG,
    LOG_LISTING,
    STATE,
    WON,
    MIRROR,
    CHECKPOINT,
    CHECKPOINT_READING,
)


@pytest.fixture
def proxy(s3: Server) -> Iterator[FaultProxy]:
    with in_front_of(s3) as proxy:
        yield proxy


@pytest.fixture
def lake(s3: Server, proxy: FaultProxy, tmp_path: Path) -> S3Lake:
    return S3Lake(s3, proxy, tmp_path)


def position(lake: S3Lake) -> int:
    found = read_recorded(lake.objects, KEY)
    return 0 if found is None else found.version


def suffered(lake: S3Lake, rule: Rule) -> RunReport:
    """One pass under ``rule``, which must have hit; nothing is doubled, whatever came of it."""
    before = lake.faults.injected[rule.fault]
    lake.faults.inject(rule)
    report = lake.run()
    assert lake.faults.injected[rule.fault] > before, f"{rule} never hit"
    assert report.ok or report.sources[0].error, report
    assert "\x1b" not in str(report.sources[0].error), "colours of a foreign message"
    return report


def completed(lake: S3Lake) -> None:
    """The next pass over a good line goes through, and every row is there once."""
    lake.faults.inject()
    report = lake.run()
    assert report.ok, report
    lake.assert_exactly_once()


@pytest.mark.parametrize(
    "kind", chosen(KINDS, LISTING, UPLOAD, DOCUMENT, COMMIT, LOG, STATE, CHECKPOINT), ids=lambda kind: kind.name
)
def test_faults_of_one_kind_of_request_lose_and_double_nothing(lake: S3Lake, kind: Kind) -> None:
    lake.sink_settings = {"delta_checkpoint_interval": kind.checkpoint_interval}
    lake.arrive("000.ndjson")
    completed(lake)
    for number, fault in enumerate(kind.faults, 1):
        for times in (1, None) if fault in THROUGHOUT else (1,):
            lake.arrive(f"{number:03d}-{times}.ndjson")
            report = suffered(lake, kind.rule(fault, times=times))
            assert report.ok or fault not in HARMLESS
        completed(lake)


def test_a_document_that_arrives_cut_short_is_read_again_before_it_counts_as_damaged(lake: S3Lake) -> None:
    lake.arrive("000.ndjson")
    completed(lake)
    for times, damaged in ((1, 0), (None, 1)):
        lake.seen.clear()
        assert suffered(lake, STATE.rule(Fault.TRUNCATED, times=times)).ok
        assert len([event for event in lake.seen if "is damaged" in str(event)]) == damaged


def test_a_table_that_was_loaded_and_then_cannot_be_asked_is_a_clean_failure(lake: S3Lake) -> None:
    """The library reads the checkpoint again for a question to a table that it has loaded."""
    lake.sink_settings = {"delta_checkpoint_interval": 1}
    lake.arrive("000.ndjson")
    completed(lake)
    for spared in range(1, 16, 2):
        lake.arrive(f"{spared:03d}.ndjson")
        (source,) = suffered(lake, CHECKPOINT_READING.rule(Fault.ERROR, skip=spared)).sources
        assert source.exit_code in (0, 4)
    completed(lake)


@pytest.mark.parametrize("fault", chosen(SENDING, Fault.LOST, Fault.PRECONDITION, Fault.RESET_SENDING))
def test_a_fault_of_the_commit_that_makes_the_table_loses_and_doubles_nothing(lake: S3Lake, fault: Fault) -> None:
    lake.arrive("000.ndjson")
    suffered(lake, COMMIT.rule(fault, times=1))
    lake.arrive("001.ndjson")
    completed(lake)


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.LOST, Fault.RESET_ANSWERING, Fault.TRUNCATED])
def test_a_listing_that_fails_ends_the_poll_and_moves_nothing(lake: S3Lake, fault: Fault) -> None:
    lake.arrive("000.ndjson")
    completed(lake)
    lake.arrive("001.ndjson")
    report = suffered(lake, LISTING.rule(fault))
    assert not report.ok
    puts = [request for request in lake.faults.seen if request.startswith("PUT") and ".runs.json" not in request]
    assert not puts
    assert not [request for request in lake.faults.seen if READING.seen(request)]
    assert position(lake) == 1
    completed(lake)


def test_the_first_page_of_a_listing_is_not_used_when_the_second_fails(lake: S3Lake) -> None:
    files = lake.files
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: files.put(f"date=2026-01-28/{number:05d}.txt", b"x"), range(1004)))
    lake.arrive("99999.ndjson")
    report = suffered(lake, LISTING.rule(Fault.TRUNCATED, skip=1))
    assert not report.ok
    assert not [request for request in lake.faults.seen if READING.seen(request)]
    assert lake.ids() == []
    completed(lake)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", r"\?uploads"), ("PUT", r"partNumber=2"), ("POST", r"uploadId=")],
    ids=["its beginning", "a part", "its end"],
)
def test_faults_of_an_upload_in_parts_lose_and_double_nothing(lake: S3Lake, method: str, path: str) -> None:
    lake.sink_settings = {"min_multipart_size_mb": 1, "part_size_mb": 5}
    noise = random.Random(7)
    for number, fault in enumerate((Fault.LOST, Fault.ERROR_AFTER, Fault.RESET_SENDING)):
        lake.arrive(f"{number:03d}.ndjson", 1, event=noise.randbytes(2_800_000).hex())
        suffered(lake, Rule(fault, method, path, times=2))
    completed(lake)


@pytest.mark.parametrize("kind", [LISTING, READING, COMMIT], ids=lambda kind: kind.name)
def test_a_server_that_never_answers_is_given_up_and_nothing_is_lost(lake: S3Lake, kind: Kind) -> None:
    lake.patience = {**PATIENCE, "timeout": "1s", "max_retries": "0"}
    lake.arrive("000.ndjson")
    completed(lake)
    lake.arrive("001.ndjson")
    report = suffered(lake, kind.rule(Fault.SILENT))
    assert report.ok is (kind is COMMIT), "a commit without an answer is found in the log"
    completed(lake)


def test_an_outcome_that_cannot_be_read_is_left_to_the_next_run(lake: S3Lake) -> None:
    lake.arrive("000.ndjson")
    completed(lake)
    lake.arrive("001.ndjson")
    unreadable = Rule(Fault.SLOW_DOWN, "GET", r"/_delta_log/0{19}1\.json$")
    lake.faults.inject(COMMIT.rule(Fault.LOST), unreadable)
    (source,) = lake.run().sources
    assert source.exit_code == 6
    check_names(source.error, "unknown")
    lake.faults.inject()
    assert lake.run().sources[0].files == 0, "it had taken effect: nothing is read again"
    completed(lake)


def test_a_random_mix_of_faults_loses_and_doubles_nothing(s3: Server, tmp_path: Path) -> None:
    sending = [Rule(fault, "PUT|POST", chance=0.15 / len(SENDING)) for fault in SENDING]
    asking = [Rule(fault, "GET|HEAD", chance=0.15 / len(ASKING)) for fault in ASKING]
    with in_front_of(s3, seed=20260128) as proxy:
        lake = S3Lake(s3, proxy, tmp_path, {"delta_checkpoint_interval": 5})
        long_lived, well = lake.running(), 0
        for number in range(20):
            lake.arrive(f"{number:03d}.ndjson")
            lake.faults.inject(*sending, *asking)
            well += lake.run(long_lived if number % 2 else None).ok
            lake.assert_nothing_doubled()
        assert well, "none of 20 passes went through"
        assert lake.faults.injected.total() >= 20
        completed(lake)


def test_processes_that_race_over_a_bad_line_lose_and_double_nothing(lake: S3Lake, tmp_path: Path) -> None:
    lake.arrive("000.ndjson")
    faults = [Rule(fault, "PUT|POST", chance=0.01) for fault in SENDING]
    lake.faults.inject(*faults, *[Rule(fault, "GET|HEAD", chance=0.01) for fault in ASKING])
    with polling(tmp_path / "race", *[lake.config] * 2, well=False):
        for number in range(1, 15):
            lake.arrive(f"{number:03d}.ndjson")
            time.sleep(0.2)
    assert lake.faults.injected.total() > 0
    completed(lake)
