"""How a key of the configuration is declared: once, at the attribute of the spec that holds its value.

The annotation of such an attribute carries a :class:`Key`: the sentence about it, and its name in the file where that
is another. Its type is that of the attribute, or names a check; its default is the attribute's. A key is secret if its
type is: ``Secret`` for one text, ``Options`` for settings whose values never show.

    late_window: Annotated[Count, Key("Greatest finished names to remember per open partition.")] = 1000

``config/`` reads the annotations: files are checked against them, and documentation, editor schema, suggestions and
``config show`` come from them. Until then they are text that nobody evaluates, so workers pay nothing for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Key:
    """What a configuration file says about an attribute.

    ``kinds`` are the kinds of its block that support the key, ``needed`` those that require it; none: all support it.
    ``old`` is its name in properties files. With ``unset``, a file may leave it out although the attribute has no
    default, or another meaning by default; with ``required`` it may not, although the attribute has one.
    """

    about: str
    name: str = ""
    kinds: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    old: str = ""
    unset: bool = False
    required: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        """The kinds of its block that support the key; empty if all do."""
        return (*self.needed, *self.kinds)


@dataclass(frozen=True, slots=True)
class Checked:
    """The check of ``config/`` that a value has to pass, by the name of its function, if its type does not tell."""

    name: str


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest whole number that is allowed."""

    low: int
    high: int


Count = Annotated[int, Range(1, 2**31 - 1)]
CountOrNone = Annotated[int, Range(0, 2**31 - 1)]
Fraction = Annotated[float, Checked("fraction")]
Seconds = Annotated[float, Checked("seconds")]
Zone = Annotated[str, Checked("zone")]
Name = Annotated[str, Checked("name")]
Address = Annotated[str, Checked("address")]
Glob = Annotated[str, Checked("glob")]
Query = Annotated[str, Checked("query")]
Function = Annotated[str, Checked("function")]
Place = Annotated[str, Checked("place")]
Columns = Annotated[tuple[str, ...], Checked("column_names")]
