"""The configuration: YAML in, checked :class:`tidegate.specs.ProjectSpec` out, and every problem at once.

The walk: text → tree with line numbers (``document``), short forms and old names spelled out (``normal_form``), what
is not acted on (``notes``), then the sections. Each section of the file has one module with the models of its blocks,
what their keys mean together, and how they become specs.
"""

from tidegate.config.loading import json_schema, load, show

__all__ = ["json_schema", "load", "show"]
