"""Whatever a server answers, a read ends in rows, in failed work units or in an error of ours, never in another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from servers import raw
from servers.raw import RawServer
from support.long_runs import examples
from support.unit_waves import FIELDS, source, wave, work
from tidegate.errors import TidegateError
from tidegate.schema.inference import check_agreement, infer_json
from tidegate.sources.http import survey
from tidegate.sources.http.bounds import Part
from tidegate.sources.http.responses import Counts, Fetch, Shapes, blocks
from tidegate.sources.units.work import UnitFailure
from tidegate.specs.columns import HttpRead, Pagination, PaginationKind, Retries
from tidegate.specs.table import FieldSpec, SchemaSpec
from tidegate.tasks.unit_columns import RecordBlocks
from tidegate.tasks.unit_share import carry_out_here

FUZZ = settings(
    max_examples=examples(10_000, 25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
WHOLE = Pagination()
pytestmark = pytest.mark.timeout(3600)
FOREIGN = re.compile(r"^\w+(Error|Exception|Warning|Interrupt|Exit)\b")
"""How a failed work unit tells an error that nobody foresaw."""

NESTED = [b'{"a":' * levels + b"1" + b"}" * levels for levels in (30, 600, 5000)]
NESTED += [b'{"a":' + b"[" * levels + b"]" * levels + b"}" for levels in (30, 600, 5000)]

VALUES = st.sampled_from(
    [
        *(b"0", b"-1", b"1.5", b"1e999999", b"-1e999999", b"1e-999999", b"9" * 5000, b"-" + b"9" * 5000, b"01", b"1."),
        *(b"NaN", b"Infinity", b"-Infinity", b"null", b"true", b"nul", b"", b"{}", b"[]", b'{"":1}', b"[1,{}]"),
        *(
            b'""',
            b'"2026-02-03T00:00:00Z"',
            b'"x"',
            b'"\\ud800"',
            b'"\\udfaa\\ud83d"',
            b'"\\u0000"',
            b'"\xff"',
            b'"\t"',
        ),
        *(b'"\xed\xa0\x80"', b'"\\x"', b'"' + b"x" * 5000 + b'"', b'{"a":1,"a":2}', b'{"A":1,"a":2}', b"\x00"),
        *(b'"9999-99-99"', b'"0001-01-01T00:00:00+99:99"', *NESTED),
    ]
)
KEYS = st.sampled_from(
    [b'"id"', b'"at"', b'"ID"', b'""', b'"a b"', b'"a.b"', b'"\\ud800"', b'"\xff"', b'"_tidegate_unit"', b"id", b'"x"']
)
RECORDS = st.one_of(
    st.lists(st.tuples(KEYS, VALUES), max_size=3).map(
        lambda pairs: b"{" + b",".join(key + b":" + value for key, value in pairs) + b"}"
    ),
    VALUES,
    *[st.just(b'{"id":1,"at":"2026-02-03T00:00:00Z"}')] * 4,
)
LISTS = st.lists(RECORDS, max_size=3).map(lambda records: b"[" + b",".join(records) + b"]")
LINKS = st.sampled_from(
    [b'"http://["', b'"http://u:p@h/?k"', b'"?"', b'"//"', b'{"next":"http://["}', b'[{"rel":"next","href":"/"},1]']
)
REST = st.lists(
    st.tuples(
        st.sampled_from(
            [
                b'"next"',
                b'"total"',
                b'"error"',
                b'"data"',
                b'"\\ud800"',
                b'"links"',
                b'"has_more"',
                b'"count"',
                b'"pages"',
            ]
        ),
        st.one_of(VALUES, LINKS),
    ),
    max_size=2,
).map(lambda pairs: b"".join(b"," + key + b":" + value for key, value in pairs))
BODIES = st.one_of(
    st.tuples(LISTS, REST).map(lambda parts: b'{"data":' + parts[0] + parts[1] + b"}"),
    LISTS,
    VALUES,
    st.binary(max_size=40),
    st.tuples(
        st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "utf-7", "latin-1"]), st.just('{"data":[{"id":1}]}')
    ).map(lambda pair: pair[1].encode(pair[0])),
)
ODD_HEADERS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(
                    "Retry-After: ²",
                    "Retry-After: -1",
                    "Retry-After: " + "9" * 400,
                    "Retry-After: 1e9",
                    "Retry-After: ٣",
                ),
                *("Retry-After: Wed, 21 Oct 1015 07:28:00 GMT", "Retry-After: Fri, 31 Dec 9999 23:59:59 -2359"),
                *(
                    "Retry-After: Wed, 21 Oct 2015 07:28:00 -0000",
                    "Retry-After: 99 Foo 99999 99:99:99",
                    "Retry-After: ,",
                ),
                *("Content-Type: application/json; charset=rot13", "Content-Type: application/json; charset=zlib"),
                *(
                    "Content-Type: application/json; charset=\x00",
                    "Content-Type: ",
                    "Content-Type: ;",
                    "Content-Type: a",
                ),
                *("Content-Type: application/json; charset=\xff", "Content-Type: text/html", "Content-Type: /json"),
                *("Content-Length: -1", "Content-Length: ²", "Content-Length: 5, 6", "Content-Length: 99999999999999"),
                *("Content-Encoding: gzip", "Content-Encoding: br", "Content-Encoding: zstd", "Content-Encoding: what"),
                *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Content-Encoding: deflate"),
                *("Link: <", 'Link: <http://[>; rel="next"', "Link: <x>; rel", 'Link: <\xff>; rel="next"', "Link: ;=,"),
                *('Link: </p>; rel="next"', 'Link: <ftp://x>; rel="next"', "Link: <a>; rel=next; rel=prev; =;"),
                *("Location: ", "Location: http://[", "Location: //", "Location: \xff\xfe", "Location: ftp://x/"),
                *("Location: /surveys/a/responses", "Location: http://127.0.0.1:99999/", "Location: http://²/"),
                *("Set-Cookie: \xff=\x01; Max-Age=x; Expires=never", "Set-Cookie: ;;;=", "Set-Cookie: a=b; Domain=.."),
                *("WWW-Authenticate: Digest", "nothing", ": x", "Trailer: x"),
            ]
        ).map(lambda text: text.encode("utf-8" if "²" in text or "٣" in text else "latin-1")),
        st.binary(max_size=20).map(lambda value: b"X: " + value.replace(b"\r", b"").replace(b"\n", b"")),
    ),
    max_size=3,
)
HEADERS = st.one_of(st.just([]), st.just([]), ODD_HEADERS)
STATUSES = st.sampled_from(
    [200] * 8 + [201, 204, 206, 299, 301, 302, 303, 304, 307, 400, 401, 404, 418, 429, 500, 599, 999]
)


@st.composite
def raw_answers(draw: st.DrawFn) -> bytes:
    """One answer, to the last byte."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=60))
    body = draw(BODIES)
    headers = draw(HEADERS)
    told = {header.partition(b":")[0].lower() for header in headers}
    if b"content-type" not in told:
        headers = [*headers, b"Content-Type: application/json"]
    if not told & {b"content-length", b"transfer-encoding"}:
        headers = [*headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([b"HTTP/1.1 %d Odd" % draw(STATUSES), *headers, b"Connection: close", b"", body])


PAGING = st.sampled_from(
    [
        None,
        Pagination(),
        Pagination(PaginationKind.PAGE, max_pages=3),
        Pagination(PaginationKind.PAGE, more="has_more", max_pages=3),
        Pagination(PaginationKind.CURSOR, last_field="id", max_pages=3),
        Pagination(PaginationKind.OFFSET, total="total", max_pages=3),
        Pagination(PaginationKind.CURSOR, next="next", max_pages=3),
        Pagination(PaginationKind.NEXT_LINK, max_pages=3),
        Pagination(PaginationKind.NEXT_LINK, next="next", max_pages=3),
    ]
)


@dataclass(frozen=True, slots=True)
class Case:
    """What the server answers, and how it is asked."""

    answers: tuple[bytes, ...]
    paging: Pagination | None = WHOLE
    declared: bool = True
    rescued: bool = False
    coerce: bool = False

    @property
    def schema(self) -> SchemaSpec:
        fields = FIELDS if self.declared else ()
        rescued = "rescued" if self.rescued else None
        return SchemaSpec(fields, infer=not self.declared, coerce_conflicts_to_utf8=self.coerce, rescued=rescued)

    def read(self, url: str) -> HttpRead:
        retries = Retries(1, 0.0, 0.0)
        return HttpRead(
            url, "/surveys/a/responses", records="data", pagination=self.paging, retries=retries, timeout_secs=5
        )


CASES = st.builds(
    Case,
    st.lists(raw_answers(), min_size=1, max_size=3).map(tuple),
    PAGING,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def answer(body: bytes, *headers: bytes, status: int = 200) -> bytes:
    """An answer as most servers give it, with more headers."""
    told = [b"HTTP/1.1 %d Odd" % status, b"Content-Type: application/json", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*told, b"Connection: close", b"", body])


def listed(*records: bytes) -> bytes:
    return answer(b'{"data":[' + b",".join(records) + b"]}")


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw.running() as found:
        yield found


def read_columns(case: Case, url: str) -> int:
    """How many rows a read without work units gives, by the steps of the reader, in this process."""
    fetch = Fetch(case.read(url), (Part(),))
    found = list(blocks(fetch, 0, Counts(), sleep=lambda seconds: None))
    fields = case.schema.fields
    if not fields:
        shapes = Shapes()
        telling = [told for block in found for line in block.lines.splitlines() if (told := shapes.sample(line))]
        if not telling:
            return 0
        inferred = infer_json([telling], coerce_conflicts_to_utf8=case.coerce, rescued=case.rescued)
        fields = check_agreement(inferred).fields
    if case.rescued:
        fields = (*fields, FieldSpec("rescued", "string"))
    decoder = RecordBlocks(fields, case.schema, fetch.parts, url)
    return sum(decoder.rows(block).num_rows for block in found)


@FUZZ
@given(CASES)
@example(Case((answer(b"", b"Retry-After: \xc2\xb2", status=429),)))
@example(Case((listed(NESTED[1]),), declared=False))
@example(Case((listed(NESTED[4]),), declared=False))
@example(Case((answer(b'{"data":[],"next":"http://["}'),), None))
def test_a_read_of_columns_ends_in_rows_or_in_an_error_of_ours(server: RawServer, case: Case) -> None:
    server.begin(case.answers)
    told = ""
    try:
        event("rows" if read_columns(case, server.url) else "no rows")
    except TidegateError as error:
        told = str(error)
        event("an error of ours")
    assert not FOREIGN.match(told), told
    assert told.encode("utf-8", "strict") is not None


@FUZZ
@given(CASES)
@example(Case((answer(b"", b"Retry-After: \xc2\xb2", status=429),)))
@example(Case((listed(NESTED[1]),), declared=False))
@example(Case((listed(b'{"id":' + b"9" * 5000 + b"}"),), declared=False))
def test_a_work_unit_ends_in_rows_or_fails_with_words_of_ours(server: RawServer, tmp_path: Path, case: Case) -> None:
    server.begin(case.answers)
    of = source(case.read(server.url), unit=None)
    given_wave = wave(tmp_path, of, (work("a"),), case.schema)
    told = ""
    try:
        (result,) = carry_out_here(given_wave).results
        told = result.problem if isinstance(result, UnitFailure) else ""
        event("failed" if told else "rows")
    except TidegateError as error:
        told = str(error)
        event("an error of ours")
    assert not FOREIGN.match(told), told
    assert told.encode("utf-8", "strict") is not None


@FUZZ
@given(CASES)
@example(Case((answer(b'{"data":[{"id":1}],"next":"http://["}'),), None))
@example(Case((answer(b'{"data":[{"id":[]},{"id":{}},{"id":null}],"total":9}'),), None))
def test_a_look_at_an_api_ends_in_findings_or_in_an_error_of_ours(server: RawServer, case: Case) -> None:
    server.begin(case.answers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey, "_RETRIES", Retries(0, 0.0, 0.0))
        for watermark in ((), ("id",)):
            try:
                found = survey.survey_api(case.read(server.url), watermark=watermark)
                assert {"records", "pages"} <= set(dict(found.facts))
                event("findings")
            except TidegateError:
                event("an error of ours")
