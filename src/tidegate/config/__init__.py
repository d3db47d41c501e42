"""The configuration: YAML in, checked :class:`tidegate.specs.project.ProjectSpec` out, and every problem at once.

The walk: text → tree with line numbers (``document``), short forms and old names spelled out (``normal_form``), then
the sections, from ``project`` down. Each section of the file has one module with the models of its blocks, what their
keys mean together, how they become specs, and how ``config show`` writes them.
"""

from tidegate.config.loading import json_schema, load, show

__all__ = ["json_schema", "load", "show"]
