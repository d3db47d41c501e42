"""The process from which Spark forks its Python workers, with everything a task needs already loaded.

Spark ends workers that were idle for a minute, so a run that polls would load its modules anew in every poll: a second
of each core. Loaded before the fork they are shared. Workers collect garbage after each task; what is loaded here is
frozen, so that they need not scan it every time. Nothing here may open a client or start a thread: neither survives a
fork.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401  # Spark's own workers load it for Arrow functions
from pyspark.daemon import manager

from tidegate.parquet.parquet_file import keep_memory

if __name__ == "__main__":
    keep_memory()
    gc.collect()
    gc.freeze()
    manager()
