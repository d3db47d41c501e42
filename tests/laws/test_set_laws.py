"""With a set, whatever arrives under whatever names in whatever order: nothing is skipped, nothing is read twice."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from laws.strategies import counts, etags, fates, paths, progress, sizes, watermarks
from laws.world import NOW, SIZING, source
from support.long_runs import examples
from tidegate.core.files.advance import advance_set, segments_to_merge, with_segment
from tidegate.core.files.discovery import PathListing
from tidegate.core.files.paths import SourceFile
from tidegate.core.files.plan import FileSlice
from tidegate.core.files.planner import plan_set
from tidegate.core.files.state import (
    Changed,
    Covered,
    FileOutcome,
    Finished,
    NotReached,
    Refused,
    Segment,
    SetState,
    decode_set,
    encode_set,
)

OF = source(max_attempts=1_000)
LINES = 6
NAMES = st.text("ab-/é0", min_size=1, max_size=5).filter(lambda path: "//" not in f"/{path}/")
segments = st.builds(Segment, st.text("0123456789abcdef", min_size=64, max_size=64), counts, sizes)
unfinished = progress.filter(lambda each: not isinstance(each, Finished))
set_states = st.builds(
    SetState,
    watermark=watermarks,
    segments=st.lists(segments, max_size=4).map(tuple),
    files=st.dictionaries(paths, unfinished, max_size=4),
    last_update_ts=counts,
)


def outcome(each: FileSlice, fate: str) -> FileOutcome:
    match fate:
        case "whole":
            return Covered(each.path, each.size, each.etag, each.start_record, LINES, eof=True)
        case "part" if each.start_record < LINES - 1:
            return Covered(each.path, each.size, each.etag, each.start_record, each.start_record + 1, eof=False)
        case "fail":
            return Refused(each.path, each.size, each.etag, "bad")
        case "changed":
            return Changed(each.path)
        case _:
            return NotReached(each.path)


def end_of(each: FileSlice) -> Covered:
    """What lets a source go on behind a file that became a letter."""
    return Covered(each.path, each.size, each.etag, each.start_record, each.start_record, eof=True)


def forgotten(state: SetState) -> set[str]:
    """The files of which nothing is committed: there is nothing to tell when they are gone."""
    return {path for path, each in state.find_unfinished() if not each.records}


@settings(deadline=None, max_examples=examples(150))
@given(st.data())
def test_every_line_of_every_file_is_committed_exactly_once(data: st.DataObject) -> None:
    state, there = SetState(), dict[str, SourceFile]()
    arrived: dict[str, SourceFile] = {}
    letters: dict[str, int] = {}
    parts: dict[str, dict[str, SourceFile]] = {}
    committed: list[tuple[str, int]] = []
    for number in range(data.draw(st.integers(1, 6))):
        for path in data.draw(st.lists(NAMES, max_size=4)):
            there[path] = arrived.setdefault(path, SourceFile(path, 100, data.draw(etags)))
        for path in data.draw(st.sets(st.sampled_from(sorted(there)), max_size=2)) if there else ():
            del there[path]
        remembered = {path for part in state.segments for path in parts[part.sha256]}
        new = tuple(file for file in there.values() if file.path not in remembered)
        limit = data.draw(st.integers(0, 6))
        shown = tuple(data.draw(st.permutations(new)))[: limit or None]
        listing = PathListing(shown, complete=len(shown) == len(new), any_files=bool(there))
        plan = plan_set("p", OF, state, number, listing, NOW, sizing=SIZING)
        outcomes = [outcome(each, data.draw(fates)) for group in plan.groups for each in group.slices]
        if plan.given_up:
            outcomes = [end_of(each.slice) for each in plan.given_up]
        step = advance_set(OF, state, plan.listed, outcomes, NOW, complete=plan.complete)
        if not step.changed or data.draw(st.booleans()):
            continue
        committed += [
            (each.path, line) for each in outcomes if isinstance(each, Covered) for line in range(each.start, each.end)
        ]
        assert letters.keys().isdisjoint(each.slice.path for each in plan.given_up)
        letters |= {each.slice.path: each.slice.start_record for each in plan.given_up}
        state = step.state
        if step.finished:
            merged = segments_to_merge(state.segments, len(step.finished))
            content = {file.path: file for file in step.finished}
            for part in merged:
                content |= parts[part.sha256]
            parts[str(number)] = content
            state = with_segment(state, merged, Segment(str(number), len(content), 0))
        state = decode_set(json.loads(json.dumps(encode_set(state))))
    assert len(committed) == len(set(committed))
    remembered = {path for part in state.segments for path in parts[part.sha256]}
    assert len(remembered) == state.remembered
    assert remembered.isdisjoint(state.files)
    whole = plan_set(
        "p",
        OF,
        state,
        9,
        PathListing(tuple(file for file in there.values() if file.path not in remembered)),
        NOW,
        sizing=SIZING,
    )
    committed += [
        (each.path, line) for group in whole.groups for each in group.slices for line in range(each.start_record, LINES)
    ]
    assert len(committed) == len(set(committed))
    expected = {(path, line) for path in there for line in range(letters.get(path, LINES))}
    assert expected == {each for each in committed if each[0] in there}
    assert {each.slice.path for each in whole.given_up} == state.files.keys() - there.keys() - forgotten(state)


@settings(deadline=None)
@given(set_states)
def test_a_state_of_a_set_is_read_back_as_it_was(state: SetState) -> None:
    assert decode_set(json.loads(json.dumps(encode_set(state)))) == state


@settings(deadline=None)
@given(st.lists(st.integers(1, 200), max_size=200))
def test_however_large_commits_are_every_path_is_in_one_segment_and_segments_stay_few(commits: list[int]) -> None:
    state = SetState()
    for number, added in enumerate(commits):
        merged = segments_to_merge(state.segments, added)
        assert set(merged) <= set(state.segments)
        total = added + sum(part.count for part in merged)
        state = with_segment(state, merged, Segment(str(number), total, 0))
    assert state.remembered == sum(commits)
    assert len(state.segments) <= 7 * 6
