"""Providers of the user's own: any object with ``get_watermark`` and ``update_watermark``.

Whatever it raises, and whatever it returns that is no text, becomes an error that names class, method and remedy: a
store that cannot be read is never taken for one that has nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tidegate.errors import EnvironmentProblem, StateError
from tidegate.protocol.providers import BaseMetadataProvider, Saved
from tidegate.specs.masking import Mask
from tidegate.specs.user_code import load_function, name_of, named_errors

METHODS = ("get_watermark", "update_watermark")


class CustomMetadataProvider(BaseMetadataProvider):
    """Calls ``provider`` and names its errors; ``mask`` hides what it was made with."""

    def __init__(self, provider: Any, mask: Mask | None = None) -> None:
        self.name = name_of(type(provider))
        self._provider = provider
        self._mask = mask or Mask()
        missing = [each for each in METHODS if not callable(getattr(provider, each, None))]
        if missing:
            raise EnvironmentProblem(
                f"state.provider {self.name} has no method {missing[0]}",
                "derive it from tidegate.BaseMetadataProvider, or give it get_watermark and update_watermark",
            )

    def get_watermark(self, dataflow_id: str) -> str | None:
        with self._named("get_watermark", dataflow_id):
            found = self._provider.get_watermark(dataflow_id)
        if found is None or isinstance(found, str):
            return found
        raise StateError(
            f"state.provider {self.name}: get_watermark({dataflow_id!r}) returned {type(found).__name__}",
            "return the text that was saved, or None where nothing ever was",
        )

    def update_watermark(self, dataflow_id: str, watermark_value: str, **by: str | None) -> None:
        with self._named("update_watermark", dataflow_id):
            self._provider.update_watermark(dataflow_id, watermark_value, **by)

    def compare_and_set(self, dataflow_id: str, expected: str | None, watermark_value: str, **by: Any) -> None:
        inherited = BaseMetadataProvider.compare_and_set
        if getattr(type(self._provider), "compare_and_set", inherited) is inherited:
            super().compare_and_set(dataflow_id, expected, watermark_value, **by)
            return
        with self._named("compare_and_set", dataflow_id):
            self._provider.compare_and_set(dataflow_id, expected, watermark_value, **by)

    def history(self, dataflow_id: str) -> tuple[Saved, ...]:
        if not hasattr(self._provider, "history"):
            return ()
        with self._named("history", dataflow_id):
            return tuple(self._provider.history(dataflow_id))

    @contextmanager
    def _named(self, method: str, dataflow_id: str) -> Iterator[None]:
        said = f"state.provider {self.name}: {method}({dataflow_id!r})"
        remedy = f"correct {method} of that class, or what it reaches; what is committed stays, and the copy follows"
        with named_errors(said, remedy, StateError, self._mask):
            yield


def make_provider(name: str, arguments: Mapping[str, str]) -> CustomMetadataProvider:
    """The provider ``module:Class``, made with ``arguments``, whose values no message shows."""
    said = f"state.provider {name}"
    made = load_function(name, said)
    if not isinstance(made, type):
        raise EnvironmentProblem(f"{said} is not a class", "name a class with get_watermark and update_watermark")
    given = ", ".join(sorted(arguments)) or "none"
    mask = Mask.of(*arguments.values())
    with named_errors(
        f"{said}({given})", "correct state.options, or the constructor of that class", EnvironmentProblem, mask
    ):
        return CustomMetadataProvider(made(**arguments), mask)
