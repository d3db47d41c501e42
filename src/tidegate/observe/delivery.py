"""Delivers one message: posts it to an address, or hands it to a program. Bounded in time, and never raises.

An address is posted to and nothing else: a redirect is not followed, since a message is not for whoever a server names.
A program runs without a shell in a process group of its own, which is ended when its time is over.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from tidegate.errors import safe_text
from tidegate.reports.messages import Message
from tidegate.reports.wording import visible
from tidegate.specs.masking import Mask, shorten
from tidegate.specs.notify import DestinationSpec, MessageFormat

if TYPE_CHECKING:
    import subprocess

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same message may be taken."""

READ_OF_ANSWER = 20_000
SHOWN_OF_ANSWER = 300
"""Less than is read: a secret at the edge of what was read is not whole, and so not found."""

_LOOK_SECS = 0.02


@dataclass(frozen=True, slots=True)
class DeliveryTimes:
    """How long an attempt may take, the pauses between attempts, and how long all of them may take together."""

    timeout: float = 10.0
    pauses: tuple[float, ...] = (1.0, 4.0)
    deadline: float = 30.0


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Why an attempt failed, and whether another one may not."""

    problem: str
    may_pass: bool = False


def deliver(
    to: DestinationSpec, message: Message, mask: Mask, stop: threading.Event, times: DeliveryTimes | None = None
) -> str | None:
    """Deliver ``message``; returns why that was not possible, without secrets. Gives up once ``stop`` is set."""
    times = times or DeliveryTimes()
    masked = mask.deep(message)
    is_slack = not to.command and to.posted_as is MessageFormat.SLACK
    content = json.dumps(masked.to_slack() if is_slack else masked.to_json(), ensure_ascii=False).encode()
    end = time.monotonic() + times.deadline
    for pause in (*times.pauses, None):
        timeout = min(times.timeout, end - time.monotonic())
        failed = _run(to.command, content, timeout, stop, mask) if to.command else _post(to, content, timeout)
        if failed is None:
            return None
        # After masking: half a secret is not found.
        problem = shorten(visible(mask(failed.problem)))
        if pause is None or not failed.may_pass or time.monotonic() + pause >= end or stop.wait(pause):
            return problem
    return None


def _post(to: DestinationSpec, content: bytes, timeout: float) -> Undelivered | None:
    # Loaded by those who send: it takes longer than a look at a status.
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *given: Any, **more: Any) -> None:
            return None

    try:
        url, headers = _split_user(to.webhook.value if to.webhook is not None else "")
        headers |= {"Content-Type": "application/json; charset=utf-8", "User-Agent": "tidegate"}
        request = urllib.request.Request(url, content, headers, method="POST")
        with urllib.request.build_opener(NoRedirect).open(request, timeout=timeout):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return _describe_answer(error.code, error.reason, error.headers.get("Location"), error)
    except urllib.error.URLError as error:
        return Undelivered(f"cannot be reached: {error.reason}", may_pass=True)
    except TimeoutError:
        return Undelivered(f"no answer within {timeout:.0f} s", may_pass=True)
    except (OSError, http.client.HTTPException) as error:
        return Undelivered(f"cannot be reached: {safe_text(error) or type(error).__name__}", may_pass=True)
    except ValueError:
        return Undelivered("its address cannot be posted to; allowed: https://HOST/PATH")


def _describe_answer(code: int, reason: str, location: str | None, answer: IO[bytes]) -> Undelivered:
    if location is not None and 300 <= code < 400:
        host = urlsplit(location).hostname or "the same host"
        return Undelivered(f"answers {code}: it redirects to {host}, which is not followed; configure the new address")
    said = b""
    with suppress(OSError, ValueError):
        said = answer.read(READ_OF_ANSWER)
    text = " ".join(said.decode(errors="replace").split())
    return Undelivered(f"answers {code} {reason}{f': {text}' if text else ''}", may_pass=code in PASSING)


def _split_user(url: str) -> tuple[str, dict[str, str]]:
    """The address without user and password, and the header that carries them."""
    parts = urlsplit(url)
    user, is_there, host = parts.netloc.rpartition("@")
    if not is_there:
        return url, {}
    basic = base64.b64encode(unquote(user).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {basic}"}


def _run(
    command: tuple[str, ...], content: bytes, timeout: float, stop: threading.Event, mask: Mask
) -> Undelivered | None:
    import subprocess
    import tempfile

    # Files, not pipes: a program that does not read, or whose children keep a pipe open, would keep us waiting.
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said:
        asked.write(content)
        asked.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=asked, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
        except (OSError, ValueError) as error:
            return Undelivered(f"cannot be started: {getattr(error, 'strerror', None) or safe_text(error)}")
        code = _await(process, time.monotonic() + timeout, stop)
        if code == 0:
            return None
        said.seek(max(0, said.seek(0, os.SEEK_END) - READ_OF_ANSWER))
        text = " ".join(mask(said.read().decode(errors="replace")).split())[-SHOWN_OF_ANSWER:]
        ended = f"took longer than {timeout:.0f} s and was ended" if code is None else f"ended with code {code}"
        return Undelivered(f"{ended}{f': {text}' if text else ''}", may_pass=code is not None)


def _await(process: subprocess.Popen[bytes], end: float, stop: threading.Event) -> int | None:
    """The exit code of the program; None if it had to be ended."""
    while process.poll() is None and time.monotonic() < end and not stop.wait(_LOOK_SECS):
        pass
    code = process.poll()
    if code is None:
        # Its group has its id, and only what it started itself is in it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return code
