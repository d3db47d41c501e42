"""The units of a source: those of its list, a single one without a name, or those of its secondary inputs.

An input is read at one version. What cannot be read is an error, never an input without rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING

from tidegate.core.units.state import ANONYMOUS, Units
from tidegate.errors import SourceError, TableError
from tidegate.protocol.delta import DeltaSnapshot, pin_table
from tidegate.specs.locations import Secret
from tidegate.specs.units import InputFormat, SecondaryInput, UnitSource, filter_expression

if TYPE_CHECKING:
    from tidegate.sources.units.input_files import Columns

_CACHED = 65536

Row = tuple[str | None, ...]


def read_units(source: UnitSource) -> Units:
    """The current units of ``source``; :class:`SourceError` if an input cannot be used."""
    making = [declared for declared in source.inputs if not declared.for_all]
    read = [(declared, *_open(declared)) for declared in source.inputs]
    version = "; ".join(version for _, version, _ in read) or None
    shared = {
        name: secret
        for declared, _, rows in read
        if declared.for_all
        for name, secret in only_row(declared, rows).items()
    }
    if making:
        _check_alike(making)
        variable = making[0].variable or (source.unit.name if source.unit else making[0].fields[0])
        gathered = UnitsBuilder(making[0].fields, making[0].auth_fields)
        for declared, _, rows in read:
            if not declared.for_all:
                gathered.take(rows, declared.filters)
        return gathered.units(variable, shared, version)
    values = source.unit.units if source.unit else (ANONYMOUS,)
    if not values:
        raise SourceError(f"source {source.name!r} has no units", "give `units`, or a secondary input")
    names = Named(frozenset(values), (source.unit.name,)) if source.unit else {}
    return Units(values, names, shared=shared, version=version)


@dataclass(frozen=True, slots=True, eq=False)
class Named(Mapping[str, Mapping[str, str]]):
    """The variables of each unit, made on demand: its value under ``names``."""

    units: Collection[str]
    names: tuple[str, ...]

    def __getitem__(self, unit: str) -> Mapping[str, str]:
        if unit not in self.units:
            raise KeyError(unit)
        return dict.fromkeys(self.names, unit) if self.names else dict(json.loads(unit))

    def __iter__(self) -> Iterator[str]:
        return iter(self.units)

    def __len__(self) -> int:
        return len(self.units)


class UnitsBuilder:
    """Collects units from rows: each value once."""

    def __init__(self, fields: tuple[str, ...], auth_fields: tuple[str, ...]) -> None:
        self._fields = fields
        self._auth_fields = auth_fields
        self._secrets_by_row: dict[Row, Row] = {}
        self._repeated = 0
        self._filtered = 0

    def take(self, rows: Iterable[Columns], filters: Mapping[str, str]) -> None:
        """Add the rows that pass the filters and have a value in every field."""
        tests = {field: _compile_test(pattern) for field, pattern in filters.items()}
        for columns in rows:
            passing = _test_rows(columns, tests)
            chosen = zip(passing, _rows(columns, self._fields), _rows(columns, self._auth_fields), strict=True)
            for passes, row, secrets in chosen:
                if passes and all(row):
                    self._add(row, secrets)
                else:
                    self._filtered += 1

    def _add(self, row: Row, secrets: Row) -> None:
        before = len(self._secrets_by_row)
        secrets_before = self._secrets_by_row.setdefault(row, secrets)
        self._repeated += len(self._secrets_by_row) == before
        if secrets_before != secrets:
            raise SourceError(
                f"unit {self._value(row)!r} has rows with different values of {', '.join(self._auth_fields)}",
                "leave one of them, or exclude the other with `filters`",
            )

    def _value(self, row: Row) -> str:
        texts = tuple(text or "" for text in row)
        return texts[0] if len(texts) == 1 else join_fields(self._fields, texts)

    def units(self, variable: str, shared: Mapping[str, Secret], version: str | None) -> Units:
        """The units, sorted by value; ``variable`` names the value of a single field."""
        units_found = {self._value(row): secrets for row, secrets in self._secrets_by_row.items()}
        names = tuple(dict.fromkeys((variable, *self._fields))) if len(self._fields) == 1 else ()
        secrets = {value: _secrets(self._auth_fields, row) for value, row in units_found.items() if row}
        # The order of rows in an input means nothing; a plan must not change with it.
        values = tuple(sorted(units_found))
        return Units(values, Named(frozenset(values), names), secrets, shared, version, self._repeated, self._filtered)


def join_fields(names: tuple[str, ...], texts: tuple[str, ...]) -> str:
    """The texts of several fields as one value: JSON, in the order of the names.

    >>> join_fields(("region", "id"), ("eu", "5"))
    '{"id":"5","region":"eu"}'
    """
    # In one order: this text is the unit's name in the state.
    return json.dumps(dict(zip(names, texts, strict=True)), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def only_row(input: SecondaryInput, rows: Iterable[Columns]) -> dict[str, Secret]:
    """The secret variables of an input with one row for every unit."""
    fields = (*input.fields, *input.auth_fields)
    tests = {field: _compile_test(pattern) for field, pattern in input.filters.items()}
    kept = [
        row
        for columns in rows
        for passes, row in zip(_test_rows(columns, tests), _rows(columns, fields), strict=True)
        if passes
    ]
    if len(kept) != 1 or not all(kept[0]):
        wrong = "its row has a field without a value" if len(kept) == 1 else f"{len(kept)} rows pass its filters"
        raise SourceError(
            f"secondary input {input.location.uri} is for all units, but {wrong}", "give it exactly one complete row"
        )
    secrets = _secrets(fields, kept[0])
    return secrets | {input.variable: secrets[input.fields[0]]} if input.variable else secrets


def _secrets(fields: Sequence[str], row: Row) -> dict[str, Secret]:
    return {field: Secret(text) for field, text in zip(fields, row, strict=True) if text is not None}


def _rows(columns: Columns, fields: Sequence[str]) -> Iterator[Row]:
    """The values of these fields, row by row."""
    return zip(*(columns[field] for field in fields), strict=True) if fields else repeat((), _count(columns))


def _count(columns: Columns) -> int:
    return len(next(iter(columns.values()), ()))


def _test_rows(columns: Columns, tests: Mapping[str, Callable[[str | None], bool]]) -> Iterator[bool]:
    """Row by row, whether every test passes."""
    results = {field: list(map(test, columns[field])) for field, test in tests.items()}
    return map(all, zip(*results.values(), strict=True)) if results else repeat(True, _count(columns))


def _compile_test(pattern: str) -> Callable[[str | None], bool]:
    """A test whether a whole text matches; null never does."""
    try:
        whole = filter_expression(pattern)
    except re.error as error:
        raise SourceError(f"filter {pattern!r} is not a regular expression: {error}", "correct `filters`") from error
    return lru_cache(_CACHED)(lambda text: text is not None and whole.fullmatch(text) is not None)


def _check_alike(inputs: Sequence[SecondaryInput]) -> None:
    """Check that several inputs with units have the same fields."""
    first = inputs[0]
    for declared in inputs[1:]:
        shape = (declared.fields, declared.auth_fields, declared.variable)
        if shape != (first.fields, first.auth_fields, first.variable):
            raise SourceError(
                f"secondary inputs {first.location.uri} and {declared.location.uri} make units of different fields",
                "give them the same `fields`, `as` and `auth_fields`",
            )


def _open(input: SecondaryInput) -> tuple[str, Iterator[Columns]]:
    """The version of an input, and its rows with every needed field."""
    from tidegate.sources.units.input_files import input_files, rows_of

    fields = tuple(dict.fromkeys((*input.fields, *input.filters, *input.auth_fields)))
    if input.format is not InputFormat.DELTA:
        files = input_files(input.location)
        return files.version, rows_of(input, files, fields)
    try:
        table = pin_table(input.location)
    except TableError as error:
        raise SourceError(f"secondary input {input.location.uri}: {error.problem}", error.remedy) from error
    if table is None:
        remedy = f"run pipeline {input.pipeline!r} first" if input.pipeline else "check `path` and `format`"
        raise SourceError(f"secondary input {input.location.uri}: there is no Delta table", remedy)
    return f"version {table.facts.version}", _read_table(input, table, fields)


def _read_table(input: SecondaryInput, table: DeltaSnapshot, fields: Sequence[str]) -> Iterator[Columns]:
    from tidegate.sources.units.input_files import NoText, check_fields, columns_of

    place = f"secondary input {input.location.uri}"
    check_fields(fields, table.columns, place)
    try:
        for batch in table.rows(fields):
            yield columns_of(batch, fields)
    except NoText as error:
        raise SourceError(f"{place}: {error}", "name fields with plain values") from error
    except TableError as error:
        raise SourceError(f"{place}: {error.problem}", error.remedy) from error
