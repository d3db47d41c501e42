"""What is being uploaded shows on the metrics page while it lasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.fault_proxy import in_front_of
from servers.s3 import Server
from support.live_uploads import assert_parts_show_while_they_last, assert_uploads_show_while_they_last
from tidegate.runs.in_process import InProcessEngine
from tidegate.runs.loop import Loop

pytestmark = pytest.mark.s3


def test_uploads_show_on_the_metrics_page_while_they_last(s3: Server, tmp_path: Path) -> None:
    with in_front_of(s3) as proxy:
        assert_uploads_show_while_they_last(
            s3, proxy, tmp_path, lambda project, emit: Loop(project, InProcessEngine(), 2, emit).once(project.pipelines)
        )


def test_parts_show_on_the_metrics_page_while_they_last(s3: Server, tmp_path: Path) -> None:
    with in_front_of(s3) as proxy:
        assert_parts_show_while_they_last(
            s3, proxy, tmp_path, lambda project, emit: Loop(project, InProcessEngine(), 2, emit).once(project.pipelines)
        )
