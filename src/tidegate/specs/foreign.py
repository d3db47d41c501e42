"""What other systems leave in configurations and tables, as values.

The core knows only these shapes; ``migrate`` knows the systems, and commands hand its values in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ForeignWriter:
    """Another system that may have filled a table: how the table shows it, and how to take it over.

    ``folder`` is its own in the table; ``checkpoint`` the path of what it knows of a source, with ``{pipeline}`` and
    ``{source}`` in it. ``app_ids`` are how its transaction ids begin.
    """

    name: str
    folder: str
    checkpoint: str
    app_ids: tuple[str, ...]
    remedy: str

    def checkpoint_of(self, pipeline: str, source: str) -> str:
        """The path of its checkpoint of a source, relative to the table."""
        return self.checkpoint.format(pipeline=pipeline, source=source)


@dataclass(frozen=True, slots=True)
class ForeignMetric:
    """The name of another system for a metric of ours.

    ``values`` has its word for each value of our own label, and leaves out the values that it does not have; ``label``
    is what it calls that label, if not as we do.
    """

    name: str
    label: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What is recognised of other systems; by default nothing.

    ``keys`` are the paths of configuration keys that mean nothing here, each with why; ``*`` stands for any name.
    ``files`` are paths of keys that show a file to be another program's, each with what does its work here.
    ``metric_names`` has the names under which another system exports a metric of ours.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    writer: ForeignWriter | None = None
    metric_names: Mapping[str, tuple[ForeignMetric, ...]] = field(default_factory=dict)
