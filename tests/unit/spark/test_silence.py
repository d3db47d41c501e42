"""Calls that are broken off because a run stops leave no traceback of Py4J."""

from __future__ import annotations

import contextlib
import logging
import threading

import pytest
from py4j.java_gateway import GatewayClient, GatewayParameters

from tidegate.spark.session import py4j_is_silent


class Interrupted:
    """A connection during whose call somebody presses Ctrl-C."""

    def send_command(self, command: str) -> str:
        raise KeyboardInterrupt

    def close(self, reset: bool = False) -> None:
        pass


def call() -> None:
    """A call of Py4J that is interrupted."""
    client = GatewayClient(gateway_parameters=GatewayParameters())
    client.deque.append(Interrupted())
    with contextlib.suppress(BaseException):
        client.send_command("c\n")
    logging.getLogger("py4j.clientserver").error("KeyboardInterrupt while shutting down")


@pytest.mark.parametrize("stopping", [True, False])
def test_an_interrupted_call_is_told_only_if_nobody_stopped_the_run(
    caplog: pytest.LogCaptureFixture, stopping: bool
) -> None:
    stop = threading.Event()
    with py4j_is_silent(stop):
        if stopping:
            stop.set()
        call()
        logging.error("something else")
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if "KeyboardInterrupt" in line] == ([] if stopping else told[:2])
    assert told[-1] == "something else"


def test_afterwards_it_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    stop = threading.Event()
    stop.set()
    with py4j_is_silent(stop):
        call()
    assert not caplog.records
    call()
    assert caplog.text.count("KeyboardInterrupt while") == 2
