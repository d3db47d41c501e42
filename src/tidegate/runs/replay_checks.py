"""What must be true before a range of a column source is read again, and what a person should know about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.column_specs import LoadType, Watermark
from tidegate.errors import ConfigError, TableError, WatermarkError
from tidegate.planning.column_plan import ColumnPlan
from tidegate.planning.column_planner import plan_columns
from tidegate.planning.replay_handover import (
    check_handover,
    check_past,
    check_reached,
    chunk_columns,
    chunk_zone,
    doubled_by_production,
    is_number,
)
from tidegate.runs.column_looking import text_of
from tidegate.runs.column_place import ColumnPlace
from tidegate.sources.reading import Reader
from tidegate.specs import every_source
from tidegate.state.pending import COMMITTER
from tidegate.state.references import sources_of
from tidegate.state.store import PositionStore
from tidegate.watermarks.chunks import Chunk, ReplayConfig
from tidegate.watermarks.column_state import ColumnState
from tidegate.watermarks.column_values import is_above
from tidegate.watermarks.look_back import as_moment
from tidegate.watermarks.row_filter import Bound, ColumnRange, RowFilter


@dataclass(frozen=True, slots=True)
class ReplayChecks:
    """A replay as it is asked for, and the production watermark before it; ``elsewhere``: into another table."""

    place: ColumnPlace
    config: ReplayConfig
    state: ColumnState | None
    elsewhere: bool = False
    skip_gap: bool = False
    allow_overlap: bool = False

    @property
    def _name(self) -> str:
        return str(self.place.key)

    @property
    def _columns(self) -> tuple[str, ...]:
        return chunk_columns(self.place.source, self.config.chunk_column)

    @property
    def _replaces(self) -> bool:
        """Whether all rows of the table in the range give way, whoever brought them."""
        return self.place.pipeline.sink.load.type in (LoadType.APPEND, LoadType.MERGE_OVERWRITE)

    @property
    def in_order(self) -> bool:
        """Whether chunks are committed one after the other, and none after one that failed.

        Versions follow each other in time. And what was appended above the saved watermark, a run would append again.
        """
        load = self.place.pipeline.sink.load.type
        return load is LoadType.SCD2 or (load is LoadType.APPEND and self.config.save_watermark)

    @property
    def asks_source(self) -> bool:
        """Whether only the source can tell that no row lies below the range: nothing was read before."""
        values = {} if self.state is None else self.state.values
        unknown = all(values.get(each) is None for each in self._columns)
        return self.config.save_watermark and not self.skip_gap and unknown

    @property
    def needs_source(self) -> bool:
        """Whether the source is asked anything before the first chunk is read."""
        return self.asks_source or (self.config.save_watermark and is_number(self.config.end))

    def plan(self, now: datetime) -> ColumnPlan:
        """The whole range as one chunk; refuses bounds that do not fit the watermark."""
        load = self.place.pipeline.sink.load
        if load.type.reads_everything:
            raise ConfigError(
                (f"{self._name}: load_type {load.type} replaces the whole table; a replay of a part would empty it",)
            )
        self._check_alone()
        return plan_columns(
            self.place.pipeline.name,
            self.place.source,
            load,
            self.state,
            0,
            now,
            chunk=Chunk(self.config.start, self.config.end),
            chunk_column=self.config.chunk_column,
        )

    def _check_alone(self) -> None:
        pipeline = self.place.pipeline
        others = [each.name for each in every_source(pipeline) if each.name != self.place.source.name]
        if others and self._replaces and not self.elsewhere:
            raise ConfigError(
                (
                    f"{self._name}: the table has rows of {', '.join(others)}, too, and a chunk would take their "
                    "place; replay into another table",
                )
            )

    def check(self, now: datetime) -> None:
        """Refuse an end after which production would leave rows out or read them twice."""
        if not self.config.save_watermark:
            self._check_overlap()
            return
        if self.elsewhere:
            raise ConfigError(
                (f"{self._name}: the rows go into another table, so the watermark is not moved; leave it out",)
            )
        check_past(self._name, self.place.source, self.config, now)
        self._check_handover(self.config, skip_gap=self.skip_gap or self.asks_source)
        if self.place.pipeline.sink.load.type is LoadType.APPEND:
            self._check_edges()

    @property
    def _doubled(self) -> tuple[str, ...]:
        """The columns by which the next run would append rows of the range again."""
        if self.elsewhere:
            return ()
        source, load = self.place.source, self.place.pipeline.sink.load
        return doubled_by_production(source, load, self.state, self.config)

    def _check_overlap(self) -> None:
        """Refuse to append what the next run would append again."""
        if not self._doubled or self.allow_overlap:
            return
        named = ", ".join(self._doubled)
        where = (
            "above the watermark of " + named
            if self.state is not None
            else "in a table of which nothing was read before"
        )
        raise WatermarkError(
            f"{self._name}: the range ends at {text_of(self.config.end)}, {where}: the next run would append those"
            " rows again",
            "save the end (--save-watermark), or end at the watermark; or, if no run follows, use --allow-overlap",
        )

    def check_chunk(self, greatest: Watermark) -> None:
        """Refuse a chunk by another column that holds rows which the next run appends; they were never read."""
        source, load = self.place.source, self.place.pipeline.sink.load
        if self.allow_overlap or self.elsewhere or load.type is not LoadType.APPEND or self.state is None:
            return
        if set(self._columns) & set(source.watermark_columns):
            return
        for column in source.watermark_columns:
            value, stored = greatest.get(column), self.state.values.get(column)
            if value is not None and (
                stored is None or is_above(value, as_moment(stored, value, source.source_timezone))
            ):
                raise WatermarkError(
                    f"{self._name}: {column}={text_of(value)} lies above the watermark: the next run would append that "
                    "row again",
                    "run the pipeline first, then the same replay; or, if no run follows, use --allow-overlap",
                )

    def check_alone(self, record: PositionStore) -> None:
        """Refuse to replace a range of a table that others write, too: their rows in it would go.

        ``record`` is the position of the replay in the table that is written.
        """
        site, load = record.site, self.place.pipeline.sink.load.type
        others = sources_of(site.store) - {COMMITTER, self.place.key, site.key}
        if others and self._replaces:
            named = ", ".join(sorted(map(str, others)))
            raise TableError(
                f"{self._name}: a replay by {load} takes the place of all rows in its range, and {site.uri} also has "
                f"those of {named}, which would be deleted",
                "replay into another table (--into) and take the rows from there",
            )

    def check_source(self, reader: Reader) -> None:
        """Refuse to jump over rows below the range, and to save an end that the source has not reached."""
        if reader.fixed_first and self.config.save_watermark and is_number(self.config.end):
            everything = RowFilter(tuple(map(ColumnRange, self._columns)), extra=self.place.source.filter_expression)
            check_reached(self._name, self.config, reader.greatest(everything).values)
        if self.asks_source:
            self._check_below(reader)

    def _check_below(self, reader: Reader) -> None:
        """Refuse to jump over rows below the range; where the source cannot be asked, it may have some."""
        if reader.fixed_first:
            upper = Bound(self.config.start)
            ranges = tuple(ColumnRange(each, upper=upper) for each in self._columns)
            seen = reader.greatest(RowFilter(ranges, extra=self.place.source.filter_expression))
            if all(value is None for value in seen.values.values()):
                return
        self._check_handover(self.config, skip_gap=False)

    def _check_edges(self) -> None:
        """All watermarks pass an edge together, or a run between two chunks would append rows of the first again."""
        for chunk in self.config.chunks(chunk_zone(self.place.source, self.config))[:-1]:
            try:
                part = replace(self.config, end=chunk.high, chunk_interval=None)
                self._check_handover(part, skip_gap=True)
            except WatermarkError as error:
                raise WatermarkError(
                    f"{self._name}: the chunk that ends at {text_of(chunk.high)} ends between the watermarks of "
                    f"{', '.join(self._columns)}: a run after it would append its rows again",
                    "use longer chunks, or none",
                ) from error

    def _check_handover(self, config: ReplayConfig, *, skip_gap: bool) -> None:
        source, load = self.place.source, self.place.pipeline.sink.load
        check_handover(self._name, source, load, self.state, config, skip_gap=skip_gap)

    def warnings(self) -> Iterator[str]:
        """What would go wrong later, and is the user's to decide."""
        pipeline, source = self.place.pipeline, self.place.source
        if self.elsewhere or pipeline.sink.load.type is not LoadType.APPEND:
            return
        if self._doubled:
            yield (
                f"the range ends above the watermark of {', '.join(self._doubled)}: the next run appends those rows "
                "again; end at the watermark, or save it"
            )
        elif self.config.chunk_column is not None and self._columns != source.watermark_columns:
            yield (
                f"the range is one of {self.config.chunk_column}: a chunk with rows that are new by the watermark,"
                " which the next run would append again, fails; run the pipeline first"
            )

    def notes(self) -> Iterator[str]:
        """What it means."""
        if self._replaces:
            yield "the rows of each chunk take the place of those that the table has in its range"
        if self.in_order:
            yield "chunks are loaded one after the other, and none after one that failed"
        if self.asks_source:
            yield "nothing was read before: the source is asked first whether it has rows below the range"
