"""Hypothesis strategies for paths, states, outcomes, listings and plans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from tidegate.core.files.discovery import Directories, FutureSeal, LeftOut, Reason, Skipped
from tidegate.core.files.paths import SourceFile, join
from tidegate.core.files.plan import FileGroup, FileSlice, Plan
from tidegate.core.files.state import (
    Active,
    Failed,
    FileProgress,
    Finished,
    Idle,
    Initial,
    LateWindow,
    PathState,
    RecordsRead,
    Seal,
    WatermarkState,
)

text = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)
"""A directory or file name out of anything that UTF-8 can hold."""

paths = st.lists(text, min_size=1, max_size=4).map("/".join)
partitions = st.one_of(st.just(""), paths)
counts = st.integers(0, 1_000_000)
sizes = st.integers(0, 2**40)
etags = st.none() | text
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))

progress: st.SearchStrategy[FileProgress] = st.one_of(
    st.just(Finished()),
    st.builds(RecordsRead, counts, st.none() | sizes, etags, st.integers(0, 20)),
    st.builds(Failed, st.integers(1, 9), text, st.none() | sizes, etags, counts),
)
watermarks: st.SearchStrategy[WatermarkState] = st.one_of(
    st.just(Initial()), st.builds(Active, paths), st.builds(Idle, paths)
)
windows = st.builds(LateWindow, st.lists(text, max_size=4, unique=True).map(sorted).map(tuple), st.none() | text)
states = st.builds(
    PathState,
    watermark=watermarks,
    partition_watermarks=st.dictionaries(partitions, text, max_size=4),
    files=st.dictionaries(paths, progress, max_size=4),
    last_committed_file=st.none() | paths,
    late_window=st.dictionaries(partitions, windows, max_size=3),
    sealed=st.dictionaries(partitions, st.builds(Seal, moments, st.none() | counts), max_size=2),
    sealed_below=partitions,
    last_update_ts=counts,
)
lost_states = st.builds(
    PathState,
    watermark=st.builds(Active, paths),
    partition_watermarks=st.dictionaries(partitions, text, min_size=1, max_size=4),
    files=st.dictionaries(paths, progress, max_size=4),
    window_lost=st.just(True),
)

source_files = st.builds(SourceFile, paths, sizes, etags)
slices = st.builds(FileSlice, paths, sizes, etags, counts, st.integers(0, 9), st.integers(0, 9))
units = st.builds(FileGroup, st.integers(1, 99), st.lists(slices, min_size=1, max_size=3).map(tuple))
skipped = st.builds(Skipped, st.sampled_from(Reason), st.integers(1, 99), st.lists(paths, max_size=3).map(tuple))
plans = st.builds(
    Plan,
    pipeline=text,
    source=text,
    version=counts,
    now=moments,
    groups=st.lists(units, max_size=3).map(tuple),
    skipped=st.lists(skipped, max_size=3).map(tuple),
    listed=st.lists(source_files, max_size=4).map(tuple),
    late=st.lists(paths, max_size=2).map(tuple),
    notes=st.lists(text, max_size=2).map(tuple),
    remarks=st.lists(text, max_size=2).map(tuple),
    complete=st.booleans(),
    any_files=st.booleans(),
    directories=st.builds(
        Directories, st.dictionaries(partitions, counts, max_size=2), st.lists(paths, max_size=2).map(tuple)
    ),
    list_requests=counts,
    listed_keys=counts,
    opens=st.none() | states,
    future_seals=st.lists(st.builds(FutureSeal, partitions, moments, st.none() | paths), max_size=2).map(tuple),
    left_out=st.none()
    | st.builds(
        LeftOut, moments, counts, counts, st.lists(st.tuples(paths, counts), max_size=2).map(tuple), st.booleans()
    ),
    seals_by=st.none() | moments,
)

fates = st.sampled_from(("whole", "whole", "whole", "whole", "part", "fail", "changed", "unreached"))
"""What becomes of a planned file; most are read."""

hour_partitions = st.integers(0, 90).map(
    lambda hours: f"date={datetime(2024, 2, 25) + timedelta(hours=hours):%Y-%m-%d/hour=%H}"
)
world_partitions = st.one_of(
    st.sampled_from(("", "misc", "date=2024-02-28-x")),
    hour_partitions,
    st.integers(10, 29).map("date=2024-02-{:02d}".format),
    st.integers(20, 29).map("region=eu/date=2024-02-{:02d}".format),
)
unordered_partitions = st.integers(1, 29).map("year=2024/month=2/day={}".format)
"""Partitions whose order by name is not their order in time."""

few_partitions = st.sampled_from(("", "date=2024-02-28"))
world_names = st.one_of(st.integers(0, 30).map("{:02d}.json".format), st.sampled_from(("-.json", "é.json", "~.json")))
world_paths = st.builds(join, world_partitions, world_names)
