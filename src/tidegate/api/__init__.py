"""What the command line does, as functions that take values and return values.

``config`` is the path of a YAML file, YAML text with a line break in it, or a :class:`ProjectSpec`. Imports that cost
time happen inside the functions: ``plan``, ``status`` and ``show_watermarks`` never load pyspark.
"""

from tidegate.api.doctor import doctor
from tidegate.api.experiments import chaos, demo
from tidegate.api.importing import import_properties
from tidegate.api.ledger import compact_ledger, export_ledger, files
from tidegate.api.letters import discard_letters, list_letters, retry_letters
from tidegate.api.looking import plan, serve, status
from tidegate.api.opening import Config, Mode, agreed, load, parallelism_of
from tidegate.api.repairing import adopt, reconcile, recover, replay
from tidegate.api.replaying import replay_range
from tidegate.api.running import run
from tidegate.api.schemas import diff_schema, infer_schema, replace_schema, show_schema
from tidegate.api.staging import adopt_files, commit
from tidegate.api.tables import checkpoint_table, optimize_table, vacuum_table, widen_table
from tidegate.api.units import reset_units, retry_units, unit, units
from tidegate.api.watermarks import reset_watermark, set_watermark, show_watermarks, watermark_history

__all__ = [
    "Config",
    "Mode",
    "adopt",
    "adopt_files",
    "agreed",
    "chaos",
    "checkpoint_table",
    "commit",
    "compact_ledger",
    "demo",
    "diff_schema",
    "discard_letters",
    "doctor",
    "export_ledger",
    "files",
    "import_properties",
    "infer_schema",
    "list_letters",
    "load",
    "optimize_table",
    "parallelism_of",
    "plan",
    "reconcile",
    "recover",
    "replace_schema",
    "replay",
    "replay_range",
    "reset_units",
    "reset_watermark",
    "retry_letters",
    "retry_units",
    "run",
    "serve",
    "set_watermark",
    "show_schema",
    "show_watermarks",
    "status",
    "unit",
    "units",
    "vacuum_table",
    "watermark_history",
    "widen_table",
]
