"""What a server is asked for one segment of a work unit: the declared read with its variables filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast
from urllib.parse import quote

from tidegate.column_specs import HttpAuth, HttpRead
from tidegate.errors import SourceError
from tidegate.locations import Options, Secret
from tidegate.sources.http.bounds import Part
from tidegate.sources.units.variables import Variables, names_in, sent
from tidegate.unit_specs import UnitSource

_OF_AUTH = ("token", "user", "password", "client_id", "client_secret", "scope")
"""What of the credentials a unit may bring; where they are sent it does not decide."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The read of one segment without variables, and the parameters of its range."""

    read: HttpRead
    part: Part


def asked(source: UnitSource, read: HttpRead, variables: Variables) -> Ask:
    """What is asked for one segment; raises before anything is sent."""
    if any(names_in(read.url)):
        raise SourceError(
            f"source {source.name!r}: the address of the server has a variable",
            "variables belong into path, params, headers and body; credentials go to one server only",
        )
    filled = replace(
        read,
        path=variables.filled(read.path, _in_path),
        params={name: variables.filled(str(value)) for name, value in read.params.items()},
        headers=Options({name: _header(name, variables.filled(value)) for name, value in read.headers.items()}),
        body=None if read.body is None else cast(Mapping[str, object], variables.filled_deep(read.body)),
        auth=_auth(read.auth, variables),
    )
    return Ask(filled, Part(sent(source, variables, used_names(read))))


def used_names(read: HttpRead) -> Iterator[str]:
    """The variables that a read uses."""
    yield from names_in(read.path)
    yield from names_in(dict(read.params))
    yield from names_in(dict(read.headers))
    yield from names_in(read.body)
    yield from names_in(_auth_texts(read.auth))


def _in_path(value: str) -> str:
    """A value as a part of an address: it never becomes a separator or a step upwards."""
    if value in ("", ".", ".."):
        raise SourceError(f"the value {value!r} cannot stand in an address", "leave such units out by a filter")
    return quote(value, safe="")


def _header(name: str, value: str) -> str:
    if not (value.isascii() and (value.isprintable() or not value)):
        raise SourceError(
            f"the header {name!r} would hold something that no header can", "use values of printable ASCII letters"
        )
    return value


def _auth_texts(auth: HttpAuth) -> dict[str, str]:
    values = {name: getattr(auth, name) for name in _OF_AUTH}
    return {name: getattr(value, "value", value) for name, value in values.items() if value is not None}


def _auth(auth: HttpAuth, variables: Variables) -> HttpAuth:
    """Credentials that the unit itself brings."""
    changed: dict[str, str | Secret] = {}
    for name, text in _auth_texts(auth).items():
        if any(names_in(text)):
            filled = variables.filled(text)
            changed[name] = Secret(filled) if isinstance(getattr(auth, name), Secret) else filled
    return replace(auth, **changed)  # type: ignore[arg-type]  # each has the type it had
