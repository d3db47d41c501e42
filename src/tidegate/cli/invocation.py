"""One invocation of the command line: its common options, where output goes, and the functions it calls.

The click context carries an ``Invocation`` as its object. Commands reach the public functions only through
:meth:`Invocation.functions`, which imports :mod:`tidegate.api` when it is first needed; whoever makes the
invocation may put other functions of the same shape there (``cli.main(arguments, obj=Invocation(api=…))``).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

from tidegate.cli.pages import Page, plain

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from tidegate.observe.events import Emit
    from tidegate.observe.logs import Level
    from tidegate.observe.progress import ProgressView
    from tidegate.reports import (
        chaos as chaos_module,
    )
    from tidegate.reports import (
        correction,
        ledger,
        schema,
        staging,
    )
    from tidegate.reports import (
        run as run_module,
    )
    from tidegate.reports import (
        units as units_module,
    )
    from tidegate.reports.correction import ReconcileReport
    from tidegate.schema.dead_letter import Letter
    from tidegate.specs.project import ProjectSpec

Mode = Literal["once", "continuous"]


class Api(Protocol):
    """The functions of :mod:`tidegate.api` that commands call."""

    def load(self, config: str | Path, /) -> ProjectSpec: ...

    def import_properties(self, path: str | Path, /) -> staging.PropertiesImport: ...

    def plan(
        self,
        config: str | Path,
        pipeline: str | None = None,
        /,
        *,
        now: datetime | None,
        accept_new_partitions: bool,
    ) -> tuple[run_module.SourcePlan | run_module.ColumnSourcePlan | units_module.UnitSourcePlan, ...]: ...

    def run(
        self,
        config: str | Path,
        pipeline: str | None = None,
        /,
        *,
        mode: Mode,
        emit: Emit,
        stop: threading.Event,
        accept_new_partitions: bool,
    ) -> run_module.RunReport: ...

    def status(self, config: str | Path, pipeline: str | None = None, /) -> tuple[run_module.SourceStatus, ...]: ...

    def serve(
        self,
        config: str | Path,
        pipeline: str | None = None,
        /,
        *,
        address: str | None,
        every: float,
        started: Callable[[str], None],
        stop: threading.Event,
    ) -> None: ...

    def show_watermarks(
        self, config: str | Path, pipeline: str, source: str | None = None, /
    ) -> tuple[run_module.WatermarkView, ...]: ...

    def watermark_history(
        self, config: str | Path, pipeline: str, source: str | None = None, /, *, limit: int
    ) -> tuple[ledger.WatermarkHistory, ...]: ...

    def files(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        match: str | None,
        since: datetime | None,
        position: int | None,
        limit: int,
    ) -> ledger.FilesReport: ...

    def export_ledger(
        self, config: str | Path, pipeline: str, source: str | None = None, /, *, to: Path
    ) -> ledger.LedgerExport: ...

    def compact_ledger(
        self, config: str | Path, pipeline: str, source: str | None = None, /
    ) -> tuple[ledger.LedgerCompaction, ...]: ...

    def commit(
        self,
        config: str | Path,
        pipeline: str | None = None,
        /,
        *,
        mode: Mode,
        emit: Emit,
        stop: threading.Event,
    ) -> staging.CommitReport: ...

    def adopt_files(
        self,
        config: str | Path,
        pipeline: str | None = None,
        /,
        *,
        prefix: str,
        confirm: Callable[[staging.FileAdoption], bool],
    ) -> staging.FileAdoption: ...

    def recover(
        self, config: str | Path, pipeline: str, source: str | None = None, /, *, accept: tuple[str, ...]
    ) -> tuple[run_module.Check, ...]: ...

    def reconcile(
        self,
        config: str | Path,
        pipeline: str | None = None,
        source: str | None = None,
        /,
        *,
        ingest: bool,
        clean: bool,
        older_than: timedelta,
        force: bool,
        emit: Emit,
        stop: threading.Event,
    ) -> ReconcileReport: ...

    def adopt(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        dry_run: bool,
        quiet_for: float,
        fresh: bool,
        read_skipped: bool,
    ) -> tuple[run_module.Adoption, ...]: ...

    def set_watermark(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        to: str | None,
        values: dict[str, str] | None,
        inclusive: bool,
        confirm: Callable[[correction.WatermarkMove], bool],
    ) -> correction.WatermarkMove: ...

    def reset_watermark(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        partition: str | None,
        confirm: Callable[[correction.WatermarkMove], bool],
    ) -> correction.WatermarkMove: ...

    def replay_range(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        start: str,
        end: str,
        chunk: Mapping[str, object] | None,
        chunk_column: str | None,
        save_watermark: bool,
        skip_gap: bool,
        allow_overlap: bool,
        into: str | None,
        max_workers: int,
        fresh: bool,
        confirm: Callable[[correction.ColumnReplayReport], bool],
        emit: Emit,
        stop: threading.Event,
    ) -> correction.ColumnReplayReport: ...

    def replay(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        files: str | None,
        partition: str | None,
        drop_missing: bool,
        confirm: Callable[[correction.ReplayReport], bool],
        emit: Emit,
        stop: threading.Event,
    ) -> correction.ReplayReport: ...

    def units(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        names: tuple[str, ...],
        partition: str | None,
        failed: bool,
        limit: int,
    ) -> tuple[units_module.UnitList, ...]: ...

    def unit(
        self, config: str | Path, pipeline: str, name: str, source: str | None = None, /
    ) -> units_module.UnitView: ...

    def retry_units(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        names: tuple[str, ...],
        partition: str | None,
        confirm: Callable[[units_module.UnitsMove], bool],
    ) -> units_module.UnitsMove: ...

    def reset_units(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        names: tuple[str, ...],
        partition: str | None,
        confirm: Callable[[units_module.UnitsMove], bool],
    ) -> units_module.UnitsMove: ...

    def infer_schema(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        sample: int,
        update: bool,
        confirm: Callable[[schema.SchemaInference], bool],
    ) -> schema.SchemaInference: ...

    def show_schema(self, config: str | Path, pipeline: str, /) -> schema.SchemaView: ...

    def diff_schema(self, config: str | Path, pipeline: str, /) -> schema.SchemaDiff: ...

    def replace_schema(
        self, config: str | Path, pipeline: str, /, *, confirm: Callable[[schema.TableRewrite], bool]
    ) -> schema.TableRewrite: ...

    def widen_table(
        self,
        config: str | Path,
        pipeline: str,
        /,
        *,
        column: str,
        to: str,
        confirm: Callable[[schema.TableRewrite], bool],
    ) -> schema.TableRewrite: ...

    def list_letters(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        ids: tuple[str, ...] = (),
        file: str | None = None,
        reason: str | None = None,
        limit: int | None = None,
    ) -> tuple[Letter, ...]: ...

    def retry_letters(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        ids: tuple[str, ...] = (),
        file: str | None = None,
        reason: str | None = None,
        emit: Emit,
    ) -> tuple[run_module.LettersReport, ...]: ...

    def discard_letters(
        self,
        config: str | Path,
        pipeline: str,
        source: str | None = None,
        /,
        *,
        ids: tuple[str, ...] = (),
        file: str | None = None,
        reason: str | None = None,
    ) -> tuple[run_module.LettersReport, ...]: ...

    def optimize_table(
        self, config: str | Path, pipeline: str, /, *, target_mb: int | None, dry_run: bool
    ) -> run_module.TableCareReport: ...

    def vacuum_table(
        self, config: str | Path, pipeline: str, /, *, retention_hours: int | None, force: bool, dry_run: bool
    ) -> run_module.TableCareReport: ...

    def checkpoint_table(
        self, config: str | Path, pipeline: str, /, *, dry_run: bool
    ) -> run_module.TableCareReport: ...

    def doctor(self, config: str | Path | None = None, /) -> tuple[run_module.Check, ...]: ...

    def chaos(
        self,
        uri: str,
        /,
        *,
        failures: int,
        kills: int,
        spark_kills: int,
        seed: int | None,
        minutes: float,
        keep: bool,
        options: Mapping[str, str],
        show: Callable[[chaos_module.ChaosProgress], None],
    ) -> chaos_module.ChaosReport: ...

    def demo(
        self, folder: Path | None, emit: Emit, show: Callable[[run_module.DemoStep], None], /
    ) -> run_module.DemoReport: ...


@dataclass(slots=True)
class Invocation:
    """The settings of this invocation; ``log_level`` is None until somebody asks for one.

    ``as_json`` is known before the arguments are parsed, so that wrong arguments are told in JSON too.
    """

    api: Api | None = None
    as_json: bool = False
    log_level: str | None = None
    log_format: str = "text"
    debug: bool = False
    colour: bool = True
    quiet: bool = False
    _view: ProgressView | None = None

    def functions(self) -> Api:
        """The public functions, imported now if they were not before."""
        if self.api is None:
            from tidegate import api

            self.api = api
        return self.api

    def show(self, page: Page) -> None:
        """Print a page on standard output: drawn on a terminal, as aligned lines elsewhere."""
        with self._view.aside() if self._view else nullcontext():
            if is_terminal(sys.stdout):
                from tidegate.cli.terminal import console_for, draw

                draw(page, console_for(sys.stdout, colour=self.coloured()))
            else:
                sys.stdout.writelines(f"{line}\n" for line in plain(page))
            sys.stdout.flush()

    def coloured(self) -> bool:
        """Whether colours are wanted; ``NO_COLOR`` (any value) and ``--no-color`` say no."""
        return self.colour and not os.environ.get("NO_COLOR")

    @contextmanager
    def listening(self, *, result_follows: bool = False) -> Iterator[Emit]:
        """An emitter whose events show as progress and as log lines on standard error.

        Where ``result_follows`` on the same terminal, what that tells too is logged only if it does not come to it.
        """
        from tidegate.observe.logs import Holding, JsonLog, TextLog, fanout

        log = JsonLog if self.log_format == "json" else TextLog
        with self._progress() as view:
            self._view = view
            lines: Emit = log(view.write, self.effective_level())
            try:
                with Holding(lines) if result_follows and self._sees_both() else nullcontext(lines) as told:
                    yield fanout(view, told)
            finally:
                self._view = None

    def _sees_both(self) -> bool:
        """Whether somebody who did not ask for a log has it and the result on one terminal."""
        chosen = self.log_level is not None or self.log_format == "json" or self.as_json
        return not chosen and is_terminal(sys.stdout) and is_terminal(sys.stderr)

    def effective_level(self) -> Level:
        """The level asked for; else errors if quiet, everything that matters in JSON, warnings in text."""
        from tidegate.observe.logs import Level

        if self.log_level is not None:
            return Level.named(self.log_level)
        if self.quiet:
            return Level.ERROR
        return Level.INFO if self.log_format == "json" else Level.WARNING

    def _progress(self) -> ProgressView:
        from tidegate.observe.progress import BarProgress, PlainProgress, SilentProgress

        if self.quiet or self.log_format == "json":
            return SilentProgress(sys.stderr)
        if is_terminal(sys.stderr):
            from tidegate.cli.terminal import console_for

            return BarProgress(console_for(sys.stderr, colour=self.coloured()))
        told_by_log = self.log_level in ("debug", "info")
        return SilentProgress(sys.stderr) if told_by_log else PlainProgress(sys.stderr)


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at that stream through something that can draw."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """How many letters fit beside each other where results are shown."""
    return shutil.get_terminal_size((100, 24)).columns


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")
    sys.stdout.flush()
