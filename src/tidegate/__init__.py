"""Tidegate moves only what is new into Delta Lake tables, exactly once, on Apache Spark.

>>> import tidegate
>>> report = tidegate.run("pipelines.yml")      # doctest: +SKIP
>>> tidegate.status("pipelines.yml")            # doctest: +SKIP

A name is imported from its module on first use: ``import tidegate`` costs next to nothing, and a command loads only
what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError as ConfigError
from tidegate.errors import TidegateError as TidegateError

if TYPE_CHECKING:
    from tidegate.commands.adopt import adopt as adopt
    from tidegate.commands.adopt import import_properties as import_properties
    from tidegate.commands.chaos import chaos as chaos
    from tidegate.commands.column_replay import replay_range as replay_range
    from tidegate.commands.commit import adopt_files as adopt_files
    from tidegate.commands.commit import commit as commit
    from tidegate.commands.dead_letters import discard_letters as discard_letters
    from tidegate.commands.dead_letters import list_letters as list_letters
    from tidegate.commands.dead_letters import retry_letters as retry_letters
    from tidegate.commands.demo import demo as demo
    from tidegate.commands.doctor import doctor as doctor
    from tidegate.commands.files import compact_ledger as compact_ledger
    from tidegate.commands.files import export_ledger as export_ledger
    from tidegate.commands.files import files as files
    from tidegate.commands.ingest import IngestOptions as IngestOptions
    from tidegate.commands.ingest import ingest as ingest
    from tidegate.commands.init import init as init
    from tidegate.commands.notify import notify as notify
    from tidegate.commands.project import load as load
    from tidegate.commands.reconcile import reconcile as reconcile
    from tidegate.commands.recover import recover as recover
    from tidegate.commands.replay import replay as replay
    from tidegate.commands.report import report as report
    from tidegate.commands.run import run as run
    from tidegate.commands.schema import diff_schema as diff_schema
    from tidegate.commands.schema import infer_schema as infer_schema
    from tidegate.commands.schema import replace_schema as replace_schema
    from tidegate.commands.schema import show_schema as show_schema
    from tidegate.commands.secret_search import search_secrets as search_secrets
    from tidegate.commands.serve import serve as serve
    from tidegate.commands.setup import set_up as set_up
    from tidegate.commands.status import plan as plan
    from tidegate.commands.status import status as status
    from tidegate.commands.table import checkpoint_table as checkpoint_table
    from tidegate.commands.table import optimize_table as optimize_table
    from tidegate.commands.table import vacuum_table as vacuum_table
    from tidegate.commands.table import widen_table as widen_table
    from tidegate.commands.units import reset_units as reset_units
    from tidegate.commands.units import retry_units as retry_units
    from tidegate.commands.units import unit as unit
    from tidegate.commands.units import units as units
    from tidegate.commands.watermark import reset_watermark as reset_watermark
    from tidegate.commands.watermark import set_watermark as set_watermark
    from tidegate.commands.watermark import show_watermarks as show_watermarks
    from tidegate.commands.watermark import watermark_history as watermark_history
    from tidegate.compat import DataFlow as DataFlow
    from tidegate.compat import MergeOverwriteStrategy as MergeOverwriteStrategy
    from tidegate.compat import run_replay as run_replay
    from tidegate.core.columns.look_back import Connection as Connection
    from tidegate.core.columns.predicates import SourceRuntime as SourceRuntime
    from tidegate.core.columns.predicates import watermark_operator as watermark_operator
    from tidegate.core.columns.replay import ReplayConfig as ReplayConfig
    from tidegate.core.watermark_text import WatermarkSerializer as WatermarkSerializer
    from tidegate.core.watermark_text import is_watermark_empty as is_watermark_empty
    from tidegate.protocol.providers import BaseMetadataProvider as BaseMetadataProvider
    from tidegate.protocol.providers import WatermarkManager as WatermarkManager
    from tidegate.protocol.store import metadata_provider as metadata_provider
    from tidegate.reports.chaos import ChaosReport as ChaosReport
    from tidegate.reports.checks import Adoption as Adoption
    from tidegate.reports.checks import Check as Check
    from tidegate.reports.commit import AdoptedFile as AdoptedFile
    from tidegate.reports.commit import CommitReport as CommitReport
    from tidegate.reports.commit import FileAdoption as FileAdoption
    from tidegate.reports.commit import RejectedUnit as RejectedUnit
    from tidegate.reports.commit import StagedSource as StagedSource
    from tidegate.reports.commit import TableCommit as TableCommit
    from tidegate.reports.ledger import FileRange as FileRange
    from tidegate.reports.ledger import FilesReport as FilesReport
    from tidegate.reports.ledger import FileTotals as FileTotals
    from tidegate.reports.ledger import IngestedFile as IngestedFile
    from tidegate.reports.ledger import LedgerCompaction as LedgerCompaction
    from tidegate.reports.ledger import LedgerExport as LedgerExport
    from tidegate.reports.ledger import LedgerGap as LedgerGap
    from tidegate.reports.messages import MessageDelivery as MessageDelivery
    from tidegate.reports.messages import NotifyReport as NotifyReport
    from tidegate.reports.overview import DayCount as DayCount
    from tidegate.reports.overview import NextRun as NextRun
    from tidegate.reports.overview import ProjectReport as ProjectReport
    from tidegate.reports.overview import ReasonCount as ReasonCount
    from tidegate.reports.overview import SourceOverview as SourceOverview
    from tidegate.reports.plan import ColumnSourcePlan as ColumnSourcePlan
    from tidegate.reports.plan import PartitionLine as PartitionLine
    from tidegate.reports.plan import PlannedUnits as PlannedUnits
    from tidegate.reports.plan import SkippedWork as SkippedWork
    from tidegate.reports.plan import SourcePlan as SourcePlan
    from tidegate.reports.plan import UnitSourcePlan as UnitSourcePlan
    from tidegate.reports.plan import UnreadTable as UnreadTable
    from tidegate.reports.project import DemoReport as DemoReport
    from tidegate.reports.project import InitReport as InitReport
    from tidegate.reports.project import PropertiesImport as PropertiesImport
    from tidegate.reports.project import PropertyNote as PropertyNote
    from tidegate.reports.reconcile import FoundDataFile as FoundDataFile
    from tidegate.reports.reconcile import FoundDataFiles as FoundDataFiles
    from tidegate.reports.reconcile import FoundFiles as FoundFiles
    from tidegate.reports.reconcile import ReconcileReport as ReconcileReport
    from tidegate.reports.reconcile import SourceComparison as SourceComparison
    from tidegate.reports.reconcile import TableComparison as TableComparison
    from tidegate.reports.replay import ChunkReport as ChunkReport
    from tidegate.reports.replay import ColumnReplayReport as ColumnReplayReport
    from tidegate.reports.replay import LettersReport as LettersReport
    from tidegate.reports.replay import ReplayReport as ReplayReport
    from tidegate.reports.run import IngestReport as IngestReport
    from tidegate.reports.run import RunReport as RunReport
    from tidegate.reports.run import SourceReport as SourceReport
    from tidegate.reports.status import FailedFile as FailedFile
    from tidegate.reports.status import FailedUnit as FailedUnit
    from tidegate.reports.status import SourceStatus as SourceStatus
    from tidegate.reports.status import WorkProgress as WorkProgress
    from tidegate.reports.table import ColumnSeen as ColumnSeen
    from tidegate.reports.table import SchemaChange as SchemaChange
    from tidegate.reports.table import SchemaColumn as SchemaColumn
    from tidegate.reports.table import SchemaDiff as SchemaDiff
    from tidegate.reports.table import SchemaInference as SchemaInference
    from tidegate.reports.table import SchemaView as SchemaView
    from tidegate.reports.table import TableCareReport as TableCareReport
    from tidegate.reports.table import TableRewrite as TableRewrite
    from tidegate.reports.units import UnitLine as UnitLine
    from tidegate.reports.units import UnitList as UnitList
    from tidegate.reports.units import UnitsMove as UnitsMove
    from tidegate.reports.units import UnitView as UnitView
    from tidegate.reports.units import WorkUnitLine as WorkUnitLine
    from tidegate.reports.watermark import FileSet as FileSet
    from tidegate.reports.watermark import PositionView as PositionView
    from tidegate.reports.watermark import WatermarkHistory as WatermarkHistory
    from tidegate.reports.watermark import WatermarkMove as WatermarkMove
    from tidegate.reports.watermark import WatermarkView as WatermarkView
    from tidegate.sources.reader import UnitRequest as UnitRequest
    from tidegate.spark.filters import apply_watermark_filter as apply_watermark_filter
    from tidegate.specs.columns import AuthKind as AuthKind
    from tidegate.specs.columns import ColumnSource as ColumnSource
    from tidegate.specs.columns import CsvOptions as CsvOptions
    from tidegate.specs.columns import FunctionRead as FunctionRead
    from tidegate.specs.columns import HttpAuth as HttpAuth
    from tidegate.specs.columns import HttpRead as HttpRead
    from tidegate.specs.columns import JdbcRead as JdbcRead
    from tidegate.specs.columns import Load as Load
    from tidegate.specs.columns import LoadType as LoadType
    from tidegate.specs.columns import LookBack as LookBack
    from tidegate.specs.columns import NullWatermark as NullWatermark
    from tidegate.specs.columns import Pagination as Pagination
    from tidegate.specs.columns import PaginationKind as PaginationKind
    from tidegate.specs.columns import ParamFormat as ParamFormat
    from tidegate.specs.columns import RateLimit as RateLimit
    from tidegate.specs.columns import Retries as Retries
    from tidegate.specs.columns import RowReader as RowReader
    from tidegate.specs.columns import TableFormat as TableFormat
    from tidegate.specs.columns import TableRead as TableRead
    from tidegate.specs.columns import WatermarkMode as WatermarkMode
    from tidegate.specs.columns import WatermarkParams as WatermarkParams
    from tidegate.specs.files import Compression as Compression
    from tidegate.specs.files import Format as Format
    from tidegate.specs.files import LateFiles as LateFiles
    from tidegate.specs.files import Lateness as Lateness
    from tidegate.specs.files import PartitionFilter as PartitionFilter
    from tidegate.specs.files import PathSource as PathSource
    from tidegate.specs.files import Tracking as Tracking
    from tidegate.specs.locations import Location as Location
    from tidegate.specs.locations import Options as Options
    from tidegate.specs.locations import Secret as Secret
    from tidegate.specs.notify import DestinationSpec as DestinationSpec
    from tidegate.specs.notify import MessageFormat as MessageFormat
    from tidegate.specs.notify import MessageReason as MessageReason
    from tidegate.specs.notify import NotifySpec as NotifySpec
    from tidegate.specs.project import Delivery as Delivery
    from tidegate.specs.project import EngineKind as EngineKind
    from tidegate.specs.project import ErrorHandling as ErrorHandling
    from tidegate.specs.project import OnBadRecord as OnBadRecord
    from tidegate.specs.project import OnConflict as OnConflict
    from tidegate.specs.project import PipelineSpec as PipelineSpec
    from tidegate.specs.project import ProjectSpec as ProjectSpec
    from tidegate.specs.project import ProviderKind as ProviderKind
    from tidegate.specs.project import SparkSpec as SparkSpec
    from tidegate.specs.project import StagingSpec as StagingSpec
    from tidegate.specs.project import StateSpec as StateSpec
    from tidegate.specs.project import TableBlock as TableBlock
    from tidegate.specs.project import TransformSpec as TransformSpec
    from tidegate.specs.table import Evolution as Evolution
    from tidegate.specs.table import FieldSpec as FieldSpec
    from tidegate.specs.table import Maintenance as Maintenance
    from tidegate.specs.table import Numbers as Numbers
    from tidegate.specs.table import ParquetCodec as ParquetCodec
    from tidegate.specs.table import PartitionBy as PartitionBy
    from tidegate.specs.table import SchemaSpec as SchemaSpec
    from tidegate.specs.table import SinkSpec as SinkSpec
    from tidegate.specs.table_block import TableRefusal as TableRefusal
    from tidegate.specs.table_block import TableRules as TableRules
    from tidegate.specs.table_block import TableSelection as TableSelection
    from tidegate.specs.table_block import WithoutWatermark as WithoutWatermark
    from tidegate.specs.units import Bounding as Bounding
    from tidegate.specs.units import FileFormat as FileFormat
    from tidegate.specs.units import FileRead as FileRead
    from tidegate.specs.units import InputFormat as InputFormat
    from tidegate.specs.units import NotFound as NotFound
    from tidegate.specs.units import PartialPartition as PartialPartition
    from tidegate.specs.units import PartitionKind as PartitionKind
    from tidegate.specs.units import RangeParam as RangeParam
    from tidegate.specs.units import Replace as Replace
    from tidegate.specs.units import Rounding as Rounding
    from tidegate.specs.units import SecondaryInput as SecondaryInput
    from tidegate.specs.units import Span as Span
    from tidegate.specs.units import SubRange as SubRange
    from tidegate.specs.units import TimeRange as TimeRange
    from tidegate.specs.units import TimeWatermark as TimeWatermark
    from tidegate.specs.units import UnitSource as UnitSource
    from tidegate.specs.units import UnitWatermark as UnitWatermark
    from tidegate.specs.units import WorkUnits as WorkUnits

__version__ = "0.1.0"

_NAMES = {
    "commands.adopt": "adopt import_properties",
    "commands.chaos": "chaos",
    "commands.column_replay": "replay_range",
    "commands.commit": "adopt_files commit",
    "commands.dead_letters": "discard_letters list_letters retry_letters",
    "commands.demo": "demo",
    "commands.doctor": "doctor",
    "commands.files": "compact_ledger export_ledger files",
    "commands.ingest": "IngestOptions ingest",
    "commands.init": "init",
    "commands.notify": "notify",
    "commands.reconcile": "reconcile",
    "commands.recover": "recover",
    "commands.replay": "replay",
    "commands.report": "report",
    "commands.run": "run",
    "commands.secret_search": "search_secrets",
    "commands.schema": "diff_schema infer_schema replace_schema show_schema",
    "commands.project": "load",
    "commands.setup": "set_up",
    "commands.serve": "serve",
    "commands.status": "plan status",
    "commands.table": "checkpoint_table optimize_table vacuum_table widen_table",
    "commands.units": "reset_units retry_units unit units",
    "commands.watermark": "reset_watermark set_watermark show_watermarks watermark_history",
    "compat": "DataFlow MergeOverwriteStrategy run_replay",
    "core.columns.look_back": "Connection",
    "core.columns.predicates": "SourceRuntime watermark_operator",
    "core.columns.replay": "ReplayConfig",
    "core.watermark_text": "WatermarkSerializer is_watermark_empty",
    "protocol.providers": "BaseMetadataProvider WatermarkManager",
    "protocol.store": "metadata_provider",
    "reports.chaos": "ChaosReport",
    "reports.checks": "Adoption Check",
    "reports.commit": "AdoptedFile CommitReport FileAdoption RejectedUnit StagedSource TableCommit",
    "reports.ledger": "FileRange FileTotals FilesReport IngestedFile LedgerCompaction LedgerExport LedgerGap",
    "reports.messages": "MessageDelivery NotifyReport",
    "reports.overview": "DayCount NextRun ProjectReport ReasonCount SourceOverview",
    "reports.plan": "ColumnSourcePlan PartitionLine PlannedUnits SkippedWork SourcePlan UnitSourcePlan UnreadTable",
    "reports.project": "DemoReport InitReport PropertiesImport PropertyNote",
    "reports.reconcile": "FoundDataFile FoundDataFiles FoundFiles ReconcileReport SourceComparison TableComparison",
    "reports.replay": "ChunkReport ColumnReplayReport LettersReport ReplayReport",
    "reports.run": "IngestReport RunReport SourceReport",
    "reports.status": "FailedFile FailedUnit SourceStatus WorkProgress",
    "reports.table": (
        "ColumnSeen SchemaChange SchemaColumn SchemaDiff SchemaInference SchemaView TableCareReport TableRewrite"
    ),
    "reports.units": "UnitLine UnitList UnitView UnitsMove WorkUnitLine",
    "reports.watermark": "FileSet PositionView WatermarkHistory WatermarkMove WatermarkView",
    "sources.reader": "UnitRequest",
    "spark.filters": "apply_watermark_filter",
    "specs.columns": (
        "AuthKind ColumnSource CsvOptions FunctionRead HttpAuth HttpRead JdbcRead Load LoadType LookBack "
        "NullWatermark Pagination PaginationKind ParamFormat RateLimit Retries RowReader "
        "TableFormat TableRead WatermarkMode WatermarkParams"
    ),
    "specs.locations": "Location Options Secret",
    "specs.files": "Compression Format LateFiles Lateness PartitionFilter PathSource Tracking",
    "specs.notify": "DestinationSpec MessageFormat MessageReason NotifySpec",
    "specs.project": (
        "Delivery EngineKind ErrorHandling OnBadRecord OnConflict PipelineSpec ProjectSpec ProviderKind SparkSpec "
        "StagingSpec StateSpec TableBlock TransformSpec"
    ),
    "specs.table": "Evolution FieldSpec Maintenance Numbers ParquetCodec PartitionBy SchemaSpec SinkSpec",
    "specs.table_block": "TableRefusal TableRules TableSelection WithoutWatermark",
    "specs.units": (
        "Bounding FileFormat FileRead InputFormat NotFound PartialPartition PartitionKind RangeParam Replace "
        "Rounding SecondaryInput Span SubRange TimeRange TimeWatermark UnitSource UnitWatermark WorkUnits"
    ),
}
"""The public names by module; type checkers read the imports above, which a test compares."""

_HOMES = {name: f"tidegate.{module}" for module, names in _NAMES.items() for name in names.split()}

_ROOMS = frozenset(["compat", "core", "observe", "protocol", "reports", "schema", "sources", "spark", "specs"])
"""Packages that ``import tidegate`` alone makes available."""

__all__ = sorted(["ConfigError", "TidegateError", "__version__", *_HOMES])


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
