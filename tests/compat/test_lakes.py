"""Lakes as earlier code left them: what is said of them, how they go on, and what is written, are as they were.

The fixtures and what to expect of them were written by ``make_fixtures.py`` from ``scenarios.py``. These tests use the
command line alone, and read tables with the Delta library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from compat import lakes
from compat.ground import Ground
from compat.make_fixtures import check, seen, server, taken
from compat.scenarios import SCENARIOS, TEXT_TIME, Scenario
from servers.api import Api
from support.long_runs import LONG
from tidegate.reports.run import SourceReport
from tidegate.runs.schedule import PassThreads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MADE_OTHERWISE = frozenset({"checkpointed_log", "jdbc_identity"})
"""Scenarios that are made in other steps than their fixtures.

``interval_files`` now bounds each commit of the first; the first position of the other was written by hand.
"""


def cases(*, spark: bool, made: bool = False) -> list[Any]:
    """The scenarios with Spark or without; of those that are ``made`` anew, the long ones in a long run alone."""
    chosen = [each for each in SCENARIOS.values() if each.needs_spark is spark]
    if made:
        chosen = [each for each in chosen if each.name not in MADE_OTHERWISE and (LONG or not each.is_long)]
    return [pytest.param(each, id=each.name) for each in chosen]


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lakes were written when sources took turns: side by side, their commits have another order in the log."""
    serial = partial(PassThreads[Any], 1)
    monkeypatch.setattr("tidegate.runs.loop.PassThreads", {SourceReport: lambda most, stop: serial(stop)})


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[Api | None]:
    """The server of a scenario that needs one."""
    with server(request.getfixturevalue("wanted")) as found:
        yield found


@pytest.fixture
def ground(wanted: Scenario, api: Api | None) -> Iterator[Ground]:
    """A fresh copy of the fixture."""
    with lakes.folder() as root:
        lakes.unpack(wanted.name, root, None if api is None else api.url)
        yield Ground(root, api, spark=wanted.needs_spark)


REWORDED = (
    (
        r"every poll lists the whole source, (\d+ keys?) this time, and every path that was read is remembered",
        r"each poll lists the whole prefix (\1 now) and remembers every path it has read",
    ),
    (r"answers; 1 new files", "answers; 1 new file"),
    (r"this source is at position 1\b", "1 commit of this source"),
    (r"this source is at position (\d+)", r"\1 commits of this source"),
    (r"files that it passed over are unexplained", "the files that this skipped are shown as unexplained"),
    (
        r"there is no table yet; files below it are not looked at",
        "there is no table yet, so no files below it were checked",
    ),
    (r"whether it lets us in is told by the run", "a run shows whether it accepts the credentials"),
    (r"what was read of them stays as it is", "rows that were read stay"),
    (r"take the place of those that the table has in its range", "replace the table's rows in its range"),
    (r"written by Spark itself \(DataFrame lane\):", "Spark writes this table:"),
    (r", and the destination was written up to", ", but the destination was written up to"),
    (r"somebody changed one of them, and nothing was", "one of them was changed outside Tidegate; nothing was"),
    (r"the next run tries them again", "the next run retries them"),
    (
        r"look at both with (`tidegate watermark show`), then put both where you want them with",
        r"compare both with \1, then set both with",
    ),
    (r"failed when tried last", "failed at the last try"),
    (r"on top of staged units that wait", "after the staged units that wait"),
    (
        r"files that are passed over stay out of the table; only `tidegate replay` reads them then",
        "files that are skipped stay out of the table; only `tidegate replay` reads them later",
    ),
    (
        r"rows of files that are read again are then in the table twice",
        "rows of files that are read again will be in the table twice",
    ),
    (
        r"what was read of them is read again; until then their rows stay, then they are replaced",
        "the next run reads them again; until then their rows stay, then it replaces them",
    ),
    (r"the run tells whether it can be read", "a run shows whether it can be read"),
    (r"take its position over with", "take over its position with"),
    (r"may be missing, since the table", "may be missing, because the table"),
    (r"\b1 files say", "1 file says"),
    (r"\b1 names leave", "1 name leaves"),
)
"""What the code said that wrote the fixtures, and how it is said today."""


def expected(wanted: Scenario) -> Any:
    """What the code said that wrote the fixture, in the words of today."""
    said = (lakes.FIXTURES / f"{wanted.name}.json").read_text()
    for then, now in REWORDED:
        said = re.sub(then, now, said)
    return json.loads(said, object_hook=without_connections)


def without_connections(said: dict[str, Any]) -> dict[str, Any]:
    """Without counts, and without checks of ``doctor`` that are made otherwise since it connects."""
    known = without_counts(said)
    if isinstance(said.get("printed"), list):
        known["printed"] = [each for each in said["printed"] if not CONNECTS.match(str(each.get("detail")))]
        known["code"] = int(any(each.get("verdict") == "fail" for each in known["printed"]))
    return known


CONNECTS = re.compile(r"(http|python): |GET |the columns are there: |whether |.* can be written$")
"""How checks begin that ``doctor`` makes since it connects, or made before in their place."""


def without_counts(said: dict[str, Any]) -> dict[str, Any]:
    """Without how many folders are sealed: ``status`` counts them as ``plan`` does since then."""
    return {key: value for key, value in said.items() if key != "sealed" or not isinstance(value, int)}


LATER = ("not looked for: late files ", "partition_filter leaves out ")
"""How sentences begin that are said since the fixtures were made."""
ELSEWHERE = ("a run that began at ",)
"""How sentences begin that are said of a run that died on another machine, or before this one was started."""
LATER_KEYS = frozenset(
    {"block", "empty", "engine", "future_seals", "last_commit_at", "left_out", "requests_by_time", "result", "vanished"}
    | {"health", "last_run", "last_success_at", "last_data_at", "expect_every_seconds", "first_run_at"}
)
"""Keys that are printed since then."""


def plain(value: Any) -> Any:
    """A value as JSON has it, without sentences and keys that are said since the fixtures were made."""
    return json.loads(json.dumps(value), object_hook=without_later)


def without_later(said: dict[str, Any]) -> dict[str, Any]:
    lists = {key: said[key] for key in ("notes", "remarks") if isinstance(said.get(key), list)}
    # The name of a table came later; a column that is compared with the table's has such a key, too.
    later = LATER_KEYS | ({"table"} if "table_uri" in said else set())
    # The id of a run; the plan of work units has its number.
    later |= {"run"} if "ok" in said else set()
    # A status says by "updated" when its state was, and has no commits.
    later |= {"inserted", "updated", "deleted", "unchanged"} if "commits" in said else set()
    known = {key: value for key, value in without_connections(said).items() if key not in later}
    # A run called the state so of which it knew nothing; it says Unknown since.
    if said.get("state") == "Unknown" and said.get("error") and "exit_code" in said:
        known["state"] = "Initial"
    if isinstance(said.get("printed"), list):  # checks, of which the engine's came later
        known["printed"] = [entry for entry in known["printed"] if entry.get("name") != "engine"]
    return known | {
        key: [each for each in texts if not str(each).startswith((*LATER, *ELSEWHERE))] for key, texts in lists.items()
    }


def look(ground: Ground, wanted: Scenario) -> None:
    """Nothing that only looks says anything else than it did, or changes a file."""
    told = expected(wanted)
    before = ground.documents()
    assert before == told["documents"]
    check(wanted.name, "unpacked", ground, wanted.ids)
    found = plain(seen(ground, wanted.look))
    for name, said in told["look"].items():
        assert found["look"][name] == said, name
    assert found == {"look": told["look"], "rows": told["rows"]}
    assert ground.documents() == before


def go_on(ground: Ground, wanted: Scenario) -> None:
    """Each step brings the rows that it must, each once, and says what it said."""
    for step, told in zip(wanted.steps, expected(wanted)["steps"], strict=True):
        found = plain(taken(step, ground, wanted))
        assert without_file_counts(wanted, found) == without_file_counts(wanted, told), step.name


def write_again(ground: Ground, wanted: Scenario) -> None:
    """The same scenario leaves the same documents, key by key; values too, unless they differ from run to run."""
    wanted.make(ground)
    written, told = ground.documents(), expected(wanted)["documents"]
    assert sorted(written) == sorted(told)
    for name, each in written.items():
        document = json.loads(json.dumps(each).replace(TEXT_TIME, TEXT_TIME.upper()))
        assert without_file_counts(wanted, document) == without_file_counts(wanted, told[name]), name


def without_file_counts(wanted: Scenario, value: Any) -> Any:
    """A value that does not tell how many files a commit of work units has: small ones share files since then."""
    return _with_one_file(value) if wanted.name.startswith("work_units") else value


def _with_one_file(value: Any) -> Any:
    if isinstance(value, list):
        found = [_with_one_file(each) for each in value]
        return [each for place, each in enumerate(found) if each != ADD or ADD not in found[:place]]
    if not isinstance(value, dict):
        return value
    files = value.get("data_files")
    rows = sum(each["record_count"] for each in files) if isinstance(files, list) else bool(files)
    told = {"data_files": rows} if "data_files" in value else {}
    return {key: _with_one_file(each) for key, each in (value | told).items()}


ADD = {"add": "<…>"}
"""What is left of a file that a commit adds."""


@pytest.mark.parametrize("wanted", cases(spark=False))
class TestInThisProcess:
    def test_what_only_looks_says_what_it_said(self, ground: Ground, wanted: Scenario) -> None:
        look(ground, wanted)

    def test_it_goes_on_from_there(self, ground: Ground, wanted: Scenario) -> None:
        go_on(ground, wanted)


@pytest.mark.parametrize("wanted", cases(spark=False, made=True))
def test_the_same_documents_are_written_today(wanted: Scenario, api: Api | None) -> None:
    with lakes.folder() as root:
        write_again(Ground(root, api), wanted)


@pytest.mark.spark
@pytest.mark.parametrize("wanted", cases(spark=True))
class TestOnSpark:
    def test_what_only_looks_says_what_it_said(self, ground: Ground, wanted: Scenario) -> None:
        look(ground, wanted)

    def test_it_goes_on_from_there(self, spark: SparkSession, ground: Ground, wanted: Scenario) -> None:
        go_on(ground, wanted)

    @pytest.mark.skipif(not LONG, reason="long runs only")
    def test_the_same_documents_are_written_today(self, spark: SparkSession, wanted: Scenario, api: Api | None) -> None:
        with lakes.folder() as root:
            write_again(Ground(root, api, spark=True), wanted)


def test_every_scenario_has_its_fixture_and_all_of_them_are_small() -> None:
    assert sorted(lakes.names()) == sorted(SCENARIOS)
    assert sum(path.stat().st_size for path in lakes.FIXTURES.glob("*.tar.gz")) < 1_000_000
