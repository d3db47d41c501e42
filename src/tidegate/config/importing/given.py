"""The properties of one file while they are carried over: what was asked for, what is left, what is to be set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from tidegate.config.importing.names import Fate, becoming
from tidegate.config.importing.properties import Property
from tidegate.reports.staging import PropertyNote
from tidegate.specs.masking import looks_secret

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_ENCRYPTED = re.compile(r"\s*ENC\(.*\)\s*", re.DOTALL)
_DEPTH = 5


@dataclass(slots=True)
class Given:
    """Properties by name. Texts come in the form that a configuration file has: ``$`` that means itself is doubled."""

    origin: str
    properties: dict[str, Property]
    prefix: str = "SOURCE"
    used: dict[str, None] = field(default_factory=dict)
    notes: list[PropertyNote] = field(default_factory=list)
    samples: dict[str, str] = field(default_factory=dict)
    """Variables of the environment, each with a value that such a variable may have."""

    @classmethod
    def of(cls, origin: str, found: Iterable[Property]) -> Given:
        """The last of those that are given twice counts, as it did."""
        given = cls(origin, {})
        for each in found:
            if each.name in given.properties:
                given.note(given.properties[each.name], f"is given again in line {each.line}, which counts")
            given.properties[each.name] = each
        return given

    def has(self, name: str) -> bool:
        """Whether a property is there and has a value."""
        return name in self.properties and bool(self.properties[name].value)

    def text(self, name: str) -> str | None:
        """The value of a property, with others of the file put in; None where it has none."""
        if name not in self.properties:
            return None
        self.used[name] = None
        return self.written(self.properties[name].value) or None

    def written(self, value: str, depth: int = _DEPTH) -> str:
        """A text as a configuration file has it."""

        def put(found: re.Match[str]) -> str:
            other = self.properties.get(found[1].strip())
            if other is not None and depth and not is_secret(other.name, other.value):
                self.used[other.name] = None
                return self.written(other.value, depth - 1)
            return self.variable(found[1])

        parts = _REFERENCE.split(value)
        plain = [re.sub(r"\$(?=[${])", "$$", part) for part in parts[::2]]
        put_in = [put(found) for found in _REFERENCE.finditer(value)]
        return "".join(text for pair in zip(plain, [*put_in, ""], strict=True) for text in pair)

    def data(self, name: str, kind: type[Any]) -> Any:
        """A property that is JSON, with the looseness of older files; an empty one where it cannot be read."""
        text = self.text(name)
        if text is None:
            return kind()
        try:
            found = json.loads(text)
        except ValueError:
            try:
                found = yaml.load(text, Loader=yaml.BaseLoader)
            except yaml.YAMLError:
                found = None
        if not isinstance(found, kind):
            self.leave(name, "is not readable as JSON")
            return kind()
        return found

    def secret(self, what: str, sample: str = "x") -> str:
        """A variable of the environment for something secret of this pipeline."""
        return self.variable(f"{self.prefix}.{what}", sample)

    def variable(self, name: str, sample: str = "x") -> str:
        """A variable of the environment, as it is written into the file."""
        made = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "VALUE"
        made = made if made[0].isalpha() else f"V_{made}"
        self.samples.setdefault(made, sample)
        return f"${{{made}}}"

    def leave(self, name: str, reason: str) -> None:
        """Tell that a property, or a part of it, is not carried over."""
        if name in self.properties:
            self.note(self.properties[name], reason)

    def leave_form(self, content_type: str) -> None:
        """Tell that bodies are JSON, where they were forms."""
        if "form" in content_type:
            self.leave("ms.http.request.headers", "bodies are JSON, not forms; ask the server for JSON")

    def note(self, found: Property, reason: str) -> None:
        """Tell why one line of the file is not carried over as it is."""
        self.notes.append(PropertyNote(found.line, found.name, reason))

    def rest(self) -> tuple[list[PropertyNote], list[PropertyNote]]:
        """What nobody asked for: left, and not needed."""
        left, not_needed = [], []
        for name, found in self.properties.items():
            what = becoming(name)
            if name in self.used:
                continue
            if what.fate is Fate.NOT_NEEDED:
                not_needed.append(PropertyNote(found.line, name, what.text))
            else:
                reason = what.text if what.fate is Fate.LEFT else "means nothing for this kind of source"
                left.append(PropertyNote(found.line, name, reason))
        return left, not_needed


def listed(value: object) -> list[Any]:
    """A list as it is; an empty one for anything else."""
    return value if isinstance(value, list) else []


def mapped(value: object) -> dict[str, Any]:
    """A mapping with names that are text; an empty one for anything else."""
    return {str(name): below for name, below in value.items()} if isinstance(value, dict) else {}


def is_secret(name: str, value: str) -> bool:
    """Whether a value must never be written into a file."""
    return looks_secret(name) or name.lower() in ("authorization", "cookie") or bool(_ENCRYPTED.fullmatch(value))
