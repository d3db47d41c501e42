"""The columns of a pipeline: inferred, shown, compared, replaced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.api.opening import Config, agreed, places_of
from tidegate.reports.schema import SchemaDiff, SchemaInference, SchemaView, TableRewrite


def infer_schema(
    config: Config,
    pipeline: str,
    source: str | None = None,
    *,
    sample: int = 1000,
    update: bool = False,
    confirm: Callable[[SchemaInference], bool] = agreed,
) -> SchemaInference:
    """What the first ``sample`` lines of each of up to ten files say about the columns. Touches nothing.

    With ``update``, fields that the remembered schema of the pipeline lacks are added to it if ``confirm`` agrees.
    """
    from tidegate.commands.schema import inferred, updated

    place = places_of(config, pipeline, source)[0]
    now = datetime.now(UTC)
    return updated(place, now, sample, confirm) if update else inferred(place, now, sample)


def show_schema(config: Config, pipeline: str) -> SchemaView:
    """The declared, the remembered and the table's columns of a pipeline, side by side. Touches nothing."""
    from tidegate.commands.schema import shown

    return shown(places_of(config, pipeline, None)[0])


def diff_schema(config: Config, pipeline: str) -> SchemaDiff:
    """What the next run would do about the columns of its table. Touches nothing."""
    from tidegate.commands.schema import compared

    return compared(places_of(config, pipeline, None)[0])


def replace_schema(config: Config, pipeline: str, *, confirm: Callable[[TableRewrite], bool] = agreed) -> TableRewrite:
    """Give a table exactly the columns of its pipeline, without a row, if ``confirm`` agrees; the position stays.

    For ``schema_evolution: overwrite`` only. One commit by the ordinary protocol; ``CommitLost`` when another run was
    first.
    """
    from tidegate.commands.schema import replace_columns

    return replace_columns(places_of(config, pipeline, None)[0], confirm)
