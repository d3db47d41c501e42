"""A message is delivered by a real server or program, in bounded time, and no secret comes back."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.webhook import Webhook, serve_webhook
from tidegate.observe.delivery import DeliveryTimes, deliver
from tidegate.reports.messages import Message
from tidegate.specs.locations import Secret
from tidegate.specs.masking import Mask
from tidegate.specs.notify import DestinationSpec, MessageFormat

MESSAGE = Message("shop.yml", datetime(2026, 1, 28, tzinfo=UTC), kind="test")
QUICK = DeliveryTimes(timeout=5.0, pauses=(0.01, 0.01), deadline=20.0)
IMPATIENT = DeliveryTimes(timeout=0.3, pauses=(0.01,), deadline=2.0)


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with serve_webhook() as served:
        yield served


def post(hook: Webhook, times: DeliveryTimes = QUICK, **more: MessageFormat) -> str | None:
    to = DestinationSpec(Secret(hook.url), **more)
    return deliver(to, MESSAGE, Mask.around(to), threading.Event(), times)


def hand_over(*command: str, times: DeliveryTimes = QUICK, stop: threading.Event | None = None) -> str | None:
    to = DestinationSpec(command=command)
    return deliver(to, MESSAGE, Mask.of("sEcReTkEy12345678"), stop or threading.Event(), times)


def test_a_message_is_posted_as_json(hook: Webhook) -> None:
    assert post(hook) is None
    assert hook.messages == [MESSAGE.to_json()]
    ((path, headers),) = hook.requests
    assert path == "/services/T0/B0/sEcReTkEy12345678"
    assert headers["Content-Type"] == "application/json; charset=utf-8"


def test_slack_gets_its_form(hook: Webhook) -> None:
    assert post(hook, format=MessageFormat.SLACK) is None
    assert set(hook.messages[0]) == {"text", "blocks"}


def test_user_and_password_of_an_address_become_a_header(hook: Webhook) -> None:
    to = DestinationSpec(Secret(hook.url.replace("//", "//bot:p%40ss@")))
    assert deliver(to, MESSAGE, Mask(), threading.Event(), QUICK) is None
    assert hook.requests[0][1]["Authorization"] == "Basic Ym90OnBAc3M="
    assert "@" not in hook.requests[0][1]["Host"]


def test_a_server_that_is_busy_is_tried_again(hook: Webhook) -> None:
    hook.answers = [503, 429]
    assert post(hook) is None
    assert (len(hook.requests), len(hook.messages)) == (3, 1)


def test_a_server_that_stays_busy_is_given_up(hook: Webhook) -> None:
    hook.answers, hook.body = [500] * 9, b"try\nlater"
    assert post(hook) == "answers 500 Internal Server Error: try later"
    assert len(hook.requests) == 3


def test_an_answer_that_will_not_change_is_not_asked_for_again(hook: Webhook) -> None:
    hook.answers, hook.body = [404], b"no channel sEcReTkEy12345678"
    assert post(hook) == "answers 404 Not Found: no channel ***"
    assert len(hook.requests) == 1


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(hook: Webhook, code: int) -> None:
    with serve_webhook() as other:
        hook.answers, hook.location = [code], other.url
        told = post(hook)
        assert told is not None
        assert told.startswith(f"answers {code}: it redirects to 127.0.0.1, which is not followed")
        assert "sEcReT" not in told
        assert other.requests == []
    assert len(hook.requests) == 1


def test_a_server_that_hangs_is_given_up_in_time(hook: Webhook) -> None:
    hook.hangs = threading.Event()
    began = time.monotonic()
    told = post(hook, IMPATIENT)
    assert told is not None
    assert "timed out" in told or "no answer within" in told
    assert time.monotonic() - began < 30


def test_nobody_at_an_address_is_said_without_the_address() -> None:
    with serve_webhook() as gone:
        pass
    told = post(gone)
    assert told is not None
    assert told.startswith("cannot be reached: ")
    assert "sEcReT" not in told


def test_what_is_no_address_is_said() -> None:
    to = DestinationSpec(Secret("***"))
    assert deliver(to, MESSAGE, Mask(), threading.Event(), QUICK) is not None


def test_a_message_holds_no_secret(hook: Webhook) -> None:
    to = DestinationSpec(Secret(hook.url))
    message = Message(f"about {hook.url}", MESSAGE.at, kind="test")
    assert deliver(to, message, Mask.around(to), threading.Event(), QUICK) is None
    assert "sEcReT" not in json.dumps(hook.messages)


def test_a_program_gets_the_message_on_its_standard_input(tmp_path: Path) -> None:
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    # Nothing of it is for a shell: the quotes and the dollar stay.
    target = tmp_path / "it's $HOME.json"
    assert hand_over(sys.executable, "-c", code, str(target)) is None
    assert json.loads(target.read_text()) == MESSAGE.to_json()


def test_a_program_that_does_not_read_its_input_may_succeed() -> None:
    assert hand_over("true") is None


def test_a_program_that_fails_is_tried_again_and_quoted_without_secrets(tmp_path: Path) -> None:
    counted = tmp_path / "count"
    script = f"echo x >> '{counted}'; echo 'bad key sEcReTkEy12345678' >&2; echo never; exit 3"
    assert hand_over("sh", "-c", script) == "ended with code 3: bad key ***"
    assert counted.read_text().count("x") == 3


def test_half_a_secret_at_the_edge_of_what_is_shown_does_not_show() -> None:
    noise = "x" * 280
    told = hand_over("sh", "-c", f"echo '{noise * 200} sEcReTkEy12345678 {noise}' >&2; exit 1", times=IMPATIENT)
    assert told is not None
    assert "Ey12345678" not in told
    assert len(told) < 400


def test_a_program_that_is_not_there_is_said() -> None:
    assert hand_over("no-such-program-anywhere") == "cannot be started: No such file or directory"


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet reaped by its new parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize("stopped", [False, True])
def test_a_program_that_hangs_is_ended_with_all_it_started(tmp_path: Path, stopped: bool) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 300 & echo $! $$ > '{pids}'; wait"
    stop = threading.Event()
    if stopped:

        def stop_soon() -> None:
            while not pids.exists() or not pids.read_text().strip():
                time.sleep(0.01)
            stop.set()

        threading.Thread(target=stop_soon, daemon=True).start()
    times = DeliveryTimes(timeout=60.0 if stopped else 2.0, pauses=(), deadline=60.0)
    told = hand_over("sh", "-c", script, times=times, stop=stop)
    assert told is not None
    assert "and was ended" in told
    for pid in map(int, pids.read_text().split()):
        for _ in range(500):
            if not is_alive(pid):
                break
            time.sleep(0.01)
        assert not is_alive(pid)
        assert pid != os.getpid()
