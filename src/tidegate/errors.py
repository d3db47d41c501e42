"""Every error Tidegate raises on purpose: one tree, each with a remedy and an exit code.

::

    TidegateError                  1   anything that went wrong
    ├── ConfigError                2   the configuration file, all its problems at once; or a name given with it
    ├── EnvironmentProblem         3   this machine lacks something (Java, jars, disk space)
    ├── StorageError               4   object storage refused or failed
    │   ├── ObjectMissing              nothing at that path
    │   ├── ObjectChanged              size or etag differ from what was listed
    │   ├── ObjectExists               put-if-absent found something there
    │   ├── AccessDenied               credentials or permissions
    │   └── StorageUnavailable         time-outs, 5xx, resets (retryable)
    ├── SourceError                4   the source location or its files
    │   ├── SourceMissing              the server knows nothing at that address (404)
    │   └── UnreadPages                a response says that there is more than was read
    ├── BadRecord                  1   a source file holds something that is not a record of the schema
    ├── LimitReached               1   more bad records or failed files in a run than error_handling allows
    ├── StateError                 5   the position of a source cannot be trusted; never a fresh start
    ├── WatermarkError             5   values of a watermark column that cannot be compared, kept or lowered
    ├── TableError                 5   the table cannot take what we would write
    │   ├── UnsupportedTable           features or properties outside the allow-list
    │   ├── RowsRefused                a constraint, a transform that failed, data files that others rewrote
    │   └── SchemaMismatch             columns do not fit
    │       ├── ColumnsChanged             … since the files were written (retryable: plan again)
    │       └── ReplacesTable              … and schema_evolution is `overwrite`
    ├── CommitLost                 6   another run of this source committed first (retryable: plan again)
    ├── OutcomeUnknown             6   the log could not be read until the deadline; the next run decides
    └── RunStopped               130   the run was told to stop while tasks were reading; nothing is lost

An error passes its facts to ``Exception.__init__`` as positional arguments, so it pickles to and from workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class TidegateError(Exception):
    """What happened, to what, with which values, and what to do next."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem} - {self.remedy}" if self.remedy else self.problem


class ConfigError(TidegateError):
    """The configuration is wrong; ``problems`` has one line per problem."""

    exit_code = 2

    def __init__(self, problems: tuple[str, ...]) -> None:
        Exception.__init__(self, problems)
        self.problems = problems
        self.problem = "\n".join(problems)
        self.remedy = ""

    def __str__(self) -> str:
        return self.problem


class EnvironmentProblem(TidegateError):
    """This machine lacks something."""

    exit_code = 3


class StorageError(TidegateError):
    """Object storage refused or failed."""

    exit_code = 4


class ObjectMissing(StorageError):
    """There is nothing at that path."""


class ObjectChanged(StorageError):
    """The object is not the listed one: size or etag differ."""


class ObjectExists(StorageError):
    """Put-if-absent found an object there."""


class AccessDenied(StorageError):
    """Credentials are missing or do not allow this."""


class StorageUnavailable(StorageError):
    """The store did not respond as it should; the same call may succeed later."""

    retryable = True


class SourceError(TidegateError):
    """The source location, or what lies there, cannot be used."""

    exit_code = 4


class SourceMissing(SourceError):
    """The server responds, but has nothing at that address."""


class UnreadPages(SourceError):
    """A response says that there is more than was read; nothing of the read is kept.

    ``place`` is the field that says so, ``value`` what it has there, ``block`` the pagination that fits, ready to
    paste; empty where none was found.
    """

    def __init__(self, where: str, place: str, value: str, reason: str, block: str = "", other: str = "") -> None:
        Exception.__init__(self, where, place, value, reason, block, other)
        self.where = where
        self.place = place
        self.value = value
        self.reason = reason
        self.block = block
        self.problem = f"{where}: {place} is {value}: {reason}"
        fitting = f"write `{block}`" if block else "find out how the API pages, and describe it in `pagination`"
        fitting += " with the API's own name for `param`" if "param:" in block else ""
        self.remedy = f"this read was discarded; {fitting}{other and f', or {other}'}"


class BadRecord(TidegateError):
    """A source file contains something that is not a record of the declared schema."""

    def __init__(self, path: str, line: int, reason: str, noun: str = "line") -> None:
        Exception.__init__(self, path, line, reason, noun)
        self.path = path
        self.line = line
        self.reason = reason
        self.problem = f"{path}, {noun} {line}: {reason}"
        self.remedy = "correct the file; it is read again as soon as it has changed"


class LimitReached(TidegateError):
    """More went wrong in one run than ``error_handling`` allows; what exceeded the limit was not committed."""


class StateError(TidegateError):
    """The recorded position cannot be trusted; nothing was written."""

    exit_code = 5


class WatermarkError(TidegateError):
    """A value of a watermark column cannot be compared, kept or lowered; nothing was written."""

    exit_code = 5


class TableError(TidegateError):
    """The table cannot take what this pipeline would write."""

    exit_code = 5


class UnsupportedTable(TableError):
    """The table uses features or properties that this writer must not touch."""


class RowsRefused(TableError):
    """The rows were not written, and another try would not write them either."""


class SchemaMismatch(TableError):
    """The columns of a file and of the table do not fit."""


class ColumnsChanged(SchemaMismatch):
    """The table's types changed since the files were written; a new plan uses the new ones."""

    retryable = True


class ReplacesTable(SchemaMismatch):
    """The columns fit only if they replace the table's, which ``schema_evolution: overwrite`` allows."""


class CommitLost(TidegateError):
    """Another run of the same source committed first; what this run wrote is discarded."""

    exit_code = 6
    retryable = True


class OutcomeUnknown(TidegateError):
    """Whether the commit took effect could not be read in time; the next run decides."""

    exit_code = 6


class RunStopped(TidegateError):
    """The run was told to stop while tasks were reading; the next run reads their files again."""

    exit_code = 130


def safe_text(error: BaseException) -> str:
    """What an exception says; its class if it cannot be printed, as user code may raise it."""
    try:
        return str(error)
    except BaseException as problem:
        return f"({type(error).__name__} cannot be printed: {type(problem).__name__})"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """``error`` and those that a traceback shows behind it, each once: ``raise error from error`` makes a ring."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def nearest_own(error: TidegateError) -> TidegateError:
    """``error``, if its class stands in this module; else the same as the nearest class that does.

    User code may derive classes of its own, which need not be made or printed as ours are.
    """
    if type(error).__module__ == __name__ and isinstance(error.problem, str) and isinstance(error.remedy, str):
        return error
    problem, remedy = str(getattr(error, "problem", "")) or safe_text(error), str(getattr(error, "remedy", ""))
    kinds: list[type[TidegateError]] = [
        kind
        for kind in type(error).__mro__
        if issubclass(kind, TidegateError) and kind.__module__ == __name__ and kind not in (ConfigError, BadRecord)
    ]
    return kinds[0](problem, remedy)


def to_json(error: TidegateError) -> dict[str, object]:
    """An error as JSON types, for the way from a task to the driver."""
    return {"error": type(error).__name__, "arguments": list(error.args)}


def from_json(data: Mapping[str, Any]) -> TidegateError:
    """The error that :func:`to_json` wrote; a plain one if its class is unknown here."""
    kinds = [TidegateError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    known = {kind.__name__: kind for kind in kinds}
    return known.get(str(data["error"]), TidegateError)(*data["arguments"])
