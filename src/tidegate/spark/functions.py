"""Functions that a configuration names as ``module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tidegate.errors import EnvironmentProblem


def load_function(name: str, said: str) -> Callable[..., Any]:
    """The function; ``said`` is how the configuration speaks of it, for errors."""
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
