"""HTTP connections and sources: requests, credentials, pages, and where the bounds of a read go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.errors import check_names
from tidegate.config import load, show
from tidegate.specs.columns import (
    AuthKind,
    HttpAuth,
    HttpRead,
    Pagination,
    PaginationKind,
    ParamFormat,
    RateLimit,
    Retries,
    WatermarkParams,
)
from tidegate.specs.locations import Options, Secret
from tidegate.specs.project import ProjectSpec

Loaded = Callable[..., ProjectSpec]
Problems = Callable[..., tuple[str, ...]]
CANARY = "hunter2"


def file(source: str = "path: /x", connection: str = "", columns: str = "[at]") -> str:
    """An API in line 2, its source in line 5."""
    return (
        f'connections:\n  api: {{type: http, url: "https://api.example.org/v1/"{connection}}}\n'
        f"pipelines:\n  p:\n    source: {{connection: api, watermark_columns: {columns}, {source}}}\n"
        "    sink: {path: lake, load_type: merge_upsert, merge_keys: [id]}\n"
    )


def read(project: ProjectSpec) -> HttpRead:
    found = project.pipelines[0].sources[0].read
    assert isinstance(found, HttpRead)
    return found


def test_an_api_with_everything(loaded: Loaded) -> None:
    connection = """, headers: {A: a, B: b}, rate_limit: {requests: 20, per_seconds: 0.5}, timeout_secs: 7,
      retries: {attempts: 0, base_secs: 1, max_wait_secs: 9}, auth: {type: bearer, token: hunter2}"""
    source = """path: orders, method: POST, params: {limit: 5}, headers: {B: other}, idempotent: true,
      body: {n: 5, f: 0.5, flag: true, text: "5", none: null, list: [1, a], in: {er: x}},
      records: data.items, error: err.text,
      response_types: [Text/Plain; charset=utf-8, text/csv],
      pagination: {type: page, param: page, size_param: limit, size: 100, start: 0, total: meta.total, max_pages: 7},
      watermark_param_mapping: {at: since}, watermark_to_param: until, watermark_param_location: body,
      watermark_param_format: date, watermark_split: 4, parallelism: 3, max_response_mb: 9"""
    assert read(loaded(file(source, connection))) == HttpRead(
        url="https://api.example.org/v1",
        path="/orders",
        connection="api",
        method="POST",
        params={"limit": "5"},
        headers=Options({"A": "a", "B": "other"}),
        body={"n": 5, "f": 0.5, "flag": True, "text": "5", "none": None, "list": [1, "a"], "in": {"er": "x"}},
        records="data.items",
        error="err.text",
        auth=HttpAuth(AuthKind.BEARER, token=Secret(CANARY)),
        pagination=Pagination(PaginationKind.PAGE, "page", "limit", size=100, start=0, total="meta.total", max_pages=7),
        rate_limit=RateLimit(20, 0.5),
        retries=Retries(0, 1.0, 9.0),
        timeout_secs=7.0,
        idempotent=True,
        watermark=WatermarkParams({"at": "since"}, "until", "body", "date", 4),
        parallelism=3,
        max_response_mb=9,
        response_types=("text/plain", "text/csv"),
    )


def test_the_smallest_api(loaded: Loaded) -> None:
    found = read(loaded(file("poll_interval_secs: 5")))
    assert found == HttpRead("https://api.example.org/v1", connection="api")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", None),
        ("pagination: {}", None),
        ("pagination: null", None),
        ("pagination: {type: none}", Pagination()),
        (
            "pagination: {type: cursor, last_field: id, more: has_more, ignore: next}",
            Pagination(PaginationKind.CURSOR, last_field="id", more="has_more", ignore=("next",)),
        ),
    ],
)
def test_whether_none_was_written_is_remembered(loaded: Loaded, given: str, found: Pagination | None) -> None:
    project = loaded(file(given or "poll_interval_secs: 5"))
    assert read(project).pagination == found
    again = load(show(project), env={})
    assert read(again).pagination == found


def test_a_list_that_is_read_in_full_needs_no_watermark(loaded: Loaded) -> None:
    text = """\
connections:
  surveys:
    type: http
    url: "http://127.0.0.1:${SURVEYS_PORT}"
    auth: {type: bearer, token: "${SURVEYS_TOKEN}"}
    rate_limit: {requests: 20, per_seconds: 1}
pipelines:
  survey_list:
    source:
      connection: surveys
      path: /surveys
      records: data
      pagination: {type: cursor, param: after, next: paging.next}
    sink:
      table_uri: lake/surveys
      load_type: overwrite
"""
    env = {"SURVEYS_PORT": "8080", "SURVEYS_TOKEN": "***"}
    project = loaded(text, env=env)
    assert read(project).pagination == Pagination(PaginationKind.CURSOR, "after", next="paging.next")
    assert project.pipelines[0].sources[0].watermark_columns == ()
    again = load(show(project), env=env)
    assert (again.pipelines, again.notices) == (project.pipelines, ())


@pytest.mark.parametrize(
    ("auth", "found"),
    [
        ("{type: none}", HttpAuth()),
        ("{type: bearer, token: t}", HttpAuth(AuthKind.BEARER, token=Secret("t"))),
        ("{type: basic, user: u, password: p}", HttpAuth(AuthKind.BASIC, user="u", password=Secret("p"))),
        ("{type: api_key, token: t}", HttpAuth(AuthKind.API_KEY, token=Secret("t"))),
        (
            "{type: api_key, token: t, name: key, place: params}",
            HttpAuth(AuthKind.API_KEY, token=Secret("t"), name="key", place="params"),
        ),
        (
            "{type: oauth2, token_url: 'https://x/t', client_id: c, client_secret: s, scope: 'a b'}",
            HttpAuth(AuthKind.OAUTH2, token_url="https://x/t", client_id="c", client_secret=Secret("s"), scope="a b"),
        ),
    ],
)
def test_every_kind_of_credentials(loaded: Loaded, auth: str, found: HttpAuth) -> None:
    assert read(loaded(file(connection=f", auth: {auth}"))).auth == found


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        (
            ", auth: {type: bearr, token: hunter2}",
            "auth.type … api_key",
        ),
        (", auth: {type: bearer}", "connections.api.auth.token … bearer"),
        (", auth: {type: basic, user: u}", "connections.api.auth.password … basic"),
        (", auth: {type: api_key}", "connections.api.auth.token … api_key"),
        (", auth: {type: oauth2, client_id: c, client_secret: s}", "auth.token_url … oauth2"),
        (
            ", auth: {type: bearer, token: hunter2, user: u}",
            "connections.api.auth.user … bearer",
        ),
        (", auth: {token: hunter2}", "connections.api.auth.token … none"),
        (", auth: {type: bearer, tokn: hunter2, token: x}", "auth.tokn … 'token'"),
        (", auth: {type: api_key, token: hunter2, place: body}", "auth.place … header, params"),
        (", auth: hunter2", "connections.api.auth … mapping"),
        (
            ", headers: {A: [hunter2]}",
            "connections.api.headers … text",
        ),
        (", rate_limit: {per_seconds: 1}", "connections.api.rate_limit.requests … missing"),
        (", rate_limit: {requests: 0}", "connections.api.rate_limit.requests … '0'"),
        (", rate_limit: {requests: 1, per_seconds: 0}", "rate_limit.per_seconds … '0'"),
        (", retries: {attempts: -1}", "connections.api.retries.attempts … '-1'"),
        (", timeout_secs: soon", "connections.api.timeout_secs … 'soon' … 0"),
        (
            ", password: hunter2",
            "connections.api.password … http",
        ),
    ],
)
def test_a_wrong_connection_is_one_problem_without_its_secret(problems: Problems, connection: str, words: str) -> None:
    (line,) = problems(file(connection=connection))
    assert line.startswith("pipelines.yml:2: connections.api.")
    check_names(line, words)
    assert CANARY not in line


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"https://me:{CANARY}@host/v1", "auth"),
        (f"https://host/v1?key={CANARY}", "'?' … '#'"),
        ("ftp://host/v1", "'ftp://host/v1' … HTTP"),
        ("jdbc:postgresql://host/db", "HTTP … address"),
        ("http://2130706433/v1", "HTTP … unusual"),
    ],
)
def test_a_wrong_address_is_one_problem_without_its_secret(problems: Problems, url: str, words: str) -> None:
    (line,) = problems(file().replace("https://api.example.org/v1/", url))
    assert f"connections.api.url: '{url[:5]}" in line
    check_names(line, words)
    assert CANARY not in line


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("method: PATCH", "source.method … 'PATCH' … GET … POST"),
        ("body: {a: b}", "source.body … POST"),
        ("idempotent: true", "source.idempotent … POST"),
        ("method: POST, body: [a]", "source.body … mapping"),
        ("path: 'https://other/x'", "source.path … 'https://other/x'"),
        ("path: '/x?a=b'", "source.path … '/x?a=b'"),
        ("path: '/x/{{id}}'", "source.path … '{{id}}' … 'watermark'"),
        ("records: 'a..b'", "source.records … 'a..b'"),
        (
            f"params: {{access_token: {CANARY}}}",
            "source.params … 'access_token'",
        ),
        (
            "params: {a: {watermark: x}}",
            "source.params … text",
        ),
        ("table: t", "source.table … 'pipelines.<pipeline>.sources.<jdbc source>'"),
        ("pagination: {type: cursor, param: a}", "source.pagination.next … cursor"),
        (
            "pagination: {type: cursor, next: a, last_field: b}",
            "source.pagination.next … last_field",
        ),
        ("pagination: {type: page, last_field: a}", "source.pagination.last_field … page"),
        ("pagination: {ignore: [next]}", "source.pagination.ignore … none"),
        ("pagination: {type: page, ignore: [a b]}", "source.pagination.ignore"),
        (
            "pagination: {type: curso}",
            "source.pagination.type … 'curso' … next_link",
        ),
        ("pagination: {param: x}", "source.pagination.param … none"),
        ("pagination: {type: next_link, start: 1}", "source.pagination.start … next_link"),
        ("pagination: {type: page, next: a}", "source.pagination.next … page"),
        (
            "pagination: {type: page, size: 5}",
            "source.pagination.size_param … parameter",
        ),
        ("pagination: {type: page, max_pages: 0}", "source.pagination.max_pages … '0'"),
        ("watermark_param_mapping: {ta: since}", "watermark_param_mapping.ta … 'ta'"),
        ("watermark_param_location: header", "watermark_param_location … 'header'"),
        ("watermark_param_location: body", "watermark_param_location … GET … POST"),
        (
            "watermark_param_format: isoo",
            "watermark_param_format … 'isoo' … timestamp … timestamp_ms",
        ),
        ("watermark_param_format: isoo", "'iso'"),
        ("watermark_param_format: yyyy-MM-dd", "%Y … pattern"),
        ("watermark_split: 4", "watermark_split … bounds"),
        (
            "response_types: [text]",
            "response_types … 'text'",
        ),
        ("watermark_split: 4, watermark_to_param: x", "watermark_split … bounds"),
        ("configure: {watermark_split: 4}", "source.configure.watermark_split … bounds"),
        (
            "configure: {watermark_param_mapping: {x: y}}",
            "configure.watermark_param_mapping.x … 'x'",
        ),
        (
            "watermark_to_param: a, configure: {watermark_to_param: b}",
            "source.configure.watermark_to_param",
        ),
    ],
)
def test_a_wrong_source_is_one_problem(problems: Problems, source: str, words: str) -> None:
    (line,) = problems(file(source))
    assert line.startswith("pipelines.yml:5: pipelines.p.source.")
    check_names(line, words)
    assert CANARY not in line


@pytest.mark.parametrize("format", [*ParamFormat, "%Y-%m-%d", "%d.%m.%Y %H:%M"])
def test_every_format_of_bounds(loaded: Loaded, format: str) -> None:
    assert read(loaded(file(f"watermark_param_format: '{format}'"))).watermark.format == format


def test_bounds_may_stand_in_configure(loaded: Loaded) -> None:
    keys = "watermark_param_mapping: {at: since}, watermark_to_param: until, watermark_param_format: timestamp"
    within = read(loaded(file(f"configure: {{{keys}, watermark_param_location: params, watermark_split: 2}}")))
    assert within.watermark == WatermarkParams({"at": "since"}, "until", "params", "timestamp", 2)
    assert within == read(loaded(file(f"{keys}, watermark_split: 2")))
    both = read(loaded(file("configure: {watermark_param_mapping: {at: since}}, watermark_to_param: until")))
    assert both.watermark == WatermarkParams({"at": "since"}, "until")


def test_parameters_that_a_server_takes_together_cannot_tell_of_two_columns(problems: Problems, loaded: Loaded) -> None:
    source = "watermark_param_mapping: {at: since, id: after}"
    for mapping in (source, source.replace(", id: after", "")):
        (line,) = problems(file(mapping, columns="[at, id]"))
        check_names(line, "watermark_param_mapping")
    (line,) = problems(file(f"{source}, watermark_mode: tuple", columns="[at, id]"))
    check_names(line, "watermark_mode: tuple")
    first = f"{source.replace(', id: after', '')}, watermark_mode: tuple"
    assert read(loaded(file(first, columns="[at, id]"))).watermark.mapping == {"at": "since"}


def test_watermark_columns_of_an_api_are_declared_ones(problems: Problems, loaded: Loaded) -> None:
    schema = "    schema: {fields: [{name: id, type: int64}, {name: at, type: timestamp}]}\n"
    assert read(loaded(file() + schema))
    (line,) = problems(file(columns="[att]") + schema)
    check_names(line, "source.watermark_columns … 'att' … 'at'")


def test_no_secret_of_an_api_shows(loaded: Loaded) -> None:
    connection = f", headers: {{A: {CANARY}}}, auth: {{type: basic, user: u, password: {CANARY}}}"
    source = f"method: POST, body: {{login: {{password: {CANARY}}}, n: 5}}, headers: {{B: '{CANARY}'}}"
    project = loaded(file(source, connection))
    assert read(project).body == {"login": {"password": CANARY}, "n": 5}
    assert CANARY not in show(project) + repr(project) + str(read(project).auth)
    assert "n: 5" in show(project)


@pytest.mark.parametrize(
    ("origins", "words"),
    [
        (
            "[https://me:canary@files.example.org]",
            "something",
        ),
        ("https://files.example.org/v1", "example"),
        ("files.example.org", "something"),
        ("[https://169.254.169.254]", "https://169.254.169.254"),
        ("[http://files.example.org]", "http://files.example.org … https://api.example.org"),
    ],
)
def test_servers_that_no_link_may_lead_to_are_refused(problems: Problems, origins: str, words: str) -> None:
    (line,) = problems(file(connection=f", allowed_origins: {origins}"))
    check_names(line, "connections.api.allowed_origins")
    check_names(line, words)
    assert "canary" not in line
