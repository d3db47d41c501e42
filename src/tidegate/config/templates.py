"""strftime templates of directories: which fields they have, and whether they name a period."""

from __future__ import annotations

import re

FIELDS = {"Y": ("year",), "m": ("month",), "d": ("day",), "H": ("hour",), "F": ("year", "month", "day")}
_CHAIN = ("year", "month", "day", "hour")
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_REFUSED = {
    "M": "minutes",
    "S": "seconds",
    "f": "fractions of a second",
    "U": "weeks",
    "W": "weeks",
    "V": "weeks",
    "G": "years of weeks",
    "u": "days of the week",
    "w": "days of the week",
    "a": "days of the week",
    "A": "days of the week",
    "j": "days of the year",
    "I": "hours without am or pm",
    "p": "am and pm",
    "b": "names of months",
    "B": "names of months",
    "y": "years without their century",
    "Z": "zones",
    "z": "zones",
}
ALLOWED = "allowed: %Y %m %d %H %F %%"


def fields_of(template: str) -> tuple[str, ...]:
    """The fields of time in ``template``, coarsest first; unknown directives are left out.

    >>> fields_of("date=%Y-%m-%d/hour=%H")
    ('year', 'month', 'day', 'hour')
    """
    found = {field for letter in _DIRECTIVE.findall(template) for field in FIELDS.get(letter, ())}
    return tuple(field for field in _CHAIN if field in found)


def directive_problem(template: str) -> str:
    """What is wrong with a directive of ``template``; empty if nothing is."""
    for letter in _DIRECTIVE.findall(template):
        if letter in _REFUSED:
            return f"has %{letter} ({_REFUSED[letter]}), which names no period here; {ALLOWED}"
        if letter != "%" and letter not in FIELDS:
            return f"has an unknown directive; {ALLOWED}"
    return ""


def period_problem(template: str) -> str:
    """Why ``template`` cannot tell one period from the next; empty if it can."""
    if wrong := directive_problem(template) or shape_problem(template):
        return wrong
    fields = fields_of(template)
    if not fields:
        return f"has no field of time; {ALLOWED}"
    missing = [field for field in _CHAIN[: _CHAIN.index(fields[-1])] if field not in fields]
    if missing:
        return f"has the {fields[-1]} without the {missing[-1]}, so that periods repeat; add it"
    return ""


def shape_problem(template: str) -> str:
    """What is wrong with the directories of ``template``; empty if nothing is."""
    if any(part in ("", ".", "..") for part in template.split("/")):
        return "must be directories separated by single slashes, without one at the start or end"
    return ""
