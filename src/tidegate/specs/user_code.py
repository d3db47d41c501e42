"""Loads and calls user code that a configuration names as ``module:name``; its errors name that code.

Sources, transforms, providers and filters may be user code. It runs on the driver. Whatever it raises, at import or
when called, becomes a ``TidegateError`` that names the code, the call and a remedy: code that calls ``sys.exit`` or
raises ``KeyboardInterrupt`` fails its own source and does not end the run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.errors import EnvironmentProblem, SourceError, TidegateError, chain, nearest_own, safe_text
from tidegate.signals import is_interrupted
from tidegate.specs.masking import Mask, shorten

_SHOWN = 300
"""Characters of an error of user code that are shown."""


class CodeFailed(Exception):
    """What user code raised, if it would end the process or cannot be printed; the text names its class."""


@contextmanager
def contain_errors() -> Iterator[None]:
    """Whatever user code inside raises is an ``Exception`` with a text; only a real signal interrupts."""
    try:
        yield
    except KeyboardInterrupt as error:
        if is_interrupted():
            raise
        raise CodeFailed(describe(error)) from error
    except TidegateError as error:
        own = nearest_own(error)
        if own is error:
            raise
        raise own from error
    except Exception as error:
        if _is_printable(error):
            raise
        raise CodeFailed(describe(error)) from None
    except BaseException as error:
        raise CodeFailed(describe(error)) from (error if _is_printable(error) else None)


def describe(error: BaseException) -> str:
    """The class and the text of an exception: ``SystemExit: no such host``."""
    if isinstance(error, CodeFailed):
        return str(error)
    told = safe_text(error).strip()
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def show(value: object, mask: Mask) -> str:
    """The beginning of what a result of user code prints as, masked; its class if it does not print."""
    try:
        with contain_errors():
            return shorten(mask(repr(value)), 80)
    except Exception:
        return f"a {type(value).__name__}"


def _is_printable(error: BaseException) -> bool:
    """Whether everything that reports and logs read of an exception and its causes can be read without raising."""
    try:
        for each in chain(error):
            "".join((str(each), repr(each), repr(each.args), *getattr(each, "__notes__", ())))
    except BaseException:
        return False
    return True


def load_function(name: str, said: str) -> Callable[..., Any]:
    """The function or class ``module:name``; ``said`` names it in errors."""
    module, _, function = name.partition(":")
    try:
        with contain_errors():
            found = getattr(importlib.import_module(module), function)
            is_callable = callable(found)
    except (ImportError, AttributeError) as error:
        raise EnvironmentProblem(
            f"{said} cannot be loaded ({error})",
            "install the module in this environment, or name its folder in PYTHONPATH",
        ) from error
    except Exception as error:
        raise EnvironmentProblem(
            f"{said} cannot be loaded: importing it failed ({shorten(describe(error), _SHOWN)})",
            f"correct the module {module}, or what it needs in this environment",
        ) from error
    if not is_callable:
        raise EnvironmentProblem(f"{said} is not a function", "name a function")
    return found  # type: ignore[no-any-return]  # what it returns is looked at where it is called


def call(code: str | Callable[..., Any], key: str, remedy: str, *given: object, **named: object) -> Any:
    """Call the user's function that a source has under ``key``; errors name both."""
    name = code if isinstance(code, str) else name_of(code)
    function = load_function(code, f"{key} {name}") if isinstance(code, str) else code
    with name_errors(f"{key} {name}", remedy, SourceError):
        return function(*given, **named)


def name_of(code: object) -> str:
    """The name of a function, of a method or of the class of anything else, as a configuration would write it.

    >>> name_of(load_function), name_of(Mask())
    ('tidegate.specs.user_code:load_function', 'tidegate.specs.masking:Mask')
    """
    named = code if hasattr(code, "__qualname__") else type(code)
    return f"{named.__module__}:{getattr(named, '__qualname__', type(code).__name__)}"


@contextmanager
def name_errors(said: str, remedy: str, kind: type[TidegateError], mask: Mask | None = None) -> Iterator[None]:
    """What the code inside raises, as an error of ``kind`` that begins with ``said``; errors of ours stay."""
    hide = mask or Mask()
    try:
        with contain_errors():
            yield
    except TidegateError as error:
        masked = hide.error(error)
        if masked is error:
            raise
        raise masked from masked.__cause__
    except Exception as error:
        told = shorten(hide(describe(error)), _SHOWN)
        raise kind(f"{said} failed: {told}", remedy) from hide.cause(error)
