"""How an error of one source is told beside its name."""

from __future__ import annotations

from tidegate.errors import TidegateError


def told_once(name: tuple[str, str], error: TidegateError) -> str:
    """The error without the name of the source in front: that is told beside it."""
    return str(error).removeprefix(f"{'/'.join(name)}: ")
