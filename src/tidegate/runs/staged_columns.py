"""Whether the files of staged units fit the table, one unit after the other, before there is a commit.

The columns that a unit brings along count for those after it, so that two units which fit the table and not each
other are told apart. The commit itself checks again, against the snapshot that it builds on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.specs import Evolution
from tidegate.state.files import Change, DataFile, Written
from tidegate.state.fitting import columns_to_add
from tidegate.state.opened import Opened
from tidegate.state.staging import StagedUnit
from tidegate.state.table import TableFacts, TableProtocol

if TYPE_CHECKING:
    import pyarrow as pa


class TableColumns:
    """The columns of a table as they will be after everything that was added; none yet without a table."""

    def __init__(self, opened: Opened) -> None:
        self._facts = (
            None if opened.schema_json is None else _facts(opened.schema_json, tuple(opened.partition_columns))
        )
        self._fitting: set[tuple[str, tuple[str, ...], Evolution]] = set()

    @property
    def known(self) -> bool:
        """Whether there is a table, or something that will make one."""
        return self._facts is not None

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Of the table, or of the one that will be made."""
        return () if self._facts is None else self._facts.partition_columns

    def schema(self) -> pa.Schema | None:
        """The columns as they will be."""
        from tidegate.state.arrow import arrow_schema

        return None if self._facts is None else arrow_schema(self._facts.schema_json)

    def add(self, unit: StagedUnit, mode: Evolution) -> None:
        """``SchemaMismatch`` when the files of the unit do not fit."""
        from tidegate.state.arrow import arrow_schema

        if unit.schema_json is None or not (unit.data_files or self._facts is None):
            return
        seen = (unit.schema_json, unit.partition_columns, mode)
        if seen not in self._fitting:
            self.add_files(arrow_schema(unit.schema_json), unit.partition_columns, unit.data_files[:1], mode)
            self._fitting.add(seen)

    def add_files(self, schema: pa.Schema, keys: tuple[str, ...], files: Sequence[DataFile], mode: Evolution) -> None:
        """The same for files with these columns."""
        from tidegate.state.arrow import arrow_schema, schema_json

        if self._facts is None:
            self._facts = _facts(schema_json(schema), keys)
        written = Written(schema, keys, tuple(files))
        change = Change({}, {}, data_files=tuple(files), groups=(written,))
        fields = {field.name: field for field in columns_to_add(self._facts, [change], mode)}
        if fields:
            table = arrow_schema(self._facts.schema_json)
            kept = [fields.pop(field.name, field) for field in table]
            self._facts = replace(self._facts, schema_json=schema_json(table_of([*kept, *fields.values()])))
            self._fitting.clear()


def table_of(fields: Sequence[pa.Field]) -> pa.Schema:
    """Columns as a schema."""
    import pyarrow

    return pyarrow.schema(fields)


def _facts(schema: str, keys: tuple[str, ...]) -> TableFacts:
    return TableFacts(-1, "", TableProtocol(1, 2), schema, keys)
