"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers import s3 as s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[s3_server.Server]:
    """One real S3 server for the whole session, started by the first test that asks for it."""
    with s3_server.running() as server:
        yield server
