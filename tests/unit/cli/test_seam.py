"""The functions that commands call are there, and can be called the way the commands call them."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tidegate.cli.invocation import Api, Invocation
from unit.cli.standin import StandIn

FUNCTIONS = [name for name, value in vars(Api).items() if inspect.isfunction(value) and not name.startswith("_")]


def accepts_the_call(function: object, name: str) -> None:
    """Bind what the commands pass: every parameter the protocol has, and only those."""
    assert callable(function)
    parameters = list(inspect.signature(getattr(Api, name)).parameters.values())[1:]
    named = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    placed = [None for each in parameters if each.kind is not each.KEYWORD_ONLY]
    inspect.signature(function).bind(*placed, **named)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_public_functions_accept_what_commands_pass(name: str) -> None:
    accepts_the_call(getattr(importlib.import_module("tidegate.api"), name), name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stand_in_accepts_what_commands_pass(name: str) -> None:
    accepts_the_call(getattr(StandIn(), name), name)


def test_an_invocation_keeps_the_functions_that_it_was_given() -> None:
    api = StandIn()
    assert Invocation(api=api).functions() is api
