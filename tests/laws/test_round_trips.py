"""What is written can be read back: states, plans, templates."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from laws.strategies import lost_states, plans, states
from support.errors import raises
from support.long_runs import examples
from tidegate.core.files.plan import Plan
from tidegate.core.files.state import PathState, decode_paths, drop_window, encode_paths
from tidegate.errors import StateError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ("schema_version", "watermark", "partition_watermarks", "source_state", "sealed", "late_window", "other")
)


@settings(deadline=None)
@given(states | lost_states)
def test_a_state_is_read_back_as_it_was(state: PathState) -> None:
    assert decode_paths(json.loads(json.dumps(encode_paths(state)))) == state


@settings(deadline=None)
@given(states)
def test_equal_states_give_equal_text(state: PathState) -> None:
    backwards = PathState(
        state.watermark,
        dict(reversed(list(state.partition_watermarks.items()))),
        dict(reversed(list(state.files.items()))),
        state.last_committed_file,
        dict(reversed(list(state.late_window.items()))),
        state.window_lost,
        dict(reversed(list(state.sealed.items()))),
        state.sealed_below,
        state.last_update_ts,
    )
    assert json.dumps(encode_paths(backwards)) == json.dumps(encode_paths(state))


@settings(deadline=None)
@given(states)
def test_the_embedded_state_has_everything_but_the_window(state: PathState) -> None:
    found = decode_paths(drop_window(encode_paths(state)))
    assert found.window_lost
    assert not found.late_window
    assert encode_paths(found) == drop_window(encode_paths(state))


@settings(deadline=None)
@given(st.dictionaries(KEYS, JSON, min_size=1, max_size=4))
def test_a_strange_document_is_refused_or_read_but_never_breaks(document: dict[str, object]) -> None:
    refused: StateError | None = None
    try:
        state = decode_paths(document)
    except StateError as error:
        refused = error
    if refused is None:
        assert decode_paths(encode_paths(state)) == state
    else:
        assert refused.problem.startswith("state")
        assert refused.remedy


@settings(deadline=None, max_examples=examples(60))
@given(plans)
def test_a_plan_is_read_back_as_it_was(plan: Plan) -> None:
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_plan_from_elsewhere_is_refused() -> None:
    with raises(StateError, "plan.pipeline", "string"):
        Plan.from_json({"kind": "path"})
