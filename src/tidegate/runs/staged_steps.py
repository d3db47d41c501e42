"""A step of a source's state as JSON: the writer of a unit takes it, the committer repeats it.

Everything that ``Tracker.advance`` looks at travels with the unit, so that writer and committer come to the same
state without listing the source again. A long listing is left out beyond what the unit covers; such a step seals
nothing, a later one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.errors import StateError
from tidegate.planning.plan import Plan
from tidegate.runs.tracking import SourceState, Step, Tracker
from tidegate.sink.results import outcome_from_json, outcome_to_json
from tidegate.watermarks.outcomes import Covered, FileOutcome, Refused
from tidegate.watermarks.path_state import RecordsRead
from tidegate.watermarks.paths import SourceFile, sort_key, split

LISTED_IN_FULL = 10_000


def step_json(state: SourceState, plan: Plan, outcomes: Sequence[FileOutcome]) -> dict[str, Any]:
    """The arguments of a step from ``state``; ``after_step`` repeats it."""
    whole = len(plan.listed) <= LISTED_IN_FULL
    shown = replace(
        plan,
        units=(),
        skipped=(),
        late=(),
        notes=(),
        remarks=(),
        given_up=(),
        listed=plan.listed if whole else _up_to(plan.listed, outcomes),
        complete=plan.complete and whole,
    )
    return {
        "plan": shown.to_json(),
        "outcomes": [outcome_to_json(each) for each in outcomes],
        "unfinished": sorted(path for path, _ in state.unfinished()),
    }


def step_of(step: Mapping[str, Any]) -> tuple[Plan, tuple[FileOutcome, ...]]:
    """The arguments read back; ``StateError`` when they are not understood."""
    try:
        return Plan.from_json(step["plan"]), tuple(outcome_from_json(each) for each in step["outcomes"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"a staged step cannot be read ({error!r})", "let the writer plan again") from error


def after_step(tracker: Tracker, state: SourceState, step: Mapping[str, Any]) -> Step:
    """The state once the rows of the step are committed on top of ``state``.

    That may be another state than the writer had: a unit before this one may have been rejected, and its files are
    unfinished again. They keep the watermark below them although the writer's listing does not show them.
    ``StateError`` when the step does not fit: something it covers is finished already, or was not begun where it
    goes on.
    """
    plan, outcomes = step_of(step)
    known = dict(state.unfinished())
    _check_not_finished(tracker, state, plan, [each for each in outcomes if isinstance(each, Covered)])
    listed = {file.path: file for file in plan.listed}
    for path in known.keys() - set(step["unfinished"]):
        listed.setdefault(path, SourceFile(path, known[path].size or 0, known[path].etag))
    files = tuple(sorted(listed.values(), key=lambda file: sort_key(file.path)))
    return tracker.advance(state, replace(plan, listed=files), outcomes)


def without_step(tracker: Tracker, state: SourceState, step: Mapping[str, Any]) -> SourceState | None:
    """The state once it is clear that the step will not be taken: every file that it tells of is unfinished.

    The watermark stays below them, and the next plan reads them. None for a step that tells of no file: what whoever
    made it had in mind cannot be kept.
    """
    plan, outcomes = step_of(step)
    told = [each for each in outcomes if isinstance(each, Covered | Refused)]
    known = {path for path, _ in state.unfinished()}
    new = [SourceFile(each.path, each.size, each.etag) for each in told if each.path not in known]
    due = tracker.sorted(state, new, plan.now).due
    entries = {file.path: RecordsRead(0, file.size, file.etag, rounds=0) for file in due}
    return _with_files(state, entries) if told else None


def _with_files(state: Any, entries: Mapping[str, RecordsRead]) -> SourceState:
    changed: SourceState = replace(state, files={**state.files, **entries})
    return changed


def _check_not_finished(tracker: Tracker, state: SourceState, plan: Plan, taken: Sequence[Covered]) -> None:
    known = {path for path, _ in state.unfinished()}
    files = [SourceFile(each.path, each.size, each.etag) for each in taken if each.path not in known]
    for file in tracker.sorted(state, files, plan.now).finished:
        raise StateError(f"{file.path} is finished already", "its rows are not committed a second time")


def _up_to(listed: Sequence[SourceFile], outcomes: Sequence[FileOutcome]) -> tuple[SourceFile, ...]:
    """The listed files of each partition up to the last one that the outcomes are about."""
    last: dict[str, str] = {}
    for outcome in outcomes:
        partition, name = split(outcome.path)
        last[partition] = max(name, last.get(partition, ""))
    return tuple(file for file in listed if split(file.path)[1] <= last.get(split(file.path)[0], ""))
