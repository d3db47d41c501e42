"""Secrets of a configuration file: which of its texts are secret, where none may stand, and how they are shown again.

A secret is known by its value. It is in a key that was made for one, it came from an environment variable that looks
like a credential, or it stands inside an address; :mod:`tidegate.specs.credentials` has the rules. What commands show
goes through a mask of these values.

State goes through no mask: identities and paths in it must stay exact. So keys whose values become part of them must
not hold a secret, and the problem says where it can go instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tidegate.config.document import Block, Items, Node, Notes, Problem, Scalar, Spot, find, problem
from tidegate.specs.credentials import (
    SHORTEST,
    Interpolated,
    credentials_in_address,
    is_credential,
    is_plain_setting,
    looks_random,
)
from tidegate.specs.locations import identity_of, looks_secret
from tidegate.specs.masking import MASK, Mask
from tidegate.specs.project import ProjectSpec

_ALONE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")
SECRET_BLOCKS = ("auth", "headers", "properties", "options", "storage_options", "dlq_storage_options", "body")
_WEBHOOK = "webhook"
_FREE_FORM = ("headers", "properties", "options", "storage_options", "dlq_storage_options")
_IN_AUTH = "put it into the connection's auth"
_RECORDED = {
    "url": f"{_IN_AUTH}, as a header, a parameter or, with place: path, a part of the path",
    "path": f"{_IN_AUTH} as {{type: api_key, place: path, name: NAME, token: …}}, and write {{{{NAME}}}} here",
    "source_uri": "put credentials into storage_options",
    "table_uri": "put credentials into storage_options",
    "dlq_path": "put credentials into dlq_storage_options",
    "units": "take the units from a secondary_input, with the secret in auth_fields",
}
"""Keys whose values become part of identities and paths, and where a secret goes instead."""

_RECORDED_NAMES = (
    *("pattern", "table", "function", "prefix_template", "name", "fields"),
    *("watermark_columns", "merge_keys"),
)
_NOT_RECORDED = (*SECRET_BLOCKS, "params", "config", "state")


def find_interpolated(node: Node, place: tuple[str | int, ...] = ()) -> Iterator[Interpolated]:
    """Every value below ``node`` that has variables in it."""
    match node:
        case Scalar() if node.variables:
            yield Interpolated(place, node.raw, str(node), node.variables)
        case Block():
            for key, below in node.items():
                yield from find_interpolated(below, (*place, key))
        case Items():
            for at, below in enumerate(node):
                yield from find_interpolated(below, (*place, at))


def find_secrets(node: Node, holder: str = "") -> Iterator[str]:
    """The texts below ``node`` in places made for credentials, and the credentials inside addresses.

    Works on any tree, also on one that no model accepts, so that nothing said about it shows a secret.
    """
    match node:
        case Scalar() if holder:
            yield from () if is_plain_setting(holder, node) else (str(node),)
        case Scalar():
            yield from credentials_in_address(node)
        case Block():
            for key, below in node.items():
                if below is None and looks_secret(key.partition(":")[0]):
                    yield key.partition(":")[2]  # `token:abc`, where a space is missing
                is_made_for_one = holder or looks_secret(key) or key in (*_FREE_FORM, _WEBHOOK)
                yield from find_secrets(
                    below, f"{holder}_{key}" if looks_secret(holder) else key if is_made_for_one else ""
                )
        case Items():
            for below in node:
                yield from find_secrets(below, holder)


def secret_problems(root: Block) -> Iterator[Problem]:
    """Secrets in places whose values are recorded with the position of a source, or are paths."""
    for each in find_interpolated(root):
        key = next((part for part in reversed(each.place) if isinstance(part, str)), "")
        if key not in (*_RECORDED, *_RECORDED_NAMES) or any(part in _NOT_RECORDED for part in _keys(each.place)):
            continue
        instead = _RECORDED.get(key, "give it a value that is not secret")
        if "secondary_input" in each.place:
            instead = _RECORDED["source_uri"]
        for name, value in each.credentials:
            if not _is_left_out(find(root, each.place), value):
                text = f"holds ${{{name}}}, which looks like a secret, and this value is recorded with the position"
                plain = "if it is no secret, write it into the file, or rename the variable, such as to TENANT_ID"
                yield problem(root, each.place, f"{text}; {instead}; {plain}")


def _keys(place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The keys of a place, without the names that somebody gave to pipelines, sources and connections."""
    match place:
        case ("pipelines", _, "sources", _, *keys) | ("pipelines", _, *keys) | ("connections", _, *keys):
            return tuple(keys)
        case _:
            return place


def _is_left_out(address: Node, value: str) -> bool:
    """Whether the address of a database holds ``value`` only where it does not identify the source."""
    return str(address).startswith("jdbc:") and value not in identity_of(str(address))


def with_variables(data: dict[str, Any], project: ProjectSpec) -> dict[str, Any]:
    """``data`` with ``${VAR}`` where the file has it; elsewhere no secret of the project."""
    written = {each.place: each for each in project.interpolated}
    mask = _secrets_of_values(project)

    def place_of(place: tuple[str | int, ...]) -> Interpolated | None:
        if place in written or place[:1] != ("pipelines",) or place[2:3] != ("sources",) or len(place) < 5:
            return written.get(place)
        # Some keys of a connection, such as headers, are shown with its sources.
        source = data["pipelines"][place[1]]["sources"][place[3]]
        return written.get(("connections", source.get("connection", ""), *place[4:]))

    def restore(value: Any, place: tuple[str | int, ...]) -> Any:
        match value:
            case dict():
                return {key: restore(below, (*place, key)) for key, below in value.items()}
            case list():
                return [restore(below, (*place, at)) for at, below in enumerate(value)]
        found = place_of(place)
        if found is not None:
            return _as_written(found, value, mask)
        return mask(_literal(value)) if isinstance(value, str) else value

    restored: dict[str, Any] = restore(data, ())
    return restored


def _secrets_of_values(project: ProjectSpec) -> Mask:
    """The secrets that are looked for in values without a variable: not every setting, and no ordinary word."""
    credentials = (each for found in project.interpolated for each in found.credentials)
    held = (value for _, value in credentials if not is_plain_setting("", value))
    declared = (each for each in Mask.around(project).secrets if looks_random(each))
    return replace(Mask.around(project), secrets=frozenset((*held, *declared)))


def _as_written(found: Interpolated, value: Any, mask: Mask) -> Any:
    """A value of the canonical form, with what the file has in the place of its text."""
    alone = _ALONE.fullmatch(found.written.strip())
    if not isinstance(value, str):
        return value if alone is None else found.written.strip()
    if value == MASK:
        # In a place for secrets a default is one, too: it is not shown, and stays masked where it is in use.
        in_use = alone is not None and found.values[:1] != ((alone[1], alone[2] or ""),)
        return f"${{{alone[1]}}}" if alone is not None and in_use else MASK
    written, whole = _DEFAULT.sub(_without_secret_default, found.written), found.text
    # The canonical form has some values without blanks around them, or without a slash at their end.
    for text, instead in ((whole, written), (whole.strip(), written.strip()), (whole.rstrip("/"), written)):
        before, is_there, after = value.partition(text)
        if text and is_there:
            return f"{mask(_literal(before))}{instead}{mask(_literal(after))}"
    return mask(_literal(value))


def _without_secret_default(found: re.Match[str]) -> str:
    name, default = found.groups()
    return f"${{{name}:-{MASK if is_credential(name, default) else default}}}"


def _literal(value: str) -> str:
    """A value as the file has to write it, so that nothing in it is taken for a variable."""
    return re.sub(r"\$(?=[${])", "$$", value)


def note_short_secrets(holder: Spot, notes: Notes) -> None:
    """Secrets too short to be masked reliably: they occur inside ordinary words."""
    for key, value in holder.block.items():
        if isinstance(value, Block) and key in SECRET_BLOCKS:
            note_short_secrets(holder.below(key), notes)
        elif not isinstance(value, Scalar) or value.broken or value == MASK or not looks_secret(key):
            continue
        elif 0 < len(value) < SHORTEST:
            notes.notices.append(
                f"{holder.path(key)} has fewer than {SHORTEST} characters, so Tidegate cannot tell it "
                "from ordinary words in what servers say, and it may show; use a longer secret"
            )
