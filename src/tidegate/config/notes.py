"""Keys that this release does not act on and refuses, keys that another kind of source has, and keys of other systems
that mean nothing here: tables and what reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.config.problems import Problem, problem
from tidegate.config.source_kinds import is_followed_by_columns, is_of_units, is_prefix_of_files, kinds_of_watermark
from tidegate.config.tree import Block, Loc, Scalar, find, path_of
from tidegate.config.unit_notes import unit_notices
from tidegate.config.words import WHOLE, backward
from tidegate.specs.masking import MASK, SHORTEST, looks_secret

_COLUMNS = "give the source a 'type' such as delta, or a 'connection'"
_APPEND = "rows of files are appended; allowed: 'load_type: append'"

REFUSED: dict[str, dict[str, str]] = {
    "": {},
    "pipeline": {},
    "source": {
        "watermark_operator": "other operators; remove it, look-back and replay read the lower bound itself too",
    },
    "sink": {},
}

NOT_FOR_FILES: dict[str, dict[str, str]] = {
    "source": dict.fromkeys(
        (
            "watermark_columns",
            "watermark_mode",
            "filter_expression",
            "safety_lag",
            "future_tolerance",
            "null_watermark",
            "source_timezone",
            "timezone",
            "configure",
            "backward",
            "table",
            "query",
            "function",
            "records",
            "pagination",
        ),
        _COLUMNS,
    ),
    "sink": dict.fromkeys(
        (
            "merge_keys",
            "tie_break",
            "replace_by_watermark",
            "max_delete_fraction",
            "allow_empty_window",
            "deduplicate",
            "window_columns",
            "scd2_effective_column",
            "scd2_attributes",
        ),
        _APPEND,
    ),
}
"""Keys of sources that are followed by columns, and of their tables."""

WATERMARK_ONLY = ("late_files", "late_window", "late_window_total", "lateness", "deep_listing_every")
"""Keys of a source that mean something only with ``use_watermark: true``."""

NEEDS_COLUMNS = ("watermark_mode", "safety_lag", "future_tolerance", "null_watermark", "backward")
"""Keys of a source that mean something only with ``watermark_columns``."""

_SECRET_BLOCKS = ("auth", "headers", "properties", "options", "storage_options", "body")

MEANINGLESS = {("global", "connection_pooling"): "connections are always pooled"}


@dataclass(slots=True)
class Notes:
    """What was found; ``settled`` places need no further problem."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    settled: list[tuple[str | int, ...]] = field(default_factory=list)

    def covers(self, loc: Loc) -> bool:
        """Whether ``loc`` is at or below a place that is reported already."""
        return any(tuple(loc[: len(done)]) == done for done in self.settled)


def take_notes(root: Block, settled: list[tuple[str, ...]]) -> Notes:
    """Refused keys, notices and meaningless keys; the last are removed from ``root``.

    ``settled`` are places that are reported already.
    """
    notes = Notes(settled=[*settled])
    _refuse(root, (), REFUSED[""], notes)
    for name, _ in root.blocks("connections"):
        _note_short_forms(root, ("connections", name, "configure"), notes)
        _note_short_secrets(root, ("connections", name), notes)
    for name, pipeline in root.blocks("pipelines"):
        where = ("pipelines", name)
        _refuse(root, where, REFUSED["pipeline"], notes)
        _refuse(root, (*where, "sink"), REFUSED["sink"], notes)
        unknown = [each for each, _ in pipeline.blocks("sources") if notes.covers((*where, "sources", each))]
        for source, block in pipeline.blocks("sources"):
            at = (*where, "sources", source)
            _note_short_secrets(root, at, notes)
            if not notes.covers(at):
                _take_source(root, at, block, notes)
            if pipeline.block("sink").text("load_type") in WHOLE and (place := backward(root, at, block)).keys:
                notes.notices.append(f"{path_of(root, place.place)}: look-back means nothing where everything is read")
            if pipeline.block("sink").text("load_type") in WHOLE and block.get("safety_lag") is not None:
                notes.notices.append(f"{path_of(root, (*at, 'safety_lag'))} means nothing where everything is read")
        kinds = [is_prefix_of_files(block) for each, block in pipeline.blocks("sources") if each not in unknown]
        if kinds and all(kinds):
            _refuse(root, (*where, "sink"), NOT_FOR_FILES["sink"], notes, "not for file sources")
    _drop_meaningless(root, notes)
    return notes


def _refuse(
    root: Block, where: tuple[str, ...], keys: Mapping[str, str], notes: Notes, how: str = "not supported yet"
) -> None:
    block = find(root, where)
    if not isinstance(block, Block):
        return
    for key, what in keys.items():
        if block.get(key) is not None:
            notes.problems.append(problem(root, (*where, key), f"{how}: {what}"))
            notes.settled.append((*where, key))


def _take_source(root: Block, where: tuple[str, ...], source: Block, notes: Notes) -> None:
    kinds = kinds_of_watermark(source)
    if len(kinds) > 1:
        text = f"two kinds of watermark at once ({', '.join(kinds)}); allowed: one per source"
        notes.problems.append(problem(root, (*where, kinds[1]), text))
        notes.settled.append(where)
        return
    _refuse(root, where, REFUSED["source"], notes)
    if is_of_units(source):
        notes.notices += unit_notices(root, where, source)
    elif is_followed_by_columns(source):
        _take_column_source(root, where, source, notes)
    else:
        _refuse(root, where, NOT_FOR_FILES["source"], notes, "not for file sources")
        if kinds == ["watermark_columns"]:
            notes.settled.append(where)
        elif not kinds:
            _note_set(root, where, source, notes)


def _take_column_source(root: Block, where: tuple[str, ...], source: Block, notes: Notes) -> None:
    """Files that are tracked by their paths are another kind of source."""
    if source.get("use_watermark") is not None:
        kind = source.text("type")
        text = f"is for sources of the type files; set type: files and format: {kind}, or give watermark_columns"
        notes.problems.append(problem(root, (*where, "use_watermark"), text))
        notes.settled.append((*where, "use_watermark"))
    for place in (where, (*where, "configure")):
        _note_short_forms(root, place, notes)
    if source.get("watermark_columns") is not None:
        return
    for key in NEEDS_COLUMNS:
        if source.get(key) is not None:
            notes.notices.append(f"{path_of(root, (*where, key))} means nothing without watermark_columns")


def _note_short_forms(root: Block, where: tuple[str, ...], notes: Notes) -> None:
    """``backward_days`` beside ``backward: {days: …}``."""
    block = find(root, where)
    for key in block.block("backward") if isinstance(block, Block) else ():
        short = f"backward_{key}"
        if isinstance(block, Block) and block.get(short) is not None:
            notes.notices.append(f"{path_of(root, (*where, short))} means nothing beside backward.{key}")


def _note_short_secrets(root: Block, where: tuple[str, ...], notes: Notes) -> None:
    """Secrets that would be found inside ordinary words, so that messages are not rid of them."""
    holder = find(root, where)
    for key, value in holder.items() if isinstance(holder, Block) else ():
        at = (*where, str(key))
        if isinstance(value, Block) and key in _SECRET_BLOCKS:
            _note_short_secrets(root, at, notes)
        elif isinstance(value, Scalar) and looks_secret(str(key)) and _is_short(value):
            notes.notices.append(
                f"{path_of(root, at)} has fewer than {SHORTEST} characters: in messages of others it cannot be told "
                "from ordinary words, and may show there; use a longer secret"
            )


def _is_short(secret: Scalar) -> bool:
    return not secret.broken and secret != MASK and 0 < len(secret) < SHORTEST


def _note_set(root: Block, where: tuple[str, ...], source: Block, notes: Notes) -> None:
    """What is said about watermarks where there are none."""
    if source.get("partition_filter") is not None:
        text = "bounds the first run of watermarks, and this source has none; set use_watermark: true, or remove it"
        notes.problems.append(problem(root, (*where, "partition_filter"), text))
        notes.settled.append((*where, "partition_filter"))
    for key in WATERMARK_ONLY:
        if source.get(key) is not None:
            notes.notices.append(f"{path_of(root, (*where, key))} means nothing without use_watermark: true")


def _drop_meaningless(root: Block, notes: Notes) -> None:
    for loc, why in MEANINGLESS.items():
        *above, last = loc
        holder = find(root, above)
        if isinstance(holder, Block) and last in holder:
            notes.notices.append(f"{path_of(root, loc)} means nothing here and is ignored: {why}")
            fresh = holder.copy()
            fresh.drop(last)
            root[above[0]] = fresh
