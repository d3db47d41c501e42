"""Secrets in every form that somebody may repeat them in, and texts that stay readable."""

from __future__ import annotations

import base64
import html
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

import pytest

from tidegate.errors import ConfigError, SourceError
from tidegate.specs.columns import ColumnSource, FunctionRead, HttpAuth, HttpRead, JdbcRead
from tidegate.specs.locations import Location, Options, Secret
from tidegate.specs.masking import KEPT, LEFT_OUT, MASK, SHORTEST, Mask, remember, remember_masks, shorten
from tidegate.specs.project import StateSpec

SECRET = 'c4nary/top "s\u20accret" +1\'x\\&<y'
PLAIN = "canary-4711/+=x"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "percent": quote,
    "percent, slash too": lambda s: quote(s, safe=""),
    "percent, small hex": lambda s: quote(s, safe="").lower(),
    "percent, every letter": lambda s: "".join(f"%{each:02X}" for each in s.encode()),
    "percent twice": lambda s: quote(quote(s, safe=""), safe=""),
    "form": quote_plus,
    "JSON": json.dumps,
    "JSON with letters": lambda s: json.dumps(s, ensure_ascii=False),
    "JSON with escaped slashes": lambda s: json.dumps(s).replace("/", "\\/"),
    "JSON with numbers": lambda s: "".join(f"\\u{ord(each):04x}" for each in s),
    "JSON in JSON": lambda s: json.dumps(json.dumps(s)),
    "HTML": html.escape,
    "HTML numbers": lambda s: "".join(f"&#{ord(each)};" for each in s),
    "HTML hex": lambda s: "".join(f"&#x{ord(each):X};" for each in s),
    "repr": repr,
    "repr of repr": lambda s: repr(repr(s)),
    "repr of bytes": lambda s: repr(s.encode()),
    "repr of bytes, every letter": lambda s: "".join(f"\\x{each:02x}" for each in s.encode()),
    "octal": lambda s: "".join(f"\\{each:03o}" for each in s.encode()),
    "octal, as git writes names": lambda s: "".join(chr(e) if 31 < e < 127 else f"\\{e:03o}" for e in s.encode()),
    "unicode_escape": lambda s: s.encode("unicode_escape").decode(),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "base64": b64,
    "base64 without padding": lambda s: b64(s).rstrip("="),
    "base64, one byte before": lambda s: b64(f"u{s}"),
    "base64, two bytes before": lambda s: b64(f"us{s}"),
    "base64 of user and password": lambda s: b64(f"somebody:{s}"),
    "base64 with more behind": lambda s: b64(f"us{s}..."),
    "base64url": lambda s: base64.urlsafe_b64encode(f"u{s}?>".encode()).decode(),
    "SQL": lambda s: s.replace("'", "''").replace('"', '""'),
    "shell": lambda s: "".join(each if each.isalnum() else f"\\{each}" for each in s),
    "Rust": lambda s: "".join(f"\\u{{{ord(each):x}}}" for each in s),
    "hex with colons": lambda s: s.encode().hex(":"),
    "HEX with blanks": lambda s: s.encode().hex(" ").upper(),
    "base64 in an address": lambda s: quote(b64(f"me:{s}"), safe=""),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [SECRET, PLAIN, "canary"])
def test_a_secret_is_found_in_every_form(form: str, secret: str) -> None:
    told = FORMS[form](secret)
    masked = Mask.of(secret)(f"refused <{told}> again {told}.")
    assert masked.startswith("refused <")
    assert masked.count(MASK) == 2
    left = masked.replace(MASK, "")
    assert not any(piece in left for piece in (secret, told, told[4:-4]) if len(piece) > 3), masked
    assert "> again " in masked


@pytest.mark.parametrize("given", ["canary-4711\n", " canary-4711", "canary-4711\r\n", "\tcanary-4711 "])
def test_a_secret_is_found_without_the_blanks_around_it(given: str) -> None:
    """Secrets that are mounted as files often end in a line break, which nobody repeats."""
    assert Mask.of(given)("refused:canary-4711!") == "refused:***!"
    assert Mask.around(HttpAuth(token=Secret(given)))("refused:canary-4711!") == "refused:***!"
    assert Mask.of(given)(f"Basic {b64('me:canary-4711')}") == "Basic bWU6***"


@pytest.mark.parametrize(
    "told",
    [
        "p\u00e4ssw\u00f6rd/1",
        quote("p\u00e4ssw\u00f6rd/1", safe="", encoding="latin-1"),
        "p\u00e4ssw\u00f6rd/1".encode().decode("latin-1"),
        base64.b64encode("p\u00e4ssw\u00f6rd/1".encode("latin-1")).decode(),
        "p\u00e4ssw\u00f6rd/1".encode("latin-1").hex(),
    ],
)
def test_a_secret_is_found_in_the_older_encoding_of_the_web(told: str) -> None:
    assert Mask.of("p\u00e4ssw\u00f6rd/1")(f"refused <{told}> again") == "refused <***> again"


@pytest.mark.parametrize("told", [str, json.dumps], ids=["as it is", "JSON"])
@pytest.mark.parametrize("width", [60, 64, 76])
def test_a_secret_is_found_in_base64_over_several_lines(width: int, told: Callable[[str], str]) -> None:
    secret = "canary-" + "0123456789abcdef/+" * 8
    text = b64(f"me:{secret}:you")
    lines = "\r\n".join(text[place : place + width] for place in range(0, len(text), width))
    masked = Mask.of(secret)(f"refused <{told(lines)}> again")
    assert masked.count(MASK) == 1
    assert len(masked) < len("refused <***> again") + 14


@pytest.mark.parametrize("secret", ["b", "a", "or", "12"])
def test_a_short_secret_leaves_words_alone(secret: str) -> None:
    text = f"No suitable driver for a table or 12 rows of b, number {secret}{secret}"
    assert Mask.of(secret)(text) == text
    assert Mask.of(secret)(f"password={secret}, 'token': '{secret}'") == "password=***, 'token': '***'"


def test_a_short_secret_is_masked_as_a_word() -> None:
    assert len("root1") < SHORTEST
    assert Mask.of("root1")("user root1x gave root1") == "user root1x gave ***"


def test_what_is_cut_off_in_the_middle_of_a_secret_is_masked() -> None:
    mask = Mask.of("canary-0123456789")
    assert mask("echo canary-01234", cut=True) == "echo ***"
    assert mask(f"echo {b64('me:canary-0123456789')[:18]}", cut=True).startswith("echo bWU6"[:8])
    assert "Y2FuYXJ5" not in mask(f"echo {b64('canary-0123456789')[:12]}", cut=True)
    assert mask(shorten("x" * 490 + " canary-0123456789", 500)) == "x" * 490 + " ***…"
    assert mask(f"{shorten('x' * 490 + ' canary-0123456789', 500)} - see … there") == f"{'x' * 490} ***… - see … there"
    assert mask("a canary") == "a canary"


@pytest.mark.parametrize("form", ["percent", "JSON with numbers", "HTML numbers", "octal", "repr of bytes"])
def test_what_is_cut_off_in_the_middle_of_a_letter_is_masked(form: str) -> None:
    secret = "canary\u20ac/0123456789"
    told = FORMS[form](secret)
    begun = len(FORMS[form]("canary"))
    for size in range(begun, len(told)):
        masked = Mask.of(secret)(f"echo {told[:size]}", cut=True)
        assert masked.partition(MASK)[0].rstrip("b'") == "echo ", masked
    assert Mask.of(secret)("echo canary\ufffd", cut=True) == "echo ***\ufffd"


def test_the_time_that_masking_takes_grows_with_the_text_alone() -> None:
    """A run of a few thousand letters took seconds, and grew with its square."""
    steps = "key" * 30_000 + "a" * 60_000 + "passw" * 8_000 + "key" + " " * 9_000
    assert Mask.of("3")(f"{steps} token: 3") == f"{steps} token: ***"


@pytest.mark.slow
@pytest.mark.parametrize("place", range(-20, 21, 4))
def test_of_a_long_text_the_middle_goes_and_no_part_of_a_secret_stays(place: int) -> None:
    told = quote(SECRET, safe="")
    text = told.join(("x" * (KEPT + place - len(told) // 2), "y" * KEPT * 8, "z" * (KEPT + place - len(told) // 2)))
    masked = Mask.of(SECRET)(text)
    head, tail = masked.split(LEFT_OUT)
    assert head.rstrip("y") == "x" * (KEPT + place - len(told) // 2) + MASK
    assert tail.lstrip("y") == MASK + "z" * (KEPT + place - len(told) // 2)
    assert len(masked) < 2 * KEPT + 100


def test_the_longest_secret_goes_first_and_neighbours_are_one() -> None:
    assert Mask.of("canary", "canary-bird")("a canary-bird, canarycanary!") == "a ***, ***!"


def test_lines_and_values_inside_of_secrets_are_secrets() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----"
    document = json.dumps({"id": 1, "nested": [{"private_key": key}]})
    assert Mask.of(document)("near MIIEvQIBADANBg") == "near ***"


@dataclass(frozen=True)
class Told:
    text: str
    more: tuple[object, ...] = ()


def test_values_of_any_depth_are_masked_and_others_are_the_same() -> None:
    mask = Mask.of("canary")
    other = Told("x", (1, None, {"a": ["b"]}))
    assert mask.deep(other) is other
    assert mask.deep(Told("a canary", ({"k": ["canary"]},))) == Told("a ***", ({"k": ["***"]},))


def test_an_error_keeps_its_kind_and_loses_a_cause_that_tells() -> None:
    mask = Mask.of("canary")
    error = SourceError("the canary sings", "do not say canary")
    error.__cause__ = ValueError("harmless")
    error.__cause__.__cause__ = KeyError("canary")
    masked = mask.error(error)
    assert (type(masked), str(masked), masked.__cause__) == (SourceError, "the *** sings - do not say ***", None)
    assert str(mask.error(ConfigError(("a canary", "b")))) == "a ***\nb"
    fine = SourceError("all is well")
    fine.__cause__ = ValueError("x")
    assert mask.error(fine) is fine
    assert fine.__cause__ is not None


def test_the_secrets_of_a_specification_are_known() -> None:
    specs = [
        ColumnSource("a", FunctionRead("m:f", Options({"plain": "function-canary"}))),
        ColumnSource(
            "b", JdbcRead("jdbc:x:y", password=Secret("jdbc-canary"), properties=Options({"p": "prop-canary"}))
        ),
        ColumnSource(
            "c",
            HttpRead(
                "https://h",
                headers=Options({"X": "header-canary", "Accept": "application/json"}),
                body={"deep": [{"client_secret": "body-canary"}], "query": "harmless", "k": "a1b2c3d4e5f6g7h8"},
                auth=HttpAuth(token=Secret("token-canary")),
            ),
        ),
        Location("s3://b/x", Options({"AWS_SECRET_ACCESS_KEY": "s3-canary", "AWS_REGION": "eu-central-1"})),
        StateSpec(url=Secret("postgresql://me:state%2Fcanary@host/db")),
    ]
    mask = Mask.around(specs)
    for name in ("function", "jdbc", "prop", "header", "body", "token", "s3"):
        assert mask(f"a {name}-canary") == "a ***"
    assert mask("state%2Fcanary, state/canary") == "***, ***"
    kept = "application/json, eu-central-1, harmless"
    assert mask(kept) == kept
    assert mask("a1b2c3d4e5f6g7h8") == MASK


def test_a_short_number_handed_to_a_function_is_a_secret_only_by_its_name() -> None:
    options = Options({"retries": 3, "deep": [{"size": 1000, "pin_token": 1234}], "id": 4711471})
    mask = Mask.around(FunctionRead("m:f", options))
    assert mask("key 3, key 1000") == "key 3, key 1000"
    assert mask("key 1234, 4711471") == "key ***, ***"


def test_a_mask_takes_no_secret_elsewhere() -> None:
    mask = Mask.of("canary")
    assert b"canary" not in pickle.dumps(mask)
    assert pickle.loads(pickle.dumps(mask)) == Mask()
    assert "canary" not in repr(mask)


def test_a_mask_is_remembered_only_inside() -> None:
    with remember_masks() as known:
        remember(Mask.of("canary"))
        assert known()("canary") == MASK
    remember(Mask.of("hunter2"))
    with remember_masks() as known:
        assert known()("canary hunter2") == "canary hunter2"


def test_the_notes_of_an_error_are_masked_with_its_facts() -> None:
    error = SourceError("refused: swordfish", "ask")
    error.add_note("log: swordfish")
    masked = Mask.of("swordfish").error(error)
    assert (str(masked), masked.__notes__) == ("refused: *** - ask", ["log: ***"])


def test_notes_of_errors_are_masked_whether_or_not_their_facts_are() -> None:
    mask = Mask.of("canary-0123456789")
    error = ValueError("clean")
    error.add_note("password=canary-0123456789")
    assert mask.cause(error) is None
    assert mask.error(error).__notes__ == ["password=***"]


def test_marks_of_cuts_in_hostile_texts_cost_little() -> None:
    """Counted in what is looked at, not in seconds."""
    mask, text = Mask.of("x" * 1_700), "%41\\u0041…" * 2_000
    looked_at: list[int] = []
    real = Mask._at_end

    class Counting(Mask):
        def _at_end(self, text: str) -> list[tuple[int, int]]:
            looked_at.append(len(text))
            return real(self, text)

    assert Counting(mask.secrets)(text) == text
    assert sum(looked_at) < 3 * len(text)
