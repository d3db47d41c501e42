"""Loads and calls user code that a configuration names as ``module:name``; its errors name that code.

Sources, transforms, providers and filters may be user code. It runs on the driver. Whatever it raises becomes a
``TidegateError`` that names the code, the call and a remedy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.errors import EnvironmentProblem, SourceError, TidegateError
from tidegate.specs.masking import Mask


def load_function(name: str, said: str) -> Callable[..., Any]:
    """The function or class ``module:name``; ``said`` names it in errors."""
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
    """Call the user's function that a source has under ``key``; errors name both."""
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
