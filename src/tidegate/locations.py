"""Where things are and how they are reached: addresses, settings that never show, secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class Options(Mapping[str, str]):
    """Storage options: a mapping whose values never show in ``repr``, logs or errors."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values.items())))

    def __repr__(self) -> str:
        return "Options({" + ", ".join(f"{key!r}: '***'" for key in self._values) + "})"


@dataclass(frozen=True, slots=True)
class Location:
    """An absolute URI (``file:///…``, ``s3://…``, ``memory://…``) without trailing slash, and how to reach it.

    ``sync``: what is written there is forced to disk before it counts. Object stores do so whatever it says.
    """

    uri: str
    options: Options = field(default_factory=Options)
    sync: bool = True

    @property
    def is_forced(self) -> bool:
        """Whether writers have to force what they write to disk: on local disks, unless ``sync`` says otherwise."""
        return self.sync and self.uri.lower().startswith("file:")


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that never shows: not in ``repr``, logs, errors, plans or states."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"
