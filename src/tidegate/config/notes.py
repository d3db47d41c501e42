"""What a file says that is not acted on: keys that are refused by name, and notices of keys that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.config.column_source import backward, note_columns, note_short_forms
from tidegate.config.document import Block, Scalar, Spot, Where, path_of
from tidegate.config.file_source import note_files
from tidegate.config.load_strategy import STRATEGY_KEYS, WHOLE
from tidegate.config.normal_form import is_followed_by_columns, is_of_units, is_prefix_of_files, kinds_of_watermark
from tidegate.config.problems import Notes
from tidegate.config.work_units import unit_notices
from tidegate.masking import MASK, SHORTEST, looks_secret

_COLUMNS = "give the source a 'type' such as delta, or a 'connection'"
_APPEND = "rows of files are appended; allowed: 'load_type: append'"
REFUSED: dict[str, dict[str, str]] = {
    "source": {
        "watermark_operator": "other operators; remove it, look-back and replay read the lower bound itself too",
    },
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
    "sink": dict.fromkeys(STRATEGY_KEYS, _APPEND),
}
"""Keys of column sources, and of their tables."""

_SECRET_BLOCKS = ("auth", "headers", "properties", "options", "storage_options", "body")
MEANINGLESS = {("global", "connection_pooling"): "connections are always pooled"}


def take_notes(root: Block, settled: list[Where]) -> Notes:
    """Refused keys, notices and meaningless keys; the last are removed from ``root``.

    ``settled`` are places that are reported already.
    """
    notes = Notes(settled=[*settled])
    top = Spot(root, (), root)
    for _, connection in top.each("connections"):
        note_short_forms(connection.below("configure"), notes)
        _note_short_secrets(connection, notes)
    for _, pipeline in top.each("pipelines"):
        sink = pipeline.below("sink")
        known = {name: source for name, source in pipeline.each("sources") if not notes.covers(source.loc)}
        for name, source in pipeline.each("sources"):
            _note_short_secrets(source, notes)
            if name in known:
                _take_source(source, notes)
            if sink.text("load_type") in WHOLE and (found := backward(source)).keys:
                place = path_of(root, found.place)
                notes.notices.append(f"{place}: look-back means nothing where everything is read")
            if sink.text("load_type") in WHOLE and source.has("safety_lag"):
                notes.notices.append(f"{source.path('safety_lag')} means nothing where everything is read")
        if known and all(is_prefix_of_files(source.block) for source in known.values()):
            _refuse(sink, NOT_FOR_FILES["sink"], notes, "not for file sources")
    _drop_meaningless(root, notes)
    return notes


def _refuse(block: Spot, keys: Mapping[str, str], notes: Notes, how: str) -> None:
    for key, what in keys.items():
        if block.has(key):
            notes.add(block.problem(f"{how}: {what}", key), (*block.loc, key))


def _take_source(source: Spot, notes: Notes) -> None:
    kinds = kinds_of_watermark(source.block)
    if len(kinds) > 1:
        text = f"two kinds of watermark at once ({', '.join(kinds)}); allowed: one per source"
        notes.add(source.problem(text, kinds[1]), source.loc)
        return
    _refuse(source, REFUSED["source"], notes, "not supported yet")
    if is_of_units(source.block):
        notes.notices += unit_notices(source)
    elif is_followed_by_columns(source.block):
        note_columns(source, notes)
    else:
        _refuse(source, NOT_FOR_FILES["source"], notes, "not for file sources")
        if kinds == ["watermark_columns"]:
            notes.settled.append(source.loc)
        elif not kinds:
            note_files(source, notes)


def _note_short_secrets(holder: Spot, notes: Notes) -> None:
    """Secrets that would be found inside ordinary words, so that messages are not rid of them."""
    for key, value in holder.block.items():
        if isinstance(value, Block) and key in _SECRET_BLOCKS:
            _note_short_secrets(holder.below(key), notes)
        elif isinstance(value, Scalar) and looks_secret(str(key)) and _is_short(value):
            notes.notices.append(
                f"{holder.path(key)} has fewer than {SHORTEST} characters: in messages of others it cannot be told "
                "from ordinary words, and may show there; use a longer secret"
            )


def _is_short(secret: Scalar) -> bool:
    return not secret.broken and secret != MASK and 0 < len(secret) < SHORTEST


def _drop_meaningless(root: Block, notes: Notes) -> None:
    for (above, last), why in MEANINGLESS.items():
        holder = root.get(above)
        if isinstance(holder, Block) and last in holder:
            notes.notices.append(f"{path_of(root, (above, last))} means nothing here and is ignored: {why}")
            root[above] = holder.copy()
            root.block(above).drop(last)
