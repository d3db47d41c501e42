"""Requests on a bad line: what is repeated, how long is waited, and what is never sent elsewhere."""

from __future__ import annotations

import base64
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from servers.api import Answer, Api, Asked, by_link, by_offset, running, whole
from support.errors import raises
from support.http_reads import ROWS, fetched, read_of
from tidegate.errors import ConfigError, SourceError
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.client import RequestPace, Sender, in_flight, request_of, slot_count
from tidegate.sources.http.responses import Counts
from tidegate.specs.columns import AuthKind, HttpAuth, HttpRead, Pagination, PaginationKind, RateLimit, Retries
from tidegate.specs.locations import Options, Secret

BUSY = Answer({"message": "busy"}, 503)
BEARER = HttpAuth(AuthKind.BEARER, token=Secret("canary"))


@pytest.fixture
def other() -> Iterator[Api]:
    with running() as server:
        yield server


@pytest.mark.parametrize(
    "fault",
    [
        Answer(b"", 500),
        BUSY,
        Answer(b"", 429),
        Answer(is_reset=True),
        Answer({"data": ROWS}, cut=20),
        Answer({"data": ROWS}, cut=20, is_hidden=True),
        Answer({"data": ROWS}, cut=40, is_zipped=True, is_hidden=True),
        Answer(b"", is_hidden=True),
    ],
    ids=["500", "503", "429", "reset", "cut", "cut without a length", "cut and zipped", "empty"],
)
def test_a_bad_answer_is_asked_for_again_and_no_record_comes_twice(api: Api, fault: Answer) -> None:
    api.routes["/items"] = by_offset(ROWS)
    api.faults["/items"].extend([fault, fault])
    counts = Counts()
    paging = Pagination(PaginationKind.OFFSET, "offset", "limit", 10, total="total")
    assert fetched(read_of(api, pagination=paging), counts=counts) == ROWS
    assert (counts.requests, counts.repeated, counts.pages, counts.records) == (5, 2, 3, 25)


@pytest.mark.parametrize("encoding", ["zstd", "br", "gzip, gzip", "deflate,gzip"])
def test_encodings_that_unpack_without_bound_are_refused(api: Api, encoding: str) -> None:
    """Sixteen kilobytes of zstd may be half a gigabyte, and so may gzip in gzip."""
    api.routes["/items"] = lambda asked: Answer(b"", headers={"Content-Encoding": encoding})
    with raises(SourceError, "/items", f"'{encoding}'", "gzip, deflate"):
        fetched(read_of(api))
    assert [each.headers["accept-encoding"] for each in api.asked] == ["gzip, deflate"]


def test_a_slow_answer_is_asked_for_again(api: Api) -> None:
    api.routes["/items"] = whole(ROWS)
    api.faults["/items"].append(Answer({"data": ROWS}, wait=0.5))
    assert fetched(read_of(api, timeout_secs=0.15)) == ROWS
    assert len(api.asked) == 2


def test_tries_come_to_an_end(api: Api) -> None:
    api.routes["/items"] = lambda asked: BUSY
    with raises(SourceError, "/items", "4 times", "status 503"):
        fetched(read_of(api))
    assert len(api.asked) == 4


def test_a_server_that_is_not_there_is_told(api: Api) -> None:
    read = read_of(api, url="http://127.0.0.1:9")
    with raises(SourceError, "http://127.0.0.1:9/items", "4 times", "Connection refused"):
        fetched(read)


def test_waits_grow_and_stay_below_the_limit(api: Api) -> None:
    api.routes["/items"] = lambda asked: BUSY
    waits: list[float] = []
    with pytest.raises(SourceError):
        fetched(read_of(api, retries=Retries(6, 1.0, 8.0)), waits=waits)
    limits = [1, 2, 4, 8, 8, 8]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(waits, limits, strict=True)), waits


def test_the_server_says_how_long_to_wait(api: Api) -> None:
    api.routes["/items"] = whole(ROWS)
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    api.faults["/items"].append(Answer(b"", 429, {"Retry-After": "7"}))
    api.faults["/items"].append(Answer(b"", 503, {"Retry-After": moment}))
    waits: list[float] = []
    assert fetched(read_of(api), waits=waits) == ROWS
    assert waits[0] == 7
    assert 20 < waits[1] <= 40


def test_a_wait_over_the_limit_is_an_error(api: Api) -> None:
    api.faults["/items"].append(Answer(b"", 429, {"Retry-After": "3600"}))
    waits: list[float] = []
    with raises(SourceError, "/items", "3600 s", "max_wait_secs (now 60)"):
        fetched(read_of(api, retries=Retries()), waits=waits)
    assert (waits, len(api.asked)) == ([], 1)


def test_a_refusal_is_not_repeated(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"message": "no such account"}, 400)
    with raises(SourceError, "400", "no such account"):
        fetched(read_of(api))
    assert len(api.asked) == 1


@pytest.mark.parametrize("fault", [BUSY, Answer(b"", 429), Answer(is_reset=True), Answer({"data": ROWS}, cut=9)])
def test_a_post_is_sent_once_unless_it_is_harmless(api: Api, fault: Answer) -> None:
    api.routes["/items"] = whole(ROWS)
    api.faults["/items"].append(fault)
    with raises(SourceError, "POST", "idempotent: true"):
        fetched(read_of(api, method="POST", body={"q": 1}))
    assert len(api.asked) == 1
    api.faults["/items"].append(fault)
    assert fetched(read_of(api, method="POST", body={"q": 1}, idempotent=True)) == ROWS
    assert [each.body for each in api.asked] == [{"q": 1}] * 3


def test_who_asks_is_told_in_four_ways(api: Api) -> None:
    api.routes["/items"] = whole(ROWS)
    encoded = base64.b64encode(b"me:canary").decode()
    ways = [
        (BEARER, "authorization", "Bearer canary"),
        (HttpAuth(AuthKind.BASIC, user="me", password=Secret("canary")), "authorization", f"Basic {encoded}"),
        (HttpAuth(AuthKind.API_KEY, token=Secret("canary"), name="X-Key"), "x-key", "canary"),
    ]
    for auth, header, value in ways:
        assert fetched(read_of(api, auth=auth)) == ROWS
        assert api.asked[-1].headers[header] == value
    key = HttpAuth(AuthKind.API_KEY, token=Secret("canary"), name="key", place="params")
    assert fetched(read_of(api, auth=key, params={"a": "1"})) == ROWS
    assert api.asked[-1].params == {"a": "1", "key": "canary"}


def oauth(api: Api, lives: int) -> HttpAuth:
    """A server whose tokens are good for so many requests."""
    issued: list[int] = []

    def token(asked: Asked) -> Answer:
        issued.append(lives)
        return Answer({"access_token": f"token-{len(issued)}", "expires_in": 3600})

    def items(asked: Asked) -> Answer:
        if not issued or asked.headers.get("authorization") != f"Bearer token-{len(issued)}" or not issued[-1]:
            return Answer({"message": "expired"}, 401)
        issued[-1] -= 1
        return by_offset(ROWS)(asked)

    api.routes |= {"/token": token, "/items": items}
    secret = Secret("canary +/")
    return HttpAuth(AuthKind.OAUTH2, token_url=f"{api.url}/token", client_id="me", client_secret=secret, scope="read")


def test_a_token_is_asked_for_once_and_again_when_it_is_refused(api: Api) -> None:
    paging = Pagination(PaginationKind.OFFSET, "offset", "limit", 5, total="total")
    assert fetched(read_of(api, auth=oauth(api, 3), pagination=paging)) == ROWS
    tokens = api.to("/token")
    assert (len(tokens), len(api.to("/items"))) == (2, 6)
    assert tokens[0].body == {"grant_type": "client_credentials", "scope": "read"}
    user, _, password = base64.b64decode(tokens[0].headers["authorization"].split()[1]).decode().partition(":")
    assert (user, password) == ("me", "canary+%2B%2F")


def test_a_second_refusal_ends_the_read(api: Api) -> None:
    with raises(SourceError, "401", "auth") as raised:
        fetched(read_of(api, auth=oauth(api, 0)))
    assert (len(api.to("/token")), len(api.to("/items"))) == (2, 2)
    assert "canary" not in str(raised.value)


def test_a_token_that_is_not_given_ends_the_read(api: Api) -> None:
    auth = oauth(api, 1)
    api.routes["/token"] = lambda asked: Answer({"error": "invalid_client", "echo": "canary +/"}, 401)
    with raises(SourceError, "/token", "status 401", "client_id, client_secret") as raised:
        fetched(read_of(api, auth=auth))
    assert "canary" not in str(raised.value)


def test_a_request_for_a_token_is_repeated_and_reported_as_what_it_is(api: Api) -> None:
    auth = oauth(api, 1)
    api.routes["/token"] = lambda asked: Answer({}, 503)
    with raises(SourceError, f"POST {api.url}/token", "2 times"):
        fetched(read_of(api, auth=auth, retries=Retries(1, 0.0, 8.0)))
    assert len(api.to("/token")) == 2


def test_a_fixed_token_is_not_tried_twice(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer({"you": asked.headers["authorization"]}, 401)
    with raises(SourceError, "401", "***", "auth") as raised:
        fetched(read_of(api, auth=BEARER))
    assert len(api.asked) == 1
    assert "canary" not in str(raised.value)


def carried(asked: Asked) -> str:
    """Everything a request tells."""
    return f"{asked.params} {asked.headers} {asked.body}"


AUTHS = [
    BEARER,
    HttpAuth(AuthKind.API_KEY, token=Secret("canary")),
    HttpAuth(AuthKind.API_KEY, token=Secret("canary"), name="key", place="params"),
]


@pytest.mark.parametrize("auth", AUTHS, ids=["bearer", "header", "parameter"])
def test_a_link_to_another_host_gets_no_credentials(api: Api, other: Api, auth: HttpAuth) -> None:
    api.routes["/items"] = by_link(ROWS, 10, other.url)
    other.routes["/items"] = by_link(ROWS, 10)
    paging = Pagination(PaginationKind.NEXT_LINK, next="next")
    tenant = Options({"X-Tenant": "canary"})
    read = read_of(api, auth=auth, pagination=paging, headers=tenant, allowed_origins=(other.url,))
    assert fetched(read) == ROWS
    assert "canary" in carried(api.asked[0])
    assert len(other.asked) == 2
    assert not any("canary" in carried(each) for each in other.asked)


@pytest.mark.parametrize("auth", AUTHS, ids=["bearer", "header", "parameter"])
def test_a_redirect_to_another_host_gets_no_credentials(api: Api, other: Api, auth: HttpAuth) -> None:
    elsewhere = f"{other.url}/here?a=1"
    api.routes["/items"] = lambda asked: Answer(
        b"", 302, {"Location": elsewhere, "Set-Cookie": "session=canary; Path=/"}
    )
    other.routes["/here"] = whole(ROWS)
    read = read_of(api, auth=auth, headers=Options({"X-Tenant": "canary"}), allowed_origins=(other.url,))
    assert fetched(read) == fetched(read) == ROWS
    assert [dict(each.params) for each in other.asked] == [{"a": "1"}] * 2
    assert not any("canary" in carried(each) for each in other.asked)


def test_a_redirect_on_the_same_host_keeps_the_credentials(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer(b"", 308, {"Location": "/moved?x=1"})
    api.routes["/moved"] = whole(ROWS)
    assert fetched(read_of(api, auth=BEARER)) == ROWS
    assert api.to("/moved")[0].headers["authorization"] == "Bearer canary"


def test_a_circle_of_redirects_is_an_error(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer(b"", 302, {"Location": "/items"})
    with raises(SourceError, "/items", "circle"):
        fetched(read_of(api))


@pytest.mark.parametrize("status", [302, 307])
def test_a_post_is_not_handed_to_another_host(api: Api, other: Api, status: int) -> None:
    api.routes["/items"] = lambda asked: Answer(b"", status, {"Location": f"{other.url}/here"})
    with raises(SourceError, "POST", "/items", "redirects"):
        fetched(read_of(api, method="POST", body={"password": "canary"}, idempotent=True))
    assert other.asked == []


NEXT = Pagination(PaginationKind.NEXT_LINK, next="next")


@pytest.mark.parametrize("allowed", [False, True], ids=["not allowed", "allowed"])
def test_a_post_that_follows_a_link_keeps_its_body_at_home(api: Api, other: Api, allowed: bool) -> None:
    api.routes["/items"] = by_link(ROWS, 10, other.url)
    other.routes["/items"] = by_link(ROWS, 10)
    read = read_of(api, method="POST", body={"client_secret": "canary"}, idempotent=True, pagination=NEXT)
    with raises(SourceError, "nothing was sent"):
        fetched(replace(read, allowed_origins=(other.url,) if allowed else ()))
    assert other.asked == []
    api.routes["/items"] = by_link(ROWS, 10)
    assert fetched(read) == ROWS


@pytest.mark.parametrize("how", ["link", "redirect"])
def test_another_server_is_asked_only_if_it_is_allowed_by_name(api: Api, other: Api, how: str) -> None:
    elsewhere = f"{other.url}/items"
    there = by_link(ROWS, 25, other.url) if how == "link" else whole(ROWS)
    other.routes["/items"] = there
    answer = Answer({"data": [], "next": elsewhere}) if how == "link" else Answer(b"", 307, {"Location": elsewhere})
    api.routes["/items"] = lambda asked: answer
    read = read_of(api, pagination=NEXT if how == "link" else Pagination())
    with raises(SourceError, api.url, other.url, f"allowed_origins: ['{other.url}']"):
        fetched(read)
    assert other.asked == []
    assert fetched(replace(read, allowed_origins=(other.url,))) == ROWS


@pytest.mark.parametrize("how", ["link", "redirect"])
@pytest.mark.parametrize(
    "link",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fe80::1]/",
        "http://metadata.google.internal/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://evil.example./",
        "http://{host}:{port}@evil.example/",
        "http://evil.example\\@{host}:{port}/",
        "http://user:pass@{host}:{port}/items",
        "//evil.example/items",
    ],
)
def test_no_spelling_of_a_link_leads_elsewhere(api: Api, how: str, link: str) -> None:
    told = link.format(host="127.0.0.1", port=api.port)
    answer = Answer({"data": [], "next": told}) if how == "link" else Answer(b"", 302, {"Location": told})
    api.routes["/items"] = lambda asked: answer
    with raises(SourceError, "leads"):
        fetched(read_of(api, auth=BEARER, pagination=NEXT if how == "link" else Pagination()))
    assert len(api.asked) == 1


def test_a_token_is_not_asked_for_where_a_redirect_leads(api: Api, other: Api) -> None:
    auth = oauth(api, 1)
    api.routes["/token"] = lambda asked: Answer(b"", 307, {"Location": f"{other.url}/token"})
    with raises(SourceError, "/token", "status 307"):
        fetched(read_of(api, auth=auth, allowed_origins=(other.url,)))
    assert other.asked == []


def test_addresses_with_credentials_are_refused_without_showing_them(api: Api) -> None:
    with raises(ConfigError, "url", "'https://example.com'", "auth: {type: basic") as raised:
        fetched(read_of(api, url="https://me:canary@example.com"))
    assert "canary" not in str(raised.value)
    with raises(ConfigError, "url", "HTTP server", "https://"):
        fetched(read_of(api, url="ftp://example.com"))


def test_requests_are_not_logged(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("httpx2").setLevel(logging.NOTSET)
    caplog.set_level(logging.DEBUG)
    api.routes["/items"] = whole(ROWS)
    key = HttpAuth(AuthKind.API_KEY, token=Secret("canary"), name="key", place="params")
    assert fetched(read_of(api, auth=key)) == ROWS
    assert "canary" not in caplog.text


def test_no_window_has_more_requests_than_the_limit() -> None:
    for requests, parts, parallelism in [(10, 1, None), (10, 3, None), (10, 10, None), (3, 40, None), (7, 40, 5)]:
        limit = RateLimit(requests, 2.0)
        slots = slot_count(limit, in_flight(HttpRead("https://x.example", parallelism=parallelism), parts))
        assert slots <= min(requests, parts, parallelism or parts)
        begun: list[float] = []
        for slot in range(slots):
            clock = [slot * 0.013]
            pace = RequestPace(
                limit, slots, clock=lambda clock=clock: clock[0], sleep=lambda s, c=clock: c.__setitem__(0, c[0] + s)
            )
            for _ in range(2 * requests):
                pace.wait()
                begun.append(clock[0])
        begun.sort()
        assert all(later - first >= 2.0 - 1e-9 for first, later in zip(begun, begun[requests:], strict=False))
        assert begun[0] > 0


class CountingPace(RequestPace):
    """Tells how often it was asked."""

    asked = 0

    def wait(self) -> None:
        self.asked += 1


def test_every_request_is_paced_also_repeated_ones_redirects_and_those_for_tokens(api: Api) -> None:
    auth = oauth(api, 1)
    api.routes["/start"] = lambda asked: Answer(b"", 302, {"Location": "/items"})
    api.faults["/start"].append(BUSY)
    pace = CountingPace(None, 1)
    sender = Sender(read_of(api, "/start", auth=auth), pace)
    sender.fetch(request_of(read_of(api, "/start"), Part()), lambda response: response.read())
    sender.close()
    assert [each.path for each in api.asked] == ["/token", "/start", "/start", "/items"]
    assert pace.asked == sender.requests == len(api.asked)


@pytest.mark.parametrize("link", ["ftp://elsewhere/x", "javascript:alert(1)", "http://[oops", "https:///x"])
def test_a_link_to_nowhere_is_an_error(api: Api, link: str) -> None:
    api.routes["/items"] = lambda asked: Answer({"data": ROWS, "next": link})
    with raises(SourceError, "/items", "HTTP server"):
        fetched(read_of(api, pagination=Pagination(PaginationKind.NEXT_LINK, next="next")))
    api.routes["/items"] = lambda asked: Answer(b"", 302, {"Location": link})
    with raises(SourceError, "/items", "HTTP server"):
        fetched(read_of(api))


def test_secrets_that_an_answer_repeats_are_hidden(api: Api) -> None:
    auth = HttpAuth(AuthKind.BASIC, user="me", password=Secret("canary"))
    api.routes["/items"] = lambda asked: Answer({"error": f"{asked.headers} canary"})
    with raises(SourceError, "'error'", "***") as raised:
        fetched(read_of(api, auth=auth, headers=Options({"X-Tenant": "tenant-canary", "X-Version": "1"})))
    told = str(raised.value)
    assert "canary" not in told
    assert base64.b64encode(b"me:canary").decode() not in told
    assert "127.0.0.1" in told


_ECHOES: dict[str, tuple[Callable[[str], Answer], Pagination]] = {
    "error": (lambda told: Answer({"error": told.rjust(210)}), Pagination()),
    "value": (lambda told: Answer({"data": told.rjust(210)}), Pagination()),
    "keys": (lambda told: Answer({"x" * 280: 1, told: 1}), Pagination()),
    "keys, up to the end": (lambda told: Answer({"x" * 390: 1, told: 1}), Pagination()),
    "record": (lambda told: Answer({"data": ["." * 45 + told]}), Pagination()),
    "content type": (lambda told: Answer(b"", kind=f"text/{told}"), Pagination()),
    "encoding": (lambda told: Answer(b"", headers={"Content-Encoding": "x" * 80 + told}), Pagination()),
    "total": (
        lambda told: Answer({"data": [], "total": told.rjust(90)}),
        Pagination(PaginationKind.OFFSET, total="total"),
    ),
    "cursor": (
        lambda told: Answer({"data": [{}], "next": ["." * 60 + told]}),
        Pagination(PaginationKind.CURSOR, next="next"),
    ),
}


def test_an_error_that_is_nested_deeply_is_told(api: Api) -> None:
    api.routes["/items"] = lambda asked: Answer(b'{"error": %s1%s}' % (b"[" * 1000, b"]" * 1000))
    with raises(SourceError, "'error'", "/items"):
        fetched(read_of(api))


@pytest.mark.parametrize("how", _ECHOES)
def test_a_secret_that_an_answer_repeats_where_it_is_cut_is_hidden(api: Api, how: str) -> None:
    answer, paging = _ECHOES[how]
    api.routes["/items"] = lambda asked: answer(asked.headers["authorization"].split()[1])
    auth = HttpAuth(AuthKind.BEARER, token=Secret("Canary-0123456789-abcdef-0123456789-abcdef"))
    with pytest.raises(SourceError) as raised:
        fetched(read_of(api, auth=auth, pagination=paging))
    assert "canary" not in "".join(traceback.format_exception(raised.value)).lower()
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"auth": HttpAuth(AuthKind.BEARER, token=Secret("c\u00e4nary"))}, "Authorization"),
        ({"auth": HttpAuth(AuthKind.API_KEY, token=Secret("c\u00e4nary"), name="X-Key", place="header")}, "X-Key"),
        ({"headers": Options({"X-Tenant": "c\u00e4nary"})}, "X-Tenant"),
        ({"headers": Options({"X-Tenant": "nary\r\nX: y"})}, "X-Tenant"),
    ],
)
def test_what_no_header_can_hold_is_told_by_the_name_of_the_header(
    api: Api, settings: dict[str, Any], header: str
) -> None:
    with raises(SourceError, f"header '{header}'") as raised:
        fetched(read_of(api, **settings))
    assert "nary" not in "".join(traceback.format_exception(raised.value))
    assert not api.asked


@pytest.mark.parametrize(
    "auth",
    [
        HttpAuth(AuthKind.BASIC, user="me", password=Secret("canary\udce4")),
        HttpAuth(AuthKind.API_KEY, token=Secret("canary\udce4"), name="key", place="params"),
    ],
)
def test_a_credential_that_is_no_text_is_an_error_without_it(api: Api, auth: HttpAuth) -> None:
    with raises(SourceError, "GET", "UTF-8") as raised:
        fetched(read_of(api, auth=auth))
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer({"access_token": "c\u00e4nary"}), "header 'Authorization'"),
        (Answer(b"[" * 200_000), "/token … no token … client_id"),
        (Answer(b" " * (1024 * 1024 + 1)), "/token … 1 MB … token_url"),
        (Answer(b"", headers={"Content-Encoding": "br"}), "/token … 'br'"),
    ],
    ids=["other letters", "deep", "long", "encoded"],
)
def test_a_token_answer_that_is_none_is_an_error(api: Api, answer: Answer, problem: str) -> None:
    auth = oauth(api, 1)
    api.routes["/token"] = lambda asked: answer
    with raises(SourceError, problem) as raised:
        fetched(read_of(api, auth=auth))
    assert "nary" not in "".join(traceback.format_exception(raised.value))
    assert not api.to("/items")


KEY_IN_PATH = HttpAuth(AuthKind.API_KEY, token=Secret("123:a/canary"), name="bot", place="path")


def test_a_key_in_the_path_goes_to_its_own_server_and_is_known_by_its_name_elsewhere(api: Api, other: Api) -> None:
    api.routes["/bot123:a%2Fcanary/items"] = lambda asked: Answer(b"", 302, {"Location": f"{other.url}/elsewhere"})
    other.routes["/elsewhere"] = whole(ROWS)
    read = read_of(api, auth=KEY_IN_PATH, path="/bot{{ bot }}/items", allowed_origins=(other.url,))
    assert fetched(read) == ROWS
    assert [each.path for each in api.asked] == ["/bot123:a%2Fcanary/items"]
    assert not [each for each in other.asked if "canary" in f"{each.path} {each.headers} {each.params}"]
    assert request_of(read, Part()).url == f"{api.url}/bot{{{{ bot }}}}/items"


def test_an_error_about_a_key_in_the_path_does_not_show_it(api: Api) -> None:
    api.routes["/bot123:a%2Fcanary/items"] = lambda asked: Answer({"error": f"no bot {asked.path}"}, 403)
    with pytest.raises(SourceError) as caught:
        fetched(read_of(api, auth=KEY_IN_PATH, path="/bot{{bot}}/items"))
    assert "/bot***/items" in str(caught.value)
    assert "canary" not in "".join(traceback.format_exception(caught.value))
