"""Takes secrets out of every text that leaves the process: errors, events, logs, reports, states.

A server, a driver or a function may repeat a secret in its own way. So a text is looked at in all its readings: as it
is, with percent signs, escapes and entities resolved, also one inside the other, and for the secret in hex and base64.
What is found is cut out of the text as it was. Shorten a text only after it was masked: half a secret is not found.
The middle of a text longer than two times :data:`KEPT` is left out, so a server cannot make the search unbounded.

A value of fewer than :data:`SHORTEST` characters cannot be taken out reliably: it would be found inside ordinary words,
and show itself by that. It is masked where it stands as a word of its own, or where the text gives it as a password.
So is a password that everybody tries first, such as ``postgres``.

State is never masked: documents and log entries hold identities and paths that must stay exact. A configuration that
would put a secret there is refused instead.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import unquote

from tidegate.errors import TidegateError, chain, safe_text
from tidegate.specs.credentials import SHORTEST, looks_random, secrets_in, texts_in

MASK = "***"
KEPT = 100_000
"""Characters that are kept of a long text, at its beginning and at its end."""

LEFT_OUT = " … (the middle is left out) … "

_NAMED = (
    r"(?i:((?:passw\w{0,40}|passphrase|pass|pwd|pw|secret\w{0,40}|token|key|sig|authorization|bearer|basic)"
    r"[\"'\\]{0,20}(?:\s{0,20}[:=]\s{0,20}|\s{1,20})[\"'\\]{0,20}|//[^/@:\s]{0,80}:))"
)
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PLUS = re.compile(r"\+")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|U[0-9a-fA-F]{8}"
    r"|x[0-9a-fA-F]{2}|[bfnrt]|[^\w\t\r\n])"
)
_DOUBLED = re.compile(r"''|\"\"")
_SEPARATED = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[: -]){5,}[0-9A-Fa-f]{2}(?![0-9A-Fa-f])")
_WRAPPED = re.compile(r"(?<=\S)\r?\n[ \t]*(?=\S)")
_BYTES = re.compile(r"(?:\\x[0-9a-fA-F]{2}|\\[0-3][0-7]{2})+")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,10});")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_GUESSABLE_TEXT = (
    "admin administrator changeme default guest minioadmin mysql oracle passw0rd password postgres public "
    "root secret system tidegate"
)
GUESSABLE = frozenset(_GUESSABLE_TEXT.split())
"""Passwords of test servers that are also ordinary words: hidden where a text gives them as a password."""

_URL_SAFE = str.maketrans("+/", "-_")
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_UNFINISHED = re.compile(r"(?:%[0-9A-Fa-f]?|\\(?:[uUx]\{?[0-9A-Fa-f]{0,7}|[0-3][0-7]?)?|&#?\w{0,10})\Z")
_BROKEN = "".join(map(chr, (0xFFFD, *range(0x80, 0x100), *range(0xDC80, 0xDD00))))
"""What the first bytes of a letter are read as that is not whole."""

_CUT = ("...", "…")
_ESCAPES = re.compile(r"[%\\&'\"\n\r…]|\.\.\.|(?:[0-9A-Fa-f]{2}[: -]){5}[0-9A-Fa-f]{2}|\+(?!\d\d:?\d\d$)", re.ASCII)
"""What may hide a secret from a plain search; a ``+`` is also part of every time with an offset."""

_SHORT_TEXT = 200
_REMEMBERED = 20_000
_CUT_INSIDE = re.compile(r"(?<!…)…(?=.)", re.DOTALL)
"""Where :func:`shorten` has cut off a part of a text that goes on."""

_CUTS = 10
"""How many such places are looked at from the beginning of a text, and as many from its end."""

_LONGEST_CUT = 2_000
"""How many characters before such a place are looked at."""

# One encoding inside another is what servers do; a third level multiplies the readings by eight.
_DEPTH = 2
_WIDEST = 20
"""Characters that one of a secret takes in a text, written in any usual way."""

Value = TypeVar("Value")
Span = tuple[int, int]


def shorten(text: str, longest: int = 500) -> str:
    """``text``, or its beginning with a mark at the end, by which a later mask sees that it was cut."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


@runtime_checkable
class NamedSpec(Protocol):
    """A specification with names that are shown as they are."""

    def shown_names(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class Mask:
    """Takes ``secrets`` out of texts.

    >>> Mask.of("top/secret")("refused: key=top%2fsecret, dG9wL3NlY3JldA==")
    'refused: key=***, ***'
    """

    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    names: frozenset[str] = frozenset()
    """Texts that are never masked as a whole: names of pipelines, addresses of tables, which hold no secret."""

    @classmethod
    def of(cls, *values: object) -> Mask:
        """A mask of these values; those of mappings, lists and JSON are taken one by one."""
        return cls(frozenset(text for text in texts_in(values) if text.strip()))

    @classmethod
    def around(cls, *specs: object) -> Mask:
        """A mask of the secrets of these specifications, which leaves the names of projects and pipelines alone.

        Else a database called like its password would be ``***`` in every report. A secret that is part of such a name
        is hidden only where a text gives it as a password.
        """
        named = (each.shown_names() for each in specs if isinstance(each, NamedSpec))
        return replace(cls.of(*secrets_in(specs)), names=frozenset(name for names in named for name in names))

    def __reduce__(self) -> tuple[type[Mask], tuple[()]]:
        """A mask stays in the process that made it: what is sent to tasks, or kept, holds no secrets of it."""
        return Mask, ()

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.secrets | other.secrets, self.names | other.names)

    def __call__(self, text: str, *, cut: bool = False) -> str:
        """``text`` without the secrets; with ``cut`` it may end in the middle of one."""
        if not self.secrets or not text or text in self.names or (not cut and self._is_clean(text)):
            return text
        if len(text) <= 2 * KEPT:
            return self._cut_out(text, self._spans(text, cut=cut))
        # Past the cut, since a secret may begin before it and end behind it.
        looked_at = KEPT + _WIDEST * max(map(len, self.secrets))
        head, tail = text[:looked_at], text[-looked_at:]
        begun = [(start, min(end, KEPT)) for start, end in self._spans(head, cut=False) if start < KEPT]
        left = len(tail) - KEPT
        ended = [(max(start, left) - left, end - left) for start, end in self._spans(tail, cut=cut) if end > left]
        return self._cut_out(head[:KEPT], begun) + LEFT_OUT + self._cut_out(tail[left:], ended)

    def _is_clean(self, text: str) -> bool:
        """A quick look at short texts without escapes, such as cells of tables: most hold no secret."""
        if len(text) > _SHORT_TEXT or _ESCAPES.search(text):
            return False
        known = self._clean.get(text)
        if known is None:
            known = not any(pattern.search(text) for pattern in self._quick)
            # Bounded, since a server chooses the texts.
            if len(self._clean) < _REMEMBERED:
                self._clean[text] = known
        return known

    @cached_property
    def _clean(self) -> dict[str, bool]:
        """Short texts that were looked at: names and states come thousands of times."""
        return {}

    @cached_property
    def _quick(self) -> tuple[re.Pattern[str], ...]:
        """Everything that is looked for in a text without escapes; each as one expression."""
        exact = "|".join(re.escape(pattern) for pattern, _ in self._patterns)
        hexes = "|".join(map(re.escape, self._hexes))
        found = [re.compile(exact)] if exact else []
        return (*found, *([re.compile(hexes, re.IGNORECASE)] if hexes else ()), *self._short)

    def _spans(self, text: str, *, cut: bool) -> list[Span]:
        """Where the secrets are."""
        spans = [span for view in _views(text) for span in self._find(view)]
        spans += self._at_end(text) if cut or text.rstrip("'\" )").endswith(_CUT) else []
        cuts = [found.start() for found in _CUT_INSIDE.finditer(text)]
        looked_at = cuts if len(cuts) <= 2 * _CUTS else cuts[:_CUTS] + cuts[-_CUTS:]
        widest = min(_LONGEST_CUT, _WIDEST * max(map(len, self.secrets)))
        for place in looked_at:
            # Only the end of what precedes the cut can be the beginning of a secret.
            first = max(0, place - widest)
            spans += ((start + first, end + first) for start, end in self._at_end(text[first:place]))
        return spans

    def _cut_out(self, text: str, spans: Iterable[Span]) -> str:
        masked = _without(text, spans)
        for pattern in self._short:
            masked = pattern.sub(lambda found: f"{found[1]}{MASK}", masked)
        return masked

    def of_keys(self) -> Mask:
        """The same for generated keys alone, for texts that must stay as they are: nothing else looks like those."""
        return Mask(frozenset(filter(looks_random, self.secrets)))

    def hides(self, text: str) -> bool:
        """Whether ``text`` holds one of the secrets."""
        return self(text) != text

    def finds(self, text: str) -> bool:
        """Whether a text of any length holds a secret: as it is, percent-encoded, escaped, in hex or base64.

        For whole files: it takes a small part of the time of :meth:`hides`, which also looks at mixed encodings.
        """
        if any(json.dumps(each)[1:-1] in text for each in self.secrets if self._is_found_anywhere(each)):
            return True
        for reading in {text, unquote(text), text.replace("\\/", "/")}:
            lowered = reading.lower() if self._hexes else ""
            if any(pattern in reading for pattern, _ in self._patterns) or any(each in lowered for each in self._hexes):
                return True
        return False

    def deep(self, value: Value) -> Value:
        """The same value with every text in it masked: of dataclasses, mappings, lists and errors too."""
        masked: Value = self._deep(value) if self.secrets else value
        return masked

    def _deep(self, value: Any) -> Any:
        match value:
            case str():
                return self(value) if type(value) is str else value
            case Mapping() if type(value) is dict:
                return {self._key(name): self._deep(each) for name, each in value.items()}
            case list():
                return [self._deep(each) for each in value]
            case tuple() if type(value) is tuple:
                return tuple(self._deep(each) for each in value)
            case BaseException():
                return self.error(value)
            case _ if is_dataclass(value) and not isinstance(value, type):
                return self._copy(value)
            case _:
                return value

    def _key(self, name: Any) -> Any:
        # Keys of reports are our own words, and a password may be one of them.
        return name if isinstance(name, str) and re.fullmatch(r"[a-z_]+", name) else self._deep(name)

    def _copy(self, value: Any) -> Any:
        changed = {}
        for each in fields(value):
            before = getattr(value, each.name)
            after = self._deep(before)
            if after is not before and after != before:
                changed[each.name] = after
        return replace(value, **changed) if changed else value

    def error(self, error: Any) -> Any:
        """An error with its facts masked; the one it came from goes where that has a secret in its text."""
        given = _facts(error)
        facts = tuple(self._deep(each) for each in given)
        cause = self.cause(error.__cause__)
        notes = getattr(error, "__notes__", [])
        masked = self._deep(notes)
        if facts == given and cause is error.__cause__ and masked == notes:
            return error
        fresh = error if facts == given else _remake(error, facts)
        if masked:
            fresh.__notes__ = masked
        # Python prints the context of an error, too, and that one is not masked.
        fresh.__cause__, fresh.__suppress_context__ = cause, True
        return fresh.with_traceback(error.__traceback__)

    def cause(self, error: BaseException | None) -> BaseException | None:
        """``error`` as what another came from, unless it, or one behind it, has a secret in its text."""
        for each in chain(error):
            if self.hides("\n".join((safe_text(each), _safe_repr(each), *map(str, getattr(each, "__notes__", ()))))):
                return None
        return error

    @cached_property
    def _patterns(self) -> tuple[tuple[str, int], ...]:
        """What is looked for, and by how many characters a match reaches further to the left."""
        found: dict[tuple[str, int], None] = {}
        for secret in sorted(self.secrets, key=len, reverse=True):
            if self._is_found_anywhere(secret):
                found |= dict.fromkeys((text, 0) for text in _misread(secret))
                found |= dict.fromkeys(each for content in _encode(secret) for each in _base64(content))
        return tuple(found)

    @cached_property
    def _texts(self) -> frozenset[str]:
        """Those of the patterns that are no base64."""
        return frozenset(text for secret in self.secrets for text in _misread(secret))

    @cached_property
    def _hexes(self) -> tuple[str, ...]:
        long = filter(self._is_found_anywhere, self.secrets)
        return tuple(content.hex() for secret in long for content in _encode(secret))

    @cached_property
    def _short(self) -> tuple[re.Pattern[str], ...]:
        """Secrets that are not looked for inside words: found as words, or where the text says what they are."""
        short = sorted((each for each in self.secrets if not self._is_found_anywhere(each)), key=len, reverse=True)
        return tuple(
            re.compile((r"()(?<![\w%])" if self._is_telling(each) else _NAMED) + re.escape(each) + r"(?!\w)")
            for each in short
        )

    def _is_found_anywhere(self, secret: str) -> bool:
        """Whether a secret is looked for also inside words, and encoded."""
        return len(secret) >= SHORTEST and not self._is_ordinary(secret)

    def _is_telling(self, short: str) -> bool:
        """Whether a short value on its own is unlikely to be an ordinary word or number."""
        if self._is_ordinary(short):
            return False
        return len(short) >= 4 or (len(short) > 1 and not short.isalpha() and not short.isdigit())

    def _is_ordinary(self, secret: str) -> bool:
        """Whether a secret is also a word that everybody may see: a name, a part of one, or everybody's password."""
        return secret.lower() in GUESSABLE or any(secret in name for name in self.names)

    def _find(self, view: _View) -> Iterator[Span]:
        for pattern, before in self._patterns:
            for place in _places(view.text, pattern):
                end = place + len(pattern)
                if pattern not in self._texts:
                    place, end = _extend_base64(view.text, place - before, end)
                yield view.span(max(0, place), end)
        lowered = view.text.lower() if self._hexes else ""
        # Some letters become two when lowered, and every place after them would be wrong.
        if len(lowered) == len(view.text):
            for pattern in self._hexes:
                for place in _places(lowered, pattern):
                    yield view.span(place, place + len(pattern))

    def _at_end(self, text: str) -> list[Span]:
        """The beginning of a secret that the end of the text cuts off."""
        spans = []
        end = text.rstrip("'\" )").rstrip(".…")
        views = (each for whole in {end, _UNFINISHED.sub("", end)} for each in _views(whole))
        for view, begun in ((each, text) for each in views for text in {each.text, each.text.rstrip(_BROKEN)}):
            for pattern, before in self._patterns:
                longest = min(len(pattern) - 1, len(begun))
                for size in range(longest, min(SHORTEST, len(pattern) // 2) - 1, -1):
                    if begun.endswith(pattern[:size]):
                        spans.append(view.span(max(0, len(begun) - size - before), len(begun)))
                        break
        return spans


def _remake(error: BaseException, facts: tuple[Any, ...]) -> BaseException:
    """An error of the same class with other facts; a plain one if its class wants others than it keeps."""
    try:
        return type(error)(*facts)
    except Exception:
        kind = TidegateError if isinstance(error, TidegateError) else Exception
        return kind(f"{type(error).__name__}: {', '.join(map(str, facts))}")


def _facts(error: BaseException) -> tuple[Any, ...]:
    """The arguments of an error; none if its class hides them."""
    try:
        return tuple(error.args)
    except Exception:
        return ()


def _safe_repr(error: BaseException) -> str:
    try:
        return repr(error)
    # Code of the user's own may raise anything here, even SystemExit, while we only want to look.
    except BaseException:
        return ""


class _Remembered:
    """The masks that were remembered, joined when asked for."""

    def __init__(self) -> None:
        self._joined = Mask()
        self._added: list[Mask] = []

    def add(self, mask: Mask) -> None:
        self._added.append(mask)

    def __call__(self) -> Mask:
        # A mask compiles its patterns on first use, so it is joined anew only if there is something new.
        while self._added:
            self._joined |= self._added.pop()
        return self._joined


_KNOWN: ContextVar[_Remembered | None] = ContextVar("known secrets", default=None)


@contextmanager
def remember_masks() -> Iterator[Callable[[], Mask]]:
    """While inside, masks given to :func:`remember` are kept; yields a function that joins them into one.

    The command line shows everything through it, unexpected errors included.
    """
    known = _Remembered()
    before = _KNOWN.set(known)
    try:
        yield known
    finally:
        _KNOWN.reset(before)


def remember(mask: Mask) -> None:
    """Keep a mask for the caller that is inside :func:`remember_masks`, if there is one."""
    known = _KNOWN.get()
    if known is not None:
        known.add(mask)


def recall_mask() -> Mask:
    """The mask of all that was remembered so far; one without secrets where nobody is inside :func:`remember_masks`."""
    known = _KNOWN.get()
    return known() if known is not None else Mask()


@dataclass(frozen=True, slots=True)
class _View:
    """A reading of a text; each of its characters stands for a piece of the text, None: for itself."""

    text: str
    pieces: tuple[Span, ...] | None = None

    def span(self, start: int, end: int) -> Span:
        if self.pieces is None:
            return start, end
        return self.pieces[start][0], self.pieces[end - 1][1]

    def read(self, pattern: re.Pattern[str], read: Callable[[str], Iterable[tuple[str, int]]]) -> _View | None:
        """The view with each match resolved; ``read`` gives characters, and how many of the match each stands for."""
        letters: list[str] = []
        pieces: list[Span] = []
        end = 0
        for found in pattern.finditer(self.text):
            letters += self.text[end : found.start()]
            pieces += (self.span(place, place + 1) for place in range(end, found.start()))
            place = found.start()
            for letter, length in read(found[0]):
                letters.append(letter)
                pieces.append(self.span(place, place + length))
                place += length
            end = found.end()
        if not end:
            return None
        letters += self.text[end:]
        pieces += (self.span(place, place + 1) for place in range(end, len(self.text)))
        return _View("".join(letters), tuple(pieces))


def _read_percent(run: str) -> Iterator[tuple[str, int]]:
    text = bytes.fromhex(run.replace("%", "")).decode("utf-8", "surrogateescape")
    return ((letter, 3 * len(letter.encode("utf-8", "surrogateescape"))) for letter in text)


def _read_escape(run: str) -> list[tuple[str, int]]:
    if run[1] == "u" and len(run) == 12:
        return [(json.loads(f'"{run}"'), 12)]
    if run[1] in "uUx" and len(run) > 2:
        number = int(run[2:].strip("{}"), 16)
        return [(chr(number) if number < 0x110000 else "?", len(run))]
    return [(_LETTERS.get(run[1], run[1]), 2)]


def _read_bytes(run: str) -> Iterator[tuple[str, int]]:
    """Escaped bytes, in hex or octal, as UTF-8; each is written in four characters. Others stand for themselves."""
    content = bytes(int(each[1:], 16) if each[0] == "x" else int(each, 8) for each in run.split("\\")[1:])
    for letter in content.decode("utf-8", "surrogateescape"):
        yield (
            chr(ord(letter) - 0xDC00) if "\udc80" <= letter <= "\udcff" else letter,
            4 * len(letter.encode("utf-8", "surrogateescape")),
        )


def _read_entity(run: str) -> list[tuple[str, int]]:
    text = html.unescape(run)
    return [(text, len(run))] if len(text) == 1 else [(letter, 1) for letter in run]


def _read_separated_hex(run: str) -> Iterator[tuple[str, int]]:
    """Bytes in hex with a sign between them; each sign belongs to the digit before it."""
    return (
        (letter, 1 + (place % 3 == 1 and place + 1 < len(run))) for place, letter in enumerate(run) if place % 3 < 2
    )


_READINGS: tuple[tuple[re.Pattern[str], Callable[[str], Iterable[tuple[str, int]]]], ...] = (
    (_PERCENT, _read_percent),
    (_PLUS, lambda run: [(" ", 1)]),
    (_ESCAPE, _read_escape),
    (_BYTES, _read_bytes),
    (_ENTITY, _read_entity),
    (_DOUBLED, lambda run: [(run[0], 2)]),
    (_SEPARATED, _read_separated_hex),
    (_WRAPPED, lambda run: []),
)


def _views(text: str) -> Iterator[_View]:
    """All readings of a text, each once."""
    seen = {text}
    level = [_View(text)]
    for depth in range(_DEPTH + 1):
        yield from level
        if depth == _DEPTH:
            return
        further = []
        for view in level:
            for pattern, read in _READINGS:
                other = view.read(pattern, read)
                if other is not None and other.text not in seen:
                    seen.add(other.text)
                    further.append(other)
        level = further


def _encode(secret: str) -> Iterator[bytes]:
    """A secret as bytes: in UTF-8 and, where it has letters beyond ASCII and that can hold them, in Latin-1."""
    yield secret.encode("utf-8", "surrogatepass")
    with suppress(UnicodeEncodeError):
        if not secret.isascii():
            yield secret.encode("latin-1")


def _misread(secret: str) -> Iterator[str]:
    """A secret, and its bytes decoded wrongly: UTF-8 as Latin-1, or the reverse."""
    yield secret
    if not secret.isascii():
        utf, *latin = _encode(secret)
        yield utf.decode("latin-1")
        yield from (each.decode("utf-8", "surrogateescape") for each in latin)


def _base64(content: bytes) -> Iterator[tuple[str, int]]:
    """The part of a secret in base64 that does not depend on its neighbours, for each offset it can begin at."""
    # Base64 packs three bytes into four letters: a secret looks different at each of the three offsets.
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + content).decode()
        core = text[(0, 2, 3)[shift] : 8 * (shift + len(content)) // 6]
        yield core, int(shift > 0)
        if core.translate(_URL_SAFE) != core:
            yield core.translate(_URL_SAFE), int(shift > 0)


def _extend_base64(text: str, start: int, end: int) -> Span:
    """A match in base64 with the letter at its end that holds bits of it, and what fills the end."""
    if end < len(text) and text[end] in _BASE64:
        end += 1
    while end < len(text) and text[end] == "=":
        end += 1
    return start, end


def _places(text: str, pattern: str) -> Iterator[int]:
    place = text.find(pattern)
    while place >= 0:
        yield place
        place = text.find(pattern, place + 1)


def _without(text: str, spans: Iterable[Span]) -> str:
    """``text`` with the spans replaced, those that touch or overlap by one mask."""
    parts: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        if start > end or not parts:
            parts += [text[end:start], MASK]
        end = max(end, stop)
    return "".join([*parts, text[end:]]) if parts else text
