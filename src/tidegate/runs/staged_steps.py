"""A step of a source's state as JSON: the writer of a unit takes it, the committer repeats it.

Everything that ``Tracker.advance`` looks at travels with the unit, so that writer and committer come to the same
state without listing the source again. A long listing is left out beyond what the unit covers; such a step seals
nothing, a later one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from tidegate.errors import StateError
from tidegate.planning.plan import Plan
from tidegate.runs.tracking import SourceState, Step, Tracker
from tidegate.sink.results import outcome_from_json
from tidegate.watermarks.outcomes import Covered, FileOutcome, Refused
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
        "outcomes": [{"outcome": type(each).__name__, **asdict(each)} for each in outcomes],
        "unfinished": sorted(path for path, _ in state.unfinished()),
    }


def step_of(step: Mapping[str, Any]) -> tuple[Plan, tuple[FileOutcome, ...]]:
    """The arguments read back; ``StateError`` when they are not understood."""
    try:
        return Plan.from_json(step["plan"]), tuple(outcome_from_json(each) for each in step["outcomes"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"a staged step cannot be read ({error!r})", "let the writer plan again") from error


def after_unit(tracker: Tracker, state: SourceState, step: Mapping[str, Any]) -> tuple[Step, StateError | None]:
    """The state after a unit whose files are all there, and why it is rejected, where it does not fit.

    Writers foresee in this way what the committer will do with the units that are pending.
    """
    try:
        return after_step(tracker, state, step), None
    except StateError as misfit:
        return after_rejection(tracker, state, step, misfit.problem), misfit


def after_step(tracker: Tracker, state: SourceState, step: Mapping[str, Any]) -> Step:
    """The state once the rows of the step are committed on top of ``state``.

    That may be another state than the writer had: a unit before this one may have been rejected, and its files are
    unfinished again. They keep the watermark below them although the writer's listing does not show them.
    ``StateError`` when the step does not fit: something it covers is finished already, or was not begun where it
    goes on.
    """
    plan, outcomes = step_of(step)
    _check_not_finished(tracker, state, plan, [each for each in outcomes if isinstance(each, Covered)])
    return _advanced(tracker, state, plan, step["unfinished"], outcomes)


def after_rejection(tracker: Tracker, state: SourceState, step: Mapping[str, Any], reason: str) -> Step:
    """The state when the rows of the step are not committed: what they covered is unfinished, and known by name."""
    plan, outcomes = step_of(step)
    covered = [each for each in outcomes if isinstance(each, Covered)]
    files = [SourceFile(each.path, each.size, each.etag) for each in covered]
    due = {file.path for file in tracker.sorted(state, files, plan.now).due}
    due |= {path for path, _ in state.unfinished()}
    refused = [Refused(each.path, each.size, each.etag, reason, counts=False) for each in covered if each.path in due]
    return _advanced(tracker, state, plan, step["unfinished"], refused)


def _advanced(
    tracker: Tracker, state: SourceState, plan: Plan, unfinished: Sequence[str], outcomes: Sequence[FileOutcome]
) -> Step:
    """A step over the writer's listing, and what it could not show: files that the writer took for finished."""
    known = dict(state.unfinished())
    listed = {file.path: file for file in plan.listed}
    for path in known.keys() - set(unfinished):
        listed.setdefault(path, SourceFile(path, known[path].size or 0, known[path].etag))
    files = tuple(sorted(listed.values(), key=lambda file: sort_key(file.path)))
    return tracker.advance(state, replace(plan, listed=files), outcomes)


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
