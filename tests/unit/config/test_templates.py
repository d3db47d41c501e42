"""The templates that the configuration accepts are those that the planner can use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.templates import period_problem
from tidegate.core.files.paths import parse_template
from tidegate.errors import ConfigError

PARTS = st.sampled_from(
    ["%Y", "%m", "%d", "%H", "%F", "%%", "%M", "%y", "%j", "%U", "%Q", "%", "/", "-", "date=", "x", "Y"]
)


def usable(template: str) -> bool:
    try:
        parse_template(template)
    except ConfigError:
        return False
    return True


@given(st.lists(PARTS, min_size=1, max_size=8).map("".join))
def test_a_template_is_accepted_exactly_when_it_can_be_used(template: str) -> None:
    plain = template.strip("/")
    assert (period_problem(plain) == "") == usable(plain)
