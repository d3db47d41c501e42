"""What other systems leave in configurations and tables, as values.

The core knows only these shapes; ``migrate`` knows the systems, and commands hand its values in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Foreign:
    """What is recognised of other systems; by default nothing.

    ``keys`` are the paths of configuration keys that mean nothing here, each with why; ``*`` stands for any name.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
