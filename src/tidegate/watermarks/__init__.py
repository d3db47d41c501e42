"""How far a source is known to be ingested: pure values and functions, no I/O, no Spark, no clock.

Path watermarks, in reading order: ``paths`` (names and their order), ``path_state`` (what is remembered),
``standing`` (whether a name is finished), ``outcomes`` (what reading gave), ``advance`` (the next state),
``late_window`` and ``sealing`` (what keeps the state small), ``layout`` (the time in a partition's path),
``prefixes`` (the cold start), ``moving`` (a watermark set by a person), ``codec`` (JSON). Where every path is
remembered instead: ``path_set``, ``set_codec``.
"""
