"""What a file says that is not acted on: keys that are refused by name, and notices of keys that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.config.column_source import backward, note_columns, note_short_forms
from tidegate.config.document import Block, Scalar, find, path_of, problem
from tidegate.config.file_source import note_files
from tidegate.config.load_strategy import STRATEGY_KEYS, WHOLE
from tidegate.config.normal_form import is_followed_by_columns, is_of_units, is_prefix_of_files, kinds_of_watermark
from tidegate.config.problems import Notes
from tidegate.config.work_units import unit_notices
from tidegate.masking import MASK, SHORTEST, looks_secret

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
    "sink": dict.fromkeys(STRATEGY_KEYS, _APPEND),
}
"""Keys of column sources, and of their tables."""

_SECRET_BLOCKS = ("auth", "headers", "properties", "options", "storage_options", "body")
MEANINGLESS = {("global", "connection_pooling"): "connections are always pooled"}


def take_notes(root: Block, settled: list[tuple[str, ...]]) -> Notes:
    """Refused keys, notices and meaningless keys; the last are removed from ``root``.

    ``settled`` are places that are reported already.
    """
    notes = Notes(settled=[*settled])
    _refuse(root, (), REFUSED[""], notes)
    for name, _ in root.blocks("connections"):
        note_short_forms(root, ("connections", name, "configure"), notes)
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
        note_columns(root, where, source, notes)
    else:
        _refuse(root, where, NOT_FOR_FILES["source"], notes, "not for file sources")
        if kinds == ["watermark_columns"]:
            notes.settled.append(where)
        elif not kinds:
            note_files(root, where, source, notes)


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


def _drop_meaningless(root: Block, notes: Notes) -> None:
    for loc, why in MEANINGLESS.items():
        *above, last = loc
        holder = find(root, above)
        if isinstance(holder, Block) and last in holder:
            notes.notices.append(f"{path_of(root, loc)} means nothing here and is ignored: {why}")
            fresh = holder.copy()
            fresh.drop(last)
            root[above[0]] = fresh
