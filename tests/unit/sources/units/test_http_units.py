"""Work units of an API: what is asked for, all pages or nothing, and one that fails keeps no other from being done."""

from __future__ import annotations

import pickle
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from servers.api import Answer, Api, Asked
from servers.surveys import keep_surveys
from support.errors import check_names
from support.unit_waves import RANGE, carried_out, failure, rows, source, surveys, wave, work
from tidegate.sources.units.fetch import Senders
from tidegate.sources.units.work import Fetched, UnitFailure, UnitWritten
from tidegate.specs.columns import AuthKind, HttpAuth, Pagination, RateLimit, WatermarkParams
from tidegate.specs.locations import Options, Secret
from tidegate.specs.units import Bounding, RangeParam
from tidegate.tasks.unit_task import fetch, fetch_task, plan_write, write


def at(day: int, hour: int = 0) -> str:
    return f"2026-02-{day:02d}T{hour:02d}:00:00+00:00"


RECORDS = [{"id": day, "at": at(day, 12)} for day in range(1, 25)]
DAY = datetime(2026, 2, 1, tzinfo=UTC)


def test_each_segment_is_asked_for_by_itself(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {"a b/c": RECORDS}, size=5)
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a b/c", 1, 11, 14)]))
    assert [row["id"] for row in rows(tmp_path, result)] == list(range(1, 14))
    assert {(row["_tidegate_unit"], row["_tidegate_segment"].day) for row in rows(tmp_path, result)} == {
        ("a b/c", 1),
        ("a b/c", 11),
    }
    asked = api.to("/surveys/a%20b%2Fc/responses")
    bounds = [(each.params["since"], each.params["until"], each.params["page"]) for each in asked]
    assert bounds == [*((at(1), at(11), str(page)) for page in (1, 2, 3)), (at(11), at(14), "1"), (at(11), at(14), "2")]
    assert isinstance(result, UnitWritten)
    assert (result.rows, result.requests, len(result.data_files)) == (13, 5, 1)


def test_variables_go_wherever_they_are_written(api: Api, tmp_path: Path) -> None:
    asked: list[Asked] = []
    api.routes["/x%2Fy"] = lambda each: asked.append(each) or Answer({"data": []})  # type: ignore[func-returns-value]
    read = surveys(
        api,
        path="/{{surveyId}}",
        method="POST",
        params={"q": "a {{surveyId}}&b", "from": "{{since}}"},
        headers=Options({"X-Region": "{{region}}", "X-Key": "key {{apiKey}}"}),
        body={"deep": [{"of": "{{region}}/{{surveyId}}"}], "end": "{{end_ms}}", "flag": True},
        auth=HttpAuth(AuthKind.BASIC, user="{{region}}", password=Secret("{{apiKey}}")),
    )
    params = (*RANGE, RangeParam("end_ms", Bounding.HIGH, "timestamp_ms"))
    one = work("x/y", 1, 2, variables={"region": "eu"}, secrets={"apiKey": Secret("canary")})
    (result,) = carried_out(wave(tmp_path, source(read, params=params), [one]))
    assert result == UnitWritten(requests=1)
    (each,) = asked
    assert dict(each.params) == {"q": "a x/y&b", "from": at(1), "until": at(2), "page": "1"}
    assert (each.headers["x-region"], each.headers["x-key"]) == ("eu", "key canary")
    assert each.headers["authorization"] == "Basic ZXU6Y2FuYXJ5"
    assert each.body == {"deep": [{"of": "eu/x/y"}], "end": 1769990400000, "flag": True}


def test_parameters_may_go_into_the_body(api: Api, tmp_path: Path) -> None:
    api.routes["/r"] = lambda asked: Answer({"data": []})
    read = surveys(api, path="/r", method="POST", body={"k": 1}, watermark=WatermarkParams(location="body"))
    params = (RangeParam("range.from", Bounding.LOW, "date"),)
    carried_out(wave(tmp_path, source(read, params=params), [work("a", 3, 4)]))
    assert api.to("/r")[0].body == {"k": 1, "range": {"from": "2026-02-03"}, "page": 1}


@pytest.mark.parametrize(
    ("given", "unit", "problem"),
    [
        ({"path": "/{{surveyID}}"}, "a", "{{surveyID}} … key, since, surveyId, until"),
        ({"path": "/x/{{surveyId}}"}, "..", "'..' … address"),
        ({"headers": Options({"X": "{{surveyId}}"})}, "a\r\nY: 1", "header 'X'"),
    ],
)
def test_nothing_is_sent_where_something_cannot_be(
    api: Api, tmp_path: Path, given: dict[str, Any], unit: str, problem: str
) -> None:
    one = work(unit, secrets={"key": Secret("canary")})
    (result,) = carried_out(wave(tmp_path, source(surveys(api, **given)), [one]))
    check_names(failure(result).problem, problem)
    assert "canary" not in str(result)
    assert not api.asked


def test_the_address_of_the_server_has_no_variables(api: Api, tmp_path: Path) -> None:
    read = surveys(api)
    bad = type(read)("https://{{surveyId}}.example")
    (result,) = carried_out(wave(tmp_path, source(bad), [work("evil")]))
    check_names(failure(result).problem, "address … variable")


def test_a_unit_that_fails_keeps_no_other_from_being_done(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, dict.fromkeys("abd", RECORDS), size=100)
    api.faults["/surveys/b/responses"].extend([Answer("broken", 500)] * 3)
    works = [work(name) for name in "abcd"]
    results = carried_out(wave(tmp_path, source(surveys(api)), works))
    assert [len(rows(tmp_path, results[number], works[number])) for number in (0, 3)] == [20, 20]
    check_names(failure(results[1]).problem, "3 times", "status 500")
    assert not failure(results[1]).not_found
    check_names(failure(results[2]).problem, 404)
    assert failure(results[2]).not_found


def test_a_failing_last_page_leaves_nothing_that_counts(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {"a": RECORDS}, size=5)
    good = api.routes["/surveys/a/responses"]
    api.routes["/surveys/a/responses"] = lambda asked: (
        Answer({"error": "gone"}, 404) if asked.params["page"] == "4" else good(asked)
    )
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a")]))
    check_names(failure(result).problem, 404)
    assert not failure(result).not_found, "a server that knows three pages knows the unit"
    assert not list((tmp_path / "table").rglob("*.parquet"))


def test_the_server_says_how_long_to_wait(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {"a": RECORDS})
    api.faults["/surveys/a/responses"].append(Answer("slow down", 429, {"Retry-After": "0"}))
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a")]))
    assert isinstance(result, UnitWritten)
    assert (result.rows, result.requests) == (20, 3)
    api.faults["/surveys/a/responses"].append(Answer("slow down", 429, {"Retry-After": "900"}))
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a")]))
    check_names(failure(result).problem, "900 s")


def test_secrets_show_in_no_message(api: Api, tmp_path: Path) -> None:
    secrets = {"key": Secret("can/ary 1"), "short": Secret("q9")}

    def told(asked: Asked) -> Answer:
        return Answer({"echo": [asked.path, dict(asked.params), dict(asked.headers), asked.body]}, 403)

    for path in ("/can%2Fary%201/q9", "/x"):
        api.routes[path] = told
    everywhere = {
        "params": {"k": "{{key}}"},
        "headers": Options({"A": "{{key}}"}),
        "method": "POST",
        "body": {"b": "{{short}}"},
    }
    for given in ({"path": "/{{key}}/{{short}}"}, {"path": "/x", **everywhere}, {"path": "/{{key}}/nowhere"}):
        (result,) = carried_out(wave(tmp_path, source(surveys(api, **given)), [work("a", secrets=secrets)]))
        told_of = repr(result)
        assert failure(result).problem
        assert not [form for form in ("can/ary", "can%2Fary", "q9") if form in told_of], told_of
    assert "can" not in repr(work("a", secrets=secrets))


def test_zero_rows_are_a_success_without_files(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {"a": []})
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a", 1, 11, 21)]))
    assert result == UnitWritten(requests=2)


def test_a_bad_record_is_named_by_page_and_number(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {"a": [*RECORDS[:7], {"id": "x", "at": at(8)}, *RECORDS[8:]]}, size=3)
    (result,) = carried_out(wave(tmp_path, source(surveys(api)), [work("a", 1, 2, 21)]))
    assert f"{api.url}/surveys/a/responses, page 3, record 1: " in failure(result).problem


def test_connections_and_tokens_are_shared_by_the_units_of_a_task(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {"a": RECORDS, "b": RECORDS})
    api.routes["/token"] = lambda asked: Answer({"access_token": "t"})
    auth = HttpAuth(AuthKind.OAUTH2, token_url=f"{api.url}/token", client_id="i", client_secret=Secret("canary-secret"))
    given = wave(tmp_path, source(surveys(api, auth=auth)), [work("a"), work("b")])
    with closing(Senders()) as senders:
        fetched = [fetch(fetch_task(given), each, 0, senders) for each in given.works]
    assert [each.requests for each in fetched if isinstance(each, Fetched)] == [3, 2]
    assert len(api.to("/token")) == 1


def test_units_with_credentials_of_their_own_do_not_pile_up_connections(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {f"u{number}": RECORDS for number in range(12)})
    read = surveys(api, auth=HttpAuth(AuthKind.BEARER, token=Secret("{{key}}")))
    works = [work(f"u{number}", secrets={"key": Secret(f"canary-{number}")}) for number in range(12)]
    given = wave(tmp_path, source(read), works)
    with closing(Senders()) as senders:
        fetched = [fetch(fetch_task(given), each, 0, senders) for each in works]
        assert len(senders._idle) <= 4
        assert len(api.asked) == 24
    assert [each.requests for each in fetched if isinstance(each, Fetched)] == [2] * 12
    assert [each.headers["authorization"][-2:] for each in api.asked[-4:]] == ["10", "10", "11", "11"]


@pytest.mark.parametrize(("slots", "wait"), [(1, 1800), (2, 3600)])
def test_tasks_beside_each_other_share_the_rate_limit(api: Api, tmp_path: Path, slots: int, wait: int) -> None:
    given = wave(tmp_path, source(surveys(api, rate_limit=RateLimit(2, 3600))), [work("a")])

    def sleep(seconds: float) -> None:
        raise RuntimeError(f"waits {round(seconds, -1):.0f} s")

    with closing(Senders(slots, sleep=sleep)) as senders:
        result = fetch(fetch_task(given), given.works[0], 0, senders)
    assert result == UnitFailure(f"RuntimeError: waits {wait} s", "this work unit was discarded; it runs again")
    assert not api.asked


def test_a_work_unit_fails_where_a_response_says_that_there_is_more(api: Api, tmp_path: Path) -> None:
    records = [{"id": 1, "at": "2026-02-02T00:00:00Z"}]
    api.routes["/surveys/a/responses"] = lambda asked: Answer({"data": records, "links": {"next": "/more"}})
    api.routes["/surveys/b/responses"] = lambda asked: Answer({"data": records, "links": {"next": None}})
    given = wave(tmp_path, source(surveys(api, pagination=None)), [work("a"), work("b")])
    failed, done = (fetch(fetch_task(given), each, 0) for each in given.works)
    assert isinstance(failed, UnitFailure)
    assert "links.next is /more" in failed.problem
    assert "pagination: {type: next_link, next: links.next}" in failed.remedy
    assert isinstance(done, Fetched)


def test_every_step_survives_pickling(api: Api, tmp_path: Path) -> None:
    keep_surveys(api, {"a": RECORDS})
    given = wave(tmp_path, source(surveys(api)), [work("a")])
    task, one = pickle.loads(pickle.dumps((fetch_task(given, 3), given.works[0])))
    fetched = pickle.loads(pickle.dumps(fetch(task, one, 0)))
    assert isinstance(fetched, Fetched)
    plan = pickle.loads(pickle.dumps(plan_write(pickle.loads(pickle.dumps(given)), [fetched])))
    assert len(rows(tmp_path, pickle.loads(pickle.dumps(write(plan, fetched))))) == 20


def test_an_answer_of_any_size_takes_little_memory(api: Api, tmp_path: Path) -> None:
    import tracemalloc

    payload = Answer({"data": [{"id": number, "text": "x" * 100_000} for number in range(300)]}).payload
    api.routes["/surveys/a/responses"] = lambda asked: Answer(payload)
    given = wave(tmp_path, source(surveys(api, pagination=Pagination())), [work("a")])
    task = fetch_task(given)
    tracemalloc.start()
    try:
        assert isinstance(fetch(task, work("a"), 0), Fetched)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 * 1024 * 1024, f"30 MB took {peak:,} bytes"
