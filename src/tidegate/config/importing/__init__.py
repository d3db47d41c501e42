"""Properties files of an older system as configuration files.

The walk: text → properties with line numbers (``properties``), what becomes of each name (``names``), one pipeline made
of them (``pipelines``, with ``requests``, ``columns`` and ``work_units``), YAML that loads (``writing``).
"""

from tidegate.config.importing.writing import import_file, import_text

__all__ = ["import_file", "import_text"]
