"""Numbers and names for people: sizes, durations, counts, and names made safe to print."""

from __future__ import annotations

import textwrap
import unicodedata

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


ROW_CHANGES = ("inserted", "updated", "deleted", "unchanged")
"""What can become of a row, by the names that reports, events and metrics have for it."""


def row_changes(counted: object) -> str:
    """What became of the rows of something that has these counts; empty if they are no news beside its rows.

    >>> from types import SimpleNamespace
    >>> row_changes(SimpleNamespace(inserted=3, updated=10, deleted=None, unchanged=4987))
    '3 inserted, 10 updated, 4,987 unchanged'
    >>> row_changes(SimpleNamespace(inserted=3, updated=0, deleted=0, unchanged=0))
    ''
    """
    found = {name: getattr(counted, name) for name in ROW_CHANGES}
    is_news = any(found[name] for name in ROW_CHANGES[1:])
    return ", ".join(f"{number:,} {name}" for name, number in found.items() if number) if is_news else ""


def size(count: float) -> str:
    """Bytes in the unit that fits.

    >>> size(0), size(1536), size(134217728)
    ('0 B', '1.5 KiB', '128 MiB')
    """
    if count < 1024:
        return f"{count:.0f} B"
    for unit in _UNITS[:-1]:
        count /= 1024
        # Four digits never show: 1,000 KiB and more is 1.0 MiB.
        if count < 999.5:
            return _scale(count, unit)
    return _scale(count / 1024, _UNITS[-1])


def size_of(part: float, whole: float) -> str:
    """A part of a whole, in the unit of the whole.

    >>> size_of(1 << 29, 1 << 32), size_of(3, 10)
    ('0.5/4.0 GiB', '3/10 B')
    """
    number, _, unit = size(whole).partition(" ")
    share = part / (1024 ** (1 + _UNITS.index(unit))) if unit in _UNITS else part
    return f"{share:,.{1 if '.' in number else 0}f}/{number} {unit}"


def short(number: int) -> str:
    """A count in few characters.

    >>> short(950), short(12_300), short(1_200_000)
    ('950', '12.3K', '1.2M')
    """
    amount, unit = float(number), ""
    for unit in ("", "K", "M", "G"):
        # 999.96 would be shown as 1000.0.
        if amount < 999.95 or unit == "G":
            break
        amount /= 1000
    return f"{amount:.1f}{unit}" if unit else str(number)


def _scale(amount: float, unit: str) -> str:
    # 9.95 and not 10: 9.96 would be shown as 10.0.
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:,.0f} {unit}"


def duration(seconds: float) -> str:
    """Seconds in at most two units.

    >>> duration(0.42), duration(75), duration(7500), duration(200_000)
    ('0.4 s', '1 min 15 s', '2 h 5 min', '2 d 7 h')
    """
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large:,} {large_unit} {small} {small_unit}" if small else f"{large:,} {large_unit}"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> count(1, "file"), count(1200, "file"), count(2, "is", "are")
    ('1 file', '1,200 files', '2 are')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def broken(line: str, width: int) -> str:
    r"""The line for a terminal of that width, wrapped between words.

    >>> broken("warning: 3 files arrived late", 20)
    'warning: 3 files\n  arrived late'
    """
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    # Paths and addresses stay whole, so that they can be copied.
    lines = textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def visible(text: str) -> str:
    r"""The text on one line, with control characters escaped: names from storage may contain anything.

    >>> visible("a\x1b[31m\nb")
    'a\\x1b[31m\\x0ab'
    """
    # Nearly every text is, and only the others need the look at every character.
    if text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _UNSAFE else char for char in text)


# Format characters too: one that reverses the reading direction makes a name look like another.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
