"""The configuration: YAML in, checked :class:`tidegate.specs.project.ProjectSpec` out, and every problem at once.

The walk: text → tree with line numbers (``document``), old names → new ones (``aliases``), keys of other
systems and of later releases (``notes``), values (``models``), what keys mean together (``checks``), specs
(``building``).
"""

from tidegate.config.canonical import show
from tidegate.config.loading import json_schema, load

__all__ = ["json_schema", "load", "show"]
