"""One server per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.api import Api, running


@pytest.fixture
def api() -> Iterator[Api]:
    with running() as server:
        yield server
