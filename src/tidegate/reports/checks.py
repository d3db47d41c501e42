"""Checks of a machine or a configuration, and positions taken over from an older program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tidegate.reports.report import Report

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check(Report):
    """One check of ``doctor``; ``remedy`` is empty if all is well."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Adoption(Report):
    """The position that an older program left for one source, and whether it was taken over.

    ``trace`` is where it was found and ``form`` its format; both are empty without one. ``findings`` are what the old
    program may have left out or doubled; they are only reported. ``next_files`` is the number of files that the next
    run reads. ``adopted`` and ``version`` are what was written, ``error`` why nothing was.
    """

    pipeline: str
    source: str
    table_uri: str
    trace: str = ""
    form: str = ""
    written: datetime | None = None
    state: str = "Initial"
    watermark: str | None = None
    partitions: Mapping[str, str] = field(default_factory=dict)
    in_progress: Mapping[str, int] = field(default_factory=dict)
    last_committed_file: str | None = None
    findings: tuple[Check, ...] = ()
    next_files: int = 0
    adopted: bool = False
    version: int = 0
    table_version: int | None = None
    error: str | None = None
