"""Decisions as pure functions over frozen values. No I/O, no Spark, no clock; only the standard library.

One folder per kind of source, each with the same chapters: ``state`` (what is remembered, and its JSON form), ``plan``
(what a run would read), ``planner`` (how it is decided), and chapters of that kind alone. Files: ``paths`` (names,
layouts, globs), ``discovery`` (what to list, and why files are skipped), ``advance`` (the next state), ``edit`` (a
watermark moved by a person), ``comparison`` (files against commits). Columns: ``look_back``,
``predicates``, ``replay``. Work units: ``time_range``.
"""
