"""What to do next, as a value: a pure function of source, state, listing and time gives a ``Plan``.

``discovery`` says what to list, ``path_planner`` what to read (``set_planner`` where every path is remembered),
``grouping`` which files one task takes, ``plan`` is the value itself, ``reasons`` why things are skipped;
``consequences`` what a watermark set by a person would mean, ``selecting`` which files a person means.
"""
