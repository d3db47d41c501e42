"""Code of the user's own that a configuration names as ``module:name``: it is loaded here, and its errors say whose.

The code is called on the driver, wherever a source, a transform, a provider or a part of a read is the user's. What it
raises becomes an error of ours that names the code, what was asked of it, and what to do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.specs.masking import Mask


def load_function(name: str, said: str) -> Callable[..., Any]:
    """The function, or the class, ``module:name``; ``said`` is how the configuration speaks of it, for errors."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise EnvironmentProblem(
            f"{said} cannot be loaded ({error})",
            "install the module in this environment, or name its folder in PYTHONPATH",
        ) from error
    if not callable(found):
        raise EnvironmentProblem(f"{said} is not a function", "name a function")
    return found  # type: ignore[no-any-return]  # what it returns is looked at where it is called


def call(code: str | Callable[..., Any], key: str, remedy: str, *given: object, **named: object) -> Any:
    """What a function of the user's own returns, which stands under ``key`` of a source; its errors name it."""
    name = code if isinstance(code, str) else name_of(code)
    function = load_function(code, f"{key} {name}") if isinstance(code, str) else code
    with named_errors(f"{key} {name}", remedy, SourceError):
        return function(*given, **named)


def name_of(code: object) -> str:
    """The name of a function, of a method or of the class of anything else, as a configuration would write it.

    >>> name_of(load_function), name_of(Mask())
    ('tidegate.specs.user_code:load_function', 'tidegate.specs.masking:Mask')
    """
    named = code if hasattr(code, "__qualname__") else type(code)
    return f"{named.__module__}:{getattr(named, '__qualname__', type(code).__name__)}"


@contextmanager
def named_errors(said: str, remedy: str, kind: type[TidegateError], mask: Mask | None = None) -> Iterator[None]:
    """What the code inside raises, as an error of ``kind`` that begins with ``said``; errors of ours stay."""
    hide = mask or Mask()
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        told = hide(str(error)).strip()
        raise kind(f"{said} failed: {type(error).__name__}{f': {told:.300}' if told else ''}", remedy) from hide.cause(
            error
        )
