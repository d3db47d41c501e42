"""Decisions, as pure functions over frozen values. No I/O, no Spark, no clock; only the standard library.

Path watermarks, in reading order: ``paths`` (names and their order), ``path_state`` (what is remembered),
``standing`` (whether a name is finished), ``outcomes`` (what reading gave), ``advance`` (the next state),
``late_window`` and ``sealing`` (what keeps the state small), ``layout`` (the time in a partition's path),
``prefixes`` (the cold start), ``moving`` (a watermark set by a person), ``codec`` (JSON). Where every path is
remembered instead: ``path_set``, ``set_codec``.

``discovery`` says what to list, ``path_planner`` what to read (``set_planner`` where every path is remembered),
``grouping`` which files one task takes, ``plan`` is the value itself, ``reasons`` why things are skipped;
``consequences`` what a watermark set by a person would mean, ``selecting`` which files a person means.
"""
